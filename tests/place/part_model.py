"""A second, plain reading of rules V1 to V16: what the scheduler has to answer to a case of part V."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from tests.place.asking import Plain
from tests.place.part_cases import request_count

SHARE = "huawei.com/scheduler.softShareDev."
ASCEND910, REAL, CORES = "huawei.com/Ascend910", "huawei.com/AscendReal", "huawei.com/npu-core"
SOFT_LABEL, MEMORY_LABEL = "huawei.com/scheduler.chip1softsharedev.enable", "mind-cluster/npu-chip-memory"
CHIP_NAME = "node.kubernetes.io/npu.chip.name"
CHIPS = (ASCEND910, "huawei.com/Ascend310P", "huawei.com/npu")
POLICIES = ("fixed-share", "elastic", "best-effort")
FAMILIES = {"310P": "huawei-Ascend310P", "910": "huawei-Ascend910"}
RINGS = {"ascend-310P": "310P", **dict.fromkeys(("ascend-910", "ascend-910b", "huawei.com.npu"), "910")}


class Template(NamedTuple):
    cores: int
    cpus: int
    dvpp: str = "null"


class Kind(NamedTuple):
    """A kind of chip that the driver divides."""

    family: str
    cores: int
    cpus: int
    templates: dict[str, Template]

    def takes(self, count: int) -> bool:
        sizes = {one.cores for name, one in self.templates.items() if name != "vir03_1c_8g"}
        return count % self.cores == 0 or count in sizes

    def takes_dvpp(self, count: int, dvpp: str) -> bool:
        if self.family == "310P":
            return dvpp == "null" or count == 4 or count % self.cores == 0
        return dvpp == "null" or (self.templates is OF_910B4 and count == 10)

    def takes_level(self, count: int, level: str) -> bool:
        return level == "low" or self.family == "310P" or (self.templates is OF_910B4 and count == 10)


OF_310P = {
    "vir01": Template(1, 1),
    "vir02": Template(2, 2),
    "vir02_1c": Template(2, 1),
    "vir04": Template(4, 4),
    "vir04_3c": Template(4, 3),
    "vir04_3c_ndvpp": Template(4, 3, "no"),
    "vir04_4c_dvpp": Template(4, 4, "yes"),
}
OF_910B1 = {"vir06_1c_16g": Template(6, 1), "vir12_3c_32g": Template(12, 3), "vir03_1c_8g": Template(3, 1)}
OF_910B3 = {"vir05_1c_16g": Template(5, 1), "vir10_3c_32g": Template(10, 3)}
OF_910B4 = {
    "vir05_1c_8g": Template(5, 1),
    "vir10_3c_16g": Template(10, 3),
    "vir10_3c_16g_nm": Template(10, 3, "no"),
    "vir10_4c_16g_m": Template(10, 4, "yes"),
}
#: By `servertype` and the name of the chip; chips of 310P and A3 may have any name.
KINDS = {
    ("Ascend310P-8", "310P3"): Kind("310P", 8, 7, OF_310P),
    ("Ascend310P-10", "310P3"): Kind("310P", 10, 7, OF_310P),
    ("Ascend910B-25", "910B1"): Kind("910", 25, 6, OF_910B1),
    ("Ascend910B-24", "910B2"): Kind("910", 24, 6, OF_910B1),
    ("Ascend910B-24", "910B2C"): Kind("910", 24, 6, OF_910B1),
    ("Ascend910B-20", "910B3"): Kind("910", 20, 6, OF_910B3),
    ("Ascend910B-20", "910B4-1"): Kind("910", 20, 6, OF_910B3),
    ("Ascend910B-20", "910B4"): Kind("910", 20, 6, OF_910B4),
    ("Ascend910A3-20", "910A3"): Kind("910", 20, 6, OF_910B3),
    ("Ascend910A3-24", "910A3"): Kind("910", 24, 6, OF_910B1),
}
SMALLER = {"vir02": "vir02_1c", "vir04": "vir04_3c"}


def kind_of(labels: dict[str, str]) -> Kind | None:
    server, name = labels["servertype"], labels[CHIP_NAME]
    any_name = {"Ascend310P": "310P3", "Ascend910A3": "910A3"}.get(server.rpartition("-")[0])
    kind = KINDS.get((server, any_name or name))
    return kind if kind is not None and FAMILIES[kind.family] == labels["accelerator"] else None


def numbers(text: str) -> list[int]:
    return [int(one.rpartition("-")[2]) for one in text.split(",") if one]


def published(node: Plain) -> set[int]:
    return {chip for name, text in node["device_info"].items() if "-" not in name for chip in numbers(text)}


def broken(node: Plain) -> set[int]:
    return {chip for name, text in node["device_info"].items() if "-" in name for chip in numbers(text)}


class Mode(NamedTuple):
    """The allocation mode of a node, or why it is closed."""

    mode: str
    closed: str = ""
    megabytes: int = 0
    kind: Kind | None = None


def offered(node: Plain, resource: str) -> dict[str, int]:
    capacities = node["capacities"] if "capacities" in node else {resource: node["capacity"]}
    return {name: count for name, count in capacities.items() if count > 0}


def mode_of(node: Plain, resource: str) -> Mode:
    """Rule V1."""
    labels, capacities = node["labels"], offered(node, resource)
    chips = [name for name in capacities if name in CHIPS]
    parts = [name for name in capacities if re.match(r"huawei\.com/Ascend[0-9P]+-", name)]
    soft, base = labels.get(SOFT_LABEL) == "true", node.get("base_chips")
    if CORES in capacities:
        if chips or parts or soft:
            return Mode("dynamic", "ways-mixed")
        if labels.get("accelerator") not in FAMILIES.values():
            return Mode("dynamic", "node-has-no-accelerator-label")
        for label, what in (("servertype", "servertype"), (CHIP_NAME, "chip-name")):
            if not labels.get(label):
                return Mode("dynamic", f"node-has-no-{what}-label")
        kind = kind_of(labels)
        if kind is None:
            return Mode("dynamic", "no-template-table-for-this-chip")
        whole = capacities[CORES] % kind.cores == 0
        return Mode("dynamic", "" if whole else "cores-not-a-multiple-of-chip", kind=kind)
    if parts and soft:
        return Mode("static", "ways-mixed")
    total = sum(capacities[name] for name in chips)
    if chips and soft:
        reported = {name.rpartition("-")[0] or name for name in node["device_info"]}
        listed = len(published(node) | broken(node)) if reported & set(chips) else 0
        fits = total == 100 * len(base) if base is not None else total % 100 == 0 <= total - 100 * listed
        if not fits:
            return Mode("soft", "soft-label-and-capacity-differ")
        if MEMORY_LABEL not in labels:
            return Mode("soft", "node-has-no-chip-memory-label")
        if re.fullmatch("[1-9][0-9]{0,5}G?", labels[MEMORY_LABEL]) is None:
            return Mode("soft", "chip-memory-label-unreadable")
        return Mode("soft", megabytes=1024 * int(labels[MEMORY_LABEL].removesuffix("G")))
    if chips and (total > 64 or (base and total % len(base) == 0 and total >= 2 * len(base))):
        return Mode("whole", "shares-without-soft-label")
    return Mode("static" if parts else "whole" if chips else "none")


# -- what a request has to be -----------------------------------------------------------------------


def refusal(case: Plain) -> str | None:
    """Rules V2, V5 and V10: why a job is refused at once."""
    request = case["request"]
    labels, annotations, resource = request["labels"], request.get("annotations", {}), request["resource"]
    if request.get("also"):
        return "several-chip-resources-in-a-pod"
    if "huawei.com/schedule_policy" in annotations and resource not in CHIPS:
        return "policy-and-resource-differ"
    if "sp-block" in annotations or labels.get("tor-affinity", "null") != "null":
        return "network-affinity-with-parts"
    return _of_share(request) if case["kind"] == "soft" else _of_vnpu(case)


def _of_share(request: Plain) -> str | None:
    labels = request["labels"]
    quotas = [labels.get(SHARE + key) for key in ("aicoreQuota", "hbmQuota", "policy")]
    if None in quotas:
        return "a-soft-sharing-label-is-missing"
    percent, megabytes, policy = map(str, quotas)
    if not all(re.fullmatch("[0-9]{1,9}", one) for one in (percent, megabytes)):
        return "quota-not-a-number"
    differing = (one for other in request.get("other_pods", ()) for one in other.items())
    for reason, applies in (
        ("aicore-quota-not-1-to-100", not 1 <= int(percent) <= 100),
        ("hbm-quota-less-than-1", int(megabytes) < 1),
        ("policy-unknown", policy not in POLICIES),
        ("request-differs-from-quota", request["count"] != int(percent)),
        ("pods-differ", any(labels[key] != value for key, value in differing)),
    ):
        if applies:
            return reason
    return None


def _of_vnpu(case: Plain) -> str | None:
    request, labels = case["request"], case["request"]["labels"]
    count, family = request["count"], RINGS.get(labels.get("ring-controller.atlas", ""))
    dvpp, level = labels.get("vnpu-dvpp", "null"), labels.get("vnpu-level", "low")
    if request["presetVirtualDevice"]:
        return "scheduler-configured-for-static-parts"
    if family is None:
        return "no-handler-for-ring-controller-label"
    if dvpp not in ("yes", "no", "null"):
        return "dvpp-word-unknown"
    modes = [mode_of(node, CORES) for node in case["nodes"]]
    present = [one.kind for one in modes if one.kind and not one.closed and one.kind.family == family]
    kinds = present or [one for one in KINDS.values() if one.family == family]
    steps: tuple[tuple[str, Callable[[Kind], bool]], ...] = (
        ("count-not-allowed", lambda kind: kind.takes(count)),
        ("dvpp-label-not-allowed-for-count", lambda kind: kind.takes_dvpp(count, dvpp)),
        ("level-label-not-allowed", lambda kind: kind.takes_level(count, level)),
    )
    for reason, takes in steps:
        kinds = list(filter(takes, kinds))
        if not kinds:
            return reason
    return None


# -- what pods hold -----------------------------------------------------------------------------------


class Holder(NamedTuple):
    """A live pod on a node; without `percent` and `template` it holds its chips entirely."""

    chips: set[int]
    settled: bool
    percent: int = 0
    megabytes: int = 0
    policy: str = ""
    same_folder: bool = False
    template: str = ""
    vgroup: str = ""


def is_live(pod: Plain) -> bool:
    return pod.get("phase", "Running") not in ("Succeeded", "Failed")


def holder_of(pod: Plain, node: Plain, mode: Mode, request: Plain) -> Holder | None:
    """Rules V3 and V4; None if it is not known what the pod holds."""
    asks: str = pod["asks"] if "asks" in pod else request["resource"]
    bound: dict[str, str] = pod["bound_with"] if "bound_with" in pod else pod["annotations"]
    count = request_count(pod, asks)
    real = pod["annotations"].get(REAL, "")
    mounted = [int(found[1]) for one in real.split(",") if (found := re.search(r"-(\d+)(_\d+)?$", one))]
    settled = "reported" in pod or (bool(mounted) and not node.get("own_plugin"))
    text = bound.get(asks, "")
    chip, _, template = text.partition("-") if asks == CORES else ("", "", "")
    named = numbers(text) if asks != CORES else numbers(chip) if re.fullmatch("[0-9,]+", chip) else []

    def chips(single: bool = False) -> set[int]:
        lists = [named, mounted]
        if "reported" in pod:
            lists = [pod["reported"]]
        elif request.get("owned_annotations") == "guarded" and mounted:
            lists = [mounted]
        return {chip for one in lists for chip in (one[:1] if single else one)}

    if mode.mode == "soft" and asks in CHIPS:
        # Of its percentage only that it can be read counts.
        percent = bound.get(SHARE + "aicoreQuota", "")
        readable = percent.isdigit() and _of_share({"labels": bound, "count": int(percent)}) is None
        if readable and len(named) == 1:
            share = int(bound[SHARE + "hbmQuota"]), bound[SHARE + "policy"]
            megabytes, policy = pod.get("reported_share", share)
            same = "job" in (pod.get("job"), "job" if pod.get("folder") == "same" else "")
            return Holder(chips(single=True), settled, count, megabytes, policy, same)
        return Holder(chips(), settled) if named and len(chips()) >= count else None
    if mode.kind is not None and asks == CORES:
        if template in mode.kind.templates and named:
            vgroup = real.rpartition("_")[2] if settled else ""
            return Holder(chips(single=True), settled, template=template, vgroup=vgroup)
        return Holder(chips(), settled) if named and not template else None
    return Holder(chips(), settled) if chips() else None


# -- what a node answers ------------------------------------------------------------------------------


class Fit(NamedTuple):
    score: int
    annotations: dict[str, str]


def on_node(case: Plain, node: Plain) -> Fit | str:
    """How well a node fits the job, or the first reason why it does not."""
    request, count, resource = case["request"], case["request"]["count"], case["request"]["resource"]
    mode = mode_of(node, resource)
    if mode.closed:
        return mode.closed
    if mode.mode == "none":
        return "node-offers-no-chips"
    if mode.mode != case["kind"]:
        return "node-in-another-way"
    labels = request["labels"]
    dvpp, level = labels.get("vnpu-dvpp", "null"), labels.get("vnpu-level", "low")
    if mode.kind is not None and not (
        mode.kind.family == RINGS[labels["ring-controller.atlas"]]
        and mode.kind.takes(count)
        and mode.kind.takes_dvpp(count, dvpp)
        and mode.kind.takes_level(count, level)
    ):
        return "chip-has-no-such-template"
    pods = [pod for pod in node["pods"] if is_live(pod)]
    # Kubelet counts static parts; they hold nothing here.
    chip_pods = [pod for pod in pods if "-" not in pod.get("asks", resource).replace(CORES, "")]
    holders = [holder_of(pod, node, mode, request) for pod in chip_pods]
    known = [one for one in holders if one is not None]
    if len(known) < len(holders):
        return "pod-of-unknown-part-on-node"
    used = sum(request_count(pod, resource) for pod in pods if pod.get("asks", resource) == resource)
    idle = node["idle"] if "idle" in node else offered(node, resource).get(resource, 0) - used
    if idle < count:
        return "idle-fewer-than-request"
    nodes = [one["name"] for one in case["nodes"] for pod in one["pods"] if "job" in pod and is_live(pod)]
    if case["kind"] == "soft" and nodes and node["name"] not in nodes:
        return "job-is-on-another-node"
    withheld = {*broken(node), *node.get("isolated", ()), *node.get("doubtful", ())}
    available = sorted(published(node) - withheld)
    if not available:
        return "no-chip-in-the-device-list"
    held: dict[int, list[Holder]] = {}
    for one in known:
        for chip in one.chips:
            held.setdefault(chip, []).append(one)
    if mode.kind is None:
        return _share_on(case, mode.megabytes, available, held, known)
    since = {
        (cut["chip"], cut["template"]) for cut in node.get("failed_cuts", ()) if cut["seconds_ago"] < 600
    }
    return _vnpu_on(mode.kind, request, idle, available, held, known, since)


def _share_on(
    case: Plain, memory: int, available: list[int], held: dict[int, list[Holder]], pods: list[Holder]
) -> Fit | str:
    """Rules V6 to V8."""
    request = case["request"]
    percent: int = request["count"]
    megabytes = int(request["labels"][SHARE + "hbmQuota"])
    policy = request["labels"][SHARE + "policy"]

    def room(chip: int) -> int:
        holders = held.get(chip, [])
        if any(one.policy != policy for one in holders):
            return 0
        by_percent = (100 - sum(one.percent for one in holders)) // percent
        return max(0, min(by_percent, (memory - sum(one.megabytes for one in holders)) // megabytes))

    fitting = [chip for chip in available if room(chip)]
    if not fitting:
        return "no-chip-has-room"
    own = [pod for node in case["nodes"] for pod in node["pods"] if "job" in pod]
    placed = sum(pod.get("phase") != "Failed" for pod in own)
    if sum(map(room, available)) < request["pods"] - placed:
        return "no-room-for-the-whole-job-on-this-node"
    wanted = percent, megabytes, policy, True
    equal = [one for one in pods if not one.settled and one.percent == percent]
    if any((one.percent, one.megabytes, one.policy, one.same_folder) != wanted for one in equal):
        return "equal-percent-not-mounted"
    left = {chip: 100 - sum(one.percent for one in held[chip]) - percent for chip in fitting if chip in held}
    chip = min(left, key=lambda one: (left[one], one)) if left else min(fitting)
    names = {request["resource"]: f"{request['resource'].rpartition('/')[2]}-{chip}"}
    names |= {SHARE + "aicoreQuota": str(percent), SHARE + "hbmQuota": str(megabytes)}
    score = 16 * (200 - left[chip]) if left else 16 * len(held)
    return Fit(score, names | {SHARE + "policy": policy})


def _vnpu_on(
    kind: Kind,
    request: Plain,
    idle: int,
    available: list[int],
    held: dict[int, list[Holder]],
    pods: list[Holder],
    failed: set[tuple[int, str]],
) -> Fit | str:
    """Rules V11 to V16."""
    count, labels = request["count"], request["labels"]
    unsettled = [one for one in pods if not one.settled]
    if count % kind.cores == 0:
        empty = [chip for chip in available if chip not in held and (chip, "*") not in failed]
        if len(empty) < count // kind.cores:
            return "no-chip-has-room"
        if unsettled:
            return "another-template-not-settled"
        return Fit(4095 - idle, {CORES: ",".join(map(str, empty[: count // kind.cores]))})

    def left(chip: int, name: str) -> tuple[int, int, int] | None:
        holders, template = held.get(chip, []), kind.templates[name]
        if {(chip, "*"), (chip, name)} & failed or not all(one.settled and one.template for one in holders):
            return None
        templates = [kind.templates[one.template] for one in holders]
        cores = kind.cores - sum(one.cores for one in templates)
        cpus = kind.cpus - sum(one.cpus for one in templates)
        excluded = {"yes": {"yes", "null"}, "null": {"yes"}, "no": set[str]()}[template.dvpp]
        if template.cores > cores or template.cpus > cpus or {one.dvpp for one in templates} & excluded:
            return None
        vgroups = len({one.vgroup for one in holders if one.vgroup}) if kind.family == "310P" else 0
        most = 1 if vgroups > 3 else 2 if vgroups == 3 else template.cores
        return (cores, cpus, chip) if template.cores <= most else None

    first = _template(kind, count, labels)
    for name, bonus in ((first, 2048), (SMALLER.get(first, ""), 0)):
        fitting = [found for chip in available if name and (found := left(chip, name)) is not None]
        if fitting:
            if any(one.template != name for one in unsettled):
                return "another-template-not-settled"
            return Fit(2047 - idle + bonus, {CORES: f"{min(fitting)[2]}-{name}"})
    return "no-chip-has-room"


def _template(kind: Kind, count: int, labels: dict[str, str]) -> str:
    """Rule V11."""
    dvpp, high = labels.get("vnpu-dvpp", "null"), labels.get("vnpu-level") == "high"
    if kind.family == "310P":
        if count == 4:
            by_dvpp = {"yes": "vir04_4c_dvpp", "no": "vir04_3c_ndvpp"}
            return by_dvpp.get(dvpp, "vir04" if high else "vir04_3c")
        return "vir01" if count == 1 else "vir02" if high else "vir02_1c"
    named = [name for name, one in kind.templates.items() if one.cores == count]
    return named[0] if len(named) == 1 else next(one for one in named if kind.templates[one].dvpp == dvpp)

"""Random cases of part V against a second, plain reading of the rules."""

from __future__ import annotations

import os
import random
from typing import Any, NamedTuple

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.messages.events import Decide
from ringwise.state.allocation_modes import NO_CHIPS
from tests.place.asking import Plain
from tests.place.part_cases import answer, code, events_of, node_object, report_object
from tests.place.test_part_cases import evicted_pods

SHARE = "huawei.com/scheduler.softShareDev."
ASCEND910, REAL, CORES = "huawei.com/Ascend910", "huawei.com/AscendReal", "huawei.com/npu-core"
MEMORY = 64 * 1024
POLICIES = ("fixed-share", "elastic", "best-effort")
#: Cores, AI CPUs and video unit of the templates of an 310P with 8 cores.
TEMPLATES = {
    "vir01": (1, 1, "null"),
    "vir02": (2, 2, "null"),
    "vir02_1c": (2, 1, "null"),
    "vir04": (4, 4, "null"),
    "vir04_3c": (4, 3, "null"),
    "vir04_3c_ndvpp": (4, 3, "no"),
    "vir04_4c_dvpp": (4, 4, "yes"),
}
SUFFIXES = {
    "vir01": "1c",
    "vir02": "2c",
    "vir02_1c": "2c.1cpu",
    "vir04": "4c",
    "vir04_3c": "4c.3cpu",
    "vir04_3c_ndvpp": "4c.3cpu.ndvpp",
    "vir04_4c_dvpp": "4c.4cpu.dvpp",
}
SMALLER = {"vir02": "vir02_1c", "vir04": "vir04_3c"}


#: Of each kind; `RINGWISE_RUNS` runs more of them.
CASES = int(os.environ.get("RINGWISE_RUNS", "60"))


class Fit(NamedTuple):
    score: int
    annotation: str


# -- soft shares ---------------------------------------------------------------------------------


def quotas(percent: object, mb: object, policy: str) -> Plain:
    return {f"{SHARE}aicoreQuota": f"{percent}", f"{SHARE}hbmQuota": f"{mb}", f"{SHARE}policy": policy}


def random_shares(chosen: random.Random, name: str, chips: int, policy: str) -> Plain:
    """A node with soft shares; some chips are not available, some pods moved to another chip."""
    listed = [chip for chip in range(chips) if chosen.random() < 0.85]
    unhealthy = [chip for chip in range(chips) if chip not in listed]
    pods: list[Plain] = []
    room = dict.fromkeys(range(chips), 100)
    memory = dict.fromkeys(room, MEMORY)
    policies = {chip: policy if chosen.random() < 0.7 else chosen.choice(POLICIES) for chip in room}
    for _ in range(chosen.randrange(6)):
        chip, percent = chosen.randrange(chips), chosen.choice([10, 20, 25, 30, 50])
        mb = chosen.choice([1000, 8000, 20_000, 40_000])
        if percent > room[chip] or mb > memory[chip]:
            continue
        notes = {ASCEND910: f"Ascend910-{chip}", **quotas(percent, mb, policies[chip])}
        real = chip if chosen.random() < 0.75 else None
        if real is not None:
            notes[REAL] = f"Ascend910-{real}"
        pod: Plain = {"annotations": notes, "phase": "Running"}
        if chosen.random() < 0.15:
            # Its owner edited what it says.
            pod["bound_with"] = notes
            pod["annotations"] = {**notes, **quotas(1, 1, chosen.choice(POLICIES))}
        if chosen.random() < 0.15:
            pod["phase"] = chosen.choice(["Succeeded", "Failed", "Pending"])
        if chosen.random() < 0.2:
            pod["folder"] = "same"
        live = pod["phase"] in ("Running", "Pending")
        room[chip] -= percent if live else 0
        memory[chip] -= mb if live else 0
        pods.append(pod)
    isolated = [chip for chip in range(chips) if chosen.random() < 0.1]
    return {
        "name": name,
        "labels": {
            "mind-cluster/npu-chip-memory": "64G",
            "huawei.com/scheduler.chip1softsharedev.enable": "true",
        },
        "capacity": 100 * chips,
        "device_info": {
            ASCEND910: ",".join(f"Ascend910-{chip}" for chip in listed),
            f"{ASCEND910}-Unhealthy": ",".join(f"Ascend910-{chip}" for chip in unhealthy),
        },
        "isolated": isolated,
        "pods": pods,
    }


def expected_share(node: Plain, percent: int, mb: int, policy: str, pods: int) -> Fit | str:
    """Rules V4 and V6 to V8."""
    used: dict[int, list[tuple[int, int, str]]] = {}
    unsettled: list[tuple[int, int, str, bool]] = []
    total = 0
    for pod in node["pods"]:
        if pod["phase"] not in ("Running", "Pending"):
            continue
        bound = pod.get("bound_with", pod["annotations"])
        held = int(bound[f"{SHARE}aicoreQuota"]), int(bound[f"{SHARE}hbmQuota"]), bound[f"{SHARE}policy"]
        total += held[0]
        chips = {int(bound[key].rpartition("-")[2]) for key in (ASCEND910, REAL) if key in bound}
        for chip in chips:
            used.setdefault(chip, []).append(held)
        if REAL not in bound:
            unsettled.append((*held, pod.get("folder") == "same"))
    if node["capacity"] - total < percent:
        return "idle-fewer-than-request"
    listed = [int(one.rpartition("-")[2]) for one in node["device_info"][ASCEND910].split(",") if one]
    available = [chip for chip in listed if chip not in node["isolated"]]
    if not available:
        return "no-chip-in-the-device-list"

    def room(chip: int) -> int:
        held = used.get(chip, [])
        if any(one[2] != policy for one in held):
            return 0
        by_percent = (100 - sum(one[0] for one in held)) // percent
        return max(0, min(by_percent, (MEMORY - sum(one[1] for one in held)) // mb))

    fitting = [chip for chip in available if room(chip)]
    if not fitting:
        return "no-chip-has-room"
    if sum(room(chip) for chip in available) < pods:
        return "no-room-for-the-whole-job-on-this-node"
    if any(one[0] == percent and one[1:] != (mb, policy, True) for one in unsettled):
        return "equal-percent-not-mounted"
    left = {chip: 100 - sum(one[0] for one in used[chip]) - percent for chip in fitting if chip in used}
    if left:
        chip = min(left, key=lambda one: (left[one], one))
        return Fit(16 * (200 - left[chip]), f"Ascend910-{chip}")
    return Fit(16 * len(used), f"Ascend910-{min(fitting)}")


@pytest.mark.parametrize("seed", range(CASES))
def test_V4_V6_V7_V8_shares(seed: int) -> None:
    chosen = random.Random(seed)
    policy, percent = chosen.choice(POLICIES), chosen.choice([10, 20, 25, 30, 50, 70, 100])
    mb, pods = chosen.choice([1, 1000, 8000, 20_000, 40_000]), chosen.choice([1, 1, 1, 2, 3])
    nodes = [random_shares(chosen, f"n{at}", chosen.randrange(1, 4), policy) for at in range(3)]
    case = {
        "kind": "soft",
        "request": {
            "resource": ASCEND910,
            "count": percent,
            "labels": quotas(percent, mb, policy),
            "annotations": {"huawei.com/schedule_policy": "chip1-softShareDev"},
            "pods": pods,
        },
        "nodes": nodes,
    }
    wanted = {node["name"]: expected_share(node, percent, mb, policy, pods) for node in nodes}
    compare(case, wanted, ASCEND910)


# -- dynamic vNPUs -------------------------------------------------------------------------------


def random_vnpus(chosen: random.Random, name: str, chips: int) -> Plain:
    listed = [chip for chip in range(chips) if chosen.random() < 0.9]
    pods: list[Plain] = []
    used = dict.fromkeys(range(chips), (0, 0))
    dvpp: dict[int, set[str]] = {chip: set() for chip in range(chips)}
    for number in range(chosen.randrange(6)):
        chip, template = chosen.randrange(chips), chosen.choice(list(TEMPLATES))
        cores, cpus, video = TEMPLATES[template]
        full = used[chip][0] + cores > 8 or used[chip][1] + cpus > 7
        if (
            full
            or (video == "yes" and dvpp[chip] & {"yes", "null"})
            or (video == "null" and "yes" in dvpp[chip])
        ):
            continue
        used[chip] = used[chip][0] + cores, used[chip][1] + cpus
        dvpp[chip].add(video)
        notes = {CORES: f"{chip}-{template}"}
        if chosen.random() < 0.85:
            group = chosen.randrange(4)
            notes[REAL] = f"Ascend310P-{SUFFIXES[template]}-{100 + number}-{chip}_{group}"
        pods.append({"annotations": notes, "phase": "Running", "count": cores})
    failed = {
        (chosen.randrange(chips), chosen.choice(["*", *TEMPLATES])): chosen.choice([1, 599, 600, 1000])
        for _ in range(chosen.choice([0, 0, 1, 2]))
    }
    return {
        "name": name,
        "labels": {
            "accelerator": "huawei-Ascend310P",
            "servertype": "Ascend310P-8",
            "node.kubernetes.io/npu.chip.name": "310P3",
        },
        "capacity": 8 * chips,
        "device_info": {
            "huawei.com/Ascend310P": ",".join(f"Ascend310P-{chip}" for chip in listed),
            "huawei.com/Ascend310P-Unhealthy": ",".join(
                f"Ascend310P-{chip}" for chip in range(chips) if chip not in listed
            ),
        },
        "isolated": [chip for chip in range(chips) if chosen.random() < 0.1],
        "failed_cuts": [
            {"chip": chip, "template": template, "seconds_ago": ago}
            for (chip, template), ago in failed.items()
        ],
        "pods": pods,
    }


def expected_vnpu(node: Plain, count: int, level: str, dvpp: str) -> Fit | str:
    """Rules V11 to V16."""
    used: dict[int, list[tuple[str, str]]] = {}
    unsettled: list[tuple[int, str]] = []
    idle = node["capacity"]
    for pod in node["pods"]:
        chip, _, template = pod["annotations"][CORES].partition("-")
        real = pod["annotations"].get(REAL, "")
        used.setdefault(int(chip), []).append((template, real.rpartition("_")[2]))
        idle -= pod["count"]
        if not real:
            unsettled.append((int(chip), template))
    if idle < count:
        return "idle-fewer-than-request"
    listed = [
        int(one.rpartition("-")[2]) for one in node["device_info"]["huawei.com/Ascend310P"].split(",") if one
    ]
    available = [chip for chip in listed if chip not in node["isolated"]]
    if not available:
        return "no-chip-in-the-device-list"
    avoided = {(one["chip"], one["template"]) for one in node["failed_cuts"] if one["seconds_ago"] < 600}
    if count % 8 == 0:
        empty = [chip for chip in available if chip not in used and (chip, "*") not in avoided]
        if len(empty) < count // 8:
            return "no-chip-has-room"
        if unsettled:
            return "another-template-not-settled"
        return Fit(2047 - idle + 2048, ",".join(map(str, empty[: count // 8])))
    if count == 4:
        by_dvpp = {"yes": "vir04_4c_dvpp", "no": "vir04_3c_ndvpp"}
        template = by_dvpp.get(dvpp, "vir04" if level == "high" else "vir04_3c")
    else:
        template = "vir01" if count == 1 else "vir02" if level == "high" else "vir02_1c"

    def left(chip: int, template: str) -> tuple[int, int] | None:
        held = used.get(chip, [])
        cores, cpus, video = TEMPLATES[template]
        if any(not group for _, group in held) or {(chip, "*"), (chip, template)} & avoided:
            return None
        cores_left = 8 - sum(TEMPLATES[one][0] for one, _ in held)
        cpus_left = 7 - sum(TEMPLATES[one][1] for one, _ in held)
        videos = {TEMPLATES[one][2] for one, _ in held}
        if cores > cores_left or cpus > cpus_left:
            return None
        if (video == "yes" and videos & {"yes", "null"}) or (video == "null" and "yes" in videos):
            return None
        groups = len({group for _, group in held})
        if (groups == 3 and cores > 2) or (groups >= 4 and cores > 1):
            return None
        return cores_left, cpus_left

    for one, bonus in ((template, 2048), (SMALLER.get(template, ""), 0)):
        fitting = [(found, chip) for chip in available if one and (found := left(chip, one)) is not None]
        if fitting:
            if any(other != one for _, other in unsettled):
                return "another-template-not-settled"
            return Fit(2047 - idle + bonus, f"{min(fitting)[1]}-{one}")
    return "no-chip-has-room"


@pytest.mark.parametrize("seed", range(CASES))
def test_V11_V12_V13_V14_V15_V16_vnpus(seed: int) -> None:
    chosen = random.Random(1000 + seed)
    count = chosen.choice([1, 2, 2, 4, 4, 8, 16])
    level = chosen.choice(["low", "low", "high"])
    dvpp = chosen.choice(["null", "null", "yes", "no"]) if count in (4, 8, 16) else "null"
    nodes = [random_vnpus(chosen, f"n{at}", chosen.randrange(2, 4)) for at in range(3)]
    labels = {"ring-controller.atlas": "ascend-310P", "vnpu-level": level, "vnpu-dvpp": dvpp}
    request = {"resource": CORES, "count": count, "labels": labels, "pods": 1}
    wanted = {node["name"]: expected_vnpu(node, count, level, dvpp) for node in nodes}
    compare({"kind": "dynamic", "request": request, "nodes": nodes}, wanted, CORES)


def compare(case: Plain, wanted: dict[str, Fit | str], resource: str) -> None:
    found = answer(case)
    rows: dict[str, Any] = found.candidates
    got = {name: one["score"] if one["accepted"] else one["reason"]["code"] for name, one in rows.items()}
    assert got == {name: fit.score if isinstance(fit, Fit) else code(fit) for name, fit in wanted.items()}, (
        case["nodes"]
    )
    fits = [(-fit.score, name, fit.annotation) for name, fit in wanted.items() if isinstance(fit, Fit)]
    bind = found.bound("new-0")
    job = next(job for job in found.scheduler.view.jobs.values() if job.key.endswith(("train", "new-0")))
    if job.reason is not None and job.reason.code == "queue-over-fair-share":
        # V18: other pods count with percent or memory, and together with more than the cluster has.
        return
    assert (bind is not None) == bool(fits)
    if bind is not None:
        _, name, annotation = min(fits)
        assert (bind.node, bind.annotations[resource]) == (name, annotation)


# -- allocation modes ----------------------------------------------------------------------------

SOFT_LABEL, MEMORY_LABEL = "huawei.com/scheduler.chip1softsharedev.enable", "mind-cluster/npu-chip-memory"
CHIP_NAME = "node.kubernetes.io/npu.chip.name"
#: Cores of the chips that can be divided, by family, `servertype` and name.
CORES_OF = {
    ("huawei-Ascend310P", "Ascend310P-8", "310P3"): 8,
    ("huawei-Ascend310P", "Ascend310P-10", "310P3"): 10,
    ("huawei-Ascend910", "Ascend910B-25", "910B1"): 25,
    ("huawei-Ascend910", "Ascend910B-24", "910B2"): 24,
    ("huawei-Ascend910", "Ascend910B-24", "910B2C"): 24,
    ("huawei-Ascend910", "Ascend910B-20", "910B3"): 20,
    ("huawei-Ascend910", "Ascend910B-20", "910B4"): 20,
    ("huawei-Ascend910", "Ascend910B-20", "910B4-1"): 20,
}


def random_node(chosen: random.Random, name: str) -> Plain:
    """A node with labels and resources that go together, of which some were changed."""
    labels: dict[str, str] = {}
    capacities: dict[str, int] = {}
    chips = chosen.choice([1, 2, 8])
    kind = chosen.choice(["whole", "soft", "static", "dynamic", "none"])
    if kind == "dynamic":
        accelerator, server, chip_name = chosen.choice(list(CORES_OF))
        labels = {"accelerator": accelerator, "servertype": server, CHIP_NAME: chip_name}
        capacities[CORES] = chips * CORES_OF[accelerator, server, chip_name]
    elif kind == "soft":
        labels = {SOFT_LABEL: "true", MEMORY_LABEL: chosen.choice(["64G", "64", "1", "999999G"])}
        capacities[ASCEND910] = 100 * chips
    elif kind == "static":
        capacities["huawei.com/Ascend310P-2c.1cpu"] = 3
    elif kind == "whole":
        capacities[ASCEND910] = chips
    if chosen.random() < 0.4:
        changed = chosen.choice(["accelerator", "servertype", CHIP_NAME, SOFT_LABEL, MEMORY_LABEL])
        values = {"accelerator": ["huawei-Ascend310", "huawei-Ascend910"], "servertype": ["Ascend310P-8"]}
        values |= {CHIP_NAME: ["910A"], SOFT_LABEL: ["true", "True", "false"]}
        values[MEMORY_LABEL] = ["0G", "064", "1234567", "64GB", "64g", " 64", ""]
        value = chosen.choice([None, *values[changed]])
        labels = {key: one for key, one in labels.items() if key != changed}
        labels |= {} if value is None else {changed: value}
    if chosen.random() < 0.4:
        resources = [ASCEND910, "huawei.com/Ascend910-6c.1cpu.16g", CORES, "huawei.com/npu"]
        capacities[chosen.choice(resources)] = chosen.choice([0, 1, 8, 16, 64, 65, 100, 150, 200, 800])
    listed = chosen.randrange(chips + 2)
    node: Plain = {"name": name, "labels": labels, "capacities": capacities, "pods": []}
    node["device_info"] = {ASCEND910: ",".join(f"Ascend910-{chip}" for chip in range(listed))}
    if chosen.random() < 0.5:
        node["base_chips"] = list(range(chosen.choice([chips, chips, chips + 1])))
    return node


def expected_mode(node: Plain) -> tuple[str, str]:
    """Rule V1: the mode of a node, or `closed` and the reason."""
    labels = node["labels"]
    offered = {name: count for name, count in node["capacities"].items() if count}
    chips = {name: count for name, count in offered.items() if name in (ASCEND910, "huawei.com/npu")}
    parts, soft = [name for name in offered if name[-1] in "cgu"], labels.get(SOFT_LABEL) == "true"
    parts = [name for name in parts if name not in chips]
    base = len(node["base_chips"]) if "base_chips" in node else None
    capacity = sum(chips.values())
    if CORES in offered:
        kind = labels.get("accelerator", ""), labels.get("servertype", ""), labels.get(CHIP_NAME, "")
        families = ("huawei-Ascend310P", "huawei-Ascend910")
        # Chips of the 310P have one table, whatever their name.
        name = "310P3" if kind[1].startswith("Ascend310P") and kind[2] else kind[2]
        cores = CORES_OF.get((kind[0], kind[1], name))
        for reason, applies in (
            ("ways-mixed", bool(chips or parts or soft)),
            ("node-has-no-accelerator-label", kind[0] not in families),
            ("node-has-no-servertype-label", not kind[1]),
            ("node-has-no-chip-name-label", not kind[2]),
            ("no-template-table-for-this-chip", cores is None),
            ("cores-not-a-multiple-of-chip", cores is not None and offered[CORES] % cores > 0),
        ):
            if applies:
                return "closed", reason
        return "dynamic", ""
    if parts and soft:
        return "closed", "ways-mixed"
    if chips and soft:
        listed = len([one for one in node["device_info"][ASCEND910].split(",") if one])
        listed = listed if ASCEND910 in chips else 0
        fits = capacity == 100 * base if base is not None else capacity % 100 == 0 <= capacity - 100 * listed
        if not fits:
            return "closed", "soft-label-and-capacity-differ"
        if MEMORY_LABEL not in labels:
            return "closed", "node-has-no-chip-memory-label"
        digits = labels[MEMORY_LABEL].removesuffix("G")
        if not digits.isdigit() or digits.startswith("0") or len(digits) > 6:
            return "closed", "chip-memory-label-unreadable"
        return "soft", ""
    if chips and (capacity > 64 or (base and capacity % base == 0 and capacity // base >= 2)):
        return "closed", "shares-without-soft-label"
    return ("static" if parts else "whole" if chips else "none"), ""


@pytest.mark.parametrize("seed", range(CASES))
def test_V1_allocation_modes(seed: int) -> None:
    chosen = random.Random(2000 + seed)
    nodes = [random_node(chosen, f"n{at}") for at in range(20)]
    scheduler = new_scheduler()
    objects = [*(node_object(one, None) for one in nodes), *(report_object(one, None) for one in nodes)]
    scheduler.handle(events_of(objects), 10**18, Decide.NOTHING)
    cluster = scheduler.view.cluster
    for node in nodes:
        mode = cluster.modes.get(cluster.node_id[node["name"]], NO_CHIPS)
        found = ("closed", mode.closed.code) if mode.closed is not None else (mode.mode or "none", "")
        wanted, reason = expected_mode(node)
        assert found == (wanted, code(reason)), node


# -- who is evicted or rescheduled ---------------------------------------------------------------


def random_event(chosen: random.Random) -> Plain:
    """Nodes of two chips, one of each mode at most; a whole-chip pod has both chips."""
    modes = chosen.sample(["whole", "soft", "dynamic", "static"], chosen.randrange(1, 5))
    pods: list[Plain] = []
    for mode in modes:
        chips = chosen.sample([0, 1], chosen.randrange(3))
        if mode == "soft":
            chips = chosen.choices([0, 1], k=chosen.randrange(6))
        for chip in chips[:1] if mode == "whole" else chips:
            pods.append({"name": f"p{len(pods)}", "way": mode, "node": f"on-{mode}", "chips": [chip]})
    what = chosen.choice(["preempt", "preempt", "fault", "fault", "isolate"])
    mode = chosen.choice(modes)
    place = {"way": mode} if what == "preempt" else {"node": f"on-{mode}", "chip": chosen.randrange(2)}
    return {
        "event": {"what": what, **place},
        "pods": pods,
        "modes": {f"on-{one}": one for one in modes},
    }


def expected_victims(case: Plain) -> list[str]:
    """Rule V17."""
    event = case["event"]
    if event["what"] == "isolate":
        return []
    if event["what"] == "preempt":
        return [one["name"] for one in case["pods"] if one["way"] == event["way"] == "whole"]
    return [
        one["name"]
        for one in case["pods"]
        if one["node"] == event["node"]
        and (one["way"] == "whole" or (one["way"] != "static" and event["chip"] in one["chips"]))
    ]


@pytest.mark.parametrize("seed", range(CASES))
def test_V17_who_is_evicted_or_rescheduled(seed: int) -> None:
    case = random_event(random.Random(3000 + seed))
    assert evicted_pods(case) == expected_victims(case), case

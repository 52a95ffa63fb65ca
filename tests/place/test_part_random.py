"""Random cases of part V against a second, plain reading of the rules."""

from __future__ import annotations

import os
import random
import re
from typing import Any

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.messages.events import Decide
from ringwise.state.allocation_modes import NO_CHIPS
from ringwise.topology.natural import natural_key
from tests.place.asking import Plain
from tests.place.part_cases import answer, code, events_of, node_object, report_object
from tests.place.part_model import (
    ASCEND910,
    CHIP_NAME,
    CORES,
    FAMILIES,
    KINDS,
    MEMORY_LABEL,
    POLICIES,
    REAL,
    RINGS,
    SHARE,
    SOFT_LABEL,
    Fit,
    mode_of,
    on_node,
    refusal,
)
from tests.place.test_part_cases import evicted_pods

#: Of each kind; `RINGWISE_RUNS` runs more of them.
CASES = int(os.environ.get("RINGWISE_RUNS", "80"))


def quotas(percent: object, mb: object, policy: str) -> Plain:
    return {f"{SHARE}aicoreQuota": f"{percent}", f"{SHARE}hbmQuota": f"{mb}", f"{SHARE}policy": policy}


def labels_of(key: tuple[str, str]) -> dict[str, str]:
    return {"accelerator": FAMILIES[KINDS[key].family], "servertype": key[0], CHIP_NAME: key[1]}


def names(base: str, chips: list[int]) -> str:
    return ",".join(f"{base}-{chip}" for chip in chips)


def random_lists(chosen: random.Random, base: str, chips: int) -> dict[str, str]:
    """The lists of a device report: some chips are not on the published one, some on several."""
    listed = [chip for chip in range(chips) if chosen.random() < 0.88]
    unhealthy = [chip for chip in range(chips) if chosen.random() < (0.04 if chip in listed else 0.6)]
    recovering = [chip for chip in range(chips) if chosen.random() < 0.04]
    lists = {"": listed, "-Unhealthy": unhealthy, "-Recovering": recovering}
    return {f"huawei.com/{base}{key}": names(base, one) for key, one in lists.items() if one or not key}


def random_part_node(
    chosen: random.Random, name: str, base: str, chips: int, labels: Plain, capacities: Plain
) -> Plain:
    node: Plain = {"name": name, "labels": labels, "capacities": capacities, "pods": []}
    node["device_info"] = random_lists(chosen, base, chips)
    for what, often in (("isolated", 0.06), ("doubtful", 0.03)):
        node[what] = [chip for chip in range(chips) if chosen.random() < often]
    if chosen.random() < 0.25:
        node["own_plugin"] = True
    return node


def served(chosen: random.Random, node: Plain, pod: Plain, chips: list[int], real: str) -> Plain:
    """The pod, perhaps mounted (by our plugin or another), ended, or with annotations that were edited."""
    if chosen.random() < 0.8:
        pod["annotations"] = {**pod["annotations"], REAL: real}
    if chosen.random() < (0.7 if node.get("own_plugin") else 0.05):
        pod["reported"] = chips
    if chosen.random() < 0.12:
        pod["phase"] = chosen.choice(["Succeeded", "Failed", "Pending"])
    if chosen.random() < 0.25:
        pod["folder"] = "same"
    return pod


def of_another_mode(chosen: random.Random, node: Plain, base: str, chip: int) -> Plain:
    """A pod from before the node had its mode, or one that does not name what it has."""
    resource, one = f"huawei.com/{base}", f"{base}-{chip}"
    kind = chosen.choice(["chip", "share", "vnpu", "static", "unknown"])
    if kind == "static":
        return {"annotations": {REAL: f"{base}-2c-100-{chip}"}, "asks": f"{resource}-2c"}
    if kind == "unknown":
        return {"annotations": {}, "asks": chosen.choice([resource, CORES]), "count": 1}
    if kind == "vnpu":
        cut = {"annotations": {CORES: f"{chip}-vir05_1c_8g"}, "asks": CORES}
        return served(chosen, node, cut, [chip], f"{base}-5c.1cpu.8g-100-{chip}_0")
    share = quotas(20, 1000, "elastic") if kind == "share" else {}
    pod = {"annotations": {resource: one, **share}, "asks": resource, "count": 20 if share else 1}
    return served(chosen, node, pod, [chip], one)


def random_shares(chosen: random.Random, name: str, policy: str) -> Plain:
    chips = chosen.randrange(1, 5)
    labels = {MEMORY_LABEL: chosen.choice(["64G", "64", "32G"]), SOFT_LABEL: "true"}
    node = random_part_node(chosen, name, "Ascend910", chips, labels, {ASCEND910: 100 * chips})
    if chosen.random() < 0.2:
        node["base_chips"] = list(range(chips))
    room = {chip: [100, 65536] for chip in range(chips)}
    policies = {chip: policy if chosen.random() < 0.75 else chosen.choice(POLICIES) for chip in room}
    for _ in range(chosen.randrange(7)):
        chip, percent = chosen.randrange(chips), chosen.choice([10, 20, 25, 30, 40, 50, 60])
        mb = chosen.choice([1000, 8000, 20_000, 40_000])
        if chosen.random() < 0.08:
            node["pods"].append(of_another_mode(chosen, node, "Ascend910", chip))
            continue
        if room[chip][0] < percent or room[chip][1] < mb:
            continue
        room[chip] = [room[chip][0] - percent, room[chip][1] - mb]
        bound = {ASCEND910: f"Ascend910-{chip}", **quotas(percent, mb, policies[chip])}
        pod: Plain = {"annotations": bound, "asks": ASCEND910}
        if chosen.random() < 0.12:
            edited = quotas(1, 1, chosen.choice(POLICIES)) | {
                ASCEND910: f"Ascend910-{chosen.randrange(chips)}"
            }
            pod |= {"bound_with": bound, "annotations": bound | edited}
        elif chosen.random() < 0.05:
            bound[SHARE + "hbmQuota"] = chosen.choice(["x", "-1", "0", ""])
        if chosen.random() < 0.08:
            pod["count"] = chosen.choice([10, 30, 60])
        mounted = chip if chosen.random() < 0.92 else chosen.randrange(chips)
        pod = served(chosen, node, pod, [mounted], f"Ascend910-{mounted}")
        if "reported" in pod and bound[SHARE + "hbmQuota"] == f"{mb}" and chosen.random() < 0.7:
            pod["reported_share"] = [chosen.choice([mb, mb, 1, 60_000]), policies[chip]]
        node["pods"].append(pod)
    return node


def random_vnpus(chosen: random.Random, name: str, key: tuple[str, str]) -> Plain:
    kind, chips = KINDS[key], chosen.randrange(1, 5)
    base = FAMILIES[kind.family].removeprefix("huawei-")
    node = random_part_node(chosen, name, base, chips, labels_of(key), {CORES: kind.cores * chips})
    left = {chip: [kind.cores, kind.cpus] for chip in range(chips)}
    videos: dict[int, set[str]] = {chip: set() for chip in range(chips)}
    for number in range(chosen.randrange(8)):
        chip, template = chosen.randrange(chips), chosen.choice(list(kind.templates))
        cores, cpus, video = kind.templates[template]
        if chosen.random() < 0.06:
            node["pods"].append(of_another_mode(chosen, node, base, chip))
        elif chosen.random() < 0.08 and left[chip] == [kind.cores, kind.cpus]:
            left[chip] = [0, 0]
            pod = {"annotations": {CORES: f"{chip}"}, "asks": CORES, "count": kind.cores}
            node["pods"].append(served(chosen, node, pod, [chip], f"{base}-{chip}"))
        if left[chip][0] < cores or left[chip][1] < cpus:
            continue
        excluded = {"yes": {"yes", "null"}, "null": {"yes"}, "no": set[str]()}[video]
        if videos[chip] & excluded:
            continue
        left[chip] = [left[chip][0] - cores, left[chip][1] - cpus]
        videos[chip].add(video)
        bound = {CORES: f"{chip}-{template}"}
        pod = {"annotations": bound, "asks": CORES, "count": cores}
        if chosen.random() < 0.08:
            other = f"{chosen.randrange(chips)}-{chosen.choice(list(kind.templates))}"
            pod |= {"bound_with": bound, "annotations": {CORES: other}}
        mounted = chip if chosen.random() < 0.93 else chosen.randrange(chips)
        real = f"{base}-{suffix_of(template)}-{100 + number}-{mounted}_{chosen.randrange(4)}"
        node["pods"].append(served(chosen, node, pod, [mounted], real))
    failed = {
        (chosen.randrange(chips), chosen.choice(["*", *kind.templates])): chosen.choice([0, 599, 600, 1000])
        for _ in range(chosen.choice([0, 0, 0, 1, 3]))
    }
    node["failed_cuts"] = [
        {"chip": chip, "template": template, "seconds_ago": ago} for (chip, template), ago in failed.items()
    ]
    return node


def suffix_of(template: str) -> str:
    cores, *more = template.removeprefix("vir").split("_")
    words = {"nm": "ndvpp", "m": "dvpp"}
    more = [words.get(re.sub(r"^(\d+)c$", r"\1cpu", one), re.sub(r"^(\d+)c$", r"\1cpu", one)) for one in more]
    return ".".join([f"{int(cores)}c", *more])


def random_other(chosen: random.Random, name: str) -> Plain:
    if chosen.random() < 0.4:
        return random_shares(chosen, name, "elastic")
    if chosen.random() < 0.6:
        return random_vnpus(chosen, name, chosen.choice(list(KINDS)))
    capacities = chosen.choice([{}, {ASCEND910: 4}, {"huawei.com/Ascend910-2c": 4, ASCEND910: 1}])
    lists = {ASCEND910: names("Ascend910", list(range(4)))}
    return {"name": name, "labels": {}, "capacities": capacities, "device_info": lists, "pods": []}


def common_to_requests(chosen: random.Random, request: Plain) -> Plain:
    """With an odd detail now and then that has the job refused, and either way to read annotations."""
    unlikely = chosen.randrange(50)
    if unlikely == 0:
        request["labels"]["tor-affinity"] = chosen.choice(["null", "normal-schema"])
    elif unlikely == 1:
        request["annotations"]["sp-block"] = "2"
    elif unlikely == 2:
        request["also"] = {"huawei.com/Ascend910-2c": 1}
    if chosen.random() < 0.2:
        request["owned_annotations"] = "guarded"
    return request


def random_share_job(chosen: random.Random) -> Plain:
    policy, pods = chosen.choice(POLICIES), chosen.choice([1, 1, 1, 2, 3, 4])
    percent = chosen.choice([10, 20, 25, 30, 40, 50, 60, 70, 100])
    mb = chosen.choice([1, 1000, 8000, 20_000, 40_000, 65_536])
    nodes = [
        random_shares(chosen, f"n{at}", policy) if chosen.random() < 0.9 else random_other(chosen, f"n{at}")
        for at in range(chosen.randrange(1, 5))
    ]
    labels = quotas(percent, mb, policy)
    if chosen.random() < 0.03:
        del labels[chosen.choice(list(labels))]
    elif chosen.random() < 0.04:
        labels[chosen.choice(list(labels))] = chosen.choice(
            ["x", "0", "101", "-5", "1e2", "1234567890", "elastic"]
        )
    request: Plain = {"resource": ASCEND910, "count": percent, "labels": labels, "pods": pods}
    request["annotations"] = {"huawei.com/schedule_policy": "chip1-softShareDev"}
    if pods > 1 and chosen.random() < 0.1:
        request["other_pods"] = [labels | {f"{SHARE}policy": chosen.choice(POLICIES)}] * (pods - 1)
    elif pods > 1 and chosen.random() < 0.5:
        chips = [
            one for node in nodes for one in node["pods"] if "bound_with" not in one and "count" not in one
        ]
        own = [one for one in chips if one["asks"] == ASCEND910 and one["annotations"].get(f"{SHARE}policy")]
        for pod in own[: pods - 1]:
            pod.pop("reported_share", None)
            pod.pop("folder", None)
            pod["job"], pod["annotations"] = "job", pod["annotations"] | quotas(percent, mb, policy)
    return {"kind": "soft", "request": common_to_requests(chosen, request), "nodes": nodes}


def random_vnpu_job(chosen: random.Random) -> Plain:
    key = chosen.choice(list(KINDS))
    kind = KINDS[key]
    count = chosen.choice([*(one.cores for one in kind.templates.values()), kind.cores, 2 * kind.cores, 3])
    ring = chosen.choice([name for name, family in RINGS.items() if family == kind.family])
    labels = {"ring-controller.atlas": ring if chosen.random() < 0.97 else "ascend-310"}
    if chosen.random() < 0.5:
        words = ["null", *(word for word in ("yes", "no") if kind.takes_dvpp(count, word))]
        labels["vnpu-dvpp"] = chosen.choice([*words, *words, chosen.choice(["yes", "no", "ja"])])
    if chosen.random() < 0.5:
        level = chosen.choice(["low", "high", "x"])
        labels["vnpu-level"] = level if kind.takes_level(count, level) or chosen.random() < 0.3 else "low"
    nodes = [
        random_vnpus(chosen, f"n{at}", key if chosen.random() < 0.75 else chosen.choice(list(KINDS)))
        if chosen.random() < 0.93
        else random_other(chosen, f"n{at}")
        for at in range(chosen.randrange(1, 5))
    ]
    request: Plain = {"resource": CORES, "count": count, "labels": labels, "pods": 1, "annotations": {}}
    request["presetVirtualDevice"] = chosen.random() < 0.02
    return {"kind": "dynamic", "request": common_to_requests(chosen, request), "nodes": nodes}


@pytest.mark.parametrize("seed", range(CASES))
@pytest.mark.parametrize("job", [random_share_job, random_vnpu_job])
def test_V2_to_V16_shares_and_vnpus(job: Any, seed: int) -> None:
    case = job(random.Random(seed))
    found = answer(case)
    bind, jobs = found.bound("new-0"), found.scheduler.view.jobs.values()
    reason = next(one.reason for one in jobs if one.key.endswith(("vcjob/train", "pod:new-0")))
    refused = refusal(case)
    if refused is not None:
        assert (bind, reason and reason.code) == (None, code(refused)), case
        return
    if reason is not None and reason.code == "queue-over-fair-share":
        # V18: other pods count with percent or memory, and together with more than the cluster has.
        return
    wanted = {node["name"]: on_node(case, node) for node in case["nodes"]}
    rows = found.candidates.items()
    got = {name: one.score if one.accepted else one.reason["code"] for name, one in rows}
    assert got == {name: code(one) if isinstance(one, str) else one.score for name, one in wanted.items()}, (
        case
    )
    fits = {name: one for name, one in wanted.items() if isinstance(one, Fit)}
    if bind is None or not fits:
        assert (bind, fits) == (None, {}), case
        return
    best = min(fits, key=lambda name: (-fits[name].score, natural_key(name)))
    annotations = {key: value for key, value in bind.annotations.items() if key != "predicate-time"}
    assert (bind.node, annotations) == (best, fits[best].annotations), case


# -- allocation modes ----------------------------------------------------------------------------


def random_node(chosen: random.Random, name: str) -> Plain:
    """A node with labels and resources that go together, of which some were changed."""
    labels: dict[str, str] = {}
    capacities: dict[str, int] = {}
    chips = chosen.choice([1, 2, 8])
    kind = chosen.choice(["whole", "soft", "static", "dynamic", "none"])
    if kind == "dynamic":
        key = chosen.choice(list(KINDS))
        labels, capacities[CORES] = labels_of(key), chips * KINDS[key].cores
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
        wanted = mode_of(node, ASCEND910)
        assert found == (("closed", code(wanted.closed)) if wanted.closed else (wanted.mode, "")), node


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

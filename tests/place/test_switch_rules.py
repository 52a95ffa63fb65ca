"""Rules S1, S2 and S8 to S12 beyond the worked cases, through `ringwise place`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.builders.objects import (
    chip_list,
    config_map,
    filler,
    node,
    pod,
    pod_group,
    pod_spec,
    topology,
    vcjob,
)
from tests.builders.values import CHIP
from tests.place.asking import Plain, answered, ask, job_of

MODEL = {"tor-affinity": "large-model-schema"}
COMMON = {"tor-affinity": "normal-schema"}
V1, V2 = {"nslb-version": "1.0"}, {"nslb-version": "2.0"}


def leaves(*sizes: int, count: int | None = None, level: str | None = None) -> list[Plain]:
    """Switches t0, t1 ... with nodes n0, n1 ... under them."""
    nodes: list[Plain] = []
    switches: list[tuple[str, list[tuple[str, int]]]] = []
    for number, size in enumerate(sizes):
        servers = []
        for place in range(size):
            at = len(nodes)
            nodes.append(node(f"n{at}", ip=f"10.0.0.{at}"))
            servers.append((f"10.0.0.{at}", place))
        switches.append((f"t{number}", servers))
    return [topology(switches, max(sizes) if count is None else count, level), *nodes]


def train(pods: int, labels: dict[str, str], **more: Any) -> Plain:
    return vcjob("J", [("worker", pods, pod_spec(8))], labels=labels, **more)


def runs(name: str, on: str, group: str, mark: str | None = None, **more: Any) -> Plain:
    notes = {} if mark is None else {"isSharedTor": mark}
    return filler(name, on, range(8), annotations=notes, group=group, **more)


def per_switch(job: Plain) -> dict[str, int]:
    return dict(Counter(one["switch"] for one in job["pods"] if one["chips"]))


def states(answer: Plain) -> dict[str, str]:
    return {one["ip"]: one["state"] + ("" if one["healthy"] else "!") for one in answer["switches"]}


# -- S2: states are what live pods say -------------------------------------------------------


def test_marks_make_states_and_padding_makes_none_S2() -> None:
    objects = leaves(4, 4, 4, 4)
    for number, (label, mark, pods) in enumerate(((COMMON, "2", 1), (MODEL, "1", 4), (MODEL, "1", 3))):
        group = f"g{number}"
        objects.append(pod_group(group, pods, labels=label, phase="Running"))
        objects += [runs(f"{group}-{at}", f"n{4 * number + at}", group, mark) for at in range(pods)]
    answer = ask(objects, V2)
    # The third job has three pods only, but its live pods carry marks: it is not a padding job.
    assert states(answer) == {"t0": "exclusive", "t1": "shared", "t2": "shared", "t3": "idle"}
    for one in objects:
        if one["kind"] == "Pod" and one["metadata"]["name"].startswith("g2"):
            one["metadata"]["annotations"]["isSharedTor"] = "0"
    assert states(ask(objects, V2))["t2"] == "idle"


@pytest.mark.parametrize("alive", [1, 2, 3])
@pytest.mark.parametrize("ordered", ["a PodGroup", "a PodGroup that may start with one pod", "a vcjob"])
def test_a_model_of_which_few_pods_are_left_keeps_its_switch_S1_S2(alive: int, ordered: str) -> None:
    """The marks on live pods decide; which pods there were before has no say."""
    objects = leaves(4, 4)
    if ordered == "a vcjob":
        objects.append(vcjob("g", [("worker", 4, pod_spec(8))], labels=MODEL, phase="Running"))
        group = "g-uid-g"
    else:
        objects.append(pod_group("g", 4 if ordered == "a PodGroup" else 1, labels=MODEL, phase="Running"))
        group = "g"
    objects += [runs(f"g-worker-{at}", f"n{at}", group, "2") for at in range(alive)]
    answer = ask([*objects, train(4, MODEL)], V2, scores=False, everything=True)
    assert states(answer)["t0"] == "exclusive"
    assert per_switch(job_of(answer, "J")) == {"t1": 4}


@pytest.mark.parametrize(("level", "settings"), [("single_layer", V2), (None, V1)])
@pytest.mark.parametrize(("pods", "found"), [(3, "padding"), (4, "foundation-model")])
def test_without_marks_the_number_as_ordered_alone_decides_S1(
    level: str | None, settings: dict[str, str], pods: int, found: str
) -> None:
    objects = [*leaves(4, 4, level=level), pod_group("g", pods, labels=MODEL, phase="Running")]
    # A mark that another version wrote.
    objects.append(runs("g-0", "n0", "g", "2"))
    assert job_of(ask(objects, settings, everything=True), "g")["class"] == found


def test_the_number_leaves_out_pods_known_to_ask_for_no_chips_S1() -> None:
    launcher = pod("launcher", pod_spec(0), on="n7", group="g", labels=MODEL)
    objects = [*leaves(4, 4), pod_group("g", 4, labels=MODEL, phase="Running"), runs("g-0", "n0", "g", "0")]
    assert job_of(ask(objects, V2, everything=True), "g")["class"] == "foundation-model"
    assert job_of(ask([*objects, launcher], V2, everything=True), "g")["class"] == "padding"
    tasks = [("launcher", 1, pod_spec(0)), ("worker", 3, pod_spec(8))]
    ordered = ask([*leaves(4, 4), vcjob("J", tasks, labels=MODEL)], V2, scores=False)
    assert job_of(ordered, "J")["class"] == "padding"


def test_a_huge_min_member_costs_nothing_S1() -> None:
    objects = [*leaves(4, 4), pod_group("g", 2**31 - 1, labels=MODEL), pod("g-0", pod_spec(8), group="g")]
    found = job_of(ask(objects, V2), "g")
    assert (found["state"], found["reason"]["code"]) == ("rejected", "not-enough-pods")


@pytest.mark.parametrize(
    ("of_group", "of_pods", "values"),
    [
        (MODEL, [COMMON, COMMON], 'PodGroup: "large-model-schema", pods: "normal-schema"'),
        ({"tor-affinity": "null"}, [{}, COMMON], 'PodGroup: "null", pods: "normal-schema"'),
        ({}, [MODEL, COMMON], 'pods: "large-model-schema" and "normal-schema"'),
        (MODEL, [{}, {}], None),
        ({}, [MODEL, {}], None),
        (MODEL, [MODEL, {}], None),
    ],
)
def test_different_labels_of_podgroup_and_pods_are_refused_S1(
    of_group: dict[str, str], of_pods: list[dict[str, str]], values: str | None
) -> None:
    objects = [*leaves(4, 4), pod_group("g", 2, labels=of_group)]
    objects += [pod(f"g-{at}", pod_spec(8), group="g", labels=one) for at, one in enumerate(of_pods)]
    found = job_of(ask(objects, V2), "g")
    if values is None:
        assert (found["state"], found["class"]) == ("scheduled", "padding")
        return
    assert (found["state"], found["reason"]["code"]) == ("rejected", "conflicting-values")
    assert found["reason"]["message"] == f"the label tor-affinity has different values in one job: {values}"


@pytest.mark.parametrize(
    ("resource", "key", "values", "kind"),
    [
        (CHIP, "sp-block", ("16", "32"), "annotation"),
        (CHIP, "huawei.com/schedule_policy", ("chip8-node8", "chip4-node8"), "annotation"),
        ("huawei.com/Ascend310P", "npu-310-strategy", ("card", "chip"), "label"),
    ],
)
def test_other_values_that_choose_the_rules_must_not_differ_either(
    resource: str, key: str, values: tuple[str, str], kind: str
) -> None:
    group: dict[str, Any] = {f"{kind}s": {key: values[0]}}
    one: dict[str, Any] = {f"{kind}s": {key: values[1]}}
    objects = [node("n0", resource=resource), node("n1", resource=resource), pod_group("g", 1, **group)]
    found = job_of(ask([*objects, pod("g-0", pod_spec(8, resource), group="g", **one)]), "g")
    assert found["reason"]["code"] == "conflicting-values"
    assert f"the {kind} {key} has different values" in found["reason"]["message"]


def test_pods_that_select_different_boards_are_refused_and_silent_ones_follow_N1() -> None:
    x8, x16 = ({"accelerator-type": f"module-910b-{size}"} for size in (8, 16))
    hosts = [node(f"n{at}", labels=x8) for at in range(2)]
    silent = vcjob("A", [("master", 1, pod_spec(8)), ("worker", 1, pod_spec(8, selector=x8))])
    mixed = vcjob("B", [("master", 1, pod_spec(8, selector=x16)), ("worker", 1, pod_spec(8, selector=x8))])
    answer = ask([*hosts, silent, mixed])
    assert job_of(answer, "A")["state"] == "scheduled"
    assert (job_of(answer, "B")["state"], job_of(answer, "B")["reason"]["code"]) == (
        "rejected",
        "mixed-boards",
    )


@pytest.mark.parametrize(
    ("phase", "terminating", "state"), [("Succeeded", False, "idle"), ("Running", True, "shared")]
)
def test_a_switch_recovers_when_its_pods_are_gone_and_not_before_S2(
    phase: str, terminating: bool, state: str
) -> None:
    objects = [*leaves(2, 2), pod_group("g", 1, labels=COMMON, phase="Running")]
    objects.append(runs("g-0", "n0", "g", "1", phase=phase, terminating=terminating))
    assert states(ask(objects, V2))["t0"] == state


@pytest.mark.parametrize(("limit", "healthy"), [("1", False), ("2", True)])
def test_health_is_how_many_shared_switches_a_job_uses_S2(limit: str, healthy: bool) -> None:
    objects = [*leaves(2, 2, 2), pod_group("g", 2, labels=COMMON, phase="Running")]
    objects += [runs("g-0", "n0", "g", "1"), runs("g-1", "n2", "g", "1")]
    answer = ask(objects, {**V2, "shared-tor-num": limit})
    assert [one["healthy"] for one in answer["switches"]] == [healthy, healthy, True]


def test_the_second_job_of_a_run_uses_the_states_after_the_first_S2() -> None:
    first = vcjob("A", [("worker", 5, pod_spec(8))], labels=MODEL)
    second = vcjob("B", [("worker", 6, pod_spec(8))], labels=MODEL)
    answer = ask([*leaves(4, 4, 4), first, second], V2, scores=False)
    assert per_switch(job_of(answer, "A")) == {"t0": 4, "t1": 1}
    assert per_switch(job_of(answer, "B")) == {"t2": 4, "t1": 2}
    assert states(answer) == {"t0": "exclusive", "t1": "shared", "t2": "exclusive"}


def test_running_jobs_are_listed_on_request_with_their_class_S1() -> None:
    objects = [*leaves(4, 4), pod_group("g", 4, labels=MODEL, phase="Running")]
    objects += [runs(f"g-{at}", f"n{at}", "g", "2") for at in range(4)]
    assert ask(objects, V2)["jobs"] == []
    reported = job_of(ask(objects, V2, everything=True), "g")
    assert (reported["state"], reported["class"], per_switch(reported)) == (
        "running",
        "foundation-model",
        {"t0": 4},
    )


def test_the_board_still_chooses_the_chips_S12() -> None:
    objects = [*leaves(2, 2), filler("old", "n0", [1, 2]), filler("old-1", "n1", [0, 4, 5])]
    job = vcjob("J", [("worker", 2, pod_spec(4))], labels=COMMON)
    found = job_of(ask([*objects, job], {**V2, "multi-pod-requests": "vendor"}, scores=False), "J")
    # n1 has no whole ring, so t0 offers one node and t1 two.
    assert [(one["node"], one["chips"]) for one in found["pods"]] == [
        ("n2", [0, 1, 2, 3]),
        ("n3", [0, 1, 2, 3]),
    ]


def test_a_switch_may_be_shared_while_all_its_nodes_have_free_chips_S2() -> None:
    """Half of a node is enough for a pod that makes its switch shared; the other half is still free."""
    objects = leaves(4, 4, 4)
    for group, on in (("g", "n4"), ("h", "n8")):
        objects.append(pod_group(group, 1, labels=COMMON, phase="Running"))
        objects.append(filler(group, on, range(4, 8), annotations={"isSharedTor": "1"}, group=group))
    objects.append(filler("full", "n11", range(8)))
    job = vcjob("J", [("worker", 6, pod_spec(4))], labels=MODEL)
    settings = {**V2, "shared-tor-num": "1", "multi-pod-requests": "vendor"}
    # Of 4 and 3 free nodes the second is closer to the two pods left over.
    assert per_switch(job_of(ask([*objects, job], settings, scores=False), "J")) == {"t0": 4, "t2": 2}


# -- S9: after a fault -------------------------------------------------------------------------


def test_the_lost_pod_goes_to_an_unused_switch_when_its_own_are_full_S9() -> None:
    objects = [*leaves(2, 2, 2), pod_group("J", 4, labels=MODEL, phase="Running")]
    places = (("n0", "2"), ("n1", "2"), ("n2", "1"), ("n3", "1"))
    for rank, (on, mark) in enumerate(places):
        notes = {CHIP: chip_list(CHIP, range(8)), "isSharedTor": mark, "hccl/rankIndex": str(rank)}
        objects.append(pod(f"J-{rank}", pod_spec(8), on=on, group="J", annotations=notes))
    objects[-4] = pod("J-0", pod_spec(8), group="J", annotations={"hccl/rankIndex": "0"})
    objects.append(filler("other", "n0", range(8)))
    answer = ask(objects, V2, scores=False)
    job = job_of(answer, "J")
    assert {one["rank"]: one["node"] for one in job["pods"]} == {0: "n4", 1: "n1", 2: "n2", 3: "n3"}
    # An idle switch opened by a repair becomes shared: the job then uses two of two.
    assert states(answer) == {"t0": "exclusive", "t1": "shared", "t2": "shared"}


# -- S10: all of this works or is refused with a reason -------------------------------------------


@pytest.mark.parametrize("settings", [V1, V2])
@pytest.mark.parametrize(("workers", "job_class"), [(3, "padding"), (4, "foundation-model")])
def test_pods_without_chips_do_not_count_S1_S10(
    settings: dict[str, str], workers: int, job_class: str
) -> None:
    tasks = [("launcher", 2, pod_spec(0)), ("worker", workers, pod_spec(8))]
    found = job_of(ask([*leaves(4, 4), vcjob("J", tasks, labels=MODEL)], settings, scores=False), "J")
    assert (found["state"], found["class"]) == ("scheduled", job_class)
    assert per_switch(found) == {"t0": workers}


@pytest.mark.parametrize("settings", [V1, V2])
def test_a_gang_smaller_than_the_job_takes_what_there_is_S10(settings: dict[str, str]) -> None:
    found = job_of(ask([*leaves(3, 2), train(6, COMMON, minAvailable=4)], settings, scores=False), "J")
    assert found["state"] == "scheduled"
    assert sum(one["node"] is not None for one in found["pods"]) == 5
    few = job_of(ask([*leaves(3, 2), train(8, COMMON, minAvailable=6)], settings, scores=False), "J")
    assert few["state"] == "pending"


@pytest.mark.parametrize("settings", [V1, V2])
def test_invalid_topologies_cause_no_error_S10(settings: dict[str, str]) -> None:
    """Servers that are not nodes, one server under two switches, more servers than `tor_count`."""
    odd = topology(
        [
            ("t0", [("10.0.0.0", 0), ("10.9.9.9", 1), ("10.0.0.1", 2), ("10.0.0.2", 3)]),
            ("t1", [("10.0.0.0", 0), ("10.0.0.3", 1)]),
        ],
        2,
    )
    hosts = [node(f"n{at}", ip=f"10.0.0.{at}") for at in range(4)]
    other = vcjob("K", [("worker", 1, pod_spec(8))])
    answer = ask([odd, *hosts, train(3, COMMON), other], settings, scores=False)
    assert per_switch(job_of(answer, "J")) == {"t0": 3}
    assert job_of(answer, "K")["pods"][0]["node"] == "n3"


BROKEN = config_map("kube-system", "basic-tor-node-cm", {"tor_info": '{"tor_count": 4, "server_list": ['})


@pytest.mark.parametrize("settings", [V1, V2])
@pytest.mark.parametrize(
    "bad",
    [
        [],
        [BROKEN],
        [config_map("kube-system", "basic-tor-node-cm", {})],
        [topology([], 4)],
        [topology([("t0", [("10.0.0.0", 0)])], 0)],
    ],
    ids=["missing", "broken", "without tor_info", "empty", "tor_count 0"],
)
def test_an_unusable_topology_concerns_labeled_jobs_only_S10(
    settings: dict[str, str], bad: list[Plain]
) -> None:
    other = vcjob("K", [("worker", 1, pod_spec(8))])
    answer = ask([*bad, node("n0", ip="10.0.0.0"), train(1, COMMON), other], settings, scores=False)
    assert job_of(answer, "J")["state"] == "rejected"
    assert job_of(answer, "K")["state"] == "scheduled"


@pytest.mark.parametrize("settings", [V1, V2])
def test_a_survivor_outside_the_topology_stays_and_the_job_goes_on_S10(settings: dict[str, str]) -> None:
    objects = [*leaves(2, 2), node("far", ip="10.7.7.7"), pod_group("J", 3, labels=COMMON, phase="Running")]
    objects += [runs("J-0", "far", "J", "1"), runs("J-1", "n0", "J", "1"), pod("J-2", pod_spec(8), group="J")]
    found = job_of(ask(objects, settings, scores=False), "J")
    assert [one["node"] for one in found["pods"]] == ["far", "n0", "n1"]


def test_switch_names_are_opaque_S10() -> None:
    odd = topology([("rack a / leaf 7", [("10.0.0.0", 0)]), ("叶", [("10.0.0.1", 0)])], 1)
    hosts = [node(f"n{at}", ip=f"10.0.0.{at}") for at in range(2)]
    found = job_of(ask([odd, *hosts, train(2, COMMON)], V2, scores=False), "J")
    assert per_switch(found) == {"rack a / leaf 7": 1, "叶": 1}


# -- S1, S11, S12 ---------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [V1, V2])
@pytest.mark.parametrize(
    ("labels", "notes", "outcome"),
    [
        ({"tor-affinity": "large-model"}, {}, "rejected"),
        ({"tor-affinity": "null"}, {}, "scheduled"),
        (COMMON, {"sp-block": "16"}, "rejected"),
        (MODEL, {"sp-block": "8"}, "rejected"),
    ],
)
def test_labels_S1_S12(
    settings: dict[str, str], labels: dict[str, str], notes: dict[str, str], outcome: str
) -> None:
    found = job_of(ask([*leaves(2, 2), train(1, labels, annotations=notes)], settings), "J")
    assert found["state"] == outcome
    assert found["class"] is None


@pytest.mark.parametrize("settings", [V1, V2])
@pytest.mark.parametrize("labels", [COMMON, MODEL])
def test_single_layer_wins_over_the_version_S11(settings: dict[str, str], labels: dict[str, str]) -> None:
    objects = leaves(4, 3, 4, level="single_layer")
    found = job_of(ask([*objects, train(3, labels)], settings, scores=False), "J")
    assert per_switch(found) == {"t1": 3}
    assert not any("isSharedTor" in one["annotations"] for one in found["pods"])
    assert job_of(ask([*objects, train(5, labels)], settings), "J")["state"] == "pending"
    objects.append(pod_group("J", 2, labels=labels, phase="Running"))
    objects += [runs("J-0", "n0", "J"), pod("J-1", pod_spec(8), group="J")]
    peers = job_of(ask(objects, settings, scores=False), "J")
    assert per_switch(peers) == {"t0": 2}


def test_version_1_shows_which_switches_are_idle_S8() -> None:
    """S8: idle or not is all it knows. Padding jobs only take nodes."""
    running = [
        pod("old", pod_spec(8), on="n3", labels=COMMON, annotations={CHIP: chip_list(CHIP, range(8))}),
        pod("small", pod_spec(8), on="n6", labels=MODEL, annotations={CHIP: chip_list(CHIP, range(8))}),
    ]
    asked = vcjob("job", [("worker", 3, pod_spec(8))], labels=COMMON)
    for settings, old, new in ((V1, "exclusive", "exclusive"), (V2, "idle", "exclusive")):
        answer = ask([*leaves(3, 3, 3), *running, asked], settings)
        states = {switch["ip"]: switch["state"] for switch in answer["switches"]}
        assert {one["switch"] for one in job_of(answer, "job")["pods"]} == {"t0"}
        assert (states["t1"], states["t0"]) == (old, new), settings
        assert states["t2"] == "idle"


@pytest.mark.parametrize(
    ("pods", "labels", "after"),
    [(5, MODEL, "exclusive"), (5, COMMON, "exclusive"), (2, COMMON, "exclusive"), (2, MODEL, "idle")],
)
def test_S8_the_plan_names_the_states_that_are_drawn(pods: int, labels: dict[str, str], after: str) -> None:
    answer = answered([*leaves(4, 4), train(pods, labels)], V1)
    (job,), (drawn,) = answer.jobs, answer.drawn
    used = {pod.switch for pod in job.pods}
    assert {one.state for one in answer.switches or () if one.ip in used} == {after}
    assert [line.rpartition("; then ")[2] for line in drawn.plan] == [after] * len(used)

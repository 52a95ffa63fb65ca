"""Which pod an Allocate call serves (rule D2): the worked cases and the edges of the rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from ringwise.device.allocation import (
    CONSUMED,
    AllocationError,
    check_request,
    first_placed,
    is_candidate,
    listed_chips,
    named_chips,
    predicate_time,
    preferred_ids,
    reported_ids,
    updated_map,
)
from ringwise.device.allocator import Allocator
from ringwise.device.ledger import Ledger
from ringwise.device.pods import NodePod, NodePodWire, pod_from_wire
from tests.builders.values import CHIP
from tests.device.cases import case_id, chips, pod_of, section

REAL = "huawei.com/AscendReal"


def healthy(chip: str) -> None:
    return None


def waiting_pod(name: str, wanted: str, time: str | None = "1", **more: Any) -> NodePod:
    annotations = {CHIP: wanted}
    if time is not None:
        annotations["predicate-time"] = time
    case = {
        "namespace": "default",
        "name": name,
        "phase": "Pending",
        "annotations": annotations,
        "limits": [{CHIP: wanted.count(",") + 1}],
        **more,
    }
    return pod_of(case)


def allocator(*pods: NodePod, count: int = 8, match_pods: bool = True) -> Allocator:
    made = Allocator(CHIP, chips(count), Ledger(), match_pods=match_pods)
    made.replace_pods(pods, 0)
    return made


def test_a_list_drops_pods_that_are_gone_but_not_those_that_the_watch_brought_since() -> None:
    made = allocator()
    for version, stays in ((11, True), (12, False), (0, False)):
        made.put_pod(replace(waiting_pod("new", "Ascend910-0"), version=12))
        made.replace_pods([], 0, version)
        assert bool(made.pods) is stays
        assert bool(made.waiting()) is stays


@pytest.mark.parametrize("case", section("allocate_pod_selection"), ids=case_id)
def test_d2_pod_selection(case: dict[str, Any]) -> None:
    pods = [pod_of(one) for one in case["pods"]]
    expect = case["expect"]
    if case.get("filter_stubbed"):
        # The case hands in pods that passed the filter.
        count = len(case["request_ids"])
        pod = first_placed(
            [one for one in pods if len(listed_chips(one.annotations.get(CHIP), CHIP)) == count]
        )
        assert pod is not None
        if "pod" in expect:
            assert (pod.name, list(listed_chips(pod.annotations[CHIP], CHIP))) == (
                expect["pod"],
                expect["devices"],
            )
        if "klt_to_real" in expect:
            assert updated_map({}, case["request_ids"], expect["devices"]) == expect["klt_to_real"]
        return
    matching = case.get("volcanoType", True)
    machine = allocator(*pods, count=case["node_device_count"], match_pods=matching)
    if "error" in expect:
        with pytest.raises(AllocationError):
            machine.allocate(case["request_ids"], 0, healthy)
        return
    allocation = machine.allocate(case["request_ids"], 0, healthy)
    assert list(allocation.chips) == expect["devices"]
    assert (allocation.pod.name if allocation.pod is not None else None) == expect["pod"]
    if expect.get("patch", ...) is None:
        assert allocation.annotations == {}


@pytest.mark.parametrize("case", section("filter_pods"), ids=case_id)
def test_d2_candidates(case: dict[str, Any]) -> None:
    assert is_candidate(pod_of(case["pod"]), CHIP) is case["kept"]


@pytest.mark.parametrize("case", section("predicate_time"), ids=lambda case: case["value"] or "empty")
def test_d2_predicate_time_is_an_unsigned_number(case: dict[str, Any]) -> None:
    assert predicate_time(case["value"]) == int(case["as_uint64"])


@pytest.mark.parametrize("text", [None, "-1", "+1", "1.5", " 1", "1 ", "٣", "9" * 100_000])
def test_d2_unreadable_predicate_times_sort_last(text: str | None) -> None:
    assert predicate_time(text) == 2**64 - 1


@pytest.mark.parametrize("case", section("kubelet_to_real_map"), ids=case_id)
def test_d2_map_of_ids(case: dict[str, Any]) -> None:
    assert updated_map(case["before"], case["kubelet"], case["real"]) == case["after"]


@pytest.mark.parametrize("case", section("list_and_watch_id_mapping"), ids=case_id)
def test_reported_ids(case: dict[str, Any]) -> None:
    assert reported_ids(case["devices"], case["klt_to_real"]) == case["real_to_reported_id"]


def test_reported_ids_take_what_is_left_sorted_as_text() -> None:
    assert reported_ids(["Ascend910-2", "Ascend910-10"], {}) == {
        "Ascend910-2": "Ascend910-10",
        "Ascend910-10": "Ascend910-2",
    }


@pytest.mark.parametrize("case", section("used_devices_from_pods"), ids=case_id)
def test_d2_used_chips_are_parsed(case: dict[str, Any]) -> None:
    pods = [pod_of(one) for one in case["pods"]]
    used = {chip for pod in pods if pod.live for chip in named_chips(pod, CHIP)}
    if "used" in case:
        assert used == set(case["used"])
    else:
        assert len(used) == case["used_count"]


@pytest.mark.parametrize("case", section("scheduler_used_devices"), ids=case_id)
def test_d2_mounted_chips_stand_before_the_scheduler_s(case: dict[str, Any]) -> None:
    pod = pod_of(
        {
            "namespace": "a",
            "name": "b",
            "phase": "Running",
            "annotations": case["annotations"],
            "limits": [{CHIP: 1}],
        }
    )
    assert sorted(named_chips(pod, CHIP)) == case["used"]


def test_n8_a_list_counts_up_to_the_limit() -> None:
    pod = waiting_pod("greedy", "Ascend910-0,Ascend910-1", limits=[{CHIP: 1}])
    assert allocator(pod).used() == {"Ascend910-0"}
    assert allocator(waiting_pod("none", "Ascend910-0", limits=[])).used() == set()


@pytest.mark.parametrize(
    ("pods", "chosen"),
    [
        # Ties: creation time, then namespace/name.
        ([("b", "5", "2025-01-02T00:00:00Z"), ("c", "5", "2025-01-01T00:00:00Z")], "c"),
        ([("b-10", "5", "2025-01-01T00:00:00Z"), ("b-9", "5", "2025-01-01T00:00:00Z")], "b-9"),
        # Numbers, not text.
        ([("a", "10", ""), ("b", "9", "")], "b"),
        ([("a", None, ""), ("b", str(2**64 - 2), "")], "b"),
        # Only the exact text means served.
        ([("a", "018446744073709551615", "")], "a"),
    ],
)
def test_d2_order(pods: list[tuple[str, str | None, str]], chosen: str) -> None:
    made = [
        waiting_pod(name, f"Ascend910-{at}", time, created=day) for at, (name, time, day) in enumerate(pods)
    ]
    allocation = allocator(*made).allocate(["Ascend910-7"], 0, healthy)
    assert allocation.pod is not None
    assert allocation.pod.name == chosen


def test_d2_a_served_pod_is_never_chosen_again_also_when_it_is_the_only_match() -> None:
    machine = allocator(
        waiting_pod("done", "Ascend910-0", CONSUMED), waiting_pod("two", "Ascend910-1,Ascend910-2")
    )
    with pytest.raises(AllocationError, match=r"waits for 1 chip .*; .*default/two \(2\)"):
        machine.allocate(["Ascend910-7"], 0, healthy)


def test_D4_a_pod_with_two_containers_that_ask_is_refused_and_takes_nothing_from_others() -> None:
    two = waiting_pod("two", "Ascend910-0,Ascend910-1", "1", limits=[{CHIP: 1}, {CHIP: 1}])
    sidecar = waiting_pod("good", "Ascend910-2,Ascend910-3", "9", limits=[{CHIP: 2}, {}, {CHIP: 0}])
    machine = allocator(two, sidecar)
    reason = (
        r"waits for 1 chip .*default/good \(2\); "
        r"one container of a pod may ask for chips, more do in default/two$"
    )
    with pytest.raises(AllocationError, match=reason):
        machine.allocate(["Ascend910-7"], 0, healthy)
    # Its list has two chips; a call for two chips is not its call all the same.
    allocation = machine.allocate(["Ascend910-7", "Ascend910-6"], 0, healthy)
    assert allocation.chips == ("Ascend910-2", "Ascend910-3")
    # Its chips stay its own: they are not free.
    assert {"Ascend910-0", "Ascend910-1"} <= machine.used()


def read_pod(spec: dict[str, Any], name: str = "pod", wanted: str = "Ascend910-0,Ascend910-1") -> NodePod:
    metadata = {"name": name, "uid": name, "annotations": {CHIP: wanted, "predicate-time": "1"}}
    read = pod_from_wire(msgspec.convert({"metadata": metadata, "spec": spec}, NodePodWire))
    assert read is not None
    return read


def container(name: str, wanted: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"limits": {CHIP: str(wanted)}}, **more}


def test_D4_a_sidecar_gets_the_chips_of_its_pod() -> None:
    beside = container("beside", 2, restartPolicy="Always")
    pod = read_pod({"containers": [{"name": "main"}], "initContainers": [{"name": "first"}, beside]})
    assert (pod.asks_for(CHIP), pod.container_of(CHIP)) == (2, "beside")
    machine = allocator(pod)
    assert machine.allocate(["Ascend910-7", "Ascend910-6"], 0, healthy).chips == (
        "Ascend910-0",
        "Ascend910-1",
    )


def test_D4_chips_of_an_init_container_are_refused_by_name_and_take_no_call_of_others() -> None:
    early = read_pod({"containers": [{"name": "main"}], "initContainers": [container("first", 2)]}, "early")
    both = read_pod({"containers": [container("main", 2)], "initContainers": [container("first", 2)]}, "both")
    good = waiting_pod("good", "Ascend910-2,Ascend910-3", "9")
    machine = allocator(early, both, good)
    assert machine.allocate(["Ascend910-7", "Ascend910-6"], 0, healthy).pod == good
    reason = r"more do in default/both; only an init container asks for chips in default/early$"
    with pytest.raises(AllocationError, match=reason):
        machine.allocate(["Ascend910-5", "Ascend910-4"], 0, healthy)


def test_n8_a_list_that_a_tenant_changed_takes_the_call_of_no_other_pod() -> None:
    # It asks for one chip, names two that another pod has, and wants to be the first.
    holder = waiting_pod("holder", "Ascend910-0,Ascend910-1", CONSUMED, phase="Running")
    forged = waiting_pod("forged", "Ascend910-0,Ascend910-1", "0", limits=[{CHIP: 1}])
    machine = allocator(holder, forged, waiting_pod("good", "Ascend910-2,Ascend910-3", "9"))
    assert machine.allocate(["Ascend910-7", "Ascend910-6"], 0, healthy).chips == (
        "Ascend910-2",
        "Ascend910-3",
    )
    with pytest.raises(AllocationError, match=r"the chip list and the request differ in default/forged$"):
        machine.allocate(["Ascend910-5"], 0, healthy)


def test_d2_what_allocate_writes() -> None:
    provisional = waiting_pod("p", "Ascend910-10,Ascend910-2").annotated({REAL: "Ascend910-5"})
    machine = allocator(provisional, count=16)
    allocation = machine.allocate(["Ascend910-7", "Ascend910-0"], 0, healthy)
    assert allocation.annotations == {
        "predicate-time": CONSUMED,
        REAL: "Ascend910-10,Ascend910-2",
        "huawei.com/kltDev": "Ascend910-0,Ascend910-7",
    }
    assert machine.ledger.mapped(CHIP) == {"Ascend910-7": "Ascend910-10", "Ascend910-0": "Ascend910-2"}


@pytest.mark.parametrize("wanted", ["Ascend910-0,Ascend910-0", "Ascend910-x,Ascend910-1", "npu-0,npu-1", ""])
def test_d2_a_list_that_no_scheduler_wrote_makes_no_candidate(wanted: str) -> None:
    good = waiting_pod("good", "Ascend910-2,Ascend910-3", "9")
    machine = allocator(waiting_pod("bad", wanted, "1", limits=[{CHIP: 2}]), good)
    assert machine.allocate(["Ascend910-7", "Ascend910-6"], 0, healthy).chips == (
        "Ascend910-2",
        "Ascend910-3",
    )


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("Ascend910-3", "chip Ascend910-3 of pod default/bad cannot be used: SeparateNPU"),
        ("Ascend910-4", "chip Ascend910-4 of pod default/bad is held by pod default/holder"),
        ("Ascend910-9", "chip Ascend910-9 of pod default/bad is not on this node"),
    ],
)
def test_d2_a_pod_whose_chip_cannot_be_used_is_passed_over(bad: str, says: str) -> None:
    def why_not(chip: str) -> str | None:
        return "SeparateNPU" if chip == "Ascend910-3" else None

    holder = waiting_pod("holder", "Ascend910-4", CONSUMED, phase="Running").annotated({REAL: "Ascend910-4"})
    other_size = waiting_pod("two", "Ascend910-0,Ascend910-1", "1")
    machine = allocator(
        holder, other_size, waiting_pod("bad", bad, "2"), waiting_pod("good", "Ascend910-5", "9")
    )
    assert machine.preferred(chips(8), [], 1, why_not) == ["Ascend910-5"]
    allocation = machine.allocate(["Ascend910-7"], 0, why_not)
    machine.commit(allocation)
    assert (allocation.pod and allocation.pod.name, allocation.chips) == ("good", ("Ascend910-5",))
    assert allocation.passed_over == (says,)
    # None is left: the call fails and names it. It still waits, for its chip may come back.
    with pytest.raises(AllocationError) as refused:
        machine.allocate(["Ascend910-6"], 0, why_not)
    assert str(refused.value) == says
    assert [pod.name for pod in machine.waiting()] == ["two", "bad"]


def test_d2_a_chip_that_only_looks_held_passes_nobody_over() -> None:
    """The pod that had it may be gone since kubelet's list was read: it is read again before."""
    holder = waiting_pod("holder", "Ascend910-4", CONSUMED, phase="Running")
    machine = allocator(holder, waiting_pod("p", "Ascend910-4", "2"), waiting_pod("q", "Ascend910-5", "9"))
    with pytest.raises(AllocationError, match="held by pod default/holder"):
        machine.allocate(["Ascend910-7"], 0, healthy, fresh=False)
    machine.drop_pod(holder.uid, 0, replace(holder, phase="Failed"))
    assert machine.allocate(["Ascend910-7"], 0, healthy, fresh=False).chips == ("Ascend910-4",)


def test_d2_of_many_pods_that_are_passed_over_a_few_are_named() -> None:
    machine = allocator(*(waiting_pod(f"p{at}", f"Ascend910-{at}", str(at)) for at in range(5)))
    with pytest.raises(AllocationError, match=r"pod default/p0 .*/p1 .*/p2 cannot .*; and 2 pods more$"):
        machine.allocate(["Ascend910-7"], 0, lambda chip: "broken")


def test_d2_an_unhealthy_chip_fails_with_the_reason_and_leaves_no_mark() -> None:
    machine = allocator(waiting_pod("p", "Ascend910-3"))
    with pytest.raises(
        AllocationError, match="chip Ascend910-3 of pod default/p cannot be used: SeparateNPU"
    ):
        machine.allocate(["Ascend910-0"], 0, lambda chip: "SeparateNPU")
    assert machine.ledger.mounts == []


def test_d2_a_chip_of_another_pod_fails_with_its_name() -> None:
    holder = waiting_pod("holder", "Ascend910-5", CONSUMED, phase="Running").annotated({REAL: "Ascend910-3"})
    machine = allocator(holder, waiting_pod("p", "Ascend910-3"))
    with pytest.raises(AllocationError, match="held by pod default/holder"):
        machine.allocate(["Ascend910-0"], 0, healthy)


def test_d2_a_chip_that_is_not_here_fails() -> None:
    with pytest.raises(AllocationError, match="Ascend910-9 of pod default/p is not on this node"):
        allocator(waiting_pod("p", "Ascend910-9")).allocate(["Ascend910-0"], 0, healthy)


def test_there_is_no_short_cut_for_a_whole_node() -> None:
    wanted = ",".join(reversed(chips(8)))
    allocation = allocator(waiting_pod("whole", wanted)).allocate(list(chips(8)), 0, healthy)
    assert allocation.chips == tuple(reversed(chips(8)))
    assert allocation.annotations["predicate-time"] == CONSUMED


@pytest.mark.parametrize(
    ("requests", "says"),
    [
        ([], "does not name a container"),
        ([["Ascend910-0"]] * 300_001, "300001 containers"),
        ([["Ascend910-8"]], "unknown device ID Ascend910-8"),
        ([["Ascend910-2c-100-1", "Ascend910-2c-101-1"]], "one vNPU"),
        ([["Ascend910-0"] * 2], "twice"),
        ([[]], "does not request an ID"),
        ([["Ascend910-" + "0" * 50]], "60 characters"),
        ([[f"Ascend910-{number}" for number in range(801)]], "801 IDs"),
    ],
)
def test_requests_that_are_refused(requests: list[list[str]], says: str) -> None:
    with pytest.raises(AllocationError, match=says):
        check_request(requests, chips(8))


def test_every_refused_request_of_the_cases_is_tried_here() -> None:
    assert len(section("allocate_request_errors")) == 4


@pytest.mark.parametrize(
    ("wanted", "available", "must", "size", "preferred"),
    [
        (["Ascend910-4", "Ascend910-5"], chips(8), [], 2, ["Ascend910-4", "Ascend910-5"]),
        (["Ascend910-4", "Ascend910-5"], chips(5), [], 2, ["Ascend910-4", "Ascend910-0"]),
        (["Ascend910-4"], chips(8), ["Ascend910-1"], 2, ["Ascend910-1", "Ascend910-4"]),
        ([], ["Ascend910-10", "Ascend910-9"], [], 1, ["Ascend910-9"]),
    ],
)
def test_preferred_ids(
    wanted: list[str], available: list[str], must: list[str], size: int, preferred: list[str]
) -> None:
    assert preferred_ids(wanted, available, must, size, {}) == preferred


def test_preferred_ids_are_those_of_the_pod_that_is_served_next() -> None:
    machine = allocator(waiting_pod("late", "Ascend910-1", "9"), waiting_pod("early", "Ascend910-6", "2"))
    assert machine.preferred(chips(8), [], 1, healthy) == ["Ascend910-6"]

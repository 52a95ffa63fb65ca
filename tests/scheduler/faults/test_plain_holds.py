"""S9: while a gang is rescheduled because of a fault its healthy nodes are held for it, with a limit."""

from __future__ import annotations

from ringwise.messages import events as ev
from tests.builders.records import with_entries
from tests.builders.values import SECOND
from tests.scheduler.faults.fault_rig import POD_LEVEL
from tests.scheduler.rig import Rig


def restarted(rig: Rig) -> dict[str, str]:
    """A gang on n1 to n3 of 4 nodes loses a chip and restarts as a whole; where its pods were."""
    rig.submit("train", pods=3, chips=8, labels={"fault-scheduling": "force"})
    rig.run()
    before = {name: rig.node_of(name) for name in rig.pods_of("train")}
    rig.sick(before["train-2"], 1)
    rig.step()
    assert all(rig.pods[name].deleting for name in before)
    for name in before:
        rig.tell(ev.PodGone(rig.pods[name].uid))
    rig.step()
    return before


def test_S9_others_do_not_get_the_healthy_nodes_and_healthy_pods_return_to_them() -> None:
    rig = Rig(4)
    before = restarted(rig)
    rig.submit("first", chips=8)
    rig.submit("second", chips=8)
    rig.run()
    # One node is free; the healthy two of the gang are held.
    taken = [*rig.nodes_of("first"), *rig.nodes_of("second")]
    assert len(taken) == 1
    assert not {before["train-0"], before["train-1"]} & set(taken)
    rig.gone("first-0") if rig.nodes_of("first") else rig.gone("second-0")
    for name in before:
        rig.replacement(name)
    rig.run()
    after = {name: pod.node for name, pod in rig.pods.items() if pod.group == "train"}
    assert {name: after[name] for name in ("train-0", "train-1")} == {
        name: before[name] for name in ("train-0", "train-1")
    }


def test_S9_the_hold_ends_after_its_limit() -> None:
    rig = Rig(4)
    restarted(rig)
    rig.step(121)
    for name in ("one", "two", "three"):
        rig.submit(name, chips=8)
    rig.run()
    assert all(rig.nodes_of(name) for name in ("one", "two", "three"))


def test_F1_the_holds_survive_a_restart_without_any_pod_of_the_job() -> None:
    rig = Rig(4)
    before = restarted(rig)
    other = Rig(4)
    other.now, other.groups = rig.now, dict(rig.groups)
    other.sick(before["train-2"], 1)
    other.tell(*rig.groups.values(), rig.last_record)
    other.submit("first", chips=8)
    other.submit("second", chips=8)
    other.run()
    taken = [*other.nodes_of("first"), *other.nodes_of("second")]
    assert len(taken) == 1
    assert not {before["train-0"], before["train-1"]} & set(taken)
    held = other.machine._context.reservations.of("default/train")
    assert held is not None
    assert sorted(load.pods for load in held.loads.values()) == [1, 1]


def test_F1_a_clock_that_was_ahead_extends_no_hold() -> None:
    rig = Rig(4)
    before = restarted(rig)
    for name in before:
        del rig.pods[name]
    ((owner, entry),) = rig.entries("previous-placements").items()
    entries = {owner: entry | {"until": entry["until"] + 10**6 * SECOND}}
    other = rig.successor(ev.LeaderRecordRead(with_entries(rig.record, "previous-placements", entries)))
    for number in (1, 2):
        other.submit(f"other-{number}", chips=8)
    other.run()
    assert {before["train-0"], before["train-1"]}.isdisjoint(pod.node for pod in other.pods.values())
    other.step(121)
    other.submit("last", chips=8)
    other.run()
    assert all(pod.node for pod in other.pods.values())


def test_S9_a_pod_whose_binding_fails_returns_to_its_node_all_the_same() -> None:
    rig = Rig(2)
    rig.submit("other", pods=2, chips=8)
    rig.run()
    for number in (3, 4, 5):
        rig.node(f"n{number}")
    before = restarted(rig)
    assert sorted(before.values()) == ["n3", "n4", "n5"]
    rig.end("other")
    for name in before:
        rig.replacement(name)
    rig.step(fail=["train-0"])
    rig.run()
    assert rig.node_of("train-0") == before["train-0"]
    assert rig.node_of("train-1") == before["train-1"]
    assert rig.node_of("train-2") == "n1"


def test_only_a_pod_that_returns_while_others_run_on_is_restarted_in_place() -> None:
    rig = Rig(4)
    rig.submit("train", pods=3, chips=8, labels=POD_LEVEL)
    rig.run()
    rig.sick("n2", 1)
    rig.step()
    name = next(name for name, pod in rig.pods.items() if pod.deleting)
    rig.recreate(name)
    rig.run()
    assert rig.node_of(name) == "n4"
    assert all("reschedule-in-place" not in pod.annotations for pod in rig.pods.values())

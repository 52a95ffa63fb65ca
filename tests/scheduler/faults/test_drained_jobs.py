"""F4: a drain is not a fault. If a drained pod finds no place, the clock of F2 runs, and budgets are kept."""

from __future__ import annotations

import pytest

from ringwise.messages import events as ev
from ringwise.messages.commands import Command, DeletePod
from ringwise.scheduler.explain.fault_waits import fault_waits
from ringwise.scheduler.faults.handler import FaultHandler
from ringwise.scheduler.faults.states import State
from ringwise.state.model import Isolation
from tests.builders.values import isolated
from tests.scheduler.faults.fault_rig import POD_LEVEL, deletions, running, state_of
from tests.scheduler.rig import Rig, messages

HELD = "disruption budget train allows 0 evictions, and 3 would be needed"
#: As an admission webhook of others may write it.
DENIED = 'admission webhook "guard" denied the request: {"code": 403, "pods": {}}'


def isolate(rig: Rig, *nodes: str) -> None:
    entries = tuple(Isolation(node, by="ann", reason="drain") for node in nodes)
    rig.tell(isolated(*entries))


def drain(rig: Rig, node: str) -> str:
    """The node is isolated and its pod evicted, as `ringwise drain` does; its owner makes it again."""
    name = rig.pod_on(node)
    isolate(rig, node)
    rig.change(name, deleting=True)
    rig.step()
    rig.recreate(name)
    return name


def evicted(commands: list[Command]) -> set[str]:
    found = [one for one in commands if isinstance(one, DeletePod)]
    assert all(one.together == "default/train" and one.grace is None for one in found), found
    return {one.pod for one in found}


def pass_time(rig: Rig, seconds: int) -> list[Command]:
    found: list[Command] = []
    for _ in range(seconds):
        found += rig.step(1)
    return found


def test_F4_isolation_alone_moves_nobody() -> None:
    rig = running(POD_LEVEL)
    isolate(rig, *(f"n{number}" for number in range(1, 7)))
    assert deletions(pass_time(rig, 60)) == {}
    assert state_of(rig) is None
    assert len(rig.nodes_of("train")) == 4


def test_F4_a_fault_of_an_isolated_chip_counts_as_any_other() -> None:
    rig = running(POD_LEVEL)
    isolate(rig, "n3")
    rig.step()
    name = rig.pod_on("n3")
    rig.sick("n3", 1)
    assert deletions(rig.step()) == {name: 0}


def test_F4_a_drained_pod_that_finds_a_place_restarts_nothing_uses_no_retry_and_starts_no_cool_down() -> None:
    rig = running({**POD_LEVEL, "fault-retry-times": "2"}, nodes=5)
    name = drain(rig, "n1")
    assert deletions(pass_time(rig, 30)) == {}
    assert rig.pods[name].node == "n5"
    assert state_of(rig) is None
    faults = rig.machine._components.of(FaultHandler)
    assert not faults.retries.owners
    assert len(faults.cool_downs) == 0


def test_F4_where_it_finds_none_the_others_are_evicted_together_when_the_clock_says_so() -> None:
    rig = running(POD_LEVEL, nodes=4, pods=3)
    rig.submit("other", chips=8)
    rig.run()
    name = drain(rig, "n2")
    assert deletions(pass_time(rig, 11)) == {}
    assert state_of(rig) is State.WAITING
    others = {f"train-{index}" for index in range(3)} - {name}
    assert evicted(pass_time(rig, 3)) == others
    assert state_of(rig) is State.DELETING
    # Never by force, however long they take.
    assert deletions(pass_time(rig, 1000)) == {}
    rig.finish()
    rig.run()
    assert not rig.machine._components.of(FaultHandler).retries.owners


def test_F4_the_first_failure_that_a_drain_may_have_caused_uses_no_retry_and_the_next_one_does() -> None:
    rig = running({**POD_LEVEL, "fault-retry-times": "1"}, nodes=4)
    drained = drain(rig, "n3")
    rig.step()
    retries = rig.machine._components.of(FaultHandler).retries
    for node, left in (("n2", 1), ("n4", 0)):
        name = rig.pod_on(node)
        assert name != drained
        rig.change(name, phase="Failed", exit_code=1)
        assert deletions(rig.step()) == {name: 0}
        assert retries.left("default/train", 1) == left
        rig.finish()
        rig.change(name, exit_code=None)
        rig.run()


def test_F4_a_drained_rank_0_takes_a_place_where_there_is_one_and_else_restarts_the_job_at_once() -> None:
    rig = running(POD_LEVEL, nodes=4, pods=3)
    assert rig.pods["train-0"].node == "n1"
    drain(rig, "n1")
    assert deletions(pass_time(rig, 30)) == {}
    assert rig.pods["train-0"].node == "n4"
    drain(rig, "n4")
    isolate(rig, "n1", "n4")
    assert evicted(pass_time(rig, 3)) == {"train-1", "train-2"}


@pytest.mark.parametrize("why", [HELD, DENIED])
def test_F4_a_refusal_of_one_eviction_holds_all_back_with_that_reason(why: str) -> None:
    rig = running(POD_LEVEL, nodes=4)
    rig.deaf = True
    name = drain(rig, "n2")
    sent = pass_time(rig, 14)
    others = {f"train-{index}" for index in range(4)} - {name}
    assert evicted(sent) == others
    # To the scheduler they run on until the API server says that they terminate.
    assert not any(pod.deleting for pod in rig.pods.values())
    rig.tell(*(ev.EvictFailed(rig.pods[other].uid, why) for other in sorted(others)))
    said = rig.step()
    assert deletions(said) == {}
    assert messages(said, "EvictionBlocked") == [f"no pod is evicted to restart the drained job: {why}"]
    view = rig.machine.view
    assert any(why in line for line in fault_waits(view, view.jobs["default/train"], rig.now))
    # It is asked again, and told once.
    later = pass_time(rig, 6)
    assert evicted(later) == others
    assert messages(later, "EvictionBlocked") == []
    # The next leader asks, too.
    other = rig.successor()
    assert evicted(other.step()) == others
    # A place is found meanwhile: nothing is evicted any more.
    rig.deaf = False
    rig.tell(*(ev.EvictFailed(rig.pods[one].uid, why) for one in sorted(others)))
    rig.node("n9")
    rig.run()
    assert rig.pods[name].node == "n9"
    assert deletions(pass_time(rig, 20)) == {}
    assert state_of(rig) is None


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"fault-scheduling": "force"},
        {"pod-rescheduling": "on"},
        {"fault-scheduling": "off", "pod-rescheduling": "on"},
        {"fault-scheduling": "external-force", "pod-rescheduling": "on"},
    ],
)
def test_F4_without_both_labels_a_drain_restarts_nothing(labels: dict[str, str]) -> None:
    rig = running(labels, nodes=4)
    drain(rig, "n2")
    assert deletions(pass_time(rig, 60)) == {}


def test_F4_processes_that_fail_because_of_a_drain_use_no_retry_once() -> None:
    rig = running({**POD_LEVEL, "fault-retry-times": "1"}, nodes=5)
    name = rig.pod_on("n2")
    isolate(rig, "n2")
    rig.change(name, deleting=True, phase="Failed", exit_code=143)
    rig.step()
    peer = rig.pod_on("n3")
    rig.change(peer, phase="Failed", exit_code=1)
    assert set(deletions(rig.step())) == {peer}
    assert not rig.machine._components.of(FaultHandler).retries.owners
    rig.finish()
    for one in (name, peer):
        rig.change(one, exit_code=None)
    rig.run()
    assert state_of(rig) is None
    # Later failures are the job's own.
    rig.change(peer, phase="Failed", exit_code=1)
    rig.step()
    assert [one.used for one in rig.machine._components.of(FaultHandler).retries.owners.values()] == [1]


def test_F4_a_fault_while_a_drained_job_waits_is_handled_as_any_other() -> None:
    rig = running(POD_LEVEL, nodes=4)
    drain(rig, "n2")
    pass_time(rig, 3)
    hit = rig.pod_on("n3")
    rig.sick("n3", 1)
    assert deletions(rig.step()) == {hit: 0}
    rig.finish()
    found = deletions(pass_time(rig, 14))
    assert set(found.values()) == {0}


@pytest.mark.parametrize("breaks", ["before the refusal", "after it"])
def test_F4_a_pod_whose_eviction_is_refused_is_deleted_when_its_hardware_breaks(breaks: str) -> None:
    rig = running(POD_LEVEL, nodes=4)
    rig.deaf = True
    drain(rig, "n2")
    others = evicted(pass_time(rig, 14))
    hit = rig.pod_on("n3")
    if breaks == "before the refusal":
        rig.sick("n3", 1)
        rig.step()
    rig.tell(*(ev.EvictFailed(rig.pods[other].uid, HELD) for other in sorted(others)))
    rig.sick("n3", 1)
    # The other pods stay until the clock of this fault says that they have to go.
    assert deletions(pass_time(rig, 9)) == {hit: 0}


def test_F1_a_drained_job_goes_on_under_the_next_leader() -> None:
    rig = running(POD_LEVEL, nodes=4)
    name = drain(rig, "n2")
    pass_time(rig, 6)
    other = rig.successor()
    isolate(other, "n2")
    assert evicted(pass_time(other, 14)) == {f"train-{index}" for index in range(4)} - {name}

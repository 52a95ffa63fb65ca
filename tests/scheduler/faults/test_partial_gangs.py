"""How long a gang may stay partly bound, counted from its first binding, whichever replica made it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, SetGroupStatus
from ringwise.scheduler.faults.partial_gangs import GRACE, GRACE_WHILE_BINDING, bound_at
from ringwise.state.model import SubGroupPolicy
from tests.builders.values import SECOND, pod
from tests.scheduler.rig import PLAIN, Rig

LIMIT = 30
CREATED = 500 * SECOND
GIVEN_OUT = str(2**64 - 1)


@pytest.mark.parametrize(
    ("said", "chips", "time"),
    [
        (str(900 * SECOND), 8, 900 * SECOND),
        (str(900 * SECOND), 0, None),
        (str(400 * SECOND), 8, CREATED),
        ("0", 8, CREATED),
        (GIVEN_OUT, 8, 2**64 - 1),
        (None, 8, None),
        ("", 8, None),
        ("-5", 8, None),
        ("1e9", 8, None),
        ("soon", 8, None),
        ("\u0663", 8, None),
        ("9" * 5000, 8, None),
    ],
)
def test_when_a_pod_was_bound(said: str | None, chips: int, time: int | None) -> None:
    annotations = {} if said is None else {"predicate-time": said}
    assert bound_at(pod("p", chips, created=CREATED, annotations=annotations)) == time


def restarted(old: Rig, seconds: float) -> Rig:
    """Another replica leads after this time: it knows what the API server knows, and nothing else."""
    new = old.successor(ev.LeaderRecordRead())
    new.now += int(seconds * SECOND)
    return new


def cut_gang(*, pods: int = 2, second_node: bool = True) -> Rig:
    """A gang whose scheduler stopped when all bindings but the last had succeeded."""
    rig = Rig(pods, actions=PLAIN, deaf=True, gang_recovery_limit=LIMIT)
    rig.submit("gang", pods=pods, chips=8)
    binds = [command for command in rig.step() if isinstance(command, Bind)]
    for bind in binds[:-1]:
        rig.change(bind.pod, node=bind.node, holds=bind.chips, annotations=bind.annotations)
    if not second_node:
        rig.node(binds[-1].node, ready=False)
    rig.step()
    return rig


@pytest.mark.parametrize(
    ("asleep", "left"),
    [(0, LIMIT), (10, LIMIT - 10), (LIMIT - 1, GRACE), (LIMIT, GRACE), (1000, GRACE)],
)
def test_f1_the_next_leader_counts_from_the_first_binding(asleep: int, left: int) -> None:
    rig = restarted(cut_gang(second_node=False), asleep)
    rig.step()
    assert rig.evictions() == []
    assert rig.machine.next_deadline() == rig.now + left * SECOND
    rig.step(left - 1)
    assert rig.evictions() == []
    rig.step(1)
    assert rig.evictions() == ["gang-0"]


def test_f1_leaders_that_fail_one_after_the_other_do_not_extend_the_limit() -> None:
    rig = cut_gang(second_node=False)
    first = rig.now
    for _ in range(3):
        rig = restarted(rig, 8)
        rig.step(1)
        assert rig.evictions() == []
    rig = restarted(rig, 3)
    rig.step()
    assert rig.evictions() == []
    rig.step(GRACE)
    assert rig.evictions() == ["gang-0"]
    assert rig.now - first == (LIMIT + GRACE) * SECOND


@pytest.mark.parametrize(
    ("times", "counted"),
    [
        ((-20, -15), -20),
        ((-15, -20), -20),
        ((None, -20), -20),
        ((GIVEN_OUT, -20), -20),
        ((5, -20), -20),
        (("soon", -20), -20),
        ((None, None), 0),
        ((GIVEN_OUT, GIVEN_OUT), 0),
        ((3600, 5), 0),
    ],
    ids=str,
)
def test_the_earliest_plausible_time_counts(times: tuple[int | str | None, ...], counted: int) -> None:
    """Numbers are seconds from now; two pods of three are bound."""
    rig = restarted(cut_gang(pods=3, second_node=False), 100)
    for number, time in enumerate(times):
        annotations = dict(rig.pods[f"gang-{number}"].annotations)
        del annotations["predicate-time"]
        if time is not None:
            said = time if isinstance(time, str) else str(rig.now + time * SECOND)
            annotations["predicate-time"] = said
        rig.change(f"gang-{number}", annotations=annotations)
    rig.step()
    assert rig.evictions() == []
    assert rig.machine.next_deadline() == rig.now + (LIMIT + counted) * SECOND


def test_a_late_leader_tries_to_complete_the_gang_first() -> None:
    rig = restarted(cut_gang(), 1000)
    binds = [command for command in rig.step() if isinstance(command, Bind)]
    assert [bind.pod for bind in binds] == ["gang-1"]
    # The binding takes its time: it is on its way, and nothing is undone meanwhile.
    assert rig.machine.next_deadline() == rig.now + GRACE_WHILE_BINDING * SECOND
    rig.step(GRACE_WHILE_BINDING - 1)
    assert rig.evictions() == []
    rig.change("gang-1", node=binds[0].node, holds=binds[0].chips, annotations=binds[0].annotations)
    rig.step()
    rig.step(1000)
    assert rig.evictions() == []


def test_a_failed_attempt_does_not_restart_the_limit() -> None:
    """Not even when the device plugin has written over the time of the first binding meanwhile."""
    rig = restarted(cut_gang(), 20)
    bind = next(command for command in rig.step() if isinstance(command, Bind))
    rig.change("gang-0", annotations={**rig.pods["gang-0"].annotations, "predicate-time": GIVEN_OUT})
    rig.node(bind.node, ready=False)
    rig.tell(ev.BindFailed(bind.uid, "the node is gone"))
    rig.step(1)
    assert rig.evictions() == []
    rig.step(LIMIT - 20)
    assert rig.evictions() == ["gang-0"]


def test_a_confirmed_binding_saves_a_gang_that_is_overdue() -> None:
    """The last binding of the old leader succeeded, though ours was refused and no other node is free."""
    rig = restarted(cut_gang(), 1000)
    bind = next(command for command in rig.step() if isinstance(command, Bind))
    rig.node(bind.node, unschedulable=True)
    rig.tell(ev.BindFailed(bind.uid, "somebody else bound it"))
    rig.step(0.1)
    assert rig.machine.next_deadline() is not None
    rig.change("gang-1", node=bind.node, holds=bind.chips, annotations=bind.annotations)
    rig.step(1)
    rig.step(1000)
    assert rig.evictions() == []


def test_a_gang_that_is_bound_slowly_is_not_evicted() -> None:
    """A pod whose binding fails late has the whole limit to find another node."""
    rig = Rig(2, actions=PLAIN, deaf=True, gang_recovery_limit=LIMIT)
    rig.submit("gang", pods=2, chips=8)
    binds = [command for command in rig.step() if isinstance(command, Bind)]
    first, last = binds
    rig.step(2 * LIMIT)
    rig.change(first.pod, node=first.node, holds=first.chips, annotations=first.annotations)
    rig.step(2 * LIMIT)
    assert rig.evictions() == []
    rig.node(last.node, ready=False)
    rig.tell(ev.BindFailed(last.uid, "the node is gone"))
    rig.step()
    assert rig.machine.next_deadline() == rig.now + LIMIT * SECOND
    rig.step(LIMIT - 1)
    assert rig.evictions() == []
    rig.step(1)
    assert rig.evictions() == [first.pod]


def test_a_limit_of_zero_evicts_at_once_but_not_before_an_attempt() -> None:
    rig = restarted(cut_gang(), 5)
    at_once = replace(
        rig.machine.view.configuration,
        settings=replace(rig.machine.view.settings, gang_recovery_limit=0),
    )
    rig.tell(at_once)
    assert any(isinstance(command, Bind) for command in rig.step())
    assert rig.evictions() == []
    rig = restarted(cut_gang(second_node=False), 5)
    rig.tell(at_once)
    rig.step()
    assert rig.evictions() == ["gang-0"]


def test_a_failed_eviction_is_repeated() -> None:
    rig = restarted(cut_gang(second_node=False), LIMIT)
    rig.step()
    rig.step(GRACE)
    assert rig.evictions() == ["gang-0"]
    # That its status changes says nothing about the eviction.
    rig.change("gang-0", phase="Running")
    rig.step(1)
    rig.step(GRACE)
    assert rig.evictions() == ["gang-0"]
    rig.tell(ev.EvictFailed(rig.pods["gang-0"].uid))
    rig.step(1)
    rig.step(GRACE)
    assert rig.evictions() == ["gang-0", "gang-0"]
    # Somebody else sends it away meanwhile: then it is going, whatever became of our own word.
    rig.change("gang-0", deleting=True)
    rig.tell(ev.EvictFailed(rig.pods["gang-0"].uid))
    rig.step(1)
    rig.step(LIMIT)
    assert rig.evictions() == ["gang-0", "gang-0"]
    assert rig.machine.view.inconsistencies() == []


def test_a_gang_whose_last_binding_keeps_failing_is_evicted() -> None:
    rig = Rig(2, actions=PLAIN, deaf=True, gang_recovery_limit=LIMIT)
    rig.submit("gang", pods=2, chips=8)
    first, last = (command for command in rig.step() if isinstance(command, Bind))
    rig.change(first.pod, node=first.node, holds=first.chips, annotations=first.annotations)
    rig.step()
    began, tries, under_way = rig.now, 0, True
    while not rig.evictions():
        if under_way:
            rig.tell(ev.BindFailed(last.uid, "the server refuses"))
            tries += 1
        under_way = any(isinstance(command, Bind) for command in rig.step(1))
        assert rig.now - began <= (LIMIT + 1) * SECOND
    assert tries > 4
    assert first.pod in rig.evictions()
    # Since the other binding came through.
    assert rig.now - began == LIMIT * SECOND
    assert rig.machine.view.inconsistencies() == []


def test_a_pod_that_exits_with_0_because_it_is_deleted_does_not_make_its_gang_complete() -> None:
    rig = cut_gang(pods=3, second_node=False)
    bound = [name for name, pod in rig.pods.items() if pod.node is not None]
    rig.change(bound[1], phase="Succeeded", deleting=True)
    rig.step()
    rig.step(LIMIT)
    assert bound[0] in rig.evictions()


def test_a_gang_that_makes_progress_after_a_failed_binding_is_not_evicted() -> None:
    """Bindings of a large gang succeed one by one; each is progress."""
    rig = Rig(4, actions=PLAIN, deaf=True, gang_recovery_limit=LIMIT)
    rig.submit("gang", pods=4, chips=8)
    binds = [command for command in rig.step() if isinstance(command, Bind)]
    rig.tell(ev.BindFailed(binds[-1].uid, "too many requests"))
    binds[-1:] = [command for command in rig.step(1) if isinstance(command, Bind)]
    for bind in binds:
        rig.change(bind.pod, node=bind.node, holds=bind.chips, annotations=bind.annotations)
        rig.step(LIMIT - 1)
    rig.step(10 * LIMIT)
    assert rig.evictions() == []
    assert rig.machine.next_deadline() is None


def test_a_gang_without_bound_pods_is_retried_without_limit() -> None:
    rig = Rig(2, actions=PLAIN, deaf=True, gang_recovery_limit=LIMIT)
    rig.submit("gang", pods=2, chips=8)
    tries = []
    for second in range(3 * LIMIT):
        binds = [command for command in rig.step(1) if isinstance(command, Bind)]
        rig.tell(*(ev.BindFailed(bind.uid, "the server refuses") for bind in binds))
        if binds:
            assert len(binds) == 2
            tries.append(second)
    assert rig.evictions() == []
    # Less and less often, and never given up.
    assert tries[:8] == [0, 1, 2, 4, 7, 12, 21, 32]


def test_a_gang_whose_last_binding_gets_no_answer_is_evicted() -> None:
    """Whether it will succeed is not known; the other pods have waited long enough."""
    rig = Rig(2, actions=PLAIN, deaf=True, gang_recovery_limit=LIMIT)
    rig.submit("gang", pods=2, chips=8)
    first, last = (command for command in rig.step() if isinstance(command, Bind))
    rig.change(first.pod, node=first.node, holds=first.chips, annotations=first.annotations)
    rig.step()
    assert rig.machine.next_deadline() == rig.now + LIMIT * SECOND
    rig.step(LIMIT - 1)
    assert rig.evictions() == []
    rig.step(1)
    assert rig.evictions() == [first.pod, last.pod]
    # It came through after all: it goes, too, and holds its chips until it is gone.
    rig.change(last.pod, node=last.node, holds=last.chips, annotations=last.annotations, deleting=True)
    rig.step()
    assert rig.machine.view.inconsistencies() == []


def test_a_gang_that_is_being_bound_has_a_grace_period_whatever_the_limit() -> None:
    rig = Rig(2, actions=PLAIN, deaf=True, gang_recovery_limit=0)
    rig.submit("gang", pods=2, chips=8)
    first, last = (command for command in rig.step() if isinstance(command, Bind))
    rig.change(first.pod, node=first.node, holds=first.chips, annotations=first.annotations)
    rig.step()
    rig.step(GRACE_WHILE_BINDING - 1)
    assert rig.evictions() == []
    rig.change(last.pod, node=last.node, holds=last.chips, annotations=last.annotations)
    rig.step()
    rig.step(1000)
    assert rig.evictions() == []


def cut_sub_groups(least: int) -> Rig:
    """Two sub-groups of two pods, of which both must run; one binding of the second one was refused."""
    rig = Rig(4, actions=PLAIN, deaf=True, gang_recovery_limit=LIMIT)
    rig.submit("gang", pods=4, chips=8, min_available=least)
    rig.change_group("gang", sub_groups=(SubGroupPolicy("s", None, ("part",), 2, 2),))
    for number in range(4):
        rig.change(f"gang-{number}", labels={"part": str(number // 2)})
    binds = [command for command in rig.step() if isinstance(command, Bind)]
    assert len(binds) == 4
    for bind in binds[:-1]:
        rig.change(bind.pod, node=bind.node, holds=bind.chips, annotations=bind.annotations)
    rig.node(binds[-1].node, ready=False)
    rig.tell(ev.BindFailed(binds[-1].uid, "the node is gone"))
    rig.step(1)
    return rig


@pytest.mark.parametrize("least", [1, 2, 3, 4])
def test_a_job_that_lacks_a_sub_group_which_must_run_is_partly_bound_too(least: int) -> None:
    rig = cut_sub_groups(least)
    phases = [one.phase for one in rig.commands if isinstance(one, SetGroupStatus)]
    assert set(phases) == {"Inqueue"}
    rig.step(LIMIT)
    assert sorted(rig.evictions()) == ["gang-0", "gang-1", "gang-2"]


def test_a_job_that_had_all_its_sub_groups_keeps_what_is_left_of_them_under_every_leader() -> None:
    rig = Rig(4, actions=PLAIN, gang_recovery_limit=LIMIT)
    rig.submit("gang", pods=4, chips=8, min_available=2)
    rig.change_group("gang", sub_groups=(SubGroupPolicy("s", None, ("part",), 2, 2),))
    for number in range(4):
        rig.change(f"gang-{number}", labels={"part": str(number // 2)})
    rig.run()
    assert rig.groups["default/gang"].phase == "Running"
    rig.node(rig.node_of("gang-3"), ready=False)
    rig.recreate("gang-3")
    for _ in range(2):
        rig.run()
        rig.step(2 * LIMIT)
        assert rig.groups["default/gang"].phase == "Running"
        assert rig.evictions() == []
        rig.change_leader()


def test_each_binding_that_is_confirmed_gives_those_under_way_time_however_short_the_limit_is() -> None:
    rig = Rig(3, actions=PLAIN, deaf=True, gang_recovery_limit=5)
    rig.submit("gang", pods=3, chips=8)
    binds = [command for command in rig.step() if isinstance(command, Bind)]
    for bind in binds[:-1]:
        rig.change(bind.pod, node=bind.node, holds=bind.chips, annotations=bind.annotations)
        rig.step(6)
    assert rig.machine.next_deadline() == rig.now + GRACE_WHILE_BINDING * SECOND
    rig.step(GRACE_WHILE_BINDING - 1)
    assert rig.evictions() == []
    rig.step(1)
    assert len(rig.evictions()) >= 2


def test_a_complete_job_whose_pod_group_was_created_again_runs_also_where_its_queue_is_gone() -> None:
    rig = Rig(4, actions=PLAIN)
    rig.queue("q")
    rig.submit("gang", pods=4, chips=8, min_available=2, queue="q")
    rig.change_group("gang", sub_groups=(SubGroupPolicy("s", None, ("part",), 2, 2),))
    for number in range(4):
        rig.change(f"gang-{number}", labels={"part": str(number // 2)})
    rig.run()
    rig.tell(ev.QueueGone("q"))
    rig.run()
    rig.change_group("gang", phase="", uid="again")
    rig.change_leader()
    rig.run()
    assert rig.groups["default/gang"].phase == "Running"

"""Intervals as the scheduler tells them: whose times they have, and what becomes of times that cannot be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.durations import time_text
from ringwise.kube.run.core_thread import SchedulerAdapter
from ringwise.messages import events as ev
from ringwise.messages.accounting import (
    AccountCommand,
    AccountedJob,
    HoldEnded,
    JobWaits,
    PodHeld,
    WaitEnded,
)
from ringwise.messages.commands import Command
from ringwise.messages.events import Decide
from ringwise.metrics.prometheus import Metrics
from ringwise.scheduler.core.machine import Scheduler
from ringwise.state.model import Node, PodClass, PriorityClass, Queue
from ringwise.wellknown import ASCEND910
from tests.builders.values import SECOND, group, pod, seen
from tests.scheduler.rig import configuration, gangs_may_end

NODE = Node("node-1", chips_allocatable={ASCEND910: 8}, cpu_milli=192_000, memory=1 << 40, max_pods=110)
GROUP = group(
    "train", namespace="team", uid="group-uid", phase="Inqueue", created=100 * SECOND, queue="default"
)
BOUND = pod(
    "train-0",
    8,
    uid="pod-uid",
    namespace="team",
    on="node-1",
    created=110 * SECOND,
    group="train",
    chip_containers=1,
    holds=tuple(range(8)),
    annotations={ASCEND910: ",".join(f"Ascend910-{chip}" for chip in range(8))},
    bound=120 * SECOND,
)
JOB = AccountedJob("team", "train", "group-uid")


def told(commands: list[Command]) -> list[AccountCommand]:
    return [one for one in commands if isinstance(one, AccountCommand)]


def turns(*batches: list[ev.Event], start: int = 1000) -> list[AccountCommand]:
    """What is told in turns a second apart; the first knows the node and the job."""
    scheduler = new_scheduler()
    found = []
    first: list[ev.Event] = [ev.NodeSeen(NODE), ev.PodGroupSeen(GROUP), ev.AccountsRead()]
    for number, batch in enumerate(([*first, *batches[0]], *batches[1:])):
        found += told(scheduler.handle(batch, (start + number) * SECOND))
    return found


def ended(at: int) -> list[ev.Event]:
    return [ev.PodSeen(replace(BOUND, phase="Succeeded", ended=at))]


def test_the_times_are_those_of_the_objects_and_not_those_of_the_turns() -> None:
    held, wait, end = turns([ev.PodSeen(BOUND)], ended(500 * SECOND))
    assert held == PodHeld(JOB, "default", "910-x8", 8, "pod-uid", 120 * SECOND)
    assert wait == WaitEnded(JOB, "default", "910-x8", 100 * SECOND, 120 * SECOND, 120 * SECOND, started=True)
    assert end == HoldEnded("pod-uid", 500 * SECOND, 500 * SECOND, 500 * SECOND)


def test_without_what_was_written_before_nothing_is_told() -> None:
    scheduler = new_scheduler()
    assert not told(scheduler.handle(seen(NODE, GROUP, BOUND), SECOND))


def test_an_end_is_told_once_however_often_it_is_reported() -> None:
    again = ended(500 * SECOND)
    found = turns([ev.PodSeen(BOUND)], again, again, [ev.PodGone("pod-uid")])
    assert sum(isinstance(one, HoldEnded) for one in found) == 1


def test_a_pod_that_is_gone_without_a_word_held_its_chips_until_then() -> None:
    *_, end = turns([ev.PodSeen(BOUND)], [ev.PodGone("pod-uid")])
    assert end == HoldEnded("pod-uid", 1001 * SECOND, 1001 * SECOND)


def test_an_end_before_the_start_is_the_start_and_marked() -> None:
    *_, end = turns([ev.PodSeen(BOUND)], ended(10 * SECOND))
    assert end == HoldEnded("pod-uid", 120 * SECOND, 120 * SECOND, 10 * SECOND, clamped=True)


def test_an_end_that_is_yet_to_come_is_now_and_marked() -> None:
    *_, end = turns([ev.PodSeen(BOUND)], ended(9_000 * SECOND))
    assert end == HoldEnded("pod-uid", 1001 * SECOND, 1001 * SECOND, 9_000 * SECOND, clamped=True)


def test_a_start_before_the_pod_was_created_is_when_it_was_created_and_marked() -> None:
    held, *_ = turns([ev.PodSeen(replace(BOUND, bound=1 * SECOND))])
    assert isinstance(held, PodHeld)
    assert (held.since, held.clamped) == (110 * SECOND, True)


def test_pods_without_chips_do_not_count() -> None:
    plain = replace(BOUND, cls=PodClass(cpu_milli=1000), holds=(), annotations={}, chip_containers=0)
    over = replace(plain, phase="Succeeded", ended=500 * SECOND)
    assert turns([ev.PodSeen(plain)], [ev.PodSeen(over)], [ev.PodGone("pod-uid")]) == []


def test_a_job_that_ran_waits_again_since_its_oldest_pod_that_stays_was_created() -> None:
    waiting = replace(BOUND, node=None, phase="Pending", bound=0, holds=(), annotations={})
    old = replace(waiting, uid="old", name="train-1", created=400 * SECOND, deleting=True)
    new = [replace(waiting, uid=f"new-{at}", name=f"train-{at}", created=at * SECOND) for at in (800, 900)]
    restarted: list[ev.Event] = [ev.NodeGone("node-1"), ev.PodGone("pod-uid"), *seen(old, *new)]
    *_, wait = turns([ev.PodSeen(BOUND)], ended(500 * SECOND), restarted)
    assert wait == JobWaits(JOB, "default", 800 * SECOND)


def test_a_standby_remembers_when_pods_ended_that_the_leader_wrote_as_open() -> None:
    scheduler = new_scheduler()
    start: list[ev.Event] = [ev.NodeSeen(NODE), ev.PodGroupSeen(GROUP), ev.PodSeen(BOUND)]
    scheduler.handle(start, 1000 * SECOND, Decide.NOTHING)
    scheduler.handle([ev.PodGone("pod-uid")], 1030 * SECOND, Decide.NOTHING)
    open_pod = PodHeld(JOB, "default", "910-x8", 8, "pod-uid", 120 * SECOND)
    read = ev.AccountsRead((open_pod,), ran=(JOB,), written=1000 * SECOND)
    found = told(scheduler.handle([read], 1100 * SECOND))
    assert found[0] == HoldEnded("pod-uid", 1030 * SECOND, 1030 * SECOND)


def test_what_nobody_saw_end_is_bounded() -> None:
    scheduler = new_scheduler()
    open_pod = PodHeld(JOB, "default", "910-x8", 8, "pod-uid", 120 * SECOND)
    read = ev.AccountsRead((open_pod,), ran=(JOB,), written=1000 * SECOND)
    found = told(scheduler.handle(seen(NODE, read), 1100 * SECOND))
    assert found[0] == HoldEnded("pod-uid", 1100 * SECOND, 1000 * SECOND)


def test_a_pod_that_ended_long_ago_is_counted_already_and_a_recent_one_is_not() -> None:
    over = replace(BOUND, phase="Succeeded", ended=300 * SECOND)
    for written, times in ((1000, 0), (400, 1)):
        scheduler = new_scheduler()
        batch: list[ev.Event] = [ev.NodeSeen(NODE), ev.PodGroupSeen(GROUP), ev.PodSeen(over)]
        found = told(scheduler.handle([*batch, ev.AccountsRead(written=written * SECOND)], 1100 * SECOND))
        assert sum(isinstance(one, HoldEnded) for one in found) == times


def test_the_user_is_that_of_the_pod_whoever_has_the_job() -> None:
    chosen = configuration(user_annotation="guarded")
    scheduler = new_scheduler(chosen)
    mine = replace(BOUND, annotations={**BOUND.annotations, "ringwise.io/user": "eve"})
    group = replace(GROUP, annotations={"ringwise.io/user": "ana"})
    batch: list[ev.Event] = [ev.NodeSeen(NODE), ev.PodGroupSeen(group), ev.PodSeen(mine), ev.AccountsRead()]
    held, *_ = told(scheduler.handle(batch, 1000 * SECOND))
    assert isinstance(held, PodHeld)
    assert (held.job.user, held.job.verified) == ("eve", True)


def preempting(claimed: int, believes: str) -> tuple[Scheduler, list[AccountCommand]]:
    """The pod was told to go at second 1000, or one later, for a job of a higher priority."""
    claim = {"ringwise.io/checkpoint-time": time_text(claimed * SECOND)}
    queue = Queue("default", annotations={"ringwise.io/trust-checkpoints": believes})
    boss = group("boss", namespace="team", uid="boss", phase="Inqueue", created=900 * SECOND, queue="default")
    scheduler = new_scheduler(configuration(tiers=gangs_may_end()))
    waiting = replace(BOUND, uid="boss-uid", name="boss-0", group="boss", node=None, phase="Pending", bound=0)
    batch: list[ev.Event] = [
        ev.QueueSeen(queue),
        ev.PriorityClassSeen(PriorityClass("high", 1000)),
        ev.NodeSeen(NODE),
        ev.PodGroupSeen(replace(GROUP, annotations=claim)),
        ev.PodSeen(replace(BOUND, preemptable=True)),
        ev.PodGroupSeen(replace(boss, priority_class="high")),
        ev.PodSeen(replace(waiting, priority=1000, holds=(), annotations={})),
        ev.AccountsRead(),
    ]
    found = told(scheduler.handle(batch, 1000 * SECOND))
    return scheduler, found + told(scheduler.handle([], 1001 * SECOND))


@pytest.mark.parametrize(
    ("believes", "claimed", "lost_since"),
    [("true", 600, 600), ("false", 600, 120), ("true", 5_000, 120), ("true", 10, 120)],
)
def test_lost_work_counts_from_the_checkpoint_that_the_queue_believes(
    believes: str, claimed: int, lost_since: int
) -> None:
    _, found = preempting(claimed, believes)
    (evicted,) = [one for one in found if isinstance(one, PodHeld) and one.cause]
    assert (evicted.cause, evicted.lost_since) == ("preempt", lost_since * SECOND)


@pytest.mark.parametrize(("end", "lost"), [(1100, 8 * 500), (500, 0)])
def test_metrics_tell_how_many_pods_were_evicted_and_what_was_lost(end: int, lost: int) -> None:
    """Also where the pod had ended before the checkpoint that it claims: counters never go back."""
    scheduler, _ = preempting(600, "true")
    adapter, metrics = SchedulerAdapter(scheduler), Metrics()
    adapter.count(metrics)
    over = replace(BOUND, phase="Failed", deleting=True, ended=end * SECOND)
    scheduler.handle(seen(over), 1200 * SECOND)
    scheduler.handle([ev.PodGone("pod-uid")], 1201 * SECOND)
    adapter.count(metrics)
    adapter.count(metrics)
    text = str(metrics.text())
    labels = 'queue="default",reason="preempt"'
    wanted = (
        f"ringwise_evicted_pods_total{{{labels}}} 1.0",
        f"ringwise_lost_chip_seconds_total{{{labels}}} {lost:.1f}",
    )
    assert [line for line in wanted if line not in text] == []


def test_a_failure_tells_the_checkpoint_for_the_case_that_hardware_was_why() -> None:
    scheduler = new_scheduler()
    claim = {"ringwise.io/checkpoint-time": time_text(400 * SECOND)}
    batch: list[ev.Event] = [
        ev.QueueSeen(Queue("default", annotations={"ringwise.io/trust-checkpoints": "true"})),
        ev.NodeSeen(NODE),
        ev.PodGroupSeen(replace(GROUP, annotations=claim)),
        ev.PodSeen(BOUND),
        ev.AccountsRead(),
    ]
    scheduler.handle(batch, 1000 * SECOND)
    failed = replace(BOUND, phase="Failed", ended=500 * SECOND)
    (end,) = told(scheduler.handle(seen(failed), 1001 * SECOND))
    times = (500 * SECOND, 500 * SECOND, 500 * SECOND)
    assert end == HoldEnded("pod-uid", *times, lost_since=400 * SECOND, failed=True)


@pytest.mark.parametrize("group_goes_first", [False, True])
def test_the_wait_of_a_job_ends_when_it_is_deleted(group_goes_first: bool) -> None:
    waits = replace(BOUND, node=None, bound=0, phase="Pending", holds=(), annotations={})
    gone: list[list[ev.Event]] = [[ev.PodGone(waits.uid)], [ev.PodGroupGone(GROUP.key)]]
    gone = gone[::-1] if group_goes_first else gone
    records = turns([ev.NodeGone("node-1"), ev.PodSeen(waits)], *gone, [])
    assert [type(one) for one in records] == [JobWaits, WaitEnded]

"""Active, unschedulable and in backoff: when a job is tried next."""

from __future__ import annotations

import pytest

from ringwise.framework.job import Job
from ringwise.framework.reasons import WAITS_BEHIND
from ringwise.reasons import CAPACITY, Trigger
from ringwise.scheduler.cache.deadlines import DeadlineTables
from ringwise.scheduler.cache.job_queue import BackoffCause, JobQueue
from ringwise.scheduler.core.queue_discipline import QueueDiscipline
from ringwise.scheduler.reasons import POD_GROUP_AWAITED
from tests.builders.values import SECOND
from tests.scheduler.rig import PLAIN, Rig


def pending_job(name: str) -> Job:
    return Job(f"default/{name}", "default", name)


def test_an_unschedulable_job_is_tried_within_five_minutes_even_if_no_event_comes() -> None:
    rig = Rig(1, actions=PLAIN, reservation_after=86_400)
    rig.now += 17 * SECOND
    rig.submit("never", chips=8, pods=2)
    rig.run()
    tried: list[str] = []
    rig.machine.observe(lambda session, job: tried.append(job.key))
    for _ in range(3):
        due = rig.machine.next_retry()
        assert due is not None
        assert 270 * SECOND < due - rig.now <= 300 * SECOND
        rig.step((due - rig.now) / SECOND - 1)
        assert tried == []
        rig.step(1)
        assert tried == ["default/never"]
        tried.clear()


def test_unschedulable_jobs_are_tried_together() -> None:
    queue = JobQueue(DeadlineTables())
    for number, now in enumerate((0, 29, 30)):
        queue.settle(pending_job(f"job-{number}"), True, now * SECOND)
    for due, tried in ((300, ["default/job-0", "default/job-1"]), (330, ["default/job-2"])):
        assert queue.next_retry() == due * SECOND
        queue.review(due * SECOND - 1)
        assert queue.pop_active() == []
        queue.review(due * SECOND)
        assert queue.pop_active() == tried
    assert queue.next_retry() is None


def test_a_job_that_waits_behind_others_is_tried_after_them_alone() -> None:
    queue = JobQueue(DeadlineTables())
    job = pending_job("job")
    job.reason = WAITS_BEHIND(queue="q", resource="chips")
    queue.settle(job, True, 0)
    assert queue.next_retry() is None
    queue.review(3600 * SECOND)
    assert queue.pop_active() == []
    queue.wake(WAITS_BEHIND.resolved_by)
    assert queue.pop_active() == [job.key]


def test_a_job_that_is_tried_earlier_begins_anew() -> None:
    queue = JobQueue(DeadlineTables())
    first, second = pending_job("first"), pending_job("second")
    queue.settle(first, True, 0)
    queue.settle(second, True, 60 * SECOND)
    queue.wake([Trigger.CHIPS_FREED])
    assert queue.pop_active() == ["default/first", "default/second"]
    queue.settle(second, True, 90 * SECOND)
    queue.settle(first, True, 90 * SECOND)
    queue.review(389 * SECOND)
    assert queue.pop_active() == []
    queue.activate(second.key)
    queue.review(390 * SECOND)
    assert queue.pop_active() == ["default/second", "default/first"]


def test_a_job_is_tried_at_the_time_that_a_plugin_named() -> None:
    deadlines = DeadlineTables()
    queue = JobQueue(deadlines)
    job = pending_job("job")
    queue.settle(job, True, 0)
    queue.set_retries({job.key: 7})
    # It may be activated and refused before any plugin is asked.
    queue.activate(job.key)
    assert queue.pop_active() == [job.key]
    queue.settle(job, True, 1)
    assert deadlines.first() == 7
    queue.review(7)
    assert queue.pop_active() == [job.key]
    queue.set_retries({job.key: 9})
    queue.settle(job, False, 8)
    assert deadlines.first() is None


def test_a_job_that_is_settled_twice_waits_for_its_last_reason() -> None:
    queue = JobQueue(DeadlineTables())
    job = pending_job("job")
    job.reason = POD_GROUP_AWAITED()
    queue.settle(job, True, 0)
    job.reason = None
    queue.settle(job, True, 0)
    queue.wake(POD_GROUP_AWAITED.resolved_by - CAPACITY)
    assert queue.pop_active() == []
    queue.wake(CAPACITY)
    assert queue.pop_active() == ["default/job"]


@pytest.mark.parametrize(("kind", "method"), [(QueueDiscipline, "end_cycle"), (JobQueue, "set_retries")])
def test_jobs_of_a_cycle_that_fails_are_tried_again(
    kind: type[object], method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(1, actions=PLAIN)
    rig.may_fail = True
    rig.submit("job", chips=8, pods=2)
    rig.submit("fits", chips=0, cpu_milli=100)

    def fail(*_: object) -> None:
        raise RuntimeError("planted")

    with monkeypatch.context() as planted:
        planted.setattr(kind, method, fail)
        rig.step()
    # Bindings that were decided before are sent.
    assert rig.nodes_of("fits") == ["n1"]
    assert not rig.nodes_of("job")
    waiting = {job.name for job in rig.machine.view.jobs.values() if job.waiting_since is not None}
    assert waiting == {"job"}
    rig.node("n2")
    rig.run()
    assert rig.nodes_of("job") == ["n1", "n2"]


@pytest.mark.parametrize("cause", BackoffCause)
def test_a_job_in_backoff_waits_for_the_latest_of_its_times(cause: BackoffCause) -> None:
    queue = JobQueue(DeadlineTables())
    assert queue.back_off("job", cause, 0, 0) == 0
    assert not queue.is_in_backoff("job")
    assert queue.back_off("job", cause, 0, 9) == 9
    assert queue.back_off("job", cause, 2 * SECOND, 3) == 7
    assert queue.back_off("other", cause, 2 * SECOND, 3) == 3
    queue.review(9 * SECOND - 1)
    assert queue.pop_active() == ["other"]
    assert queue.is_in_backoff("job")
    queue.review(9 * SECOND)
    assert queue.pop_active() == ["job"]
    assert not queue.is_in_backoff("job")


def test_backoffs_end_by_cause_and_all_with_the_job() -> None:
    deadlines = DeadlineTables()
    queue = JobQueue(deadlines)
    queue.back_off("job", BackoffCause.COST, 0, 5)
    queue.back_off("job", BackoffCause.VOLUMES, 0, 5)
    queue.end_backoff("job", BackoffCause.COST)
    assert queue.is_in_backoff("job")
    queue.end_all_backoffs(BackoffCause.VOLUMES)
    assert not queue.is_in_backoff("job")
    for cause in BackoffCause:
        queue.back_off("job", cause, 0, 5)
    queue.forget("job")
    assert not queue.is_in_backoff("job")
    assert (queue.active, deadlines.first()) == ({}, None)

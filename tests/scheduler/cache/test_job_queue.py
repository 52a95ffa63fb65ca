"""Active, unschedulable and in backoff: when a job is tried next."""

from __future__ import annotations

import pytest

from ringwise.framework.job import Job
from ringwise.reasons import Trigger
from ringwise.scheduler.cache.deadlines import Timers
from ringwise.scheduler.cache.job_queue import RETRY_AFTER, BackoffCause, JobQueue
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
    rig.machine.observer = lambda session, job: tried.append(job.key)
    for _ in range(3):
        due = rig.machine.next_deadline()
        assert due is not None
        assert 240 * SECOND < due - rig.now <= RETRY_AFTER
        rig.step((due - rig.now) / SECOND - 1)
        assert tried == []
        rig.step(1)
        assert tried == ["default/never"]
        tried.clear()


def test_unschedulable_jobs_are_tried_together() -> None:
    queue = JobQueue(Timers())
    for number, now in enumerate((0, 29, 30)):
        queue.settle(pending_job(f"job-{number}"), True, now * SECOND)
    assert queue.deadline() == RETRY_AFTER
    queue.review(RETRY_AFTER - 1)
    assert queue.pop_active() == []
    queue.review(RETRY_AFTER)
    assert queue.pop_active() == ["default/job-0", "default/job-1"]
    assert queue.deadline() == RETRY_AFTER + 30 * SECOND


def test_a_job_that_is_tried_earlier_begins_anew() -> None:
    queue = JobQueue(Timers())
    first, second = pending_job("first"), pending_job("second")
    queue.settle(first, True, 0)
    queue.settle(second, True, 60 * SECOND)
    queue.wake([Trigger.CHIPS_FREED])
    assert queue.pop_active() == ["default/first", "default/second"]
    queue.settle(second, True, 90 * SECOND)
    queue.settle(first, True, 90 * SECOND)
    assert queue.deadline() == RETRY_AFTER + 90 * SECOND
    queue.activate(first.key)
    queue.activate(second.key)
    assert queue.deadline() is None


def test_a_job_is_tried_at_the_time_that_a_plugin_named() -> None:
    timers = Timers()
    queue = JobQueue(timers)
    queue.settle(pending_job("job"), True, 0, retry=7)
    assert timers.first() == 7
    queue.review(7)
    assert queue.pop_active() == ["default/job"]
    queue.settle(pending_job("job"), True, 7, retry=9)
    queue.activate("default/job")
    assert timers.first() is None


@pytest.mark.parametrize("cause", BackoffCause)
def test_a_job_in_backoff_waits_for_the_latest_of_its_times(cause: BackoffCause) -> None:
    timers = Timers()
    queue = JobQueue(timers)
    queue.back_off("job", cause, 9)
    queue.back_off("job", cause, 5)
    assert queue.is_in_backoff("job")
    assert queue.backoff_left("job", cause, 7) == 2
    queue.review(8)
    assert queue.is_in_backoff("job")
    queue.review(9)
    assert not queue.is_in_backoff("job")
    assert queue.pop_active() == ["job"]
    assert queue.backoff_left("job", cause, 9) == 0


def test_backoffs_end_by_cause_and_all_with_the_job() -> None:
    timers = Timers()
    queue = JobQueue(timers)
    queue.back_off("job", BackoffCause.COST, 5)
    queue.back_off("job", BackoffCause.VOLUMES, 5)
    queue.end_backoff("job", BackoffCause.COST)
    assert queue.is_in_backoff("job")
    queue.end_all_backoffs(BackoffCause.VOLUMES)
    assert not queue.is_in_backoff("job")
    for cause in BackoffCause:
        queue.back_off("job", cause, 5)
    queue.forget("job")
    assert not queue.is_in_backoff("job")
    assert (queue.active, timers.first()) == ({}, None)

"""Events have a limited rate: those above it wait, in order, and delay nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from ringwise.kube.watch.readers import Observed
from ringwise.kube.write import event_recorder, status_queue
from ringwise.kube.write.context import WriteContext
from ringwise.kube.write.event_recorder import (
    EVENT_PAUSE,
    EVENT_WORKERS,
    ROUTINE_EVENTS,
    ObjectReference,
)
from ringwise.kube.write.fence import Fence
from ringwise.kube.write.status import StatusWriter
from ringwise.kube.write.status_queue import Precedence, StatusQueue
from ringwise.kubeclient.client import Client, UnreachableError
from ringwise.kubeclient.config import direct
from ringwise.kubeclient.retry import Retrier
from ringwise.messages.commands import Bind, SetPodCondition
from ringwise.messages.event_reasons import EventReason
from ringwise.metrics.prometheus import Metrics
from ringwise.reasons import Reason, ReasonKind, Stage
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import EVENTS, PODS, InstantClock, ManualClock, pod, server, until
from tests.metric_text import values_of

#: Smaller than shipped, because each event is a request.
EVENT_RATE, EVENT_BURST, MAX_ROUTINE_WAITING = 8.0, 40, 200
FULL = ReasonKind("full", Stage.GANG, "{free} of {asked} chips are free", ("wait for {asked} chips",))


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EVENT_RATE", "EVENT_BURST", "MAX_ROUTINE_WAITING"):
        monkeypatch.setattr(event_recorder, name, globals()[name])


class DropCounter(Metrics):
    @property
    def dropped(self) -> dict[str, float]:
        return values_of(self, "ringwise_status_updates_dropped_total")


@dataclass
class RecorderSetup:
    api: FakeApiServer
    writer: StatusWriter
    clock: InstantClock
    idle: asyncio.Event
    seen: DropCounter

    def events(self) -> list[tuple[str, str]]:
        """Name of the object and reason of each event, in the order in which they were written."""
        return [(one["involvedObject"]["name"], one["reason"]) for one in self.api.all(EVENTS)]

    def condition(self, name: str) -> Any:
        return self.api.get(PODS, f"default/{name}")["status"].get("conditions")


@asynccontextmanager
async def recorder_setup(clock: InstantClock | None = None) -> AsyncIterator[RecorderSetup]:
    async with server() as (api, client):
        clock = clock or InstantClock()
        fence, idle, seen = Fence(clock), asyncio.Event(), DropCounter()
        fence.open_forever()
        idle.set()
        writer = StatusWriter(
            WriteContext(client, fence, clock, seen), Observed(), Precedence(clock, (idle,))
        )
        yield RecorderSetup(api, writer, clock, idle, seen)
        await writer.stop()


def _has(one: RecorderSetup, events: int) -> bool:
    return len(one.events()) >= events


def context_of(clock: InstantClock) -> WriteContext:
    return WriteContext(Client(direct("http://localhost")), Fence(clock), clock)


async def _never_wait(since: float) -> None: ...


def bind(index: int) -> Bind:
    return Bind(f"u{index}", "default", f"p{index}", "node-1")


def unschedulable(api: FakeApiServer, name: str, free: int = 1) -> SetPodCondition:
    made = api.put(PODS, pod(name))
    return SetPodCondition(made["metadata"]["uid"], "default", name, full(free))


def full(free: int) -> Reason:
    return FULL(free=free, asked=8)


async def test_events_above_the_rate_are_late_and_none_is_lost() -> None:
    async with recorder_setup() as one:
        began = one.clock.moment
        many = EVENT_BURST + 20
        for index in range(many):
            one.writer.events.scheduled(bind(index))
        await one.writer.finish()
        assert sorted(one.events()) == sorted((f"p{index}", "Scheduled") for index in range(many))
        assert one.clock.moment - began == pytest.approx(EVENT_PAUSE)
        assert not one.seen.dropped


async def test_a_late_event_has_the_time_of_its_cause() -> None:
    clock = ManualClock()
    async with recorder_setup(clock) as one:
        for index in range(EVENT_BURST + 1):
            one.writer.events.scheduled(bind(index))
        await until(lambda: len(one.events()) == EVENT_BURST)
        await clock.pass_time(60)
        await one.writer.finish()
        last = one.api.all(EVENTS)[-1]
        assert last["firstTimestamp"] == one.api.all(EVENTS)[0]["firstTimestamp"]
        assert last["involvedObject"]["uid"] == f"u{EVENT_BURST}"
        assert last["message"] == f"Successfully assigned default/p{EVENT_BURST} to node-1"


async def test_the_rate_limit_holds_over_time_and_events_come_in_bursts() -> None:
    """Single events cost more processor time than the same number in a row."""
    clock = ManualClock()
    async with recorder_setup(clock) as one:
        in_a_burst = int(EVENT_PAUSE * EVENT_RATE)
        for index in range(EVENT_BURST + 3 * in_a_burst):
            one.writer.events.scheduled(bind(index))
        # Whoever asks for its turn after time has passed may go on: first all of them must have asked.
        await until(lambda: clock.sleeping == EVENT_WORKERS)
        assert len(one.events()) == EVENT_BURST
        await clock.pass_time(EVENT_PAUSE / 2)
        assert clock.sleeping == EVENT_WORKERS
        await clock.pass_time(EVENT_PAUSE / 2)
        for bursts in range(1, 4):
            expected = EVENT_BURST + bursts * in_a_burst
            await until(partial(_has, one, expected - 1))
            assert len(one.events()) <= expected
            await until(lambda: clock.sleeping == EVENT_WORKERS or not len(one.writer.events.queue))
            await clock.pass_time(EVENT_PAUSE)
        await one.writer.finish()
        order = [int(name[1:]) for name, _ in one.events()]
        # Several are written concurrently, so the order can differ by their number.
        assert all(later > earlier - EVENT_WORKERS for earlier, later in pairwise(order))


async def test_the_newest_event_of_a_pod_replaces_a_waiting_one() -> None:
    async with recorder_setup(ManualClock()) as one:
        one.idle.clear()
        command = unschedulable(one.api, "train")
        for index in range(8):
            one.writer.events.scheduled(bind(index))
        one.writer.pod(command)
        one.writer.pod(SetPodCondition(command.uid, "default", "train", full(2)))
        one.writer.events.scheduled(Bind(command.uid, "default", "train", "node-1"))
        one.idle.set()
        await one.writer.finish()
        assert [reason for name, reason in one.events() if name == "train"] == ["Scheduled"]


async def test_events_of_different_reasons_do_not_replace_each_other() -> None:
    async with recorder_setup(ManualClock()) as one:
        one.idle.clear()
        subject = ObjectReference("v1", "Pod", "default", "p1", "u1")
        one.writer.events.record(subject, EventReason.EVICT, "first")
        one.writer.events.record(subject, EventReason.EVICT, "second")
        one.writer.events.record(subject, EventReason.PREEMPTED, "third")
        one.idle.set()
        await one.writer.finish()
        messages = sorted(event["message"] for event in one.api.all(EVENTS))
        assert messages == ["second", "third"]


async def test_conditions_do_not_wait_for_events() -> None:
    clock = ManualClock()
    async with recorder_setup(clock) as one:
        for index in range(EVENT_BURST + MAX_ROUTINE_WAITING):
            one.writer.events.scheduled(bind(index))
        one.writer.pod(unschedulable(one.api, "train"))
        await one.writer.conditions.finish()
        assert one.condition("train")[0]["status"] == "False"
        assert len(one.writer.events.queue) > MAX_ROUTINE_WAITING // 2


async def test_events_give_way_to_bindings() -> None:
    async with recorder_setup(ManualClock()) as one:
        one.idle.clear()
        for index in range(10):
            one.writer.events.scheduled(bind(index))
        for _ in range(50):
            await asyncio.sleep(0)
        assert one.events() == []
        one.idle.set()
        await one.writer.finish()
        assert len(one.events()) == 10


async def test_a_full_queue_drops_and_counts_the_oldest_entry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(status_queue, "MAX_WAITING", 5)
    async with recorder_setup(ManualClock()) as one:
        one.idle.clear()
        for index in range(8):
            one.writer.events.scheduled(bind(index))
        one.writer.events.scheduled(bind(7))
        one.idle.set()
        await one.writer.finish()
        assert sorted(name for name, _ in one.events()) == [f"p{index}" for index in range(3, 8)]
        assert one.seen.dropped == {"events": 3}


async def test_in_a_storm_pods_bound_at_the_first_attempt_get_events_up_to_a_bound() -> None:
    async with recorder_setup() as one:
        one.idle.clear()
        for index in range(MAX_ROUTINE_WAITING + 100):
            one.writer.events.scheduled(bind(index))
        one.idle.set()
        await one.writer.finish()
        assert sorted(one.events()) == sorted(
            (f"p{index}", "Scheduled") for index in range(MAX_ROUTINE_WAITING)
        )
        assert one.seen.dropped == {ROUTINE_EVENTS: 100}


async def test_the_storm_costs_no_warning_and_no_event_of_a_pod_that_waited() -> None:
    """Also where the reason for which the pod waited was written long ago."""
    async with recorder_setup() as one:
        waited = unschedulable(one.api, "waited")
        one.writer.pod(waited)
        await one.writer.finish()
        one.idle.clear()
        for index in range(MAX_ROUTINE_WAITING + 100):
            one.writer.events.scheduled(bind(index))
        one.writer.events.scheduled(Bind(waited.uid, "default", "waited", "node-1"))
        one.writer.pod(unschedulable(one.api, "waits"))
        regarding = ObjectReference("v1", "Pod", "default", "gone", "u")
        one.writer.events.record(regarding, EventReason.EVICT, "because of a queue")
        # A pod of another name that follows it is bound at its first attempt again.
        one.writer.events.scheduled(Bind(waited.uid, "default", "again", "node-1"))
        one.idle.set()
        await one.writer.finish()
        others = [event for event in one.events() if not event[0].startswith("p")]
        assert sorted(others) == [
            ("gone", "Evict"),
            ("waited", "FailedScheduling"),
            ("waited", "Scheduled"),
            ("waits", "FailedScheduling"),
        ]
        assert one.seen.dropped == {ROUTINE_EVENTS: 101}


async def test_pods_that_were_told_and_never_bound_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_recorder, "MAX_PENDING_PODS", 3)
    monkeypatch.setattr(event_recorder, "MAX_ROUTINE_WAITING", 0)
    async with recorder_setup() as one:
        told = [unschedulable(one.api, f"t{index}") for index in range(5)]
        for command in told:
            one.writer.events.unschedulable(command)
        await one.writer.finish()
        for command in told:
            one.writer.events.scheduled(Bind(command.uid, "default", command.pod, "node-1"))
        await one.writer.finish()
        bound = sorted(name for name, reason in one.events() if reason == "Scheduled")
        assert bound == ["t2", "t3", "t4"]
        assert one.seen.dropped == {ROUTINE_EVENTS: 2}


async def test_an_event_without_a_response_is_not_written_twice() -> None:
    async with recorder_setup() as one:
        one.api.fault("/events", drop=True, done=True)
        one.writer.events.scheduled(bind(1))
        await one.writer.finish()
        assert one.api.count("/events") == 2
        assert one.events() == [("p1", "Scheduled")]
        assert not one.seen.dropped


async def test_a_waiting_condition_is_discarded_when_its_pod_is_bound() -> None:
    async with recorder_setup(ManualClock()) as one:
        one.idle.clear()
        early, other = unschedulable(one.api, "early"), unschedulable(one.api, "other")
        one.writer.pod(early)
        one.writer.pod(other)
        one.writer.binding([Bind(early.uid, "default", "early", "node-1")])
        one.idle.set()
        await one.writer.finish()
        assert one.condition("early") is None
        assert one.condition("other") is not None


async def test_a_retried_condition_is_given_up_when_its_pod_is_bound() -> None:
    clock = ManualClock()
    async with recorder_setup(clock) as one:
        one.api.fault("pods/train/status", status=503)
        command = unschedulable(one.api, "train")
        one.writer.pod(command)
        await until(lambda: clock.slept)
        one.writer.binding([Bind(command.uid, "default", "train", "node-1")])
        await clock.pass_time(10)
        await one.writer.finish()
        assert one.api.count("pods/train/status") == 1
        assert one.condition("train") is None


async def test_a_queue_accepts_entries_after_a_discard() -> None:
    clock = InstantClock()
    written: list[str] = []

    async def write(entry: str) -> None:
        written.append(entry)

    queue = StatusQueue("test", context_of(clock), Retrier(clock), 1, _never_wait)
    queue.put("a", partial(write, "one"))
    queue.discard("a")
    assert queue.is_idle
    queue.put("a", partial(write, "two"))
    await queue.finish()
    assert written == ["two"]


async def test_an_entry_that_is_discarded_during_its_last_attempt_is_not_queued_again() -> None:
    clock = InstantClock()
    attempts: list[str] = []

    async def write(entry: str) -> None:
        attempts.append(entry)
        if attempts.count(entry) == 5:
            assert queue.discard("a")
        if len(attempts) <= 5:
            raise UnreachableError("no answer", maybe_done=True)

    queue = StatusQueue("test", context_of(clock), Retrier(clock), 1, _never_wait, requeue=True)
    queue.put("a", partial(write, "one"))
    await queue.finish()
    assert attempts == ["one"] * 5


async def test_an_entry_that_cannot_be_written_does_not_stop_others() -> None:
    async with recorder_setup(ManualClock()) as one:
        odd = ObjectReference("v1", "Pod", "default", "odd", "u1")
        one.idle.clear()
        for reason in list(EventReason)[:8]:
            one.writer.events.record(odd, reason, "a lone surrogate: \ud800")
        one.writer.events.scheduled(bind(1))
        one.idle.set()
        await one.writer.finish()
        assert one.events() == [("p1", "Scheduled")]
        assert one.seen.dropped == {"events": 8}


@pytest.mark.parametrize("urgent", [(False, True), (True, False)])
async def test_the_newest_entry_of_an_object_is_written_alone_urgent_or_not(
    urgent: tuple[bool, bool],
) -> None:
    clock = InstantClock()
    written: list[str] = []

    async def write(entry: str) -> None:
        written.append(entry)

    queue = StatusQueue("status", context_of(clock), Retrier(clock), 1, _never_wait)
    for entry, is_urgent in zip(("older", "newer"), urgent, strict=True):
        queue.put("a", partial(write, entry), urgent=is_urgent)
    await queue.finish()
    assert written == ["newer"]


async def test_an_entry_put_while_workers_end_is_written() -> None:
    clock = InstantClock()
    written: list[str] = []

    async def write(entry: str) -> None:
        written.append(entry)
        if entry == "first":
            # Like the core: it is called just after the worker has ended.
            asyncio.get_running_loop().call_soon(queue.put, "b", partial(write, "second"))

    queue = StatusQueue("news", context_of(clock), Retrier(clock), 1, _never_wait)
    queue.put("a", partial(write, "first"))
    await until(lambda: len(written) == 2)
    await queue.finish()

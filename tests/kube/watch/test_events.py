"""Events come at a bounded rate: those beyond it wait, in order, and stand in nobody's way."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from ringwise.kube.observer import Nobody
from ringwise.kube.run.leader_election import Fence
from ringwise.kube.write import status_queue as lanes
from ringwise.kube.write.event_recorder import Subject
from ringwise.kube.write.ordered_work import Persistence
from ringwise.kube.write.status import EVENT_BURST, EVENT_RATE, StatusWriter
from ringwise.kube.write.status_queue import Lane, Rate
from ringwise.messages.commands import Bind, TellPod
from ringwise.reasons import Reason, ReasonKind, Stage
from tests.kube.harness import EVENTS, PODS, JumpingClock, StandingClock, pod, run, server, until
from tests.kube.standin import StandIn

FULL = ReasonKind("full", Stage.GANG, "{free} of {asked} chips are free", ("wait for {asked} chips",))


class Counting(Nobody):
    def __init__(self) -> None:
        self.dropped = Counter[str]()

    def status_dropped(self, kind: str) -> None:
        self.dropped[kind] += 1


@dataclass
class Writing:
    standin: StandIn
    writer: StatusWriter
    clock: JumpingClock
    idle: asyncio.Event
    seen: Counting

    def told(self) -> list[tuple[str, str]]:
        """Name of the object and reason of each event, in the order in which they were written."""
        return [(one["involvedObject"]["name"], one["reason"]) for one in self.standin.all(EVENTS)]

    def condition(self, name: str) -> Any:
        return self.standin.get(PODS, f"default/{name}")["status"].get("conditions")


@asynccontextmanager
async def writing(clock: JumpingClock | None = None) -> AsyncIterator[Writing]:
    async with server() as (standin, client):
        clock = clock or JumpingClock()
        fence, idle, seen = Fence(clock), asyncio.Event(), Counting()
        fence.open_for_good()
        idle.set()
        writer = StatusWriter(client, fence, {}, clock=clock, binding=idle, observer=seen)
        yield Writing(standin, writer, clock, idle, seen)
        await writer.stop()


def bind(index: int) -> Bind:
    return Bind(f"u{index}", "default", f"p{index}", "node-1")


def tell(standin: StandIn, name: str, free: int = 1) -> TellPod:
    made = standin.put(PODS, pod(name))
    return TellPod(made["metadata"]["uid"], "default", name, full(free))


def full(free: int) -> Reason:
    return FULL(free=free, asked=8)


def test_who_comes_too_early_waits_and_is_not_turned_away() -> None:
    async def test() -> None:
        clock = JumpingClock()
        rate = Rate(clock, per_second=10, at_once=3)
        for _ in range(3):
            await rate.turn()
        assert clock.slept == []
        before = clock.moment
        for _ in range(20):
            await rate.turn()
        assert clock.moment - before == pytest.approx(2.0)
        clock.moment += 3600
        clock.slept.clear()
        for _ in range(3):
            await rate.turn()
        assert clock.slept == []

    run(test())


def test_events_beyond_the_rate_are_late_and_none_is_lost() -> None:
    async def test() -> None:
        async with writing() as one:
            began = one.clock.moment
            many = EVENT_BURST + 100
            for index in range(many):
                one.writer.bound(bind(index))
            await one.writer.finish()
            assert sorted(one.told()) == sorted((f"p{index}", "Scheduled") for index in range(many))
            assert one.clock.moment - began >= 100 / EVENT_RATE
            assert not one.seen.dropped

    run(test())


def test_an_event_that_waited_tells_when_it_happened() -> None:
    async def test() -> None:
        clock = StandingClock()
        async with writing(clock) as one:
            for index in range(EVENT_BURST + 1):
                one.writer.bound(bind(index))
            await until(lambda: len(one.told()) == EVENT_BURST)
            await clock.pass_time(60)
            await one.writer.finish()
            last = one.standin.all(EVENTS)[-1]
            assert last["firstTimestamp"] == one.standin.all(EVENTS)[0]["firstTimestamp"]
            assert last["involvedObject"]["uid"] == f"u{EVENT_BURST}"
            assert last["message"] == f"Successfully assigned default/p{EVENT_BURST} to node-1"

    run(test())


def test_the_rate_is_kept_while_time_passes() -> None:
    async def test() -> None:
        clock = StandingClock()
        async with writing(clock) as one:
            for index in range(EVENT_BURST + 20):
                one.writer.bound(bind(index))
            await until(lambda: len(one.told()) == EVENT_BURST)
            for written in range(1, 9):
                await clock.pass_time(1 / EVENT_RATE + 1e-6)
                while len(one.told()) < EVENT_BURST + written:
                    await asyncio.sleep(0.001)
                assert len(one.told()) == EVENT_BURST + written
            order = [int(name[1:]) for name, _ in one.told()]
            # Four are written at once: nobody comes before who stood more than these ahead.
            assert all(later > earlier - 4 for earlier, later in pairwise(order))

    run(test())


def test_the_newest_word_about_a_pod_wins_while_it_waits() -> None:
    async def test() -> None:
        async with writing() as one:
            one.idle.clear()
            command = tell(one.standin, "train")
            for index in range(8):
                one.writer.bound(bind(index))
            one.writer.pod(command)
            one.writer.pod(TellPod(command.uid, "default", "train", full(2)))
            one.writer.bound(Bind(command.uid, "default", "train", "node-1"))
            one.idle.set()
            await one.writer.finish()
            assert [reason for name, reason in one.told() if name == "train"] == ["Scheduled"]

    run(test())


def test_notes_of_different_kinds_on_one_object_do_not_replace_each_other() -> None:
    async def test() -> None:
        async with writing() as one:
            one.idle.clear()
            subject = Subject("v1", "Pod", "default", "p1", "u1")
            one.writer.note(subject, "Evict", "first")
            one.writer.note(subject, "Evict", "second")
            one.writer.note(subject, "Other", "third")
            one.idle.set()
            await one.writer.finish()
            messages = sorted(event["message"] for event in one.standin.all(EVENTS))
            assert messages == ["second", "third"]

    run(test())


def test_conditions_do_not_stand_behind_events() -> None:
    async def test() -> None:
        clock = StandingClock()
        async with writing(clock) as one:
            for index in range(EVENT_BURST + 1000):
                one.writer.bound(bind(index))
            one.writer.pod(tell(one.standin, "train"))
            await one.writer.chatter.finish()
            assert one.condition("train")[0]["status"] == "False"
            assert len(one.writer.events) > 900

    run(test())


def test_events_give_way_to_bindings() -> None:
    async def test() -> None:
        async with writing() as one:
            one.idle.clear()
            for index in range(10):
                one.writer.bound(bind(index))
            for _ in range(50):
                await asyncio.sleep(0)
            assert one.told() == []
            one.idle.set()
            await one.writer.finish()
            assert len(one.told()) == 10

    run(test())


def test_above_the_most_that_may_wait_the_oldest_is_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lanes, "MOST_WAITING", 5)

    async def test() -> None:
        async with writing() as one:
            one.idle.clear()
            for index in range(8):
                one.writer.bound(bind(index))
            one.writer.bound(bind(7))
            one.idle.set()
            await one.writer.finish()
            assert sorted(name for name, _ in one.told()) == [f"p{index}" for index in range(3, 8)]
            assert one.seen.dropped == {"events": 3}

    run(test())


def test_an_event_without_an_answer_is_not_told_twice() -> None:
    async def test() -> None:
        async with writing() as one:
            one.standin.fault("/events", drop=True, done=True)
            one.writer.bound(bind(1))
            await one.writer.finish()
            assert one.standin.count("/events") == 2
            assert one.told() == [("p1", "Scheduled")]
            assert not one.seen.dropped

    run(test())


def test_a_pod_that_gets_its_node_is_not_told_any_more_that_it_has_none() -> None:
    async def test() -> None:
        async with writing() as one:
            one.idle.clear()
            early, other = tell(one.standin, "early"), tell(one.standin, "other")
            one.writer.pod(early)
            one.writer.pod(other)
            one.writer.to_be_bound([Bind(early.uid, "default", "early", "node-1")])
            one.idle.set()
            await one.writer.finish()
            assert one.condition("early") is None
            assert one.condition("other") is not None

    run(test())


def test_a_condition_that_is_tried_again_is_given_up_when_its_pod_gets_a_node() -> None:
    async def test() -> None:
        clock = StandingClock()
        async with writing(clock) as one:
            one.standin.fault("pods/train/status", status=503)
            command = tell(one.standin, "train")
            one.writer.pod(command)
            await until(lambda: clock.slept)
            one.writer.to_be_bound([Bind(command.uid, "default", "train", "node-1")])
            await clock.pass_time(10)
            await one.writer.finish()
            assert one.standin.count("pods/train/status") == 1
            assert one.condition("train") is None

    run(test())


def test_a_lane_that_was_withdrawn_from_takes_the_next_word() -> None:
    async def test() -> None:
        clock = JumpingClock()
        fence = Fence(clock)
        fence.open_for_good()
        said: list[str] = []

        async def say(word: str) -> None:
            said.append(word)

        lane = Lane[str]("test", say, Persistence(fence, clock), 1, Nobody())
        lane.put("a", "one")
        lane.withdraw("a")
        assert lane.is_silent
        lane.put("a", "two")
        await lane.finish()
        assert said == ["two"]

    run(test())


def test_a_word_that_cannot_be_said_does_not_silence_the_others() -> None:
    async def test() -> None:
        async with writing() as one:
            odd = Subject("v1", "Pod", "default", "odd", "u1")
            one.idle.clear()
            for number in range(8):
                one.writer.note(odd, f"Reason{number}", "a lone surrogate: \ud800")
            one.writer.bound(bind(1))
            one.idle.set()
            await one.writer.finish()
            assert one.told() == [("p1", "Scheduled")]
            assert one.seen.dropped == {"events": 8}

    run(test())


def test_a_word_that_comes_while_all_workers_end_is_written() -> None:
    async def test() -> None:
        clock = JumpingClock()
        fence = Fence(clock)
        fence.open_for_good()
        said: list[str] = []

        async def write(word: str) -> None:
            said.append(word)
            if word == "first":
                # As the core does it: its turn comes when the worker has just ended.
                asyncio.get_running_loop().call_soon(lane.put, "b", "second")

        lane = Lane("news", write, Persistence(fence, clock), 1, Nobody())
        lane.put("a", "first")
        await until(lambda: len(said) == 2)
        await lane.finish()

    run(test())

"""M1 on Kubernetes: plans are sent and followed, looked for from time to time, and counted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from ringwise.apps.auto_moves import INTERVAL, automatic_permit, automatic_plan, is_wanted, keep_moving
from ringwise.apps.forked_queries import ForkedQueries, QuestionFailedError
from ringwise.apps.live_changes import ACCEPT_SECONDS, NotFollowedError, follow_plan
from ringwise.framework.job import Job
from ringwise.kube.run.core_thread import SchedulerAdapter
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.config import direct
from ringwise.manifests.objects.move_plans import move_plan_body
from ringwise.messages import events as ev
from ringwise.messages.move_plan import APPROVED, RUNNING, WAITING, MovePlan
from ringwise.metrics.prometheus import Metrics
from ringwise.reasons import Reason
from ringwise.scheduler.defragment.live_plan import MovedJob
from ringwise.scheduler.defragment.movable import DisruptionBudget, chips_of_heads
from ringwise.scheduler.defragment.moves import moved_as
from ringwise.scheduler.defragment.reasons import PLAN_TOO_COSTLY
from ringwise.scheduler.defragment.search import Planner
from ringwise.state.model import Owner
from ringwise.state.vcjob import PodTemplate, Task, VcJob
from ringwise.wellknown import MOVABLE, RESTART_COST
from tests.builders.values import CHIP, SECOND, node, report
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import InstantClock
from tests.metric_text import samples, values_of
from tests.scheduler.defragment.test_moves import apply, fragmented, moves_of, submit
from tests.scheduler.rig import Rig

PLANS = "/apis/ringwise.io/v1alpha1/moveplans"


class Observed(Metrics):
    @property
    def plans(self) -> dict[str, float]:
        return values_of(self, "ringwise_move_plans_total")

    @property
    def saving(self) -> float:
        return values_of(self, "ringwise_moves_saved_chip_seconds_total")[""]

    @property
    def unusable(self) -> dict[str, float]:
        return values_of(self, "ringwise_chips_unusable_for_head")


def test_chips_of_a_resource_that_no_node_offers_are_counted_no_longer() -> None:
    rig = Rig(1)
    rig.submit("train", chips=1)
    rig.step()
    adapter, metrics = SchedulerAdapter(rig.machine), Metrics()
    adapter.count(metrics)
    assert f'ringwise_chip_capacity{{resource="{CHIP}"}} 8.0' in metrics.text().decode()
    rig.tell(ev.NodeGone("n1"))
    rig.step()
    adapter.count(metrics)
    assert CHIP not in metrics.text().decode()


def test_ready_nodes_whose_report_is_old_are_counted() -> None:
    rig = Rig(4)
    minute = 60 * 10**9
    rig.step()
    now = rig.machine.view.history.now
    ages = {"n1": 9, "n2": 11, "n3": 60, "n4": 60}
    for name, minutes in ages.items():
        rig.tell(report(name, range(8), update_time=now - minutes * minute))
    # ClusterD's report does not replace that of the device plugin; a node that is down has no device plugin.
    rig.tell(report("n2", range(8), update_time=now, aggregated=True))
    rig.tell(node("n4", ready=False))
    rig.step()
    adapter, metrics = SchedulerAdapter(rig.machine), Metrics()
    adapter.count(metrics)
    assert samples(metrics.text().decode())["ringwise_stale_device_reports"] == 2
    for name in ages:
        rig.tell(report(name, range(8), update_time=now))
    rig.step()
    adapter.count(metrics)
    assert samples(metrics.text().decode())["ringwise_stale_device_reports"] == 0


def test_plans_and_chips_that_the_head_of_a_queue_cannot_use_are_counted() -> None:
    rig, plan = fragmented()
    adapter, seen = SchedulerAdapter(rig.machine), Observed()
    adapter.count(seen)
    # Seven of one node and four of the other, and big asks for eight of one.
    assert seen.unusable == {CHIP: 11}
    assert seen.plans == {"planned": 0, "done": 0, "failed": 0}
    apply(rig, plan)
    rig.run()
    adapter.count(seen)
    assert (seen.plans, seen.saving) == ({"planned": 1, "done": 0, "failed": 0}, 0)
    rig.finish()
    rig.run()
    rig.run()
    adapter.count(seen)
    adapter.count(seen)
    assert (seen.plans, seen.saving) == ({"planned": 1, "done": 1, "failed": 0}, (plan.saving or 0) / SECOND)
    assert seen.unusable == {CHIP: 0}


def test_chips_that_pods_will_ask_for_which_are_not_created_yet_are_counted() -> None:
    """An undone gang: its pods are gone, and the vcjob's controller has not created them again."""
    rig = Rig(1)
    submit(rig, "small", chips=1)
    rig.run()
    rig.submit("big", chips=8, owner=Owner("Job", "big", "uid-of-big"))
    rig.run()
    template = PodTemplate(rig.pods["big-0"].cls, chip_containers=1)
    rig.tell(VcJob("default", "big", "uid-of-big", (Task("worker", 1, 1, template),), 1))
    rig.gone("big-0")
    rig.run()
    (job,) = [one for one in rig.machine.view.jobs.values() if one.name == "big"]
    assert (len(job.pods), len(job.prospective)) == (0, 1)
    assert chips_of_heads(rig.machine.view) == {CHIP: [8]}


def test_metrics_of_moves() -> None:
    metrics = Metrics()
    metrics.moves.set(2, "planned")
    metrics.saved.set(7200)
    metrics.unusable_chips.set(11, CHIP)
    text = metrics.text().decode() if isinstance(metrics.text(), bytes) else metrics.text()
    assert 'ringwise_move_plans_total{result="planned"} 2.0' in text
    assert "ringwise_moves_saved_chip_seconds_total 7200.0" in text
    assert f'ringwise_chips_unusable_for_head{{resource="{CHIP}"}} 11.0' in text


def conditions(**true: str) -> list[dict[str, Any]]:
    """The conditions of a plan; those with a message are true."""
    found = []
    for name in ("Accepted", "Progressing", "Complete", "Failed"):
        is_true = name in true or (name == "Accepted" and "Failed" not in true)
        status = {"type": name, "status": "True" if is_true else "False", "reason": "Because"}
        since = "2026-01-31T08:00:00Z"
        found.append({**status, "message": true.get(name, ""), "lastTransitionTime": since})
    return found


def put(api: FakeApiServer, plan: MovePlan, **true: str) -> None:
    status = {"conditions": conditions(**true)} if true else {}
    api.put(PLANS, {**move_plan_body(plan), "status": status})


async def test_a_plan_is_created_and_followed_to_its_end() -> None:
    _, plan = fragmented()
    async with FakeApiServer() as api, Client(direct(api.url)) as client:
        put(api, plan)
        told: list[str] = []

        def tell(line: str) -> None:
            told.append(line)
            if len(told) == 1:
                put(api, plan, Progressing="0 of 1 pod gone")
            else:
                put(api, plan, Complete="default/big has started")

        found = await follow_plan(client, plan.id, clock=InstantClock(), report=tell)
        assert (found.state, found.job) == ("done", "default/big")
        assert told == ["waiting for the scheduler", "0 of 1 pod gone"]


async def test_a_plan_that_failed() -> None:
    _, plan = fragmented()
    async with FakeApiServer() as api, Client(direct(api.url)) as client:
        put(api, plan, Failed="n2 takes no pods")
        found = await follow_plan(client, plan.id, clock=InstantClock())
        assert (found.state, found.why) == ("failed", "n2 takes no pods")


async def test_a_plan_that_no_scheduler_takes_or_that_is_deleted() -> None:
    _, plan = fragmented()
    async with FakeApiServer() as api, Client(direct(api.url)) as client:
        put(api, plan)
        clock = InstantClock()
        with pytest.raises(NotFollowedError, match="no scheduler has taken the plan"):
            await follow_plan(client, plan.id, clock=clock)
        assert sum(clock.slept) > ACCEPT_SECONDS
        api.remove(PLANS, plan.id)
        with pytest.raises(NotFollowedError, match=f"MovePlan {plan.id} was deleted"):
            await follow_plan(client, plan.id, clock=clock)


def test_a_queue_whose_first_job_uses_up_the_search_does_not_keep_others_from_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig, _ = fragmented()
    rig.queue("other")
    submit(rig, "wide", chips=8, queue="other")
    rig.run()
    asked: list[str] = []

    def find(_: Planner, job: Job) -> Reason:
        asked.append(job.queue)
        return PLAN_TOO_COSTLY(job=job.key)

    monkeypatch.setattr(Planner, "find", find)
    for minute in range(2):
        assert automatic_plan(rig.machine.view, rig.now + minute * INTERVAL * SECOND) is None
    assert sorted(asked[:2]) == sorted(asked[2:]) == ["default", "other"]
    assert asked[0] != asked[2]


class Answering(ForkedQueries):
    """Answers at once, with what it is given."""

    def __init__(self, *answers: bytes | Exception) -> None:
        super().__init__()
        self.answers = list(answers)

    async def answer(self, *_: object, **__: object) -> bytes:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_plans_are_looked_for_from_time_to_time_where_they_are_wanted() -> None:
    _, plan = fragmented()
    slept: list[float] = []
    created: list[Mapping[str, Any]] = []
    wanted = [False, True, True, True]
    found = json.dumps(move_plan_body(plan)).encode()
    forked_queries = Answering(QuestionFailedError("it was ended"), b"null", found)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) > 4:
            raise asyncio.CancelledError

    async def is_wanted() -> bool:
        return wanted.pop(0)

    async def copy(*_: object) -> None: ...

    async def create(body: Mapping[str, Any]) -> None:
        created.append(body)

    with pytest.raises(asyncio.CancelledError):
        await keep_moving(is_wanted, copy, create, forked_queries, sleep)
    assert slept == [INTERVAL] * 5
    assert created == [move_plan_body(plan)]
    assert not forked_queries.answers
    assert not wanted


def willing() -> Rig:
    """Small may be moved without a question, and it pays."""
    rig = Rig(2)
    for name, chips in (("small", 1), ("other", 4), ("filler", 4)):
        submit(rig, name, chips=chips, expected="10h", annotations={MOVABLE: "true"})
        rig.run()
    rig.end("other")
    submit(rig, "big", chips=8)
    rig.run()
    return rig


@pytest.mark.parametrize(("allowed", "plans"), [(1, 1), (0, 0), (None, 0)])
async def test_M1_what_a_disruption_budget_forbids_is_not_planned_without_a_question(
    allowed: int | None, plans: int
) -> None:
    rig, created, slept = willing(), list[Mapping[str, Any]](), list[float]()

    class AnsweringHere(ForkedQueries):
        async def answer(self, _: object, work: Callable[[Any, int], bytes], *__: object) -> bytes:
            return work(rig.machine, rig.now)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) > 1:
            raise asyncio.CancelledError

    async def is_wanted() -> bool:
        return True

    async def copy(*_: object) -> None: ...

    async def budgets() -> list[DisruptionBudget]:
        if allowed is None:
            raise QuestionFailedError("they cannot be read")
        return [DisruptionBudget("default", "all", (), allowed)]

    async def create(body: Mapping[str, Any]) -> None:
        created.append(body)

    with pytest.raises(asyncio.CancelledError):
        await keep_moving(is_wanted, copy, create, AnsweringHere(), sleep, budgets)
    assert [one["spec"]["approval"] for one in created] == ["Approved"] * plans


def test_a_job_was_moved_within_a_time_that_is_shorter_than_an_hour() -> None:
    rig, _ = fragmented(defragment="auto", move_again_after=1800)
    view = rig.machine.view
    small = view.jobs["default/small"]
    moves_of(rig).moved["small"] = MovedJob(moved_as(small), rig.now, 1)
    reason = automatic_permit(view, rig.now)(small)
    assert reason is not None
    assert reason.message == "default/small was moved within the last 30m"


def test_no_plan_is_looked_for_while_one_is_carried_out_or_waits_for_that() -> None:
    rig, plan = fragmented(defragment="auto")
    view = rig.machine.view
    assert is_wanted(view, rig.now)
    rig.tell(replace(plan, approval=APPROVED), replace(plan, id="next", uid="u", approval=APPROVED))
    rig.step()
    assert {one.state for one in view.history.moves.states.values()} == {RUNNING, WAITING}
    assert not is_wanted(view, rig.now)
    moves_of(rig).plans.clear()
    assert not is_wanted(view, rig.now)


def test_the_hourly_limit_hides_no_plan_that_keeps_it() -> None:
    """The cheapest plan moves two chips, and only one may still be moved: another job moves instead."""
    rig = Rig(0, defragment="auto", move_chips_per_hour=1)
    fillers = []
    for number, (name, chips, cost) in enumerate(
        (("cheap", 2, "1s"), ("costly", 1, "1h"), ("half", 4, "1s"))
    ):
        rig.node(f"n{number}")
        notes = {MOVABLE: "false" if name == "half" else "true", RESTART_COST: cost}
        submit(rig, name, chips=chips, annotations=notes, expected="10h")
        rig.run()
        # The next one gets a node of its own.
        for size in {2: (4, 2), 1: (4, 2, 1)}.get(chips, ()):
            fillers.append(f"fills-{number}-{size}")
            submit(rig, fillers[-1], chips=size)
            rig.run()
    for filler in fillers:
        rig.end(filler)
    submit(rig, "big", chips=8)
    rig.run()
    plan = automatic_plan(rig.machine.view, rig.now)
    assert plan is not None
    assert plan.moved_jobs == ("default/costly",)

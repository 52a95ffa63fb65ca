"""A job that takes too many steps is set aside; the others go on."""

from __future__ import annotations

import pytest

from ringwise.framework import budget
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, Command
from ringwise.scheduler.core.job_backoff import LONGEST_AFTER_COST
from ringwise.state.model import NodeTerm, Pod, PodClass, PodGroup, Requirement
from tests.scheduler.rig import CHIP, Rig

PLAIN = ("enqueue", "allocate", "backfill")
#: Names 14 of the 30 nodes: each of them is a step.
MANY_NODES = (NodeTerm(fields=(Requirement("metadata.name", "In", tuple(f"n{n}" for n in range(1, 15))),)),)


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "JOB_STEPS", 10)
    monkeypatch.setattr(budget, "POD_STEPS", 0)


@pytest.fixture
def few_steps_for_a_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "NAMESPACE_STEPS", 40)
    monkeypatch.setattr(budget, "NAMESPACE_STEPS_A_SECOND", 20)


def binds(commands: list[Command]) -> list[str]:
    return [command.pod for command in commands if isinstance(command, Bind)]


def submit_to(rig: Rig, namespace: str, name: str, cls: PodClass) -> None:
    rig.tell(ev.PodGroupSeen(PodGroup(namespace, name, min_member=1)))
    rig.put(Pod(f"{namespace}-{name}", namespace, name, cls, group=name))


@pytest.mark.usefixtures("few_steps")
def test_a_costly_job_is_set_aside_with_its_numbers_and_others_start() -> None:
    rig = Rig(30, actions=PLAIN)
    rig.submit("costly", node_terms=MANY_NODES)
    rig.submit("good")
    assert binds(rig.step()) == ["good-0"]
    reason = rig.machine.view.jobs["default/costly"].reason
    assert reason is not None
    assert reason.code == "too-costly"
    assert reason.details["limit"] == 10
    assert reason.details["steps"] >= 14
    assert reason.cures
    assert rig.machine.view.inconsistencies() == []


@pytest.mark.usefixtures("few_steps")
def test_it_is_tried_again_with_growing_distance_whatever_happens_meanwhile() -> None:
    rig = Rig(30, actions=PLAIN)
    rig.submit("costly", node_terms=MANY_NODES)
    rig.step()
    job = rig.machine.view.jobs["default/costly"]
    for times in range(12):
        pause = min(2 << times, LONGEST_AFTER_COST)
        before = job.reason
        rig.node(f"more-{times}")
        rig.step(pause - 1)
        assert job.reason is before
        rig.step(1)
        assert job.reason is not before
        assert rig.reason("costly") == "too-costly"


def test_with_enough_steps_it_starts_at_the_next_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(30, actions=PLAIN)
    with monkeypatch.context() as patch:
        patch.setattr(budget, "JOB_STEPS", 10)
        patch.setattr(budget, "POD_STEPS", 0)
        rig.submit("costly", node_terms=MANY_NODES)
        rig.step()
    assert binds(rig.step(2)) == ["costly-0"]
    assert rig.machine.next_deadline() is None


@pytest.mark.usefixtures("few_steps_for_a_namespace")
def test_many_costly_jobs_delay_only_their_own_namespace() -> None:
    rig = Rig(30, actions=PLAIN)
    costly = PodClass(CHIP, 1, node_terms=MANY_NODES)
    for number in range(1, 7):
        # Classes of pods share their answers, so each is one of its own.
        submit_to(rig, "crowd", f"c{number}", PodClass(CHIP, 1, cpu_milli=number, node_terms=MANY_NODES))
    submit_to(rig, "other", "good", costly)
    first = binds(rig.step())
    assert "good" in first
    assert 0 < len(first) < 7
    waiting = [job for job in rig.machine.view.jobs.values() if job.reason is not None]
    assert {job.reason.code for job in waiting if job.reason is not None} == {"namespace-too-costly"}
    assert {job.namespace for job in waiting} == {"crowd"}
    for _ in range(10):
        rig.step(1)
    assert all(job.reason is None for job in rig.machine.view.jobs.values())


def test_progress_is_reported_inside_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "_PROGRESS", 5)
    steps = budget.StepBudget()
    reported: list[int] = []
    steps.on_progress = lambda: reported.append(1)
    steps.begin("team", 1)
    for _ in range(20):
        steps.spend(1)
    assert len(reported) == 4

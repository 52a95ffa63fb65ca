"""Which jobs are never moved, one cause after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ringwise.scheduler.defragment.movable import (
    DisruptionBudget,
    not_movable,
    only_willing,
    restart_cost,
)
from ringwise.scheduler.explain.why import explain
from ringwise.state.model import Owner, Requirement
from ringwise.state.vcjob import Policy, VcJob
from tests.builders.values import SECOND, job_of, task_of
from tests.scheduler.rig import Rig

SERVICE = Owner("ReplicaSet", "service", "uid-of-service", "apps/v1")
VCJOB = Owner("Job", "train", "uid-of-train")


def rig_with(
    *,
    owner: Owner | None = SERVICE,
    vcjob: VcJob | None = None,
    pods: int = 1,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **settings: Any,
) -> Rig:
    """A job `train` that runs on two nodes."""
    rig = Rig(2, **settings)
    if vcjob is not None:
        rig.tell(vcjob)
    rig.submit("train", pods=pods, chips=8, owner=owner, annotations=annotations, labels=labels)
    rig.run()
    if owner is not None and owner.is_vcjob:
        for pod in list(rig.pods.values()):
            rig.put(replace(pod, task="worker"))
        rig.run()
    assert len(rig.places("train")) == pods
    return rig


def refusal(rig: Rig, **more: Any) -> str | None:
    view = rig.machine.view
    found = not_movable(view, view.jobs["default/train"], rig.now, **more)
    return None if found is None else found.code


def job_with(*policies: Policy, of_task: tuple[Policy, ...] = (), **described: Any) -> VcJob:
    task = task_of("worker", 1, chips=8, policies=of_task)
    return job_of(task, policies=policies, **{"uid": VCJOB.uid, "phase": "Running", **described})


def test_a_job_that_says_nothing_may_be_moved() -> None:
    assert refusal(rig_with()) is None
    assert refusal(rig_with(pods=2)) is None
    assert refusal(rig_with(owner=VCJOB, vcjob=job_with())) is None


@pytest.mark.parametrize("key", ["ringwise.io/movable", "volcano.sh/preemptable"])
@pytest.mark.parametrize("value", ["false", "False", "0"])
def test_a_job_says_that_it_must_not_be_moved(key: str, value: str) -> None:
    assert refusal(rig_with(annotations={key: value})) == "move-disabled"
    assert refusal(rig_with(labels={key: value})) == "move-disabled"
    assert refusal(rig_with(annotations={key: "true"})) is None


@pytest.mark.parametrize("written", ["no", "", "never", "x" * 5000])
def test_who_writes_anything_but_yes_is_not_moved_and_is_told(written: str) -> None:
    rig = rig_with(
        annotations={"ringwise.io/movable": written, "ringwise.io/restart-cost": "1" + "0" * 30 + "h"}
    )
    assert refusal(rig) == "move-disabled"
    view = rig.machine.view
    cost, movable = explain(view, view.jobs["default/train"], rig.now).notes
    assert movable.endswith(' is neither "true" nor "false": the job is never moved')
    assert cost.endswith(" expected a duration such as 90s, 1h30m or 2d: the setting restart-cost counts")
    assert len(movable) < 150
    assert refusal(rig_with(annotations={"ringwise.io/movable": " True "}), permit=only_willing) is None


def test_a_vcjob_says_it() -> None:
    forbidden = job_with(labels={"volcano.sh/preemptable": "false"})
    assert refusal(rig_with(owner=VCJOB, vcjob=forbidden)) == "move-disabled"


def test_one_pod_of_a_gang_says_it() -> None:
    rig = rig_with(pods=2)
    rig.change("train-1", labels={"volcano.sh/preemptable": "false"})
    rig.run()
    assert refusal(rig) == "move-disabled"


def test_nothing_creates_the_pods_again() -> None:
    assert refusal(rig_with(owner=None)) == "not-recreated"
    assert refusal(rig_with(owner=VCJOB)) == "not-recreated"
    assert refusal(rig_with(owner=VCJOB, vcjob=job_with(phase="Completing"))) == "not-recreated"
    assert refusal(rig_with(owner=VCJOB, vcjob=job_with(deleting=True))) == "not-recreated"


def test_in_a_lab_only_vcjobs_come_back() -> None:
    rig = rig_with()
    rig.machine.view.only_vcjobs_recreated = True
    assert refusal(rig) == "not-recreated"


@pytest.mark.parametrize("kind", ["DaemonSet", "Node"])
def test_pods_that_are_tied_to_their_nodes(kind: str) -> None:
    assert refusal(rig_with(owner=Owner(kind, "agent", "uid-of-agent", "apps/v1"))) == "tied-to-node"


def test_a_job_of_kubernetes_counts_evictions_as_failures() -> None:
    owner = Owner("Job", "batch", "uid-of-batch", "batch/v1")
    rig = rig_with(owner=owner)
    assert refusal(rig) == "eviction-counts-as-failure"
    # Its podFailurePolicy and the failures that are left are not known here: no change of them would help.
    view = rig.machine.view
    found = not_movable(view, view.jobs["default/train"], rig.now)
    assert found is not None
    assert not found.kind.fixes


@pytest.mark.parametrize("event", ["PodEvicted", "PodFailed", "*", "Unknown"])
@pytest.mark.parametrize("action", ["AbortJob", "TerminateJob", "CompleteJob"])
def test_a_policy_would_end_the_job(event: str, action: str) -> None:
    ends = Policy(action, (event,))
    assert refusal(rig_with(owner=VCJOB, vcjob=job_with(ends))) == "policy-ends-job"
    assert refusal(rig_with(owner=VCJOB, vcjob=job_with(of_task=(ends,)))) == "policy-ends-job"


def test_the_first_policy_counts_and_that_of_the_task_comes_first() -> None:
    ends = Policy("AbortJob", ("*",))
    spared = tuple(
        Policy("Ignore", (event,)) for event in ("PodEvicted", "PodFailed", "Unknown", "JobUnknown")
    )
    assert refusal(rig_with(owner=VCJOB, vcjob=job_with(ends, of_task=spared))) is None
    assert refusal(rig_with(owner=VCJOB, vcjob=job_with(*spared, ends))) is None
    assert refusal(rig_with(owner=VCJOB, vcjob=job_with(ends, *spared))) == "policy-ends-job"


def test_the_exit_codes_of_a_signal_count() -> None:
    assert refusal(rig_with(owner=VCJOB, vcjob=job_with(Policy("AbortJob", (), 143)))) == "policy-ends-job"
    assert refusal(rig_with(owner=VCJOB, vcjob=job_with(Policy("AbortJob", (), 3)))) is None


@pytest.mark.parametrize(("retries", "expected"), [(0, None), (1, None), (2, "retries-exhausted")])
def test_a_restart_is_a_retry(retries: int, expected: str | None) -> None:
    """The controller ends a job when its retries reach maxRetry."""
    restarts = job_with(Policy("RestartJob", ("PodEvicted",)), retry_count=retries, max_retry=3)
    assert refusal(rig_with(owner=VCJOB, vcjob=restarts)) == expected


def test_each_restart_of_a_pod_is_a_retry() -> None:
    restarts = job_with(Policy("RestartPod", ("PodEvicted",)), retry_count=1, max_retry=3)
    assert refusal(rig_with(owner=VCJOB, vcjob=restarts)) is None
    assert refusal(rig_with(owner=VCJOB, vcjob=restarts, pods=2)) == "retries-exhausted"


def test_a_disruption_budget_must_allow_all_evictions() -> None:
    rig = rig_with(pods=2, labels={"app": "x"})
    selector = (Requirement("app", "In", ("x",)),)

    def with_budget(allowed: int, namespace: str = "default") -> str | None:
        return refusal(rig, budgets=[DisruptionBudget(namespace, "guard", selector, allowed)])

    assert with_budget(1) == "budget-forbids-move"
    assert with_budget(2) is None
    assert with_budget(0, "other") is None


def test_a_job_that_cools_down() -> None:
    rig = rig_with(annotations={"volcano.sh/cooldown-time": "10m"})
    assert refusal(rig) == "move-cooldown"
    rig.step(599)
    assert refusal(rig) == "move-cooldown"
    rig.step(2)
    assert refusal(rig) is None


@pytest.mark.parametrize(("min_member", "expected"), [(1, "move-cooldown"), (2, None)])
def test_the_cooldown_counts_from_each_pod_that_runs_alone(min_member: int, expected: str | None) -> None:
    """That of a gang counts from its start, and not from that of a pod that was replaced."""
    rig = rig_with(pods=2, annotations={"volcano.sh/cooldown-time": "10m"})
    rig.change_group("train", ordinary=True, min_member=min_member)
    rig.step(500)
    rig.recreate("train-1")
    rig.run()
    rig.change("train-1", bound=rig.now)
    rig.step(101)
    assert refusal(rig) == expected


def test_a_job_that_hardware_broke_stays_while_it_cools_down() -> None:
    rig = rig_with(labels={"fault-scheduling": "force"}, pods=1)
    rig.sick("n1", 1)
    rig.run()
    assert refusal(rig) == "being-rescheduled"
    rig.gone("train-0")
    rig.run()
    again = rig.groups["default/train"]
    assert again is not None
    rig.submit("train", chips=8, owner=SERVICE, labels={"fault-scheduling": "force"})
    rig.run()
    assert rig.places("train")
    assert refusal(rig) in ("move-cooldown", "being-rescheduled")


def test_a_gang_that_is_not_complete() -> None:
    rig = rig_with(pods=2)
    rig.change("train-1", deleting=True)
    rig.run()
    assert refusal(rig) in ("job-incomplete", "being-rescheduled")
    waiting = Rig(1)
    waiting.submit("train", pods=2, chips=8, owner=SERVICE, min_available=1)
    waiting.run()
    assert refusal(waiting) == "job-incomplete"
    # Its owner has not created all pods.
    announced = rig_with()
    announced.change_group("train", replicas=2)
    announced.run()
    assert refusal(announced) == "job-incomplete"


def test_a_job_whose_backup_pod_runs_is_not_moved() -> None:
    rig = rig_with()
    source = rig.pods["train-0"]
    backup = {**source.annotations, "backupSourcePodName": "train-0"}
    rig.put(replace(source, uid="b", name="train-b", node="n2", annotations=backup))
    rig.run()
    assert refusal(rig) == "being-rescheduled"


def test_only_jobs_that_allow_it_are_moved_without_a_question() -> None:
    assert refusal(rig_with(), permit=only_willing) == "move-not-allowed"
    assert refusal(rig_with(annotations={"ringwise.io/movable": "true"}), permit=only_willing) is None


@pytest.mark.parametrize(
    ("written", "expected"), [(None, 600), ("90s", 90), ("2m", 120), ("0", 0), ("0s", 0), ("much", 600)]
)
def test_what_a_restart_costs(written: str | None, expected: int) -> None:
    rig = rig_with(annotations={} if written is None else {"ringwise.io/restart-cost": written})
    view = rig.machine.view
    assert restart_cost(view, view.jobs["default/train"]) == expected * SECOND


def test_what_a_restart_costs_is_a_setting() -> None:
    rig = rig_with(restart_cost=30)
    view = rig.machine.view
    assert restart_cost(view, view.jobs["default/train"]) == 30 * SECOND


def test_the_reasons_say_who_and_why() -> None:
    view = rig_with(annotations={"ringwise.io/movable": "false"}).machine.view
    found = not_movable(view, view.jobs["default/train"], 0)
    assert found is not None
    assert found.message == 'default/train is not moved: ringwise.io/movable is "false"'

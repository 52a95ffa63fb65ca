"""Number 8: a priority class that a namespace may not use orders no job, and that is told."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from ringwise.messages import events as ev
from ringwise.messages.commands import RecordJobEvent, SetGroupStatus, SetPodCondition
from ringwise.scheduler.cache import priority_rights
from ringwise.scheduler.explain.doctor import diagnose
from ringwise.scheduler.explain.why import explain
from ringwise.state.model import ClassScope, PodGroup, ResourceQuota
from ringwise.views.explain import explanation_document
from tests.builders.values import CHIP, group, pod
from tests.examples import sample
from tests.scheduler.rig import Rig, bound_pods

HIGH = (ClassScope("In", ("high",)),)


def rig() -> Rig:
    """One node of eight chips, which a running job has; the classes `high` and `low`."""
    made = Rig(1)
    made.priority("high", 1000)
    made.priority("low", 10)
    made.submit("holder", chips=8)
    made.run()
    return made


def quota(hard: dict[str, int], scopes: tuple[ClassScope, ...] = HIGH, name: str = "q") -> ResourceQuota:
    return ResourceQuota("default", name, hard, class_scopes=scopes)


def priorities(rig: Rig, namespace: str = "default") -> dict[str, int]:
    jobs = rig.machine.view.jobs.values()
    return {job.name: job.priority for job in jobs if job.namespace == namespace and job.name != "holder"}


@pytest.mark.parametrize("namespace", ["team", "default", "kube-public"])
@pytest.mark.parametrize("name", ["system-cluster-critical", "system-node-critical"])
def test_a_system_class_means_nothing_outside_the_system(namespace: str, name: str) -> None:
    lab = rig()
    lab.tell(group("a", priority_class=name, namespace=namespace))
    commands = lab.step()
    assert priorities(lab, namespace) == {"a": 0}
    (told,) = (command for command in commands if isinstance(command, RecordJobEvent))
    assert (told.key, told.reason, told.warning) == (f"{namespace}/a", "PriorityClassIgnored", True)
    assert f"priority class {name} is not used" in told.message
    assert "kube-system" in told.message


@pytest.mark.parametrize("namespace", ["kube-system", "volcano-system", "mindx-dl"])
def test_the_system_uses_its_classes(namespace: str) -> None:
    lab = rig()
    lab.tell(group("a", priority_class="system-node-critical", namespace=namespace))
    commands = lab.step()
    assert priorities(lab, namespace) == {"a": 2_000_001_000}
    assert not any(isinstance(command, RecordJobEvent) for command in commands)


def test_the_pods_of_a_vcjob_do_not_bring_a_refused_class_back() -> None:
    """Its controller gives its class to the pods, and Kubernetes lets every namespace use these two."""
    lab = rig()
    lab.priority("usual", 5, default=True)
    lab.submit("a", chips=8, priority="system-node-critical")
    lab.change("a-0", priority=2_000_001_000)
    bare = pod("b", 8, priority=2_000_001_000, created=9)
    lab.put(replace(bare, priority_class="system-node-critical"))
    lab.submit("c", chips=8, priority="low")
    lab.run()
    assert priorities(lab) == {"a": 5, "b": 5, "c": 10}
    told = {command.key for command in lab.commands if isinstance(command, RecordJobEvent)}
    assert told == {"default/a", "default/b"}


def test_the_next_to_start_is_the_one_with_the_highest_priority_that_is_obeyed() -> None:
    lab = rig()
    lab.tell(quota({"pods": 0}))
    lab.submit("greedy", chips=8, priority="system-node-critical")
    lab.submit("forbidden", chips=8, priority="high")
    lab.submit("honest", chips=8, priority="low")
    lab.run()
    lab.end("holder")
    lab.run()
    bound = bound_pods(lab.commands)
    assert bound == ["holder-0", "honest-0"]


@pytest.mark.parametrize(
    ("hard", "allowed"),
    [
        ({"pods": 0}, False),
        ({"pods": 1}, False),
        ({"pods": 2}, True),
        ({"count/pods": 1}, False),
        ({f"requests.{CHIP}": 0}, False),
        ({f"requests.{CHIP}": 15}, False),
        ({f"requests.{CHIP}": 16, "pods": 9}, True),
        ({"configmaps": 0}, True),
        ({}, True),
    ],
)
def test_a_class_needs_room_for_all_pods_of_the_job_in_every_quota_for_it(
    hard: dict[str, int], allowed: bool
) -> None:
    lab = rig()
    lab.tell(quota(hard), quota({"pods": 99}, name="large"))
    lab.submit("a", pods=2, chips=8, min_available=1, priority="high")
    lab.run()
    assert priorities(lab) == {"a": 1000 if allowed else 0}


@pytest.mark.parametrize(
    ("scopes", "allowed"),
    [
        ((), True),  # a quota without such a scope says nothing about classes
        ((ClassScope("In", ("low", "high")),), False),
        ((ClassScope("In", ("low",)),), True),
        ((ClassScope("NotIn", ("low",)),), False),
        ((ClassScope("NotIn", ("high",)),), True),
        ((ClassScope("Exists"),), False),
        ((ClassScope("DoesNotExist"),), True),
        ((ClassScope("Exists"), ClassScope("NotIn", ("high",))), True),
    ],
)
def test_every_operator_of_a_scope(scopes: tuple[ClassScope, ...], allowed: bool) -> None:
    lab = rig()
    lab.tell(quota({"pods": 0}, scopes))
    lab.submit("a", priority="high")
    lab.run()
    assert priorities(lab) == {"a": 1000 if allowed else 0}


def test_a_quota_with_other_scopes_forbids_no_class_as_a_whole() -> None:
    lab = rig()
    scoped = ResourceQuota("default", "q", {"pods": 0}, class_scopes=HIGH, other_scopes=True)
    lab.tell(ev.QuotaSeen(scoped), ev.QuotaSeen(replace(scoped, namespace="other", other_scopes=False)))
    lab.submit("a", priority="high")
    lab.run()
    assert priorities(lab) == {"a": 1000}


def test_many_small_jobs_do_not_get_around_a_quota() -> None:
    """Their pods name no class, so that the API server counts none of them."""
    lab = rig()
    lab.tell(quota({"pods": 3}))
    for number in range(6):
        lab.tell(group(f"j{number}", priority_class="high", created=number + 1))
    lab.run()
    assert priorities(lab) == {f"j{number}": 1000 if number < 3 else 0 for number in range(6)}


def test_what_an_older_job_leaves_a_smaller_one_may_use() -> None:
    lab = rig()
    lab.tell(quota({"pods": 3}))
    for number, pods in enumerate((2, 2, 1)):
        lab.tell(group(f"j{number}", priority_class="high", pods=pods, created=number + 1))
    lab.run()
    assert priorities(lab) == {"j0": 1000, "j1": 0, "j2": 1000}


def test_a_quota_that_changes_or_a_job_that_ends_lets_the_next_one_use_the_class() -> None:
    lab = Rig(1)
    lab.priority("high", 1000)
    lab.tell(quota({"pods": 1}))
    for name in ("a", "b", "c"):
        lab.submit(name, chips=8, priority="high")
    lab.run()
    assert priorities(lab) == {"a": 1000, "b": 0, "c": 0}
    lab.change("a-0", phase="Succeeded")
    lab.run()
    assert (priorities(lab)["b"], priorities(lab)["c"]) == (1000, 0)
    lab.tell(quota({"pods": 2}))
    lab.run()
    assert priorities(lab)["c"] == 1000
    lab.tell(quota({"pods": 0}))
    lab.run()
    assert (priorities(lab)["b"], priorities(lab)["c"]) == (0, 0)
    lab.tell(ev.QuotaGone("default", "q"))
    lab.run()
    assert (priorities(lab)["b"], priorities(lab)["c"]) == (1000, 1000)
    lab.end("b")
    lab.run()


def _objects() -> list[object]:
    groups = [
        group(f"j{number}", priority_class="high", pods=number % 2 + 1, created=5 - number)
        for number in range(4)
    ]
    return [quota({"pods": 3}), quota({"count/pods": 4}, name="r"), *groups]


def test_the_order_in_which_objects_arrive_does_not_matter() -> None:
    def answer(events: Iterable[object], *, at_once: bool) -> dict[str, int]:
        lab = rig()
        for event in events:
            lab.tell(event)
            if not at_once:
                lab.step()
        lab.step()
        return priorities(lab)

    expected = answer(_objects(), at_once=True)
    assert sorted(expected.values()) == [0, 0, 1000, 1000]
    rng = random.Random(8)
    for _ in range(30):
        events = _objects()
        rng.shuffle(events)
        assert answer(events, at_once=False) == expected


def test_it_is_told_once_and_where_a_job_waits_in_its_condition_too() -> None:
    lab = rig()
    lab.tell(quota({"pods": 0}))
    lab.submit("a", chips=8, priority="high")
    lab.submit("b", chips=8, priority="high")
    for _ in range(3):
        lab.step(60)
    told = [command for command in lab.commands if isinstance(command, RecordJobEvent)]
    assert [command.key for command in told] == ["default/a", "default/b"]
    sentence = (
        "priority class high is not used: ResourceQuota default/q allows 0 of pods for it, "
        "and the job needs 1; the job has the priority of its pods without it"
    )
    assert told[0].message == sentence
    reasons = [
        command.reason
        for command in lab.commands
        if isinstance(command, (SetGroupStatus, SetPodCondition)) and command.reason is not None
    ]
    assert reasons
    assert all(reason.message.endswith(sentence) for reason in reasons)
    view = lab.machine.view
    answer = explain(view, view.jobs["default/a"], lab.now)
    assert explanation_document(answer, lab.now).notes == [sentence]
    found = [finding for finding in diagnose(view).findings if finding.code == "priority-class-ignored"]
    assert [(finding.object, finding.message) for finding in found] == [
        ("2 jobs (default/a, default/b)", sentence),
    ]


def test_a_job_that_starts_at_once_is_told_and_one_that_runs_is_not_told_again() -> None:
    lab = Rig(1)
    lab.submit("a", chips=8, priority="system-node-critical")
    lab.run()
    assert bound_pods(lab.commands) == ["a-0"]
    assert sum(isinstance(command, RecordJobEvent) for command in lab.commands) == 1
    again = Rig(1)
    again.tell(lab.groups["default/a"], ev.PodSeen(lab.pods["a-0"]))
    again.run()
    assert priorities(again) == {"a": 0}
    assert not any(isinstance(command, RecordJobEvent) for command in again.commands)


@pytest.mark.parametrize(
    ("fields", "used"),
    [({}, 2), ({"phase": "Failed"}, 1), ({"phase": "Succeeded"}, 1), ({"deleting": True}, 1)],
    ids=["runs", "failed", "succeeded", "terminates"],
)
def test_a_pod_that_ended_or_terminates_is_not_counted_beside_its_replacement(
    fields: dict[str, Any], used: int
) -> None:
    lab = Rig(1)
    lab.priority("high", 1000)
    lab.tell(quota({"pods": 2}))
    lab.submit("a", chips=4, priority="high")
    lab.run()
    lab.change("a-0", **fields)
    lab.put(pod("a-1", 4, group="a", created=2))
    lab.submit("b", chips=4, priority="high")
    lab.run()
    assert priorities(lab) == {"a": 1000, "b": 1000 if used == 1 else 0}


def test_what_the_quota_counts_as_used_changes_nothing() -> None:
    """It follows the pods with a delay; the jobs are shared out by their objects alone."""
    lab = rig()
    lab.tell(quota({"pods": 1}))
    lab.submit("a", chips=8, priority="high")
    lab.run()
    lab.tell(ev.QuotaSeen(ResourceQuota("default", "q", {"pods": 1}, {"pods": 1}, class_scopes=HIGH)))
    lab.run()
    assert priorities(lab) == {"a": 1000}


def test_after_any_changes_the_quotas_are_shared_as_by_a_scheduler_that_starts() -> None:
    rng = random.Random(5)
    lab = rig()
    lab.tell(quota({"pods": 4}), quota({"count/pods": 6}, (ClassScope("Exists"),), name="all"))
    present: dict[str, PodGroup] = {}
    for turn in range(len(sample(range(150), 4))):
        name = f"j{rng.randrange(8)}"
        if name in present and rng.random() < 0.5:
            lab.tell(ev.PodGroupGone(present.pop(name).key))
        else:
            # The age of an object does not change; one that is made again is younger, or has the same second.
            age = present[name].created if name in present else turn // 2 + 1
            present[name] = group(
                name, priority_class=rng.choice(("high", "low")), pods=rng.randrange(1, 4), created=age
            )
            lab.tell(present[name])
        lab.step()
        fresh = rig()
        fresh.tell(quota({"pods": 4}), quota({"count/pods": 6}, (ClassScope("Exists"),), name="all"))
        fresh.tell(*map(ev.PodGroupSeen, present.values()))
        fresh.step()
        assert priorities(lab) == priorities(fresh), turn


def test_a_job_that_waits_in_vain_costs_no_look_at_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = 0
    judge = priority_rights._Namespace._judge

    def counting(*arguments: Any) -> Any:
        nonlocal judged
        judged += 1
        return judge(*arguments)

    monkeypatch.setattr(priority_rights._Namespace, "_judge", counting)
    lab = rig()
    lab.tell(quota({"pods": 1}))
    for number in range(100):
        lab.tell(group(f"j{number}", priority_class="high", created=number + 1))
        lab.step()
    for number in range(50, 100):
        lab.tell(ev.PodGroupGone(f"default/j{number}"))
        lab.step()
    assert judged == 100

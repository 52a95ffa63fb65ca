"""PodGroups whose owner creates pods only once they are Inqueue, and promises whose pods never come."""

from __future__ import annotations

from typing import Any

import pytest

from ringwise.framework.configuration import PluginOption, Tier
from ringwise.messages import events as ev
from ringwise.messages.commands import SetGroupStatus
from ringwise.state.model import Isolation, NodeReservation, Owner
from tests.builders.values import CHIP, SECOND, group, isolated, pod
from tests.scheduler.rig import ACTIONS, PLAIN, Rig, configuration

#: `forceEnqueue` lets a job in by its chips alone; these tiers count what was promised.
OVERCOMMIT = (Tier((PluginOption.of("gang"), PluginOption.of("overcommit"), PluginOption.of("proportion"))),)


def waits_for_admission(rig: Rig, name: str, **described: Any) -> None:
    rig.put_group(group(name, **{"min_member": 2, "created": len(rig.groups), **described}))


def phase(rig: Rig, name: str) -> str:
    return rig.groups[f"default/{name}"].phase


def status(rig: Rig, name: str) -> SetGroupStatus:
    statuses = [one for one in rig.commands if isinstance(one, SetGroupStatus)]
    return [one for one in statuses if one.key == f"default/{name}"][-1]


def create_pods(rig: Rig, name: str, count: int, chips: int = 0, **described: Any) -> None:
    for index in range(count):
        rig.put(pod(f"{name}-{index}", chips, cpu_milli=1000, group=name, **described))


@pytest.mark.parametrize(
    "owner", [None, Owner("AscendJob", "job", "1"), Owner("PyTorchJob", "job", "1"), Owner("Job", "job", "1")]
)
@pytest.mark.parametrize("actions", [PLAIN, ("allocate", "backfill")])
def test_a_pod_group_without_pods_is_admitted_whoever_owns_it(
    owner: Owner | None, actions: tuple[str, ...]
) -> None:
    rig = Rig(2, actions=actions)
    waits_for_admission(rig, "job", owner=owner, min_resources={CHIP: 16})
    rig.run()
    assert phase(rig, "job") == "Inqueue"
    reason = status(rig, "job").reason
    assert reason is None or reason.code == "no-pods-yet"
    create_pods(rig, "job", 2, 8)
    rig.run()
    assert rig.nodes_of("job") == ["n1", "n2"]
    assert phase(rig, "job") == "Running"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"min_resources": {CHIP: 24}}, "cluster-too-small"),
        ({"min_resources": {"huawei.com/Ascend310P": 1}}, "cluster-too-small"),
        ({"queue": "missing"}, "unknown-queue"),
        ({"queue": "closed"}, "queue-not-open"),
    ],
)
def test_a_group_that_waits_for_admission_says_why(fields: dict[str, Any], code: str) -> None:
    rig = Rig(2, actions=PLAIN)
    rig.queue("closed", state="Closed")
    waits_for_admission(rig, "job", **fields)
    rig.run()
    assert status(rig, "job").phase == "Pending"
    reason = status(rig, "job").reason
    assert reason is not None
    assert reason.code == code


def test_a_group_is_admitted_once_chips_are_free() -> None:
    rig = Rig(1, actions=PLAIN)
    rig.submit("runs", chips=8)
    rig.run()
    waits_for_admission(rig, "next", min_resources={CHIP: 8})
    rig.run()
    assert phase(rig, "next") == "Pending"
    reason = status(rig, "next").reason
    assert reason is not None
    assert reason.code == "too-few-free-chips"
    rig.end("runs")
    rig.run()
    assert phase(rig, "next") == "Inqueue"


def test_chips_of_isolated_nodes_are_named_where_too_few_are_free() -> None:
    rig = Rig(2, actions=PLAIN)
    rig.submit("runs", chips=8)
    rig.run()
    idle = next(name for name in ("n1", "n2") if name not in {pod.node for pod in rig.pods.values()})
    rig.tell(isolated(Isolation(idle, reason="drain")))
    waits_for_admission(rig, "next", min_resources={CHIP: 8})
    rig.run()
    reason = status(rig, "next").reason
    assert reason is not None
    assert reason.message.endswith("0 are free; nodes that do not accept new pods: node-isolated 1")


def test_chips_of_cordoned_nodes_are_named_where_they_count_as_free() -> None:
    rig = Rig(2, actions=PLAIN)
    rig.submit("runs", chips=8)
    rig.run()
    waits_for_admission(rig, "next", min_resources={CHIP: 16})
    rig.run()
    before = status(rig, "next").reason
    idle = next(name for name in ("n1", "n2") if name not in {pod.node for pod in rig.pods.values()})
    rig.node(idle, unschedulable=True)
    waits_for_admission(rig, "last", min_resources={CHIP: 16})
    rig.run()
    after = status(rig, "last").reason
    assert before is not None
    assert before.message.endswith("requested; 8 are free")
    assert after is not None
    assert after.message.endswith("requested; 8 are free; chips of nodes that are cordoned are included")
    rig.node(idle)
    rig.tell(NodeReservation("r", (idle,), 2000 * SECOND, 9000 * SECOND, queue="research"))
    waits_for_admission(rig, "later", min_resources={CHIP: 16})
    rig.run()
    reserved = status(rig, "later").reason
    assert reserved is not None
    assert reserved.message.endswith("requested; 8 are free; chips of nodes that are reserved are included")


def test_a_gated_group_is_admitted() -> None:
    """Whoever holds the gates may wait for the phase, too."""
    rig = Rig(1, actions=PLAIN)
    waits_for_admission(rig, "gated", min_member=1)
    create_pods(rig, "gated", 1, 8, gated=True)
    rig.run()
    assert phase(rig, "gated") == "Inqueue"
    assert rig.nodes_of("gated") == []
    rig.change("gated-0", gated=False)
    rig.run()
    assert rig.nodes_of("gated") == ["n1"]


def promising(limit: int = 300) -> Rig:
    """Two groups of which the cluster has room for one; the first is admitted."""
    rig = Rig(actions=PLAIN, tiers=OVERCOMMIT, pod_creation_timeout=limit)
    rig.node("n1", cpu_milli=10_000)
    waits_for_admission(rig, "first", min_resources={"cpu": 8_000})
    waits_for_admission(rig, "second", min_resources={"cpu": 8_000})
    rig.run()
    assert (phase(rig, "first"), phase(rig, "second")) == ("Inqueue", "Pending")
    return rig


def test_a_promise_whose_pods_never_come_is_given_back() -> None:
    rig = promising()
    rig.step(299)
    assert (phase(rig, "first"), phase(rig, "second")) == ("Inqueue", "Pending")
    assert rig.machine.next_deadline() == rig.now + 1_000_000_000
    rig.step(1)
    rig.run()
    assert (phase(rig, "first"), phase(rig, "second")) == ("Pending", "Inqueue")
    reason = status(rig, "first").reason
    assert reason is not None
    assert reason.code == "pods-never-created"
    assert "none of its 2 pods exists 5m after admission" in reason.message


def test_the_limit_is_not_for_jobs_with_pods() -> None:
    rig = promising()
    create_pods(rig, "first", 1)
    rig.run()
    rig.step(600)
    rig.run()
    assert phase(rig, "first") == "Inqueue"


def test_a_job_that_was_put_back_is_tried_again_after_the_same_time() -> None:
    rig = promising()
    rig.step(300)
    rig.run()
    create_pods(rig, "second", 2)
    rig.run()
    rig.step(299)
    assert phase(rig, "first") == "Pending"
    rig.end("second")
    rig.run()
    # Its own status event does not bring it back before its time.
    assert phase(rig, "first") == "Pending"
    rig.step(1)
    rig.run()
    assert phase(rig, "first") == "Inqueue"


def test_a_job_that_was_put_back_runs_as_soon_as_it_has_pods() -> None:
    rig = promising()
    rig.groups.pop("default/second")
    rig.tell(ev.PodGroupGone("default/second"))
    rig.step(300)
    rig.run()
    assert phase(rig, "first") == "Pending"
    create_pods(rig, "first", 2)
    rig.run()
    assert rig.nodes_of("first") == ["n1", "n1"]


@pytest.mark.parametrize(("limit", "after"), [(0, "Inqueue"), (200, "Inqueue"), (300, "Pending")])
def test_a_job_that_was_put_back_is_tried_when_the_limit_changes(limit: int, after: str) -> None:
    rig = promising()
    rig.groups.pop("default/second")
    rig.tell(ev.PodGroupGone("default/second"))
    rig.step(300)
    rig.run()
    assert phase(rig, "first") == "Pending"
    rig.tell(ev.ConfigurationSeen(configuration(PLAIN, tiers=OVERCOMMIT, pod_creation_timeout=limit)))
    rig.run()
    assert phase(rig, "first") == after


def test_without_a_limit_the_promise_stays() -> None:
    rig = promising(0)
    assert rig.machine.next_deadline() != rig.now
    rig.step(100_000)
    rig.run()
    assert phase(rig, "first") == "Inqueue"


def test_a_new_scheduler_counts_from_its_start() -> None:
    rig = promising()
    again = Rig(actions=PLAIN, tiers=OVERCOMMIT)
    again.node("n1", cpu_milli=10_000)
    again.groups = dict(rig.groups)
    again.tell(*map(ev.PodGroupSeen, again.groups.values()))
    again.run()
    assert (phase(again, "first"), phase(again, "second")) == ("Inqueue", "Pending")
    again.step(300)
    again.run()
    assert (phase(again, "first"), phase(again, "second")) == ("Pending", "Inqueue")


def test_a_completed_group_without_pods_promises_nothing() -> None:
    rig = Rig(actions=PLAIN, tiers=OVERCOMMIT)
    rig.node("n1", cpu_milli=10_000)
    waits_for_admission(rig, "over", min_resources={"cpu": 8_000}, phase="Completed")
    waits_for_admission(rig, "next", min_resources={"cpu": 8_000})
    rig.run()
    assert phase(rig, "next") == "Inqueue"
    rig.step(301)
    assert rig.reason("over") is None


def test_a_group_that_shrinks_is_admitted() -> None:
    rig = Rig(1, actions=PLAIN)
    waits_for_admission(rig, "job", min_resources={CHIP: 16})
    rig.run()
    assert phase(rig, "job") == "Pending"
    rig.change_group("job", min_resources={CHIP: 8})
    rig.run()
    assert phase(rig, "job") == "Inqueue"


# -- jobs that ran and lost all their pods


def two_gangs_of_a_full_cluster() -> Rig:
    """`first` runs, and `second` waits for admission: each needs both nodes."""
    voters = tuple(map(PluginOption.of, ("priority", "conformance", "overcommit", "predicates")))
    gang = PluginOption.of("gang", {"preemptable": False})
    rig = Rig(actions=ACTIONS, tiers=(Tier((gang, *voters)),))
    for name in ("n1", "n2"):
        rig.node(name, cpu_milli=1000)
    for name in ("first", "second"):
        waits_for_admission(rig, name, min_resources={"cpu": 2000})
        rig.run()
    create_pods(rig, "first", 2)
    rig.run()
    assert (phase(rig, "first"), phase(rig, "second")) == ("Running", "Pending")
    return rig


def terminate(rig: Rig, name: str) -> None:
    for index in range(2):
        rig.change(f"{name}-{index}", deleting=True)
    rig.run()


def lose(rig: Rig, name: str) -> None:
    rig.gone(*(f"{name}-{index}" for index in range(2)))


def test_a_job_that_lost_all_its_pods_is_pending_when_another_took_its_place() -> None:
    """While pods terminate, `preempt` lets another job in on what they leave."""
    rig = two_gangs_of_a_full_cluster()
    terminate(rig, "first")
    create_pods(rig, "second", 2)
    rig.run()
    assert phase(rig, "second") == "Inqueue"
    lose(rig, "first")
    create_pods(rig, "first", 2)
    rig.run()
    assert rig.nodes_of("second") == ["n1", "n2"]
    assert (phase(rig, "first"), phase(rig, "second")) == ("Pending", "Running")
    lose(rig, "second")
    rig.run()
    assert rig.nodes_of("first") == ["n1", "n2"]


def test_a_job_that_lost_all_its_pods_comes_before_later_jobs() -> None:
    rig = two_gangs_of_a_full_cluster()
    terminate(rig, "first")
    lose(rig, "first")
    rig.run()
    assert (phase(rig, "first"), phase(rig, "second")) == ("Inqueue", "Pending")
    create_pods(rig, "first", 2)
    rig.run()
    assert phase(rig, "first") == "Running"


@pytest.mark.parametrize("owner", [Owner("Job", "first", "1"), Owner("PyTorchJob", "first", "1")])
def test_a_job_is_admitted_again_though_only_some_of_its_pods_were_made_again(owner: Owner) -> None:
    """Its controller made one before it saw that the PodGroup is Pending, and waits with the others."""
    rig = two_gangs_of_a_full_cluster()
    rig.change_group("first", owner=owner)
    terminate(rig, "first")
    lose(rig, "first")
    create_pods(rig, "first", 1)
    rig.run()
    assert (phase(rig, "first"), phase(rig, "second")) == ("Inqueue", "Pending")
    create_pods(rig, "first", 2)
    rig.run()
    assert phase(rig, "first") == "Running"


def test_a_job_that_lost_some_pods_stays_admitted() -> None:
    rig = two_gangs_of_a_full_cluster()
    rig.change("first-1", deleting=True)
    rig.run()
    rig.gone("first-1")
    rig.run()
    assert phase(rig, "first") == "Unknown"
    assert phase(rig, "second") == "Pending"

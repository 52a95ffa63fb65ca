"""S9 where the owner of pods creates them again under other names, also before the old ones are gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from ringwise.framework.gangs.ranks import ranks_of
from ringwise.scheduler.faults.lost_pods import EarlySuccessors
from ringwise.scheduler.faults.previous_placements import PreviousPlacements
from ringwise.state.model import Owner, Pod
from tests.builders.values import pod
from tests.scheduler.rig import Rig

OWNER = Owner("PyTorchJob", "train", "uid-of-train")
REPLICA_SET = Owner("ReplicaSet", "web", "uid-of-web")
FORCE = {"fault-scheduling": "force"}
GRACE = {"fault-scheduling": "grace"}
POD_LEVEL = {**FORCE, "pod-rescheduling": "on"}
MODEL = {**FORCE, "tor-affinity": "large-model-schema"}
#: In the order in which the old pods go, not in that of the names.
NAMES = ("train-z", "train-y", "train-x", "train-w")


def created_again(rig: Rig, old: Pod, name: str) -> None:
    """Its owner creates it under another name; the old pod may still be there."""
    group = rig.groups.get(f"default/{old.group}")
    rig.put(
        replace(
            old,
            uid=f"{name}.new",
            name=name,
            phase="Pending",
            node=None,
            deleting=False,
            holds=(),
            rank=None,
            annotations={} if group is None else dict(group.annotations),
        )
    )


def test_no_more_pods_succeed_others_than_terminate() -> None:
    """`scaled` came while one pod terminated, and succeeds none: there are more replicas."""
    successors, owner = EarlySuccessors(), "default/uid-of-web"
    for leaving, *coming in (("a", "first", "scaled"), ("b", "second", "scaled")):
        successors.leaves(owner, leaving)
        for name in coming:
            successors.comes(pod(name, owner=REPLICA_SET), name)
    assert [successors.gone(owner, uid) for uid in ("a", "b", "c")] == ["first", "second", None]


def test_pods_that_are_being_deleted_do_not_count_for_the_gang_of_those_that_replace_them() -> None:
    rig = Rig(3)
    rig.submit("train", pods=2, chips=8)
    rig.run()
    for number in range(2):
        rig.change(f"train-{number}", deleting=True)
        created_again(rig, rig.pods[f"train-{number}"], f"again-{number}")
    rig.run()
    # There is room for one of the two.
    assert [name for name in rig.places("train") if name.startswith("again")] == []
    rig.gone("train-0")
    rig.run()
    assert [name for name in rig.places("train") if name.startswith("again")] == ["again-0", "again-1"]


def broken(rig: Rig, pods: int, labels: dict[str, str]) -> tuple[dict[int, str], list[Pod]]:
    """A job that loses a chip under rank 1: its nodes by rank, and the pods that go."""
    rig.submit("train", pods=pods, chips=8, labels=labels, owner=OWNER)
    rig.run()
    before = rig.by_rank()
    rig.sick(before[1], 1)
    rig.step()
    return before, [pod for pod in rig.pods.values() if pod.deleting]


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize(("labels", "pods"), [(FORCE, 3), (GRACE, 3), (POD_LEVEL, 3), (MODEL, 4), (MODEL, 3)])
def test_S9_ranks_stay_and_healthy_pods_return_whatever_the_new_pods_are_called(
    labels: dict[str, str], pods: int, early: bool
) -> None:
    rig = Rig()
    rig.switches(2, 4)
    before, going = broken(rig, pods, labels)
    if not early:
        rig.gone(*(pod.name for pod in going))
        rig.step(2)
    for old, name in zip(going, NAMES, strict=False):
        created_again(rig, old, name)
    rig.run()
    if early:
        rig.step(3)
        rig.gone(*(pod.name for pod in going))
    rig.run()
    after = rig.by_rank()
    assert after.keys() == before.keys()
    assert {rank for rank in before if before[rank] != after[rank]} == {1}


def test_S9_the_reason_names_the_nodes_and_the_end_of_the_wait() -> None:
    rig = Rig(8)
    before, going = broken(rig, 3, FORCE)
    for old, name in zip(going, NAMES, strict=False):
        created_again(rig, old, name)
    rig.step(4)
    reason = rig.machine.view.jobs["default/train"].reason
    assert reason is not None
    assert reason.message == (
        "2 pods wait up to 2m (4s elapsed) for 2 nodes on which its old pods are terminating: "
        f"{before[0]}, {before[2]}"
    )


def test_S9_after_the_limit_other_nodes_are_taken() -> None:
    rig = Rig(8)
    before, going = broken(rig, 3, FORCE)
    for old, name in zip(going, NAMES, strict=False):
        created_again(rig, old, name)
    rig.step(119)
    assert not rig.by_rank()
    assert rig.machine.next_deadline() is not None
    rig.step(1)
    rig.run()
    assert rig.by_rank().keys() == {0, 1, 2}
    assert not set(rig.by_rank().values()) & set(before.values())


def test_S9_a_node_that_breaks_meanwhile_is_not_waited_for() -> None:
    rig = Rig(8)
    before, going = broken(rig, 3, FORCE)
    for old, name in zip(going, NAMES, strict=False):
        created_again(rig, old, name)
    rig.step(1)
    rig.sick(before[0], 1)
    rig.sick(before[2], 1)
    rig.run()
    assert rig.by_rank().keys() == {0, 1, 2}


def test_S9_F1_the_wait_survives_a_restart() -> None:
    rig = Rig(8)
    before, going = broken(rig, 3, FORCE)
    left = rig.last_record
    for old, name in zip(going, NAMES, strict=False):
        created_again(rig, old, name)
    other = Rig(8)
    other.now, other.groups, other.pods = rig.now, dict(rig.groups), dict(rig.pods)
    other.sick(before[1], 1)
    other.tell(*rig.groups.values(), *rig.pods.values())
    other.tell(left)
    other.run()
    assert not other.by_rank()
    assert other.reason("train") == "wait-for-previous-nodes"
    other.gone(*(pod.name for pod in going))
    other.run()
    after = other.by_rank()
    assert {rank for rank in before if before[rank] != after[rank]} == {1}


def test_a_pod_that_waits_does_not_get_the_rank_of_one_that_is_deleted_later() -> None:
    rig = Rig(4)
    rig.submit("train", pods=4, chips=8, owner=OWNER)
    rig.run()
    rig.node("n4", unschedulable=True)
    rig.recreate("train-3")
    rig.run()
    assert rig.pods["train-3"].node is None
    rig.change("train-0", deleting=True)
    rig.run()
    job = rig.machine.view.jobs["default/train"]
    assert [ranks_of(job)[rig.pods[f"train-{rank}"].uid] for rank in range(4)] == [0, 1, 2, 3]


# -- pods without a PodGroup ------------------------------------------------------------------------------


RETRIES = {**FORCE, "fault-retry-times": "3"}


def web(rig: Rig, name: str, labels: Mapping[str, str] = FORCE, owner: Owner | None = REPLICA_SET) -> None:
    rig.put(pod(name, 8, uid=f"{name}.uid", labels=labels, owner=owner))


@pytest.mark.parametrize("name", ["web-0", "web-other"])
def test_a_pod_that_failed_avoids_its_node_under_any_name(name: str) -> None:
    rig = Rig(3)
    web(rig, "web-0", RETRIES)
    rig.run()
    assert rig.node_of("web-0") == "n1"
    rig.change("web-0", phase="Failed", exit_code=1)
    rig.step()
    assert rig.deletions() == ["web-0"]
    rig.gone("web-0")
    rig.step()
    web(rig, name, RETRIES)
    rig.run()
    assert rig.node_of(name) == "n2"


def test_F3_a_pod_under_another_name_avoids_the_chip_that_broke_it() -> None:
    rig = Rig(3)
    web(rig, "web-0")
    rig.run()
    rig.sick("n1", 1)
    rig.step()
    rig.gone("web-0")
    rig.sick("n1", 0)
    rig.step(60)
    web(rig, "web-other")
    rig.run()
    assert rig.node_of("web-other") == "n2"


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("name", ["web-0", "web-other"])
def test_S9_a_switch_pod_returns_to_the_node_that_is_held_for_it(name: str, restart: bool) -> None:
    labels = {**RETRIES, "tor-affinity": "normal-schema"}
    rig = Rig()
    rig.switches(2, 4)
    web(rig, "other", owner=None)
    rig.step()
    web(rig, "web-0", labels)
    rig.run()
    held = rig.node_of("web-0")
    rig.change("web-0", phase="Failed", exit_code=1)
    rig.step()
    rig.gone("web-0")
    rig.step()
    if restart:
        rig = rig.successor()
        rig.run()
    for number in range(7):
        web(rig, f"thief-{number}", owner=None)
    rig.run()
    assert held not in [rig.pods[f"thief-{number}"].node for number in range(7)]
    web(rig, name, labels)
    rig.run()
    assert rig.node_of(name) == held


def test_a_pod_without_an_owner_is_not_created_again_and_holds_nothing() -> None:
    rig = Rig(2)
    web(rig, "web-0", RETRIES, owner=None)
    rig.run()
    rig.change("web-0", phase="Failed", exit_code=1)
    rig.step()
    rig.gone("web-0")
    rig.step()
    assert rig.machine._components.of(PreviousPlacements).rescheduling == 0


@pytest.mark.parametrize("names", [("web-0", "web-1", "web-2"), ("web-a", "web-b", "web-c")])
def test_prefer_previous_node_holds_for_every_pod_of_a_replica_set(names: tuple[str, ...]) -> None:
    rig = Rig(8, prefer_previous_node=True)
    web(rig, "other", owner=None)
    rig.step()
    for number in range(3):
        web(rig, f"web-{number}")
    rig.run()
    before = [rig.node_of(f"web-{number}") for number in range(3)]
    rig.gone("other", "web-0", "web-1", "web-2")
    rig.step()
    assert rig.machine._components.of(PreviousPlacements).preferred == 1
    for name in names:
        web(rig, name)
    rig.run()
    assert [rig.node_of(name) for name in names] == before
    assert rig.machine._components.of(PreviousPlacements).preferred == 0


def test_prefer_previous_node_after_a_restart_knows_the_pods_that_run() -> None:
    """F1 is about jobs that are being rescheduled; preferences follow from the pods that run."""
    rig = Rig(8, prefer_previous_node=True)
    web(rig, "other", owner=None)
    rig.step()
    web(rig, "web-0")
    rig.run()
    before = rig.node_of("web-0")
    other = Rig(8, prefer_previous_node=True)
    other.pods = dict(rig.pods)
    other.tell(*rig.pods.values())
    other.run()
    other.gone("other", "web-0")
    other.step()
    web(other, "web-new")
    other.run()
    assert other.node_of("web-new") == before != "n1"


@pytest.mark.parametrize("labels", [GRACE, {**MODEL, **GRACE}])
def test_S9_a_node_is_held_although_replacements_of_pods_that_still_terminate_exist(
    labels: dict[str, str],
) -> None:
    rig = Rig()
    rig.switches(2, 4)
    before, going = broken(rig, 4, labels)
    rig.gone("train-0", "train-1")
    rig.step(1)
    # The ranks of the terminating pods are those of their replacements.
    for old in going[2:]:
        created_again(rig, old, f"{old.name}-new")
        rig.change(f"{old.name}-new", rank=old.rank)
    rig.step(1)
    rig.submit("other", chips=8)
    rig.run()
    assert rig.nodes_of("other") != [before[0]]
    rig.gone("train-2", "train-3")
    for old in going[:2]:
        created_again(rig, old, f"{old.name}-new")
        rig.change(f"{old.name}-new", rank=old.rank)
    rig.run()
    after = {pod.rank: pod.node for pod in rig.pods.values() if pod.group == "train"}
    assert {rank for rank in before if before[rank] != after[rank]} == {1}

"""S9 where pods end in a phase before they vanish, as kubelets report it, or fail because of each other."""

from __future__ import annotations

import pytest

from ringwise.messages import events as ev
from ringwise.scheduler.faults.handler import FaultHandler
from tests.scheduler.faults.test_recreated_pods import (
    FORCE,
    GRACE,
    MODEL,
    NAMES,
    broken,
    created_again,
)
from tests.scheduler.rig import Rig

RETRIES = {**GRACE, "fault-retry-times": "3"}


def end(rig: Rig, name: str, phase: str) -> None:
    """The kubelet says how the containers ended."""
    rig.change(name, phase=phase, exit_code={"Failed": 143, "Succeeded": 0}[phase])


def recreate(rig: Rig, *names: str) -> None:
    """They are removed, and their controller creates them again."""
    for name in names:
        rig.tell(ev.PodGone(rig.pods[name].uid))
        rig.change(name, exit_code=None)
        rig.events.pop()
        rig.replacement(name)


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
@pytest.mark.parametrize("labels", [GRACE, FORCE, RETRIES, {**MODEL, **GRACE}])
def test_S9_healthy_pods_that_end_in_a_phase_before_they_vanish_keep_their_nodes(
    labels: dict[str, str], phase: str
) -> None:
    rig = Rig()
    rig.switches(2, 4)
    before, going = broken(rig, 4, labels)
    for pod in going:
        end(rig, pod.name, phase)
    rig.step(1)
    # Others come meanwhile: the healthy nodes are held.
    rig.submit("other", chips=8)
    rig.run()
    assert not set(rig.nodes_of("other")) & set(before.values())
    rig.end("other")
    recreate(rig, *(pod.name for pod in going))
    rig.run()
    after = rig.by_rank()
    assert {rank for rank in before if before[rank] != after[rank]} == {1}
    assert not rig.machine._components.of(FaultHandler).retries.owners


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_S9_early_replacements_take_the_nodes_of_ended_pods_at_once(phase: str) -> None:
    rig = Rig(8)
    before, going = broken(rig, 3, GRACE)
    for old, name in zip(going, NAMES, strict=False):
        created_again(rig, old, name)
    rig.run()
    assert rig.by_rank() == {}
    for pod in going:
        end(rig, pod.name, phase)
    rig.run()
    # The chips are free (N6), although the old pods are not removed yet.
    after = rig.by_rank()
    assert {rank for rank in before if before[rank] != after[rank]} == {1}
    rig.gone(*(pod.name for pod in going))
    rig.run()
    assert rig.by_rank() == after


def test_S9_a_healthy_pod_that_ends_before_its_deletion_is_seen_keeps_its_node() -> None:
    rig = Rig(4)
    rig.submit("train", pods=3, chips=8, labels=GRACE)
    rig.run()
    before = rig.by_rank()
    rig.deaf = True
    rig.sick(before[1], 1)
    rig.step()
    rig.deaf = False
    for name in list(rig.pods):
        end(rig, name, "Succeeded")
    rig.step()
    recreate(rig, *rig.pods)
    rig.run()
    after = rig.by_rank()
    assert {rank for rank in before if before[rank] != after[rank]} == {1}


def crash(rig: Rig, *names: str) -> None:
    for name in names:
        rig.change(name, phase="Failed", exit_code=1)


@pytest.mark.parametrize(
    ("labels", "first"),
    [(labels, first) for labels in (FORCE, RETRIES) for first in ("crash", "report", "together")],
)
def test_S9_pods_that_fail_because_the_hardware_of_another_broke_keep_their_nodes(
    labels: dict[str, str], first: str
) -> None:
    rig = Rig(8)
    rig.submit("train", pods=4, chips=8, labels=labels)
    rig.run()
    before = rig.by_rank()
    if first != "report":
        crash(rig, "train-0", "train-2", "train-3")
    if first == "crash":
        rig.step()
    rig.sick(before[1], 1)
    if first == "report":
        crash(rig, "train-0", "train-2", "train-3")
    rig.step()
    assert all(pod.deleting for pod in rig.pods.values())
    # Held against others, until the job is complete again.
    rig.submit("other", chips=8)
    rig.run()
    assert not set(rig.nodes_of("other")) & set(before.values())
    rig.end("other")
    recreate(rig, *(name for name in list(rig.pods)))
    rig.run()
    after = rig.by_rank()
    assert {rank for rank in before if before[rank] != after[rank]} == {1}
    assert not rig.machine._components.of(FaultHandler).retries.owners


def test_F3_a_pod_that_failed_on_its_own_broken_chip_moves_although_the_chip_heals() -> None:
    rig = Rig(8)
    rig.submit("train", pods=4, chips=8, labels=FORCE)
    rig.run()
    before = rig.by_rank()
    crash(rig, "train-0", "train-1", "train-2")
    rig.sick(before[1], 1)
    rig.step()
    rig.sick(before[1], 0)
    recreate(rig, *(name for name in list(rig.pods)))
    rig.run()
    after = rig.by_rank()
    assert {rank for rank in before if before[rank] != after[rank]} == {1}


def test_a_pod_that_failed_by_itself_goes_to_another_node() -> None:
    rig = Rig(8)
    rig.submit("train", pods=4, chips=8, labels=RETRIES)
    rig.run()
    before = rig.by_rank()
    crash(rig, "train-1")
    rig.step()
    recreate(rig, *(name for name in list(rig.pods)))
    rig.run()
    after = rig.by_rank()
    assert {rank for rank in before if before[rank] != after[rank]} == {1}


def test_S9_a_node_that_another_pod_got_meanwhile_is_not_waited_for() -> None:
    rig = Rig(5)
    rig.submit("train", pods=4, chips=8, labels=FORCE)
    rig.run()
    before = rig.by_rank()
    crash(rig, "train-0")
    rig.submit("other", chips=8)
    rig.submit("more", chips=8)
    rig.run()
    assert sorted([*rig.nodes_of("other"), *rig.nodes_of("more")]) == sorted([before[0], "n5"])
    rig.sick(before[1], 1)
    rig.step()
    held = rig.machine._context.reservations.of("default/train")
    assert held is None or rig.machine._state.node_id[before[0]] not in held.chips


def test_S9_a_report_that_comes_when_the_crashed_pods_are_gone_already_explains_them() -> None:
    rig = Rig(8)
    rig.submit("train", pods=4, chips=8, labels=RETRIES)
    rig.run()
    before = rig.by_rank()
    crash(rig, "train-0", "train-2", "train-3")
    rig.step()
    assert rig.machine._components.of(FaultHandler).retries.owners
    # Their containers have ended: only the pod on the broken chip still terminates.
    recreate(rig, "train-0", "train-2", "train-3")
    rig.step()
    rig.sick(before[1], 1)
    rig.step()
    assert not rig.machine._components.of(FaultHandler).retries.owners
    recreate(rig, "train-1")
    rig.run()
    after = rig.by_rank()
    assert {rank for rank in before if before[rank] != after[rank]} == {1}


def test_a_pod_that_crashed_before_its_own_chip_is_reported_costs_no_retry() -> None:
    rig = Rig(8)
    rig.submit("train", pods=4, chips=8, labels=RETRIES)
    rig.run()
    before = rig.by_rank()
    crash(rig, "train-1")
    rig.step()
    assert rig.machine._components.of(FaultHandler).retries.owners
    rig.sick(before[1], 1)
    rig.step()
    assert not rig.machine._components.of(FaultHandler).retries.owners
    # F3: the chip heals before the replacement exists.
    rig.sick(before[1], 0)
    recreate(rig, *(name for name in list(rig.pods)))
    rig.run()
    after = rig.by_rank()
    assert {rank for rank in before if before[rank] != after[rank]} == {1}

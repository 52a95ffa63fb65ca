"""`prefer-previous-node`: which nodes are remembered, for how long, and what for."""

from __future__ import annotations

from typing import Any

import pytest

from ringwise.messages import events as ev
from ringwise.scheduler.faults.lost_pods import RETENTION
from ringwise.scheduler.faults.previous_placements import PreviousPlacements
from ringwise.state.model import Owner
from ringwise.state.vcjob import VcJob
from tests.builders.values import SECOND, pod
from tests.scheduler.rig import Rig

OWNER = Owner("ReplicaSet", "train", "uid-of-train")


def rig_of(nodes: int = 4, **settings: Any) -> Rig:
    return Rig(nodes, prefer_previous_node=settings.pop("wished", True), **settings)


def running(rig: Rig, pods: int = 2, owner: Owner | None = OWNER, **more: Any) -> dict[str, str]:
    """The job runs, and the first nodes of the natural order are free again."""
    rig.submit("other", chips=8)
    rig.step()
    rig.submit("train", pods=pods, chips=8, owner=owner, **more)
    rig.run()
    rig.end("other")
    rig.run()
    return nodes(rig)


def nodes(rig: Rig) -> dict[str, str]:
    return {name: node for name, (node, _) in rig.places("train").items()}


def lose(rig: Rig, *names: str) -> None:
    """The pods are deleted, and their controller creates them again."""
    for name in names:
        old = rig.pods[name]
        rig.replacement(name)
        rig.events.insert(0, ev.PodGone(old.uid))


def test_a_pod_goes_back_to_its_node() -> None:
    rig = rig_of()
    before = running(rig)
    assert before == {"train-0": "n2", "train-1": "n3"}
    lose(rig, "train-1")
    rig.run()
    assert nodes(rig) == before
    assert rig.machine._components.of(PreviousPlacements).preferred == 0


def test_a_whole_job_goes_back() -> None:
    rig = rig_of()
    before = running(rig)
    lose(rig, "train-0", "train-1")
    rig.run()
    assert nodes(rig) == before


@pytest.mark.parametrize("why", ["no wish", "no owner"])
def test_without_prefer_previous_node_the_first_of_equal_nodes_is_taken(why: str) -> None:
    rig = rig_of(wished=why != "no wish")
    running(rig, owner=None if why == "no owner" else OWNER)
    lose(rig, "train-1")
    rig.run()
    assert nodes(rig)["train-1"] == "n1"
    assert rig.machine._components.of(PreviousPlacements).preferred == 0


def test_a_taken_node_is_replaced_by_one_that_no_other_rank_had() -> None:
    rig = rig_of(5)
    running(rig)
    rig.gone("train-0", "train-1")
    rig.submit("thief", chips=8)
    rig.submit("thief-2", chips=8)
    rig.run()
    # n1 and n2 are taken now; n3 belongs to rank 1, which will come back.
    assert rig.nodes_of("thief") + rig.nodes_of("thief-2") == ["n1", "n2"]
    come_back(rig, "train-0", "train-1")
    assert nodes(rig) == {"train-0": "n4", "train-1": "n3"}


def test_the_node_of_a_pod_without_chips_is_used_by_no_rank() -> None:
    rig = rig_of(5)
    running(rig)
    rig.put(pod("train-lead", 0, group="train", owner=OWNER, node_selector=(("lead", "yes"),)))
    rig.node("n1", labels={"lead": "yes"})
    rig.run()
    assert rig.node_of("train-lead") == "n1"
    rig.gone("train-0")
    rig.node("n2", unschedulable=True)
    come_back(rig, "train-0")
    assert nodes(rig)["train-0"] == "n1"


def come_back(rig: Rig, *names: str) -> None:
    for name in names:
        rig.put(pod(name, 8, uid=f"{name}.again", group="train", owner=OWNER))
    rig.run()


def test_a_failed_pod_avoids_its_node() -> None:
    rig = rig_of()
    running(rig)
    rig.change("train-1", phase="Failed")
    rig.step()
    lose(rig, "train-1")
    rig.run()
    assert nodes(rig) == {"train-0": "n2", "train-1": "n1"}


def test_a_failed_pod_takes_its_node_where_there_is_no_other() -> None:
    rig = rig_of(3)
    running(rig)
    rig.submit("other-again", chips=8)
    rig.run()
    rig.change("train-1", phase="Failed")
    rig.step()
    lose(rig, "train-1")
    rig.run()
    assert nodes(rig)["train-1"] == "n3"


def test_a_node_whose_chips_became_faulty_is_avoided() -> None:
    rig = rig_of()
    rig.submit("other", chips=8)
    rig.step()
    rig.submit("train", chips=4, owner=OWNER)
    rig.run()
    rig.end("other")
    assert nodes(rig) == {"train-0": "n2"}
    rig.sick("n2", 0b1)
    rig.step()
    lose(rig, "train-0")
    rig.run()
    assert nodes(rig)["train-0"] == "n1"


@pytest.mark.parametrize(("hours", "places"), [(71, ["n2", "n3"]), (72, ["n1", "n2"])])
def test_previous_nodes_are_forgotten_after_three_days(hours: int, places: list[str]) -> None:
    rig = rig_of()
    running(rig)
    rig.gone("train-0", "train-1")
    rig.step()
    assert rig.machine._components.of(PreviousPlacements).preferred == 1
    assert RETENTION == 72 * 3600 * SECOND
    rig.step(hours * 3600)
    come_back(rig, "train-0", "train-1")
    assert list(nodes(rig).values()) == places


def test_an_ended_job_is_not_remembered() -> None:
    rig = rig_of()
    vcjob = VcJob("default", "train", "uid-of-train")
    rig.tell(vcjob)
    running(rig, owner=Owner("Job", "train", "uid-of-train"))
    lose(rig, "train-0")
    rig.machine.handle(rig.events[:1], rig.now)
    assert rig.machine._components.of(PreviousPlacements).preferred == 1
    rig.tell(ev.VcJobGone(vcjob.key))
    rig.step()
    assert rig.machine._components.of(PreviousPlacements).preferred == 0


def test_s9_a_switch_aware_job_is_rescheduled_by_its_own_rule() -> None:
    rig = rig_of(0)
    rig.switches(1, 4)
    running(rig, labels={"tor-affinity": "normal-schema"})
    assert len(nodes(rig)) == 2
    rig.gone("train-1")
    rig.step()
    assert rig.machine._components.of(PreviousPlacements).rescheduling == 1
    assert rig.machine._components.of(PreviousPlacements).preferred == 0

"""Isolations: their conditions, and those that stay in force while the kind is not served."""

from __future__ import annotations

import pytest

from ringwise.messages import events as ev
from ringwise.messages.commands import SetConditions
from ringwise.scheduler.explain.doctor import diagnose
from ringwise.scheduler.explain.findings import WARNING
from ringwise.state.model import Isolation
from ringwise.views.problems import problems_document
from tests.builders.values import CHIP, SECOND, isolated
from tests.place.part_cases import events_of, node_object
from tests.scheduler.rig import Rig


def conditions(rig: Rig, name: str) -> tuple[str, ...]:
    """Reasons that were written last."""
    written = [one for one in rig.commands if isinstance(one, SetConditions) and one.name == name]
    return tuple(one.reason for one in written[-1].conditions) if written else ()


def closed(rig: Rig) -> set[str]:
    state = rig.machine.view.cluster
    return {state.names[number] for number in state.isolated_nodes}


REASONS = {
    "a node": (Isolation("n1"), ("Accepted", "Started")),
    "a chip": (Isolation("n1", ("Ascend910-3",)), ("Accepted", "Started")),
    "a switch": (Isolation(switch="A"), ("Accepted", "Started")),
    "a drain ahead": (Isolation("n1", start=2000 * SECOND), ("Accepted", "NotStarted")),
    "no such node": (Isolation("n9"), ("NodeNotFound", "NotAccepted")),
    "a chip that the node does not list": (
        Isolation("n1", ("Ascend910-8",)),
        ("ChipNotFound", "NotAccepted"),
    ),
    "no such chip": (Isolation("n1", ("npu-3",)), ("ChipNotFound", "NotAccepted")),
    "no such switch": (Isolation(switch="C"), ("LeafSwitchNotFound", "NotAccepted")),
    "no such SuperPoD": (Isolation(superpod=3), ("SuperPodNotFound", "NotAccepted")),
}


@pytest.mark.parametrize("case", REASONS)
def test_conditions_say_whether_the_target_exists_and_the_time_has_come(case: str) -> None:
    one, expected = REASONS[case]
    rig = Rig()
    rig.switches(2, 2)
    (made,) = isolated(one)
    rig.tell(made)
    rig.step()
    assert conditions(rig, made.name) == expected
    (finding,) = [one for one in diagnose(rig.machine.view).findings if one.code == "isolated"]
    missing = expected[0] != "Accepted"
    assert (finding.severity == WARNING) == missing
    assert any(words in finding.message for words in ("not found", "has no chip")) == missing
    # So the dashboard shows it as a problem.
    problems = problems_document(rig.machine.view, rig.now)["problems"]
    assert ("isolated" in {one["code"] for one in problems}) == missing


DYNAMIC = {
    "accelerator": "huawei-Ascend310P",
    "servertype": "Ascend310P-8",
    "node.kubernetes.io/npu.chip.name": "310P3",
}
#: Resource, capacity and labels of a node, and a chip that it has.
DIVIDED = {
    "dynamic": ("huawei.com/npu-core", 16, DYNAMIC, "Ascend310P-1"),
    "static": ("huawei.com/Ascend910-4c", 4, {}, "Ascend910-1"),
}


@pytest.mark.parametrize("case", DIVIDED)
def test_chips_of_nodes_with_vnpus_are_known(case: str) -> None:
    resource, count, labels, chip = DIVIDED[case]
    capacities = {resource: count}
    described = {"name": "n1", "labels": labels, "capacities": capacities, "base_chips": [0, 1], "pods": []}
    rig = Rig()
    rig.tell(events_of([node_object(described, None)]))
    made = isolated(*(Isolation("n1", (name,)) for name in (chip, "npu-1")))
    rig.tell(made)
    rig.step()
    reasons = [conditions(rig, one.name)[0] for one in made]
    assert reasons == ["Accepted", "ChipNotFound"]


def test_a_node_that_is_created_later_is_isolated_at_once() -> None:
    rig = Rig(1)
    (made,) = isolated(Isolation("n2", ignored=("severity",)))
    rig.tell(made)
    rig.step()
    rig.node("n2")
    for _ in range(2):
        rig.step(11)
    assert closed(rig) == {"n2"}
    assert conditions(rig, "n2") == ("Accepted", "Started")
    (finding,) = [one for one in diagnose(rig.machine.view).findings if one.code == "isolated"]
    assert "fields severity are unknown and ignored" in finding.message
    rig.tell(ev.IsolationGone("n2"))
    rig.step()
    assert closed(rig) == set()


def test_the_time_of_a_drain_comes_and_conditions_are_written_once() -> None:
    rig = Rig(1)
    rig.tell(isolated(Isolation("n1", start=rig.now + 30 * SECOND)))
    rig.step(11)
    assert conditions(rig, "n1") == ("Accepted", "NotStarted")
    rig.step(20)
    assert conditions(rig, "n1") == ("Accepted", "Started")
    assert len([one for one in rig.commands if isinstance(one, SetConditions)]) == 2


def test_a_status_change_decides_nothing_again() -> None:
    rig = Rig(1)
    rig.tell(isolated(Isolation("n1")))
    rig.step()
    before = rig.machine.view.cluster.node_windows, len(rig.commands)
    rig.tell(isolated(Isolation("n1")))
    rig.step()
    assert (rig.machine.view.cluster.node_windows, len(rig.commands)) == before


def test_the_last_known_stay_while_the_kind_is_not_served_also_for_the_next_leader() -> None:
    rig = Rig(2)
    rig.tell(isolated(Isolation("n1")))
    rig.step()
    rig.tell(ev.KindServed("Isolation", False))
    rig.step()
    other = rig.successor()
    # Objects of a kind that is not served are not listed.
    other.events = [one for one in other.events if not isinstance(one, ev.IsolationSeen)]
    other.step()
    assert closed(other) == {"n1"}
    assert any(one.code == "kind-not-served" for one in diagnose(other.machine.view).findings)
    other.tell(ev.KindServed("Isolation", True))
    other.step()
    assert closed(other) == set()
    assert other.machine.view.cluster.fleets[CHIP].closed[0] is None

"""HyperNodes in the scheduler: what is told of them, and of jobs whose topology nothing obeys."""

from __future__ import annotations

from dataclasses import replace

from ringwise.apps.extensions import new_scheduler
from ringwise.messages import events as ev
from ringwise.messages.commands import RecordJobEvent, SetHyperNodeStatus
from ringwise.scheduler.explain.doctor import diagnose
from ringwise.scheduler.explain.why import explain
from ringwise.state.model import HyperNode, HyperNodeMember, NetworkTopology, SubGroupPolicy
from tests.builders.values import hyper_node
from tests.scheduler.rig import Rig


def told(rig: Rig) -> list[SetHyperNodeStatus]:
    return [command for command in rig.step() if isinstance(command, SetHyperNodeStatus)]


def test_what_changed_is_told_once() -> None:
    rig = Rig(3)
    rig.tell(hyper_node("a", 1, "n1", "n2"), hyper_node("b", 1, "n2", "n3"))
    assert told(rig) == [
        SetHyperNodeStatus("a", 2),
        SetHyperNodeStatus("b", None, False, "OverlappingNodes", "shares 1 node with a; it is ignored"),
    ]
    # Its own write comes back, and another writer changes it: nothing is written again.
    rig.tell(hyper_node("a", 1, "n1", "n2", node_count=2))
    assert told(rig) == []
    rig.tell(hyper_node("a", 1, "n1", "n2", node_count=7))
    assert told(rig) == []
    rig.tell(ev.HyperNodeGone("a"))
    assert told(rig) == [SetHyperNodeStatus("b", 2)]
    rig.tell(ev.NodeGone("n3"))
    message = "1 member node does not exist: n3"
    assert told(rig) == [SetHyperNodeStatus("b", 1, True, "MissingNode", message)]


def test_a_message_is_bounded() -> None:
    rig = Rig(1)
    members = tuple(HyperNodeMember(True, f"c{number}") for number in range(100))
    rig.tell(*(HyperNode(f"c{number}", 5) for number in range(100)))
    rig.tell(HyperNode("p", 1, members))
    status = next(one for one in told(rig) if one.name == "p")
    assert status.message.endswith("; and 95 more")


def test_another_scheduler_gets_the_same_trees() -> None:
    rig = Rig(2)
    rig.tell(hyper_node("a", 1, "n1", "n2"))
    rig.step()
    copy = new_scheduler()
    copy.handle(rig.machine.view.what_if.current_events(), rig.now)
    assert copy.view.hyper_forest().domains == rig.machine.view.hyper_forest().domains


def test_doctor_tells_of_each_wrong_one() -> None:
    rig = Rig(2)
    rig.tell(
        hyper_node("a", 1, "n1", "n9"),
        HyperNode("b", 1, (HyperNodeMember(pattern="n(?=2)"),)),
    )
    rig.step()
    found = {one.code: one for one in diagnose(rig.machine.view).findings if "HyperNode" in one.object}
    assert set(found) == {"hypernode-missing-node", "hypernode-bad-expression"}
    assert found["hypernode-missing-node"].severity == "note"
    wrong = found["hypernode-bad-expression"]
    assert (wrong.severity, wrong.object) == ("warning", "HyperNode b")
    assert wrong.message == "regexMatch n(?=2): invalid perl operator: (?=; it is ignored"


def test_a_topology_without_the_plugin_is_told() -> None:
    """M2: it has no effect, and a warning says so, once for each job."""
    rig = Rig(1)
    for name in ("plain", "near", "parts"):
        rig.submit(name, chips=1)
    near, parts = (rig.groups[f"default/{name}"] for name in ("near", "parts"))
    near.topology = NetworkTopology(highest_tier=1)
    parts.sub_groups = (SubGroupPolicy("s", topology=NetworkTopology(soft=True)),)
    events = [one for one in rig.step() if isinstance(one, RecordJobEvent)]
    assert [one.key for one in events] == ["default/near", "default/parts"]
    text = "its networkTopology has no effect: the plugin network-topology-aware is not configured"
    assert {(one.reason, one.message, one.warning) for one in events} == {
        ("NetworkTopologyIgnored", text, True)
    }
    rig.tell(replace(near))
    assert not [one for one in rig.step() if isinstance(one, RecordJobEvent)]
    view = rig.machine.view
    assert [one.object for one in diagnose(view).findings if one.code == "topology-ignored"] == [
        "2 jobs (default/near, default/parts)"
    ]
    assert text in explain(view, view.jobs["default/near"], rig.now).notes
    assert text not in explain(view, view.jobs["default/plain"], rig.now).notes

"""Planning with a topology that has problems, and the view of the free nodes."""

from __future__ import annotations

import pytest

from ringwise.manifests.config_maps.switches import read_topology, topology_of_config_map
from ringwise.placement.switches.classes import SwitchClass
from ringwise.placement.switches.planning import plan
from ringwise.placement.switches.states import SwitchFacts, SwitchState, switch_states
from ringwise.placement.switches.view import (
    SwitchPlan,
    SwitchRequest,
    SwitchSettings,
    SwitchView,
    TopologyView,
    index_nodes,
    make_view,
)
from ringwise.topology.switches import resolve
from tests.topology.tor_info import info


def test_problems_of_the_topology_are_shown_with_the_job_S10() -> None:
    def answer(text: str, nodes: dict[str, str]) -> object:
        resolved = resolve(topology_of_config_map({"tor_info": text}, "cm"), nodes)
        states = switch_states(len(resolved.nodes), [], 2)
        indexed = index_nodes(resolved, {name: number for number, name in enumerate(nodes.values())})
        view = make_view(indexed, bytearray([1] * len(nodes)), states, SwitchSettings("2.0"))
        return plan(view, SwitchRequest(SwitchClass.PADDING, 2))

    for broken, code in (
        ("{", "switch-topology-invalid"),
        (info(), "switch-topology-empty"),
        (info(("s", ["a"]), tor_count=0), "switch-tor-count-invalid"),
    ):
        refused = answer(broken, {"a": "node-a"})
        assert not isinstance(refused, SwitchPlan)
        assert getattr(refused, "code", None) == code
    waiting = answer(info(("s", ["a", "b"])), {"a": "node-a"})
    assert "1 of 2 servers is not a node" in getattr(waiting, "message", "")
    assert isinstance(answer(info(("s", ["a", "b", "c"]), tor_count=1), {"a": "A", "c": "C"}), SwitchPlan)


def test_a_view_holds_the_free_nodes_with_their_positions_S8() -> None:
    topology = read_topology(info(("s", ["a", "b", "c"]), ("t", ["d"]), tor_count=3), None, "cm")
    resolved = resolve(topology, {"b": "B", "c": "C", "d": "D"})
    indexed = index_nodes(resolved, {"C": 0, "D": 1, "B": 2})
    view = make_view(indexed, bytearray([1, 0, 1]), switch_states(2, [], 2), SwitchSettings("1.0"))
    assert [(switch.name, switch.free, switch.positions) for switch in view.switches] == [
        ("s", (2, 0), (1, 2)),
        ("t", (), ()),
    ]
    fewer = make_view(indexed, bytearray([1, 1, 0]), switch_states(2, [], 2), SwitchSettings("1.0"))
    assert [(switch.free, switch.positions) for switch in fewer.switches] == [((0,), (2,)), ((1,), (0,))]


@pytest.mark.parametrize(("positions", "placed"), [((0, 1), True), ((1, 2), False), ((2, 3), False)])
def test_servers_beyond_the_count_of_the_topology_are_in_no_logical_switch_S8(
    positions: tuple[int, int], placed: bool
) -> None:
    idle = SwitchFacts(SwitchState.IDLE)
    leaves = tuple(SwitchView(f"s{node}", (node,), (at,), idle) for node, at in enumerate(positions))
    view = TopologyView(leaves, 2, SwitchSettings("1.0"))
    answer = plan(view, SwitchRequest(SwitchClass.FOUNDATION_MODEL, 2))
    assert isinstance(answer, SwitchPlan) is placed

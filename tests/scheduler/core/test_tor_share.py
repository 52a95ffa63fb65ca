"""Rule S2: the published state of the switches."""

from __future__ import annotations

import json

from ringwise.placement.switches.classes import SwitchClass
from ringwise.placement.switches.states import SwitchJob, switch_states
from ringwise.scheduler.core.leaf_switches import tor_share_config
from ringwise.topology.switches import Server, make_topology, resolve


def test_tor_share_lists_state_health_nodes_and_jobs_S2() -> None:
    topology = make_topology([("t0", [Server("a", 0, 0), Server("b", 1, 1)]), ("t1", [Server("c", 0, 0)])], 2)
    resolved = resolve(topology, {"a": "node-a", "b": "node-b", "c": "node-c"})
    states = switch_states(2, [SwitchJob("j", SwitchClass.COMMON, ((0, 1), (1, 1)))], 1)
    assert json.loads(tor_share_config(resolved, states, {"node-a": ["train"]})) == {
        "t0": {
            "IsHealthy": 1,
            "IsSharedTor": 1,
            "nodes": [
                {"NodeIp": "a", "NodeName": "node-a", "JobName": ["train"]},
                {"NodeIp": "b", "NodeName": "node-b", "JobName": []},
            ],
        },
        "t1": {
            "IsHealthy": 1,
            "IsSharedTor": 1,
            "nodes": [{"NodeIp": "c", "NodeName": "node-c", "JobName": []}],
        },
    }

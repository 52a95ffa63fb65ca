"""Leaf-switch affinity: which nodes, and in which rank order, a switch-aware job gets."""

from __future__ import annotations

from ringwise.placement.switches.classes import LABEL, SwitchClass, classify
from ringwise.placement.switches.planning import plan, plan_at_least
from ringwise.placement.switches.publish import (
    TOR_SHARE_CONFIG_MAP,
    TOR_SHARE_KEY,
    pod_annotations,
    read_mark,
    tor_share_config,
)
from ringwise.placement.switches.reschedule import replan
from ringwise.placement.switches.seats import Seat
from ringwise.placement.switches.states import PlacedJob, State, SwitchState, switch_states
from ringwise.placement.switches.view import (
    ClusterView,
    IndexedTopology,
    PlanEntry,
    Request,
    SwitchPlan,
    SwitchSettings,
    SwitchView,
    index_nodes,
    make_indexed_view,
    make_view,
)

__all__ = [
    "LABEL",
    "TOR_SHARE_CONFIG_MAP",
    "TOR_SHARE_KEY",
    "ClusterView",
    "IndexedTopology",
    "PlacedJob",
    "PlanEntry",
    "Request",
    "Seat",
    "State",
    "SwitchClass",
    "SwitchPlan",
    "SwitchSettings",
    "SwitchState",
    "SwitchView",
    "classify",
    "index_nodes",
    "make_indexed_view",
    "make_view",
    "plan",
    "plan_at_least",
    "pod_annotations",
    "read_mark",
    "replan",
    "switch_states",
    "tor_share_config",
]

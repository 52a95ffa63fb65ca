"""Leaf-switch affinity: which nodes, and in which rank order, a switch-aware job gets."""

from __future__ import annotations

from ringwise.placement.switches.classes import SwitchClass, classify
from ringwise.placement.switches.planning import plan, plan_at_least
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
    "replan",
    "switch_states",
]

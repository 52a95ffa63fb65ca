"""Plan the nodes of a switch-aware job: which version applies, and what is refused beforehand."""

from __future__ import annotations

from dataclasses import replace

from ringwise.placement.switches.affinity_v1 import plan_version1
from ringwise.placement.switches.affinity_v2 import plan_version2
from ringwise.placement.switches.one_switch import plan_single_layer
from ringwise.placement.switches.view import SwitchPlan, SwitchRequest, TopologyView
from ringwise.reasons import Reason
from ringwise.topology.reasons import FATAL, NO_NODES_PER_SWITCH, TOPOLOGY_EMPTY


def plan(view: TopologyView, request: SwitchRequest) -> SwitchPlan | Reason:
    """Nodes for a job none of whose pods is placed, or the reason why there are none."""
    unusable = refusal_of_topology(view)
    if unusable is not None:
        return unusable
    if request.pods < 1:
        return SwitchPlan(())
    # Rule S11: single layer wins over the version.
    if view.single_layer:
        answer = plan_single_layer(view, request)
    elif view.settings.version == "2.0":
        answer = plan_version2(view, request)
    else:
        answer = plan_version1(view, request)
    return with_problems(view, answer)


def plan_at_least(view: TopologyView, request: SwitchRequest, minimum: int) -> SwitchPlan | Reason:
    """The whole job, else as many of its pods as fit, but at least `minimum` of them (rule S10).

    Every rule that places P pods also places P - 1, so the largest number is found by bisection.
    """
    whole = plan(view, request)
    if isinstance(whole, SwitchPlan) or minimum >= request.pods or minimum < 1:
        return whole
    best = plan(view, replace(request, pods=minimum))
    low, high = minimum, request.pods
    while isinstance(best, SwitchPlan) and high - low > 1:
        middle = (low + high) // 2
        answer = plan(view, replace(request, pods=middle))
        if isinstance(answer, SwitchPlan):
            low, best = middle, answer
        else:
            high = middle
    return best


def refusal_of_topology(view: TopologyView) -> Reason | None:
    """Rule S10: the problem that makes the topology unusable for every job, if there is one."""
    fatal = next((problem for problem in view.problems if problem.code in FATAL), None)
    if fatal is not None:
        return fatal
    if not view.switches:
        return TOPOLOGY_EMPTY(origin="the leaf-switch topology")
    if view.nodes_per_switch < 1:
        biggest = max(len(switch.free) for switch in view.switches)
        return NO_NODES_PER_SWITCH(
            origin="the leaf-switch topology", tor_count=view.nodes_per_switch, largest=biggest
        )
    return None


def with_problems(view: TopologyView, answer: SwitchPlan | Reason) -> SwitchPlan | Reason:
    """Adds the problems of the topology to the reason of a job that waits (rule S10)."""
    if isinstance(answer, SwitchPlan) or not view.problems:
        return answer
    return answer.with_hints(f"the topology has a fault: {problem.message}" for problem in view.problems[:4])

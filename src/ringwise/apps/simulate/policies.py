"""First fit and random, to compare with: plugins of a simulated scheduler, which no configuration can name.

They choose the nodes of jobs that are placed node by node. Chips inside a node, gangs, queues and everything
else are the scheduler's own, and so are jobs for leaf switches, SuperPoDs and racks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from ringwise.framework.configuration import Configuration, PluginOption, Tier
from ringwise.framework.extension_points import JOB_PLAN, JobPlan
from ringwise.framework.job import Job
from ringwise.framework.node_selection import NodeSelection
from ringwise.framework.registry import PluginSpec
from ringwise.framework.session import Session
from ringwise.reasons import Reason
from ringwise.state.model import Pod
from ringwise.topology.chips import mask_of

FIRST_FIT, RANDOM = "first-fit", "random"
POLICIES = (FIRST_FIT, RANDOM)
_PREFIX = "simulated-"


class _NodePolicy:
    """Chooses among the nodes that fit, which are given in natural order."""

    def __init__(self, order: Callable[[Job, list[int]], list[int]]) -> None:
        self._order = order

    def open(self, session: Session) -> None:
        self._session = session
        session.register(JOB_PLAN, self.plan)

    def plan(self, job: Job, pods: Sequence[Pod]) -> JobPlan | Reason | None:
        """None where it finds no nodes: then the scheduler says why there are none."""
        policy = job.policy
        if policy is None or policy.switch_class is not None or policy.block_nodes is not None:
            return None
        nodes: dict[str, int] = {}
        usable: dict[int, int] = {}
        fitting: dict[NodeSelection, list[int]] = {}
        for pod in pods:
            if not pod.cls.chips:
                continue
            selection = self._session.node_selection(job, pod)
            if selection not in fitting:
                fitting[selection] = self._order(job, selection.fitting_nodes())
            for node in fitting[selection]:
                left = usable.get(node)
                left = selection.usable(node) if left is None else left
                chips = policy.rule.chips(left, selection.chips, policy.multi_pod)
                if chips:
                    nodes[pod.uid] = node
                    usable[node] = left & ~mask_of(chips)
                    break
            else:
                return None
        return JobPlan(nodes)


def policy_plugin(name: str, seed: str) -> PluginSpec:
    def order(job: Job, nodes: list[int]) -> list[int]:
        if name == RANDOM:
            # By job: which attempt it is, and what was decided before, does not change the order.
            random.Random(f"{seed}/{job.key}").shuffle(nodes)
        return nodes

    return PluginSpec(_PREFIX + name, f"places jobs by {name}", lambda option: _NodePolicy(order))


def with_policy(configuration: Configuration, name: str) -> Configuration:
    """The policy is asked before all plugins of the configuration."""
    tier = Tier((PluginOption.of(_PREFIX + name),))
    return replace(configuration, tiers=(tier, *configuration.tiers))

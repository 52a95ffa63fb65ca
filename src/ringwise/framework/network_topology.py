"""Whether the network topology of a job is obeyed (M2)."""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.framework.configuration import Configuration
from ringwise.framework.job import Job
from ringwise.framework.reasons import TOPOLOGY_COMBINED
from ringwise.placement.switches.classes import asks_for_switches
from ringwise.reasons import Reason
from ringwise.state.hyper_nodes import Forest
from ringwise.state.model import NetworkTopology
from ringwise.topology.nearest import did_you_mean
from ringwise.wellknown import NETWORK_TOPOLOGY_AWARE, SP_BLOCK, TOR_AFFINITY

#: The plugin that places jobs in HyperNodes.
PLUGIN = NETWORK_TOPOLOGY_AWARE
TOPOLOGY_IGNORED = f"its networkTopology has no effect: the plugin {PLUGIN} is not configured"


def asks_for_topology(job: Job) -> bool:
    """Of its own, or of a sub-group."""
    group = job.group
    if group is None or (group.topology is None and not group.sub_groups):
        # Nearly all jobs, each several times a cycle.
        return False
    return group.topology is not None or any(policy.topology is not None for policy in group.sub_groups)


def ignores_topology(job: Job, configuration: Configuration) -> bool:
    return asks_for_topology(job) and configuration.plugin(PLUGIN) is None


def unlimited_topologies(job: Job, forest: Forest) -> Iterator[str]:
    """Which topologies of the job restrict nothing, as in Volcano, and why: likely they were meant to."""
    group = job.group
    if group is None:
        return
    if group.topology is not None and (why := _unlimited(group.topology, forest)):
        yield f"its networkTopology restricts nothing: {why}"
    for policy in group.sub_groups:
        if policy.topology is not None and (why := _unlimited(policy.topology, forest)):
            # One is told: there may be many of them.
            yield f"the networkTopology of its sub-groups {policy.name} restricts nothing: {why}"
            return


def _unlimited(topology: NetworkTopology, forest: Forest) -> str:
    if topology.soft or forest.limits(topology):
        return ""
    if topology.highest_tier_name:
        name = topology.highest_tier_name
        return f"no HyperNode has the tier name {name}{did_you_mean(name, sorted(forest.tier_names))}"
    return "mode hard has neither highestTierAllowed nor highestTierName"


def combined_with(job: Job) -> Reason | None:
    """S12: switches, SuperPoDs and network topologies each choose the nodes."""
    if not asks_for_topology(job):
        return None
    label = job.labels.get(TOR_AFFINITY)
    if asks_for_switches(label):
        return TOPOLOGY_COMBINED(key=TOR_AFFINITY, value=label)
    block = job.annotations.get(SP_BLOCK)
    return None if block is None else TOPOLOGY_COMBINED(key=SP_BLOCK, value=block)

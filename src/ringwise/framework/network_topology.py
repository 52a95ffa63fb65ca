"""Whether the network topology of a job is obeyed (M2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ringwise.framework.configuration import Configuration
from ringwise.framework.job import Job
from ringwise.framework.reasons import TOPOLOGY_COMBINED
from ringwise.grammar import quoted
from ringwise.placement.switches.classes import asks_for_switches
from ringwise.reasons import Reason
from ringwise.state.hyper_nodes import Forest
from ringwise.state.model import NetworkTopology
from ringwise.state.topology_annotations import annotation_problems
from ringwise.topology.nearest import did_you_mean
from ringwise.wellknown import NETWORK_TOPOLOGY_AWARE, SP_BLOCK, TOR_AFFINITY

#: The plugin that places jobs in HyperNodes.
PLUGIN = NETWORK_TOPOLOGY_AWARE
TOPOLOGY_IGNORED = f"its networkTopology has no effect: the plugin {PLUGIN} is not configured"
#: Characters of the name of a tier in a sentence.
_LONGEST = 60
_BOTH = "has highestTierAllowed and highestTierName: only one is allowed, and highestTierAllowed counts"


def asks_for_topology(job: Job) -> bool:
    """Of its own, or of a sub-group."""
    group = job.group
    if group is None or (group.topology is None and not group.sub_groups):
        # Nearly all jobs, each several times a cycle.
        return False
    return group.topology is not None or any(policy.topology is not None for policy in group.sub_groups)


def ignores_topology(job: Job, configuration: Configuration) -> bool:
    return asks_for_topology(job) and configuration.plugin(PLUGIN) is None


class TopologyNote(NamedTuple):
    """Something of a job's topologies that its author did not mean, likely."""

    #: As `ringwise doctor` names it.
    code: str
    warning: bool
    text: str
    fix: str


def topology_notes(job: Job, configuration: Configuration, forest: Forest) -> Iterator[TopologyNote]:
    if ignores_topology(job, configuration):
        fix = f"add the line `- name: {PLUGIN}` to the plugins of a tier in volcano-scheduler.conf"
        yield TopologyNote("topology-ignored", True, TOPOLOGY_IGNORED, fix)
    elif asks_for_topology(job):
        fix = "name a tier that `ringwise get hypernodes` lists, or remove it"
        for why in _unlimited_topologies(job, forest):
            yield TopologyNote("topology-unlimited", False, why, fix)
    for why in unread_topologies(job):
        yield TopologyNote("topology-unread", True, why, "correct it where the pods or the PodGroup are made")


def unread_topologies(job: Job) -> Iterator[str]:
    """What is written of a topology and does not count: admission tells it of new objects."""
    group = job.group
    if group is None:
        return
    if group.ordinary:
        pod = next(iter(job.pods.values()), None)
        for key, problem in annotation_problems(pod.annotations if pod is not None else {}):
            yield f"annotation {key} of its pods {problem}"
    if group.topology is not None and group.topology.has_both:
        yield f"its networkTopology {_BOTH}"
    both = [policy.name for policy in group.sub_groups if policy.topology and policy.topology.has_both]
    if both:
        yield f"the networkTopology of its sub-groups {both[0]} {_BOTH}"


def _unlimited_topologies(job: Job, forest: Forest) -> Iterator[str]:
    """Which topologies of the job restrict nothing, as in Volcano, and why: likely they were meant to."""
    group = job.group
    if group is None:
        return
    if group.topology is not None and (why := _unlimited(group.topology, forest)):
        yield f"its networkTopology restricts nothing: {why}"
    for policy in group.sub_groups:
        if policy.topology is not None and (why := _unlimited(policy.topology, forest)):
            # Only the first is reported: there may be many of them.
            yield f"the networkTopology of its sub-groups {policy.name} restricts nothing: {why}"
            return


def _unlimited(topology: NetworkTopology, forest: Forest) -> str:
    if topology.soft or forest.limits(topology):
        return ""
    if topology.highest_tier_name:
        name = topology.highest_tier_name
        # A PodGroup may have any text there.
        shown = name if len(name) <= _LONGEST and name.isprintable() else quoted(name, _LONGEST)
        return f"no HyperNode has the tier name {shown}{did_you_mean(name, forest.tier_names)}"
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

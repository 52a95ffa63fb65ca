"""Leaf switches as they are: states, free nodes and jobs, from the pods that run in an input."""

from __future__ import annotations

from dataclasses import dataclass

from ringwise.apps.place import place
from ringwise.framework.configuration import Configuration
from ringwise.framework.switch_use import states_now
from ringwise.manifests.bundle import Bundle
from ringwise.placement.switches import SwitchState
from ringwise.topology.boards import BoardCatalog
from ringwise.topology.switches import ResolvedTopology


@dataclass(frozen=True, slots=True)
class SwitchesNow:
    resolved: ResolvedTopology
    states: list[SwitchState]
    #: Nodes on which no pod holds a chip.
    free_nodes: frozenset[str]
    jobs_of_node: dict[str, list[str]]


def running_only(bundle: Bundle) -> Bundle:
    """The input without anything that waits, so that a run over it changes nothing."""
    return Bundle(
        nodes=bundle.nodes,
        pods=[pod for pod in bundle.pods if pod.node is not None],
        pod_groups=bundle.pod_groups,
        queues=bundle.queues,
        priority_classes=bundle.priority_classes,
        reports=bundle.reports,
        config_maps=bundle.config_maps,
        newest_timestamp=bundle.newest_timestamp,
    )


def switches_now(bundle: Bundle, configuration: Configuration, catalog: BoardCatalog) -> SwitchesNow | None:
    """None where the input has no topology."""
    scheduler = place(running_only(bundle), configuration, catalog).scheduler
    resolved = scheduler.world.switches(scheduler.state)
    if resolved is None:
        return None
    limit = configuration.settings.shared_tor_num
    jobs: dict[str, list[str]] = {}
    for pod in bundle.pods:
        if pod.node is not None and pod.live and pod.cls.chips:
            names = jobs.setdefault(pod.node, [])
            name = pod.group or pod.name
            if name not in names:
                names.append(name)
    return SwitchesNow(
        resolved,
        states_now(scheduler.book.jobs.values(), scheduler.state, resolved, limit),
        frozenset(node for node in resolved.switch_of if scheduler.is_idle(node)),
        jobs,
    )

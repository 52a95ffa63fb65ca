"""An embedded cluster whose API server and kubelets fail when a test says so, and faults of its hardware."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from ringwise.embed.cluster import EmbeddedCluster
from ringwise.embed.kubelet import PodTransition
from ringwise.embed.nodes import NOT_ADMITTED
from ringwise.embed.parts import reported_chips
from ringwise.messages.commands import Bind
from ringwise.state.model import DeviceReport, Node, Pod
from ringwise.topology.chips import mask_of

StoredKind = TypeVar("StoredKind")


class FaultyCluster(EmbeddedCluster):
    _failing_binds: dict[str, int]
    _rejected_starts: dict[str, int]

    def _bind(self, command: Bind) -> str | None:
        if _counted_down(self, "_failing_binds", command.node):
            return f"the binding to {command.node} was refused"
        return super()._bind(command)

    def _carry_out(self, pod: Pod, transition: PodTransition) -> None:
        if transition is PodTransition.START and _counted_down(self, "_rejected_starts", pod.node or ""):
            self._put_pod(replace(pod, phase="Failed", rejected=NOT_ADMITTED, ended=self.now))
        else:
            super()._carry_out(pod, transition)


def _counted_down(cluster: FaultyCluster, name: str, node: str) -> bool:
    left: dict[str, int] = vars(cluster).get(name, {})
    left[node] = left.get(node, 0) - 1
    return left[node] >= 0


def fail_next_binds(cluster: EmbeddedCluster, node: str, count: int = 1) -> None:
    """Let the next bindings to this node fail, like a busy API server."""
    assert isinstance(cluster, FaultyCluster)
    vars(cluster).setdefault("_failing_binds", {})[node] = count


def reject_next_pods(cluster: EmbeddedCluster, node: str, count: int = 1) -> None:
    """Let the kubelet of this node reject the next pods, like one whose device plugin is not back yet."""
    assert isinstance(cluster, FaultyCluster)
    vars(cluster).setdefault("_rejected_starts", {})[node] = count


def set_health(
    cluster: EmbeddedCluster, node: str, chips: tuple[int, ...], *, healthy: bool, network: bool = False
) -> None:
    """Set the health of chips, or of their network."""
    described = cluster.get(Node, node)
    assert described is not None
    for resource in reported_chips(described):
        report = cluster.nodes.report(node, resource) or DeviceReport(node, resource)
        bad = (report.network_unhealthy if network else report.unhealthy) or 0
        bad = bad & ~mask_of(chips) if healthy else bad | mask_of(chips)
        changed = replace(report, network_unhealthy=bad) if network else replace(report, unhealthy=bad)
        cluster.nodes.put_report(changed, cluster.now)


def update(
    cluster: EmbeddedCluster, kind: type[StoredKind], key: str, change: Callable[[StoredKind], StoredKind]
) -> None:
    """Write a change of an object, as another client would."""
    value = cluster.get(kind, key)
    assert value is not None
    cluster.table.put(kind.__name__, key, change(value))

"""What `kubectl drain` does, on an embedded cluster."""

from __future__ import annotations

from ringwise.embed.cluster import EmbeddedCluster
from ringwise.state.model import Pod


def drain(cluster: EmbeddedCluster, node: str) -> list[str]:
    """Cordon a node and delete its pods; returns their keys."""
    cluster.cordon(node)
    leaving = [pod.key for pod in cluster.all(Pod) if pod.node == node and pod.live]
    for key in leaving:
        cluster.delete("Pod", key)
    return leaving

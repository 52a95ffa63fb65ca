"""An input as it is, without what it asks for."""

from __future__ import annotations

from ringwise.manifests.bundle import Bundle


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

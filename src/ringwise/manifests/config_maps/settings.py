"""The ConfigMap with a text that people write: HyperNodes from labels of nodes."""

from __future__ import annotations

from collections.abc import Mapping

from ringwise.manifests.text.errors import DocumentError, Findings
from ringwise.state.topology_discovery import NO_DISCOVERY, TopologyDiscovery
from ringwise.wellknown import CONTROLLER_CONFIG_KEY


def discovery_from_data(data: Mapping[str, str], issues: Findings) -> TopologyDiscovery:
    """`networkTopologyDiscovery` in the ConfigMap of the controller; if invalid none, with all errors."""
    from ringwise.manifests.settings.discovery import read_discovery

    field = f"data.{CONTROLLER_CONFIG_KEY}"
    try:
        if CONTROLLER_CONFIG_KEY in data:
            return read_discovery(data[CONTROLLER_CONFIG_KEY], "")
        issues.add_error(field, "Required value")
    except DocumentError as error:
        for problem in error.errors:
            issues.add_error(field, str(problem))
    return NO_DISCOVERY

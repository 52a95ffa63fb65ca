"""HyperNodes from labels of nodes: `networkTopologyDiscovery` in the ConfigMap of the controller."""

from __future__ import annotations

from collections.abc import Mapping

from ringwise.manifests.text.errors import ConfigurationError, Findings
from ringwise.state.topology_discovery import NO_DISCOVERY, TopologyDiscovery
from ringwise.wellknown import CONTROLLER_CONFIG_KEY


def discovery_from_data(data: Mapping[str, str], found: Findings) -> TopologyDiscovery:
    field = f"data.{CONTROLLER_CONFIG_KEY}"
    text = data.get(CONTROLLER_CONFIG_KEY)
    if text is None:
        found.wrong(field, "is missing")
        return NO_DISCOVERY
    # Imported here: most clusters have no such ConfigMap, and then need no YAML.
    from ringwise.manifests.settings.discovery import read_discovery

    try:
        return read_discovery(text, "")
    except ConfigurationError as error:
        for problem in error.errors:
            line = "" if problem.line is None else f"line {problem.line}: "
            place = f"{problem.place}: " if problem.place else ""
            found.wrong(field, f"{line}{place}{problem.message}")
        return NO_DISCOVERY

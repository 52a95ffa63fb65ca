"""The ConfigMap with a text that people write: HyperNodes from labels of nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from ringwise.manifests.text.errors import DocumentError, Findings
from ringwise.state.topology_discovery import NO_DISCOVERY, TopologyDiscovery
from ringwise.wellknown import CONTROLLER_CONFIG_KEY

Value = TypeVar("Value")


def discovery_from_data(data: Mapping[str, str], issues: Findings) -> TopologyDiscovery:
    """`networkTopologyDiscovery` in the ConfigMap of the controller."""
    from ringwise.manifests.settings.discovery import read_discovery

    return _read(data, CONTROLLER_CONFIG_KEY, read_discovery, issues) or NO_DISCOVERY


def _read(
    data: Mapping[str, str], key: str, read: Callable[[str, str], Value], issues: Findings
) -> Value | None:
    """What is under a key; None, with all errors, where it cannot be read."""
    try:
        if key in data:
            return read(data[key], "")
        issues.add_error(f"data.{key}", "Required value")
    except DocumentError as error:
        for problem in error.errors:
            issues.add_error(f"data.{key}", str(problem))
    return None

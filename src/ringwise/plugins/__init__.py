"""The plugins that come with Ringwise. Each declares itself in its own file or folder."""

from __future__ import annotations

from ringwise.framework.registry import PluginSpec
from ringwise.plugins import (
    binpack,
    capacity,
    cdp,
    conformance,
    drf,
    gang,
    network_topology_aware,
    nodegroup,
    nodeorder,
    overcommit,
    predicates,
    priority,
    proportion,
    resourcequota,
    sla,
    topology910,
)

PLUGINS: tuple[PluginSpec, ...] = (
    priority.SPEC,
    gang.SPEC,
    conformance.SPEC,
    topology910.SPEC,
    drf.SPEC,
    predicates.SPEC,
    proportion.SPEC,
    nodeorder.SPEC,
    binpack.SPEC,
    overcommit.SPEC,
    capacity.SPEC,
    sla.SPEC,
    nodegroup.SPEC,
    resourcequota.SPEC,
    cdp.SPEC,
    network_topology_aware.SPEC,
)

"""ConfigMaps of the watch into state objects: device reports, the configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ringwise.framework.registry import Registry
from ringwise.kube.watch.objects import KeyedObjects, NodeReports
from ringwise.kube.watch.readers import DataReader, ObjectReader
from ringwise.manifests.config_maps.device_info import EntryCache, aggregated_nodes, config_map_from_wire
from ringwise.manifests.config_maps.node_info import node_reports_of
from ringwise.manifests.kinds import KIND_OF
from ringwise.manifests.text.errors import DocumentError, Findings
from ringwise.manifests.text.wire import ConfigMapWire
from ringwise.scheduler.defaults import BUILT_IN
from ringwise.state.topology_discovery import TopologyDiscovery
from ringwise.wellknown import SCHEDULER_CONFIG_KEY


class ReportReader(ObjectReader[ConfigMapWire]):
    #: If an aggregate has errors, `stand_in` decodes its valid entries.
    needs_bytes = True

    def __init__(self) -> None:
        super().__init__(ConfigMapWire)
        self._entries: EntryCache = {}

    def objects(self, wire: ConfigMapWire, issues: Findings) -> KeyedObjects | None:
        readable = self._readable(wire, issues)
        return None if issues.errors else readable

    def stand_in(self, received: Any, before: KeyedObjects, origin: str) -> KeyedObjects:
        """Of an aggregate, an entry that cannot be read keeps its node's last good report, and no other's."""
        try:
            wire = msgspec.json.decode(received, type=ConfigMapWire)
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
            return before
        named = aggregated_nodes(wire)
        if named is None:
            return before
        readable = dict(self._readable(wire, Findings(origin)))
        older = [pair for pair in before if pair[0] not in readable and pair[0].rpartition("/")[2] in named]
        return (*readable.items(), *older)

    def forget(self, key: str) -> None:
        self._entries.pop(key.rpartition("/")[2], None)

    def _readable(self, wire: ConfigMapWire, issues: Findings) -> KeyedObjects:
        """What can be read of it; the rest is in `issues`."""
        read = config_map_from_wire(wire, issues, self._entries)
        health = node_reports_of(wire, issues)
        if read is None and health is None:
            # It carries the label but is not a report.
            issues.errors.clear()
            return ()
        nodes: dict[str, list[Any]] = {}
        for report in read[0] if read is not None else ():
            nodes.setdefault(report.node, []).append(report)
        devices = (
            (node, NodeReports(node, reports[0].aggregated, tuple(reports)))
            for node, reports in nodes.items()
        )
        # No node has a slash in its name.
        return (*devices, *((f"{one.source}/{one.node}", one) for one in health or ()))


class ConfigurationReader(ObjectReader[ConfigMapWire]):
    def __init__(
        self, registry: Registry = BUILT_IN, warn: Callable[[str], object] = lambda warning: None
    ) -> None:
        super().__init__(ConfigMapWire)
        self._registry = registry
        #: Called with each warning about a text; once for each text.
        self._warn = warn
        self._text = ""

    def objects(self, wire: ConfigMapWire, issues: Findings) -> KeyedObjects | None:
        text = (wire.data or {}).get(SCHEDULER_CONFIG_KEY)
        if text is None:
            issues.add_error(f"data.{SCHEDULER_CONFIG_KEY}", "Required value")
            return None
        # Imported here: a cluster may have no such ConfigMap, and then needs no YAML.
        from ringwise.manifests.settings.configuration import read_configuration

        try:
            configuration = read_configuration(text, issues.origin, self._registry)
        except DocumentError as error:
            issues.errors += error.errors
            return None
        if text != self._text:
            self._text = text
            for warning in configuration.warnings:
                self._warn(warning)
        return ((SCHEDULER_CONFIG_KEY, configuration),)


class DiscoveryReader(DataReader):
    """Which HyperNodes are made from labels of nodes. Each text's warnings are logged once."""

    def __init__(self, warn: Callable[[str], object] = lambda warning: None) -> None:
        super().__init__(KIND_OF[TopologyDiscovery])
        self._warn = warn
        self._logged: tuple[str, ...] = ()

    def objects(self, wire: ConfigMapWire, issues: Findings) -> KeyedObjects | None:
        objects = super().objects(wire, issues)
        for _, discovery in objects or ():
            if isinstance(discovery, TopologyDiscovery) and discovery.warnings != self._logged:
                self._logged = discovery.warnings
                for warning in discovery.warnings:
                    self._warn(f"{issues.origin}: {warning}")
        return objects

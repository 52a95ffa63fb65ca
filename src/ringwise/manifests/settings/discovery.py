"""Reads `volcano-controller.conf`, the file of Volcano's controller, or all errors in it.

networkTopologyDiscovery:
- source: label
  enabled: true
  config:
    networkTopologyTypes:
      A3:
      - nodeLabel: volcano.sh/hypercluster
      - nodeLabel: volcano.sh/hypernode
      - nodeLabel: kubernetes.io/hostname

A type that cannot be used is left out, as in Volcano, with a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ringwise.durations import go_duration
from ringwise.framework.arguments import is_label_key
from ringwise.manifests.settings.configuration_text import (
    DISCOVERY_KEY,
    CheckedLine,
    SettingsReader,
    error_line,
    mapping,
)
from ringwise.manifests.text.checking import checked, keyed, one_of
from ringwise.manifests.text.errors import DocumentError
from ringwise.manifests.text.yaml_stream import YamlFile, read_map
from ringwise.state.topology_discovery import LABEL_SOURCE, NO_DISCOVERY, TopologyDiscovery, TopologyType
from ringwise.topology.nearest import did_you_mean
from ringwise.wellknown import HOSTNAME, TOPOLOGY_SOURCE, TOPOLOGY_TYPE

#: Those that ask a manager of the fabric. Files written for Volcano may name them.
_UNSUPPORTED = ("ufm", "roce")
#: Characters of a type's name, as in Volcano; its HyperNodes are named and labeled by it.
LONGEST_TYPE = 20
_TYPE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)
_TYPE_TEXT = f'up to {LONGEST_TYPE} letters, digits, "-", "_" and ".", the first and last a letter or a digit'
#: Labels of one type, and types: each costs every node something.
MOST_LABELS = 16
MOST_TYPES = 64


class _SourceName(str):
    """One of those that Volcano has."""


class _Interval(str):
    """A duration. It has no effect: HyperNodes follow labels at once."""


class _LabelKey(str):
    """The key of a label."""


class _Part(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    pass


class _Source(_Part, frozen=True):
    source: _SourceName
    enabled: bool = False
    interval: _Interval | None = None
    credentials: Any = None
    #: That of another source than `label` has other fields.
    config: Any = None


class _Level(_Part, frozen=True):
    node_label: _LabelKey


class _LabelConfig(_Part, frozen=True):
    network_topology_types: dict[str, list[_Level]] = {}


class _File(msgspec.Struct, frozen=True, rename="camel"):
    network_topology_discovery: list[_Source] = []


def _value(kind: type, value: object) -> object:
    if kind is _SourceName:
        return _SourceName(one_of(value, (LABEL_SOURCE, *_UNSUPPORTED)))
    text = str(value)
    if kind is _Interval and go_duration(text) is None and not text.isdigit():
        raise ValueError("must be a duration such as 90s, 10m or 1h30m")
    if kind is _LabelKey and not (isinstance(value, str) and is_label_key(value)):
        raise ValueError("must be the key of a label, such as example.com/rack")
    return kind(text)


def read_discovery(text: bytes | str, origin: str) -> TopologyDiscovery:
    """Raises `DocumentError` with all errors."""
    document = read_map(text, origin)
    return NO_DISCOVERY if document is None else _Reader(document).discovery()


def check_discovery(text: bytes | str, origin: str, first_line: int = 1) -> Iterator[CheckedLine]:
    """What each line does. Errors are lines, too; nothing is raised."""
    try:
        document = read_map(text, origin, first_line)
        if document is None:
            yield CheckedLine(first_line, DISCOVERY_KEY, "no effect", "it is missing: no HyperNode is made")
            return
        reader = _Reader(document)
        reader.discovery()
    except DocumentError as error:
        yield from map(error_line, error.errors)
    else:
        yield from reader.lines


class _Reader(SettingsReader):
    def __init__(self, file: YamlFile) -> None:
        super().__init__(file)
        self._types: dict[str, TopologyType] = {}
        self._skipped: dict[str, None] = {}

    def discovery(self) -> TopologyDiscovery:
        file = checked(self._file.value, _File, "", self._issues, _value) or _File()
        enabled = False
        for key in mapping(self._file.value):
            if key == DISCOVERY_KEY:
                for position, source in enumerate(file.network_topology_discovery):
                    enabled = self._source(source, f"{DISCOVERY_KEY}[{position}]", enabled)
            elif near := did_you_mean(key[:60], (DISCOVERY_KEY,)):
                self._issues.add_error(keyed("", key), f"unknown field; allowed: {DISCOVERY_KEY}{near}")
            else:
                self._warn(keyed("", key), f"unknown field, has no effect; allowed: {DISCOVERY_KEY}")
        self._issues.raise_errors()
        return TopologyDiscovery(enabled, tuple(self._types.values()), tuple(self._skipped), self.warnings)

    def _source(self, source: _Source, place: str, enabled_before: bool) -> bool:
        """Whether HyperNodes are made from labels: by this source, or by one before it."""
        if not source.enabled:
            self._line(place, place, "no effect", "it is not enabled: HyperNodes stay as they are")
        elif source.source != LABEL_SOURCE:
            message = (
                f"the source {source.source} is not supported and has no effect; allowed: {LABEL_SOURCE}"
            )
            self._warn(place, message)
        elif enabled_before:
            self._issues.add_error(place, f"at most one source {LABEL_SOURCE} can be enabled")
        else:
            self._config(source.config or {}, f"{place}.config")
            return True
        return enabled_before

    def _config(self, config: object, place: str) -> None:
        read = checked(config, _LabelConfig, place, self._issues, _value)
        if read is None:
            return
        place = f"{place}.networkTopologyTypes"
        types = read.network_topology_types
        if not types:
            self._warn(place, "has no type, so no HyperNode is created")
        if len(types) > MOST_TYPES:
            self._issues.add_error(place, f"has {len(types)} types; allowed: up to {MOST_TYPES}")
            return
        used: dict[str, str] = {}
        for name, levels in types.items():
            within = keyed(place, name)
            labels = [str(level.node_label) for level in levels]
            problem = self._problem_of(name, labels, used)
            if problem:
                self._skipped[name] = None
                self._warn(within, f"{problem}; the type is ignored")
            else:
                used.update(dict.fromkeys(labels, name))
                # The one of the node itself stands for no HyperNode.
                tiers = self._types[name] = TopologyType(name, tuple(reversed(labels[:-1])))
                each = (f"of tier {tier} from {label}" for tier, label in enumerate(tiers.labels, 1))
                self._line(within, f"topology type {name}", "works", f"creates HyperNodes {', '.join(each)}")

    def _problem_of(self, name: str, labels: list[str], used: dict[str, str]) -> str:
        """Why a type cannot be used; empty: it can."""
        if len(name) > LONGEST_TYPE or not _TYPE_NAME.fullmatch(name):
            return f"the name has {len(name)} characters and is not allowed; allowed: {_TYPE_TEXT}"
        prefix = TopologyType(name, ()).prefix
        same = next((one.name for one in self._types.values() if one.prefix == prefix), None)
        if same is not None:
            return f"its HyperNodes would be named like those of {same}; allowed: names that differ"
        twice = next((label for position, label in enumerate(labels) if label in labels[:position]), None)
        if twice is not None:
            return f"has the label {twice} twice; allowed: once"
        if not labels or labels[-1] != HOSTNAME:
            return f"its last label is not {HOSTNAME}; allowed: labels from the widest domain to the node"
        if len(labels) == 1:
            return f"has no label but {HOSTNAME}; allowed: one label for each tier before it"
        if len(labels) > MOST_LABELS:
            return f"has {len(labels)} labels; allowed: up to {MOST_LABELS}"
        reserved = next((label for label in labels if label in (TOPOLOGY_SOURCE, TOPOLOGY_TYPE)), None)
        if reserved is not None:
            return f"has the label {reserved}, which says what a HyperNode is made from; allowed: another one"
        shared = next((label for label in labels[:-1] if label in used), None)
        if shared is not None:
            return (
                f"has the label {shared} of type {used[shared]}, so nodes would be in two HyperNodes of one "
                "tier; allowed: other labels"
            )
        return ""

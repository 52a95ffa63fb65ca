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

A type that cannot be used is left out, as in Volcano, and told as a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

from ringwise.durations import go_duration
from ringwise.framework.arguments import is_label_key, quoted
from ringwise.manifests.settings.configuration_text import (
    DISCOVERY_KEY,
    MAX_PROBLEMS,
    CheckedLine,
    Document,
    MapReader,
    error_line,
    noun,
    open_text,
)
from ringwise.manifests.text.errors import ConfigurationError, ConfigurationProblem, one_line
from ringwise.state.topology_discovery import LABEL_SOURCE, NO_DISCOVERY, TopologyDiscovery, TopologyType
from ringwise.topology.nearest import did_you_mean
from ringwise.wellknown import HOSTNAME, TOPOLOGY_SOURCE, TOPOLOGY_TYPE

_KEYS = ("source", "enabled", "interval", "credentials", "config")
_TYPES_KEY, _LABEL_KEY = "networkTopologyTypes", "nodeLabel"
#: Those that ask a manager of the fabric. Files written for Volcano may name them.
_UNSUPPORTED = ("ufm", "roce")
_SOURCES = (LABEL_SOURCE, *_UNSUPPORTED)
_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")
#: Characters of a type's name, as in Volcano; its HyperNodes are named and labelled by it.
LONGEST_TYPE = 20
_TYPE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)
_TYPE_TEXT = f'up to {LONGEST_TYPE} letters, digits, "-", "_" and ".", the first and last a letter or a digit'
#: Labels of one type, and types: each costs every node something.
MOST_LABELS = 16
MOST_TYPES = 64


def read_discovery(text: bytes | str, origin: str) -> TopologyDiscovery:
    """Raises `ConfigurationError` with all errors."""
    document = _open(text, origin)
    return NO_DISCOVERY if document is None else _Reader(document).discovery()


def check_discovery(text: bytes | str, origin: str, first_line: int = 1) -> Iterator[CheckedLine]:
    """What each line does. Errors are lines, too; nothing is raised."""
    try:
        document = _open(text, origin, first_line)
        if document is None:
            yield CheckedLine(first_line, DISCOVERY_KEY, "no effect", "it is missing: no HyperNode is made")
            return
        reader = _Reader(document)
        reader.discovery()
    except ConfigurationError as error:
        yield from map(error_line, error.errors)
    else:
        yield from reader.lines


def _open(text: bytes | str, origin: str, first_line: int = 1) -> Document | None:
    what, keys = "the configuration of the controller", f"the key {DISCOVERY_KEY}"
    return open_text(text, origin, what, keys, first_line)


class _Reader(MapReader):
    def discovery(self) -> TopologyDiscovery:
        self._warnings: list[ConfigurationProblem] = []
        #: What was understood, in the order in which it was read.
        self.lines: list[CheckedLine] = []
        self._types: dict[str, TopologyType] = {}
        self._skipped: dict[str, None] = {}
        enabled = False
        for key, node, value in self.entries(self.document.root, ""):
            if key == DISCOVERY_KEY:
                for position, source in enumerate(self.items(value, DISCOVERY_KEY)):
                    enabled = self._source(source, f"{DISCOVERY_KEY}[{position}]", enabled)
            elif near := did_you_mean(key[:60], (DISCOVERY_KEY,)):
                self.wrong(node, "", f"unknown key {quoted(key)}{near}; allowed: {DISCOVERY_KEY}")
            else:
                self._warn(node, "", f"unknown key {quoted(key)} has no effect; known: {DISCOVERY_KEY}")
        self.stop_if_wrong()
        warnings = (str(warning).removeprefix(": ") for warning in self._warnings)
        return TopologyDiscovery(enabled, tuple(self._types.values()), tuple(self._skipped), tuple(warnings))

    def _source(self, node: yaml.Node, place: str, enabled_before: bool) -> bool:
        """Whether HyperNodes are made from labels: by this source, or by one before it."""
        if not isinstance(node, yaml.MappingNode):
            self.wrong(node, place, f"is {noun(node)}; allowed: a map with {', '.join(_KEYS)}")
            return enabled_before
        found: dict[str, yaml.Node] = {}
        for name, key, value in self.entries(node, place):
            if name not in _KEYS:
                near = did_you_mean(name[:60], _KEYS)
                self.wrong(key, place, f"unknown key {quoted(name)}{near}; allowed: {', '.join(_KEYS)}")
            found[name] = value
        source = _text(found.get("source"))
        if source not in _SOURCES:
            got = (
                "is missing"
                if source is None
                else f"is {quoted(source)}{did_you_mean(source[:60], _SOURCES)}"
            )
            self.wrong(found.get("source", node), f"{place}.source", f"{got}; allowed: {', '.join(_SOURCES)}")
        enabled = self._truth(found.get("enabled"), f"{place}.enabled")
        self._check_interval(found.get("interval"), f"{place}.interval")
        if not enabled:
            self._line(node, place, "no effect", "it is not enabled: HyperNodes stay as they are")
            return enabled_before
        if source != LABEL_SOURCE:
            if source in _UNSUPPORTED:
                told = f"the source {source} is not supported and has no effect; supported: {LABEL_SOURCE}"
                self._warn(node, place, told)
            return enabled_before
        if enabled_before:
            self.wrong(node, place, f"is a second enabled source {LABEL_SOURCE}; allowed: one")
            return True
        self._config(found.get("config"), f"{place}.config", node)
        return True

    def _truth(self, node: yaml.Node | None, place: str) -> bool:
        """What is neither counts as true, so that all errors are found."""
        text = (_text(node) or "").lower()
        if node is None or text in (*_TRUE, *_FALSE):
            return text in _TRUE
        self.wrong(node, place, f"is {noun(node)}; allowed: true, false")
        return True

    def _check_interval(self, node: yaml.Node | None, place: str) -> None:
        """It has no effect: HyperNodes follow labels at once."""
        text = _text(node)
        if node is not None and (text is None or (go_duration(text) is None and not text.isdigit())):
            self.wrong(node, place, f"is {noun(node)}; allowed: a duration such as 90s, 10m or 1h30m")

    def _config(self, node: yaml.Node | None, place: str, source: yaml.Node) -> None:
        types: yaml.Node | None = None
        for name, key, value in self.entries(node, place) if node is not None else ():
            if name == _TYPES_KEY:
                types = value
            else:
                near = did_you_mean(name[:60], (_TYPES_KEY,))
                self.wrong(key, place, f"unknown key {quoted(name)}{near}; allowed: {_TYPES_KEY}")
        place = f"{place}.{_TYPES_KEY}"
        entries = self.entries(types, place) if types is not None else []
        if not entries and not self.problems:
            self._warn(node or source, place, "has no type, so no HyperNode is made; allowed: a map of types")
        if len(entries) > MOST_TYPES:
            self.wrong(types or source, place, f"has {len(entries)} types; allowed: up to {MOST_TYPES}")
            return
        used: dict[str, str] = {}
        for name, key, value in entries:
            within = f"{place}.{one_line(name[:60])}"
            labels = self._labels(value, within)
            if labels is None:
                continue
            problem = self._problem_of(name, labels, used)
            if problem:
                self._skipped[name] = None
                self._warn(key, within, f"{problem}; the type is left out")
            else:
                used.update(dict.fromkeys(labels, name))
                # The one of the node itself stands for no HyperNode.
                tiers = self._types[name] = TopologyType(name, tuple(reversed(labels[:-1])))
                each = (f"of tier {tier} by {label}" for tier, label in enumerate(tiers.labels, 1))
                self._line(key, f"topology type {name}", "works", f"makes HyperNodes {', '.join(each)}")

    def _labels(self, node: yaml.Node, place: str) -> list[str] | None:
        """Those of the highest tier first. None: they cannot be read."""
        found: list[str] = []
        before = len(self.problems)
        for position, item in enumerate(self.items(node, place)):
            within = f"{place}[{position}]"
            entries = self.entries(item, within)
            for name, key, value in entries:
                label = _text(value)
                if name != _LABEL_KEY:
                    near = did_you_mean(name[:60], (_LABEL_KEY,))
                    self.wrong(key, within, f"unknown key {quoted(name)}{near}; allowed: {_LABEL_KEY}")
                elif label is None or not is_label_key(label):
                    allowed = "the key of a label, such as example.com/rack"
                    self.wrong(value, f"{within}.{_LABEL_KEY}", f"is {noun(value)}; allowed: {allowed}")
                else:
                    found.append(label)
            if not entries and isinstance(item, yaml.ScalarNode) and len(self.problems) == before:
                self.wrong(item, within, f"is empty; allowed: {_LABEL_KEY} with the key of a label")
        return found if len(self.problems) == before else None

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
                "tier; allowed: labels of its own"
            )
        return ""

    def _warn(self, node: yaml.Node, place: str, message: str) -> None:
        if len(self._warnings) < MAX_PROBLEMS:
            self._warnings.append(self.problem(node, place, message))
            self._line(node, place, "warning", message)

    def _line(self, node: yaml.Node, what: str, verdict: str, effect: str) -> None:
        self.lines.append(CheckedLine(self.document.line_of(node), what, verdict, effect))


def _text(node: yaml.Node | None) -> str | None:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else None

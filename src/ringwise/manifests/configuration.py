"""Reads `volcano-scheduler.conf`: actions, tiers and settings, or all errors in them (K).

Nothing is skipped and nothing silently takes a default: an invalid value is an error
with its line, what is allowed and the nearest valid word. All errors are reported at
once. Which plugins and actions exist, and their arguments, comes from the registry.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from ringwise.framework.arguments import (
    Argument,
    InvalidArgument,
    Value,
    boolean,
    did_you_mean,
    find_argument,
    quoted,
)
from ringwise.framework.configuration import (
    FLAG_BY_KEY,
    SETTINGS,
    SETTINGS_ENTRY,
    Configuration,
    PluginOption,
    Settings,
    Tier,
    settings_from,
)
from ringwise.framework.registry import Arguments, PluginSpec, Registry
from ringwise.manifests.configuration_text import Document, noun, open_configuration, plain_value
from ringwise.manifests.errors import ConfigurationError, ConfigurationProblem
from ringwise.scheduler.defaults import DEFAULT_ACTIONS, default_tiers

__all__ = ["ConfigurationError", "ConfigurationProblem", "read_configuration"]

#: A reading stops after this many errors: a hostile file could cause any number.
MAX_PROBLEMS = 100

#: Names that are valid in Volcano and that Ringwise does not have.
VOLCANO_ACTIONS = frozenset({"elect", "gangpreempt", "gangreclaim", "reserve", "shuffle"})
VOLCANO_PLUGINS = frozenset(
    {
        "capacity", "cdp", "deviceshare", "extender", "network-topology-aware", "nodegroup", "numaaware",
        "overcommit", "pdb", "rescheduling", "resource-strategy-fit", "resourcequota", "sla",
        "task-topology", "tdm", "usage",
    }
)  # fmt: skip

_FLAG = boolean("flag", True, "turns a function of a plugin on or off")
_TOP_KEYS = ("actions", "tiers", "configurations", "metrics")
_ENTRY_KEYS = ("name", "arguments")
#: A plugin's entry may have any flag; listing all of them would hide the message.
_PLUGIN_KEYS_TEXT = "name, arguments, a flag such as enableNodeOrder"


def read_configuration(text: bytes | str, origin: str, registry: Registry) -> Configuration:
    """The configuration in `text`, which came from `origin`. Raises `ConfigurationError`.

    `registry` has the plugins and actions the file may name, with the arguments they take.
    """
    return _Reader(open_configuration(text, origin), registry).configuration()


class _TooMany(Exception):
    """Ends a reading after `MAX_PROBLEMS` errors."""


class _Reader:
    """One reading of one document; collects errors and goes on."""

    def __init__(self, document: Document, registry: Registry) -> None:
        self._document = document
        self._registry = registry
        self._problems: list[ConfigurationProblem] = []

    def configuration(self) -> Configuration:
        actions: tuple[str, ...] = DEFAULT_ACTIONS
        tiers = default_tiers()
        settings = Settings()
        action_arguments = self._registry.action_defaults()
        with contextlib.suppress(_TooMany):
            for key, node in self._entries(self._document.root, "", _TOP_KEYS):
                if key == "actions":
                    actions = self._actions(node)
                elif key == "tiers":
                    tiers = self._tiers(node)
                elif key == "configurations":
                    settings = self._configurations(node, action_arguments)
                else:
                    self._metrics(node)
        if self._problems:
            # In the order of the file; errors of one line stay in the order in which they were found.
            raise ConfigurationError(sorted(self._problems, key=lambda problem: problem.line or 0))
        return Configuration(actions, tiers, settings, action_arguments)

    # -- actions and tiers

    def _actions(self, node: yaml.Node) -> tuple[str, ...]:
        text = self._text(node, "actions", "action names with commas between them")
        if text is None:
            return ()
        names = tuple(name.strip() for name in text.split(","))
        for name in names:
            if name not in self._registry.actions:
                self._unknown(node, "actions", "action", name, self._registry.actions, VOLCANO_ACTIONS)
        return names

    def _tiers(self, node: yaml.Node) -> tuple[Tier, ...]:
        tiers: list[Tier] = []
        lines: dict[str, int] = {}
        for place, tier_node in self._items(node, "tiers"):
            plugins: list[PluginOption] = []
            for _, plugins_node in self._entries(tier_node, place, ("plugins",)):
                for plugin_place, plugin_node in self._items(plugins_node, f"{place}.plugins"):
                    option = self._plugin(plugin_node, plugin_place)
                    if option is None:
                        continue
                    line = self._document.line_of(plugin_node)
                    if option.name in lines:
                        self._problem(
                            plugin_node,
                            plugin_place,
                            f"{option.name} is already defined in line {lines[option.name]}; allowed: once",
                        )
                    lines.setdefault(option.name, line)
                    plugins.append(option)
            self._check_tier(tier_node, place, plugins)
            tiers.append(Tier(tuple(plugins)))
        return tuple(tiers)

    def _check_tier(self, node: yaml.Node, place: str, plugins: Sequence[PluginOption]) -> None:
        for option in plugins:
            check = self._registry.plugins[option.name].check_tier
            conflict = check(option, plugins) if check is not None else None
            if conflict is not None:
                self._problem(node, place, conflict)

    def _plugin(self, node: yaml.Node, place: str) -> PluginOption | None:
        entries = dict(self._entries(node, place, (*_ENTRY_KEYS, *FLAG_BY_KEY), _PLUGIN_KEYS_TEXT))
        spec = self._plugin_spec(node, place, entries.get("name"))
        flags: dict[str, bool] = {}
        for key, value in entries.items():
            flag = FLAG_BY_KEY.get(key)
            if flag is None:
                continue
            on = self._read(value, f"{place}.{key}", _FLAG)
            if not isinstance(on, bool):
                continue
            if flags.get(flag.name, on) is not on:
                self._problem(
                    value,
                    f"{place}.{key}",
                    f"contradicts {' or '.join(flag.spellings)}; allowed: one of the two",
                )
            flags[flag.name] = on
        if spec is None:
            return None
        arguments: dict[str, Value] = {}
        if "arguments" in entries:
            arguments = self._plugin_arguments(entries["arguments"], f"{place}.arguments", spec)
        return spec.option(flags, arguments)

    def _plugin_spec(self, plugin: yaml.Node, place: str, node: yaml.Node | None) -> PluginSpec | None:
        if not isinstance(plugin, yaml.MappingNode):
            return None
        if node is None:
            self._problem(plugin, place, f"has no name; allowed: {_listed(self._registry.plugin_names())}")
            return None
        written = self._text(node, f"{place}.name", "the name of a plugin")
        if written is None:
            return None
        spec = self._registry.plugin_named(written)
        if spec is None:
            names = self._registry.plugin_names()
            self._unknown(node, f"{place}.name", "plugin", written, names, VOLCANO_PLUGINS)
        return spec

    def _plugin_arguments(self, node: yaml.Node, place: str, spec: PluginSpec) -> dict[str, Value]:
        if spec.arguments is None:
            # It declares none: it reads and checks them itself.
            return {
                key: self._plain(value, f"{place}.{key}") for key, value in self._entries(node, place, None)
            }
        return self._arguments(node, place, spec.arguments)

    # -- configurations

    def _configurations(self, node: yaml.Node, action_arguments: dict[str, Mapping[str, Value]]) -> Settings:
        settings = Settings()
        names = (SETTINGS_ENTRY, *self._registry.actions)
        seen: dict[str, int] = {}
        for place, entry in self._items(node, "configurations"):
            entries = dict(self._entries(entry, place, _ENTRY_KEYS))
            if "name" not in entries:
                if isinstance(entry, yaml.MappingNode):
                    self._problem(entry, place, f"has no name; allowed: {_listed(names)}")
                continue
            name = self._text(entries["name"], f"{place}.name", "the name of a configuration")
            if name is None:
                continue
            if name not in names:
                self._unknown(entries["name"], f"{place}.name", "configuration", name, names, VOLCANO_ACTIONS)
                continue
            if name in seen:
                self._problem(
                    entries["name"],
                    f"{place}.name",
                    f"{name} is already defined in line {seen[name]}; allowed: once",
                )
                continue
            seen[name] = self._document.line_of(entries["name"])
            arguments = entries.get("arguments")
            if arguments is None:
                continue
            if name == SETTINGS_ENTRY:
                settings = self._settings(arguments, f"{place}.arguments")
            else:
                declared = self._registry.actions[name].arguments
                written = self._arguments(arguments, f"{place}.arguments", declared)
                action_arguments[name] = {**action_arguments[name], **written}
        return settings

    def _settings(self, node: yaml.Node, place: str) -> Settings:
        found_before = len(self._problems)
        values = self._arguments(node, place, tuple(SETTINGS.values()))
        if len(self._problems) > found_before:
            # Rules between settings are checked only where all of them can be read.
            return Settings()
        try:
            return settings_from(values)
        except InvalidArgument as error:
            # P1, the only rule between two settings; the error is shown at reserve-nodes.
            nodes = {str(key.value): value for key, value in node.value}
            self._problem(nodes["reserve-nodes"], f"{place}.reserve-nodes", str(error))
            return Settings()

    def _metrics(self, node: yaml.Node) -> None:
        """Where Volcano gets usage data from. Ringwise needs none; the entry is valid without an effect."""
        for key, value in self._entries(node, "metrics", None):
            self._text(value, f"metrics.{key}", "text", empty=True)

    # -- pieces

    def _arguments(self, node: yaml.Node, place: str, declared: Arguments) -> dict[str, Value]:
        words = [row.name for row in declared]
        values: dict[str, Value] = {}
        for key, value in self._entries(node, place, None):
            row = find_argument(declared, key)
            if row is None:
                allowed = _listed(words) if words else "no arguments"
                self._problem_at_key(
                    node,
                    key,
                    place,
                    f"unknown argument {quoted(key)}; allowed: {allowed}{did_you_mean(key, words)}",
                )
                continue
            read = self._read(value, f"{place}.{key}", row)
            if read is not None:
                values[key] = read
        return values

    def _read(self, node: yaml.Node, place: str, row: Argument[Any]) -> Value:
        text = self._text(node, place, row.allowed, empty=True)
        if text is None:
            return None
        try:
            value: Value = row.read(text)
            return value
        except InvalidArgument as error:
            self._problem(node, place, str(error))
            return None

    def _text(self, node: yaml.Node, place: str, allowed: str, empty: bool = False) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self._problem(node, place, f"is {noun(node)}; allowed: {allowed}")
            return None
        missing = node.tag == "tag:yaml.org,2002:null" if empty else not node.value.strip()
        if missing:
            self._problem(node, place, f"has no value; allowed: {allowed}")
            return None
        return str(node.value)

    def _items(self, node: yaml.Node, place: str) -> Iterator[tuple[str, yaml.Node]]:
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            what = "is empty" if isinstance(node, yaml.SequenceNode) else f"is {noun(node)}"
            self._problem(node, place, f"{what}; allowed: a list with at least one item")
            return
        for index, item in enumerate(node.value):
            yield f"{place}[{index}]", item

    def _entries(
        self, node: yaml.Node, place: str, allowed: Collection[str] | None, allowed_text: str = ""
    ) -> Iterator[tuple[str, yaml.Node]]:
        """The entries of a map. Each key may be used once, and must be in `allowed` unless that is None."""
        shown = allowed_text or ("names with values" if allowed is None else _listed(allowed))
        if not isinstance(node, yaml.MappingNode):
            self._problem(node, place, f"is {noun(node)}; allowed: a map of {shown}")
            return
        lines: dict[str, int] = {}
        for key_node, value in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._problem(key_node, place, f"a key is {noun(key_node)}; allowed: a name")
                continue
            key = str(key_node.value)
            if key in lines:
                self._problem(
                    key_node, place, f"{quoted(key)} is already defined in line {lines[key]}; allowed: once"
                )
                continue
            lines[key] = self._document.line_of(key_node)
            if allowed is not None and key not in allowed:
                self._problem(
                    key_node,
                    place,
                    f"unknown key {quoted(key)}; allowed: {shown}{did_you_mean(key, allowed)}",
                )
                continue
            yield key, value

    def _plain(self, node: yaml.Node, place: str) -> Value:
        try:
            return plain_value(node)
        except ValueError as error:
            self._problem(node, place, f"{error}; allowed: any value")
            return None

    def _unknown(
        self,
        node: yaml.Node,
        place: str,
        what: str,
        word: str,
        allowed: Iterable[str],
        in_volcano: Collection[str],
    ) -> None:
        words = tuple(allowed)
        problem = f"Ringwise has no {what}" if word in in_volcano else f"unknown {what}"
        self._problem(
            node, place, f"{problem} {quoted(word)}; allowed: {_listed(words)}{did_you_mean(word, words)}"
        )

    def _problem_at_key(self, node: yaml.Node, key: str, place: str, message: str) -> None:
        keys = {str(key_node.value): key_node for key_node, _ in node.value}
        self._problem(keys[key], place, message)

    def _problem(self, node: yaml.Node, place: str, message: str) -> None:
        line = self._document.line_of(node)
        self._problems.append(ConfigurationProblem(self._document.origin, line, place, message))
        if len(self._problems) >= MAX_PROBLEMS:
            raise _TooMany


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words)

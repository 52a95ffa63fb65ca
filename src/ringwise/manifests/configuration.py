"""Reads `volcano-scheduler.conf`: actions, tiers and settings, or everything that is wrong with them.

Nothing is skipped and nothing silently takes a default: one bad word is an error
with its line, what is allowed and the nearest valid word. All errors are found in
one reading.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import yaml

from ringwise.framework.configuration import (
    DEFAULT_ACTIONS,
    SETTINGS,
    SETTINGS_ENTRY,
    Configuration,
    Settings,
    Tier,
    default_tiers,
    settings_from,
)
from ringwise.framework.parameters import NotAllowed, Parameter, Value, did_you_mean, quoted, truth
from ringwise.framework.plugin_options import (
    ACTION_ARGUMENTS,
    ACTIONS,
    ARGUMENT_FAMILIES,
    ELSEWHERE_ACTIONS,
    ELSEWHERE_PLUGINS,
    NPU_PLUGIN_IN_THE_FIELD,
    PLUGIN_ARGUMENTS,
    PLUGINS,
    SWITCH_BY_KEY,
    PluginOption,
    argument_of,
    defaults,
    plugin_named,
)
from ringwise.manifests.configuration_text import (
    ConfigurationError,
    ConfigurationProblem,
    Document,
    noun,
    open_configuration,
    plain_value,
)

__all__ = ["ConfigurationError", "ConfigurationProblem", "read_configuration"]

#: Nobody reads more lines than this at once, and a hostile file could ask for any number.
MOST_PROBLEMS = 100

_SWITCH = truth("switch", True, "turns a function of a plugin on or off")
_TOP_KEYS = ("actions", "tiers", "configurations", "metrics")
_ENTRY_KEYS = ("name", "arguments")
#: A plugin's entry may hold any switch; naming all of them would hide the message.
_PLUGIN_KEYS_TEXT = "name, arguments, a switch such as enableNodeOrder"


def read_configuration(text: bytes | str, origin: str, extra_plugins: Iterable[str] = ()) -> Configuration:
    """The configuration in `text`, which came from `origin`.

    `extra_plugins` are the names of plugins that installed packages bring; their
    arguments are handed over unchecked. Raises `ConfigurationError`.
    """
    return _Reader(open_configuration(text, origin), frozenset(extra_plugins)).configuration()


class _TooMany(Exception):
    """Ends a reading that has found problems enough."""


class _Reader:
    """One reading of one document; collects problems and goes on."""

    def __init__(self, document: Document, extra_plugins: frozenset[str]) -> None:
        self._document = document
        self._extra_plugins = extra_plugins
        self._problems: list[ConfigurationProblem] = []

    def configuration(self) -> Configuration:
        actions: tuple[str, ...] = DEFAULT_ACTIONS
        tiers = default_tiers()
        settings = Settings()
        action_arguments: dict[str, Mapping[str, Value]] = {
            action: defaults(table.values()) for action, table in ACTION_ARGUMENTS.items()
        }
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
            # A problem found late may stand early in the file; equal lines keep the order they were found in.
            raise ConfigurationError(sorted(self._problems, key=lambda problem: problem.line or 0))
        return Configuration(actions, tiers, settings, action_arguments)

    # -- actions and tiers

    def _actions(self, node: yaml.Node) -> tuple[str, ...]:
        text = self._text(node, "actions", "action names with commas between them")
        if text is None:
            return ()
        names = tuple(name.strip() for name in text.split(","))
        for name in names:
            if name not in ACTIONS:
                self._unknown(node, "actions", "action", name, ACTIONS, ELSEWHERE_ACTIONS)
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
                            f"{option.name} stands in line {lines[option.name]} already; allowed: once",
                        )
                    lines.setdefault(option.name, line)
                    plugins.append(option)
            self._check_hierarchy(tier_node, place, plugins)
            tiers.append(Tier(tuple(plugins)))
        return tuple(tiers)

    def _check_hierarchy(self, node: yaml.Node, place: str, plugins: Collection[PluginOption]) -> None:
        names = {plugin.name for plugin in plugins}
        if "proportion" in names and any(
            plugin.name == "drf" and plugin.on("hierarchy") for plugin in plugins
        ):
            self._problem(
                node,
                place,
                "drf with enableHierarchy and proportion both order the queues; "
                "allowed: one of them in a tier",
            )

    def _plugin(self, node: yaml.Node, place: str) -> PluginOption | None:
        entries = dict(self._entries(node, place, (*_ENTRY_KEYS, *SWITCH_BY_KEY), _PLUGIN_KEYS_TEXT))
        name = self._plugin_name(node, place, entries.get("name"))
        switched: dict[str, bool] = {}
        for key, value in entries.items():
            switch = SWITCH_BY_KEY.get(key)
            if switch is None:
                continue
            on = self._read(value, f"{place}.{key}", _SWITCH)
            if not isinstance(on, bool):
                continue
            if switched.get(switch.name, on) is not on:
                self._problem(
                    value,
                    f"{place}.{key}",
                    f"contradicts {' or '.join(switch.spellings)}; allowed: one of the two",
                )
            switched[switch.name] = on
        arguments: dict[str, Value] = {}
        if "arguments" in entries and name is not None:
            arguments = self._plugin_arguments(entries["arguments"], f"{place}.arguments", name)
        return None if name is None else PluginOption.of(name, switched, arguments)

    def _plugin_name(self, plugin: yaml.Node, place: str, node: yaml.Node | None) -> str | None:
        if not isinstance(plugin, yaml.MappingNode):
            return None
        if node is None:
            self._problem(plugin, place, f"has no name; allowed: {_listed(self._plugin_names())}")
            return None
        written = self._text(node, f"{place}.name", "the name of a plugin")
        if written is None:
            return None
        name = plugin_named(written)
        if name in PLUGINS or name in self._extra_plugins:
            return name
        self._unknown(node, f"{place}.name", "plugin", written, self._plugin_names(), ELSEWHERE_PLUGINS)
        return None

    def _plugin_names(self) -> tuple[str, ...]:
        return (*PLUGINS, f"{NPU_PLUGIN_IN_THE_FIELD}*", *sorted(self._extra_plugins - PLUGINS.keys()))

    def _plugin_arguments(self, node: yaml.Node, place: str, plugin: str) -> dict[str, Value]:
        if plugin not in PLUGINS:
            # Its package knows what they mean.
            return {
                key: self._plain(value, f"{place}.{key}") for key, value in self._entries(node, place, None)
            }
        words = list(PLUGIN_ARGUMENTS.get(plugin, {}))
        if plugin in ARGUMENT_FAMILIES:
            family = ARGUMENT_FAMILIES[plugin]
            words.append(family.prefix + family.ending)
        return self._arguments(node, place, words, lambda name: argument_of(plugin, name))

    # -- configurations

    def _configurations(self, node: yaml.Node, action_arguments: dict[str, Mapping[str, Value]]) -> Settings:
        settings = Settings()
        names = (SETTINGS_ENTRY, *ACTIONS)
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
                self._unknown(
                    entries["name"], f"{place}.name", "configuration", name, names, ELSEWHERE_ACTIONS
                )
                continue
            if name in seen:
                self._problem(
                    entries["name"],
                    f"{place}.name",
                    f"{name} stands in line {seen[name]} already; allowed: once",
                )
                continue
            seen[name] = self._document.line_of(entries["name"])
            arguments = entries.get("arguments")
            if arguments is None:
                continue
            if name == SETTINGS_ENTRY:
                settings = self._settings(arguments, f"{place}.arguments")
            else:
                table = ACTION_ARGUMENTS[name]
                written = self._arguments(arguments, f"{place}.arguments", table, table.get)
                action_arguments[name] = {**action_arguments[name], **written}
        return settings

    def _settings(self, node: yaml.Node, place: str) -> Settings:
        found_before = len(self._problems)
        values = self._arguments(node, place, SETTINGS, SETTINGS.get)
        if len(self._problems) > found_before:
            # Rules between settings say nothing useful while one of them is unreadable.
            return Settings()
        try:
            return settings_from(values)
        except NotAllowed as error:
            # The only rule between two settings; it is shown where the smaller one stands.
            nodes = {str(key.value): value for key, value in node.value}
            self._problem(nodes["reserve-nodes"], f"{place}.reserve-nodes", str(error))
            return Settings()

    def _metrics(self, node: yaml.Node) -> None:
        """Where Volcano gets usage from. Ringwise needs none; the file stays valid."""
        for key, value in self._entries(node, "metrics", None):
            self._text(value, f"metrics.{key}", "text", empty=True)

    # -- pieces

    def _arguments(
        self,
        node: yaml.Node,
        place: str,
        words: Collection[str],
        row_of: Callable[[str], Parameter | None],
    ) -> dict[str, Value]:
        values: dict[str, Value] = {}
        for key, value in self._entries(node, place, None):
            row = row_of(key)
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

    def _read(self, node: yaml.Node, place: str, row: Parameter) -> Value:
        text = self._text(node, place, row.allowed, empty=True)
        if text is None:
            return None
        try:
            return row.read(text)
        except NotAllowed as error:
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
        """The entries of a map, each key once and, unless any key may stand there, known."""
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
                    key_node, place, f"{quoted(key)} stands in line {lines[key]} already; allowed: once"
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
        elsewhere: Collection[str],
    ) -> None:
        words = tuple(allowed)
        judged = f"Ringwise has no {what}" if word in elsewhere else f"unknown {what}"
        self._problem(
            node, place, f"{judged} {quoted(word)}; allowed: {_listed(words)}{did_you_mean(word, words)}"
        )

    def _problem_at_key(self, node: yaml.Node, key: str, place: str, message: str) -> None:
        keys = {str(key_node.value): key_node for key_node, _ in node.value}
        self._problem(keys[key], place, message)

    def _problem(self, node: yaml.Node, place: str, message: str) -> None:
        line = self._document.line_of(node)
        self._problems.append(ConfigurationProblem(self._document.origin, line, place, message))
        if len(self._problems) >= MOST_PROBLEMS:
            raise _TooMany


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words)

"""Reads `volcano-scheduler.conf`: actions, tiers and settings, or all errors in them (K).

Nothing is skipped and nothing silently takes a default: an invalid value is an error
with its line, what is allowed and the nearest valid word. All errors are reported at
once. Which plugins and actions exist, and their arguments, comes from the registry.

A plugin or an action of Volcano that Ringwise does not have is a warning where the cluster
works without it (`volcano_names`).
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
    find_argument,
    quoted,
)
from ringwise.framework.configuration import (
    FLAG_BY_KEY,
    SETTINGS,
    SETTINGS_ENTRY,
    Configuration,
    EnableFlag,
    PluginOption,
    Settings,
    Tier,
    settings_from,
)
from ringwise.framework.limits import takes_back
from ringwise.framework.registry import Arguments, PluginSpec, Registry
from ringwise.grammar import counted
from ringwise.manifests.objects.volcano_names import VOLCANO_ACTIONS, VOLCANO_PLUGINS, VolcanoName
from ringwise.manifests.settings.configuration_text import (
    DISCOVERY_KEY,
    MAX_PROBLEMS,
    CheckedLine,
    Document,
    OtherSettings,
    error_line,
    noun,
    open_configuration,
    other_settings,
    plain_value,
)
from ringwise.manifests.settings.discovery import check_discovery
from ringwise.manifests.settings.limits import read_limits
from ringwise.manifests.text.errors import ConfigurationError, ConfigurationProblem
from ringwise.records import dataclass
from ringwise.scheduler.defaults import DEFAULT_ACTIONS, default_tiers
from ringwise.state.limits import ANNOTATIONS, Limits, annotation_problems
from ringwise.topology.nearest import did_you_mean
from ringwise.wellknown import BURST_CHIPS, BURST_CHIPS_PER_USER, NETWORK_TOPOLOGY_AWARE

__all__ = [
    "CheckedLine",
    "ConfigurationCheck",
    "ConfigurationError",
    "ConfigurationProblem",
    "check_configuration",
    "read_configuration",
]

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


@dataclass(frozen=True, slots=True)
class ConfigurationCheck:
    """A configuration explained line by line."""

    origin: str
    lines: tuple[CheckedLine, ...]
    #: None where the file has errors, and where it has none.
    configuration: Configuration | None
    #: Whether the controller reads it, and not the scheduler.
    of_controller: bool = False

    @property
    def loads(self) -> bool:
        return not self.count("error")

    def count(self, verdict: str) -> int:
        return sum(1 for line in self.lines if line.verdict == verdict)


def check_configuration(text: bytes | str, origin: str, registry: Registry) -> ConfigurationCheck:
    """What each line of the file does here. Errors are lines, too; nothing is raised.

    Queues, the ConfigMap `ringwise-limits` and that of the controller are checked as well, alone or with a
    configuration.
    """
    others = other_settings(text, origin)
    configuration: Configuration | None = None
    lines: list[CheckedLine] = []
    if not others.alone:
        checked = _check_configuration(text, origin, registry)
        configuration, lines = checked.configuration, [*checked.lines]
    lines += check_limits(others, origin, None if configuration is None else configuration.actions)
    of_scheduler = any(line.verdict == "error" for line in lines) or not others.controllers
    lines += _check_controllers(others, origin, configuration)
    lines.sort(key=lambda line: line.line)
    return ConfigurationCheck(origin, tuple(lines), configuration, not of_scheduler)


def _check_controllers(
    others: OtherSettings, origin: str, configuration: Configuration | None
) -> Iterator[CheckedLine]:
    for text, first in others.controllers:
        makes = False
        for line in check_discovery(text, origin, first):
            makes = makes or line.verdict == "works"
            yield line
        if makes and configuration is not None and configuration.plugin(NETWORK_TOPOLOGY_AWARE) is None:
            effect = f"HyperNodes are made, and no plugin {NETWORK_TOPOLOGY_AWARE} places jobs by them"
            yield CheckedLine(first, DISCOVERY_KEY, "warning", effect)


def _check_configuration(text: bytes | str, origin: str, registry: Registry) -> ConfigurationCheck:
    try:
        reader = _Reader(open_configuration(text, origin), registry)
    except ConfigurationError as error:
        return ConfigurationCheck(origin, tuple(error_line(problem) for problem in error.errors), None)
    configuration: Configuration | None = None
    errors: list[CheckedLine] = []
    try:
        configuration = reader.configuration()
    except ConfigurationError as error:
        errors = [error_line(problem) for problem in error.errors]
    lines = sorted([*reader.lines, *errors], key=lambda line: line.line)
    return ConfigurationCheck(origin, tuple(lines), configuration)


def check_limits(
    others: OtherSettings, origin: str, actions: Collection[str] | None
) -> Iterator[CheckedLine]:
    """What the limits do. `actions`: those of the configuration, where it is known."""
    lends: list[tuple[int, str]] = []
    for text, first in others.limits:
        try:
            found = read_limits(text, origin, first)
        except ConfigurationError as error:
            yield from (error_line(problem) for problem in error.errors)
            continue
        for name, one in found.by_namespace.items():
            what = "each namespace without an entry" if name == "*" else f"namespace {name}"
            yield CheckedLine(first, f"limits of {what}", "works", _limits_text(one))
            if one.burst:
                lends.append((first, what))
    for queue in others.queues:
        wrong = dict(annotation_problems({key: text for key, (text, _) in queue.annotations.items()}))
        for key, (text, line) in queue.annotations.items():
            if key in wrong:
                yield CheckedLine(line, f"queue {queue.name}", "error", wrong[key])
            elif key in queue.no_text:
                effect = f"annotation {key} must be text, got {text}; put it in quotes"
                yield CheckedLine(line, f"queue {queue.name}", "error", effect)
            elif key in ANNOTATIONS:
                yield CheckedLine(line, f"queue {queue.name}", "works", f"{key}: {text}")
                if key in (BURST_CHIPS, BURST_CHIPS_PER_USER) and text != "0":
                    lends.append((line, f"queue {queue.name}"))
    for line, what in lends:
        if actions is None:
            effect = "a burst needs the action reclaim: check this together with the configuration"
            yield CheckedLine(line, f"burst of {what}", "warning", effect)
        elif not takes_back(actions):
            effect = "nothing is lent: the actions have no reclaim, which would take it back"
            yield CheckedLine(line, f"burst of {what}", "warning", effect)


def _limits_text(limits: Limits) -> str:
    parts = [
        counted(limits.chips, "chip") + (f" and a burst of {limits.burst}" if limits.burst else "")
        if limits.chips is not None
        else "",
        counted(limits.running, "running job") if limits.running is not None else "",
        counted(limits.waiting, "waiting job") if limits.waiting is not None else "",
    ]
    return "at most " + ", ".join(part for part in parts if part) if any(parts) else "no limits"


class _TooMany(Exception):
    """Ends a reading after `MAX_PROBLEMS` errors."""


class _Reader:
    """One reading of one document; collects errors and goes on."""

    def __init__(self, document: Document, registry: Registry) -> None:
        self._document = document
        self._registry = registry
        self._problems: list[ConfigurationProblem] = []
        self._warnings: list[ConfigurationProblem] = []
        #: What was understood, in the order in which it was read.
        self.lines: list[CheckedLine] = []

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
        warnings = sorted(self._warnings, key=lambda problem: problem.line or 0)
        return Configuration(
            actions, tiers, settings, action_arguments, tuple(str(warning) for warning in warnings)
        )

    # -- actions and tiers

    def _actions(self, node: yaml.Node) -> tuple[str, ...]:
        text = self._text(node, "actions", "action names with commas between them")
        if text is None:
            return ()
        found: list[str] = []
        for name in (name.strip() for name in text.split(",")):
            spec = self._registry.actions.get(name)
            there = VOLCANO_ACTIONS.get(name)
            if spec is not None:
                self._line(node, f"action {name}", "works", spec.summary)
                found.append(name)
            elif there is not None:
                self._named_elsewhere(node, "actions", f"action {name}", there)
            else:
                self._unknown(node, "actions", "action", name, self._registry.actions)
        if not found and not self._problems:
            self._problem(
                node, "actions", f"names no action that runs; allowed: {_listed(self._registry.actions)}"
            )
        return tuple(found)

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
        specs = self._registry.plugins
        if tiers and not any(specs[option.name].gives_chips for tier in tiers for option in tier.plugins):
            givers = [spec.name for spec in specs.values() if spec.gives_chips]
            self._warn(node, "tiers", f"no pod gets chips: add the plugin {' or '.join(givers)}")
        return tuple(tiers)

    def _check_tier(self, node: yaml.Node, place: str, plugins: Sequence[PluginOption]) -> None:
        for option in plugins:
            check = self._registry.plugins[option.name].check_tier
            conflict = check(option, plugins) if check is not None else None
            if conflict is not None:
                self._problem(node, place, conflict)

    def _plugin(self, node: yaml.Node, place: str) -> PluginOption | None:
        entries = dict(self._entries(node, place, (*_ENTRY_KEYS, *FLAG_BY_KEY), _PLUGIN_KEYS_TEXT))
        if self._is_elsewhere(place, entries):
            return None
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
            verdict = "works" if flag.has_effect else "no effect"
            self._line(value, f"{key}: {str(on).lower()}", verdict, _flag_effect(flag, on))
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
            self._unknown(node, f"{place}.name", "plugin", written, names)
        else:
            self._line(node, f"plugin {written}", "works", spec.summary)
        return spec

    def _is_elsewhere(self, place: str, entries: Mapping[str, yaml.Node]) -> bool:
        """Whether the entry is a plugin of Volcano that Ringwise does without; an installed one wins."""
        node = entries.get("name")
        written = str(node.value) if isinstance(node, yaml.ScalarNode) else ""
        there = VOLCANO_PLUGINS.get(written)
        if node is None or there is None or self._registry.plugin_named(written) is not None:
            return False
        arguments: dict[str, Value] = {}
        if "arguments" in entries:
            where = f"{place}.arguments"
            for key, value in self._entries(entries["arguments"], where, None):
                arguments[key] = self._plain(value, f"{where}.{key}")
        broken = there.breaks(arguments)
        if broken:
            self._problem(node, f"{place}.name", f"Ringwise has no plugin {quoted(written)}: {broken}")
        else:
            self._named_elsewhere(node, f"{place}.name", f"plugin {written}", there)
        return True

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
                there = VOLCANO_ACTIONS.get(name)
                if there is not None:
                    self._named_elsewhere(entries["name"], f"{place}.name", f"configuration {name}", there)
                else:
                    self._unknown(entries["name"], f"{place}.name", "configuration", name, names)
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
            self._line(entries["name"], f"configuration {name}", "works", "the settings below it")
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
            self._line(value, f"metrics {key}", "no effect", "no plugin needs measured load")

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
                verdict = "works" if row.has_effect else "no effect"
                self._line(value, f"{key}: {_shown(value)}", verdict, row.meaning)
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
    ) -> None:
        words = tuple(allowed)
        self._problem(
            node,
            place,
            f"unknown {what} {quoted(word)}; allowed: {_listed(words)}{did_you_mean(word, words)}",
        )

    def _named_elsewhere(self, node: yaml.Node, place: str, what: str, there: VolcanoName) -> None:
        self._warn(node, place, f"Ringwise has no {what}: {there.note}", what)

    def _warn(self, node: yaml.Node, place: str, message: str, what: str = "") -> None:
        line = self._document.line_of(node)
        if len(self._warnings) < MAX_PROBLEMS:
            self._warnings.append(ConfigurationProblem(self._document.origin, line, place, message))
            self._line(node, what or place, "warning", message)

    def _line(self, node: yaml.Node, what: str, verdict: str, effect: str) -> None:
        self.lines.append(CheckedLine(self._document.line_of(node), what, verdict, effect))

    def _problem_at_key(self, node: yaml.Node, key: str, place: str, message: str) -> None:
        keys = {str(key_node.value): key_node for key_node, _ in node.value}
        self._problem(keys[key], place, message)

    def _problem(self, node: yaml.Node, place: str, message: str) -> None:
        line = self._document.line_of(node)
        self._problems.append(ConfigurationProblem(self._document.origin, line, place, message))
        if len(self._problems) >= MAX_PROBLEMS:
            raise _TooMany


def _flag_effect(flag: EnableFlag, on: bool) -> str:
    if not flag.has_effect:
        return "nothing here depends on it"
    return f"{'takes' if on else 'does not take'} part in: {flag.meaning}"


def _shown(node: yaml.Node) -> str:
    text = str(node.value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words)

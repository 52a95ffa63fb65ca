"""Reads `volcano-scheduler.conf`: actions, tiers and settings, or all errors in them (K).

Nothing is skipped and nothing silently takes a default: an invalid value is an error
with its line, what is allowed and the nearest valid word. All errors are reported at
once. Which plugins and actions exist, and their arguments, comes from the registry.

A plugin or an action of Volcano that Ringwise does not have is a warning where the cluster
works without it (`volcano_names`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec

from ringwise.framework.arguments import Argument, InvalidArgument, Value, boolean, find_argument
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
from ringwise.framework.registry import Arguments, Registry
from ringwise.manifests.objects.volcano_names import VOLCANO_ACTIONS, VOLCANO_PLUGINS, VolcanoName
from ringwise.manifests.settings.configuration_text import (
    DISCOVERY_KEY,
    CheckedLine,
    SettingsFile,
    SettingsReader,
    error_line,
    find_settings,
    mapping,
)
from ringwise.manifests.settings.discovery import check_discovery
from ringwise.manifests.text.checking import check_word, checked, keyed, no_hook
from ringwise.manifests.text.errors import DocumentError
from ringwise.manifests.text.yaml_stream import YamlFile
from ringwise.records import dataclass
from ringwise.scheduler.defaults import DEFAULT_ACTIONS, default_tiers
from ringwise.topology.nearest import did_you_mean
from ringwise.wellknown import NETWORK_TOPOLOGY_AWARE

_FLAG = boolean("flag", True, "turns a function of a plugin on or off")
_ENTRY_KEYS = ("name", "arguments")
#: A plugin's entry may have any flag; listing all of them would hide the message.
_PLUGIN_KEYS_TEXT = "name, arguments, a flag such as enableNodeOrder"


class _Part(msgspec.Struct, forbid_unknown_fields=True):
    pass


class _Tier(_Part):
    plugins: Annotated[list[dict[str, Any]], msgspec.Meta(min_length=1)] = []


class _Entry(_Part):
    name: Any = None
    arguments: Any = None


class _File(_Part):
    #: Their names, separated by commas.
    actions: Any = None
    tiers: Annotated[list[_Tier], msgspec.Meta(min_length=1)] = []
    #: Of the settings and of actions.
    configurations: Annotated[list[_Entry], msgspec.Meta(min_length=1)] = []
    #: Where Volcano gets usage data from. Ringwise needs none.
    metrics: dict[str, Any] = {}


def read_configuration(text: bytes | str, origin: str, registry: Registry) -> Configuration:
    """The configuration in `text`, which came from `origin`. Raises `DocumentError`.

    `registry` has the plugins and actions the file may name, with the arguments they take.
    """
    return _Reader(find_settings(text, origin).scheduler(), registry).configuration()


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
    def valid(self) -> bool:
        return not self.count("error")

    def count(self, result: str) -> int:
        return sum(1 for line in self.lines if line.result == result)


def check_configuration(text: bytes | str, origin: str, registry: Registry) -> ConfigurationCheck:
    """What each line of the file does here. Errors are lines, too; nothing is raised.

    The ConfigMap of the controller is checked as well, alone or with a configuration.
    """
    try:
        file = find_settings(text, origin)
    except DocumentError as error:
        return ConfigurationCheck(origin, tuple(map(error_line, error.errors)), None)
    configuration: Configuration | None = None
    lines: list[CheckedLine] = []
    if not file.without_scheduler:
        configuration, lines = _check_scheduler(file, registry)
    of_scheduler = any(line.result == "error" for line in lines) or not file.controllers
    lines += _check_controllers(file, configuration)
    lines.sort(key=lambda line: line.line)
    return ConfigurationCheck(origin, tuple(lines), configuration, not of_scheduler)


def _check_controllers(file: SettingsFile, configuration: Configuration | None) -> Iterator[CheckedLine]:
    for one in file.controllers:
        makes = False
        for line in check_discovery(one.text, one.origin, one.first_line):
            makes = makes or line.result == "works"
            yield line
        if makes and configuration is not None and configuration.plugin(NETWORK_TOPOLOGY_AWARE) is None:
            effect = f"HyperNodes are made, and no plugin {NETWORK_TOPOLOGY_AWARE} places jobs by them"
            yield CheckedLine(one.line, DISCOVERY_KEY, "warning", effect)


def _check_scheduler(
    file: SettingsFile, registry: Registry
) -> tuple[Configuration | None, list[CheckedLine]]:
    lines: list[CheckedLine] = []
    try:
        reader = _Reader(file.scheduler(), registry)
        lines = reader.lines
        return reader.configuration(), lines
    except DocumentError as error:
        return None, [*lines, *map(error_line, error.errors)]


class _Reader(SettingsReader):
    def __init__(self, file: YamlFile, registry: Registry) -> None:
        super().__init__(file)
        self._registry = registry

    def configuration(self) -> Configuration:
        top = mapping(self._file.value)
        checked(top, _File, "", self._issues, no_hook)
        for key in ("tiers", "configurations", "metrics"):
            if key in top and top[key] is None:
                self._issues.add_error(key, "Required value: must not be empty")
        action_arguments = self._registry.action_defaults()
        actions = self._actions(top) if "actions" in top else DEFAULT_ACTIONS
        tiers = self._tiers(_items(top, "tiers")) if "tiers" in top else default_tiers()
        settings = self._configurations(_items(top, "configurations"), action_arguments)
        metrics = mapping(top.get("metrics"))
        for key in metrics:
            place = keyed("metrics", key)
            if self._text(metrics, key, place, "a string") is not None:
                self._line(place, f"metrics {key}", "no effect", "no plugin needs measured load")
        self._issues.raise_errors()
        return Configuration(actions, tiers, settings, action_arguments, self.warnings)

    # -- actions and tiers

    def _actions(self, top: dict[str, Any]) -> tuple[str, ...]:
        text = self._text(top, "actions", "actions", "comma-separated action names")
        if text is None:
            return ()
        actions: list[str] = []
        for name in (name.strip() for name in text.split(",")):
            spec = self._registry.actions.get(name)
            there = VOLCANO_ACTIONS.get(name)
            if spec is not None:
                self._line("actions", f"action {name}", "works", spec.summary)
                actions.append(name)
            elif there is not None:
                self._named_elsewhere("actions", f"action {name}", there)
            else:
                check_word("actions", name, self._registry.actions, self._issues)
        if not actions and not self._issues.errors:
            runs = f"must name at least one action that runs: {', '.join(self._registry.actions)}"
            self._issues.invalid("actions", text, runs)
        return tuple(actions)

    def _tiers(self, written: list[Any]) -> tuple[Tier, ...]:
        tiers: list[Tier] = []
        lines: dict[str, int] = {}
        for position, tier in enumerate(written):
            place = f"tiers[{position}]"
            plugins: list[PluginOption] = []
            for at, plugin in enumerate(_items(mapping(tier), "plugins")):
                within = f"{place}.plugins[{at}]"
                option = self._plugin(plugin, within) if isinstance(plugin, dict) else None
                if option is None:
                    continue
                if option.name in lines:
                    self._duplicate(f"{within}.name", option.name, lines[option.name])
                lines.setdefault(option.name, self._file.line_of(within))
                plugins.append(option)
            for option in plugins:
                check = self._registry.plugins[option.name].check_tier
                conflict = check(option, plugins) if check is not None else None
                if conflict is not None:
                    self._issues.add_error(place, conflict)
            tiers.append(Tier(tuple(plugins)))
        specs = self._registry.plugins
        if tiers and not any(specs[option.name].gives_chips for tier in tiers for option in tier.plugins):
            givers = [spec.name for spec in specs.values() if spec.gives_chips]
            self._warn("tiers", f"no pod gets chips: add the plugin {' or '.join(givers)}")
        return tuple(tiers)

    def _plugin(self, plugin: dict[str, Any], place: str) -> PluginOption | None:
        written = self._text(plugin, "name", f"{place}.name", "the name of a plugin")
        spec = self._registry.plugin_named(written) if written is not None else None
        if written is not None and spec is None:
            if written in VOLCANO_PLUGINS:
                self._check_elsewhere(plugin, place, written)
                return None
            check_word(f"{place}.name", written, self._registry.plugin_names(), self._issues)
        elif spec is not None:
            self._line(f"{place}.name", f"plugin {written}", "works", spec.summary)
        flags = self._flags(plugin, place)
        if spec is None:
            return None
        if spec.arguments is not None:
            return spec.option(flags, self._arguments(plugin, place, spec.arguments))
        # It declares none: it reads and checks them itself.
        return spec.option(flags, self._undeclared(plugin, place))

    def _flags(self, plugin: dict[str, Any], place: str) -> dict[str, bool]:
        flags: dict[str, bool] = {}
        for key in plugin:
            field = keyed(place, key)
            flag = FLAG_BY_KEY.get(key)
            if flag is None:
                if key not in _ENTRY_KEYS:
                    near = did_you_mean(key, (*_ENTRY_KEYS, *FLAG_BY_KEY))
                    self._issues.add_error(field, f"unknown field; allowed: {_PLUGIN_KEYS_TEXT}{near}")
                continue
            on = self._read(plugin, key, field, _FLAG)
            if not isinstance(on, bool):
                continue
            if flags.get(flag.name, on) is not on:
                self._issues.add_error(
                    field, f"contradicts {' or '.join(flag.spellings)}; must be set only once"
                )
            flags[flag.name] = on
            verdict = "works" if flag.has_effect else "no effect"
            self._line(field, f"{key}: {str(on).lower()}", verdict, _flag_effect(flag, on))
        return flags

    def _check_elsewhere(self, plugin: dict[str, Any], place: str, name: str) -> None:
        """A plugin of Volcano that Ringwise does without, unless its arguments ask for what it does."""
        there = VOLCANO_PLUGINS[name]
        broken = there.breaks(self._undeclared(plugin, place))
        if broken:
            self._issues.add_error(f"{place}.name", f"Ringwise has no plugin {name}: {broken}")
        else:
            self._named_elsewhere(f"{place}.name", f"plugin {name}", there)

    # -- configurations

    def _configurations(
        self, written: list[Any], action_arguments: dict[str, Mapping[str, Value]]
    ) -> Settings:
        settings = Settings()
        names = (SETTINGS_ENTRY, *self._registry.actions)
        seen: dict[str, int] = {}
        for position, entry in enumerate(written):
            place = f"configurations[{position}]"
            if not isinstance(entry, dict):
                continue
            name = self._text(entry, "name", f"{place}.name", f"one of {', '.join(names)}")
            if name is None:
                continue
            if name not in names:
                there = VOLCANO_ACTIONS.get(name)
                if there is not None:
                    self._named_elsewhere(f"{place}.name", f"configuration {name}", there)
                else:
                    check_word(f"{place}.name", name, names, self._issues)
                continue
            if name in seen:
                self._duplicate(f"{place}.name", name, seen[name])
                continue
            seen[name] = self._file.line_of(f"{place}.name")
            if "arguments" not in entry:
                continue
            self._line(f"{place}.name", f"configuration {name}", "works", "the settings below it")
            if name == SETTINGS_ENTRY:
                settings = self._settings(entry, place)
            else:
                arguments = self._arguments(entry, place, self._registry.actions[name].arguments)
                action_arguments[name] = {**action_arguments[name], **arguments}
        return settings

    def _settings(self, entry: dict[str, Any], place: str) -> Settings:
        errors_before = len(self._issues.errors)
        values = self._arguments(entry, place, tuple(SETTINGS.values()))
        if len(self._issues.errors) > errors_before:
            # Rules between settings are checked only where all of them can be read.
            return Settings()
        try:
            return settings_from(values)
        except InvalidArgument as error:
            # P1, the only rule between two settings; the error is shown at reserve-nodes.
            self._issues.add_error(f"{place}.arguments.reserve-nodes", str(error))
            return Settings()

    # -- pieces

    def _arguments(self, entry: dict[str, Any], place: str, declared: Arguments) -> dict[str, Value]:
        words = [row.name for row in declared]
        values: dict[str, Value] = {}
        arguments = self._entry_arguments(entry, place)
        for key in arguments:
            field = keyed(f"{place}.arguments", key)
            row = find_argument(declared, key)
            if row is None:
                allowed = ", ".join(words) or "no arguments"
                self._issues.add_error(
                    field, f"unknown argument; allowed: {allowed}{did_you_mean(key, words)}"
                )
                continue
            read = self._read(arguments, key, field, row)
            if read is not None:
                values[key] = read
                verdict = "works" if row.has_effect else "no effect"
                text = self._file.written(arguments, key) or ""
                short = text if len(text) <= 40 else f"{text[:37]}..."
                self._line(field, f"{key}: {short}", verdict, row.meaning)
        return values

    def _undeclared(self, entry: dict[str, Any], place: str) -> dict[str, Value]:
        return {key: _plain(value) for key, value in self._entry_arguments(entry, place).items()}

    def _entry_arguments(self, entry: dict[str, Any], place: str) -> dict[str, Any]:
        arguments = entry.get("arguments", {})
        if not isinstance(arguments, dict):
            self._issues.invalid(f"{place}.arguments", arguments, "must be an object of names and values")
        return mapping(arguments)

    def _read(self, within: dict[str, Any], key: str, field: str, row: Argument[Any]) -> Value:
        text = self._text(within, key, field, row.allowed, empty=True)
        if text is None:
            return None
        try:
            value: Value = row.read(text)
            return value
        except InvalidArgument as error:
            self._issues.add_error(field, str(error))
            return None

    def _text(
        self, within: dict[str, Any], key: str, field: str, allowed: str, empty: bool = False
    ) -> str | None:
        """The scalar as it is written: arguments are read from text, with and without quotes."""
        text = self._file.written(within, key)
        if isinstance(within.get(key), (dict, list)):
            self._issues.invalid(field, within[key], f"must be {allowed}")
        elif text is None or not (empty or text.strip()):
            self._issues.add_error(field, f"Required value: must be {allowed}")
        else:
            return text
        return None

    def _duplicate(self, field: str, name: str, line: int) -> None:
        self._issues.add_error(field, f"{name} is already defined in line {line}; must be unique")

    def _named_elsewhere(self, place: str, what: str, there: VolcanoName) -> None:
        self._warn(place, f"Ringwise has no {what}: {there.note}", what)


def _items(within: dict[str, Any], key: str) -> list[Any]:
    items = within.get(key)
    return items if isinstance(items, list) else []


def _plain(value: Any) -> Value:
    """A value for arguments that their plugin does not declare: it is no longer changed."""
    if isinstance(value, list):
        return tuple(map(_plain, value))
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    plain: Value = value
    return plain


def _flag_effect(flag: EnableFlag, on: bool) -> str:
    if not flag.has_effect:
        return "nothing here depends on it"
    return f"{'takes' if on else 'does not take'} part in: {flag.meaning}"

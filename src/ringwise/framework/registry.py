"""Which plugins and actions exist, and what each declares about itself.

A plugin or an action is one value: its name, what it is for, its arguments, and how it is
built or run. The reader of the configuration checks by it, the reference page is printed
from it, and the plugins of installed packages are declared in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from ringwise.framework.arguments import Argument, ArgumentFamily, Value, boolean, defaults, find_argument
from ringwise.framework.configuration import Configuration, PluginOption
from ringwise.framework.session import Incident, Plugin, Session
from ringwise.records import dataclass

#: The arguments a plugin or an action declares.
Arguments = tuple[Argument[Any] | ArgumentFamily[Any], ...]


PluginBuilder = Callable[[PluginOption], Plugin]
#: What is wrong with the options of a plugin beside the others of its tier; None when nothing is.
TierCheck = Callable[[PluginOption, Sequence[PluginOption]], str | None]


@dataclass(frozen=True, slots=True)
class PluginSpec:
    """A plugin as it declares itself."""

    name: str
    #: What it is for, in a few words.
    summary: str
    build: PluginBuilder
    #: None: the plugin declares none, and they are passed on unchecked.
    arguments: Arguments | None = ()
    #: Every name that begins so means this plugin.
    alias_prefix: str = ""
    check_tier: TierCheck | None = None
    #: Pods get chips through it: without such a plugin no pod with chips is placed.
    gives_chips: bool = False

    def argument(self, name: str) -> Argument[Any] | None:
        """The declared argument with this name."""
        return find_argument(self.arguments or (), name)

    def option(
        self, flags: Mapping[str, bool] | None = None, arguments: Mapping[str, Value] | None = None
    ) -> PluginOption:
        """Its entry in the configuration; flags and arguments that are not given have their defaults."""
        return PluginOption.of(self.name, flags, {**defaults(self.arguments or ()), **(arguments or {})})


class ActionFunction(Protocol):
    """One step of a cycle."""

    def __call__(self, session: Session, /) -> None: ...


#: Volcano's argument of every action that places pods.
PREDICATE_ERROR_CACHE = boolean(
    "predicateErrorCacheEnable", True, "rejections are always cached per class of pods", has_effect=False
)


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """An action as it declares itself."""

    name: str
    #: What it does, in a few words.
    summary: str
    run: ActionFunction
    arguments: Arguments = ()


class Registry:
    """All plugins and actions by name, in the order of the reference page."""

    def __init__(self, plugins: Iterable[PluginSpec] = (), actions: Iterable[ActionSpec] = ()) -> None:
        self.plugins: Mapping[str, PluginSpec] = _by_name("plugin", plugins)
        self.actions: Mapping[str, ActionSpec] = _by_name("action", actions)

    def with_specs(self, more: Iterable[PluginSpec | ActionSpec]) -> Registry:
        """The same registry with more plugins and actions. Raises ValueError when a name is taken."""
        specs = list(more)
        plugins = [spec for spec in specs if isinstance(spec, PluginSpec)]
        actions = [spec for spec in specs if isinstance(spec, ActionSpec)]
        return Registry((*self.plugins.values(), *plugins), (*self.actions.values(), *actions))

    def plugin_named(self, written: str) -> PluginSpec | None:
        """The plugin that a name in the configuration means."""
        result = self.plugins.get(written)
        if result is not None:
            return result
        for spec in self.plugins.values():
            if spec.alias_prefix and written.startswith(spec.alias_prefix):
                return spec
        return None

    def plugin_names(self) -> tuple[str, ...]:
        """Every name that the configuration may use; an alias prefix as `prefix*`."""
        aliases = (f"{spec.alias_prefix}*" for spec in self.plugins.values() if spec.alias_prefix)
        return (*self.plugins, *aliases)

    def action_defaults(self) -> dict[str, Mapping[str, Value]]:
        """The default arguments of every action."""
        return {name: defaults(spec.arguments) for name, spec in self.actions.items()}

    def missing_chip_plugins(self, configuration: Configuration) -> tuple[str, ...]:
        """The plugins that could give chips, where the configuration has none of them."""
        written = (self.plugin_named(option.name) for tier in configuration.tiers for option in tier.plugins)
        if any(spec is not None and spec.gives_chips for spec in written):
            # The usual case: all names, with those of installed packages, are not read.
            return ()
        return tuple(name for name, spec in self.plugins.items() if spec.gives_chips)

    def open_plugins(self, session: Session) -> Session:
        """Open the plugins of the session's configuration, tier by tier; returns the session."""
        session.missing_chip_plugins = self.missing_chip_plugins(session.configuration)
        for tier in session.configuration.tiers:
            session.begin_tier()
            for option in tier.plugins:
                spec = self.plugins.get(option.name)
                if spec is None:
                    session.incidents.append(Incident(f"plugin {option.name}", "", "no such plugin"))
                else:
                    session.open_plugin(option, spec.build)
        return session


def _by_name(kind: str, specs: Iterable[Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for spec in specs:
        if spec.name in result:
            raise ValueError(f"{kind} name is already taken: {spec.name}")
        result[spec.name] = spec
    return result

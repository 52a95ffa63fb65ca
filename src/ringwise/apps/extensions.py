"""Plugins of installed packages: a package offers them, the configuration names them.

A package declares an entry point in the group `ringwise.plugins`. Its name is the plugin's
name in `volcano-scheduler.conf`, its object is the plugin's `PluginSpec`. A callable without
a declaration is accepted as well: it takes the plugin's entry of the configuration, with
arguments that are not checked, and returns an object with `open(session)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from ringwise.framework.configuration import Configuration
from ringwise.framework.registry import PluginSpec, Registry
from ringwise.manifests.configuration import read_configuration
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.defaults import BUILT_IN
from ringwise.topology.boards import BoardCatalog
from ringwise.wellknown import PLUGIN_ENTRY_POINTS, SCHEDULER_NAMES


def load_plugins(found: Iterable[EntryPoint]) -> tuple[list[PluginSpec], list[str]]:
    """The plugins that could be loaded, and one line for each that could not."""
    plugins: dict[str, PluginSpec] = {}
    problems: list[str] = []
    for entry in sorted(found, key=lambda entry: entry.name):
        if BUILT_IN.plugin_named(entry.name) is not None or entry.name in plugins:
            problems.append(f"plugin {entry.name} of {entry.value}: the name is already taken")
            continue
        try:
            plugins[entry.name] = _spec_of(entry)
        except Exception as error:
            problems.append(f"plugin {entry.name} of {entry.value}: {type(error).__name__}: {error}")
    return list(plugins.values()), problems


def _spec_of(entry: EntryPoint) -> PluginSpec:
    loaded = entry.load()
    if not isinstance(loaded, PluginSpec):
        if not callable(loaded):
            raise TypeError("is neither a PluginSpec nor a callable")
        return PluginSpec(entry.name, "", loaded, arguments=None)
    if loaded.name != entry.name:
        raise ValueError(f"declares the name {loaded.name}; the entry point must have the same name")
    return loaded


def read_user_configuration(text: bytes | str, origin: str) -> Configuration:
    """A configuration that may name the plugins of installed packages."""
    registry, _ = installed_registry()
    return read_configuration(text, origin, registry)


def new_scheduler(
    configuration: Configuration | None = None,
    catalog: BoardCatalog | None = None,
    scheduler_names: Iterable[str] = SCHEDULER_NAMES,
) -> Scheduler:
    """A scheduler that knows the plugins of installed packages."""
    registry, _ = installed_registry()
    return Scheduler(configuration, catalog=catalog, registry=registry, scheduler_names=scheduler_names)


@cache
def installed_registry() -> tuple[Registry, tuple[str, ...]]:
    """Our own plugins and those of installed packages; what is wrong with the latter, line by line."""
    plugins, problems = load_plugins(entry_points(group=PLUGIN_ENTRY_POINTS))
    return BUILT_IN.with_plugins(plugins), tuple(problems)

"""Plugins of installed packages: a package offers them, the configuration names them.

A package declares an entry point in the group `ringwise.plugins`; its name is the
plugin's name in `volcano-scheduler.conf`, its object takes the plugin's entry of the
configuration and answers with something that has `open(session)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from ringwise.actions import ACTIONS
from ringwise.framework.configuration import Configuration
from ringwise.framework.registry import PluginBuilder, Registry
from ringwise.manifests.configuration import read_configuration
from ringwise.plugins import PLUGINS
from ringwise.scheduler.core.machine import Scheduler
from ringwise.topology.boards import BoardCatalog
from ringwise.wellknown import PLUGIN_ENTRY_POINTS, SCHEDULER_NAMES

#: Our own plugins and actions.
BUILT_IN = Registry(PLUGINS, ACTIONS)


def load_plugins(found: Iterable[EntryPoint]) -> tuple[dict[str, PluginBuilder], list[str]]:
    """The plugins that could be loaded, and one line for each that could not."""
    plugins: dict[str, PluginBuilder] = {}
    problems: list[str] = []
    for entry in sorted(found, key=lambda entry: entry.name):
        if entry.name in BUILT_IN.plugins or entry.name in plugins:
            problems.append(f"plugin {entry.name} of {entry.value}: the name is taken already")
            continue
        try:
            plugins[entry.name] = entry.load()
        except Exception as error:
            problems.append(f"plugin {entry.name} of {entry.value}: {type(error).__name__}: {error}")
    return plugins, problems


def read_user_configuration(text: bytes | str, origin: str) -> Configuration:
    """A configuration that may name the plugins of installed packages."""
    registry, _ = installed_registry()
    return read_configuration(text, origin, extra_plugins=sorted(set(registry.plugins) - set(PLUGINS)))


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

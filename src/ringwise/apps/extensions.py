"""Plugins and actions of installed packages: a package offers them, the configuration names them.

A package declares an entry point in the group `ringwise.plugins`. Its name is the name in
`volcano-scheduler.conf`, its object is the `PluginSpec` or `ActionSpec`. A callable without a
declaration is accepted as a plugin: it takes the plugin's entry of the configuration, with
arguments that are not checked, and returns an object with `open(session)`.

Every scheduler of every command is made here, so none is without them.
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ringwise.framework.configuration import Configuration
from ringwise.framework.registry import ActionSpec, PluginSpec, Registry
from ringwise.framework.session import Incident
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.manifests.text.errors import DocumentError, ManifestError
from ringwise.manifests.text.name_expressions import NameExpressions
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.defaults import BUILT_IN
from ringwise.topology.boards import BoardCatalog
from ringwise.wellknown import PLUGIN_ENTRY_POINTS, SCHEDULER_NAMES

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from ringwise.manifests.settings.configuration import ConfigurationCheck

Spec = TypeVar("Spec", PluginSpec, ActionSpec)
#: Incidents of the newest schedulers of this process: a command tells what went wrong with their plugins.
_INCIDENTS: deque[Sequence[Incident]] = deque(maxlen=8)


def load_specs(points: Iterable[EntryPoint]) -> tuple[list[PluginSpec | ActionSpec], list[str]]:
    """The plugins and actions that could be loaded, and one line for each entry point that could not."""
    specs: list[PluginSpec | ActionSpec] = []
    problems: list[str] = []
    taken: set[tuple[type, str]] = set()
    for entry in sorted(points, key=lambda entry: entry.name):
        try:
            spec = _spec_of(entry)
            if (type(spec), spec.name) in taken or _is_built_in(spec):
                raise ValueError("the name is already taken")
        except Exception as error:
            problems.append(f"entry point {entry.name} = {entry.value}: {type(error).__name__}: {error}")
        else:
            taken.add((type(spec), spec.name))
            specs.append(spec)
    return specs, problems


def _spec_of(entry: EntryPoint) -> PluginSpec | ActionSpec:
    loaded = entry.load()
    if not isinstance(loaded, (PluginSpec, ActionSpec)):
        if not callable(loaded):
            raise TypeError("is neither a PluginSpec nor an ActionSpec nor a callable")
        return PluginSpec(entry.name, "", loaded, arguments=None)
    if loaded.name != entry.name:
        raise ValueError(f"declares the name {loaded.name}; the entry point must have the same name")
    return loaded


def _is_built_in(spec: PluginSpec | ActionSpec) -> bool:
    if isinstance(spec, PluginSpec):
        return BUILT_IN.plugin_named(spec.name) is not None
    return spec.name in BUILT_IN.actions


def check_user_configuration(text: bytes | str, origin: str) -> ConfigurationCheck:
    """What each line of a configuration does with the plugins and actions of installed packages."""
    from ringwise.manifests.settings.configuration import check_configuration

    return check_configuration(text, origin, installed_registry())


def read_user_configuration(text: bytes | str, origin: str) -> Configuration:
    """A configuration that may name the plugins and actions of installed packages."""
    # Imported here: without a file no YAML parser is needed.
    from ringwise.manifests.settings.configuration import read_configuration

    try:
        return read_configuration(text, origin, installed_registry())
    except DocumentError as error:
        # An unknown name may be that of a package that could not be loaded.
        problems = installed_specs()[1]
        broken = [ManifestError("installed packages", "", problem) for problem in problems]
        raise DocumentError([*error.errors, *broken]) from None


def new_scheduler(
    configuration: Configuration | None = None,
    catalog: BoardCatalog | None = None,
    scheduler_names: Iterable[str] = SCHEDULER_NAMES,
    *,
    awaits_groups: bool = False,
    specs: Iterable[PluginSpec] = (),
) -> Scheduler:
    """A scheduler with the plugins and actions of installed packages, and with those given."""
    registry = installed_registry()
    made = Scheduler(
        configuration,
        catalog=catalog or shipped_catalog(),
        registry=registry.with_specs(specs) if specs else registry,
        scheduler_names=scheduler_names,
        awaits_groups=awaits_groups,
        compile_expressions=NameExpressions,
    )
    _INCIDENTS.append(made.view.history.incidents)
    return made


def plugin_problems() -> list[str]:
    """What is wrong with plugins and actions, one line each.

    Packages that cannot be loaded, and plugins of the schedulers of this process that failed to open. Plugins
    that fail on a job are in that job's reason.
    """
    lines: list[str] = []
    if _may_have_plugins(tuple(sys.path)):
        lines += [f"installed packages: {problem}" for problem in installed_specs()[1]]
    for incidents in _INCIDENTS:
        lines += [f"{one.where} takes no part: {one.error}" for one in incidents if not one.job]
    return list(dict.fromkeys(lines))


@cache
def _may_have_plugins(search_path: tuple[str, ...]) -> bool:
    """Whether any installed package names our entry points. Much cheaper than the search itself."""
    group = f"[{PLUGIN_ENTRY_POINTS}]".encode()
    for folder in search_path:
        # The folders end with .dist-info or .egg-info.
        for file in Path(folder or ".").glob("*.*-info/entry_points.txt"):
            with contextlib.suppress(OSError):
                if group in file.read_bytes():
                    return True
    return False


class _LazySpecs(Mapping[str, Spec]):
    """Built-in specs and those of installed packages.

    The packages are searched when a name is looked up that is not built in, or when all names are read: the
    search takes longer than most commands, and few clusters have plugins of their own.
    """

    def __init__(self, kind: type[Spec], built_in: Mapping[str, Spec]) -> None:
        self._kind: type[Spec] = kind
        self._built_in: Mapping[str, Spec] = built_in

    def _installed(self) -> dict[str, Spec]:
        return {spec.name: spec for spec in installed_specs()[0] if isinstance(spec, self._kind)}

    def __getitem__(self, name: str) -> Spec:
        spec = self._built_in.get(name)
        return self._installed()[name] if spec is None else spec

    def __iter__(self) -> Iterator[str]:
        yield from self._built_in
        yield from self._installed()

    def __len__(self) -> int:
        return len(self._built_in) + len(self._installed())


@cache
def installed_registry() -> Registry:
    """Our own plugins and actions and those of installed packages."""
    registry = Registry()
    registry.plugins = _LazySpecs(PluginSpec, BUILT_IN.plugins)
    registry.actions = _LazySpecs(ActionSpec, BUILT_IN.actions)
    return registry


@cache
def installed_specs() -> tuple[tuple[PluginSpec | ActionSpec, ...], tuple[str, ...]]:
    """The plugins and actions of installed packages, and the problems with them, one line each."""
    from importlib.metadata import entry_points

    specs, problems = load_specs(entry_points(group=PLUGIN_ENTRY_POINTS))
    return tuple(specs), tuple(problems)

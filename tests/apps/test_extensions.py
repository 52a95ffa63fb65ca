"""Plugins and actions of installed packages."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from click.testing import CliRunner

from ringwise.apps.extensions import installed_specs, load_specs
from ringwise.cli.commands import cli
from ringwise.framework.configuration import PluginOption
from ringwise.framework.registry import ActionSpec, PluginSpec
from ringwise.framework.session import Session
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.manifests.settings.configuration import read_configuration
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.defaults import BUILT_IN
from ringwise.wellknown import PLUGIN_ENTRY_POINTS


class Quiet:
    """The smallest plugin there is."""

    opened = 0

    def __init__(self, option: PluginOption) -> None:
        self.loudness = option.arguments.get("loudness")

    def open(self, session: Session) -> None:
        Quiet.opened += 1


SPEC = PluginSpec("quiet", "does nothing", Quiet)
ALLOCATE = ActionSpec("allocate", "does nothing", lambda session: None)


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, PLUGIN_ENTRY_POINTS)


def test_a_plugin_of_a_package_takes_part_when_the_configuration_names_it() -> None:
    plugins, problems = load_specs([entry("quiet", "tests.apps.test_extensions:Quiet")])
    assert problems == []
    text = (
        "tiers:\n- plugins:\n  - name: gang\n  - name: topology910\n"
        "  - name: quiet\n    arguments: {loudness: 3}\n"
    )
    registry = BUILT_IN.with_specs(plugins)
    scheduler = Scheduler(
        read_configuration(text, "conf", registry), registry=registry, catalog=shipped_catalog()
    )
    scheduler.view.what_if.open_session(1)
    assert [plugin.build for plugin in plugins if isinstance(plugin, PluginSpec)] == [Quiet]
    assert scheduler.view.history.incidents == []


def test_entry_points_that_cannot_be_loaded_or_have_a_taken_name_are_reported() -> None:
    plugins, problems = load_specs(
        [
            entry("allocate", "tests.apps.test_extensions:ALLOCATE"),
            entry("gang", "tests.apps.test_extensions:Quiet"),
            entry("lost", "no_such_package:Thing"),
            entry("other", "tests.apps.test_extensions:SPEC"),
            entry("quiet", "tests.apps.test_extensions:PLUGIN_ENTRY_POINTS"),
            entry("volcano-npu-mine", "tests.apps.test_extensions:Quiet"),
        ]
    )
    assert plugins == []
    assert problems == [
        "entry point allocate = tests.apps.test_extensions:ALLOCATE: ValueError: the name is already taken",
        "entry point gang = tests.apps.test_extensions:Quiet: ValueError: the name is already taken",
        "entry point lost = no_such_package:Thing: ModuleNotFoundError: No module named 'no_such_package'",
        "entry point other = tests.apps.test_extensions:SPEC: ValueError: declares the name quiet; "
        "the entry point must have the same name",
        "entry point quiet = tests.apps.test_extensions:PLUGIN_ENTRY_POINTS: TypeError: "
        "is neither a PluginSpec nor an ActionSpec nor a callable",
        "entry point volcano-npu-mine = tests.apps.test_extensions:Quiet: "
        "ValueError: the name is already taken",
    ]


def test_a_plugin_that_declares_itself_is_loaded_with_its_declaration() -> None:
    plugins, problems = load_specs([entry("quiet", "tests.apps.test_extensions:SPEC")])
    assert (plugins, problems) == ([SPEC], [])


class FailsToOpen:
    """A plugin that raises before it can take part."""

    def __init__(self, option: PluginOption) -> None:
        self._option = option

    def open(self, session: Session) -> None:
        raise RuntimeError("no license")


def test_every_command_tells_plugins_that_cannot_be_loaded_or_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "broken-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(
        "[ringwise.plugins]\nabsent = no_such_module:SPEC\n"
        "unlicensed = tests.apps.test_extensions:FailsToOpen\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    conf = tmp_path / "conf"
    conf.write_text("tiers: [{plugins: [{name: gang}, {name: topology910}, {name: unlicensed}]}]")
    example = next((Path(__file__).parents[2] / "examples").rglob("*.yaml"))
    installed_specs.cache_clear()
    try:
        plain = CliRunner().invoke(cli, ["place", "-f", str(example)])
        named = CliRunner().invoke(cli, ["place", "-f", str(example), "--config", str(conf)])
        version = CliRunner().invoke(cli, ["--version"])
    finally:
        monkeypatch.undo()
        installed_specs.cache_clear()
    loading = "warning: installed packages: entry point absent = no_such_module:SPEC: ModuleNotFoundError"
    assert loading in plain.stderr
    assert loading in named.stderr
    assert "warning: plugin unlicensed takes no part: RuntimeError: no license" in named.stderr
    assert version.stderr == ""

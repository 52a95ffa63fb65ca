"""Plugins and actions of installed packages."""

from __future__ import annotations

from importlib.metadata import EntryPoint

from ringwise.apps.extensions import BUILT_IN, load_plugins
from ringwise.framework.plugin_options import PluginOption
from ringwise.framework.session import Session
from ringwise.manifests.configuration import read_configuration
from ringwise.scheduler.core.machine import Scheduler
from ringwise.wellknown import PLUGIN_ENTRY_POINTS


class Quiet:
    """The smallest plugin there is."""

    opened = 0

    def __init__(self, option: PluginOption) -> None:
        self.loudness = option.arguments.get("loudness")

    def open(self, session: Session) -> None:
        Quiet.opened += 1


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, PLUGIN_ENTRY_POINTS)


def test_a_plugin_of_a_package_takes_part_when_the_configuration_names_it() -> None:
    plugins, problems = load_plugins([entry("quiet", "tests.apps.test_extensions:Quiet")])
    assert problems == []
    text = (
        "tiers:\n- plugins:\n  - name: gang\n  - name: topology910\n"
        "  - name: quiet\n    arguments: {loudness: 3}\n"
    )
    configuration = read_configuration(text, "conf", extra_plugins=sorted(plugins))
    scheduler = Scheduler(configuration, registry=BUILT_IN.with_plugins(plugins))
    scheduler.view.what_if.open_session(1)
    assert plugins["quiet"].__name__ == "Quiet"
    assert scheduler.view.incidents == []


def test_what_cannot_be_loaded_or_takes_a_name_of_ours_is_told_and_left_out() -> None:
    plugins, problems = load_plugins(
        [entry("gang", "tests.apps.test_extensions:Quiet"), entry("lost", "no_such_package:Thing")]
    )
    assert plugins == {}
    assert [problem.split(":")[0] for problem in problems] == [
        "plugin gang of tests.apps.test_extensions",
        "plugin lost of no_such_package",
    ]

"""The table of plugins, and the reasons they give."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

from ringwise import plugins
from ringwise.framework import reasons as framework_reasons
from ringwise.framework.arguments import Argument, ArgumentFamily, printed
from ringwise.framework.registry import PluginSpec
from ringwise.plugins import PLUGINS, binpack
from ringwise.reasons import ReasonKind, kinds_in
from ringwise.scheduler.defaults import BUILT_IN, default_configuration
from tests.builders.session_lab import cluster

MODULES = [
    importlib.import_module(one.name)
    for one in pkgutil.walk_packages(plugins.__path__, f"{plugins.__name__}.")
]
#: Those of the plugins, without the ones that they import from the framework.
KINDS = list(
    {
        id(kind): kind
        for module in MODULES
        for kind in kinds_in(vars(module))
        if kind not in kinds_in(vars(framework_reasons))
    }.values()
)
FOLDER = Path(plugins.__file__).parent


def test_every_file_and_folder_is_a_plugin_that_is_in_the_table() -> None:
    found = {
        path.stem
        for path in FOLDER.iterdir()
        if (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").is_file()
    }
    assert {spec.name.replace("-", "_") for spec in PLUGINS} == found


@pytest.mark.parametrize("spec", PLUGINS, ids=lambda spec: spec.name)
def test_every_plugin_declares_what_it_is_for_and_defaults_that_can_be_written(spec: PluginSpec) -> None:
    assert re.fullmatch(r"[a-z].*[^.]", spec.summary)
    for row in spec.arguments or ():
        if isinstance(row, ArgumentFamily):
            assert spec.argument(row.name) is row.pattern
            assert spec.argument(row.prefix) is None
        elif isinstance(row, Argument):
            assert spec.argument(row.name) is row
            assert row.read(printed(row.default)) == row.default


def test_the_default_configuration_opens() -> None:
    tiers = [list(tier.plugins) for tier in default_configuration().tiers]
    assert cluster().node("n1").job("job").session(*tiers).incidents == []


def test_codes_of_reasons_are_unique() -> None:
    assert len({kind.code for kind in KINDS}) == len(KINDS) > 0


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.code)
def test_every_reason_has_something_measured_a_fix_and_an_event_that_can_fix_it(kind: ReasonKind) -> None:
    assert re.search(r"\{\w+", kind.sentence)
    assert kind.fixes
    assert kind.resolved_by


@pytest.mark.parametrize(
    ("written", "plugin"),
    [
        ("topology910", "topology910"),
        ("volcano-npu", "topology910"),
        ("volcano-npu_v6.0.RC1_linux-aarch64", "topology910"),
        ("volcano-npu_v26.0.0_linux-x86_64", "topology910"),
        ("volcano", None),
        ("gang", "gang"),
    ],
)
def test_k_names_of_the_chip_plugin(written: str, plugin: str | None) -> None:
    found = BUILT_IN.plugin_named(written)
    assert (None if found is None else found.name) == plugin


def test_binpack_weights_of_further_resources() -> None:
    option = binpack.SPEC.option(
        arguments={
            "binpack.resources": ("huawei.com/Ascend910", "nvidia.com/gpu"),
            "binpack.resources.nvidia.com/gpu": 5,
            "binpack.resources.not/listed": 9,
        },
    )
    assert binpack.resource_weights(option) == {"huawei.com/Ascend910": 1, "nvidia.com/gpu": 5}
    assert binpack.resource_weights(binpack.SPEC.option()) == {}

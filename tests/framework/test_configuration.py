"""The rows of the settings, the defaults, and what cannot be built."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.apps.docs.settings_reference import settings_page
from ringwise.framework.configuration import (
    SETTINGS,
    Settings,
    default_configuration,
    settings_from,
)
from ringwise.framework.extension_points import GATED_WITH, UNGATED, Point
from ringwise.framework.parameters import NotAllowed, printed
from ringwise.framework.plugin_options import (
    ACTION_ARGUMENTS,
    ACTIONS,
    PLUGIN_ARGUMENTS,
    PLUGINS,
    SWITCH_BY_KEY,
    SWITCHES,
    PluginOption,
    argument_of,
    plugin_named,
)
from tests.framework.settings_by_name import value_of


def test_the_default_is_the_one_of_the_documents() -> None:
    configuration = default_configuration()
    assert configuration.actions == ("enqueue", "allocate", "backfill")
    assert [[plugin.name for plugin in tier.plugins] for tier in configuration.tiers] == [
        ["priority", "gang", "conformance", "topology910"],
        ["drf", "predicates", "proportion", "nodeorder", "binpack"],
    ]
    assert configuration.settings == Settings()


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("grace-over-time", 900),
        ("presetVirtualDevice", False),
        ("nslb-version", "1.0"),
        ("shared-tor-num", 2),
        ("useClusterInfoManager", True),
        ("self-maintain-available-card", True),
        ("forceEnqueue", True),
        ("super-pod-size", 48),
        ("reserve-nodes", 2),
        ("prefer-previous-node", False),
        ("resource-level-config", ""),
        ("multi-pod-requests", "document"),
        ("score-combination", "strict"),
        ("single-switch-first", False),
        ("superpod-packing", "whole-job"),
        ("reservation-after", 600),
        ("hold-healthy-nodes", 120),
        ("gang-recovery-limit", 30),
    ],
)
def test_defaults_of_the_settings(name: str, default: object) -> None:
    value = value_of(Settings(), name)
    assert value == default
    assert type(value) is type(default)


def test_no_setting_is_left_out_of_the_table_above() -> None:
    assert len(SETTINGS) == len(dataclasses.fields(Settings)) == 18


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("grace-over-time", ["2", "3600", "+900"], ["1", "3601", "-900", "", "9e2", "900s", " 900", "九百"]),
        ("super-pod-size", ["1", "48", "1024"], ["0", "-1", "****", "4.8", "0x30", "1_000", "9" * 5000]),
        ("reserve-nodes", ["0", "2"], ["-1", "two"]),
        ("shared-tor-num", ["1", "2"], ["0", "3", "2.0"]),
        ("nslb-version", ["1.0", "2.0"], ["1", "2", "3.0", "v2.0"]),
        ("forceEnqueue", ["true", "FALSE", "True"], ["yes", "1", "on", "", "tru", "true "]),
        ("multi-pod-requests", ["document", "field"], ["Field", "documents", ""]),
        ("score-combination", ["strict", "sum"], ["max"]),
        ("superpod-packing", ["whole-job", "per-block"], ["whole_job"]),
        ("reservation-after", ["0", "600"], ["604801", "10m"]),
        (
            "resource-level-config",
            ["", '{"tree":{"level1":{"label":"rack","reservedNode":1},"level2":{"label":"room"}}}'],
            [
                "{",
                "[]",
                "{}",
                '{"tree":{}}',
                '{"tree":{"level2":{"label":"rack"}}}',
                '{"tree":{"level1":{}}}',
                '{"tree":{"level1":{"label":5}}}',
                '{"tree":{"level1":{"label":"a","reservedNode":-1}}}',
                '{"tree":{"level1":{"label":"a","reservedNode":true}}}',
                '{"tree":{"level1":{"label":"a","spare":1}}}',
                "[" * 100_000,
            ],
        ),
    ],
)
def test_what_a_setting_takes(name: str, good: list[str], bad: list[str]) -> None:
    row = SETTINGS[name]
    for text in good:
        row.read(text)
    for text in bad:
        with pytest.raises(NotAllowed, match="is not allowed") as refusal:
            row.read(text)
        assert f"allowed: {row.allowed}" in str(refusal.value)
        assert len(str(refusal.value)) < 400


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_every_default_can_be_written(name: str) -> None:
    row = SETTINGS[name]
    value = value_of(Settings(), name)
    assert row.read(printed(value)) == value


@pytest.mark.parametrize(
    ("size", "written", "reserve"),
    [(48, None, 2), (3, None, 2), (2, None, 0), (1, None, 0), (2, 1, 1), (48, 0, 0), (48, 47, 47)],
)
def test_reserved_nodes_follow_the_size_of_a_superpod(size: int, written: int | None, reserve: int) -> None:
    values = (
        {"super-pod-size": size} if written is None else {"super-pod-size": size, "reserve-nodes": written}
    )
    assert settings_from(values).reserve_nodes == reserve


@given(size=st.integers(1, 2000), reserve=st.integers(-5, 2000))
def test_a_reserve_as_large_as_the_superpod_cannot_be_built(size: int, reserve: int) -> None:
    if reserve == -1:
        return  # stands for "nobody wrote it"
    if 0 <= reserve < size:
        assert Settings(super_pod_size=size, reserve_nodes=reserve).reserve_nodes == reserve
    else:
        with pytest.raises(NotAllowed, match=rf"allowed: a whole number, 0 to {size - 1}$"):
            Settings(super_pod_size=size, reserve_nodes=reserve)


def test_the_nearest_word_is_offered() -> None:
    with pytest.raises(NotAllowed, match="did you mean 'whole-job'"):
        SETTINGS["superpod-packing"].read("whole-jobs")
    with pytest.raises(NotAllowed) as refusal:
        SETTINGS["superpod-packing"].read("x" * 100_000)
    assert "did you mean" not in str(refusal.value)


@pytest.mark.parametrize(
    ("written", "plugin"),
    [
        ("topology910", "topology910"),
        ("volcano-npu", "topology910"),
        ("volcano-npu_v6.0.RC1_linux-aarch64", "topology910"),
        ("volcano-npu_v26.0.0_linux-x86_64", "topology910"),
        ("volcano", "volcano"),
        ("gang", "gang"),
    ],
)
def test_names_of_the_chip_plugin(written: str, plugin: str) -> None:
    assert plugin_named(written) == plugin


def test_switches_have_two_spellings_and_their_defaults() -> None:
    off = {name for name, switch in SWITCHES.items() if not switch.default}
    assert off == {"hierarchy", "cluster_order"}
    for switch in SWITCHES.values():
        assert switch.key in switch.spellings
        assert {SWITCH_BY_KEY[spelling] for spelling in switch.spellings} == {switch}
        assert all(re.fullmatch(r"enabled?[A-Z]\w+", spelling) for spelling in switch.spellings)
    assert len(SWITCH_BY_KEY) == 2 * len(SWITCHES)


def test_every_gated_point_of_the_framework_has_its_switch() -> None:
    gated = {GATED_WITH.get(point, point) for point in Point} - UNGATED
    assert {point.value for point in gated} <= SWITCHES.keys()


def test_arguments_belong_to_known_plugins_and_actions() -> None:
    assert PLUGIN_ARGUMENTS.keys() <= PLUGINS.keys()
    assert ACTION_ARGUMENTS.keys() == ACTIONS.keys()


def test_an_option_has_every_switch_and_argument_decided() -> None:
    option = PluginOption.of("nodeorder", {"node_order": False}, {"leastrequested.weight": 7})
    assert option.enabled.keys() == SWITCHES.keys()
    assert not option.on("node_order")
    assert option.on("predicate")
    assert option.number("leastrequested.weight") == 7
    assert option.number("tainttoleration.weight") == 3
    with pytest.raises(KeyError):
        PluginOption.of("nodeorder", {"node_oder": False})


def test_an_option_gives_values_of_the_asked_type_only() -> None:
    option = PluginOption.of("predicates", arguments={"mine": "text"})
    assert option.truth("predicate.NodePortsEnable")
    with pytest.raises(TypeError):
        option.number("predicate.NodePortsEnable")
    with pytest.raises(TypeError):
        option.truth("mine")


def test_weights_of_further_resources() -> None:
    option = PluginOption.of(
        "binpack",
        arguments={
            "binpack.resources": ("huawei.com/Ascend910", "nvidia.com/gpu"),
            "binpack.resources.nvidia.com/gpu": 5,
            "binpack.resources.not/listed": 9,
        },
    )
    assert option.resource_weights() == {"huawei.com/Ascend910": 1, "nvidia.com/gpu": 5}
    assert PluginOption.of("binpack").resource_weights() == {}
    assert argument_of("binpack", "binpack.resources.") is None
    assert argument_of("nodeorder", "binpack.resources.x") is None


def test_the_reference_page_names_everything() -> None:
    page = settings_page()
    names = [
        *SETTINGS,
        *(switch.key for switch in SWITCHES.values()),
        *(name for table in PLUGIN_ARGUMENTS.values() for name in table),
    ]
    assert [name for name in names if f"| `{name}` |" not in page] == []

"""The rows of the settings, the defaults, and what cannot be built."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.framework.arguments import (
    ArgumentFamily,
    InvalidArgument,
    boolean,
    find_argument,
    integer,
    printed,
    resource_list,
    score_weight,
)
from ringwise.framework.configuration import (
    ENABLE_FLAGS,
    FLAG_BY_KEY,
    SETTINGS,
    PluginOption,
    Settings,
    settings_from,
)
from ringwise.framework.extension_points import EXTENSION_POINTS
from ringwise.framework.registry import ActionSpec, PluginSpec, Registry
from ringwise.framework.session import Session
from tests.framework.settings_by_name import value_of


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
        ("ring-packing", "document"),
        ("queue-discipline", "best-effort"),
        ("defragment", "plan"),
        ("move-chips-per-hour", 32),
        ("move-again-after", 86_400),
        ("long-grace-period", 120),
        ("preempt-again-after", 3600),
        ("restart-cost", 600),
        ("owned-annotations", "open"),
        ("max-run-time-warning", 600),
        ("expected-duration-grace-period", 300),
        ("user-annotation", "open"),
        ("user-label", ""),
        ("visible-devices", "refused"),
        ("reservation-after", 600),
        ("turn-limit", 1),
        ("pod-creation-timeout", 300),
        ("hold-healthy-nodes", 120),
        ("fault-cooldown", 600),
        ("reserved-nodes-require-duration", True),
        ("gang-recovery-limit", 30),
        ("reschedule-rack-after", 3),
        ("reschedule-block-after", 6),
        ("reschedule-job-after", 12),
    ],
)
def test_defaults_of_the_settings(name: str, default: object) -> None:
    value = value_of(Settings(), name)
    assert value == default
    assert type(value) is type(default)


def test_no_setting_is_left_out_of_the_table_above() -> None:
    assert len(SETTINGS) == len(dataclasses.fields(Settings)) == 39


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("grace-over-time", ["2", "3600", "+900"], ["1", "3601", "-900", "", "9e2", "900s", " 900", "九百"]),
        ("super-pod-size", ["1", "48", "1024"], ["0", "-1", "****", "4.8", "0x30", "1_000", "9" * 5000]),
        ("reserve-nodes", ["0", "2"], ["-1", "two"]),
        ("shared-tor-num", ["1", "2"], ["0", "3", "2.0"]),
        ("nslb-version", ["1.0", "2.0"], ["1", "2", "3.0", "v2.0"]),
        ("forceEnqueue", ["true", "FALSE", "True"], ["yes", "1", "on", "", "tru", "true "]),
        ("multi-pod-requests", ["document", "vendor", "field"], ["Vendor", "documents", ""]),
        ("score-combination", ["strict", "sum"], ["max"]),
        ("superpod-packing", ["whole-job", "per-block"], ["whole_job"]),
        ("defragment", ["off", "plan", "auto"], ["on", "true"]),
        ("user-annotation", ["open", "guarded"], ["", "true", "Guarded"]),
        (
            "user-label",
            ["", "owner", "example.com/owner", "x" * 63],
            ["a b", "/", "x/", "x" * 64, "A.com/x", "a/b/c"],
        ),
        ("restart-cost", ["0", "600", "86400"], ["86401", "10m"]),
        ("reservation-after", ["0", "600"], ["604801", "10m"]),
        ("turn-limit", ["1", "60"], ["0", "61", "1s"]),
        ("pod-creation-timeout", ["0", "300"], ["604801", "-1", "5m"]),
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
        with pytest.raises(InvalidArgument, match="is not allowed") as refusal:
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
        return  # means that it is not written
    if 0 <= reserve < size:
        assert Settings(super_pod_size=size, reserve_nodes=reserve).reserve_nodes == reserve
    else:
        with pytest.raises(InvalidArgument, match=rf"allowed: a whole number, 0 to {size - 1}$"):
            Settings(super_pod_size=size, reserve_nodes=reserve)


def test_the_nearest_word_is_offered() -> None:
    with pytest.raises(InvalidArgument, match='did you mean "whole-job"'):
        SETTINGS["superpod-packing"].read("whole-jobs")
    with pytest.raises(InvalidArgument) as refusal:
        SETTINGS["superpod-packing"].read("x" * 100_000)
    assert "did you mean" not in str(refusal.value)


def test_n2_settings_know_the_earlier_spelling_of_vendor() -> None:
    assert Settings(multi_pod_requests="field") == Settings(multi_pod_requests="vendor")


def test_enable_flags_have_two_spellings_and_their_defaults() -> None:
    off = {name for name, flag in ENABLE_FLAGS.items() if not flag.default}
    assert off == {"hierarchy", "cluster_order"}
    for flag in ENABLE_FLAGS.values():
        assert flag.key in flag.spellings
        assert {FLAG_BY_KEY[spelling] for spelling in flag.spellings} == {flag}
        assert all(re.fullmatch(r"enabled?[A-Z]\w+", spelling) for spelling in flag.spellings)
    assert len(FLAG_BY_KEY) == 2 * len(ENABLE_FLAGS)


def test_an_enable_flag_has_an_effect_where_an_extension_point_has_it() -> None:
    """`hierarchy` is the one that a plugin reads itself."""
    used = {point.flag for point in EXTENSION_POINTS if point.flag is not None}
    assert {name for name, flag in ENABLE_FLAGS.items() if flag.has_effect} == used | {"hierarchy"}


HOURS = integer("night.hours", 8, "length of the night", minimum=1, maximum=23)
STRICT = boolean("night.strict", False, "no exception")
SHARES = ArgumentFamily("night.share.", "QUEUE", score_weight("night.share.QUEUE", 1, "share of that queue"))


class NightShift:
    def __init__(self, option: PluginOption) -> None: ...

    def open(self, session: Session) -> None: ...


NIGHT_SHIFT = PluginSpec(
    "night-shift", "keeps jobs for the night", NightShift, (HOURS, STRICT, SHARES), alias_prefix="night"
)


def test_an_option_has_every_flag_and_argument_decided() -> None:
    option = NIGHT_SHIFT.option({"node_order": False}, {"night.hours": 7})
    assert option.enabled.keys() == ENABLE_FLAGS.keys()
    assert not option.is_enabled("node_order")
    assert option.is_enabled("predicate")
    assert option.arguments == {"night.hours": 7, "night.strict": False}
    with pytest.raises(KeyError, match="node_oder"):
        NIGHT_SHIFT.option({"node_oder": False})


def test_values_of_arguments_and_of_families() -> None:
    option = NIGHT_SHIFT.option(arguments={"night.hours": 7, "night.share.a": 3, "night.share.b/c": 0})
    assert (option.value(HOURS), option.value(STRICT)) == (7, False)
    assert option.values(SHARES) == {"a": 3, "b/c": 0}
    # An option of an older journal may lack an argument.
    assert PluginOption.of("night-shift").value(HOURS) == 8


@pytest.mark.parametrize(
    ("name", "found"),
    [("night.hours", HOURS), ("night.share.x", SHARES.pattern), ("night.share.", None), ("night", None)],
)
def test_the_declaration_of_an_argument_is_found_by_name(name: str, found: object) -> None:
    assert NIGHT_SHIFT.argument(name) is found


def test_an_exact_name_wins_over_a_family() -> None:
    own = resource_list("night.share.all", "all of them")
    assert find_argument((SHARES, own), "night.share.all") is own


def test_a_registry_knows_names_and_aliases() -> None:
    nightly = PluginSpec("nightly", "", NightShift)
    registry = Registry([NIGHT_SHIFT, nightly])
    assert registry.plugin_names() == ("night-shift", "nightly", "night*")
    assert registry.plugin_named("night-shift") is NIGHT_SHIFT
    assert registry.plugin_named("night_v1.0") is NIGHT_SHIFT
    assert registry.plugin_named("nightly") is nightly
    assert registry.plugin_named("nigth") is None


def test_no_name_is_taken_twice() -> None:
    registry = Registry([NIGHT_SHIFT])
    with pytest.raises(ValueError, match="plugin name is already taken: night-shift"):
        registry.with_specs([PluginSpec("night-shift", "", NightShift)])
    rest = ActionSpec("rest", "", lambda session: None)
    with pytest.raises(ValueError, match="action name is already taken: rest"):
        Registry(actions=[rest, rest])

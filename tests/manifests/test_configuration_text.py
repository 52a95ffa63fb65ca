"""Configurations inside manifests, and hostile files."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ringwise.framework.configuration import SETTINGS, Configuration
from ringwise.manifests.settings.configuration import ConfigurationError, read_configuration
from ringwise.manifests.settings.configuration_text import MAX_BYTES, MAX_PROBLEMS
from ringwise.scheduler.defaults import BUILT_IN
from tests.manifests.configuration_samples import DOCUMENT_CONFIG_MAP, problems


def test_lines_inside_a_config_map_are_lines_of_the_file() -> None:
    text = DOCUMENT_CONFIG_MAP.replace("gang", "gnag")
    (line,) = problems(text)
    assert line.startswith("my.conf: line 12: tiers[0].plugins[1].name: unknown plugin 'gnag'")
    assert text.splitlines()[11].strip() == "- name: gnag"


def test_lines_inside_a_quoted_string_count_from_its_beginning() -> None:
    text = json.dumps(
        {"kind": "ConfigMap", "data": {"volcano-scheduler.conf": "actions: allocate\ntier: []\n"}}
    )
    (line,) = problems(text)
    assert line.startswith("my.conf: volcano-scheduler.conf: line 2: unknown key 'tier'")


def test_the_config_map_is_found_among_other_manifests() -> None:
    among = f"kind: Namespace\nmetadata: {{name: a}}\n---\n{DOCUMENT_CONFIG_MAP}---\nkind: Service\n"
    listed = json.dumps({"kind": "List", "items": [yaml.safe_load(DOCUMENT_CONFIG_MAP), {"kind": "Pod"}]})
    expected = read_configuration(DOCUMENT_CONFIG_MAP, "a", BUILT_IN)
    assert read_configuration(among, "a", BUILT_IN) == expected
    assert read_configuration(listed, "a", BUILT_IN) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kind: Pod", "no ConfigMap with the key volcano-scheduler.conf among the objects of kind 'Pod'"),
        ("kind: ConfigMap\ndata: {volcano-schedulr.conf: a}", "did you mean 'volcano-scheduler.conf'?"),
        ("kind: ConfigMap\ndata: {volcano-scheduler.conf: {}}", "is not text"),
        ("kind: ConfigMap\ndata: {volcano-scheduler.conf: ''}", "holds 0 documents"),
        (f"{DOCUMENT_CONFIG_MAP}---\n{DOCUMENT_CONFIG_MAP}", "holds 2 configurations (lines 7, 22)"),
    ],
)
def test_manifests_without_one_configuration(text: str, expected: str) -> None:
    (line,) = problems(text)
    assert expected in line


def _bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (_bomb(), "expands to too much"),
        ("actions: &a [*a]", "an alias contains itself"),
        ("actions: " + "[" * 100_000, "nested too deeply"),
        ("{a: " * 20_000, "nested too deeply"),
        ("#" * (MAX_BYTES + 1), "larger than a configuration can be"),
        (b"actions: \xff\xfe", "line 1: is not text; allowed: UTF-8"),
        ("actions: " + "x" * 500_000, "unknown action 'xxx"),
    ],
    ids=["bomb", "self", "depth", "depth of maps", "size", "bytes", "long word"],
)
def test_hostile_files_give_one_short_line(text: str | bytes, expected: str) -> None:
    (line,) = problems(text)
    assert expected in line
    assert len(line) < 300


def test_the_number_of_mistakes_is_limited() -> None:
    text = "\n".join(f"key{number}: 1" for number in range(20_000))
    assert len(problems(text)) == MAX_PROBLEMS


def test_small_aliases_are_accepted() -> None:
    text = "tiers:\n- plugins:\n  - {name: gang, enableJobOrder: &off false, enableJobReady: *off}\n"
    (option,) = read_configuration(text, "my.conf", BUILT_IN).tiers[0].plugins
    assert not option.is_enabled("job_ready")


def outcome(text: str) -> Configuration | list[str]:
    try:
        return read_configuration(text, "my.conf", BUILT_IN)
    except ConfigurationError as error:
        return [str(problem) for problem in error.errors]


def well_formed(result: Configuration | list[str]) -> bool:
    if isinstance(result, Configuration):
        return bool(result.actions and result.tiers)
    return bool(result) and all(
        line.startswith("my.conf: ") and "allowed: " in line and line.isprintable() for line in result
    )


@given(st.text(max_size=200))
def test_any_text_gives_a_configuration_or_errors(text: str) -> None:
    assert well_formed(outcome(text))


_SCALARS = st.none() | st.booleans() | st.integers(-10, 4000) | st.text(max_size=8)
_KEYS = st.sampled_from(
    ["actions", "tiers", "plugins", "name", "arguments", "configurations", "kind", *SETTINGS]
)
_NESTED = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from(["actions", "tiers", "configurations", "metrics"]), _NESTED, min_size=1)
)
def test_any_structure_gives_a_configuration_or_errors(structure: dict[str, Any]) -> None:
    assert well_formed(outcome(json.dumps(structure)))

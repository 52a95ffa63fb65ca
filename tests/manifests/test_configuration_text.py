"""Configurations inside manifests, and hostile files."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ringwise.framework.configuration import SETTINGS, Configuration
from ringwise.manifests.settings.configuration import read_configuration
from ringwise.manifests.text.errors import MAX_ERRORS, DocumentError
from ringwise.manifests.text.yaml_stream import MAX_BYTES
from ringwise.scheduler.defaults import BUILT_IN
from tests.manifests.configuration_samples import DOCUMENT_CONFIG_MAP, problems, says_what_is_allowed


def test_lines_inside_a_config_map_are_lines_of_the_file() -> None:
    text = DOCUMENT_CONFIG_MAP.replace("gang", "gnag")
    (line,) = problems(text)
    assert line.startswith('my.conf: line 12: tiers[0].plugins[1].name: Invalid value: "gnag": must be')
    assert text.splitlines()[11].strip() == "- name: gnag"


def test_lines_inside_a_quoted_string_count_from_its_beginning() -> None:
    text = json.dumps(
        {"kind": "ConfigMap", "data": {"volcano-scheduler.conf": "actions: allocate\ntier: []\n"}}
    )
    (line,) = problems(text)
    assert line.startswith("my.conf: volcano-scheduler.conf: line 2: tier: unknown field")


def test_the_config_map_is_found_among_other_manifests() -> None:
    among = f"kind: Namespace\nmetadata: {{name: a}}\n---\n{DOCUMENT_CONFIG_MAP}---\nkind: Service\n"
    listed = json.dumps({"kind": "List", "items": [yaml.safe_load(DOCUMENT_CONFIG_MAP), {"kind": "Pod"}]})
    expected = read_configuration(DOCUMENT_CONFIG_MAP, "a", BUILT_IN)
    assert read_configuration(among, "a", BUILT_IN) == expected
    assert read_configuration(listed, "a", BUILT_IN) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kind: Pod", 'has no ConfigMap with the key volcano-scheduler.conf among the objects of kind "Pod"'),
        ("kind: ConfigMap\ndata: {volcano-schedulr.conf: a}", 'did you mean "volcano-scheduler.conf"?'),
        ("kind: ConfigMap\ndata: {volcano-scheduler.conf: {}}", "Invalid value: an object: must be a string"),
        (
            "kind: ConfigMap\ndata: {volcano-scheduler.conf: ''}",
            "is empty; must be one scheduler configuration",
        ),
        (
            f"{DOCUMENT_CONFIG_MAP}---\n{DOCUMENT_CONFIG_MAP}",
            "has 2 configurations (lines 7, 22); must have one",
        ),
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
        (_bomb(), "aliases expand to more than 100000 values"),
        ("actions: &a [*a]", "anchor *a is not defined before its alias"),
        ("actions: " + "[" * 100_000, "is nested more than 100 levels deep"),
        ("{a: " * 20_000, "is nested more than 100 levels deep"),
        ("#" * (MAX_BYTES + 1), "must be at most 1 MiB"),
        (b"actions: \xff\xfe", "line 1: invalid YAML: unacceptable character #x00ff: invalid leading UTF-8"),
        ("actions: " + "x" * 500_000, 'actions: Invalid value: "xxx'),
    ],
    ids=["bomb", "self", "depth", "depth of maps", "size", "bytes", "long word"],
)
def test_hostile_files_give_one_short_line(text: str | bytes, expected: str) -> None:
    (line,) = problems(text)
    assert expected in line
    assert len(line) < 300


def test_the_number_of_mistakes_is_limited() -> None:
    text = "\n".join(f"key{number}: 1" for number in range(20_000))
    assert len(problems(text)) == MAX_ERRORS


def test_small_aliases_are_accepted() -> None:
    text = "tiers:\n- plugins:\n  - {name: gang, enableJobOrder: &off false, enableJobReady: *off}\n"
    (option,) = read_configuration(text, "my.conf", BUILT_IN).tiers[0].plugins
    assert not option.is_enabled("job_ready")


def outcome(text: str) -> Configuration | list[str]:
    try:
        return read_configuration(text, "my.conf", BUILT_IN)
    except DocumentError as error:
        return [str(problem) for problem in error.errors]


def well_formed(result: Configuration | list[str]) -> bool:
    if isinstance(result, Configuration):
        return bool(result.actions and result.tiers)
    return bool(result) and all(
        line.startswith("my.conf: ") and says_what_is_allowed(line) and line.isprintable() for line in result
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


def test_an_error_has_the_line_where_its_value_is_written() -> None:
    text = """\
tiers:
- plugins:
  - &gang
    name: gang
    enableJobOrder: perhaps
  - <<: *gang
    name: binpack
    arguments:
      binpack.resources.x/y: -1
"""
    assert [line.partition(': "')[0] for line in problems(text)] == [
        "my.conf: line 5: tiers[0].plugins[0].enableJobOrder",
        # Inherited from the one above.
        "my.conf: line 5: tiers[0].plugins[1].enableJobOrder",
        "my.conf: line 9: tiers[0].plugins[1].arguments[binpack.resources.x/y]",
    ]

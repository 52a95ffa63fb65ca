"""Limits as they are written: annotations of a Queue, the ConfigMap `ringwise-limits`, `config check`."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.kube.watch.readers import DataReader
from ringwise.manifests.bundle import read_bundle
from ringwise.manifests.config_maps.settings import limits_from_data
from ringwise.manifests.kinds import KIND_OF
from ringwise.manifests.settings.configuration import check_configuration
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.wire import ConfigMapWire
from ringwise.scheduler.defaults import BUILT_IN
from ringwise.state.limits import (
    ANNOTATIONS,
    DURATION_TEXT,
    Limits,
    NamespaceLimits,
    QueueLimits,
    queue_limits,
)
from ringwise.state.model import Queue
from ringwise.state.queue_rules import queue_problems

HOUR = 3_600_000_000_000


def read(text: str) -> tuple[NamespaceLimits, list[str]]:
    found = Findings("")
    limits = limits_from_data({"limits.yaml": text}, found)
    return limits, [str(error) for error in found.errors]


def test_limits_of_namespaces() -> None:
    text = 'namespaces:\n  a: {max-chips: 64, burst-chips: 8}\n  "*": {max-running-jobs: 2}\n'
    limits, errors = read(text)
    assert errors == []
    assert limits.of("a") == Limits(chips=64, burst=8)
    assert limits.of("b") == Limits(running=2)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "namespaces:\n  a:\n    max-chip: 8\n",
            "line 3: namespaces.a.max-chip: unknown field (did you mean 'max-chips'?); allowed: max-chips, "
            "burst-chips, max-running-jobs, max-waiting-jobs",
        ),
        *[
            (
                f"namespaces:\n  a: {{max-chips: {value}}}\n",
                f"line 2: namespaces.a.max-chips: Invalid value: {shown}: must be a whole number of 0 to "
                "2147483647",
            )
            for value, shown in [
                *((one, one) for one in ("-1", "2147483648", "true", "8.0", '"8"')),
                *(("1e9", "1000000000.0"), (".nan", "a number that is not finite")),
            ]
        ],
        ("namespaces: [a]\n", "line 1: namespaces: Invalid value: a list: must be an object"),
        ("namespace: {}\n", "line 1: namespace: unknown field (did you mean 'namespaces'?)"),
        (
            "namespaces:\n  A: {}\n",
            'line 2: namespaces.A: Invalid value: "A": must be up to 63 letters a-z, digits and "-", or "*"',
        ),
        ("namespaces:\n  a: {}\n  a: {}\n", 'line 3: the key "a" is repeated in one mapping'),
        (
            "namespaces:\n  a: {burst-chips: 8}\n",
            "line 2: namespaces.a: burst-chips requires max-chips",
        ),
        ("[", "line 2: broken YAML"),
        ("- a\n", "line 1: Invalid value: a list: must be an object"),
    ],
)
def test_an_error_names_line_and_allowed_values(text: str, error: str) -> None:
    limits, errors = read(text)
    assert len(errors) == 1
    assert error in errors[0]
    assert limits == NamespaceLimits()


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    limits, errors = read(text)
    assert not errors or limits == NamespaceLimits()


def test_of_a_config_map_with_an_error_the_last_good_version_counts() -> None:
    reader = DataReader(KIND_OF[NamespaceLimits])
    found = Findings("")
    assert reader.objects(ConfigMapWire(data={"limits.yaml": "namespaces: 3"}), found) is None
    assert found.errors


def test_a_file_with_such_an_error_is_refused(tmp_path: Path) -> None:
    text = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: ringwise-limits, namespace: kube-system}\n"
    file = tmp_path / "limits.yaml"
    file.write_text(text + "data: {limits.yaml: 'namespaces: 3'}\n", encoding="utf-8")
    bundle = read_bundle([str(file)])
    assert "namespaces: Invalid value: 3: must be an object" in str(bundle.errors[0])


def test_the_annotations_of_a_queue() -> None:
    written = {
        "ringwise.io/max-chips": "64",
        "ringwise.io/burst-chips": "8",
        "ringwise.io/max-running-jobs-per-user": "2",
        "ringwise.io/longest-run-time": "12h",
        "ringwise.io/at-run-time-end": "requeue",
    }
    assert queue_limits(written) == QueueLimits(
        Limits(chips=64, burst=8), Limits(running=2), 12 * HOUR, "requeue"
    )


@given(st.dictionaries(st.sampled_from(ANNOTATIONS), st.text(max_size=12)))
def test_what_an_annotation_says_is_a_limit_or_a_problem(annotations: dict[str, str]) -> None:
    before = QueueLimits(Limits(8, 8, 8, 8), Limits(8, 8, 8, 8), HOUR, "requeue")
    found = queue_limits(annotations, before)
    if annotations:
        assert queue_limits(annotations).problems == found.problems
    for limits in (found.all_jobs, found.per_user):
        for number in (limits.chips, limits.running, limits.waiting, limits.burst):
            assert number is None or 0 <= number < 2**31


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("max-chips", "-1", "must be a whole number from 0 to 2147483647, got '-1'"),
        ("max-chipz", "1", "is no limit (did you mean 'ringwise.io/max-chips'?)"),
        (
            "longest-run-time",
            "nan",
            "must be a duration such as 90s, 30m, 12h or 7d, below 10 years, got 'nan'",
        ),
        ("at-run-time-end", "stop", "must be one of end, requeue, got 'stop'"),
    ],
)
def test_a_queue_with_a_limit_that_cannot_be_read_is_refused(key: str, value: str, problem: str) -> None:
    queue = Queue("few", annotations={f"ringwise.io/{key}": value})
    (found,) = queue_problems(queue, {})
    assert found == f"annotation ringwise.io/{key} {problem}"
    # What was wrong before does not keep somebody from changing the rest.
    assert queue_problems(queue, {"few": queue}, before=queue) == ()


BOTH = """\
apiVersion: v1
kind: ConfigMap
metadata: {{name: volcano-scheduler-configmap}}
data:
  volcano-scheduler.conf: |
    actions: "{actions}"
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  name: few
  annotations:
    ringwise.io/max-chips: "8"
    ringwise.io/burst-chips: "8"
"""


@pytest.mark.parametrize(
    ("actions", "warnings"),
    [
        (
            "enqueue, allocate, backfill",
            ["nothing is lent: the actions have no reclaim, which would take it back"],
        ),
        ("enqueue, allocate, reclaim", []),
    ],
)
def test_config_check_warns_of_a_burst_that_nobody_takes_back(actions: str, warnings: list[str]) -> None:
    checked = check_configuration(BOTH.format(actions=actions), "both.yaml", BUILT_IN)
    assert checked.loads
    assert [line.effect for line in checked.lines if line.verdict == "warning"] == warnings


def test_config_check_names_the_line_of_the_file() -> None:
    text = BOTH.format(actions="enqueue, allocate").replace('max-chips: "8"', 'max-chips: "8e9"')
    checked = check_configuration(text, "both.yaml", BUILT_IN)
    assert not checked.loads
    assert [(line.line, line.what) for line in checked.lines if line.verdict == "error"] == [
        (13, "queue few")
    ]


@pytest.mark.parametrize(
    ("key", "value", "effect"),
    [
        ("longest-run-time", "20", "must be text, got 20; put it in quotes"),
        ("max-chips", "8", "must be text, got 8; put it in quotes"),
        ("longest-run-time", "true", f"must be {DURATION_TEXT}, got 'true'"),
    ],
)
def test_config_check_refuses_what_the_api_server_refuses(key: str, value: str, effect: str) -> None:
    """An annotation is text: a number without quotes is none."""
    queue = BOTH.partition("---\n")[2].replace('max-chips: "8"', f"{key}: {value}")
    checked = check_configuration(queue, "queue.yaml", BUILT_IN)
    assert [(line.line, line.effect) for line in checked.lines if line.verdict == "error"] == [
        (6, f"annotation ringwise.io/{key} {effect}")
    ]

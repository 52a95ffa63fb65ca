"""`ringwise report --shadow`: what a day in shadow mode says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from ringwise.cli.commands import cli
from ringwise.views.shadow import shadow_report
from tests.tools.schemas import check_document


def line(outcome: str = "same", pod: str = "team/train-0", **more: Any) -> str:
    record = {"event": "placed", "time": "2026-01-31T10:00:00Z", "outcome": outcome, "pod": pod, **more}
    return json.dumps(record) + "\n"


def waited(ours: float | None, theirs: float) -> dict[str, Any]:
    return {"waited": {"ours": ours, "theirs": theirs}}


NODES = {"ours": {"splits_node": False}, "theirs": {"splits_node": True}}
LOG = [
    '{"time": "2026-01-31T09:59:00Z", "level": "info", "event": "starting"}\n',
    line(**waited(1.0, 1.5)),
    line(**waited(2.0, 9.0), time="2026-01-31T12:00:00Z"),
    line(
        "other-node",
        "team/b",
        why="score",
        **NODES,
        **waited(8.0, 3.0),
    ),
    line("other-node", "team/c", why="score", **NODES),
    line("only-theirs", "team/d", why="queue is over its limit", ours=None, **waited(None, 3.0)),
    '{"event": "placed", "outcome": "unknown"}\n',
    '"placed" is not a record\n',
]


def test_placements_waits_and_fragmentation_are_summed() -> None:
    document = shadow_report(LOG)
    check_document(document)
    assert (document.since, document.until) == ("2026-01-31T10:00:00Z", "2026-01-31T12:00:00Z")
    assert (document.pods, document.unreadable) == (5, 2)
    assert document.outcomes == {
        "same": 2,
        "other-chips": 0,
        "other-node": 2,
        "only-theirs": 1,
        "only-ours": 0,
    }
    # A pod that only one of both placed is not among the waits; half a second is not a difference.
    assert msgspec.to_builtins(document.blocked_jobs) == {
        "pods": 3,
        "shorter": 1,
        "longer": 1,
        "ours_seconds": 11.0,
        "theirs_seconds": 13.5,
    }
    assert document.split_nodes == {"ours": 0, "theirs": 2}
    assert [(row.message, row.pods, row.example) for row in document.differences] == [
        ("score", 2, "team/b"),
        ("queue is over its limit", 1, "team/d"),
    ]


SAME = '{"event": "placed", "outcome": "same"'


@pytest.mark.parametrize(
    "text",
    [
        '["placed"]',
        '{"event": "placed", "outcome": ["same"]}',
        SAME + ', "waited": 3}',
        SAME + ', "waited": {"ours": "soon", "theirs": 1}}',
        SAME + ', "ours": 5}',
        '{"placed": ' + "[" * 9999,
    ],
)
def test_a_line_of_another_form_is_counted(text: str) -> None:
    document = shadow_report([text])
    assert (document.pods, document.unreadable) == (0, 1)


def test_the_command_prints_the_report(tmp_path: Path) -> None:
    log = tmp_path / "shadow.jsonl"
    log.write_text("".join(LOG))
    shown = CliRunner().invoke(cli, ["report", "--shadow", str(log)])
    assert shown.exit_code == 0, shown.output
    text = " ".join(shown.output.split())
    assert "5 pods compared" in text
    assert "mean wait: 3.7s with Ringwise, 4.5s with the other scheduler" in text
    assert "split nodes: 0 empty nodes with Ringwise, 2 with the other scheduler" in text
    assert (
        json.loads(CliRunner().invoke(cli, ["report", "--shadow", "-", "-o", "json"], input=line()).output)[
            "pods"
        ]
        == 1
    )


@pytest.mark.parametrize("more", [["-o", "csv"], ["--idle"], ["--since", "1d"], ["-n", "team"]])
def test_other_options_are_refused(more: list[str]) -> None:
    done = CliRunner().invoke(cli, ["report", "--shadow", "-", *more], input=line())
    assert done.exit_code == 2
    assert "--shadow can only be combined" in done.stderr


def test_a_log_without_compared_pods_is_refused() -> None:
    done = CliRunner().invoke(cli, ["report", "--shadow", "-"], input="starting\n")
    assert done.exit_code == 2
    assert "no comparisons of pods found" in done.stderr

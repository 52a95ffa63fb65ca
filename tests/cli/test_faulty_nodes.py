"""Number 14: a node with a faulty chip is distinguishable in every drawing, and every word has a legend."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from ringwise.cli.commands import cli
from ringwise.cli.printers.superpods import draw_superpods
from tests.builders.objects import Plain, filler, node, node_report, report, topology
from tests.cli.superpods import superpod

SWITCHES = topology([("leaf", [(f"10.0.0.{n}", n) for n in range(4)])], 4)
LARGE = {"tor-affinity": "large-model-schema"}


def cluster(**notes: Any) -> list[Plain]:
    """One free node, one idle with a faulty chip, one busy with a faulty chip, one cordoned."""
    found = [
        node(f"n{n}", ip=f"10.0.0.{n}", devices=range(8), annotations=notes, unschedulable=n == 3)
        for n in range(4)
    ]
    reports = [
        node_report("n1", report(range(1, 8), unhealthy=[0])),
        node_report("n2", report(range(2, 8), unhealthy=[0])),
    ]
    return [*found, *reports, filler("busy", "n2", [1])]


def printed(command: str, objects: list[Plain]) -> str:
    text = "\n---\n".join(json.dumps(one) for one in objects)
    ran = CliRunner(env={"COLUMNS": "120"}).invoke(cli, command.split(), input=text)
    assert ran.exit_code == 0, ran.output
    return ran.stdout


@pytest.mark.parametrize(
    ("objects", "line", "legend"),
    [
        ([*cluster(), SWITCHES], ". ! A! x", "! has a faulty chip"),
        (cluster(superPodID="0"), "|x!!.|", "x unusable, ! has a faulty chip"),
        (cluster(superPodID="0", rackID="0"), "|x!!.|", "x unusable, ! has a faulty chip"),
    ],
    ids=["leaf switches", "SuperPoDs", "racks"],
)
def test_a_faulty_chip_is_seen(objects: list[Plain], line: str, legend: str) -> None:
    shown = printed("topology show -f -", objects).replace("~", ".")
    assert line in shown
    assert legend in shown


def test_a_faulty_chip_inside_a_block_is_seen() -> None:
    drawn = draw_superpods([superpod(0, free=1, blocks=[("job", 0, 4)], faulty=["job-0-2"])])
    assert "|AAA!|.|" in drawn.plain
    assert "! has a faulty chip" in drawn.plain


def test_class_score_and_group_have_a_legend() -> None:
    examples = "-f examples/cluster.yaml -f examples/jobs"
    assert "score: the board's score" in printed(f"place {examples} --scores", [])
    why = printed(f"why default/gang {examples}", [])
    assert "score: the board's score" in why
    assert "group: how well the free chips" in why
    switched = printed("place -f examples/switches/common-first.yaml", [])
    assert "the class by the label tor-affinity" in switched

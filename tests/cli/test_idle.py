"""`ringwise report --idle`: chips that are held and hardly used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from ringwise.cli.printers.report import draw_idle
from ringwise.framework.configuration import Settings
from ringwise.scheduler.defaults import default_configuration
from ringwise.views.idle import idle_document
from ringwise.wellknown import USER
from tests.builders.values import gang, report
from tests.lab.rig import Terminal, job, running
from tests.scheduler.rig import NOW
from tests.tools.schemas import check_document
from tests.web.rig import TestCore

HOUR = 3600
GUARDED = Settings(user_annotation="guarded")


def core() -> TestCore:
    """Two nodes of eight chips: one job on both."""
    made = TestCore()
    made.tell(gang("runs", 2, 8))
    return made


def test_without_figures_everything_is_unknown() -> None:
    document = idle_document(core().scheduler.view, NOW)
    assert check_document(document) == "ringwise.io/idle/v1"
    assert (document.chips, document.idle_chips, document.unknown_chips) == (16, 0, 16)
    assert document.jobs[0].utilization_percent is None


def test_chips_below_the_limit_for_long_enough_are_idle() -> None:
    made = core()
    of_first = [(chip, 80.0, HOUR) for chip in range(6)] + [(6, 4.9, HOUR), (7, 0.0, 599)]
    made.tell(
        [
            report("n1", utilization=tuple(of_first)),
            report("n2", utilization=tuple((chip, 1.0, HOUR) for chip in range(8))),
        ]
    )
    (row,) = idle_document(made.scheduler.view, NOW).jobs
    assert (row.namespace, row.name, row.queue) == ("default", "runs", "default")
    # The last chip of the first node is measured for less than ten minutes.
    assert (row.chips, row.idle_chips, row.unknown_chips) == (16, 9, 1)
    assert row.utilization_percent == round((6 * 80 + 4.9 + 8) / 15, 1)


def test_the_user_is_told_as_accounting_tells_him() -> None:
    made = core()
    made.tell(replace(default_configuration(), settings=GUARDED))
    made.tell(gang("named", 1, 1, annotations={USER: "ana"}))
    rows = {row.name: row for row in idle_document(made.scheduler.view, NOW).jobs}
    assert (rows["named"].user, rows["named"].verified) == ("ana", True)
    assert (rows["runs"].user, rows["runs"].verified) == ("", False)


def test_jobs_with_idle_chips_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    made = core()
    made.tell([report("n1", utilization=tuple((chip, 1.0, HOUR) for chip in range(8)))])
    draw_idle(Console(width=100), idle_document(made.scheduler.view, NOW))
    assert [line.split() for line in capsys.readouterr().out.splitlines()[:3:2]] == [
        ["job", "user", "queue", "chips", "idle", "use"],
        ["default/runs", "-", "default", "16", "8", "1.0", "%"],
    ]


def test_a_lab_and_csv(tmp_path: Path) -> None:
    """Simulated nodes have no driver that could tell."""
    with running(tmp_path):
        terminal = Terminal(tmp_path)
        terminal.submit(job("runs", 1, 8))
        terminal.ok("advance 1m")
        said = terminal.ok("report --idle")
        assert "of 8 chips that jobs hold, 0 idle: used less than 5 % on average" in said
        assert "unknown: 8; no driver reports how much they are used" in said
        lines = terminal.ok("report --idle -o csv").splitlines()
        assert (
            lines[0]
            == "namespace,name,queue,user,verified,chips,idle_chips,unknown_chips,utilization_percent"
        )
        assert lines[1] == "lab,runs,default,,false,8,0,8,"
        assert "--idle and --accounting-dir cannot be combined" in terminal.refused(
            f"report --idle --accounting-dir {tmp_path}"
        )

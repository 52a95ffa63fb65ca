"""`ringwise report`: from a folder, in every form, and what is said when it cannot be."""

from __future__ import annotations

import csv
import io
import json
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ringwise.cli.commands import cli
from ringwise.manifests.accounts.document import (
    FORMAT,
    VERSION,
    AccountDocument,
    AccountLine,
    JobAccount,
    OpenHold,
    account_text,
    document_text,
)
from ringwise.manifests.accounts.ledger import start_of

ROOT = Path(__file__).parents[2]
EXAMPLE = f"--accounting-dir {ROOT}/examples/accounting --since 2026-01-30 --until 2026-01-31"
DAY = "2026-01-31"


def report(words: str) -> Result:
    return CliRunner().invoke(cli, ["report", *words.split()], env={"COLUMNS": "80"})


def write(folder: Path, *jobs: JobAccount, **more: object) -> str:
    folder.mkdir(exist_ok=True)
    document = AccountDocument(FORMAT, VERSION, DAY, start_of(DAY) + 7200)
    for name, value in more.items():
        setattr(document, name, value)
    (folder / f"{DAY}-00.json").write_text(document_text(document, map(account_text, jobs)))
    return f"--accounting-dir {folder} --since {DAY} --until {DAY}"


@pytest.mark.parametrize("by", ["queue", "namespace", "user", "job", "board"])
def test_every_report_adds_up_to_the_same(by: str) -> None:
    document = json.loads(report(f"{EXAMPLE} --group-by {by} -o json").stdout)
    assert document["days"] == ["2026-01-30", "2026-01-31"]
    # Chips of different boards are never added.
    assert [total["board"] for total in document["totals"]] == ["910b-x8", "910-x8"]
    for total in document["totals"]:
        rows = [row for row in document["rows"] if row["board"] == total["board"]]
        held = sum(row["allocated_chip_hours"] for row in rows)
        assert held == pytest.approx(total["allocated_chip_hours"], abs=0.001)
        assert sum(row["starts"] for row in rows) == total["starts"]
    assert sum(total["starts"] for total in document["totals"]) == 6
    for row in document["rows"]:
        assert sum(row["allocated_by_day"]) == pytest.approx(row["allocated_chip_hours"], abs=0.001)


@pytest.mark.parametrize("by", ["queue", "namespace", "user", "job", "board"])
def test_no_line_of_a_table_is_longer_than_80_columns(by: str) -> None:
    ran = report(f"{EXAMPLE} --group-by {by}")
    assert ran.exit_code == 0
    assert all(len(line) <= 80 for line in ran.stdout.splitlines())


def test_what_is_open_counts_until_the_document_was_written(tmp_path: Path) -> None:
    hold = OpenHold("default", "910-x8", 8, start_of(DAY) + 3600, ["pod-1", "pod-2"])
    where = write(tmp_path, JobAccount("team", "train", "uid", holds=[hold]))
    assert json.loads(report(f"{where} -o json").stdout)["totals"][0]["allocated_chip_hours"] == 16.0


def test_a_wait_counts_on_the_board_of_the_job_unless_it_has_several(tmp_path: Path) -> None:
    wait = AccountLine("default", "", waited=7200)
    first = JobAccount("team", "a", "1", lines=[AccountLine("default", "910-x8", held=3600), wait])
    where = write(tmp_path, first)
    (row,) = json.loads(report(f"{where} -o json").stdout)["rows"]
    assert (row["board"], row["allocated_chip_hours"], row["pending_hours"]) == ("910-x8", 1.0, 2.0)
    assert "board" not in report(where).stdout
    write(tmp_path, first, JobAccount("team", "b", "2", lines=[AccountLine("default", "910b-x8", held=7200)]))
    document = json.loads(report(f"{where} -o json").stdout)
    found = [(row["board"], row["allocated_chip_hours"], row["pending_hours"]) for row in document["rows"]]
    assert found == [("910b-x8", 2.0, 0.0), ("910-x8", 1.0, 0.0), ("", 0.0, 2.0)]
    assert [total["board"] for total in document["totals"]] == ["910b-x8", "910-x8", ""]


def test_a_namespace_selects_its_jobs() -> None:
    every = json.loads(report(f"{EXAMPLE} --group-by job -o json").stdout)
    some = json.loads(report(f"{EXAMPLE} --group-by job -n team-b -o json").stdout)
    assert some["rows"] == [row for row in every["rows"] if row["namespace"] == "team-b"]
    assert {row["job"] for row in some["rows"]} == {"resnet", "probe"}
    assert [(total["board"], total["allocated_chip_hours"]) for total in some["totals"]] == [
        ("910-x8", 223.6667)
    ]


@pytest.mark.parametrize(
    ("words", "note"),
    [
        ("--since 1h", "--since 1h covers all of {first} (UTC): accounting is by day"),
        ("--since 2026-01-30T18:00:00Z", "--since 2026-01-30T18:00:00Z covers all of 2026-01-30 (UTC)"),
        ("--since 2026-01-30 --until 0s", "--until 0s covers all of {last} (UTC)"),
        ("--since 1d", ""),
        ("--since 2026-01-30", ""),
    ],
)
def test_a_report_says_when_it_covers_more_than_was_asked_for(words: str, note: str, tmp_path: Path) -> None:
    ran = report(f"--accounting-dir {tmp_path} {words}")
    document = json.loads(report(f"--accounting-dir {tmp_path} {words} -o json").stdout)
    expected = note.format(first=document["days"][0], last=document["days"][-1])
    assert expected in ran.stderr
    assert bool(ran.stderr) is bool(document["notes"]) is bool(note)


def test_what_is_not_certain_merged_or_given_up_is_told(tmp_path: Path) -> None:
    line = AccountLine("default", "910-x8", held=36_000, uncertain=3_600)
    start = start_of(DAY)
    where = write(
        tmp_path,
        JobAccount("team", "train", "uid", "ana", lines=[line]),
        JobAccount("team", lines=[line]),
        merged=3,
        given_up="2025-12-01",
        gaps=[(start, start + 600)],
    )
    (tmp_path / "2026-01-31-01.json").write_text("mine")
    ran = report(f"{where} --group-by job")
    assert "team/train" in ran.stdout
    assert "ana (unverified)" in ran.stdout
    assert "team/ (merged)" in ran.stdout
    assert "10.0 (-1.0)" in ran.stdout
    assert "3 jobs merged into rows of their namespaces" in ran.stdout
    assert "no scheduler wrote from 2026-01-31T00:00:00Z to 2026-01-31T00:10:00Z" in ran.stdout
    assert "before 2025-12-01 were discarded" in " ".join(ran.stdout.split())
    assert "omitted: 2026-01-31-01: it cannot be read" in ran.stderr


def test_hours_of_shares_have_two_decimals(tmp_path: Path) -> None:
    shares = AccountLine("default", "910b-x8", held=Fraction(900), lost={"fault": Fraction(1800, 7)})
    ran = report(write(tmp_path / "shares", JobAccount("team", "serve", "uid", lines=[shares])))
    assert "0.25" in ran.stdout
    assert "0.07" in ran.stdout
    whole = AccountLine("default", "910b-x8", held=900)
    ran = report(write(tmp_path / "whole", JobAccount("team", "serve", "uid", lines=[whole])))
    assert "0.25" not in ran.stdout


def test_names_are_no_formulas_of_a_spreadsheet(tmp_path: Path) -> None:
    names = ["=1+1", '@a"b', "a,b", "-x", "plain"]
    line = AccountLine("default", "910-x8", held=3600)
    where = write(tmp_path, *(JobAccount("team", name, name, name, lines=[line]) for name in names))
    rows = list(csv.DictReader(io.StringIO(report(f"{where} --group-by job -o csv").stdout)))
    assert sorted(row["job"] for row in rows) == sorted(["'=1+1", "'@a\"b", "a,b", "'-x", "plain"])
    assert {row["allocated_chip_hours"] for row in rows} == {"1.0"}


def test_an_empty_folder_is_an_empty_report(tmp_path: Path) -> None:
    ran = report(f"--accounting-dir {tmp_path} --since 1d")
    assert ran.exit_code == 0
    assert "no usage was recorded on these days" in ran.stdout


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("--accounting-dir nowhere", "nowhere is not a directory"),
        (f"{EXAMPLE} --lab x", "cannot be combined with --lab"),
        ("--lab x --context y", "cannot be combined"),
        (
            "--accounting-dir {tmp} --since soon",
            'invalid time "soon": expected a duration before now such as 12h or 30d',
        ),
        ("--accounting-dir {tmp} --since 2026-02-31", "invalid time"),
        ("--accounting-dir {tmp} --since 1d --until 2d", "--since 1d is after --until 2d"),
        ("--accounting-dir {tmp} --since 9999d", "at most 4000 days"),
        ("--lab {tmp} --accounting-namespace x", "--accounting-namespace requires a cluster"),
    ],
)
def test_what_cannot_be_asked_is_one_line(words: str, error: str, tmp_path: Path) -> None:
    ran = report(words.format(tmp=tmp_path))
    assert ran.exit_code == 2
    assert error in ran.stderr
    assert len(ran.stderr.splitlines()) == 1

"""`ringwise place --journal`: the journal is that of the printed answer, and replays equal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.cli.commands import cli
from tests.builders.objects import filler, node, pod, pod_group, pod_spec, vcjob
from tests.examples import examples
from tests.place.asking import Plain, as_bytes, configuration_text


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner(env={"RINGWISE_LAB": "/absent"}).invoke(cli, list(arguments), input=stdin)


def placed(folder: Path, objects: list[Plain], configuration: str = "") -> tuple[Plain, list[Plain]]:
    """The printed answer, and the commands of the journal."""
    journal, more = folder / "journal", []
    if configuration:
        (folder / "conf").write_text(configuration)
        more = ["--config", str(folder / "conf")]
    ran = run("place", "-f", "-", "-o", "json", "--journal", str(journal), *more, stdin=as_bytes(objects))
    assert ran.exit_code == 0, ran.output
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    again = run("replay", str(journal), "-o", "json")
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["identical"]
    return json.loads(ran.stdout), [command for line in lines[1:] for command in line["commands"]]


def bindings(commands: list[Plain]) -> dict[str, tuple[Any, ...]]:
    return {
        command["pod"]: (command["node"], command["chips"], command["annotations"])
        for command in commands
        if command["type"] == "Bind"
    }


def printed(answer: Plain) -> dict[str, tuple[Any, ...]]:
    return {
        one["name"]: (one["node"], one["chips"], one["annotations"])
        for job in answer["jobs"]
        for one in job["pods"]
        if one["annotations"]
    }


@settings(max_examples=examples(25), deadline=None)
@given(
    busy=st.lists(st.integers(0, 8), min_size=1, max_size=4),
    jobs=st.lists(st.tuples(st.integers(1, 3), st.sampled_from([1, 2, 3, 4, 8])), max_size=5),
    version=st.sampled_from(["1.0", "2.0"]),
)
def test_the_journal_has_the_bindings_that_are_printed(
    tmp_path_factory: pytest.TempPathFactory,
    busy: list[int],
    jobs: list[tuple[int, int]],
    version: str,
) -> None:
    objects = [node(f"n-{n}", devices=range(8)) for n in range(len(busy))]
    objects += [filler(f"old-{n}", f"n-{n}", range(chips)) for n, chips in enumerate(busy) if chips]
    objects += [
        vcjob(f"job-{n}", [("worker", pods, pod_spec(chips))]) for n, (pods, chips) in enumerate(jobs)
    ]
    folder = tmp_path_factory.mktemp("place")
    answer, commands = placed(folder, objects, configuration_text({"nslb-version": version}))
    assert bindings(commands) == printed(answer)


def partly_bound() -> list[Plain]:
    """A gang of two whole nodes with one pod bound; the only other node is taken."""
    return [
        node("n-0", devices=range(8)),
        node("n-1", devices=range(8)),
        pod_group("gang", 2),
        filler("gang-0", "n-0", range(8), group="gang"),
        filler("other", "n-1", range(8)),
        pod("gang-1", pod_spec(8), group="gang"),
    ]


def test_a_what_if_evicts_no_partly_bound_gang(tmp_path: Path) -> None:
    """The scheduler itself would evict it at once under this limit; `place` has one cycle only."""
    configuration = configuration_text({"gang-recovery-limit": "0"})
    answer, commands = placed(tmp_path, partly_bound(), configuration)
    assert [command["type"] for command in commands if command["type"] == "Evict"] == []
    assert bindings(commands) == printed(answer) == {}
    # The same events, to be decided completely: now the eviction is missing in the journal.
    text = (tmp_path / "journal").read_text()
    assert '"decide":"one-cycle"' in text
    (tmp_path / "journal").write_text(text.replace(',"decide":"one-cycle"', ""))
    ran = run("replay", str(tmp_path / "journal"), "-o", "json")
    assert ran.exit_code == 1
    assert json.loads(ran.stdout)["difference"]["decided"]["type"] == "Evict"


def test_an_unknown_mode_in_a_journal_is_named(tmp_path: Path) -> None:
    placed(tmp_path, partly_bound())
    journal = tmp_path / "journal"
    journal.write_text(journal.read_text().replace('"one-cycle"', '"some"'))
    ran = run("replay", str(journal))
    assert ran.exit_code == 2
    assert "line 2: decide: some is unknown; must be one of nothing, one-cycle, all" in ran.stderr

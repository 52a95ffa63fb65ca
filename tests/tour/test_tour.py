"""The pages show what the commands print: every block that needs no cluster is run in a new folder.

After a wanted change: make tour
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.tour.pages import (
    COLUMNS,
    FENCED,
    as_shown,
    make_folder,
    named_commands,
    not_a_command,
    pages,
    printed_by,
    shown_commands,
)

#: These tutorials need a lab: tests/lab/test_page.py runs them.
ELSEWHERE = {"lab.md", "lab-faults.md", "quickstart.md"}
#: Made from the code, with usage lines instead of commands.
USAGE = {"commands.md"}
COMMAND = re.compile(r"^(?:\.venv/bin/)?(ringwise|python|make|kubectl|helm|git|pip)\b")
#: Commands that change a cluster or this checkout, measure it, or run until Ctrl-C.
NOT_RUN = re.compile(
    r"^(?:kubectl|helm|git|pip|make"
    r"|(?:\.venv/bin/)?ringwise (?:isolate|release|unisolate|lab|run|device-plugin check(?! --simulated))"
    r"|(?:\.venv/bin/)?python -m (?:tests|tools|pytest)\b)"
)
#: What these print keeps to the width of the terminal.
OURS = re.compile(r"(?:make demo|(?:\.venv/bin/)?ringwise )(?!.*-o json)")
#: Whose commands start many processes, or simulate weeks.
COSTLY = {"README.md", "preemption.md", "simulate.md", "superpods.md"}
TOURS = [
    page for page in pages() if page.name not in ELSEWHERE | USAGE and "```\n$ " in page.read_text("utf-8")
]


@pytest.mark.process
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.full] if page.name in COSTLY else [], id=page.name)
        for page in TOURS
    ],
)
def test_the_page_shows_what_is_printed(page: Path, tmp_path: Path) -> None:
    environment = make_folder(tmp_path)

    def again(found: re.Match[str]) -> str:
        block = found[1] or ""
        if not block.startswith("$ ") or NOT_RUN.match(block[2:].replace("make demo", "demo")):
            return found[0]
        lines = []
        for shown in shown_commands(block):
            printed = printed_by(shown.command, tmp_path, environment)
            if OURS.match(shown.command):
                # Notes are on stderr, which is folded in a terminal alone.
                long = [line for line in printed if len(line) > COLUMNS and not line.startswith("note: ")]
                assert long == [], shown.command
            lines += [f"$ {shown.command}", *as_shown(shown.output, printed)]
        return "\n".join(["```", *lines, "```"])

    text = page.read_text(encoding="utf-8")
    made = FENCED.sub(again, text)
    if os.environ.get("RINGWISE_WRITE_GOLDEN"):
        page.write_text(made, encoding="utf-8")
    assert made == page.read_text(encoding="utf-8"), "make tour writes the pages anew"


def test_no_command_is_left_out() -> None:
    assert {page.name for page in TOURS} >= {"README.md", "why.md", "capacity.md", "racks.md", "superpods.md"}
    missed = [
        (page.name, line)
        for page in pages()
        if page.name not in USAGE
        for block in FENCED.findall(page.read_text(encoding="utf-8"))
        if not block.startswith("$ ")
        for line in block.splitlines()
        if COMMAND.match(line) and not NOT_RUN.match(line)
    ]
    assert missed == [], "show these commands with their output: a block that begins with `$ `"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_every_command_that_a_page_names_exists(page: Path) -> None:
    """With its options, by its present name, for `ringwise` and for `kubectl ringwise`."""
    unknown = [line for line in named_commands(page.read_text(encoding="utf-8")) if not_a_command(line)]
    assert unknown == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("`kubectl ringwise chips list`", "chips"),
        ("`kubectl ringwise get\nchips --nodes x`", "--nodes"),
        ("```\nringwise scheduler --journal FILE\n```", "scheduler"),
        ("```\n$ ringwise why JOB -n t | less\n```", None),
        ("`ringwise drain TARGET --plan`, `ringwise`, `ringwise-limits`", None),
    ],
)
def test_a_command_that_does_not_exist_is_found(text: str, problem: str | None) -> None:
    found = [not_a_command(line) for line in named_commands(text)]
    assert [one for one in found if one] == ([problem] if problem else [])


@pytest.mark.parametrize(
    ("shown", "printed", "made"),
    [
        (["a", "b"], ["a", "b"], ["a", "b"]),
        (["a", "b"], ["a", "c"], ["a", "c"]),
        (["...", "b", "..."], ["a", "b", "c"], ["...", "b", "..."]),
        (["...", "b", "x", "d", "..."], ["a", "b", "c", "c", "d", "e"], ["...", "b", "c", "c", "d", "..."]),
        (["at 2026-01-10T08:00:00Z"], ["at 2031-12-31T23:59:59Z"], ["at 2026-01-10T08:00:00Z"]),
        (["..."], ["a"], ["..."]),
    ],
)
def test_a_page_keeps_what_is_true_and_its_cuts(
    shown: list[str], printed: list[str], made: list[str]
) -> None:
    assert as_shown(tuple(shown), printed) == made

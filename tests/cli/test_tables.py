"""Tables at any width: nothing is cut, no line is longer than the terminal is wide."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from ringwise.cli.printers.explain import _print_queue
from ringwise.cli.printers.folding import fold, line_ends
from ringwise.cli.printers.lines import wrapped
from ringwise.cli.printers.tables import Column, Table
from ringwise.views.documents.explain import QueuePositionFields

#: A number would stay with the word after it.
WORD = st.from_regex(r"[a-z][a-z0-9./-]{0,49}", fullmatch=True)
SENTENCE = st.lists(WORD, max_size=30).map(" ".join)
COLUMN = st.builds(Column, st.sampled_from(["age", "board", "chips free"]), st.booleans(), st.booleans())


def plain(table: Table, width: int) -> list[str]:
    return [line.plain for line in table.lines(width)]


@st.composite
def tables(draw: st.DrawFn) -> Table:
    columns = [
        Column("node"),
        *draw(st.lists(COLUMN, max_size=6)),
        Column("switch", moves=draw(st.booleans())),
    ]
    table = Table(columns, note="why", indent=draw(st.sampled_from([0, 2])), headings=draw(st.booleans()))
    for _ in range(draw(st.integers(0, 4))):
        cells = [
            draw(WORD if column.wraps or n == 0 else WORD.map(lambda w: w[:15]))
            for n, column in enumerate(columns)
        ]
        table.add(*cells, note=draw(SENTENCE))
    return table


@given(tables(), st.integers(40, 200))
def test_every_cell_is_there_and_every_line_fits(table: Table, width: int) -> None:
    lines = plain(table, width)
    assert [line for line in lines if len(line) > width] == []
    drawn = re.sub(r"\s", "", "".join(lines))
    for row in table.rows:
        # A cell that is wrapped in its column is spread over lines; what is in one piece is there as it is.
        for column, cell in zip(table.columns, row.cells, strict=True):
            if not column.wraps and len(cell) <= width - 10:
                assert str(cell) in "\n".join(lines) or str(cell) in drawn


@given(SENTENCE, st.integers(0, 6), st.integers(30, 100))
def test_a_long_line_goes_on_below_with_all_its_words(sentence: str, indent: int, width: int) -> None:
    lines = [line.plain for line in wrapped(Text(" " * indent + sentence), width)]
    assert [line for line in lines if len(line) > width] == []
    assert re.sub(r"\s", "", "".join(lines)) == re.sub(r"\s", "", sentence)


def nodes(name: str) -> Table:
    columns = [Column("node"), Column("state"), Column("chips"), Column("board", moves=True), Column("pods")]
    table = Table(columns, note="why not")
    table.add("node-1", "ready", "[####|....]", "910-x8", "2", note="the node is full " * 5)
    table.add(name, "cordoned", "[####|####]", "910-x8", "3")
    return table


def test_sentences_get_lines_of_their_own_where_the_column_would_be_narrow() -> None:
    assert plain(nodes("node-2"), 70) == [
        "node     state      chips         board    pods",
        "───────────────────────────────────────────────",
        "node-1   ready      [####|....]   910-x8   2",
        "    the node is full the node is full the node is full the node is",
        "      full the node is full",
        "node-2   cordoned   [####|####]   910-x8   3",
    ]


def test_columns_that_may_be_moved_are_told_once_where_they_are_all_alike() -> None:
    assert plain(nodes("node-2"), 38) == [
        "node    state     chips        pods",
        "───────────────────────────────────",
        "node-1  ready     [####|....]  2",
        "    the node is full the node is",
        "      full the node is full the node",
        "      is full the node is full",
        "node-2  cordoned  [####|####]  3",
        "all: board 910-x8",
    ]


def test_columns_that_are_empty_everywhere_are_not_told() -> None:
    table = Table([Column("node"), Column("board", moves=True), Column("rack", moves=True)])
    for name in ("node-1", "node-2"):
        table.add(name, "910-x8", "-")
    assert plain(table, 17)[-1] == "node-2  910-x8"


def test_a_long_name_is_whole_on_a_line_of_its_own() -> None:
    assert plain(nodes("training-node-0123.rack-17.cluster.example.com"), 60) == [
        "node          state     chips        board   pods",
        "─────────────────────────────────────────────────",
        "node-1        ready     [####|....]  910-x8  2",
        "    the node is full the node is full the node is full the",
        "      node is full the node is full",
        "training-node-0123.rack-17.cluster.example.com",
        "              cordoned  [####|####]  910-x8  3",
    ]


def test_a_very_narrow_terminal_shows_one_cell_in_a_line() -> None:
    assert plain(nodes("node-2"), 24)[-4:] == [
        "  state cordoned",
        "  chips [####|####]",
        "  board 910-x8",
        "  pods 3",
    ]


# -- folds

SHORT = st.lists(st.from_regex(r"[a-z0-9.-]{1,12}", fullmatch=True), min_size=2, max_size=40)


@given(SHORT, st.integers(40, 120))
def test_no_fold_leaves_a_word_alone(words: list[str], width: int) -> None:
    lines = fold(" ".join(words), width, "  ").split("\n")
    assert " ".join(lines).split() == words
    assert max(map(len, lines)) <= width
    assert [line for line in lines if len(line.split()) == 1] == []


@given(st.lists(WORD, min_size=1, max_size=7), st.integers(50, 60))
def test_as_few_words_are_alone_as_can_be(words: list[str], width: int) -> None:
    """Of all ways to fold a short text."""
    alone = [
        sum(len(line) == 1 for line in lines)
        for lines in _ways(words)
        if all(len(" ".join(line)) <= width for line in lines)
    ]
    ends = [0, *line_ends(" ".join(words), width), len(" ".join(words))]
    lines = [" ".join(words)[begin:end] for begin, end in itertools.pairwise(ends)]
    assert sum(len(line.split()) == 1 for line in lines) == min(alone)


def _ways(words: list[str]) -> Iterator[list[list[str]]]:
    if not words:
        yield []
    for count in range(1, len(words) + 1):
        for rest in _ways(words[count:]):
            yield [words[:count], *rest]


def test_a_number_stays_with_what_it_counts() -> None:
    text = "on node-1, 8 chips on node-2 and 1,024 chips on node-3; waits 7, or 9"
    assert fold(text, 15).split("\n") == [
        "on node-1,",
        "8 chips on",
        "node-2 and",
        "1,024 chips on",
        "node-3; waits",
        "7, or 9",
    ]
    assert fold("fit: node-cordoned 1, node-unhealthy 3", 28).split("\n") == [
        "fit: node-cordoned 1,",
        "node-unhealthy 3",
    ]
    # Where there is no room for both, the number stands alone.
    assert fold("1,024 chips-of-a-node", 16).split("\n") == ["1,024", "chips-of-a-node"]
    table = Table([Column("queue"), Column("used", wraps=True), Column("share", wraps=True)])
    table.add("default", "96 Ascend310P, 39 Ascend910", "128 Ascend310P, 48 Ascend910")
    assert [line.split("  ")[-1].strip() for line in plain(table, 45)[2:]] == [
        "128 Ascend310P,",
        "48 Ascend910",
    ]


def test_lines_are_filled_where_no_word_is_alone() -> None:
    text = "the pod waits for a node that has eight free chips in one ring"
    assert fold(text, 30, "  ").split("\n") == [
        "the pod waits for a node",
        "  that has eight free chips in",
        "  one ring",
    ]
    assert fold("chips are assumed and taken for healthy [chips-assumed]", 45, "  ").split("\n") == [
        "chips are assumed and taken for",
        "  healthy [chips-assumed]",
    ]
    assert fold("as it is", 8) == "as it is"


def test_a_long_line_about_the_queue_keeps_its_empty_line_and_is_not_indented() -> None:
    ahead = [f"team/job-{number}" for number in range(5)]
    queue = QueuePositionFields("default", 9, 9, ahead)
    answer: Any = SimpleNamespace(queue=queue, reserved_chips=0, expected_start=None)
    stream = io.StringIO()
    _print_queue(Console(file=stream, width=60), answer)
    assert stream.getvalue().startswith("\nqueue default: 9 of 9 pending, behind team/job-0,")
    assert "\n  team/job-" in stream.getvalue()

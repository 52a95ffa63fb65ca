from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.topology.counts import counts_text, parse_counts
from ringwise.topology.nearest import did_you_mean, nearest


@given(st.frozensets(st.integers(1, 64)))
def test_text_of_counts_reads_back(counts: frozenset[int]) -> None:
    if counts:
        assert parse_counts(counts_text(counts)) == counts


@pytest.mark.parametrize(
    ("text", "counts"),
    [("1-8,10, 12", {*range(1, 9), 10, 12}), ("", set()), (" 4 ", {4}), ("2 - 3", {2, 3})],
)
def test_counts_are_read(text: str, counts: set[int]) -> None:
    assert parse_counts(text) == counts


@pytest.mark.parametrize("text", ["1-", "a", "8-1", "1,,2", "-3", "1.5", "99999"])
def test_invalid_counts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"neither a count|is descending"):
        parse_counts(text)


def test_runs_of_three_become_ranges() -> None:
    assert counts_text([1, 2, 4, 5, 6, 9]) == "1, 2, 4-6, 9"


def test_nearest_word() -> None:
    known = ["chip8-node16", "chip8-node8", "chip4-node8"]
    assert nearest("chip8-nod8", known) == "chip8-node8"
    assert nearest("CHIP8-NODE16", known) == "chip8-node16"
    assert nearest("zzz", known) is None
    assert did_you_mean("zzz", known) == ""


@pytest.mark.parametrize(
    ("typed", "meant"), [("node-77", "node-7"), ("node-3", "node-31"), ("node-99", None), ("nod-5", "node-5")]
)
def test_another_number_of_a_series_is_not_suggested(typed: str, meant: str | None) -> None:
    assert nearest(typed, ["node-5", "node-7", "node-31"]) == meant

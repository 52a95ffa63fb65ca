"""Rule P7: ranks follow blocks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ringwise.placement.superpods.blocks import Block, Origin, blocks_by_rank

RULES = json.loads((Path(__file__).parents[2] / "vectors" / "superpod_rules.json").read_text())


def slots(sizes: Mapping[int, int]) -> list[tuple[int, int]]:
    """(logical id, place inside the block) of every rank of a job with blocks of these sizes."""
    blocks = [
        Block(logical, "A", size, tuple(f"{logical}-{place}" for place in range(size)), Origin.QUEUE_1)
        for logical, size in sizes.items()
    ]
    return [(block.logical, place) for _, (block, place) in sorted(blocks_by_rank(blocks).items())]


@pytest.mark.parametrize("case", RULES["rank_vectors"], ids=lambda case: json.dumps(case))
def test_worked_case_P7(case: dict[str, Any]) -> None:
    found = slots({int(logical): size for logical, size in case["block_sizes"].items()})
    slot = dict(enumerate(found)).get(case["rank"])
    assert (None if slot is None else [str(slot[0]), slot[1]]) == case["expect"]


def test_ranks_of_equal_blocks_are_divided_P7() -> None:
    assert slots(dict.fromkeys(range(12), 4)) == [divmod(rank, 4) for rank in range(48)]


def test_ids_compare_as_numbers_P7() -> None:
    assert slots({10: 2, 2: 3, 0: 1}) == [(0, 0), (2, 0), (2, 1), (2, 2), (10, 0), (10, 1)]


def test_all_ranks_with_their_block_P7() -> None:
    whole = Block(0, "A", 2, ("a", "b"), Origin.QUEUE_1)
    fragment = Block(1, "B", 1, ("c",), Origin.QUEUE_3)
    assert blocks_by_rank([fragment, whole]) == {0: (whole, 0), 1: (whole, 1), 2: (fragment, 0)}

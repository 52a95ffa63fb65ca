"""Many names in few words."""

from __future__ import annotations

import pytest

from ringwise.cli.printers.name_lists import name_list


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([], ""),
        (["node-1"], "node-1"),
        (["node-2", "node-1"], "node-1, node-2"),
        ([f"node-{n}" for n in (0, 1, 2, 3, 9)], "node-0 to node-3, node-9"),
        ([f"node-{n}" for n in range(8, 12)], "node-8 to node-11"),
        ([f"n{n:03}" for n in range(98, 102)], "n098 to n101"),
        (["n09", "n10", "n9", "n11"], "n09, n9 to n11"),
        (
            [f"r{r}-n{n}.east" for r in (1, 2) for n in (1, 2, 3)],
            "r1-n1.east to r1-n3.east, r2-n1.east to r2-n3.east",
        ),
        (["alpha", "beta", "gamma", "delta", "node-1", "node-2"], "alpha, beta, delta, gamma and 2 more"),
        ([f"node-{2 * n}" for n in range(5000)], "node-0, node-2, node-4, node-6 and 4996 more"),
    ],
)
def test_names_that_count_up_are_one_part(names: list[str], told: str) -> None:
    assert name_list(names) == told

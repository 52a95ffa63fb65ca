"""The benchmark measures what it says: the same decision, two ways."""

from __future__ import annotations

import pytest

from ringwise_bench import superpods as bench_superpods


@pytest.mark.full
def test_both_ways_decide_alike_and_every_result_is_complete() -> None:
    results = {result.name: result for result in bench_superpods.run()}
    assert results["placements that differ from the scan"].value == 0
    for result in results.values():
        assert (result.goal is None) == (result.holds is None)

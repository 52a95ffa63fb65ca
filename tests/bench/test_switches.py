"""The parts of the benchmark agree with each other; its times are not asserted."""

from __future__ import annotations

import pytest

from ringwise_bench import switches as bench_switches


@pytest.mark.full
def test_every_goal_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_switches, "SWITCHES", 20)
    monkeypatch.setattr(bench_switches, "PODS", 128)
    monkeypatch.setattr(bench_switches, "TREE_LEAVES", 6)
    monkeypatch.setattr(bench_switches, "TREE_PODS", 64)
    results = bench_switches.run()
    goals = [(result.unit, result.goal) for result in results if result.goal]
    assert goals == [("x", "<= 6")] * 5 + [("x", ">= 100")] + [("x", "<= 5"), ("x", "<= 6")] * 2
    assert all(result.value > 0 for result in results)

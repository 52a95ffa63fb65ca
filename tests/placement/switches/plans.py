"""A switch plan by rank and by switch."""

from __future__ import annotations

from ringwise.placement.switches.view import SwitchPlan


def node_of_rank(plan: SwitchPlan) -> dict[int, int]:
    placed: dict[int, int] = {}
    for entry in plan.entries:
        ranks = entry.ranks or range(len(placed), len(placed) + len(entry.nodes))
        placed.update(zip(ranks, entry.nodes, strict=True))
    return placed


def per_switch(plan: SwitchPlan) -> dict[str, int]:
    counts: dict[str, int] = {}
    for entry in plan.entries:
        counts[entry.name] = counts.get(entry.name, 0) + len(entry.nodes)
    return counts

"""How many evictions a PodDisruptionBudget allows before its controller has written a status."""

from __future__ import annotations

from typing import Any

import pytest

from ringwise.manifests.objects.disruption_budgets import BudgetSpecWire, BudgetWire, budget_from_wire
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.wire import LabelSelectorWire
from tests.builders.values import pod


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({}, 1),
        ({"min_available": 0}, 2),
        ({"min_available": "34%"}, 0),
        ({"max_unavailable": 2}, 0),
        ({"max_unavailable": 3}, 1),
        ({"max_unavailable": "51%"}, 1),
    ],
)
def test_pods_that_terminate_or_wait_are_not_healthy(spec: dict[str, Any], allowed: int) -> None:
    described: list[dict[str, Any]] = [
        {"on": "n1"},
        {"on": "n1"},
        {"on": "n1", "deleting": True},
        {},
    ]
    pods = [pod(f"p{at}", **one) for at, one in enumerate(described)]
    pods.append(pod("other", namespace="other", on="n1"))
    wire = BudgetWire(spec=BudgetSpecWire(LabelSelectorWire(), **spec))
    budget = budget_from_wire(wire, Findings("budget"), pods)
    assert budget is not None
    assert budget.allowed == allowed

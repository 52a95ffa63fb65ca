"""PodDisruptionBudgets: how many of the pods that they select may be evicted now."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from ringwise.manifests.objects.affinity import label_selector
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.wire import LabelSelectorWire, ObjectWire, WireStruct
from ringwise.scheduler.defragment.movable import DisruptionBudget
from ringwise.state.model import Pod

_PERCENTAGE = re.compile(r"[0-9]{1,3}%", re.ASCII)


class BudgetSpecWire(WireStruct):
    selector: LabelSelectorWire | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class BudgetStatusWire(WireStruct):
    disruptions_allowed: int | None = None


class BudgetWire(ObjectWire):
    spec: BudgetSpecWire | None = None
    status: BudgetStatusWire | None = None


def budget_from_wire(wire: BudgetWire, issues: Findings, pods: Iterable[Pod] = ()) -> DisruptionBudget | None:
    """The budget; None: it selects no pod.

    Without a status it allows what its controller would compute for these pods.
    """
    spec, about = wire.spec or BudgetSpecWire(), wire.metadata
    if spec.selector is None:
        # In policy/v1, no selector matches no pod, and an empty selector matches every pod.
        return None
    for name, value in (("minAvailable", spec.min_available), ("maxUnavailable", spec.max_unavailable)):
        if isinstance(value, str) and not _PERCENTAGE.fullmatch(value):
            issues.invalid(f"spec.{name}", value, "must be a whole number or a percentage")
    requirements = tuple(label_selector(spec.selector, "spec.selector", issues))
    budget = DisruptionBudget(about.namespace or "default", about.name or "", requirements, 0)
    allowed = wire.status.disruptions_allowed if wire.status is not None else None
    if allowed is None:
        allowed = _allowed(spec, list(filter(budget.counts, pods)))
    return replace(budget, allowed=max(0, allowed))


def _allowed(spec: BudgetSpecWire, pods: list[Pod]) -> int:
    """How many of the selected pods may be evicted: as many as are healthy beyond the minimum."""
    healthy = sum(pod.phase == "Running" and not pod.deleting for pod in pods)
    if spec.max_unavailable is not None:
        return healthy - (len(pods) - _amount(spec.max_unavailable, len(pods)))
    return healthy - _amount(1 if spec.min_available is None else spec.min_available, len(pods))


def _amount(value: int | str, pods: int) -> int:
    """Return a number, or a percentage of the pods, rounded up. Invalid values were already reported."""
    if isinstance(value, int):
        return value
    return -(-pods * int(value[:-1]) // 100) if _PERCENTAGE.fullmatch(value) else 0

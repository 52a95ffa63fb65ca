"""PodDisruptionBudgets: whether they allow that some pods are evicted together (rule F4).

They are read when it is asked, which is seldom: nothing watches them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ringwise.framework.selectors import all_hold
from ringwise.grammar import counted
from ringwise.kubeclient.client import PAGE_SIZE, Client
from ringwise.kubeclient.list_watch import page_reader
from ringwise.kubeclient.resources import DISRUPTION_BUDGETS, PODS
from ringwise.manifests.objects.disruption_budgets import BudgetStatusWire, BudgetWire, budget_from_wire
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.wire import ObjectWire
from ringwise.scheduler.defragment.movable import DisruptionBudget


async def held_back(client: Client, namespace: str, pods: Sequence[Mapping[str, str]]) -> list[str]:
    """Of each pod, by its labels: which budgets of the namespace do not allow to evict all of them together.

    Empty: none. Raises ApiError or UnreachableError.
    """
    return _held_back(await read_budgets(client, namespace), pods)


async def pods_held_back(client: Client, namespace: str, names: Sequence[str]) -> list[str]:
    """The same of pods whose labels are not at hand. They are read only where there is a budget."""
    budgets = await read_budgets(client, namespace)
    if not budgets:
        return [""] * len(names)
    return _held_back(budgets, [await _labels(client, namespace, name) for name in names])


async def _labels(client: Client, namespace: str, name: str) -> Mapping[str, str]:
    """None of a pod that is gone."""
    pod = await client.find(PODS, namespace, name, ObjectWire) or ObjectWire()
    return {key: value or "" for key, value in (pod.metadata.labels or {}).items()}


def _held_back(budgets: Iterable[DisruptionBudget], pods: Sequence[Mapping[str, str]]) -> list[str]:
    problems: list[list[str]] = [[] for _ in pods]
    for budget in budgets:
        counted_pods = [all_hold(budget.selector, labels) for labels in pods]
        problem = _problem(budget, sum(counted_pods))
        for own, counts in zip(problems, counted_pods, strict=True):
            if counts and problem:
                own.append(problem)
    return [joined(own) for own in problems]


def joined(problems: Iterable[str]) -> str:
    """Join the first three of the problems, each once."""
    return "; ".join(sorted({*filter(None, problems)})[:3])


async def read_budgets(client: Client, namespace: str | None = None) -> list[DisruptionBudget]:
    """The budgets of a namespace, or all. Raises ApiError or UnreachableError."""
    result: list[DisruptionBudget] = []
    async for page in client.pages(
        DISRUPTION_BUDGETS.path(namespace), {}, PAGE_SIZE, page_reader(BudgetWire)
    ):
        for wire in page.items or ():
            # A budget without a status allows no eviction, as in the API server.
            wire.status = wire.status or BudgetStatusWire(0)
            budget = budget_from_wire(wire, Findings("PodDisruptionBudget"))
            result += [] if budget is None else [budget]
    return result


def _problem(budget: DisruptionBudget, wanted: int) -> str:
    if wanted <= budget.allowed:
        return ""
    allowed = counted(budget.allowed, "eviction")
    return f"disruption budget {budget.name} allows {allowed}, and {wanted} would be needed"

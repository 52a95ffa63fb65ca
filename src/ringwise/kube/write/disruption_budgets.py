"""PodDisruptionBudgets: whether they allow that some pods are evicted together (rule F4).

They are read when it is asked, which is seldom: nothing watches them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ringwise.framework.selectors import all_hold
from ringwise.grammar import counted
from ringwise.kubeclient.client import PAGE_SIZE, Client
from ringwise.kubeclient.list_watch import page_reader
from ringwise.kubeclient.resources import DISRUPTION_BUDGETS
from ringwise.manifests.objects.affinity import label_selector
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.wire import LabelSelectorWire, MetaWire, WireStruct
from ringwise.scheduler.defragment.movable import DisruptionBudget


class _Spec(WireStruct):
    selector: LabelSelectorWire | None = None


class _Status(WireStruct):
    disruptions_allowed: int | None = None


class BudgetWire(WireStruct):
    metadata: MetaWire | None = None
    spec: _Spec | None = None
    status: _Status | None = None


async def held_back(client: Client, namespace: str, pods: Sequence[Mapping[str, str]]) -> str:
    """Which budget of the namespace does not allow to evict all pods with these labels; empty: none.

    Raises ApiError or UnreachableError.
    """
    budgets = await read_budgets(client, namespace)
    return "; ".join(sorted(filter(None, (_problem(one, pods) for one in budgets)))[:3])


async def read_budgets(client: Client, namespace: str | None = None) -> list[DisruptionBudget]:
    """The budgets of a namespace, or all. Raises ApiError or UnreachableError."""
    found: list[DisruptionBudget] = []
    async for page in client.pages(
        DISRUPTION_BUDGETS.path(namespace), {}, PAGE_SIZE, page_reader(BudgetWire)
    ):
        found += filter(None, map(_budget, page.items or ()))
    return found


def _budget(budget: BudgetWire) -> DisruptionBudget | None:
    selector = budget.spec.selector if budget.spec is not None else None
    if selector is None:
        # Of policy/v1: no selector is no pod, an empty one is every pod.
        return None
    requirements = label_selector(selector, "spec.selector", Findings("PodDisruptionBudget"))
    # A budget that no controller has looked at yet allows nothing, as for the API server.
    allowed = (budget.status.disruptions_allowed if budget.status is not None else None) or 0
    about = budget.metadata or MetaWire()
    return DisruptionBudget(about.namespace or "", about.name or "", tuple(requirements), allowed)


def _problem(budget: DisruptionBudget, pods: Sequence[Mapping[str, str]]) -> str:
    wanted = sum(all_hold(budget.selector, labels) for labels in pods)
    if wanted <= budget.allowed:
        return ""
    allowed = counted(budget.allowed, "eviction")
    return f"disruption budget {budget.name} allows {allowed}, and {wanted} would be needed"

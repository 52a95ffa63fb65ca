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
    problems: list[str] = []
    path = DISRUPTION_BUDGETS.path(namespace)
    async for page in client.pages(path, {}, PAGE_SIZE, page_reader(BudgetWire)):
        problems += filter(None, (_problem(one, pods) for one in page.items or ()))
    return "; ".join(sorted(problems)[:3])


def _problem(budget: BudgetWire, pods: Sequence[Mapping[str, str]]) -> str:
    selector = budget.spec.selector if budget.spec is not None else None
    if selector is None:
        # Of policy/v1: no selector is no pod, an empty one is every pod.
        return ""
    requirements = label_selector(selector, "spec.selector", Findings("PodDisruptionBudget"))
    wanted = sum(all_hold(requirements, labels) for labels in pods)
    # A budget that no controller has looked at yet allows nothing, as for the API server.
    allowed = (budget.status.disruptions_allowed if budget.status is not None else None) or 0
    if wanted <= allowed:
        return ""
    name = (budget.metadata.name if budget.metadata is not None else None) or ""
    return f"disruption budget {name} allows {counted(allowed, 'eviction')}, and {wanted} would be needed"

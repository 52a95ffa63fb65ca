"""The documents of the dashboard about a whole cluster: those that commands print, made from a view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ringwise.apps.sources.documents import ClusterAnswers
from ringwise.scheduler.defragment.movable import DisruptionBudget
from ringwise.scheduler.explain.findings import Finding
from ringwise.scheduler.view import SchedulerView
from ringwise.views.cluster import ClusterObjects
from ringwise.views.dashboard_details import moves_document
from ringwise.views.kinds import OPERATIONS
from ringwise.views.lists import Listing
from ringwise.views.problems import problems_document
from ringwise.views.written_reasons import WrittenReasons

if TYPE_CHECKING:
    from ringwise.views.documents.dashboard import DashboardMovesDocument, DashboardProblemsDocument

#: Disruption budgets, and what could not be read of them.
BudgetsRead = tuple[Sequence[DisruptionBudget], Sequence[str]]
#: Rows of a list.
MAX_ROWS = 1000


class ViewAnswers(ClusterAnswers):
    """Answers of a scheduler that may have no other objects than those that it decides with."""

    def __init__(
        self,
        view: SchedulerView,
        now: int,
        budgets: BudgetsRead = ((), ()),
        reported: Sequence[Finding] = (),
        written: WrittenReasons | None = None,
        *,
        renews_reports: bool = True,
    ) -> None:
        """`reported`, `written` and `renews_reports` are those of the document of problems."""
        self._view = view
        self._now = now
        self._budgets = budgets
        self._problems = partial(
            problems_document, view, now, reported, written, renews_reports=renews_reports
        )

    @property
    def now(self) -> int:
        return self._now

    @property
    def objects(self) -> ClusterObjects:
        view = self._view
        return ClusterObjects(
            view,
            self._now,
            [node for node in view.cluster.nodes if node is not None],
            [pod for job in view.jobs.values() for pod in job.pods.values()],
            [job.group for job in view.jobs.values() if job.group is not None],
            list(view.queues.values()),
            list(view.vcjobs.values()),
        )

    def _disruption_budgets(self) -> BudgetsRead:
        return self._budgets

    def problems(self) -> DashboardProblemsDocument:
        return self._problems()

    def moves(self) -> DashboardMovesDocument:
        return moves_document(self._view, self._now)


def _list(kind: str) -> Callable[[ViewAnswers], object]:
    return lambda answers: answers.get(kind, Listing(limit=MAX_ROWS))


#: By the names that they have in `ringwise.web.openapi`.
CLUSTER_DOCUMENTS: dict[str, Callable[[ViewAnswers], object]] = {
    "problems": ViewAnswers.problems,
    "limits": ViewAnswers.limits,
    "moves": ViewAnswers.moves,
    "defrag-plan": ViewAnswers.defrag_plan,
    **{kind.plural: _list(kind.plural) for kind in OPERATIONS},
}

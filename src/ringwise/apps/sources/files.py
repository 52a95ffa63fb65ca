"""Answers about the cluster that manifests describe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ringwise.apps.loading import LoadedCluster, assumed_chips, queue_notes
from ringwise.apps.place import place
from ringwise.apps.sources.objects import Notify, ObjectAnswers
from ringwise.apps.sources.protocol import NotAnsweredError
from ringwise.durations import time_text
from ringwise.framework.configuration import Configuration
from ringwise.grammar import counted
from ringwise.manifests.bundle import Bundle
from ringwise.manifests.objects.disruption_budgets import budget_from_wire
from ringwise.manifests.text.errors import Findings
from ringwise.scheduler.defragment.movable import DisruptionBudget
from ringwise.scheduler.job_states import would_be_nodes
from ringwise.scheduler.journal import Journal
from ringwise.scheduler.view import SchedulerView
from ringwise.topology.boards import BoardCatalog
from ringwise.views.place import place_document

if TYPE_CHECKING:
    from ringwise.views.documents.explain import EventsDocument, HistoryDocument
    from ringwise.views.documents.place import PlaceDocument


class FilesSource(ObjectAnswers):
    def __init__(
        self,
        bundle: Bundle,
        configuration: Configuration,
        catalog: BoardCatalog,
        board_files: tuple[Path, ...] = (),
        *,
        now: int | None = None,
        skip_bad_pods: bool = False,
        notify: Notify = lambda line: None,
    ) -> None:
        """`now`: nanoseconds; None: the newest timestamp of the objects."""
        super().__init__(catalog, board_files, notify, skip_bad_pods=skip_bad_pods)
        self._bundle = bundle
        self._configuration = configuration
        self._now = bundle.newest_timestamp if now is None else now
        #: The scheduler that placed the jobs last.
        self.placed: SchedulerView | None = None

    @property
    def bundle(self) -> Bundle:
        return self._bundle

    @property
    def configuration(self) -> Configuration:
        return self._configuration

    @property
    def now(self) -> int:
        return self._now

    def _disruption_budgets(self) -> tuple[Sequence[DisruptionBudget], Sequence[str]]:
        pods = [placement.pod for placement in self.objects.view.cluster.pods.values()]
        budgets = (
            budget_from_wire(one, Findings("PodDisruptionBudget"), pods)
            for one in self._bundle.disruption_budgets
        )
        return [budget for budget in budgets if budget is not None], ()

    def report_moment(self) -> None:
        """Print a note that the files are shown before any decision, if a decision would change something."""
        decided: LoadedCluster | None = vars(self).get("_after_a_cycle")
        objects = (decided or self._as_read).objects
        unbound = [pod for pod in objects.pods if pod.node is None and pod.live and objects.view.is_ours(pod)]
        if unbound and (decided is None or would_be_nodes(objects.view, unbound)):
            moment = f" as of {time_text(self._now)}" if self._now else ""
            missing = counted(unbound, "pod has", "pods have")
            self._notify(f"note: shows the files{moment} before any scheduling decision; {missing} no node")

    def history(self, job: str, namespace: str | None = None) -> HistoryDocument:
        raise NotAnsweredError("manifests have no history; use --journal FILE, or query a lab")

    def events(self, namespace: str | None = None, limit: int = 0) -> EventsDocument:
        raise NotAnsweredError("manifests have no history; use --journal FILE, or query a lab")

    def place(
        self,
        manifests: Bundle,
        *,
        scores: bool = False,
        pictures: bool = False,
        everything: bool = False,
        journal: Journal | None = None,
    ) -> PlaceDocument:
        """Where the jobs of the manifests would be placed, on the nodes that are among them.

        `everything`: also jobs that run. `journal` records the decisions. Raises BadObjectsError.
        """
        answer = place(
            manifests,
            self._configuration,
            self.catalog,
            now=self._now,
            scores=scores,
            everything=everything,
            journal=journal,
        )
        self._check(answer.errors)
        self.placed = answer.view
        for note in (*manifests.notes, *queue_notes(manifests)):
            self._notify(f"note: {note}")
        for job in answer.view.jobs.values():
            for why in job.refused_classes.values():
                self._notify(f"note: job {job.namespace}/{job.name}: {why}")
        if answer.not_searched:
            self._notify(
                f"note: fixes were not searched for {counted(answer.not_searched, 'job')}; use "
                "ringwise why JOB -f ..."
            )
        assumed = assumed_chips(answer.view)
        if assumed:
            shown = ", ".join(assumed[:3]) + (", ..." if len(assumed) > 3 else "")
            self._notify(
                f"note: {counted(assumed, 'node lists', 'nodes list')} no chips, 0..n-1 are assumed: {shown}"
            )
        return place_document(answer, pictures=pictures)

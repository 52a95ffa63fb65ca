"""Answers of the dashboard that take long: about one job, one manifest or the whole cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from ringwise.apps.forked_queries import ForkedQueries, QuestionFailedError, TooManyQuestionsError
from ringwise.apps.job_history import UnknownHistoryError, history_of
from ringwise.apps.journal.format import JournalError
from ringwise.apps.place import AlreadyThereError, what_if
from ringwise.apps.queries import explain_job
from ringwise.apps.sources.documents import ClusterAnswers
from ringwise.grammar import counted
from ringwise.manifests.bundle import Bundle, read_text
from ringwise.records import dataclass
from ringwise.scheduler.defragment.movable import BudgetReader, DisruptionBudget, no_budgets
from ringwise.scheduler.explain.findings import Finding
from ringwise.scheduler.explain.why import UnknownJobError
from ringwise.scheduler.view import SchedulerView
from ringwise.views.cluster import ClusterObjects, vcjob_view
from ringwise.views.dashboard_details import moves_document
from ringwise.views.documents.accounting import GroupBy, ReportDocument
from ringwise.views.documents.explain import HistoryDocument, WhyDocument
from ringwise.views.documents.place import PlaceDocument
from ringwise.views.explain import document_without_gang, explanation_document
from ringwise.views.history import history_document
from ringwise.views.kinds import OPERATIONS
from ringwise.views.lists import Listing
from ringwise.views.place import place_document
from ringwise.views.problems import problems_document
from ringwise.views.report import ReportPeriod, report_document
from ringwise.views.written_reasons import WrittenReasons
from ringwise.web.application import Asker
from ringwise.web.guard import RequestRefusedError
from ringwise.web.hub import Core, WatchedScheduler

if TYPE_CHECKING:
    from ringwise.views.documents.dashboard import DashboardMovesDocument, DashboardProblemsDocument

Value = TypeVar("Value")

#: Names and texts.
Documents = Sequence[tuple[str, str]]
ReadAccounts = Callable[[], Awaitable[Documents]]

#: Seconds for which a document about the whole cluster is good, and how many times as long as making it took.
DOCUMENT_PERIOD, SPARED = 3.0, 10.0
#: Pods of one manifest in a what-if.
MAX_PODS = 20_000
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


ReadFindings = Callable[[], Awaitable[Sequence[Finding]]]


class Recent(Generic[Value]):
    """Reads a value at most once in so many seconds, for all callers."""

    def __init__(
        self,
        read: Callable[[], Awaitable[Value]],
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        spared: float = 0.0,
    ) -> None:
        """`spared`: at most once in so many times the time that a read takes, if that is longer."""
        self._read, self._seconds, self._spared, self._clock = read, seconds, spared, clock
        self._turn = asyncio.Lock()
        #: When the value expires, and the value.
        self._last: tuple[float, Value] | None = None

    async def __call__(self) -> Value:
        async with self._turn:
            began = self._clock()
            if self._last is None or began >= self._last[0]:
                value = await self._read()
                # A server that is slow to answer is asked once for all who wait.
                ended = self._clock()
                self._last = ended + max(self._seconds, self._spared * (ended - began)), value
            return self._last[1]


async def no_findings() -> Sequence[Finding]:
    return ()


@dataclass(slots=True, eq=False)
class SchedulerAnswers:
    """The questions are answered by copies of this process: they take no time of the scheduler's thread."""

    core: Core
    #: The files with the history of the cluster, oldest first; None: there are none.
    journals: Callable[[], Sequence[Path]] | None = None
    forked_queries: ForkedQueries = field(default_factory=ForkedQueries)
    #: Reads those of the cluster; None: it has none.
    disruption_budgets: Callable[[], Awaitable[BudgetsRead]] | None = None
    #: Reads names and texts of the documents of accounting; None: none are kept.
    accounts: ReadAccounts | None = None
    #: These three are those of the document of problems.
    reported: ReadFindings = no_findings
    written: WrittenReasons | None = None
    renews_reports: bool = True
    #: By name.
    _documents: dict[str, Recent[_Document]] = field(init=False, default_factory=dict)

    async def why(self, asker: Asker, namespace: str, name: str) -> Mapping[str, Any]:
        read = await self._read_budgets()
        return await self._answer(lambda scheduler, now: _why(scheduler, now, namespace, name, lambda: read))

    async def history(self, asker: Asker, namespace: str, name: str) -> Mapping[str, Any]:
        journals = [] if self.journals is None else [path for path in self.journals() if path.exists()]
        if not journals:
            raise RequestRefusedError(404, "no-journal", "no journal contains the history of the job")
        return await self._answer(lambda scheduler, now: _history(journals, now, namespace, name))

    async def what_if(self, asker: Asker, text: bytes) -> Mapping[str, Any]:
        return await self._answer(lambda scheduler, now: _what_if(scheduler, now, _read(text)))

    async def report(self, asker: Asker, by: GroupBy, days: int) -> Mapping[str, Any]:
        if self.accounts is None:
            raise RequestRefusedError(404, "no-accounting", "accounting documents are not stored here")
        documents = await self.accounts()
        return await self._answer(lambda scheduler, now: _report(documents, now, by, days))

    async def document(self, asker: Asker, name: str) -> Mapping[str, Any]:
        """Many ask for it again and again, so it is made now and then: rarely if it takes long."""
        recent = self._documents.get(name)
        if recent is None:
            recent = self._documents[name] = Recent(partial(self._make, name), DOCUMENT_PERIOD, spared=SPARED)
        return await recent()

    async def _make(self, name: str) -> _Document:
        budgets = await self._read_budgets()
        reported = await self.reported() if name == "problems" else ()

        def make(scheduler: WatchedScheduler, now: int) -> object:
            beside = budgets, reported, self.written
            answers = ViewAnswers(scheduler.view, now, *beside, renews_reports=self.renews_reports)
            return CLUSTER_DOCUMENTS[name](answers)

        return await self._answer(make)

    async def _read_budgets(self) -> BudgetsRead:
        # A copy of the process has no connections.
        return no_budgets() if self.disruption_budgets is None else await self.disruption_budgets()

    async def _answer(self, question: Callable[[WatchedScheduler, int], object]) -> _Document:
        """Raises RequestRefusedError and NotLeadingError."""
        try:
            answer = await self.forked_queries.answer(
                self.core.copy, lambda scheduler, now: _encoded(question, scheduler, now)
            )
        except TooManyQuestionsError as error:
            raise RequestRefusedError(503, "busy", str(error)) from None
        except QuestionFailedError as error:
            raise RequestRefusedError(500, "no-answer", str(error)) from None
        reply = _QUERY_RESULT.decode(answer)
        if reply.refused is not None:
            raise RequestRefusedError(*reply.refused)
        document: _Document = reply.document
        return document


_Document = dict[str, Any]


class _QueryResult(msgspec.Struct):
    """What comes through the pipe: a document, or status, code and message of a refusal."""

    document: Any = None
    refused: tuple[int, str, str] | None = None


_QUERY_RESULT = msgspec.json.Decoder(_QueryResult)


def _encoded(
    question: Callable[[WatchedScheduler, int], object], scheduler: WatchedScheduler, now: int
) -> bytes:
    try:
        made = _QueryResult(question(scheduler, now))
    except RequestRefusedError as error:
        made = _QueryResult(refused=(error.status, error.code, str(error)))
    return msgspec.json.encode(made)


def _report(documents: Documents, now: int, by: GroupBy, days: int) -> ReportDocument:
    today = datetime.fromtimestamp(now // 1_000_000_000, UTC).date()
    first = today - timedelta(days=days - 1)
    return report_document(documents, ReportPeriod(first.isoformat(), today.isoformat()), by, now)


def _history(journals: Sequence[Path], now: int, namespace: str, name: str) -> HistoryDocument:
    try:
        recorded = history_of(f"{namespace}/{name}", journals)
    except (UnknownHistoryError, JournalError) as error:
        raise RequestRefusedError(404, "not-found", str(error)) from None
    return history_document(recorded.history, now)


def _why(
    scheduler: WatchedScheduler, now: int, namespace: str, name: str, budgets: BudgetReader
) -> WhyDocument:
    view = scheduler.view
    try:
        return explanation_document(explain_job(view, now, f"{namespace}/{name}", budgets), now)
    except UnknownJobError as error:
        vcjob = view.vcjobs.get(f"{namespace}/{name}")
        if vcjob is None:
            raise RequestRefusedError(404, "not-found", str(error)) from None
        shown = vcjob_view(view, vcjob, None, [])
        return document_without_gang(shown, now)


def _read(text: bytes) -> Bundle:
    """Raises RequestRefusedError."""
    bundle = read_text(text, "manifest")
    if bundle.errors:
        raise RequestRefusedError(400, "bad-manifest", "\n".join(str(error) for error in bundle.errors[:50]))
    if not (bundle.vcjobs or bundle.pod_groups or bundle.pods):
        raise RequestRefusedError(400, "bad-manifest", "the manifest contains no job, PodGroup or pod")
    pods = len(bundle.pods) + sum(vcjob.replicas for vcjob in bundle.vcjobs)
    if pods > MAX_PODS:
        raise RequestRefusedError(
            400,
            "bad-manifest",
            f"the manifest has {counted(pods, 'pod')}; the limit of a what-if is {MAX_PODS}",
        )
    return bundle


def _what_if(scheduler: WatchedScheduler, now: int, submitted: Bundle) -> PlaceDocument:
    """Raises RequestRefusedError."""
    try:
        return place_document(what_if(scheduler.view, now, submitted))
    except AlreadyThereError as error:
        raise RequestRefusedError(400, "already-there", str(error)) from None

"""The lab's local API: JSON over a socket in its folder, on the thread that owns the lab.

Every change is made from beginning to end before the next request and before the next turn of the lab, so no
request sees a partial change, and what was answered is on disk. Short questions are answered in the same way;
long ones by a copy of the process as it is between two turns, while the lab continues.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from ringwise import __version__
from ringwise.apps.estimating import Answer, StartEstimator
from ringwise.apps.extensions import plugin_problems
from ringwise.apps.forked_queries import (
    PAUSE_OF_LAB,
    Copy,
    ForkedQueries,
    Progress,
    QuestionFailedError,
    TooManyQuestionsError,
)
from ringwise.apps.lab import requests
from ringwise.apps.lab.client import ALREADY_EXISTS, LINES, PLUGIN_PROBLEMS, PROGRESS, VERSION
from ringwise.apps.lab.faults import faults_now
from ringwise.apps.lab.lab import OTHERS, LiveLab, SubmitReply
from ringwise.apps.lab.maintenance import affected_jobs
from ringwise.apps.lab.queries import QUERIES, LabAnswers, Parameters, Query, time_ahead
from ringwise.apps.lab.submission import Submission
from ringwise.apps.moves import progress_of
from ringwise.apps.sources.documents import all_names, find_name
from ringwise.apps.suspension import (
    ACTIONS,
    JobChangeRequest,
    NotPossibleError,
    job_change_document,
    message_of,
)
from ringwise.apps.targets import (
    NODE,
    SUPERPOD,
    UnknownTargetError,
    find_target,
    isolation_answer,
    isolation_of,
    named,
)
from ringwise.embed.objects import ConflictError
from ringwise.embed.records import AlreadyExistsError, ObjectRefusedError
from ringwise.kubeclient.tasks import running
from ringwise.manifests.bundle import missing_classes
from ringwise.manifests.objects.custom_resources import CustomResourceWire
from ringwise.manifests.objects.move_plans import move_plan_from_wire
from ringwise.manifests.text.errors import DocumentError, Findings
from ringwise.messages.events import Event
from ringwise.scheduler.explain.reserving import NotReservableError
from ringwise.scheduler.view import SchedulerView
from ringwise.state.model import Isolation, Pod, PodGroup, PriorityClass
from ringwise.state.vcjob import VcJob
from ringwise.views.changes import cordon_change, node_change, reservation_change
from ringwise.views.cluster import (
    ClusterObjects,
    JobView,
    job_views,
    not_placed,
    with_reasons,
)
from ringwise.views.documents.changes import (
    AdvanceDocument,
    DeletedFields,
    DeleteDocument,
    SubmitDocument,
)
from ringwise.views.documents.maintenance import FaultChangeDocument
from ringwise.views.kinds import BY_PLURAL, KINDS
from ringwise.views.names import UnknownNameError
from ringwise.views.reservations import reservation_documents, reservation_of_fields

#: A submission of fifty thousand pods is some sixty megabytes.
MAX_BYTES = 1 << 30
#: Jobs that are not placed and are explained in one answer to `submit`; `why` explains each.
EXPLAINED = 10
#: Seconds between two looks at when waiting jobs start, for the dashboard.
ESTIMATE_INTERVAL = 10.0
#: Questions that try placements, or read a whole journal.
LONG_QUERIES = frozenset(
    {
        "capacity",
        "defrag-plan",
        "describe",
        "doctor",
        "drain",
        "drain-plan",
        "events",
        "moves",
        "place",
        "history",
        "why",
    }
)

#: Raised before anything was changed.
_REFUSALS = (
    *(ObjectRefusedError, ConflictError, NotPossibleError),
    *(UnknownNameError, UnknownTargetError, NotReservableError, DocumentError),
)


def _tries_placements(live: LiveLab, question: str, parameters: Parameters) -> bool:
    """Whether the answer has reasons of pending jobs, for which placements are tried."""
    kind = BY_PLURAL.get(parameters.get("kind", "")) if question == "get" else None
    if question != "top" and (kind is None or not kind.has_reasons):
        return False
    return any(job.reason is not None for job in live.view.jobs.values())


#: How each change is made, and the request that it decodes, strictly, whoever sends it.
_CHANGES: dict[str, tuple[type[msgspec.Struct], Callable[[LabServer, str, Any], Any]]] = {}
Change = TypeVar("Change", bound=Callable[..., Any])


def _change(request: type[msgspec.Struct], *actions: str) -> Callable[[Change], Change]:
    def add(change: Change) -> Change:
        _CHANGES.update(dict.fromkeys(actions, (request, change)))
        return change

    return add


class LabServer:
    """Runs the turns of a lab by its clock, and answers requests."""

    def __init__(
        self,
        live: LiveLab,
        dashboard: AbstractAsyncContextManager[object] | None = None,
        forked_queries: ForkedQueries | None = None,
    ) -> None:
        """`dashboard` is open while the lab runs; `forked_queries` answers its long questions, too."""
        self.live = live
        self._forked_queries = forked_queries or ForkedQueries(pause=PAUSE_OF_LAB)
        self._dashboard = dashboard or nullcontext()
        #: Only the dashboard needs estimates at all times: commands request new ones.
        self._estimates = dashboard is not None
        self._wake = asyncio.Event()
        self._stopped = asyncio.Event()
        #: The error that ended the lab.
        self.failure: Exception | None = None

    # -- life -------------------------------------------------------------------------------

    async def run(self, on_turn: Callable[[], None] | None = None) -> None:
        """Run until `stop`, a signal, or an internal error."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, self.stop)
        estimating = {"estimates": self._new_estimator().run()} if self._estimates else {}
        async with self._serving(), self._dashboard, running(**estimating):
            while not self._stopped.is_set():
                self._wake.clear()
                self._guarded(self.live.turn)
                if on_turn is not None:
                    on_turn()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), self.live.seconds_to_next())
        if self.failure is not None:
            raise self.failure
        # The time of the stop is stored, too: time in a lab never goes back.
        self.live.turn()

    def _new_estimator(self) -> StartEstimator:
        async def deciding(work: Callable[[SchedulerView, int], Answer]) -> Answer:
            return work(self.live.view, self.live.now)

        def send(events: Sequence[Event]) -> None:
            self.live.lab.inject(*events)
            self._wake.set()

        return StartEstimator(self._forked_queries, deciding, send, ESTIMATE_INTERVAL)

    def stop(self) -> None:
        self._stopped.set()
        self._wake.set()

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        application = web.Application(client_max_size=MAX_BYTES)
        application.add_routes(
            [
                web.post("/v1/queries/{query}", self._answering(self._answer_query)),
                web.post("/v1/actions/{action}", self._answering(self._run_action)),
            ]
        )
        # A client that goes away ends the copy that looks for its answer. Changes are made in one piece.
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=1, handler_cancellation=True)
        await runner.setup()
        socket = self.live.folder.listen()
        try:
            await web.SockSite(runner, socket).start()
            yield
        finally:
            await runner.cleanup()
            self.live.folder.socket.unlink(missing_ok=True)

    def _guarded(self, work: Callable[[], Any]) -> Any:
        """Run work that changes the lab. An unexpected error ends the lab; the folder stays consistent."""
        try:
            return work()
        except _REFUSALS:
            raise
        except Exception as error:
            self.failure = error
            self.stop()
            raise

    # -- requests -----------------------------------------------------------------------------

    def _answering(
        self, handler: Callable[[web.Request, bytes, _ProgressStream], Any]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(request: web.Request) -> web.StreamResponse:
            body = await request.read()
            # Clients are other processes: they repeat what is wrong with the plugins of this one.
            headers = {PLUGIN_PROBLEMS: json.dumps(plugin_problems()), VERSION: __version__}
            stream = _ProgressStream(request, headers)
            status = 200
            try:
                document = handler(request, body, stream)
                if inspect.isawaitable(document):
                    document = await document
            except Exception as error:
                status, message = _problem(error)
                document = {"error": message}
            if stream.response.prepared:
                await stream.write({"status": status, "document": document})
                return stream.response
            return web.Response(
                status=status,
                body=msgspec.json.encode(document),
                content_type="application/json",
                headers=headers,
            )

        return answer

    def _answer_query(self, request: web.Request, body: bytes, stream: _ProgressStream) -> Any:
        name = request.match_info["query"]
        query = QUERIES.get(name)
        if query is None:
            raise ObjectRefusedError(f"the lab does not support the query {name}; check its version")
        parameters = msgspec.json.decode(body or b"{}", type=dict[str, Any])
        answers = LabAnswers(self.live)
        progress = stream.progress if PROGRESS in request.headers else None
        if name in LONG_QUERIES:
            return self._copied(lambda: query(answers, parameters), progress)
        if _tries_placements(self.live, name, parameters):
            return self._list_of_jobs(query, parameters, progress)
        return query(answers, parameters)

    async def _list_of_jobs(self, query: Query, parameters: Parameters, progress: Progress | None) -> Any:
        """With what was expected last, where there is no room for a copy: a list is never refused."""
        try:
            return await self._copied(lambda: query(LabAnswers(self.live), parameters), progress)
        except (TooManyQuestionsError, QuestionFailedError):
            return query(LabAnswers(self.live, estimates_anew=False), parameters)

    async def _copied(self, question: Callable[[], Any], progress: Progress | None = None) -> msgspec.Raw:
        """The answer of a copy of the lab. Raises _Refused, TooManyQuestionsError, QuestionFailedError."""

        sent = await self._forked_queries.answer(_between_turns, lambda: _sent(question), progress)
        reply = _SENT.decode(sent)
        if reply.status:
            raise _Refused(reply.status, reply.error)
        return reply.document

    @_change(Submission, "submit")
    def _submit(self, _action: str, submission: Submission) -> Callable[[Progress | None], Awaitable[Any]]:
        if submission.dry_run:
            return lambda _: self._copied(lambda: self._answer_to(submission, *self.live.dry_run(submission)))
        answer = self.live.submit(submission)
        return lambda progress: self._submitted(submission, answer, progress)

    async def _submitted(self, submission: Submission, answer: SubmitReply, progress: Progress | None) -> Any:
        """What was submitted is stored, whether or not fixes can be looked for now."""
        if progress is not None:
            # The acknowledgment: to explain jobs may take longer than a client waits.
            await progress(0)
        objects = self.live.objects
        views = _jobs_of(objects, answer.jobs)
        if not_placed(views):
            with suppress(TooManyQuestionsError, QuestionFailedError, _Refused):
                return await self._copied(lambda: self._answer_to(submission, answer, objects), progress)
        return self._document(submission, answer, with_reasons(objects, views))

    def _answer_to(self, submission: Submission, answer: SubmitReply, objects: ClusterObjects) -> Any:
        views = self._explained(objects, _jobs_of(objects, answer.jobs))
        return self._document(submission, answer, views)

    def _explained(self, objects: ClusterObjects, views: list[JobView]) -> list[JobView]:
        """Add verified fixes to the first jobs that are not placed; for all jobs it would take minutes."""
        waiting = not_placed(views)
        with_reasons(objects, waiting[:EXPLAINED], fixes=True)
        with_reasons(objects, waiting[EXPLAINED:])
        return views

    def _document(self, submission: Submission, answer: SubmitReply, views: Iterable[JobView]) -> Any:
        classes = [one.name for one in self.live.cluster.all(PriorityClass)]
        classes += [one.name for one in submission.of(PriorityClass)]
        notes = missing_classes(submission.of(VcJob), submission.of(PodGroup), submission.of(Pod), classes)
        return SubmitDocument(
            dry_run=submission.dry_run,
            objects=answer.objects,
            jobs=[view.document() for view in views],
            notes=list(notes),
        )

    def _run_action(self, request: web.Request, body: bytes, stream: _ProgressStream) -> Any:
        action = request.match_info["action"]
        if action not in _CHANGES:
            raise ObjectRefusedError(f"the lab does not support {action}")
        kind, change = _CHANGES[action]
        wanted = msgspec.json.decode(body or b"{}", type=kind)
        document = self._guarded(lambda: change(self, action, wanted))
        self._wake.set()
        if callable(document):
            # What takes long, and says how far it is.
            return document(stream.progress if PROGRESS in request.headers else None)
        return document

    @_change(requests.NodeRequest, "cordon", "uncordon")
    def _change_node(self, action: str, request: requests.NodeRequest) -> Any:
        node = find_name(self.live.objects, "node", request.node)
        changed = self.live.cordon([node], on=action == "cordon")
        return cordon_change(node, action, self.live.cluster.all(Isolation), changed=changed)

    @_change(requests.DeleteRequest, "delete")
    def _delete(self, _action: str, request: requests.DeleteRequest) -> Any:
        chosen = _chosen(self.live, request)
        self.live.delete(chosen, dry_run=request.dry_run)
        deleted = [DeletedFields(kind=kind, name=key) for kind, key in chosen]
        return DeleteDocument(deleted=deleted)

    @_change(requests.AdvanceRequest, "advance")
    def _advance(self, _action: str, request: requests.AdvanceRequest) -> Any:
        self.live.advance(request.nanoseconds)
        return AdvanceDocument(now=self.live.cluster.now)

    @_change(requests.WaitRequest, "wait")
    def _wait(self, _action: str, request: requests.WaitRequest) -> Any:
        """The jobs that were asked for. In virtual time, after the events until they have started."""
        live, limit = self.live, request.until

        def jobs() -> list[JobView]:
            return _jobs_of(live.objects, request.jobs)

        def settled() -> bool:
            return all(view.started or view.requires_change or view.outcome == "rejected" for view in jobs())

        live.advance_until(settled, limit)
        done = settled()
        over = not done and self._is_over(limit)

        def answer(views: list[JobView]) -> dict[str, Any]:
            return {"now": live.now, "settled": done, "over": over, "jobs": [one.document() for one in views]}

        waiting = not_placed(jobs()) if done or over else []
        if not waiting:
            return answer(with_reasons(live.objects, jobs()))
        return self._copied(lambda: answer(self._explained(live.objects, jobs())))

    def _is_over(self, limit: int) -> bool:
        """Whether nothing more will happen before the limit, after time has passed until then."""
        return self.live.settings.speed is None or self.live.now >= limit

    @_change(requests.DrainRequest, "drain")
    def _drain(self, _action: str, request: requests.DrainRequest) -> Any:
        """Cordon the nodes of a target and evict the pods of one job, or of all."""
        live, job = self.live, request.job
        target = find_target(live.view, request.target)
        views = [view for view in affected_jobs(live.objects, target.nodes) if job in (None, view.key)]
        leaving = [pod.key for view in views for pod in view.pods if pod.node in target.nodes and pod.live]
        live.cordon(target.nodes)
        live.evict(leaving)
        return node_change(target.name, "drain", leaving)

    @_change(requests.SettleRequest, "settle")
    def _settle(self, _action: str, request: requests.SettleRequest) -> Any:
        """Whether a job has left the nodes of a target and runs again; virtual time passes until then."""
        live, limit = self.live, request.until
        target = find_target(live.view, request.target)

        def settled() -> bool:
            jobs = _jobs_of(live.objects, [request.job])
            return all(
                view.started
                # Pods that have ended are not evicted.
                and not any(pod.live and (pod.deleting or pod.node in target.nodes) for pod in view.pods)
                for view in jobs
            )

        live.advance_until(settled, limit)
        done = settled()
        return {"now": live.now, "settled": done, "over": not done and self._is_over(limit)}

    @_change(requests.MoveRequest, "move")
    def _move(self, _action: str, request: requests.MoveRequest) -> Any:
        """M1: have a plan of moves carried out."""
        issues = Findings("MovePlan")
        plan = move_plan_from_wire(msgspec.convert(request.plan, CustomResourceWire), issues)
        if issues.errors:
            raise ObjectRefusedError(str(issues.errors[0]))
        self.live.move(plan)
        return {"now": self.live.now}

    @_change(requests.FollowRequest, "follow")
    def _follow(self, _action: str, request: requests.FollowRequest) -> Any:
        """How a plan of moves ended, if it has; virtual time passes until then."""
        live, limit, plan = self.live, request.until, request.name
        moves = live.view.history.moves
        live.advance_until(lambda: plan in moves.ended, limit)
        moves = live.view.history.moves
        ended, running = moves.ended.get(plan), moves.plans.get(plan)
        return {
            "now": live.now,
            "over": ended is None and self._is_over(limit),
            "result": None if ended is None else {"state": ended.outcome, "message": ended.why},
            "progress": progress_of(running),
        }

    @_change(requests.IsolateRequest, "isolate", "unisolate")
    def _isolate(self, action: str, request: requests.IsolateRequest) -> Any:
        live, text = self.live, request.target
        kind, name = named(text)
        if action == "isolate" or all(one.target != text for one in live.cluster.all(Isolation)):
            target = find_target(live.view, text)
            kind, name = target.kind, target.name
        start = None if request.at is None else time_ahead(live, request.at)
        wanted = isolation_of(kind, name, *request.chips, by=request.by, reason=request.reason, start=start)
        changed = live.isolate(wanted, on=action == "isolate")
        return isolation_answer(wanted, changed, live.now, live.cluster.all(Isolation))

    @_change(requests.UnreserveRequest, "unreserve")
    def _unreserve(self, action: str, request: requests.UnreserveRequest) -> Any:
        self.live.unreserve(request.name)
        return reservation_change(action, request.name)

    @_change(requests.ReserveRequest, "reserve")
    def _reserve(self, action: str, request: requests.ReserveRequest) -> Any:
        """Nodes for a queue or a namespace, as a plan has them."""
        live = self.live
        made = reservation_of_fields(request.reservation)
        live.reserve(made)
        (fields,) = reservation_documents(live.view, live.now, [made])
        return reservation_change(action, made.name, fields)

    @_change(requests.JobRequest, *ACTIONS)
    def _change_job(self, action: str, request: requests.JobRequest) -> Any:
        """Suspend, resume or requeue."""
        live = self.live
        key = find_name(live.objects, "job", request.job, request.namespace)
        change_request = JobChangeRequest(action, request.queue, request.priority)
        change = live.change_job(key, change_request, message_of(request.by, request.reason))
        namespace, _, name = key.partition("/")
        return job_change_document(namespace, name, "vcjob", action, change)

    @_change(requests.PassRequest, "pass")
    def _pass(self, _action: str, request: requests.PassRequest) -> Any:
        """Let virtual time pass until a moment; real time passes by itself."""
        live, until = self.live, request.until
        if live.settings.speed is None and until > live.now:
            live.advance(until - live.now)
        return {"now": live.now, "over": live.now >= until}

    @_change(requests.FaultRequest, "inject", "clear")
    def _fault(self, action: str, request: requests.FaultRequest) -> Any:
        """Inject or clear faults of one kind on a target; `clear` without a kind clears all."""
        live = self.live
        before = faults_now(live.cluster)
        if request.kind is None:
            if action == "inject":
                raise ObjectRefusedError("the request does not name a kind of fault")
            live.clear_faults(None, ())
        else:
            nodes = _fault_nodes(live, request)
            if action == "inject":
                live.inject_fault(
                    request.kind,
                    nodes,
                    chips=request.chips,
                    level=request.level,
                    code=request.code,
                    status=request.status,
                )
            else:
                live.clear_faults(request.kind, nodes, chips=request.chips, code=request.code)
        now = faults_now(live.cluster)
        return FaultChangeDocument(
            injected=[row for row in now if row not in before],
            cleared=[row for row in before if row not in now],
        )


def _jobs_of(objects: ClusterObjects, keys: Iterable[str]) -> list[JobView]:
    wanted = set(keys)
    return [view for view in job_views(objects) if view.key in wanted]


def _chosen(live: LiveLab, request: requests.DeleteRequest) -> list[tuple[str, str]]:
    """The objects that a request names: (kind, key), each once."""
    namespace, every, objects = request.namespace, request.all, request.objects
    kinds = [kind.name for kind in KINDS if kind.is_deletable]
    strange = [kind for kind in (*(kind for kind, _ in objects), every) if kind not in (None, *kinds)]
    if strange:
        raise ObjectRefusedError(f"unknown kind {strange[0]}; must be one of {', '.join(kinds)}")
    if not objects and every is None:
        raise ObjectRefusedError("the request does not name objects")
    existing = live.objects
    chosen: dict[tuple[str, str], None] = {}
    unknown: list[str] = []
    for kind, name in objects:
        try:
            # A custom resource exists also if it is not in force.
            stored = live.cluster.table.get(OTHERS.get(kind, ""), name) is not None
            chosen[kind, name if stored else find_name(existing, kind, name, namespace)] = None
        except UnknownNameError as error:
            unknown.append(str(error))
    if unknown and not request.ignore_not_found:
        raise UnknownNameError("\n".join(unknown))
    if every is not None:
        custom = (one.key for one in live.cluster.table.all() if one.kind == OTHERS.get(every))
        for key in (*custom, *all_names(existing, every, namespace)):
            chosen[every, key] = None
    return list(chosen)


def _fault_nodes(live: LiveLab, request: requests.FaultRequest) -> tuple[str, ...]:
    """The nodes that a request breaks or heals. Raises UnknownTargetError."""
    text = request.target
    if request.kind == SUPERPOD and not text.startswith("superpod/"):
        text = f"superpod/{text}"
    target = find_target(live.view, text)
    if request.kind in ("chip", "network", "node") and target.kind != NODE:
        raise UnknownNameError(f"a fault of a {request.kind} requires a node, but {text} is a {target.kind}")
    return target.nodes


async def _between_turns(fork: Callable[[], list[Copy]]) -> list[Copy]:
    """The lab is on the event loop, and no turn of it is under way here."""
    return fork()


class _ProgressStream:
    """What a client hears before its answer: it begins with the first line of progress."""

    def __init__(self, request: web.Request, headers: Mapping[str, str]) -> None:
        self._request = request
        self.response = web.StreamResponse(headers={**headers, "Content-Type": LINES})

    async def progress(self, tried: int) -> None:
        if not self.response.prepared:
            await self.response.prepare(self._request)
        await self.write({"tried": tried})

    async def write(self, line: Mapping[str, Any]) -> None:
        await self.response.write(msgspec.json.encode(line) + b"\n")


class _Refused(Exception):
    """What a copy of the lab refused: the status, and the message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Sent(msgspec.Struct):
    """What a copy of the lab sends: an answer, or status and message of a refusal."""

    document: msgspec.Raw = msgspec.Raw(b"null")
    status: int = 0
    error: str = ""


_SENT = msgspec.json.Decoder(_Sent)


def _sent(question: Callable[[], Any]) -> bytes:
    try:
        return msgspec.json.encode(_Sent(msgspec.Raw(msgspec.json.encode(question()))))
    except Exception as error:
        status, message = _problem(error)
        return msgspec.json.encode(_Sent(status=status, error=message))


def _problem(error: Exception) -> tuple[int, str]:
    """Status and message of what went wrong with a request."""
    match error:
        case _Refused():
            return error.status, str(error)
        case msgspec.ValidationError():
            # Most likely of a command of another version, whose requests have another form.
            return 400, f"the request cannot be read by a lab of version {__version__}: {error}"
        case msgspec.MsgspecError() | RecursionError() | UnicodeError():
            return 400, f"the request cannot be decoded: {error}"
        case TooManyQuestionsError():
            return 503, str(error)
        case AlreadyExistsError():
            return ALREADY_EXISTS, str(error)
    if isinstance(error, (*_REFUSALS, LookupError)):
        return 409, str(error)
    return 500, f"internal error: {type(error).__name__}: {error}"


def run_lab(
    live: LiveLab,
    on_turn: Callable[[], None] | None = None,
    dashboard: Callable[[ForkedQueries], AbstractAsyncContextManager[object]] | None = None,
) -> None:
    """Run in the foreground until Ctrl-C; the folder is left complete."""

    async def main() -> None:
        forked_queries = ForkedQueries(pause=PAUSE_OF_LAB)
        page = None if dashboard is None else dashboard(forked_queries)
        await LabServer(live, page, forked_queries).run(on_turn)

    asyncio.run(main())

"""The history of a job of a live cluster, from Kubernetes Events on its PodGroup, its vcjob and its pods.

Most API servers keep Events for an hour; where the scheduler keeps a journal, that tells more. The Events are
read by the same `HistoryBook` as a journal: a binding, a deletion and a message about the job are the
commands that they were.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import msgspec

from ringwise.apps.job_history import RecordedHistories, RecordedHistory, find_history
from ringwise.apps.live import LiveCluster, NothingReadableError, read_cluster
from ringwise.durations import SECOND
from ringwise.kube.watch.kinds import WatchTarget
from ringwise.kube.write.event_recorder import COMPONENT
from ringwise.kubeclient.client import PAGE_SIZE, Client, IgnoredStatus
from ringwise.kubeclient.list_watch import page_reader
from ringwise.kubeclient.resources import EVENTS, POD_GROUPS, PODS, VCJOBS
from ringwise.manifests.bundle import Bundle
from ringwise.manifests.text.quantities import NotReadableError, nanoseconds
from ringwise.messages import events as ev
from ringwise.records import dataclass
from ringwise.scheduler.explain.job_history import (
    GONE,
    OVER,
    RESTART,
    RUNS,
    SUBMITTED,
    WAITS,
    HistoryBook,
    HistoryEntry,
    JobHistory,
)
from ringwise.state.model import Pod, PodClass
from ringwise.state.vcjob import COMMAND_ISSUED, VcJob

NOTE = (
    "from the Events of the cluster, which the API server keeps for a limited time (usually 1h); "
    "--journal FILE shows everything that a journal of the scheduler contains"
)
#: Reasons of Events on a vcjob that are part of its life.
_OF_VCJOB = ("ExecuteAction", COMMAND_ISSUED)
#: The sentence before the cause, in Events on pods that are deleted.
_DELETED = {
    "Rescheduled": ("Pod is deleted by force: ", "Pod is deleted: "),
    "Evict": ("Pod is evicted, because of ",),
}


class _Metadata(msgspec.Struct):
    namespace: str = ""
    name: str = ""


class _InvolvedObject(msgspec.Struct):
    kind: str = ""
    name: str = ""
    uid: str = ""


class _Source(msgspec.Struct):
    component: str | None = ""


class _EventWire(msgspec.Struct, rename="camel"):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    involved_object: _InvolvedObject = msgspec.field(default_factory=_InvolvedObject)
    reason: str | None = ""
    message: str | None = ""
    source: _Source | None = None
    first_timestamp: str | None = None
    event_time: str | None = None


@dataclass(frozen=True, slots=True)
class _TimedEvent:
    """One Event."""

    at: int
    kind: str
    #: `NAMESPACE/NAME` of its object.
    key: str
    uid: str
    reason: str
    message: str

    @property
    def name(self) -> str:
        return self.key.partition("/")[2]


async def read_history(client: Client, name: str, now: int) -> RecordedHistory:
    """Raises UnknownHistoryError, NothingReadableError, ApiError and UnreachableError."""
    live, book = await _read_jobs(client, now)
    base = find_history(book, name, "the cluster")
    (history,) = await _with_events(client, live.bundle, book, [base], base.namespace)
    return RecordedHistory(history, now, (*live.missing, NOTE))


async def read_histories(client: Client, namespace: str | None, now: int) -> RecordedHistories:
    """Of all jobs that exist. Raises NothingReadableError, ApiError and UnreachableError."""
    live, book = await _read_jobs(client, now)
    bases = [base for base in book.jobs.values() if namespace in (None, base.namespace)]
    histories = await _with_events(client, live.bundle, book, bases, namespace)
    return RecordedHistories(histories, now, (*live.missing, NOTE))


async def _read_jobs(client: Client, now: int) -> tuple[LiveCluster, HistoryBook]:
    live = await read_cluster(client, jobs_only=True)
    bundle = live.bundle
    book = HistoryBook()
    objects: list[ev.Event] = [ev.VcJobSeen(job) for job in bundle.vcjobs]
    objects += [ev.PodGroupSeen(group) for group in bundle.pod_groups]
    objects += [ev.PodSeen(pod) for pod in bundle.pods]
    book.turn(now, objects, ())
    return live, book


async def _with_events(
    client: Client, bundle: Bundle, book: HistoryBook, bases: Sequence[JobHistory], namespace: str | None
) -> list[JobHistory]:
    """The histories of these jobs, all of the namespace; None: of any."""
    groups = book.groups()
    #: Kind and key of an object -> the key of its job.
    jobs: dict[tuple[str, str], str] = {}
    for base in bases:
        jobs |= {(POD_GROUPS.kind, group): base.key for group in groups.get(base.key, ())}
        jobs |= {(PODS.kind, f"{base.namespace}/{pod.pod}"): base.key for pod in base.pods.values()}
        jobs[VCJOBS.kind, base.key] = base.key
    pods: dict[str, list[Pod]] = defaultdict(list)
    for pod in bundle.pods:
        if key := jobs.get((PODS.kind, pod.key)):
            pods[key].append(pod)
    # Earlier Events are those of a job that had the same name, unless they name an object that exists: the
    # clock of the component that recorded one can be behind that of the API server.
    existing = {pod.uid for pod in bundle.pods} | {group.uid for group in bundle.pod_groups if group.uid}
    existing |= {job.uid for job in bundle.vcjobs}
    begin = {
        base.key: min([base.entries[0].at, *(pod.created for pod in pods[base.key] if pod.created)])
        for base in bases
    }
    events: dict[str, list[_TimedEvent]] = defaultdict(list)
    async for one in _events(client, namespace):
        if (key := jobs.get((one.kind, one.key))) and (one.uid in existing or one.at >= begin[key]):
            events[key].append(one)
    vcjobs = {job.key: job for job in bundle.vcjobs}
    return [
        history_from(
            base,
            sorted(events[base.key], key=attrgetter("at")),
            next(iter(groups.get(base.key, ())), ""),
            pods[base.key],
            vcjobs.get(base.key),
        )
        for base in bases
    ]


async def _events(client: Client, namespace: str | None) -> AsyncIterator[_TimedEvent]:
    with IgnoredStatus(403):
        async for page in client.pages(EVENTS.path(namespace), {}, PAGE_SIZE, page_reader(_EventWire)):
            for wire in page.items or ():
                one = _timed_event(wire)
                if one is not None:
                    yield one
        return
    needed = WatchTarget(EVENTS, namespace).permission()
    raise NothingReadableError(f"events: not allowed; {needed}; or --journal FILE")


def _timed_event(wire: _EventWire) -> _TimedEvent | None:
    try:
        at = nanoseconds(wire.first_timestamp or wire.event_time or "")
    except NotReadableError:
        return None
    involved = wire.involved_object
    if wire.source is not None and wire.source.component == COMPONENT:
        at = _exactly(wire.metadata.name, at)
    key = f"{wire.metadata.namespace}/{involved.name}"
    return _TimedEvent(at, involved.kind, key, involved.uid, wire.reason or "", wire.message or "")


def _exactly(name: str, at: int) -> int:
    """Our own Events have their time in nanoseconds in their name; the timestamp has seconds."""
    digits = name.rpartition(".")[2][:-4]
    try:
        exact = int(digits, 16)
    except ValueError:
        return at
    return exact if 0 <= exact - at < SECOND else at


def history_from(
    base: JobHistory, events: Iterable[_TimedEvent], group: str, pods: Iterable[Pod], vcjob: VcJob | None
) -> JobHistory:
    """The history of these Events, in the order of their times; `base` is the job as it is now."""
    builder = _HistoryBuilder(base, group)
    for event in events:
        builder.add(event)
    return builder.end(pods, vcjob)


class _HistoryBuilder:
    def __init__(self, base: JobHistory, group: str) -> None:
        self._book = HistoryBook()
        self._base = base
        self._group = group or f"{base.namespace}/{base.name}"
        begin = base.entries[0]
        self._history = JobHistory(base.namespace, base.name, uid=base.uid)
        self._book.adopt(self._history, self._group)
        self._history.add(begin.at, SUBMITTED, begin.text)
        self._history.waiting_since = begin.at
        #: Bindings that follow each other are one entry.
        self._bindings: list[_TimedEvent] = []
        self._waits = ""

    def add(self, event: _TimedEvent) -> None:
        if event.kind == PODS.kind and event.reason == "Scheduled":
            self._bindings.append(event)
            return
        command = self._command(event)
        if command is not None:
            self._flush()
            self._seen(event)
            self._book.turn(event.at, (), (command,))
            if command["type"] == "DeletePod":
                self._book.turn(event.at, (ev.PodGone(event.uid),), ())
        elif event.kind == VCJOBS.kind and event.reason in _OF_VCJOB:
            self._flush()
            self._history.add(event.at, RESTART, event.message, code=event.reason)

    def end(self, pods: Iterable[Pod], vcjob: VcJob | None) -> JobHistory:
        self._flush()
        history = self._history
        if vcjob is not None and vcjob.since and vcjob.phase == "Running" and history.placed_at is not None:
            took = vcjob.since - history.placed_at
            running = sum(pod.phase == "Running" for pod in pods)
            text = f"the vcjob is Running; {running} of its pods run"
            if took > -SECOND:
                history.add(vcjob.since, RUNS, text, max(0, took))
        elif vcjob is not None and vcjob.phase in OVER:
            suffix = f": {vcjob.message}" if vcjob.suspended and vcjob.message else ""
            history.add(vcjob.since, OVER[vcjob.phase], f"{vcjob.phase}{suffix}")
        # When a deleted pod was gone is in no Event.
        shown = [_shown(entry) for entry in history.entries if entry.kind != GONE]
        history.entries = sorted(shown, key=lambda entry: entry.at)
        history.pods = self._base.pods
        return history

    def _seen(self, event: _TimedEvent) -> None:
        """A pod that an Event names existed then."""
        if event.kind == PODS.kind and event.uid not in self._history.pods:
            group = self._group.partition("/")[2]
            pod = Pod(event.uid, self._history.namespace, event.name, PodClass(), group=group)
            self._book.turn(event.at, (ev.PodSeen(pod),), ())

    def _flush(self) -> None:
        if not self._bindings:
            return
        for event in self._bindings:
            self._seen(event)
        binds = [
            {
                "type": "Bind",
                "uid": event.uid,
                "pod": event.name,
                "node": event.message.rpartition(" to ")[2],
            }
            for event in self._bindings
        ]
        self._book.turn(self._bindings[-1].at, (), binds)
        self._bindings.clear()
        self._waits = ""

    def _command(self, event: _TimedEvent) -> Mapping[str, Any] | None:
        if event.kind == POD_GROUPS.kind and event.reason == "Unschedulable":
            # One that says the same again, with other fixes, is not news.
            text = event.message.partition(". What would help now: ")[0]
            if text == self._waits:
                return None
            self._waits = text
            reason = {"code": text, "message": text}
            return {"type": "SetGroupStatus", "key": self._group, "reason": reason}
        if event.kind == POD_GROUPS.kind:
            return {
                "type": "RecordJobEvent",
                "key": self._group,
                "pod": "",
                "reason": event.reason,
                "message": event.message,
            }
        if event.kind == PODS.kind and event.reason in _DELETED:
            why = event.message
            for begin in _DELETED[event.reason]:
                why = why.removeprefix(begin)
            return {"type": "DeletePod", "uid": event.uid, "why": why}
        return None


def _shown(entry: HistoryEntry) -> HistoryEntry:
    return replace(entry, code="Unschedulable") if entry.kind == WAITS else entry

"""The documents of `why --history` and of a drill: the life of jobs."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from ringwise.durations import SECOND, time_text
from ringwise.scheduler.explain import job_history
from ringwise.topology.natural import natural_key
from ringwise.views.documents.explain import (
    EventFields,
    EventsDocument,
    HistoryDocument,
    HistoryEntryFields,
    JobRunFields,
    PodStepFields,
)
from ringwise.views.documents.maintenance import DrillEntryFields

_CAUSES = (job_history.FAULT, job_history.RESTART, job_history.DRAIN, job_history.MOVE, job_history.PREEMPT)
_WARNINGS = frozenset(
    {
        *(job_history.WAITS, job_history.FAULT, job_history.BLOCKED, job_history.FAILED),
        *(job_history.PREEMPT, job_history.ENDED_BADLY),
    }
)
_REQUEUED = "Requeued"
_ENDS = {
    job_history.ENDED_WELL: "Completed",
    job_history.ENDED_BADLY: "Failed",
    job_history.SUSPENDED: "Suspended",
    job_history.REMOVED: "Deleted",
}


def history_document(
    history: job_history.JobHistory, until: int, notes: Iterable[str] = ()
) -> HistoryDocument:
    """What `ringwise why JOB --history -o json` prints; `until` is the end of what is known."""
    reasons = [entry.code for entry in history.entries if entry.kind == job_history.WAITS]
    # What waits now counts until now.
    waits = 0 if history.waiting_since is None else max(0, until - history.waiting_since)
    return HistoryDocument(
        namespace=history.namespace,
        name=history.name,
        until=time_text(until),
        faults=history.faults,
        moved_pods=history.moved,
        pending_seconds=seconds(history.time_in(job_history.PLACED) + waits),
        pending_reason=reasons[-1] if reasons and history.waiting_since is not None else None,
        notes=list(notes),
        entries=[entry_document(entry) for entry in history.entries],
        runs=runs_of(history.entries),
    )


def events_document(
    histories: Iterable[job_history.JobHistory],
    until: int,
    namespace: str | None,
    limit: int,
    notes: Iterable[str] = (),
) -> EventsDocument:
    """What `ringwise events -o json` prints; of more than `limit` events, the newest. 0: all."""
    found = [
        (entry.at, history, entry)
        for history in histories
        if namespace in (None, history.namespace)
        for entry in history.entries
    ]
    found.sort(key=itemgetter(0))
    cut = max(0, len(found) - limit) if limit else 0
    events = [
        EventFields.of(
            entry_document(entry),
            namespace=history.namespace,
            job=history.name,
            type="Warning" if entry.kind in _WARNINGS else "Normal",
        )
        for _, history, entry in found[cut:]
    ]
    return EventsDocument(until=time_text(until), notes=list(notes), events=events, remaining_item_count=cut)


def runs_of(entries: Iterable[job_history.HistoryEntry]) -> list[JobRunFields]:
    """Return the runs of a job: each lasts until the job ends or the last of its pods is deleted.

    The accounts count starts in the same way.
    """
    runs: list[JobRunFields] = []
    nodes: dict[str, str] = {}
    cause = ""
    for entry in entries:
        open_run = runs[-1] if runs and runs[-1].end is None else None
        if entry.kind in (job_history.PLACED, job_history.FOUND):
            nodes.update({step.pod: step.after for step in entry.pods if step.after is not None})
            if open_run is None:
                open_run = JobRunFields(start=entry.at, end=None, state="Running", nodes=[], reason="")
                runs.append(open_run)
            open_run.nodes = sorted(set(nodes.values()), key=natural_key)
            cause = ""
        elif entry.kind in _CAUSES:
            cause = entry.text
        elif entry.kind == job_history.DELETED:
            for step in entry.pods:
                nodes.pop(step.pod, None)
            if open_run is not None and not nodes:
                _end(open_run, entry.at, _REQUEUED, cause or entry.text)
        elif entry.kind in _ENDS:
            nodes.clear()
            if open_run is not None:
                _end(open_run, entry.at, _ENDS[entry.kind], entry.text)
            elif runs and runs[-1].state == _REQUEUED and entry.kind != job_history.REMOVED:
                # Its pods were deleted before its end was written.
                _end(runs[-1], runs[-1].end, _ENDS[entry.kind], entry.text)
    return runs


def _end(run: JobRunFields, at: int | None, state: str, reason: str) -> None:
    run.end, run.state, run.reason = at, state, reason


def entry_document(entry: job_history.HistoryEntry) -> HistoryEntryFields:
    return HistoryEntryFields(
        time=time_text(entry.at),
        nanoseconds=entry.at,
        kind=entry.kind,
        code=entry.code or None,
        message=entry.text,
        duration_seconds=None if entry.took is None else seconds(entry.took),
        pods=[step_fields(step) for step in entry.pods],
    )


def timeline_fields(
    start: int, entries: Iterable[tuple[str, job_history.HistoryEntry]]
) -> list[DrillEntryFields]:
    """What happened, with the job that it happened to."""
    return [
        DrillEntryFields.of(entry_document(entry), after_seconds=seconds(entry.at - start), job=job or None)
        for job, entry in entries
    ]


def step_fields(step: job_history.PodStep) -> PodStepFields:
    return PodStepFields(
        name=step.pod, rank=step.rank, source=step.before, to=step.after, chips=list(step.chips)
    )


def seconds(nanoseconds: int) -> float:
    return round(nanoseconds / SECOND, 3)

"""The questions that a running lab answers, each with a document. Its own process answers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

import msgspec

from ringwise.apps.job_history import histories_of, history_of
from ringwise.apps.journal.format import header_line, snapshot_line
from ringwise.apps.lab.lab import LiveLab, copy_of
from ringwise.apps.lab.maintenance import (
    Goes,
    affected_jobs,
    goes_in_cluster,
    goes_in_lab,
    left_by_drain,
    plan_drain,
    without_many_waiting,
)
from ringwise.apps.lab.submission import Submission
from ringwise.apps.place import JOB_OBJECTS, WITH_JOBS, what_if
from ringwise.apps.reservations import ReservationRequest
from ringwise.apps.sources.documents import ClusterAnswers, all_names, plain
from ringwise.apps.targets import find_target, moment
from ringwise.embed.clock import VirtualClock
from ringwise.embed.records import ObjectRefusedError
from ringwise.manifests.bundle import Bundle
from ringwise.messages.expected_start import ExpectedStart
from ringwise.scheduler.explain.doctor import diagnose
from ringwise.state.model import Pod
from ringwise.views.cluster import ClusterObjects, JobView, job_views
from ringwise.views.documents.accounting import GroupBy, ReportDocument
from ringwise.views.documents.cluster import StatusFields
from ringwise.views.documents.explain import DoctorDocument, EventsDocument, HistoryDocument
from ringwise.views.documents.maintenance import DrainPlanDocument
from ringwise.views.documents.place import PlaceDocument
from ringwise.views.history import events_document, history_document
from ringwise.views.lists import Listing
from ringwise.views.names import UnknownNameError, qualified
from ringwise.views.place import place_document
from ringwise.views.report import parse_period, report_document

Parameters = Mapping[str, Any]
#: The answers of a lab and the parameters in, a document out.
Query = Callable[["LabAnswers", Parameters], Any]


class LabAnswers(ClusterAnswers):
    """Answers of the lab's own scheduler."""

    def __init__(self, live: LiveLab, *, estimates_anew: bool = True) -> None:
        """Without `estimates_anew` the expected starts of jobs are those of the last estimate."""
        self.live = live
        self._estimates_anew = estimates_anew

    @property
    def now(self) -> int:
        return self.live.now

    @property
    def starts(self) -> Mapping[str, ExpectedStart]:
        return super().starts if self._estimates_anew else self.live.view.what_if.starts.by_job

    @property
    def objects(self) -> ClusterObjects:
        return self.live.objects

    def status(self, views: Sequence[JobView]) -> StatusFields:
        live = self.live
        return {
            **super().status(views),
            "directory": str(live.folder.path),
            "speed": None if isinstance(live.clock, VirtualClock) else live.settings.speed,
            "commands": dict(live.lab.command_counts),
            "alarms": list(live.cluster.alarms),
        }

    def doctor(self) -> DoctorDocument:
        return DoctorDocument.of(diagnose(self.live.view, renews_reports=False))

    def history(self, job: str, namespace: str | None = None) -> HistoryDocument:
        """Raises UnknownHistoryError. Every turn is in the journal on disk before a query is answered."""
        recorded = history_of(qualified(job, namespace), self._journals())
        return history_document(recorded.history, self.now, recorded.notes)

    def events(self, namespace: str | None = None, limit: int = 0) -> EventsDocument:
        recorded = histories_of(self._journals())
        return events_document(recorded.histories, self.now, namespace, limit, recorded.notes)

    def _journals(self) -> list[Path]:
        folder = self.live.folder
        if not folder.journal.exists():
            raise UnknownNameError("this lab does not write a journal (--journal-size 0)")
        return [path for path in (folder.older_journal, folder.journal) if path.exists()]

    def place(self, manifests: Bundle, *, scores: bool = False, pictures: bool = False) -> PlaceDocument:
        """Raises AlreadyThereError."""
        if not (manifests.vcjobs or manifests.pod_groups or manifests.pods):
            raise UnknownNameError("the files do not contain a job, PodGroup or pod to place")
        answer = what_if(self.live.view, self.now, manifests, scores=scores)
        return place_document(answer, pictures=pictures)

    def drain_plan(self, target: str, at: str | None = None, *, force: bool = False) -> DrainPlanDocument:
        """Raises UnknownTargetError."""
        live = self.live
        drained, start = find_target(live.view, target), time_ahead(live, at)
        table, without = without_many_waiting(live.cluster.table)
        with copy_of(table, live.now, live.settings) as copy:
            return plan_drain(copy, drained, at=start, without=without, force=force)

    def report(self, since: str, until: str, by: str, namespace: str | None) -> ReportDocument:
        """Every turn is in the documents before a query is answered."""
        if by not in get_args(GroupBy):
            raise UnknownNameError(
                f"cannot group a report by {by}; must be one of {', '.join(get_args(GroupBy))}"
            )
        try:
            period = parse_period(since, until, self.now)
        except ValueError as error:
            raise UnknownNameError(str(error)) from None
        documents = self.live.accounts.read()
        return report_document(documents, period, cast("GroupBy", by), self.now, namespace=namespace)

    def drain_question(self, target: str, *, force: bool) -> dict[str, Any]:
        """What a drain would do to jobs. Raises UnknownTargetError."""
        live, left = self.live, {}
        nodes = find_target(live.view, target).nodes
        if not force:
            left = left_by_drain(live.cluster.table, live.now, live.settings, nodes)
        return drain_document(live.objects, target, left)

    def additions(self, pod: Pod) -> dict[str, Any] | None:
        result: dict[str, Any] = plain(self.live.cluster.additions(pod.uid))
        return result

    def container(self, pod: Pod) -> dict[str, Any] | None:
        result: dict[str, Any] | None = plain(self.live.cluster.container(pod.uid))
        return result

    def environment(self, pod: Pod) -> Mapping[str, str]:
        cluster = self.live.cluster
        additions = cluster.additions(pod.uid)
        result = {**dict(additions.env), **dict(additions.container_env)}
        for name, source in additions.env_from:
            result[name] = cluster.published(pod.namespace, source, name)
        return result


def status_document(live: LiveLab) -> StatusFields:
    """The lab in a few numbers."""
    return LabAnswers(live).status(job_views(live.objects))


def time_ahead(live: LiveLab, at: str | None) -> int | None:
    """Return the time at which a scheduled drain starts. Raises ObjectRefusedError."""
    try:
        return None if at is None else moment(at, live.now)
    except ValueError as error:
        raise ObjectRefusedError(str(error)) from None


def drain_document(
    objects: ClusterObjects, target: str, left: Mapping[str, str], *, of_cluster: bool = False
) -> dict[str, Any]:
    """The jobs with pods on a target, and what a drain leaves of each. Raises UnknownTargetError.

    `left`: jobs that stay, by key, with the reason (F4). `of_cluster`: it has owners that create their pods
    again; a lab has vcjobs alone.
    """
    goes: Goes = goes_in_cluster if of_cluster else goes_in_lab
    drained = find_target(objects.view, target)
    jobs: list[dict[str, Any]] = []
    for view in affected_jobs(objects, drained.nodes, goes):
        leaving = [pod for pod in view.pods if pod.node in drained.nodes and goes(pod)]
        here = len(leaving)
        if here:
            owned = view.vcjob is not None
            staying = view.placed - here
            jobs.append(
                {
                    "namespace": view.namespace,
                    "name": view.name,
                    "kind": view.kind,
                    "here": here,
                    "staying": staying,
                    "min_available": view.needed,
                    "below_min_available": staying < view.needed,
                    "not_restarted": sum(
                        not owned and (pod.owner is None or not of_cluster) for pod in leaving
                    ),
                    "stays": left.get(view.key, ""),
                }
            )
    pods = sum(job["here"] for job in jobs if not job["stays"])
    return {"target": str(drained), "pods": pods, "jobs": jobs}


# -- the table of questions ----------------------------------------------------------------------


#: Parameters that are not words, numbers or truth values.
_PARAMETER_TYPES: dict[str, type] = {"listing": Listing, "request": ReservationRequest}


def _method(method: str) -> Query:
    """A question of `QuerySource`, whose parameters are sent under their names."""

    def query(answers: LabAnswers, parameters: Parameters) -> Any:
        arguments = {
            name: msgspec.convert(value, _PARAMETER_TYPES[name]) if name in _PARAMETER_TYPES else value
            for name, value in parameters.items()
        }
        ask = getattr(answers, method)
        try:
            inspect.signature(ask).bind(**arguments)
        except TypeError as error:
            raise ObjectRefusedError(f"the request cannot be decoded: {error}") from None
        return ask(**arguments)

    return query


def _place(answers: LabAnswers, parameters: Parameters) -> PlaceDocument:
    try:
        submission = msgspec.convert(parameters.get("submission"), Submission)
    except msgspec.ValidationError as error:
        raise ObjectRefusedError(f"the request cannot be decoded: {error}") from None
    submission.share_classes()
    manifests = Bundle({kind: submission.of(kind) for kind in (*JOB_OBJECTS, *WITH_JOBS)})
    return answers.place(
        manifests,
        scores=parameters.get("scores") is True,
        pictures=parameters.get("pictures") is True,
    )


def _status(answers: LabAnswers, _parameters: Parameters) -> dict[str, Any]:
    """With a check of all tables, which takes too long for every second."""
    live = answers.live
    return {**status_document(live), "wrong": live.view.inconsistencies()}


def _objects(answers: LabAnswers, _parameters: Parameters) -> dict[str, Any]:
    """All objects as two lines of a journal: for a support bundle."""
    view = answers.live.view
    lines = header_line(view.configuration, sorted(view.scheduler_names))
    lines += snapshot_line(0, answers.now, view.current_events())
    return {"lines": lines.decode()}


QUERIES: dict[str, Query] = {
    "objects": _objects,
    "status": _status,
    "names": lambda answers, parameters: all_names(answers.objects, str(parameters.get("kind"))),
    "moves": _method("move_plans"),
    "place": _place,
    "drain": _method("drain_question"),
    "drain-plan": _method("drain_plan"),
    "reservation-plan": _method("reservation_plan"),
    "defrag-plan": _method("defrag_plan"),
    **{
        name: _method(name)
        for name in (
            *("get", "describe", "top", "faults", "limits", "report", "idle"),
            *("why", "history", "events", "capacity", "doctor", "topology"),
        )
    },
}

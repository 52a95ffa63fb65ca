"""What-if: one cycle over the objects of an input."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ringwise.apps.extensions import new_scheduler
from ringwise.apps.loading import input_events
from ringwise.framework.configuration import Configuration
from ringwise.framework.extension_points import first_reason
from ringwise.framework.gangs.gang_placement import node_filters
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.manifests.bundle import Bundle
from ringwise.manifests.kinds import KIND_OF
from ringwise.messages import events as ev
from ringwise.messages.claim_expansion import with_default_class
from ringwise.messages.commands import Bind
from ringwise.messages.events import Decide
from ringwise.plugins.predicates.reasons import NODE_CORDONED, SELECTOR_MISMATCH, UNTOLERATED_TAINT
from ringwise.plugins.topology910.validity import board_policy
from ringwise.reasons import Reason
from ringwise.scheduler.explain.why import reasons_now
from ringwise.scheduler.journal import Journal
from ringwise.scheduler.view import SchedulerView
from ringwise.state.model import Pod, PodGroup
from ringwise.state.vcjob import VcJob
from ringwise.state.volumes import PersistentVolumeClaim
from ringwise.topology.boards import BoardCatalog
from ringwise.topology.superpods import NodeId
from ringwise.views.documents.place import CandidateFields
from ringwise.views.place import (
    PlaceAnswer,
    assigned_chips,
    first_by_rank,
    is_listed,
    is_waiting,
    job_answer,
    placed_switches,
)
from ringwise.wellknown import SCHEDULER_NAMES

#: Nodes that refuse for these reasons are not candidates.
UNASKED = frozenset({NODE_CORDONED.code, SELECTOR_MISMATCH.code, UNTOLERATED_TAINT.code})


def place(
    bundle: Bundle,
    configuration: Configuration,
    catalog: BoardCatalog,
    *,
    now: int | None = None,
    scores: bool = False,
    everything: bool = False,
    journal: Journal | None = None,
    facts: Sequence[ev.Event] = (),
    scheduler_names: Iterable[str] = SCHEDULER_NAMES,
    only: Collection[tuple[str, str]] | None = None,
) -> PlaceAnswer:
    """Decide about every pending job of the input. The same input gives the same answer.

    `journal` records the very decisions that the answer shows. `facts` are the objects of a cluster that the
    input is added to. `only`: namespaces and names of the jobs that the answer is about.
    """
    events, errors = input_events(bundle)
    events = _completed(events, facts)
    scheduler = new_scheduler(configuration, catalog, scheduler_names, awaits_groups=bundle.awaits_groups)
    observer = _Candidates() if scores else None
    scheduler.observe(observer)
    scheduler.journal = journal
    now = bundle.newest_timestamp if now is None else now
    commands = scheduler.handle([*facts, *events], now, Decide.ONE_CYCLE)
    view = scheduler.view
    answers = {command.uid: command for command in commands if isinstance(command, Bind)}
    candidates = observer.of if observer is not None else {}
    listed = [
        job
        for job in sorted(
            (*view.jobs.values(), *view.jobs_of_others()), key=lambda job: (job.namespace, job.name, job.key)
        )
        if is_listed(view, job, answers, everything) and (only is None or (job.namespace, job.name) in only)
    ]
    present = reasons_now(view, [job for job in listed if is_waiting(view, job, answers)], now)
    jobs = [job_answer(view, job, answers, candidates, present.of) for job in listed]
    return PlaceAnswer(
        [document for document, _ in jobs],
        [drawn for _, drawn in jobs],
        placed_switches(view),
        view,
        assigned_chips(view, answers.values()),
        errors,
        present.not_searched,
    )


def _completed(events: Iterable[ev.Event], facts: Iterable[ev.Event]) -> list[ev.Event]:
    """Claims that the cluster has are as they are there; new ones get its default class."""
    classes = [event.storage_class for event in facts if isinstance(event, ev.StorageClassSeen)]
    there = {event.claim.key for event in facts if isinstance(event, ev.ClaimSeen)}
    result: list[ev.Event] = []
    for event in events:
        if not isinstance(event, ev.ClaimSeen):
            result.append(event)
        elif event.claim.key not in there:
            result.append(ev.ClaimSeen(with_default_class(event.claim, classes)))
    return result


#: What makes a job, and what else is asked about with it.
JOB_OBJECTS: tuple[type[Any], ...] = (VcJob, PodGroup, Pod)
WITH_JOBS: tuple[type[Any], ...] = (PersistentVolumeClaim,)


class AlreadyThereError(LookupError):
    """The object of a what-if exists already."""


def jobs_in(submitted: Bundle) -> set[tuple[str, str]]:
    """Namespace and name of each job among the objects."""
    return {
        *((job.namespace, job.name) for job in submitted.vcjobs),
        *((group.namespace, group.name) for group in submitted.pod_groups),
        *((pod.namespace, pod.group or pod.name) for pod in submitted.pods),
    }


def what_if(view: SchedulerView, now: int, submitted: Bundle, *, scores: bool = False) -> PlaceAnswer:
    """Where jobs would be placed that are submitted now to a cluster which a scheduler knows.

    A scheduler of its own decides, with shared objects. Raises AlreadyThereError.
    """
    facts = view.current_events()
    there = {event.about for event in facts}
    for kind in JOB_OBJECTS:
        name = KIND_OF[kind].resource.kind
        for one in submitted.of(kind):
            if (name, one.key) in there:
                raise AlreadyThereError(
                    f"{one.origin}: {name} {one.key} already exists; use another name for a what-if"
                )
    jobs = Bundle({kind: submitted.of(kind) for kind in (*JOB_OBJECTS, *WITH_JOBS)})
    return place(
        jobs,
        view.configuration,
        view.catalog,
        now=now,
        scores=scores,
        facts=facts,
        scheduler_names=view.scheduler_names,
        only=jobs_in(submitted),
    )


class _Candidates:
    """Collects the verdict of every node on the first pod of each job, just before the job is decided."""

    def __init__(self) -> None:
        self.of: dict[str, list[CandidateFields]] = {}

    def __call__(self, session: Session, job: Job) -> None:
        pod = next((pod for pod in first_by_rank(job) if session.is_pending(pod)), None)
        if pod is None:
            return
        if pod.cls.chips and job.policy is None:
            # Refused; where its board is known all the same, the nodes still have verdicts.
            policy = board_policy(job, session)
            if policy is None or pod.cls.chips > policy.board.chips_per_node:
                return
            job = replace(job, policy=policy)
        selection = session.node_selection(job, pod)
        filters = node_filters(session, job, pod)
        outside = _outside_racks(session, job)
        rows: list[CandidateFields] = []
        for node in session.state.existing_nodes():
            unselected = selection.unselected(node)
            if unselected is not None and unselected.code in UNASKED:
                continue
            score, reason = selection.verdict(node)
            if reason is None:
                reason = first_reason(filters, node) or outside.get(node)
                score = score if reason is None else None
            rows.append(
                CandidateFields(
                    node=session.state.names[node],
                    accepted=reason is None,
                    score=score,
                    reason=None if reason is None else reason.as_json(),
                )
            )
        self.of[job.key] = rows


def _outside_racks(session: Session, job: Job) -> Mapping[NodeId, Reason]:
    """Nodes that a job for racks cannot take, because they are in no rack."""
    if job.policy is None or not job.policy.board.rack_nodes:
        return {}
    return session.topology.racks(session.state, session.settings.super_pod_size).node_problems

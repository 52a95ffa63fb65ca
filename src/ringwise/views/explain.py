"""The documents of `why`, `capacity` and `doctor`."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET

from ringwise.scheduler.explain.capacity import BoardCapacity
from ringwise.scheduler.explain.why import Explanation
from ringwise.scheduler.view import SchedulerView
from ringwise.views.cluster import JobView, expected_start_fields
from ringwise.views.documents import explain as doc
from ringwise.views.documents.topology import PicturesFields
from ringwise.views.pictures import WHY_PODS, first_and_last, node_chips
from ringwise.views.topology import superpod_documents, switch_documents


def explanation_document(explanation: Explanation, now: int) -> doc.WhyDocument:
    """What `ringwise why -o json` prints."""
    job, refusals, start = explanation.job, explanation.refusals, explanation.start
    return doc.WhyDocument(
        now=now,
        namespace=job.namespace,
        name=job.name,
        job_class=job.policy.switch_class if job.policy is not None else None,
        board=job.policy.board.name if job.policy is not None else None,
        board_reason=explanation.board,
        state=explanation.outcome.value,
        message=explanation.sentence,
        faults=list(explanation.faults),
        reason=None if explanation.reason is None else explanation.reason.as_json(),
        rejected_nodes=None if refusals is None else refusals.counts,
        rejection_examples=None
        if refusals is None
        else {code: refusals.examples[code] for code in refusals.counts},
        checked_pod=None if refusals is None else refusals.pod,
        fitting_nodes=None if refusals is None else refusals.fits,
        closest_nodes=[
            doc.ClosestNodeFields(
                node=miss.node, missing_chips=miss.missing, message=miss.text, code=miss.reason.code
            )
            for miss in explanation.misses
        ],
        queue=doc.QueuePositionFields(
            name=job.queue,
            position=explanation.position,
            pending=explanation.waiting,
            jobs_ahead=list(explanation.ahead),
        ),
        reserved_chips=explanation.reserved_chips,
        expected_start=None if start is None else expected_start_fields(start, now),
        fixes=[
            doc.FixFields(kind=fix.kind, message=fix.text, conflicting_jobs=fix.contested)
            for fix in explanation.fixes
        ],
        pods=[
            doc.PodLocationFields(
                name=location.pod,
                rank=location.rank,
                node=location.node if location.bound else None,
                chips=list(location.chips),
                switch=location.switch,
                superpod=location.superpod,
                block=location.block,
                rack=UNSET if location.rack is None else location.rack,
                would_be_scheduled_on="" if location.bound else location.node or "",
            )
            for location in explanation.locations
        ],
        plan=list(explanation.plan),
        notes=list(explanation.notes),
        omitted=list(explanation.omitted),
    )


def explanation_pictures(explanation: Explanation, view: SchedulerView, now: int) -> PicturesFields:
    """What the drawing of an explanation shows beside its document."""
    policy, locations = explanation.job.policy, explanation.locations
    pictures: PicturesFields = PicturesFields(nodes=[], switches=None, superpods=None)
    if policy is None:
        return pictures
    shown = [location.node for location in first_and_last(locations, WHY_PODS)]
    for name in dict.fromkeys([*(miss.node for miss in explanation.misses), *filter(None, shown)]):
        chips = node_chips(view, now, name, policy.resource, policy.board)
        if chips is not None:
            pictures.nodes.append(chips)
    if policy.switch_class is not None:
        pictures.switches = switch_documents(view, now)
    if policy.block_nodes is not None:
        pictures.superpods = superpod_documents(view, now)
    return pictures


def ended_sentence(view: JobView) -> str:
    """What became of a job that is over."""
    message = view.vcjob.message if view.vcjob is not None else ""
    if view.outcome == "suspended":
        suffix = "" if view.vcjob is None else f" ({view.phase}{f': {message}' if message else ''})"
        chips = "its pods still end" if any(pod.live for pod in view.pods) else "it uses no chips"
        return f"it is suspended{suffix}: {chips}; to resume it: ringwise resume {_resumed(view)}"
    return f"it is {view.phase}" + (f": {message}" if message else "")


def _resumed(view: JobView) -> str:
    """What `resume` takes: the owner of a PodGroup that was made for its pods."""
    owner = view.job.group.owner if view.job is not None and view.job.group is not None else None
    return view.key if view.vcjob is not None or owner is None else f"{view.namespace}/{owner.name}"


def document_without_gang(view: JobView, now: int) -> doc.WhyDocument:
    """What `ringwise why -o json` prints for a job without a gang to be placed.

    It is over or suspended, or its controller has created nothing for it yet.
    """
    return doc.WhyDocument(
        now=now,
        namespace=view.namespace,
        name=view.name,
        job_class=None,
        board=None,
        board_reason=None,
        state=view.state.value,
        message=ended_sentence(view) if view.reason is None else view.reason.message,
        faults=[],
        reason=None if view.reason is None else view.reason.as_json(),
        rejected_nodes=None,
        rejection_examples=None,
        checked_pod=None,
        fitting_nodes=None,
        closest_nodes=[],
        queue=doc.QueuePositionFields(name=view.queue, position=None, pending=0, jobs_ahead=[]),
        reserved_chips=0,
        expected_start=None,
        fixes=[],
        pods=[],
        plan=[],
    )


def capacity_document(counted: Iterable[BoardCapacity]) -> doc.CapacityDocument:
    """What `ringwise capacity -o json` prints."""
    return doc.CapacityDocument(boards=[doc.BoardCapacityFields.of(board) for board in counted])

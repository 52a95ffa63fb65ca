"""The document of `place`: where each job of an input would be placed, or why not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from msgspec import UNSET

from ringwise.framework.gangs.ranks import ranks_of
from ringwise.framework.job import Job
from ringwise.framework.reasons import OTHER_SCHEDULER, PODS_GATED
from ringwise.grammar import counted
from ringwise.manifests.text.errors import ManifestError
from ringwise.messages.commands import Bind
from ringwise.placement.switches.classes import SwitchClass
from ringwise.reasons import Reason, Stage
from ringwise.records import dataclass
from ringwise.scheduler.explain.boards_present import why_this_board
from ringwise.scheduler.explain.why import not_obeyed
from ringwise.scheduler.view import SchedulerView
from ringwise.state.model import Pod
from ringwise.topology.chips import chips_of, mask_of
from ringwise.topology.numbers import whole_number
from ringwise.views.documents.place import (
    CandidateFields,
    PlacedJobFields,
    PlaceDocument,
    PlacedPictureFields,
    PlacedPodFields,
    PlacePicturesFields,
)
from ringwise.views.documents.topology import PlacedSwitchFields
from ringwise.views.pictures import PLACE_PODS, first_and_last, node_chips
from ringwise.views.topology import superpod_documents, switch_documents
from ringwise.wellknown import LOGICAL_RACK, SUPER_POD_ID, SUPER_POD_RANK

if TYPE_CHECKING:
    from ringwise.views.documents.cluster import JobPodFields, PlacementFields, PodFields, SubGroupFields

SCHEDULED, PENDING, REJECTED, RUNNING = "scheduled", "pending", "rejected", "running"


@dataclass(slots=True)
class PlaceAnswer:
    """The result of one cycle over an input."""

    jobs: list[PlacedJobFields]
    #: What a drawing shows of each job besides.
    drawn: list[PlacedPictureFields]
    switches: list[PlacedSwitchFields] | None
    view: SchedulerView
    #: (node, resource) -> chips that this run gave to pods.
    assigned: dict[tuple[str, str], int] = field(default_factory=dict)
    errors: list[ManifestError] = field(default_factory=list)
    #: Jobs for which no fixes were tried, because there are too many.
    not_searched: int = 0


def first_by_rank(job: Job) -> list[Pod]:
    """Pods with chips first, by rank."""
    ranks = ranks_of(job)
    return sorted(job.pods.values(), key=lambda pod: (not pod.cls.chips, ranks[pod.uid]))


def is_listed(view: SchedulerView, job: Job, answers: dict[str, Bind], everything: bool) -> bool:
    if any(uid in answers or view.is_pending(pod) for uid, pod in job.pods.items()):
        return True
    if not job.pods and (job.prospective or job.defects):
        return True
    if job.reason is not None and job.reason.code in (PODS_GATED.code, OTHER_SCHEDULER.code):
        return True
    return everything and any(view.cluster.pods[uid].node >= 0 for uid in job.pods)


def job_answer(
    view: SchedulerView,
    job: Job,
    answers: dict[str, Bind],
    candidates: Mapping[str, list[CandidateFields]],
    reasons: Mapping[str, Reason | None],
) -> tuple[PlacedJobFields, PlacedPictureFields]:
    """The job, and what a drawing shows of it besides."""
    waits = view.has_pending_pods(job)
    placed = any(uid in answers for uid in job.pods)
    reason = reasons.get(job.key)
    outcome = _outcome(job, reason, waits, placed)
    ranks = ranks_of(job)
    pods = [
        _pod(view, job, pod, ranks[pod.uid], answers.get(pod.uid))
        for pod in sorted(job.pods.values(), key=lambda pod: (ranks[pod.uid], pod.name))
    ]
    if job.key in candidates:
        first = first_by_rank(job)[0].name
        next(pod for pod in pods if pod.name == first).candidates = candidates[job.key]
    plan = view.history.plans.get(job.key)
    document = PlacedJobFields(
        namespace=job.namespace,
        name=job.name,
        job_class=_switch_class(view, job, outcome),
        state=outcome,
        reason=None if reason is None else reason.as_json(),
        pods=pods,
        notes=[*not_obeyed(view, job), *_rest(view, job, outcome)],
    )
    return document, PlacedPictureFields(
        resource=None if job.policy is None else job.policy.resource,
        # How a job that was placed as a whole got its nodes.
        plan=[] if plan is None else list(plan.lines),
        board_reason=why_this_board(view, job) if outcome == REJECTED else None,
    )


def _rest(view: SchedulerView, job: Job, outcome: str) -> Iterator[str]:
    """Why the other pods of a job wait of which some are placed."""
    waiting = [pod for pod in job.pods.values() if view.is_pending(pod)]
    if outcome == SCHEDULED and waiting and job.reason is not None:
        yield f"{counted(waiting, 'other pod is', 'other pods are')} pending: {job.reason.message}"


def _switch_class(view: SchedulerView, job: Job, outcome: str) -> str | None:
    """A running job is not validated again, so its class is taken from its label."""
    if job.policy is not None or outcome != RUNNING:
        return job.policy.switch_class if job.policy is not None else None
    kind = view.switch_class(job)
    return kind.value if isinstance(kind, SwitchClass) else None


def is_waiting(view: SchedulerView, job: Job, answers: Mapping[str, Bind]) -> bool:
    """Whether the job was neither placed now nor runs."""
    placed = any(uid in answers for uid in job.pods)
    return not placed and not _runs(job, view.has_pending_pods(job))


def _runs(job: Job, waits: bool) -> bool:
    excluded = job.reason is not None and job.reason.code in (OTHER_SCHEDULER.code, PODS_GATED.code)
    return bool(job.pods) and not waits and not excluded


def _outcome(job: Job, reason: Reason | None, waits: bool, placed: bool) -> str:
    if placed:
        return SCHEDULED
    if _runs(job, waits):
        return RUNNING
    return REJECTED if reason is not None and reason.kind.stage is Stage.VALIDATE else PENDING


def _pod(view: SchedulerView, job: Job, pod: Pod, rank: int, answer: Bind | None = None) -> PlacedPodFields:
    state = view.cluster
    number = state.pods[pod.uid].node
    if number < 0:
        return _unplaced(pod.name, rank)
    node = state.names[number]
    resolved = view.switches()
    notes = {**pod.annotations, **(answer.annotations if answer is not None else {})}
    blocks = SUPER_POD_RANK in notes if job.policy is None else job.policy.block_nodes is not None
    logical_rack = _number(notes.get(LOGICAL_RACK))
    return PlacedPodFields(
        name=pod.name,
        rank=rank,
        node=node,
        chips=list(answer.chips if answer is not None else pod.named_chips),
        switch=resolved.switch_name(node) if resolved is not None else None,
        superpod=_number(notes.get(SUPER_POD_ID)) if blocks else None,
        logical_superpod=_number(notes.get(SUPER_POD_RANK)) if blocks else None,
        annotations=dict(answer.annotations) if answer is not None else {},
        rack=UNSET if logical_rack is None else _rack(view, number),
        logical_rack=UNSET if logical_rack is None else logical_rack,
    )


def _unplaced(name: str, rank: int) -> PlacedPodFields:
    return PlacedPodFields(name, rank, None, None, None, None, None, None)


def _rack(view: SchedulerView, node: int) -> int | None:
    rack = view.racks().rack_of.get(node)
    return None if rack is None else rack[1]


def _number(text: str | None) -> int | None:
    return None if text is None else whole_number(text)


def assigned_chips(view: SchedulerView, binds: Iterable[Bind]) -> dict[tuple[str, str], int]:
    """(node, resource) -> the chips that these bindings give away."""
    result: dict[tuple[str, str], int] = {}
    for bind in binds:
        resource = view.cluster.pods[bind.uid].pod.cls.resource
        if resource is not None and bind.chips:
            key = bind.node, resource
            result[key] = result.get(key, 0) | mask_of(bind.chips)
    return result


def placed_switches(view: SchedulerView) -> list[PlacedSwitchFields] | None:
    """The switches after this run. A node is free when no pod holds a chip of it."""
    resolved = view.switches()
    if resolved is None:
        return None
    states = view.switch_states()
    return [
        PlacedSwitchFields(
            ip=switch.ip,
            state=facts.state.word,
            healthy=facts.healthy,
            free_nodes=sum(1 for server in servers if view.is_idle(server.node)),
        )
        for switch, servers, facts in zip(resolved.topology.switches, resolved.nodes, states, strict=True)
    ]


def place_document(answer: PlaceAnswer, *, pictures: bool = False) -> PlaceDocument:
    """What `ringwise place -o json` prints; with `pictures`, also what its drawing shows."""
    return PlaceDocument(
        jobs=answer.jobs,
        switches=UNSET if answer.switches is None else answer.switches,
        pictures=place_pictures(answer) if pictures else UNSET,
    )


def place_pictures(answer: PlaceAnswer) -> PlacePicturesFields:
    """What the drawing of a placement shows beside its document."""
    view = answer.view
    policies = {(job.namespace, job.name): job.policy for job in view.jobs.values()}
    pictures = PlacePicturesFields(nodes=[], switches=None, superpods=None, jobs=answer.drawn, free_before=[])
    seen: set[tuple[str, str]] = set()
    for job in answer.jobs:
        policy = policies.get((job.namespace, job.name))
        if policy is None:
            continue
        for pod in first_and_last(job.pods, PLACE_PODS):
            node = pod.node
            if node is None or (node, policy.resource) in seen:
                continue
            seen.add((node, policy.resource))
            chips = node_chips(view, view.history.now, node, policy.resource, policy.board)
            if chips is not None:
                pictures.nodes.append(chips)
                assigned = chips_of(answer.assigned.get((node, policy.resource), 0))
                pictures.free_before.append(sorted({*chips["free"], *assigned}))
    if any(job.job_class for job in answer.jobs):
        pictures.switches = switch_documents(view, view.history.now)
    if any(pod.superpod is not None for job in answer.jobs for pod in job.pods):
        pictures.superpods = superpod_documents(view, view.history.now)
    return pictures


def job_class(view: SchedulerView, job: Job) -> str | None:
    """The class of a job, whether it waits, was placed just now or runs."""
    return _switch_class(view, job, RUNNING)


def sub_group_fields(job: Job) -> list[SubGroupFields]:
    """The sub-groups of a job, by policy; none for most jobs."""
    placed = {
        uid
        for uid, pod in job.pods.items()
        if not pod.deleting and (pod.phase == "Succeeded" or (pod.live and pod.node is not None))
    }
    rows: list[SubGroupFields] = []
    for position, policy in enumerate(job.group.sub_groups if job.group is not None else ()):
        groups = [group for group in job.sub_groups if group.position == position]
        rows.append(
            {
                "policy": policy.name,
                "sub_groups": len(groups),
                "size": policy.size,
                "complete": sum(len(placed.intersection(group.pods)) >= policy.size for group in groups),
                "needed": policy.min_groups,
            }
        )
    return rows


def pods_of_job(view: SchedulerView, job: Job | None, pods: Iterable[PodFields]) -> list[JobPodFields]:
    """The pods of a job, with what `place` says of each."""
    by_name = {} if job is None else {pod.name: pod for pod in job.pods.values()}
    result: list[JobPodFields] = []
    for fields in pods:
        pod = by_name.get(fields["name"])
        placed = _unplaced(fields["name"], 0)
        if job is not None and pod is not None and fields["node"] is not None:
            placed = _pod(view, job, pod, 0)
        annotations = {} if pod is None else dict(pod.annotations)
        result.append({**fields, **_placement(placed), "annotations": annotations})
    return result


def _placement(pod: PlacedPodFields) -> PlacementFields:
    fields: PlacementFields = {
        "switch": pod.switch,
        "superpod": pod.superpod,
        "logical_superpod": pod.logical_superpod,
    }
    if pod.rack is not UNSET and pod.logical_rack is not UNSET:
        fields["rack"], fields["logical_rack"] = pod.rack, pod.logical_rack
    return fields

"""The documents of nodes, jobs, queues and pods, and of a cluster at a glance.

They are made from the objects of a cluster and the scheduler that knows them, wherever these come from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, cast

from ringwise.framework.amounts import Amount, Amounts, WeightedClaim, lacking, plain, share_out
from ringwise.framework.gangs.ranks import ranks_of
from ringwise.framework.job import Job
from ringwise.framework.reasons import OTHER_SCHEDULER, PODS_GATED, VOLUMES_AWAITED
from ringwise.framework.users import user_of
from ringwise.messages.expected_start import ExpectedStart
from ringwise.messages.job_expansion import group_name
from ringwise.reasons import Reason, Stage
from ringwise.records import dataclass
from ringwise.scheduler.affected_jobs import AffectedJobs, JobFault
from ringwise.scheduler.explain.boards_present import boards_present, why_this_board
from ringwise.scheduler.explain.why import moves_under_way, reasons_now
from ringwise.scheduler.job_states import (
    JobState,
    is_refused,
    is_suspended,
    job_state,
    needs_none,
    pods_not_created,
    would_be_nodes,
    would_be_placed,
)
from ringwise.scheduler.node_states import (
    READY,
    ChipStates,
    NodeChips,
    StateOfNode,
    before_drain_counts,
    chip_counts,
    chips_of_node,
    is_open,
    listed_chips,
    node_states,
)
from ringwise.scheduler.view import SchedulerView
from ringwise.state.model import EMPTY, ROOT_QUEUE, Node, Pod, PodGroup, Queue
from ringwise.state.part_requests import requested
from ringwise.state.vcjob import VcJob
from ringwise.topology.chips import chips_of
from ringwise.topology.natural import natural_key
from ringwise.views.faults import job_fault_fields
from ringwise.views.parts import allocation_mode, chips_requested, part_of_pod, percent_of_chips
from ringwise.views.pictures import chips_fields
from ringwise.views.written_reasons import WrittenReason
from ringwise.wellknown import ACCELERATOR_TYPE

if TYPE_CHECKING:
    from ringwise.views.documents import cluster as doc
    from ringwise.views.documents.common import ExpectedStartFields


@dataclass(frozen=True, slots=True)
class ClusterObjects:
    """All objects of a cluster, and the scheduler that knows them."""

    view: SchedulerView
    #: Nanoseconds since 1970: the moment that is shown.
    now: int
    nodes: Sequence[Node]
    pods: Sequence[Pod]
    pod_groups: Sequence[PodGroup]
    queues: Sequence[Queue]
    vcjobs: Sequence[VcJob]


# -- jobs ----------------------------------------------------------------------------------------

#: The phase of a job that has its nodes and does not run yet.
STARTING = "Starting"
_ACTIVE_PHASES = frozenset({"Pending", "Inqueue", "Running"})
#: Phases of a vcjob that is pending since they began.
_NOT_RUNNING = frozenset({"Pending", "Restarting"})
#: Reasons that only another cluster or another job can fix, beside those of a job that is wrong in itself.
_NEVER = frozenset({"cluster-too-small"})
#: Characters of a reason in the row of a job; `reason` of its document, and `why`, have all of it.
MAX_REASON = 300
#: Pods of pending jobs for which a list tries to find nodes again, which takes about a second. The jobs after
#: them have the reason of their last attempt.
MAX_EXAMINED_PODS = 20_000
#: Faults in the row of a job; its document has all of them.
MAX_FAULTS = 5


@dataclass(slots=True)
class JobView:
    """A job as its user knows it: a vcjob, a PodGroup of another owner, or a bare pod."""

    namespace: str
    name: str
    #: vcjob, PodGroup or Pod
    kind: str
    queue: str
    priority: int
    phase: str
    pods: list[Pod]
    wanted: int
    needed: int
    created: int
    #: Chips that its pods ask for together.
    chips: float = 0
    reason: Reason | None = None
    #: As the scheduler knows it; None for a job that is over.
    job: Job | None = None
    vcjob: VcJob | None = None
    counts: dict[str, int] = field(default_factory=dict)
    #: Waiting alone will not help it.
    requires_change: bool = False
    #: Why a refused job has the board whose rules refuse it.
    board: str | None = None
    #: Nodes that were chosen for pods that no object says are bound there.
    would_be_nodes: Sequence[str] = ()
    #: The faults that affect it now.
    faults: list[JobFault] = field(default_factory=list)
    #: What plans of moves that are carried out do for it or with it (M1).
    moves: tuple[str, ...] = ()
    #: What its scheduler wrote into a condition, where the one of this process decides nothing.
    written: WrittenReason | None = None
    #: A user suspended it: it has released its chips, and can be resumed.
    suspended: bool = False
    #: Of the vcjob; of the PodGroup, or where it was made for its pods, of the first of them; of the pod.
    labels: Mapping[str, str] = EMPTY
    #: When it is expected to start, and the moment at which that is said; None: whenever.
    start: ExpectedStart | None = None
    now: int | None = None
    user: str = ""
    #: When it ends if it runs as long as it says and its queue allows.
    end: int | None = None
    #: The reason is that of its last attempt: the list has too many pods to try all again.
    not_tried: bool = False

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def placed(self) -> int:
        return sum(1 for pod in self.pods if pod.node is not None and pod.live)

    @property
    def state(self) -> JobState:
        state = job_state(
            self.pods,
            self.needed,
            self.phase,
            refused=is_refused(self.reason),
            suspended=self.suspended,
            needs_none=self.reason is None and needs_none(self.vcjob),
        )
        written = self.written if self.reason is None else None
        if state is JobState.PENDING and written is not None and written.reason == Stage.VALIDATE.value:
            return JobState.REJECTED
        return state

    @property
    def pending_since(self) -> int:
        """When it became pending: with its vcjob, else with the oldest of its pods that have no node."""
        if self.vcjob is not None and self.vcjob.phase in _NOT_RUNNING and self.vcjob.since:
            return self.vcjob.since
        times = (pod.created for pod in self.pods if pod.node is None and pod.live and not pod.deleting)
        return min(times, default=self.created) or self.created

    @property
    def shown_phase(self) -> str:
        """The phase of its object, except that jobs that have their nodes differ from those that wait.

        Volcano and Kubernetes call both Pending, and a gang that lost pods still Running. Objects of files
        may have no phase, and pods that run.
        """
        return self._phase(self.state)

    def _phase(self, state: JobState) -> str:
        if self.phase not in _ACTIVE_PHASES:
            return self.phase
        match state:
            case JobState.RUNNING:
                return "Running"
            case JobState.STARTING:
                return STARTING
            case JobState.PENDING | JobState.REJECTED if self.phase == "Running":
                return "Pending"
        return self.phase

    @property
    def started(self) -> bool:
        """Whether as many pods run as it needs, or it has ended."""
        return self.state in (JobState.RUNNING, JobState.FINISHED, JobState.SUSPENDED)

    @property
    def outcome(self) -> str:
        """placed, pending, refused (it can never run as it is), suspended, ended."""
        return _outcome(self.state)

    def row(self, text_of: Callable[[Reason], str] | None = None) -> doc.JobRow:
        """What the dashboard shows of it, and every document contains.

        `text_of` is `reason_message`, for who remembers what it said of a reason.
        """
        state = self.state
        outcome, code, text, reason_source = _outcome(state), "", "", ""
        if self.reason is not None:
            code, text = self.reason.code, (text_of or reason_message)(self.reason)
        elif self.written is not None and outcome in ("pending", "rejected"):
            written = self.written
            code, text, reason_source = written.reason, shortened(written.message), written.kind
        elif self.would_be_nodes and outcome == "pending":
            text = would_be_placed(self.would_be_nodes, partly=self.placed > 0)
        return {
            "namespace": self.namespace,
            "name": self.name,
            "kind": self.kind,
            "queue": self.queue,
            "priority": self.priority,
            "phase": self._phase(state),
            "state": outcome,
            "pods": self.wanted,
            "running": [pod.phase for pod in self.pods].count("Running"),
            "chips": self.chips,
            "created": self.created,
            "reason_code": code,
            "reason_message": text,
            "reason_source": reason_source,
            "affected_by": _fault_texts(self.faults) if self.faults else [],
            "moves": list(self.moves),
            "expected_start": None if self.start is None else expected_start_fields(self.start, self.now),
            "user": self.user,
            "expected_end": self.end if outcome == "scheduled" else None,
        }

    def document(self) -> doc.JobFields:
        """The job in `get jobs -o json`, `describe job` and `top`."""
        reason = None if self.reason is None else self.reason.as_json()
        document = {
            **self.row(None if reason is None else lambda _: shortened(reason["message"])),
            "min_available": self.needed,
            "scheduled": self.placed,
            "pending_since": self.pending_since if self.outcome == "pending" else None,
            "nodes": list(dict.fromkeys(pod.node for pod in self.pods if pod.node is not None)),
            "reason": reason,
            "board_reason": self.board,
            "requires_change": self.requires_change,
            "faults": [job_fault_fields(one) for one in self.faults],
        }
        if self.job is not None and self.job.refused_classes:
            document["notes"] = list(self.job.refused_classes.values())
        if self.would_be_nodes:
            document["would_be_scheduled_on"] = list(self.would_be_nodes)
        if self.not_tried:
            document["reason_from_last_attempt"] = True
        return cast("doc.JobFields", document)


def _outcome(state: JobState) -> str:
    return "scheduled" if state in (JobState.RUNNING, JobState.STARTING) else state.value


def expected_start_fields(expected: ExpectedStart, now: int | None) -> ExpectedStartFields:
    """Without a present time: what stays true when time passes, and names no other job."""
    return {
        "kind": expected.kind.value,
        "earliest": expected.earliest,
        "latest": expected.latest,
        "after": [] if now is None else list(expected.after),
        "reason": expected.why,
        "estimated": expected.guess,
        "message": expected.text(now),
    }


def with_starts(
    views: Iterable[JobView], starts: Mapping[str, ExpectedStart], now: int | None
) -> list[JobView]:
    """The same jobs; those that wait say when they are expected to start."""
    result = list(views)
    for view in result:
        start = None if view.job is None else starts.get(view.job.key)
        if start is not None and view.outcome == "pending":
            view.start, view.now = start, now
    return result


def reason_message(reason: Reason) -> str:
    return shortened(reason.message)


def shortened(message: str) -> str:
    text = " ".join(message.split())
    return text if len(text) <= MAX_REASON else text[: MAX_REASON - 1] + "…"


def _fault_texts(faults: Sequence[JobFault]) -> list[str]:
    more = [f"and {len(faults) - MAX_FAULTS} more"] if len(faults) > MAX_FAULTS else []
    return [*(one.fault.text for one in faults[:MAX_FAULTS]), *more]


def job_views(objects: ClusterObjects) -> list[JobView]:
    """All jobs in the order in which they were created."""
    by_group: dict[str, list[Pod]] = {}
    alone: list[Pod] = []
    for pod in objects.pods:
        if pod.group is None:
            alone.append(pod)
        else:
            by_group.setdefault(f"{pod.namespace}/{pod.group}", []).append(pod)
    result = list(_of_vcjobs(objects, by_group))
    result += _of_groups(objects, by_group)
    result += _of_missing_groups(objects, by_group)
    others = {uid: job for job in objects.view.jobs_of_others() for uid in job.pods}
    job_of = objects.view.job_of
    result += [pods_view(objects.view, "Pod", [pod], job_of(pod.uid) or others.get(pod.uid)) for pod in alone]
    faults = AffectedJobs(objects.view)
    for view in result:
        view.faults = faults.of_pods(pod.uid for pod in view.pods)
        view.requires_change = _requires_change(objects, view)
        view.would_be_nodes = would_be_nodes(objects.view, view.pods)
        _name_user_and_end(objects.view, view)
    result.sort(key=lambda view: view.created)
    return result


def views_of_pods(objects: ClusterObjects, pods: Iterable[Pod]) -> list[JobView]:
    """The jobs of these pods as `job_views` has them; the others are not looked at."""
    chosen = list(pods)
    groups = {f"{pod.namespace}/{pod.group}" for pod in chosen if pod.group is not None}
    alone = {pod.uid for pod in chosen if pod.group is None}
    pod_groups = [group for group in objects.pod_groups if group.key in groups]
    owners = {group.owner.uid for group in pod_groups if group.owner is not None}
    return job_views(
        replace(
            objects,
            pods=[
                pod
                for pod in objects.pods
                if (pod.uid in alone if pod.group is None else f"{pod.namespace}/{pod.group}" in groups)
            ],
            pod_groups=pod_groups,
            vcjobs=[
                vcjob
                for vcjob in objects.vcjobs
                if vcjob.uid in owners or f"{vcjob.namespace}/{group_name(vcjob)}" in groups
            ],
        )
    )


def with_reasons(objects: ClusterObjects, views: Iterable[JobView], *, fixes: bool = False) -> list[JobView]:
    """The same jobs; those with pending pods have their reasons as of now, as `why` gives them.

    `fixes`: with those that were tried, which takes as long as many placements; for jobs that were asked for.
    """
    result = list(views)
    waiting = [(view, view.job) for view in result if view.job and view.reason is view.job.reason is not None]
    reasons, not_tried = _present_reasons(objects, [job for _, job in waiting], fixes=fixes)
    for view, job in waiting:
        view.reason, view.not_tried = reasons[job.key], job.key in not_tried
        view.requires_change = _requires_change(objects, view)
        _name_board(objects, view)
    return result


def _present_reasons(
    objects: ClusterObjects, jobs: Sequence[Job], *, fixes: bool
) -> tuple[dict[str, Reason | None], Collection[str]]:
    """Return the reasons by job, and the jobs that were not tried: theirs are of their last attempt."""
    before = accumulate((len(job.pods) for job in jobs), initial=0)
    examined = [job for job, pods in zip(jobs, before, strict=False) if pods < MAX_EXAMINED_PODS]
    last = {job.key: job.reason for job in jobs[len(examined) :]}
    reasons = reasons_now(objects.view, examined, objects.now, fixes=fixes).of
    without_fixes = last if fixes else reasons | last
    shown = reasons | {key: reason and reason.with_only(()) for key, reason in without_fixes.items()}
    return shown, last.keys()


def _name_board(objects: ClusterObjects, view: JobView) -> None:
    refused = view.outcome == "rejected" and view.job is not None
    view.board = why_this_board(objects.view, view.job) if refused and view.job is not None else None


def _of_vcjobs(objects: ClusterObjects, by_group: dict[str, list[Pod]]) -> Iterator[JobView]:
    # Older controllers of Volcano name the PodGroup as the job. That of an earlier vcjob of the same name may
    # still exist.
    owned = {
        (f"{group.namespace}/{group.owner.name}", group.owner.uid): group.key
        for group in objects.pod_groups
        if group.owner is not None and group.owner.is_vcjob
    }
    for vcjob in objects.vcjobs:
        key = owned.get((vcjob.key, vcjob.uid)) or owned.get((vcjob.key, ""))
        key = key or f"{vcjob.namespace}/{group_name(vcjob)}"
        yield vcjob_view(objects.view, vcjob, objects.view.jobs.get(key), by_group.get(key, []))


def vcjob_view(view: SchedulerView, vcjob: VcJob, job: Job | None, pods: list[Pod]) -> JobView:
    return JobView(
        vcjob.namespace,
        vcjob.name,
        "vcjob",
        vcjob.queue,
        0 if job is None else job.priority,
        vcjob.phase or "Pending",
        pods,
        vcjob.replicas,
        vcjob.min_available,
        vcjob.created,
        _chips_of_vcjob(view, vcjob, job),
        pods_not_created(vcjob, pods, has_group=job is not None) or _reason(view, job),
        job,
        vcjob,
        dict(vcjob.counts),
        suspended=vcjob.suspended,
        labels=vcjob.labels,
    )


def _chips_of_vcjob(view: SchedulerView, vcjob: VcJob, job: Job | None) -> float:
    expected = [] if job is None else job.in_order
    if any(pod.cls.part is not None for pod in expected):
        return chips_requested(view, expected)
    return sum(task.template.cls.chips * task.replicas for task in vcjob.tasks)


def _of_groups(objects: ClusterObjects, by_group: dict[str, list[Pod]]) -> Iterator[JobView]:
    owners = {vcjob.uid for vcjob in objects.vcjobs}
    names = {vcjob.key for vcjob in objects.vcjobs}
    for group in objects.pod_groups:
        owner = group.owner
        if owner is not None and owner.uid in owners:
            continue
        # Objects in files may have no uid.
        if (
            owner is not None
            and owner.is_vcjob
            and not owner.uid
            and f"{group.namespace}/{owner.name}" in names
        ):
            continue
        job = objects.view.jobs.get(group.key)
        yield group_view(objects.view, group, job, by_group.get(group.key, []))


def group_view(view: SchedulerView, group: PodGroup, job: Job | None, pods: list[Pod]) -> JobView:
    return JobView(
        group.namespace,
        group.job_name,
        "PodGroup",
        group.queue,
        0 if job is None else job.priority,
        group.phase or "Pending",
        pods,
        max(len(pods), group.min_member),
        group.min_member,
        group.created,
        chips_requested(view, pods),
        _reason(view, job),
        job,
        suspended=is_suspended(group, pods),
        labels=pods[0].labels if group.ordinary and pods else group.labels,
    )


def _of_missing_groups(objects: ClusterObjects, by_group: dict[str, list[Pod]]) -> Iterator[JobView]:
    """Pods that name a PodGroup which does not exist."""
    groups = {group.key for group in objects.pod_groups}
    groups |= {f"{vcjob.namespace}/{group_name(vcjob)}" for vcjob in objects.vcjobs}
    for key, pods in by_group.items():
        if key in groups:
            continue
        yield pods_view(objects.view, "PodGroup", pods, objects.view.jobs.get(key))


def pods_view(view: SchedulerView, kind: str, pods: list[Pod], job: Job | None) -> JobView:
    """A pod on its own, or the pods of a PodGroup that does not exist."""
    first = pods[0]
    of_vcjob = first.owner if first.owner is not None and first.owner.is_vcjob else None
    return JobView(
        first.namespace,
        first.name if kind == "Pod" else of_vcjob.name if of_vcjob else first.group or "",
        kind,
        "default" if job is None else view.usage.queue_of(first.uid, job.queue),
        job.priority if job is not None else first.priority if kind == "Pod" else 0,
        pod_phase(first),
        pods,
        len(pods),
        1,
        min(pod.created for pod in pods),
        chips_requested(view, pods),
        _reason(view, job),
        job,
        labels=first.labels,
    )


def view_of_job(view: SchedulerView, job: Job) -> JobView | None:
    """A job that the scheduler knows, without its faults; None where nothing of it is left to show."""
    pods = list(job.pods.values())
    vcjob = view.vcjob_of(job) or _vcjob_of_pods(view, job, pods)
    if vcjob is not None:
        result = vcjob_view(view, vcjob, job, pods)
    elif job.group is not None:
        result = group_view(view, job.group, job, pods)
    elif pods:
        alone = pods[0].group is None
        result = pods_view(view, "Pod", pods[:1], job) if alone else pods_view(view, "PodGroup", pods, job)
    else:
        # An invalid vcjob that is gone: the job goes with the same turn.
        return None
    result.moves = tuple(moves_under_way(view, job)) if view.history.moves.plans else ()
    result.would_be_nodes = would_be_nodes(view, pods)
    _name_user_and_end(view, result)
    return result


def _name_user_and_end(view: SchedulerView, job_view: JobView) -> None:
    job = job_view.job
    if job is None:
        return
    job_view.user = user_of(job, view.settings).name
    lengths = [length for length in (job.expected, view.limits.longest(job)) if length is not None]
    # A leader that came later knows when the pods were bound.
    starts = [pod.bound for pod in job.pods.values() if pod.bound]
    started = job.started if job.started is not None else min(starts, default=None)
    if started is not None and lengths:
        job_view.end = started + min(lengths)


def _vcjob_of_pods(view: SchedulerView, job: Job, pods: list[Pod]) -> VcJob | None:
    """The vcjob of pods whose PodGroup is gone: that of a job that is over is deleted before its pods."""
    owner = pods[0].owner if pods and job.group is None else None
    if owner is None or not owner.is_vcjob:
        return None
    vcjob = view.vcjobs.get(f"{job.namespace}/{owner.name}")
    return vcjob if vcjob is not None and f"{job.namespace}/{group_name(vcjob)}" == job.key else None


def has_podgroup(view: SchedulerView, vcjob: VcJob) -> bool:
    """Whether a PodGroup of the vcjob exists. Older controllers of Volcano give it the name of the job."""
    older = view.jobs.get(vcjob.key)
    if older is not None and view.vcjob_of(older) is vcjob:
        return True
    return f"{vcjob.namespace}/{group_name(vcjob)}" in view.jobs


def view_of_foreign(view: SchedulerView, pod: Pod) -> JobView | None:
    """A pod of another scheduler, which is shown where it has chips or waits for them."""
    if not requested(pod.cls)[1] or not pod.live or pod.unreadable:
        return None
    return pods_view(view, "Pod", [pod], view.job_of_other(pod))


def shown_jobs(view: SchedulerView) -> Iterator[JobView]:
    """The jobs that a scheduler knows, without their faults."""
    uids = set[str]()
    for job in view.jobs.values():
        uids.update(job.pods)
        shown = view_of_job(view, job)
        if shown is not None:
            yield shown
    for vcjob in view.vcjobs.values():
        if not has_podgroup(view, vcjob):
            yield vcjob_view(view, vcjob, None, [])
    placements = view.cluster.pods
    for uid in placements.keys() - uids:
        shown = view_of_foreign(view, placements[uid].pod)
        if shown is not None:
            yield shown


def pod_phase(pod: Pod) -> str:
    return "Terminating" if pod.deleting else pod.phase


def _reason(view: SchedulerView, job: Job | None) -> Reason | None:
    """Why it waits; a job whose pods all have nodes has no reason."""
    if job is None or job.reason is None:
        return None
    excluded = job.reason.code in (OTHER_SCHEDULER.code, PODS_GATED.code, VOLUMES_AWAITED.code)
    if job.pods and not view.has_pending_pods(job) and not excluded:
        return None
    return job.reason


def _requires_change(objects: ClusterObjects, view: JobView) -> bool:
    if view.reason is None:
        return False
    if view.reason.kind.stage is Stage.VALIDATE or view.reason.code in _NEVER:
        return True
    queue = objects.view.queues.get(view.queue)
    if view.job is None or queue is None or not queue.capability:
        return False
    return bool(lacking(view.job.min_requested(), {}, queue.capability))


# -- nodes ---------------------------------------------------------------------------------------


class SwitchNames:
    """The leaf switch of each node, by the address that the ConfigMap names.

    Of several nodes with one address only the oldest is under the switch.
    """

    def __init__(self, view: SchedulerView) -> None:
        topology = view.topology.switch_topology
        self._names: dict[str, str] = (
            {}
            if topology is None
            else {server.server_ip: switch.ip for switch in topology.switches for server in switch.servers}
        )

        self._addresses = view.cluster.addresses

    def of(self, node: Node) -> str | None:
        return self._names.get(node.internal_ip or node.name) if self._addresses.holds(node) else None


#: A letter for the state in which a chip counts.
LETTERS = {"used": "u", "faulty": "f", "isolated": "i", "reserved": "r", "unschedulable": "c", "free": "."}
#: A letter for the health of a chip that is not as it should be.
HEALTH_LETTERS = {"faulty": "f", "isolated": "i", "network fault": "n", "sub-healthy": "s"}


def node_row(
    view: SchedulerView, node: Node, now: int, switches: SwitchNames
) -> tuple[doc.NodeRow, Sequence[StateOfNode], list[NodeChips]]:
    """What the dashboard shows of a node, and every document contains; its states and chips by resource."""
    cluster = view.cluster
    number = cluster.node_id.get(node.name)
    states = READY if number is None else node_states(cluster, number, now)
    chips = [] if number is None else list(chips_of_node(cluster, number, states))
    chips.sort(key=lambda one: one.resource)
    position = None if number is None else cluster.position_of(number)
    row: doc.NodeRow = {
        "name": node.name,
        "schedulable": is_open(states),
        "state": states[0].state.value,
        "states": [{"state": one.state.value, "message": one.why, "start": one.start} for one in states],
        "switch": switches.of(node),
        "superpod": None if position is None else _not_negative(position.superpod),
        "rack": None if position is None else _not_negative(position.rack),
        "numbers": [number for one in chips for number in chips_of(one.states.listed)],
        "chip_states": "".join(_letters(one.states) for one in chips),
        "health": "".join(_health(one) for one in chips),
    }
    return row, states, chips


def _not_negative(number: int | None) -> int | None:
    """The number of a SuperPoD or rack; a device report says -1 where there is none."""
    return None if number is None or number < 0 else number


def _letters(states: ChipStates) -> str:
    # Those of most nodes.
    if states.free == states.listed:
        return LETTERS["free"] * states.listed.bit_count()
    if states.used == states.listed:
        return LETTERS["used"] * states.listed.bit_count()
    by_chip = {chip: LETTERS[name] for name, mask in states.by_state() for chip in chips_of(mask)}
    return "".join(by_chip[chip] for chip in chips_of(states.listed))


def _health(chips: NodeChips) -> str:
    usual = "h" if chips.is_reported else "u"
    if chips.are_well:
        return usual * chips.states.listed.bit_count()
    bad = [(HEALTH_LETTERS[word], mask) for word, mask in chips.by_health() if mask]
    return "".join(
        next((letter for letter, mask in bad if mask >> chip & 1), usual)
        for chip in chips_of(chips.states.listed)
    )


def node_documents(objects: ClusterObjects, some: Iterable[Node] | None = None) -> list[doc.NodeFields]:
    """All nodes or some, in natural order."""
    # By resource and accelerator-type: the board that jobs on such nodes get.
    boards = {(resource, kind): board for resource, kind, board in boards_present(objects.view)}
    switches = SwitchNames(objects.view)
    pods: dict[str, int] = {}
    for pod in objects.pods:
        if pod.node is not None and pod.live:
            pods[pod.node] = pods.get(pod.node, 0) + 1
    result: list[doc.NodeFields] = []
    for node in sorted(objects.nodes if some is None else some, key=lambda node: natural_key(node.name)):
        row, _, chips = node_row(objects.view, node, objects.now, switches)
        label = node.labels.get(ACCELERATOR_TYPE, "")
        fields: doc.NodeFields = {
            **row,
            "address": node.internal_ip,
            "own_superpod": node.superpod,
            "pods": pods.get(node.name, 0),
            "allocation_mode": allocation_mode(objects.view, node.name),
            "chips": [
                chips_fields(
                    one,
                    boards.get((one.resource, label)) or boards.get((one.resource, "")),
                    percent_of_chips(objects.view, node.name),
                )
                for one in chips
            ],
        }
        if not fields["allocation_mode"]:
            del fields["allocation_mode"]
        result.append(fields)
    return result


# -- queues -------------------------------------------------------------------------------------


class QueueShares:
    """As written, otherwise the part of the parent's share by weight.

    What the capability of a queue does not let it use is shared among its siblings.
    """

    def __init__(self, queues: Iterable[Queue], chips: Mapping[str, Amount]) -> None:
        """`chips`: resource -> chips of the cluster."""
        self._queues = {queue.name: queue for queue in queues if queue.name != ROOT_QUEUE}
        self._chips = dict(chips)
        self._children: dict[str, list[Queue]] = {}
        for queue in self._queues.values():
            self._children.setdefault(self._parent(queue), []).append(queue)
        #: Parent -> shares of its children; those of the root if the parents form a cycle.
        self._shares: dict[str, dict[str, Amounts]] = {}

    def _parent(self, queue: Queue) -> str:
        """Without one, and below one that does not exist, it is a child of the root."""
        return queue.parent if queue.parent in self._queues else ROOT_QUEUE

    def of(self, name: str) -> Amounts:
        """Resource -> chips, at most what its capability allows. The root has all."""
        above: list[str] = []
        upper = name
        # Not by recursion: there may be more queues above it than frames.
        while upper in self._queues and (upper := self._parent(self._queues[upper])) not in self._shares:
            self._shares[upper] = {}
            above.append(upper)
        for parent in reversed(above):
            self._shares[parent] = self._share_out(self._children[parent], self._known(parent))
        return self._known(name)

    def _known(self, name: str) -> Amounts:
        queue = self._queues.get(name)
        shares = None if queue is None else self._shares[self._parent(queue)].get(name)
        # Missing while the share of a queue above is computed: the parents form a cycle.
        return dict(self._chips) if shares is None else shares

    def _share_out(self, queues: list[Queue], shared: Amounts) -> dict[str, Amounts]:
        result: dict[str, Amounts] = {queue.name: {} for queue in queues}
        for resource, total in shared.items():
            claims = [
                WeightedClaim(queue.weight, min(queue.capability.get(resource, total), total))
                if queue.weight > 0
                else WeightedClaim(1, 0)
                for queue in queues
            ]
            for queue, amount in zip(queues, share_out(total, claims), strict=True):
                result[queue.name][resource] = amount
        for queue in queues:
            if any(resource in queue.deserved for resource in shared):
                # One that says what it deserves deserves nothing else.
                result[queue.name] = {
                    resource: min(queue.deserved.get(resource, 0), queue.capability.get(resource, total))
                    for resource, total in shared.items()
                }
        return result


def queue_documents(objects: ClusterObjects, views: Iterable[JobView] | None = None) -> list[doc.QueueFields]:
    jobs = list(job_views(objects) if views is None else views)
    shares = QueueShares(objects.view.queues.values(), listed_chips(objects.view.cluster))
    jobs_in: dict[str, list[JobView]] = {}
    for view in jobs:
        jobs_in.setdefault(view.queue, []).append(view)
    result: list[doc.QueueFields] = []
    for queue in sorted(objects.queues, key=lambda queue: natural_key(queue.name)):
        own = jobs_in.get(queue.name, [])
        result.append(
            {
                "name": queue.name,
                "state": queue.state,
                "weight": queue.weight,
                "reclaimable": queue.reclaimable,
                "capability": {**queue.capability},
                "limit": plain(objects.view.limits.of_queue(queue.name)),
                "guarantee": {**queue.guarantee},
                "used": plain(objects.view.usage.used_by_queue(queue.name)),
                "fair_share": plain(shares.of(queue.name)),
                "reserved_quota": plain(objects.view.usage.reserved.against(queue.name, "")),
                "reserved_quota_jobs": objects.view.jobs_with_reserved_quota(queue.name),
                "jobs": len(own),
                "pending": sum(1 for view in own if view.outcome == "pending"),
            }
        )
    return result


# -- pods ---------------------------------------------------------------------------------------


def pod_documents(
    objects: ClusterObjects, pods: Iterable[Pod], *, fixes: bool = False
) -> list[doc.PodFields]:
    """The pods; those that wait have the reason of their job, with fixes that were tried or without."""
    view, chosen = objects.view, list(pods)
    placements = view.cluster.pods
    waiting = {uid: job for job in view.jobs_of_others() for uid in job.pods}
    waiting |= {
        pod.uid: job
        for pod in chosen
        if (job := view.job_of(pod.uid))
        and (view.is_pending(pod) or (pod.uid in placements and placements[pod.uid].reserved))
    }
    examined = {waiting[pod.uid].key: waiting[pod.uid] for pod in chosen if pod.uid in waiting}
    present, not_tried = _present_reasons(objects, list(examined.values()), fixes=fixes)
    # Once for all pods of a job.
    reasons = {key: None if reason is None else reason.as_json() for key, reason in present.items()}
    result: list[doc.PodFields] = []
    for pod in sorted(chosen, key=lambda pod: (pod.namespace, natural_key(pod.name))):
        job = view.job_of(pod.uid)
        record = placements.get(pod.uid)
        part_chips = record.part_chips if record is not None else 0
        resource, asks = requested(pod.cls)
        fields: doc.PodFields = {
            "namespace": pod.namespace,
            "name": pod.name,
            "job": None if job is None else job.full_name,
            "phase": pod_phase(pod),
            "node": pod.node,
            "resource": resource,
            "requested_chips": asks,
            "chips": list(pod.named_chips or chips_of(part_chips)),
            "rank": pod.rank if job is None else ranks_of(job).get(pod.uid, pod.rank),
            "created": pod.created,
            "exit_code": pod.exit_code,
            "reason": reasons[waiting[pod.uid].key] if pod.uid in waiting else None,
        }
        if part := part_of_pod(view, pod):
            fields["part"] = part
        if pod.node is None and (nodes := would_be_nodes(view, [pod])):
            fields["would_be_scheduled_on"] = nodes[0]
        if not_tried and pod.uid in waiting and waiting[pod.uid].key in not_tried:
            fields["reason_from_last_attempt"] = True
        result.append(fields)
    return result


# -- the whole cluster ---------------------------------------------------------------------------


def chip_totals(view: SchedulerView, now: int, within: int | None = None) -> dict[str, doc.ChipTotals]:
    """Resource -> its chips by state; all, or those of these nodes."""
    drained = before_drain_counts(view.cluster, view.settings, now, within)
    return {
        resource: cast("doc.ChipTotals", {**counts, "until_drain": drained.get(resource, 0)})
        for resource, counts in sorted(chip_counts(view.cluster, now, within).items())
        if counts["chips"]
    }


def top_document(
    objects: ClusterObjects, status: doc.StatusFields, views: Sequence[JobView]
) -> doc.TopDocument:
    """What `ringwise top -o json` prints: the status, all nodes and queues, the jobs that are not placed."""
    return {
        "schema": "ringwise.io/top/v1",
        "status": status,
        "nodes": node_documents(objects),
        "queues": queue_documents(objects, views),
        "pending_jobs": [view.document() for view in not_placed(views)],
    }


def not_placed(views: Iterable[JobView]) -> list[JobView]:
    return [view for view in views if view.outcome in ("pending", "rejected")]

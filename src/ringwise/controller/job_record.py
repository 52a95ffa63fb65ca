"""What the controller knows of one vcjob: its status, its pods, and the requests under way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from ringwise.messages.commands import SetJobStatus
from ringwise.messages.job_expansion import pods_of
from ringwise.records import dataclass
from ringwise.state.failures import is_made_again
from ringwise.state.job_plugins import with_needed
from ringwise.state.model import ENDED, Pod
from ringwise.state.vcjob import OVER, Task, VcJob, claim_names
from ringwise.wellknown import JOB_VERSION, TASK_INDEX

#: A request without effect is repeated after this time, in nanoseconds.
RETRY_AFTER = 10_000_000_000

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
TERMINATING, UNKNOWN = "Terminating", "Unknown"
#: Keys of the status counts, in the order of the vcjob's status.
COUNTED = (PENDING, RUNNING, SUCCEEDED, FAILED, TERMINATING, UNKNOWN)


@dataclass(slots=True)
class Counts:
    """Pods by phase, of the job and of each task. A pod that is to be deleted counts as terminating."""

    total: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))
    tasks: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, task: str, phase: str, pods: int = 1) -> None:
        self.total[phase] = self.total.get(phase, 0) + pods
        of_task = self.tasks.setdefault(task, {})
        of_task[phase] = of_task.get(phase, 0) + pods

    def of(self, task: str, *phases: str) -> int:
        counts = self.tasks.get(task, {})
        return sum(counts.get(phase, 0) for phase in phases)

    def __getitem__(self, phase: str) -> int:
        return self.total[phase]


@dataclass(slots=True)
class JobRecord:
    """One job. The object's status is read once, when it is first seen; then these fields are the status."""

    job: VcJob
    #: Every pod that carries the job's name, by uid; also those of an earlier job of that name.
    pods: dict[str, Pod]
    phase: str = ""
    reason: str = ""
    message: str = ""
    since: int = 0
    retries: int = 0
    version: int = 0
    conditions: tuple[tuple[str, int], ...] = ()
    #: An action began in this call: its phase is reported before the next one follows.
    action_started: bool = False
    #: Pods whose deletion (by uid) and creation (by name) was requested, and when.
    delete_requested: dict[str, int] = field(default_factory=dict)
    create_requested: dict[str, tuple[str, int]] = field(default_factory=dict)
    #: Pods that were evicted (name -> task, when), until they run again.
    evicted: dict[str, tuple[str, int]] = field(default_factory=dict)
    #: When events without a time in the object were seen first.
    first_seen: dict[tuple[str, str], int] = field(default_factory=dict)
    updated: bool = False
    #: Whether it was moved to another queue.
    moved: bool = False
    #: The queue of its PodGroup when its first pod got a node, until none has one.
    started_in: str | None = None
    group_requested: int | None = None
    group_deletion_requested: int | None = None
    #: Replicas of each task in the published host lists; None: not known to this controller.
    published_replicas: tuple[int, ...] | None = None
    #: When they and the PodGroup are written again, because objects of the job could not be.
    write_again: int | None = None
    resources_requested: bool = False
    reported: SetJobStatus | None = None
    #: F5: since when this controller waits for the scheduler to restart the ended pods.
    restart_awaited: int | None = None
    #: Pods that kubelet rejected (by uid), and when this controller saw it.
    rejected: dict[str, int] = field(default_factory=dict)
    #: By name: those of them that were deleted and do not exist again yet, and how often they were rejected.
    rejections: dict[str, int] = field(default_factory=dict)
    #: What is in the way of its objects.
    held_up: str = ""
    #: When time alone changes something; None: only events do.
    due: int | None = None

    @classmethod
    def of(cls, job: VcJob, pods: dict[str, Pod]) -> JobRecord:
        return cls(
            job,
            pods,
            phase=job.phase,
            reason=job.reason,
            message=job.message,
            since=job.since,
            retries=job.retry_count,
            version=job.version,
            conditions=job.conditions,
            rejections=dict(job.rejections),
        )

    def own_pods(self) -> Iterator[Pod]:
        uid = self.job.uid
        for pod in self.pods.values():
            if pod.owner is not None and pod.owner.uid == uid:
                yield pod

    @property
    def holds_nodes(self) -> bool:
        return any(pod.node and pod.phase not in ("Succeeded", "Failed") for pod in self.own_pods())

    def current_pods(self) -> list[Pod]:
        """Pods of the present attempt that are not terminating, in task order."""
        version = str(self.version)
        place = {task.name: position for position, task in enumerate(self.job.tasks)}
        result = [
            pod
            for pod in self.own_pods()
            if not self.is_terminating(pod) and pod.annotations.get(JOB_VERSION, "0") == version
        ]
        result.sort(key=lambda pod: (place.get(pod.task, len(place)), index_of(pod), pod.uid))
        return result

    def is_terminating(self, pod: Pod) -> bool:
        return pod.deleting or pod.uid in self.delete_requested

    def is_of_earlier_attempt(self, pod: Pod) -> bool:
        return pod.annotations.get(JOB_VERSION, "0") != str(self.version)

    def task(self, name: str) -> Task | None:
        return next((task for task in self.job.tasks if task.name == name), None)

    def counts(self) -> Counts:
        counts = Counts()
        for pod in self.own_pods():
            if self.is_terminating(pod):
                counts.add(pod.task, TERMINATING)
            elif is_made_again(pod) and self.phase not in OVER:
                counts.add(pod.task, PENDING)
            else:
                counts.add(pod.task, pod.phase if pod.phase in counts.total else UNKNOWN)
        for task, _ in self.create_requested.values():
            counts.add(task, PENDING)
        return counts

    def status(self, counts: Counts) -> SetJobStatus:
        return SetJobStatus(
            key=self.job.key,
            phase=self.phase,
            reason=self.reason,
            message=self.message,
            counts=counts.total,
            retries=self.retries,
            version=self.version,
            since=self.since,
            # Of a task without pods nothing stays in the status.
            tasks={**{task.name: {} for task in self.job.tasks}, **counts.tasks},
            min_available=self.job.min_available,
            conditions=self.conditions,
            controlled=_controlled(self.job),
            rejections=self._reported_rejections(),
        )

    def _reported_rejections(self) -> dict[str, int] | None:
        """None while there never were any: few jobs have them in their status."""
        written = self.reported is not None and self.reported.rejections is not None
        return dict(self.rejections) if written or self.rejections or self.job.rejections else None

    def agrees(self, job: VcJob) -> bool:
        """Whether the object has the status that was written last."""
        last = self.reported
        return last is None or (
            (last.phase, last.reason, last.message, last.retries, last.version, last.since)
            == (job.phase, job.reason, job.message, job.retry_count, job.version, job.since)
            and all(last.counts.get(phase, 0) == job.counts.get(phase, 0) for phase in COUNTED)
            and (last.rejections or {}) == job.rejections
        )

    def move(self, phase: str, now: int, reason: str = "", message: str = "") -> None:
        if phase != self.phase:
            self.since = now
            earlier = tuple(entry for entry in self.conditions if entry[0] != phase)
            self.conditions = (*earlier, (phase, now))
        self.phase, self.reason, self.message = phase, reason, message

    def note_eviction(self, pod: Pod, now: int) -> None:
        """A pod of the present attempt was deleted by something else than this controller."""
        ours = pod.owner is not None and pod.owner.uid == self.job.uid
        if (
            ours
            and pod.uid not in self.delete_requested
            and not self.is_of_earlier_attempt(pod)
            and self.phase not in OVER
        ):
            self.evicted[pod.name] = (pod.task, now)

    def note_losses(self, now: int) -> None:
        """Pods that were deleted while no controller ran: the status counts more than there are."""
        if self.phase not in ("Pending", "Running"):
            return
        counted = sum(pods for phase, pods in self.job.counts.items() if phase != TERMINATING)
        current = self.current_pods()
        missing = pods_of(self.job, {pod.key for pod in current}) if counted > len(current) else []
        # What was deleted because kubelet rejected it was not evicted (F5).
        lost = [pod for pod in missing if pod.name not in self.rejections]
        for pod in lost[: counted - len(current) - (len(missing) - len(lost))]:
            self.evicted[pod.name] = (pod.task, now)

    def clear_deadline(self) -> None:
        self.due = None

    def wake_at(self, moment: int) -> None:
        if self.due is None or moment < self.due:
            self.due = moment


def _controlled(job: VcJob) -> dict[str, str]:
    """What Volcano lists as made for the job: its plugins, and its volume claims."""
    result = {f"plugin-{name}": name for name in with_needed(job.plugins) if name != "hcclrank"}
    for claim in claim_names(job):
        result[f"volume-pvc-{claim}"] = claim
    return result


def index_of(pod: Pod) -> int:
    text = pod.annotations.get(TASK_INDEX, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else -1


def later(previous: Pod | None, seen: Pod) -> Pod:
    """The later of two states of one pod: phases only advance, and a deletion is not taken back."""
    if previous is None:
        return seen
    if previous.phase in ENDED and seen.phase not in ENDED:
        return previous
    if previous.deleting and not seen.deleting:
        return previous
    if previous.phase == RUNNING and seen.phase == PENDING:
        return previous
    return seen

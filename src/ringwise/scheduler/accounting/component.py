"""Accounting: turns what happens to pods and jobs into intervals, each reported once.

It begins with what the previous leader wrote (`AccountsRead`); without that it reports nothing. Documents are
not written here: the component that carries out the commands adds up the intervals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import field, replace

from ringwise.durations import SECOND
from ringwise.framework.evictions.lost_work import believed_checkpoint
from ringwise.framework.job import Job
from ringwise.framework.users import user_of, user_of_pod
from ringwise.messages import events as ev
from ringwise.messages.accounting import (
    AccountClosed,
    AccountCommand,
    AccountedJob,
    ChipAmount,
    FailureExcused,
    HoldEnded,
    JobWaits,
    PodHeld,
    WaitEnded,
)
from ringwise.messages.commands import Command, DeletePod, Evict, EvictionCause
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on, on_job
from ringwise.state.allocation_modes import NO_CHIPS, NodeMode
from ringwise.state.chip_fractions import chip_resource, chips_of_node, chips_used
from ringwise.state.cluster import PodRecord
from ringwise.state.model import Node, Pod, PodClass
from ringwise.state.part_requests import requested
from ringwise.topology.policy import PolicyFacts, select_board
from ringwise.wellknown import ACCELERATOR_TYPE

#: A leader knows all that ended so long before it wrote, however late or wrong the clocks of nodes are.
SURELY_COUNTED = 600 * SECOND
#: So far a node's clock may be ahead without being marked.
_AHEAD = 60 * SECOND
#: Ends of pods that a standby replica remembers: it may be the next leader.
_MAX_ENDS = 10_000
#: Answers about boards that are kept: nodes of a cluster have a few labels and sizes.
_MAX_BOARDS = 1000
#: Characters of a user's name that are kept.
_LONGEST = 253
#: Causes by which a job loses work that is not its own affair.
LOSSES = frozenset(EvictionCause) - {EvictionCause.OTHER, EvictionCause.SUSPEND}


class Accounting(Component):
    name = "accounting"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        #: What the previous leader wrote, until it is compared with what there is; and whether it was.
        self._read: ev.AccountsRead | None = None
        self._active = False
        #: Pods that hold chips, as reported last, by uid; and how many of each job, by its uid.
        self._open: dict[str, PodHeld] = {}
        self._runs: dict[str, int] = {}
        #: Uids of pods that ended, are counted and still exist.
        self._counted: set[str] = set()
        #: Jobs that wait, as reported last; those that started before, both by uid; those that failed since.
        self._waits: dict[str, JobWaits] = {}
        self._ran: dict[str, AccountedJob] = {}
        #: Keys of the jobs that wait.
        self._waiting: set[str] = set()
        #: By key of the job: a job that is gone has no objects that tell its uid.
        self._uids: dict[str, str] = {}
        self._failed: dict[AccountedJob, None] = {}
        #: To look at, and to tell, in this turn. Dictionaries keep the order.
        self._pods: dict[str, None] = {}
        self._jobs: dict[str, None] = {}
        self._started: dict[str, tuple[str, PodHeld]] = {}
        self._excused: dict[str, None] = {}
        self._output: list[AccountCommand] = []
        #: While this replica does not lead: when pods ended.
        self._ends: dict[str, int] = {}
        #: By resource, and label and size of a node.
        self._boards: dict[tuple[str, str, int], str] = {}
        self.totals = QueueTotals()

    # -- what is heard -------------------------------------------------------------------------------

    @on(ev.AccountsRead)
    def _accounts_read(self, event: ev.AccountsRead, now: int) -> None:
        self._read = event

    @on(ie.PodChanged)
    def _pod_changed(self, event: ie.PodChanged, now: int) -> None:
        # The job is read before anything is reported: its queue may not be known yet.
        pod = event.pod
        if not self._active or pod.node is None:
            return
        if not pod.live if pod.uid in self._open else requested(pod.cls)[1]:
            self._pods[pod.uid] = None

    @on(ie.PodEnding)
    def _pod_ending(self, event: ie.PodEnding, now: int) -> None:
        pod = event.pod
        if not self._active:
            if pod is None or not pod.live:
                until = min(pod.ended, now) if pod is not None and pod.ended else now
                self._ends.setdefault(event.uid, until)
                if len(self._ends) > _MAX_ENDS:
                    del self._ends[next(iter(self._ends))]
        elif pod is None:
            if event.uid in self._pods:
                self._look(event.uid, now)
            if event.uid in self._open:
                self._end(event.uid, None, now, now)
            self._counted.discard(event.uid)
            self._pods.pop(event.uid, None)

    @on(ev.EvictFailed)
    def _evict_failed(self, event: ev.EvictFailed, now: int) -> None:
        held = self._open.get(event.uid)
        if held is not None and held.cause:
            self._record_held(replace(held, cause="", lost_since=0))

    @on_job(ie.JobSettled)
    def _job_settled(self, job: Job, now: int) -> None:
        if self._active and (job.waiting_since is None) is (job.key in self._waiting):
            self._jobs[job.key] = None

    @on_job(ie.JobGone)
    def _job_gone(self, job: Job, now: int) -> None:
        if not self._active:
            return
        self._jobs.pop(job.key, None)
        self._waiting.discard(job.key)
        uid, reported = _uid(job), self._uids.pop(job.key, "")
        if reported not in self._runs:
            self._stop_waiting(reported, now, now)
        if uid in self._runs or not (uid in self._waits or uid in self._ran):
            # Its pods now belong to another PodGroup, or nothing was reported about it.
            return
        self._stop_waiting(uid, now, now)
        self._close(uid)

    @on_job(ie.HardwareBroke)
    def _hardware_broke(self, job: Job, now: int) -> None:
        if self._active:
            self._excused[_uid(job)] = None

    def _evicting(self, commands: Iterable[Command], now: int) -> None:
        for command in commands:
            if isinstance(command, (Evict, DeletePod)) and command.cause in LOSSES:
                held = self._open.get(command.uid)
                if held is not None and held.cause != command.cause:
                    since = self._checkpoint(held, now) or held.since
                    self._record_held(replace(held, cause=str(command.cause), lost_since=since))

    def _checkpoint(self, held: PodHeld, now: int) -> int:
        """When the job saved its work, if its queue believes what it says; else 0."""
        job = self._book.job_of(held.pod)
        queue = self._book.queues.get(held.queue)
        return 0 if job is None else believed_checkpoint(job, queue, held.since, now) or 0

    # -- what is reported ----------------------------------------------------------------------------

    def account(self, commands: Sequence[Command], now: int) -> Sequence[Command]:
        """Return records of what changed in the turn; its commands say which pods are evicted, and why."""
        if self._read is not None:
            read, self._read = self._read, None
            self._active = True
            self._compare(read, now)
        if not self._active:
            return ()
        if self._pods:
            for uid in self._pods:
                self._look(uid, now)
            self._pods.clear()
        self._evicting(commands, now)
        for key, first in self._started.values():
            self._start(key, first)
        self._started.clear()
        for key in self._jobs:
            self._look_at_job(key, now)
        self._jobs.clear()
        self._output += map(FailureExcused, self._forget_failures(self._excused))
        self._excused.clear()
        output, self._output = self._output, []
        return output

    def _compare(self, read: ev.AccountsRead, now: int) -> None:
        """What was open when the previous leader wrote, with what there is."""
        self._ran.update((job.uid, job) for job in read.ran)
        self._counted.update(uid for uid in read.ended if uid in self._state.pods)
        for held in read.held:
            self._open[held.pod] = held
            self._runs[held.job.uid] = self._runs.get(held.job.uid, 0) + 1
            self.totals.holds(held.queue, held.chips, now)
        for wait in read.waits:
            self._waits[wait.job.uid] = wait
        for held in read.held:
            if held.pod not in self._state.pods:
                until = self._ends.get(held.pod)
                if until is not None:
                    self._end(held.pod, None, until, now)
                else:
                    self._end(held.pod, None, now, now, sure=read.written)
        for uid, record in self._state.pods.items():
            pod = record.pod
            if not requested(pod.cls)[1]:
                continue
            if pod.live or uid in self._open:
                self._look(uid, now, read.written)
            elif not read.written or (pod.ended and pod.ended <= read.written - SURELY_COUNTED):
                self._counted.add(uid)
            else:
                self._look(uid, now, read.written)
        there = {_uid(job): key for key, job in self._book.jobs.items()}
        for uid in [*self._waits, *self._ran]:
            if uid not in there and uid not in self._runs:
                self._stop_waiting(uid, now, read.written)
                self._close(uid)
        self._jobs.update(dict.fromkeys(self._book.jobs))
        self._ends.clear()

    def _look(self, uid: str, now: int, unseen_since: int = 0) -> None:
        """Whether a pod holds chips. `unseen_since`: what happened to it since then was not seen."""
        record = self._state.pods.get(uid)
        if record is None:
            return
        pod = record.pod
        if pod.node is None or record.assumed:
            return
        if pod.live:
            if uid not in self._open:
                self._begin(record, now)
        elif uid not in self._counted:
            if uid not in self._open and not (pod.ended and self._begin(record, now)):
                # It was first seen after it had ended, and its status does not say when that was.
                self._counted.add(uid)
                return
            until = pod.ended or self._ends.get(uid, now)
            unseen = not pod.ended and uid not in self._ends and unseen_since
            self._end(uid, pod, until, now, sure=unseen_since if unseen else None)
            self._counted.add(uid)

    def _begin(self, record: PodRecord, now: int) -> bool:
        pod = record.pod
        job = self._book.job_of(pod.uid)
        if job is None:
            return False
        since = pod.bound or now
        allowed = min(max(since, pod.created), now)
        node = self._state.nodes[record.node] if record.node >= 0 else None
        mode = self._state.modes.get(record.node, NO_CHIPS)
        held = PodHeld(
            self._account(job, pod),
            self._book.counts_for(pod.uid, job)[1],
            self._board(pod.cls, node, mode),
            chips_used(pod.cls, node, mode),
            pod.uid,
            allowed,
            clamped=since < pod.created or since > now + _AHEAD,
        )
        self._record_held(held)
        uid = held.job.uid
        count = self._runs[uid] = self._runs.get(uid, 0) + 1
        self.totals.holds(held.queue, held.chips, now)
        if count == 1 or (uid in self._started and held.since < self._started[uid][1].since):
            self._started[uid] = (job.key, held)
        return True

    def _record_held(self, held: PodHeld) -> None:
        self._open[held.pod] = held
        self._output.append(held)

    def _end(self, uid: str, pod: Pod | None, until: int, now: int, *, sure: int | None = None) -> None:
        held = self._open.pop(uid)
        allowed = min(max(until, held.since), now)
        surely = allowed if sure is None else min(max(sure, held.since), allowed)
        succeeded = pod is not None and pod.phase == "Succeeded"
        lost = held.cause and not succeeded
        failed = pod is not None and pod.phase == "Failed" and not pod.deleting and not held.cause
        self._output.append(
            HoldEnded(
                uid,
                allowed,
                surely,
                pod.ended if pod is not None else 0,
                held.cause if lost else "",
                held.lost_since if lost else self._checkpoint(held, allowed) if failed else 0,
                failed,
                clamped=until < held.since or until > now + _AHEAD,
            )
        )
        job = held.job.uid
        self._runs[job] -= 1
        if not self._runs[job]:
            del self._runs[job]
        first_failure = failed and held.job not in self._failed
        if failed:
            self._failed[held.job] = None
        self.totals.ended(held, allowed if lost else None, now, failed=first_failure)

    def _start(self, key: str, first: PodHeld) -> None:
        """The job had no node and got some."""
        uid = self._uids[key] = first.job.uid
        wait = self._waits.pop(uid, None)
        self._waiting.discard(key)
        job, who = self._book.jobs.get(key), first.job if wait is None else wait.job
        since = wait.since if wait is not None else self._waits_since(job, uid, first.since)
        since = min(since, first.since)
        self._ran[uid] = who
        self._forget_failures((uid,))
        self._output.append(
            WaitEnded(who, first.queue, first.board, since, first.since, first.since, started=True)
        )
        self.totals.started(first.queue, first.since - since)

    def _look_at_job(self, key: str, now: int) -> None:
        job = self._book.jobs.get(key)
        if job is None:
            return
        uid = self._uids[key] = _uid(job)
        waits = job.waiting_since is not None and uid not in self._runs
        if waits == (uid in self._waits):
            (self._waiting.add if waits else self._waiting.discard)(key)
            return
        if not waits:
            if not any(self._state.pods[one].node >= 0 for one in job.pods):
                # Otherwise it starts: its bindings are not confirmed yet.
                self._stop_waiting(uid, now, now)
                self._waiting.discard(key)
        elif any(requested(pod.cls)[1] for pod in job.in_order):
            wait = JobWaits(self._account(job), job.queue, min(self._waits_since(job, uid, now), now))
            self._waits[uid] = wait
            self._waiting.add(key)
            self._output.append(wait)

    def _waits_since(self, job: Job | None, uid: str, otherwise: int) -> int:
        """Since it was created; once it has run, since the oldest of its new pods was created."""
        if job is None:
            return otherwise
        if uid not in self._ran:
            return job.created or otherwise
        pods = (pod for pod in job.pods.values() if requested(pod.cls)[1])
        times = [pod.created for pod in pods if pod.live and not pod.deleting]
        return min(times, default=otherwise) or otherwise

    def _stop_waiting(self, uid: str, until: int, sure: int) -> None:
        wait = self._waits.pop(uid, None)
        if wait is not None:
            until = max(until, wait.since)
            surely = min(max(sure, wait.since), until)
            self._output.append(WaitEnded(wait.job, wait.queue, "", wait.since, until, surely, started=False))

    def _close(self, uid: str) -> None:
        """The job is gone."""
        self._forget_failures((uid,))
        ran = self._ran.pop(uid, None)
        if ran is not None:
            self._output.append(AccountClosed(ran))

    def _forget_failures(self, uids: Container[str]) -> list[AccountedJob]:
        """Return the jobs with these uids that failed, and forget that they did."""
        forgotten = [one for one in self._failed if one.uid in uids]
        for one in forgotten:
            del self._failed[one]
        return forgotten

    # -- names ---------------------------------------------------------------------------------------

    def _account(self, job: Job, pod: Pod | None = None) -> AccountedJob:
        settings = self._configuration.settings
        user = user_of(job, settings) if pod is None else user_of_pod(pod, job, settings)
        uid, name = _uid(job), user.name[:_LONGEST]
        # The pods of a gang have the same: a cluster has many more pods than jobs.
        first = self._started.get(uid)
        if first is not None:
            previous = first[1].job
            if previous.user == name and previous.verified is user.verified:
                return previous
        return AccountedJob(job.namespace, job.name, uid, name, user.verified)

    def _board(self, cls: PodClass, node: Node | None, mode: NodeMode) -> str:
        """The board of its node, by the node's label or size; its resource where no board has that."""
        resource = chip_resource(cls, mode)
        if node is None:
            return resource
        label = node.labels.get(ACCELERATOR_TYPE, "")
        key = (resource, label, chips_of_node(node, resource, mode))
        board = self._boards.get(key)
        if board is None:
            if len(self._boards) >= _MAX_BOARDS:
                self._boards.clear()
            board = self._boards[key] = self._find_board(*key)
        return board

    def _find_board(self, resource: str, label: str, size: int) -> str:
        catalog = self._topology.catalog
        serving = catalog.serving(resource)
        board = select_board(catalog, PolicyFacts(resource, accelerator_type=label)) if serving else None
        if board is not None and not isinstance(board, Reason) and board.chips_per_node >= size:
            return board.name
        match = next((one for one in serving if one.chips_per_node == size), None)
        return match.name if match is not None else serving[0].name if serving else resource


def _uid(job: Job) -> str:
    """Of its vcjob or other owner, else of its PodGroup, else of its pod: the same for all its pods."""
    group = job.group
    if group is not None:
        return group.owner.uid if group.owner is not None else group.uid or job.key
    pod = next(iter(job.pods.values()), None)
    if pod is None:
        return job.key
    return pod.owner.uid if pod.owner is not None else pod.uid


@dataclass(slots=True)
class QueueTotal:
    #: Chip-nanoseconds until `at`, and the chips that are held from then on.
    held: ChipAmount = 0
    chips: ChipAmount = 0
    at: int = 0
    #: Chip-nanoseconds, by cause.
    lost: dict[str, ChipAmount] = field(default_factory=dict)
    #: Pods that the scheduler ended, by cause.
    evicted: dict[str, int] = field(default_factory=dict)
    #: Nanoseconds that jobs waited that started.
    waited: int = 0
    starts: int = 0
    failures: int = 0

    def held_until(self, now: int) -> ChipAmount:
        return self.held + self.chips * max(now - self.at, 0)

    def until(self, now: int) -> QueueTotal:
        """A copy, as it is at that time."""
        return replace(
            self, held=self.held_until(now), at=now, lost=dict(self.lost), evicted=dict(self.evicted)
        )


class QueueTotals:
    """What metrics tell of accounting: by queue, since this process leads."""

    def __init__(self) -> None:
        self.queues: defaultdict[str, QueueTotal] = defaultdict(QueueTotal)

    def holds(self, queue: str, chips: ChipAmount, now: int) -> None:
        total = self.queues[queue]
        if total.at != now:
            total.held += total.chips * (now - total.at)
            total.at = now
        total.chips += chips

    def ended(self, pod: PodHeld, lost_until: int | None, now: int, *, failed: bool) -> None:
        """`lost_until`: when it ended, where its work is lost."""
        self.holds(pod.queue, -pod.chips, now)
        if failed:
            self.queues[pod.queue].failures += 1
        if lost_until is not None:
            total = self.queues[pod.queue]
            # It may have ended before the checkpoint that it claims.
            work = pod.chips * max(lost_until - pod.lost_since, 0)
            total.lost[pod.cause] = total.lost.get(pod.cause, 0) + work
            total.evicted[pod.cause] = total.evicted.get(pod.cause, 0) + 1

    def started(self, queue: str, waited: int) -> None:
        total = self.queues[queue]
        total.starts += 1
        total.waited += waited

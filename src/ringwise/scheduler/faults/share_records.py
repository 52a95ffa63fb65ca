"""F6: a job that loses pods by a fault, a drain or a move keeps its share until it is complete again.

The record of a job begins with the first pod that goes for such a reason; from then on every rank that loses
its pod is in it, whoever deleted the pod. Only what the scheduler itself evicted for another job is not: that
one is to have it. A record counts for `hold-healthy-nodes` after a pod was last gone, also where no node is
held. It ends when minAvailable pods are placed (F2) or the job is over, and survives a restart (F1).
"""

from __future__ import annotations

from collections.abc import Collection

from ringwise.durations import SECOND
from ringwise.framework.amounts import amounts_of
from ringwise.framework.gangs.gang_count import confirmed_pods, is_placed, needed_pods
from ringwise.framework.gangs.ranks import ranks_of
from ringwise.framework.job import Job, pod_order
from ringwise.framework.reserved_quota import ReservedQuota
from ringwise.messages import events as ev
from ringwise.reasons import Trigger
from ringwise.records import dataclass
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on
from ringwise.scheduler.cache.record_tables import RecordTable, RestoredRecord
from ringwise.scheduler.faults.fault_job import FaultJobs
from ringwise.scheduler.faults.lost_pods import (
    EarlySuccessors,
    Successors,
    is_recreated,
    new_pod,
    owner_id,
    owner_key,
    owner_of_pod,
)
from ringwise.scheduler.faults.previous_placements import PreviousPlacements
from ringwise.state.cluster import PodRecord
from ringwise.state.model import Pod
from ringwise.state.node_health import NodeStatus


@dataclass(frozen=True, slots=True)
class EndingPod:
    """A pod on a node, taken before an event that begins or ends its end."""

    job: Job
    pod: Pod
    rank: int
    #: The queue for which it counts.
    queue: str
    lent: bool


class ShareRecords(Component):
    name = "kept shares"

    def __init__(self, context: Context, jobs: FaultJobs, previous: PreviousPlacements) -> None:
        super().__init__(context)
        self._jobs = jobs
        self._previous = previous
        #: The pod that is about to end or to begin to, if its share may be kept.
        self._ending_pod: EndingPod | None = None
        #: By owner: the vcjob, whatever its PodGroup is called; for other jobs their key.
        self._shares = context.record.add(RecordTable("reserved-quota", ReservedQuota, forget=self._forget))
        #: Records of pods without a PodGroup that no new pod has taken yet.
        self._successors = Successors()
        self._early = EarlySuccessors()
        #: Pods that are evicted for another job.
        self._given_up: dict[str, None] = context.pod_tables.add({})
        #: Owners of jobs that changed since the last review.
        self._touched: dict[str, None] = {}
        context.usage.reserved.held_ranks = self._held_ranks

    def __len__(self) -> int:
        return len(self._shares)

    # -- pods are lost -----------------------------------------------------------------------

    @on(ie.PodEvicted)
    def _pod_evicted(self, event: ie.PodEvicted, now: int) -> None:
        """The other job is to have its share."""
        if event.command.by:
            self._given_up[event.uid] = None

    @on(ev.PodGroupGone)
    def _group_gone(self, event: ev.PodGroupGone, now: int) -> None:
        self._forget(event.key)

    @on(ie.GroupSeen)
    def _group_seen(self, event: ie.GroupSeen, now: int) -> None:
        if event.job.group is not None and event.job.group.suspended:
            # It gave its share back.
            self._forget(event.job.key)
        self._job_seen(event.job)

    @on(ie.VcJobOver, ie.VcJobRemoved)
    def _vcjob_ended(self, event: ie.VcJobOver | ie.VcJobRemoved, now: int) -> None:
        self._forget(owner_id(event.vcjob.namespace, event.vcjob.uid))

    @on(ie.StateRebuilt)
    def _state_rebuilt(self, event: ie.StateRebuilt, now: int) -> None:
        """What was to be said about a pod was not said to the end."""
        self._ending_pod = None

    @on(ie.PodEnding)
    def _pod_ending(self, event: ie.PodEnding, now: int) -> None:
        self._ending_pod = self._before(event.uid, event.pod)

    @on(ie.PodChanged)
    def _pod_changed(self, event: ie.PodChanged, now: int) -> None:
        ending, self._ending_pod = self._ending_pod, None
        if event.lost:
            self._gone(ending, now)
        if event.pod.deleting and event.node >= 0:
            self._leaves(ending)
        if event.job is not None:
            self._job_seen(event.job)

    @on(ie.PodRemoved)
    def _pod_removed(self, event: ie.PodRemoved, now: int) -> None:
        ending, self._ending_pod = self._ending_pod, None
        self._gone(ending, now)

    def _before(self, uid: str, pod: Pod | None = None) -> EndingPod | None:
        """The pod as it is now, if this report of it begins its end or ends it; without one, it is ended."""
        record = self._state.pods.get(uid)
        if record is None or record.node < 0:
            return None
        if pod is None:
            return self._ending(uid)
        # A pod that is being deleted ends as Failed or Succeeded before it is gone; neither is what it says.
        left = pod.deleting or record.pod.deleting
        ends = pod.phase == "Failed" or (pod.phase == "Succeeded" and left)
        if not ends and not (pod.deleting and not record.pod.deleting):
            return None
        failed = pod.phase == "Failed" and not left
        return self._ending(uid, pod if failed else None)

    def _ending(self, uid: str, failed: Pod | None = None) -> EndingPod | None:
        job = self._book.job_of(uid)
        if job is None or uid in self._given_up:
            return None
        placement = self._state.pods[uid]
        pod = placement.pod
        if not self._book.is_ours(pod):
            # Limits were never checked for it, so its share must not admit pods of ours beyond them.
            return None
        if not is_recreated(job, pod) or not self._previous.continues(job, pod):
            return None
        owner = owner_key(job, pod)
        if pod.group is not None and job.group is None and owner == job.key:
            # Its PodGroup was deleted, and the job with it. A vcjob that starts over gets another one.
            return None
        share = self._shares.get(owner) if self._shares else None
        # A pod that kubelet rejected never ran, and is made again (F5).
        rejected = failed is not None and failed.rejected
        if share is None and not rejected and not self._is_lost(job, placement, failed):
            return None
        queue, lent = self._usage.queue_of(uid, job.queue), uid in self._usage.borrowing
        return EndingPod(job, pod, self._rank(share, job, pod), queue, lent)

    def _is_lost(self, job: Job, placement: PodRecord, failed: Pod | None) -> bool:
        """Whether it goes because of a fault, a drain or a move."""
        if job.places or job.key in self._jobs:
            return True
        if failed is not None and self._jobs.restarts_failed(job, failed):
            return True
        number, state = placement.node, self._state
        node = state.nodes[number]
        if node is None or not node.ready or node.unschedulable or number in state.isolated_nodes:
            # `kubectl drain` cordons the node first, `ringwise drain` isolates it.
            return True
        fleet = state.fleets.get(placement.pod.cls.resource or "")
        broken = fleet.broken(number) if fleet is not None else 0
        return bool(placement.chips & broken) or state.node_status.get(number) is NodeStatus.UNHEALTHY

    def _rank(self, share: ReservedQuota | None, job: Job, pod: Pod) -> int:
        if share is not None and pod.uid in share.leaving:
            return share.leaving[pod.uid]
        if pod.group is None:
            return 0
        return pod.rank if pod.rank is not None else ranks_of(job)[pod.uid]

    @on(ie.DeletingPod)
    def _deleting_pod(self, event: ie.DeletingPod, now: int) -> None:
        self._leaves(self._before(event.uid))

    def _leaves(self, ending: EndingPod | None) -> None:
        """The pod begins to terminate: until it is gone it uses its share itself."""
        if ending is not None:
            share = self._note(ending)
            share.leaving[ending.pod.uid] = ending.rank
            self._early.leaves(share.pods_owner, ending.pod.uid)

    @on(ev.EvictFailed)
    def _stays(self, event: ev.EvictFailed, now: int) -> None:
        self._given_up.pop(event.uid, None)
        for owner, share in self._shares.items():
            if share.leaving.pop(event.uid, None) is not None:
                self._early.gone(share.pods_owner, event.uid)
                self._touched[owner] = None
                self._shares.touch(owner)

    def _gone(self, ending: EndingPod | None, now: int) -> None:
        """The pod is gone, or failed, and no longer uses anything."""
        if ending is None:
            return
        share = self._note(ending)
        share.leaving.pop(ending.pod.uid, None)
        share.until = now + self._hold
        share.counts = True
        owner = owner_key(ending.job, ending.pod)
        early = self._early.gone(share.pods_owner, ending.pod.uid)
        if early is not None and early in self._book.jobs and early not in self._shares:
            self._shares.rename(owner, early)
            self._hand_over(share, self._book.jobs[early])
        else:
            self._successors.leave(share.pods_owner, owner)

    def _note(self, ending: EndingPod) -> ReservedQuota:
        """The record of the job, with this rank in it."""
        job, pod = ending.job, ending.pod
        owner = owner_key(job, pod)
        self._touched[owner] = None
        share = self._shares.get(owner)
        amounts = amounts_of(pod.cls)
        if share is None:
            alone = owner_of_pod(pod) if pod.group is None else ""
            share = ReservedQuota(job.key, ending.queue, {ending.rank: amounts}, pods_owner=alone)
            self._shares[owner] = share
            self._usage.reserved.put(share)
            self._add_others(share, job, pod.uid)
            share.most = len({*share.ranks, *self._held_ranks(share)})
        share.lent = share.lent or ending.lent
        share.ranks.pop(ending.rank, None)
        share.ranks[ending.rank] = amounts
        if len(share.ranks) > share.most:
            del share.ranks[next(iter(share.ranks))]
        self._shares.touch(owner)
        self._usage.reserved.touch(share.job)
        return share

    def _add_others(self, share: ReservedQuota, job: Job, lost: str) -> None:
        """Ranks that had no pod, or a terminating one, before the first was lost: they count with it.

        Of pods that wait, only those without which the job is not complete: the others never had a share.
        """
        placements = self._state.pods
        held: set[int] = set()
        waiting: list[Pod] = []
        for uid, pod in job.pods.items():
            if uid == lost or uid in self._given_up or uid in job.backups:
                continue
            if pod.phase == "Failed" or pod.deleting:
                rank = self._rank(None, job, pod)
                share.ranks[rank] = amounts_of(pod.cls)
                if placements[uid].node >= 0:
                    share.leaving[uid] = rank
            elif is_placed(self._state, pod):
                held.add(self._rank(None, job, pod))
            else:
                waiting.append(pod)
        rank = 0
        for pod in sorted(waiting, key=pod_order):
            if len(held) + len(share.ranks) >= needed_pods(job):
                return
            # Ranks of pods without a node are assigned again while other pods come and go.
            while rank in held or rank in share.ranks:
                rank += 1
            share.ranks[rank] = amounts_of(pod.cls)

    @property
    def _hold(self) -> int:
        return self._configuration.settings.hold_healthy_nodes * SECOND

    # -- what is held ------------------------------------------------------------------------

    def _held_ranks(self, share: ReservedQuota) -> Collection[int]:
        """Ranks with a pod that is on a node, also a terminating one, or that succeeded."""
        job = self._book.jobs.get(share.job)
        if job is None:
            return ()
        placements = self._state.pods
        return {
            self._rank(share, job, pod)
            for uid, pod in job.pods.items()
            if placements[uid].node >= 0 or (pod.phase == "Succeeded" and not pod.deleting)
        }

    # -- jobs come back ----------------------------------------------------------------------

    def _job_seen(self, job: Job) -> None:
        """One of its objects changed."""
        if not self._shares:
            return
        owner = owner_key(job, next(iter(job.pods.values()), None))
        taken, pod = self._successors.take(job, owner), new_pod(job)
        if taken is not None and taken in self._shares:
            self._shares.rename(taken, owner)
        elif taken is None and pod is not None:
            self._early.comes(pod, job.key)
        share = self._shares.get(owner)
        if share is None:
            return
        self._hand_over(share, job)
        self._usage.reserved.touch(job.key)

    def _hand_over(self, share: ReservedQuota, job: Job) -> None:
        """The record is that of this job from now on."""
        if share.job != job.key:
            self._usage.reserved.drop(share.job)
            share.job = job.key
            self._usage.reserved.put(share)
        owner = owner_key(job, next(iter(job.pods.values()), None))
        self._touched[owner] = None
        self._shares.touch(owner)

    def _forget(self, owner: str) -> None:
        """The job is complete or over."""
        share = self._shares.pop(owner)
        self._touched.pop(owner, None)
        if share is None:
            return
        self._successors.forget(share.pods_owner, owner)
        if self._usage.reserved.of(share.job):
            self._triggers.add(Trigger.CLAIM_FELL)
        self._usage.reserved.drop(share.job)

    # -- time --------------------------------------------------------------------------------

    def deadline(self) -> int | None:
        return min(
            (share.until for share in self._shares.values() if share.counts and share.until is not None),
            default=None,
        )

    def review(self, now: int) -> None:
        """Before a cycle: what is complete again ends, what is too old does not count."""
        touched, self._touched = self._touched, {}
        for owner in touched:
            share = self._shares.get(owner)
            if share is None:
                continue
            job = self._book.jobs.get(share.job)
            if job is not None and self._is_complete(owner, share, job):
                self._forget(owner)
        for owner, share in list(self._shares.items()):
            if share.counts and share.until is not None and share.until <= now:
                if share.job not in self._book.jobs:
                    self._forget(owner)
                    continue
                if self._usage.reserved.of(share.job):
                    self._triggers.add(Trigger.CLAIM_FELL)
                share.counts = False
                self._shares.touch(owner)
                self._usage.reserved.touch(share.job)

    def _is_complete(self, owner: str, share: ReservedQuota, job: Job) -> bool:
        """F2; a binding that is not confirmed may still fail."""
        placed = confirmed_pods(self._state, job)
        if len(placed) >= needed_pods(job):
            return True
        for pod in placed:
            # Should the rank be lost again, that is noted again.
            if share.ranks.pop(self._rank(share, job, pod), None) is not None:
                self._shares.touch(owner)
        return False

    # -- a restart of the scheduler (F1) -----------------------------------------------------------

    def restore(self, record: RestoredRecord, now: int) -> None:
        """What the previous leader knew."""
        vcjobs = {owner_id(vcjob.namespace, vcjob.uid): vcjob for vcjob in self._book.vcjobs.values()}
        for owner, share in record.of(self._shares).items():
            vcjob = vcjobs.get(owner)
            if vcjob is not None and vcjob.over:
                continue
            if vcjob is None and not share.pods_owner and share.job not in self._book.jobs:
                # It was deleted while no scheduler looked.
                continue
            if share.until is not None:
                # No clock runs so far ahead that a share could be kept for longer than its setting.
                share.until = min(share.until, now + self._hold)
            gone = [uid for uid in share.leaving if uid not in self._state.pods]
            if gone:
                # They went between the two leaders; how long ago is not known.
                share.until = now + self._hold
                for uid in gone:
                    del share.leaving[uid]
            share.counts = share.until is None or share.until > now
            current = self._shares.get(owner)
            if current is not None:
                # Seen by this replica while it stood by.
                share.ranks = {**share.ranks, **current.ranks}
                share.leaving = {**share.leaving, **current.leaving}
                share.until = max(filter(None, (share.until, current.until)), default=None)
                share.counts = share.counts or current.counts
                share.most = max(share.most, current.most)
                share.lent = share.lent or current.lent
                self._usage.reserved.drop(current.job)
            self._shares[owner] = share
            self._usage.reserved.put(share)
            self._touched[owner] = None
            if share.pods_owner and share.job not in self._book.jobs:
                self._successors.leave(share.pods_owner, owner)
        if self._shares:
            for job in list(self._book.jobs.values()):
                self._job_seen(job)

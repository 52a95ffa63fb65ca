"""Where the pods of a job were before they were lost, while the job is rescheduled (S9, P7, F1).

Jobs placed as a whole (leaf switches, SuperPoDs, racks) are always remembered: their replacement
pods must go back close to the others. Until the job is complete again the chips of its
healthy previous placements are reserved for it, with a limit. A vcjob that starts over keeps its
previous placements, whatever its PodGroup is called. After a restart of the scheduler the
annotations of the surviving pods show where those are; placements of pods that were lost
before the restart, and the reservations for them, are read from the document of F1.

The same holds for other gangs, and for pods without a PodGroup that have an owner, while they are
rescheduled because of a fault. This also works if an owner creates pods under other names: ranks are
assigned again in the order of the names, and a pod without a PodGroup takes the place of one of its owner's
pods that is gone.

A job that a user suspended or requeued releases its chips at once: nothing is reserved for it. If its old
nodes are free when it comes back, it returns to them. They are remembered for 72 hours, also over a restart
of the scheduler (F1).

Other jobs are remembered where `prefer-previous-node` is set, without a reservation: the
previous node is preferred, and may be taken meanwhile. They are kept by the pods'
owner and by rank, for 72 hours after the owner lost its last pod, or until all are placed again.
"""

from __future__ import annotations

from dataclasses import replace

from ringwise.durations import SECOND
from ringwise.framework.gangs.ranks import ranks_of
from ringwise.framework.job import AwaitedNode, Job, PreviousNode, TerminatingPod
from ringwise.messages import events as ev
from ringwise.messages.job_expansion import group_name
from ringwise.reasons import Trigger
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on, on_job
from ringwise.scheduler.cache.record_tables import RecordTable, RestoredRecord
from ringwise.scheduler.faults.cool_downs import is_cooling
from ringwise.scheduler.faults.detection import BROKE_THE_POD_WITHIN, FaultType, is_unfit
from ringwise.scheduler.faults.fault_job import FaultJobs
from ringwise.scheduler.faults.lost_pods import (
    RETENTION,
    HeldPlacement,
    LeavingPod,
    RememberedNodes,
    Rescheduling,
    Successors,
    is_recreated,
    owner_id,
    owner_key,
    owner_of_pod,
    placed_as_a_whole,
)
from ringwise.state.loads import NO_LOAD, Load, load_of
from ringwise.state.model import Pod
from ringwise.state.nested import discard
from ringwise.state.reservations import Reservation
from ringwise.wellknown import (
    IS_HEALTHY,
    IS_SHARED_TOR,
    LOGICAL_RACK,
    SHARED_TOR_IP,
    SUPER_POD_ID,
    SUPER_POD_RANK,
)

WHY = "being rescheduled"
_POD_ANNOTATIONS = (IS_SHARED_TOR, IS_HEALTHY, SHARED_TOR_IP, SUPER_POD_RANK, SUPER_POD_ID, LOGICAL_RACK)


class PreviousPlacements(Component):
    name = "previous placements"

    def __init__(self, context: Context, jobs: FaultJobs) -> None:
        super().__init__(context)
        self._jobs = jobs
        #: The placement of a pod that is about to end, if it is remembered.
        self._held: HeldPlacement | None = None
        #: Jobs placed as a whole, by owner.
        self._rescheduling = context.record.add(
            RecordTable(
                "previous-placements",
                Rescheduling,
                # Nothing is held for a suspended job, and it is kept for days.
                droppable=lambda entry: entry.suspended,
                forget=self._end,
                is_valid=lambda entry: entry.nodes.keys() == entry.chips.keys() == entry.loads.keys(),
            )
        )
        #: Pods of such jobs that are being deleted, by uid.
        self._leaving = context.record.add(
            RecordTable("leaving-pods", LeavingPod, subject=lambda uid, pod: pod.owner, forget=self._stays)
        )
        #: Job to uid to the placement of a pod that failed.
        self._failed: dict[str, dict[str, LeavingPod]] = context.job_tables.add({})
        #: Of those, pods without a PodGroup that are gone and were not created again yet.
        self._successors = Successors()
        #: Other jobs.
        self._preferred = RememberedNodes()
        #: Jobs whose vcjob is gone while pods of them still terminate.
        self._ended: set[str] = set()

    @property
    def rescheduling(self) -> int:
        """How many jobs placed as a whole are being rescheduled."""
        return sum(not one.suspended for one in self._rescheduling.values())

    @property
    def preferred(self) -> int:
        """Of how many owners the previous nodes are kept without a reservation."""
        return len(self._preferred)

    # -- pods are lost ------------------------------------------------------------------------

    @on(ie.StateRebuilt)
    def _state_rebuilt(self, event: ie.StateRebuilt, now: int) -> None:
        """What was to be said about a pod was not said to the end."""
        self._held = None

    @on(ie.PodEnding)
    def _pod_ending(self, event: ie.PodEnding, now: int) -> None:
        self._held = self._held_by(event.uid) if event.pod is None else self._held_until_end(event.pod)

    @on(ie.PodChanged)
    def _pod_changed(self, event: ie.PodChanged, now: int) -> None:
        uid, job = event.pod.uid, event.job
        if event.lost:
            self._placement_ended(now)
            self._stays(uid, terminates=event.pod.deleting)
        if job is not None and event.only_confirmed and job.previous_nodes:
            self._settle(job)
        elif job is not None and event.pod.deleting:
            self._leaves(uid, now)

    @on(ie.PodRemoved)
    def _pod_removed(self, event: ie.PodRemoved, now: int) -> None:
        self._placement_ended(now)
        if event.job is not None:
            event.job.terminating.pop(event.uid, None)
            if event.job.key in self._failed and not self._remembers(event.job.key):
                # Else hardware may still turn out to be why it failed.
                discard(self._failed, event.job.key, event.uid)
        self._stays(event.uid)

    def _placement_ended(self, now: int) -> None:
        held, self._held = self._held, None
        if held is not None and held.given_back:
            self._lost_suspended(held, now)
        elif held is not None:
            self._lost(held, now)
            self._notify(ie.PlacementLost(held.job, held.pod), now)

    def _held_by(self, uid: str, failed: Pod | None = None) -> HeldPlacement | None:
        """The pod's placement, if it has to be remembered when the pod is lost or has failed."""
        placement = self._state.pods.get(uid)
        if placement is None or placement.node < 0 or not placement.chips:
            return None
        job = self._book.job_of(uid)
        if job is not None and uid in job.backups:
            return None  # The pod that it was to replace runs on.
        pod = placement.pod
        given_back = self._is_given_back(pod)
        is_held = job is not None and not given_back and self._is_held(job, pod, failed)
        others = failed is not None or self._prefers_previous_node(pod)
        if job is None or not (is_held or given_back or others):
            return None
        leaving = self._leaving.get(uid)
        if leaving is not None:
            # Its rank as it was before its replacement existed.
            rank = leaving.rank
        else:
            rank = pod.rank if pod.rank is not None else ranks_of(job)[uid]
        has_failed = failed is not None
        return HeldPlacement(job, pod, placement.node, placement.chips, rank, is_held, given_back, has_failed)

    def _held_until_end(self, pod: Pod) -> HeldPlacement | None:
        """The placement of a pod whose phase says that it ended, if it is remembered.

        A pod that was being deleted did not fail (S9): a kubelet says Failed or Succeeded before it removes
        the pod, by the exit code with which the containers ended on its signal.
        """
        if pod.live:
            return None
        before = self._state.pods.get(pod.uid)
        left = pod.deleting or pod.uid in self._leaving or (before is not None and before.pod.deleting)
        failed = pod.phase == "Failed" and not left
        return self._held_by(pod.uid, pod if failed else None) if left or failed else None

    def _is_given_back(self, pod: Pod) -> bool:
        """Return whether a user suspended or requeued its job."""
        group = self._book.groups.get(f"{pod.namespace}/{pod.group}")
        if group is not None and group.suspended:
            return True
        if pod.owner is None or not pod.owner.is_vcjob:
            return False
        vcjob = self._book.vcjobs.get(f"{pod.namespace}/{pod.owner.name}")
        return vcjob is not None and vcjob.uid == pod.owner.uid and vcjob.gives_back

    def _is_held(self, job: Job, pod: Pod, failed: Pod | None) -> bool:
        """S9: jobs placed as a whole always, others that are created again while a fault moves them."""
        if placed_as_a_whole(job, pod):
            return True
        return is_recreated(job, pod) and (
            job.key in self._jobs if failed is None else self._jobs.restarts_failed(job, failed)
        )

    def _prefers_previous_node(self, pod: Pod) -> bool:
        preferred = self._configuration.settings.prefer_previous_node
        return preferred and pod.owner is not None and bool(pod.owner.uid)

    def _lost(self, held: HeldPlacement, now: int) -> None:
        """The pod is gone or failed. Its placement is remembered only while its job continues."""
        if not self.continues(held.job, held.pod):
            return
        if held.failed and not placed_as_a_whole(held.job, held.pod) and is_recreated(held.job, held.pod):
            failed = self._failed.setdefault(held.job.key, {})
            failed[held.pod.uid] = self._leaving_pod(held, False, now)
        if not held.is_held:
            if self._prefers_previous_node(held.pod):
                self._lost_without_reservation(held, now)
            return
        entry = self._remember(self._leaving_pod(held, held.failed, now), now)
        held.job.previous_nodes = entry.nodes

    def _leaving_pod(self, held: HeldPlacement, failed: bool, now: int) -> LeavingPod:
        pod, name = held.pod, self._state.names[held.node]
        annotations = {key: pod.annotations[key] for key in _POD_ANNOTATIONS if key in pod.annotations}
        # Switch and SuperPoD jobs return to a node on which only the pod failed (S9, P7).
        faulty = failed and not placed_as_a_whole(held.job, pod)
        # F3: also where the hardware is healthy again.
        faulty = faulty or is_cooling(held.job, name, held.chips, now)
        # No report of the hardware shows these.
        faulty = faulty or self._jobs.fault_of(held.job.key, pod.uid) in (
            FaultType.RELATION,
            FaultType.SUB_HEALTH,
        )
        return LeavingPod(
            owner_key(held.job, pod),
            held.job.key,
            pod.cls.resource or "",
            held.rank,
            PreviousNode(name, annotations, faulty, now, held=not held.given_back, suspended=held.given_back),
            held.chips,
            load_of((pod.cls,)),
            owner_of_pod(pod) if pod.group is None else "",
        )

    def _remember(self, pod: LeavingPod, now: int) -> Rescheduling:
        entry = self._rescheduling.get(pod.owner)
        if entry is not None and entry.suspended and not pod.node.suspended:
            # It was resumed, and lost a pod before all were placed: only what it had now is held.
            self._end(pod.owner)
            entry = None
        if entry is None:
            entry = self._rescheduling[pod.owner] = Rescheduling(pod.job, pod.resource)
            entry.pods_owner = pod.pods_owner
        self._successors.leave(pod.pods_owner, pod.owner)
        entry.nodes[pod.rank] = replace(pod.node, lost=now)
        entry.chips[pod.rank] = pod.chips
        entry.loads[pod.rank] = pod.load
        entry.until = now + self._hold
        entry.stale = True
        self._rescheduling.touch(pod.owner)
        return entry

    @property
    def _hold(self) -> int:
        return self._configuration.settings.hold_healthy_nodes * SECOND

    @on(ie.DeletingPod)
    def _deleting_pod(self, event: ie.DeletingPod, now: int) -> None:
        self._leaves(event.uid, now)

    def _leaves(self, uid: str, now: int) -> None:
        """F1: the pod is being deleted: its placement is known should the scheduler end before the pod."""
        self._terminates(uid, now)
        held = self._held_by(uid) if uid not in self._leaving else None
        if held is None or not (held.is_held or held.given_back):
            return
        if held.given_back or self.continues(held.job, held.pod):
            self._leaving[uid] = pod = self._leaving_pod(held, False, now)
            self._await(uid, pod)

    def _terminates(self, uid: str, now: int) -> None:
        """F2, P7: since when the pod terminates, and whether hardware is why."""
        job, placed = self._book.job_of(uid), self._state.pods.get(uid)
        if job is None or placed is None or uid in job.terminating:
            return
        node = self._state.names[placed.node] if placed.node >= 0 else ""
        faulty = is_unfit(self._state, placed.pod.cls.resource or "", node, placed.chips)
        job.terminating[uid] = TerminatingPod(node, now, faulty)

    def _await(self, uid: str, pod: LeavingPod) -> None:
        """S9: should its replacement exist before it is gone, it waits for the node; a limit holds."""
        job = self._book.jobs.get(pod.job)
        if job is not None and pod.node.held and not pod.node.faulty and job.key in self._jobs:
            since = pod.node.lost
            job.awaited_nodes[uid] = AwaitedNode(pod.node.node, pod.rank, since, since + self._hold)

    @on_job(ie.HardwareBroke)
    def _hardware_broke(self, job: Job, now: int) -> None:
        """S9: its pods that failed because of it, not by themselves, return where theirs is healthy."""
        for uid, pod in self._failed.pop(job.key, {}).items():
            node, number = pod.node, self._state.node_id.get(pod.node.node)
            if now >= node.lost + BROKE_THE_POD_WITHIN:
                continue
            fleet = self._state.fleets.get(pod.resource)
            if number is not None and fleet is not None and fleet.held[number] & pod.chips:
                continue  # Another pod has the chips by now.
            faulty = node.faulty or self._jobs.fault_of(job.key, uid) not in (None, FaultType.POD)
            # F3: also where the hardware is healthy again.
            faulty = faulty or is_cooling(job, node.node, pod.chips, now)
            faulty = faulty or is_unfit(self._state, pod.resource, node.node, pod.chips)
            entry = self._remember(replace(pod, node=replace(node, faulty=faulty)), now)
            job.previous_nodes = entry.nodes
            self._reserve(entry)

    @on(ev.EvictFailed)
    def _evict_failed(self, event: ev.EvictFailed, now: int) -> None:
        self._stays(event.uid)

    def _stays(self, uid: str, *, terminates: bool = False) -> None:
        """The pod is gone and remembered, or its deletion failed; or it ended and is still being deleted."""
        job = self._book.job_of(uid)
        if job is not None and not terminates:
            job.terminating.pop(uid, None)
        pod = self._leaving.pop(uid)
        if pod is not None:
            self._await_no_more(uid, pod)

    def _await_no_more(self, uid: str, pod: LeavingPod) -> None:
        job = self._book.jobs.get(pod.job)
        if job is not None and job.awaited_nodes.pop(uid, None) is not None:
            self._job_queue.activate(job.key)

    # -- suspended jobs -----------------------------------------------------------------------

    @on(ie.VcJobOver)
    def _vcjob_over(self, event: ie.VcJobOver, now: int) -> None:
        owner = owner_id(event.vcjob.namespace, event.vcjob.uid)
        if event.vcjob.suspended:
            self._suspend(owner, now)
        else:
            self._forget(owner)

    @on(ie.GroupSeen)
    def _group_seen(self, event: ie.GroupSeen, now: int) -> None:
        """The controller writes to the PodGroup of a Job of Kubernetes that it is suspended."""
        if event.job.group is not None and event.job.group.suspended:
            self._suspend(event.job.key, now)

    def _suspend(self, owner: str, now: int) -> None:
        """What is held for the job is for others from now on; where it was is still known."""
        self._preferred.forget(owner)
        for uid, pod in self._leaving.items():
            if pod.owner == owner and not pod.node.suspended:
                self._leaving[uid] = replace(pod, node=replace(pod.node, held=False, suspended=True))
                self._await_no_more(uid, pod)
        entry = self._rescheduling.get(owner)
        if entry is not None and not entry.suspended:
            self._keep_suspended(owner, entry, now)

    def _lost_suspended(self, held: HeldPlacement, now: int) -> None:
        pod = self._leaving_pod(held, False, now)
        self._preferred.forget(pod.owner)
        self._remember_suspended(pod, now)
        entry = self._rescheduling.get(pod.owner)
        if entry is not None:
            held.job.previous_nodes = entry.nodes

    def _remember_suspended(self, pod: LeavingPod, now: int) -> None:
        if not pod.node.faulty:
            self._keep_suspended(pod.owner, self._remember(pod, now), now)

    def _keep_suspended(self, owner: str, entry: Rescheduling, now: int) -> None:
        """Without a reservation, and without nodes that broke."""
        if not entry.suspended:
            entry.suspended = True
            self._lift(entry.job, WHY)
            self._failed.pop(entry.job, None)
            for rank, node in list(entry.nodes.items()):
                if node.faulty:
                    del entry.nodes[rank], entry.chips[rank], entry.loads[rank]
                elif not node.suspended:
                    entry.nodes[rank] = replace(node, held=False, suspended=True)
        entry.until = now + RETENTION
        self._rescheduling.touch(owner)
        if not entry.nodes:
            self._end(owner)

    def _lost_without_reservation(self, held: HeldPlacement, now: int) -> None:
        owner = owner_of_pod(held.pod)
        if owner:
            resource = held.pod.cls.resource or ""
            name = self._state.names[held.node]
            faulty = held.failed or is_unfit(self._state, resource, name, held.chips)
            node = PreviousNode(name, faulty=faulty, lost=now)
            self._preferred.lost(owner, held.job, {held.rank: node}, alone=held.pod.group is None)

    def continues(self, job: Job, pod: Pod) -> bool:
        """Whether a pod of the job that is lost now is created again."""
        if job.key in self._ended:
            return False
        if pod.owner is not None and pod.owner.is_vcjob:
            vcjob = self._book.vcjobs.get(f"{pod.namespace}/{pod.owner.name}")
            if vcjob is not None:
                return not vcjob.over
        return job.group is not None or pod.owner is not None or not placed_as_a_whole(job, pod)

    # -- jobs come back -----------------------------------------------------------------------

    @on_job(ie.JobSeen)
    def _attach(self, job: Job, now: int) -> None:
        """The job was seen: it gets the previous nodes of its owner."""
        self._preferred.attach(job)
        if not self._rescheduling or job.previous_nodes:
            return
        owner = owner_key(job, next(iter(job.pods.values()), None))
        taken = self._successors.take(job, owner)
        if taken is not None:
            # A new pod without a PodGroup: it replaces the one of its name, else another of its owner.
            self._rescheduling.rename(taken, owner)
        entry = self._rescheduling.get(owner)
        if entry is not None:
            if entry.job != job.key:
                self._lift(entry.job, WHY)
                entry.job = job.key
                self._rescheduling.touch(owner)
            entry.stale = True
            job.previous_nodes = entry.nodes

    @on(ev.PodGroupGone)
    def _group_gone(self, event: ev.PodGroupGone, now: int) -> None:
        self._forget(event.key)

    def _forget(self, owner: str) -> None:
        """The job has ended: nothing of it comes back."""
        self._preferred.forget(owner)
        for uid in [uid for uid, pod in self._leaving.items() if pod.owner == owner]:
            self._stays(uid)
        self._end(owner)

    def _end(self, owner: str) -> None:
        """The lost pods are placed again, or the time is over. Pods that are being deleted now are others."""
        entry = self._rescheduling.pop(owner)
        if entry is None:
            return
        self._successors.forget(entry.pods_owner, owner)
        self._lift(entry.job, WHY)
        self._failed.pop(entry.job, None)
        job = self._book.jobs.get(entry.job)
        if job is not None:
            job.previous_nodes = {}

    @on(ie.VcJobRemoved)
    def _vcjob_gone(self, event: ie.VcJobRemoved, now: int) -> None:
        """Its pods will not be created again."""
        vcjob = event.vcjob
        self._forget(owner_id(vcjob.namespace, vcjob.uid))
        for name in (group_name(vcjob), vcjob.name):
            key = f"{vcjob.namespace}/{name}"
            if key in self._book.jobs:
                self._ended.add(key)

    @on_job(ie.JobGone)
    def _job_gone(self, job: Job, now: int) -> None:
        """Its chips stay reserved where it comes back."""
        self._ended.discard(job.key)
        if not self._remembers(job.key):
            self._reservations.lift(job.key)

    def _remembers(self, job: str) -> bool:
        return any(entry.job == job for entry in self._rescheduling.values())

    # -- time and reservations ----------------------------------------------------------------

    def deadline(self) -> int | None:
        return min((entry.until for entry in self._rescheduling.values()), default=None)

    def review(self, now: int) -> None:
        """Before a cycle: forget what is too old, mark nodes that became faulty, reserve the others."""
        self._preferred.forget_old(now)
        for owner, entry in list(self._rescheduling.items()):
            if entry.until <= now:
                self._preferred.forget(owner)
                self._end(owner)
                self._job_queue.activate(entry.job)
                continue
            if entry.suspended:
                continue
            for rank, node in entry.nodes.items():
                if not node.faulty and is_unfit(self._state, entry.resource, node.node, entry.chips[rank]):
                    entry.nodes[rank] = replace(node, faulty=True)
                    entry.stale = True
                    self._rescheduling.touch(owner)
            if entry.stale:
                self._reserve(entry)
        for uid, pod in self._leaving.items():
            if not pod.node.faulty and is_unfit(self._state, pod.resource, pod.node.node, pod.chips):
                self._leaving[uid] = replace(pod, node=replace(pod.node, faulty=True))
                self._await_no_more(uid, pod)
                job = self._book.jobs.get(pod.job)
                if job is not None and uid in job.terminating:
                    job.terminating[uid] = job.terminating[uid]._replace(faulty=True)

    @on_job(ie.JobSettled)
    def _job_settled(self, job: Job, now: int) -> None:
        if job.previous_nodes:
            self._settle(job)

    def _settle(self, job: Job) -> None:
        """After a cycle: a job that is complete again is forgotten, any other keeps its reservation."""
        placed = self._placed_ranks(job)
        self._preferred.settle(job, placed)
        for owner, entry in list(self._rescheduling.items()):
            if entry.job != job.key:
                continue
            if entry.suspended and any(map(self._is_given_back, job.pods.values())):
                # It is suspended now: a pod that is still there is not back, its deletion comes.
                continue
            # A suspended job may have been made smaller meanwhile; or its owner has not created all pods yet.
            back = all(rank in placed for rank in entry.nodes) or (
                entry.suspended
                and len(placed) >= max(1, min(len(entry.nodes), job.announced_pods))
                and not self._book.has_pending(job)
            )
            # A binding that is not confirmed yet may fail.
            if back and not any(self._state.pods[uid].assumed for uid in job.pods):
                self._preferred.forget(owner)
                self._end(owner)
            elif not entry.suspended:
                # F1: until the bindings are confirmed: the scheduler may end before it has sent them.
                self._reserve(entry, placed)

    # -- a restart of the scheduler (F1) --------------------------------------------------------

    def restore(self, record: RestoredRecord, now: int) -> None:
        """What the previous leader knew."""
        for owner, entry in record.of(self._rescheduling).items():
            # No clock runs so far ahead that a hold could last longer than its setting.
            entry.until = min(entry.until, now + (RETENTION if entry.suspended else self._hold))
            if entry.nodes and entry.until > now and owner not in self._rescheduling:
                self._rescheduling[owner] = entry
                if entry.job not in self._book.jobs:
                    self._successors.leave(entry.pods_owner, owner)
        for uid, pod in record.of(self._leaving).items():
            placed = self._state.pods.get(uid)
            if placed is not None and placed.node >= 0:
                self._leaving[uid] = pod
                self._await(uid, pod)
                going = self._book.job_of(uid)
                if going is not None:
                    # It terminates for longer than this leader knows.
                    since = min(pod.node.lost, now)
                    going.terminating[uid] = TerminatingPod(pod.node.node, since, pod.node.faulty)
            elif self._may_go_on(pod):
                # It went between the two leaders; how long ago is not known.
                if pod.node.suspended:
                    self._remember_suspended(pod, now)
                else:
                    self._remember(pod, now)
        for entry in self._rescheduling.values():
            job = self._book.jobs.get(entry.job)
            if job is not None and not job.previous_nodes:
                job.previous_nodes = entry.nodes
                self._job_queue.activate(job.key)
        if self._successors:
            for job in self._book.jobs.values():
                self._attach(job, now)

    def _may_go_on(self, pod: LeavingPod) -> bool:
        """Return whether its job may continue: it was not deleted and did not end while no scheduler ran."""
        for vcjob in self._book.vcjobs.values():
            if owner_id(vcjob.namespace, vcjob.uid) == pod.owner:
                return vcjob.gives_back or not vcjob.over
        # Without a vcjob, the PodGroup shows that the job continues. A pod without one may be created again.
        return bool(pod.pods_owner) or (pod.job in self._book.jobs and pod.owner == pod.job)

    def _placed_ranks(self, job: Job) -> set[int]:
        """A pod that terminates is not a replacement: it has any rank that its own replacement left over."""
        placements = self._state.pods
        return {
            rank
            for uid, rank in ranks_of(job).items()
            if uid in placements and placements[uid].node >= 0 and not job.pods[uid].deleting
        }

    def _reserve(self, entry: Rescheduling, placed: set[int] | None = None) -> None:
        entry.stale = False
        if entry.suspended:
            return
        before = self._reservations.of(entry.job)
        if before is not None and before.why != WHY:
            return
        if placed is None:
            job = self._book.jobs.get(entry.job)
            placed = set() if job is None else self._placed_ranks(job)
        chips: dict[int, int] = {}
        loads: dict[int, Load] = {}
        for rank, mask in entry.chips.items():
            number = self._state.node_id.get(entry.nodes[rank].node)
            if number is not None and rank not in placed and not entry.nodes[rank].faulty:
                chips[number] = chips.get(number, 0) | mask
                loads[number] = loads.get(number, NO_LOAD) + entry.loads[rank]
        if before is not None:
            self._reservations.lift(entry.job)
            if before.chips.keys() - chips.keys():
                self._triggers.add(Trigger.CHIPS_FREED)
        if chips:
            self._reservations.make(
                Reservation(entry.job, entry.resource, chips, loads, expires=entry.until, why=WHY)
            )

"""Finds jobs that a fault hit, deletes what has to move, and watches until they are complete again.

Pods are recreated by their owner, whoever that is: here they are only deleted, each by its uid, so that a pod
that was recreated meanwhile is never hit. The states are those of `states.py`, the times of `clocks.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial

from ringwise.durations import SECOND, earliest
from ringwise.framework.gangs.gang_count import is_complete, is_complete_and_confirmed, is_placed, placed_pods
from ringwise.framework.job import BrokenChip, Job
from ringwise.framework.network_topology import PLUGIN
from ringwise.messages import events as ev
from ringwise.messages.commands import Command, EvictionCause, RecordJobEvent
from ringwise.placement.racks.levels import Level
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on, on_job
from ringwise.scheduler.cache.record_tables import RestoredRecord
from ringwise.scheduler.faults import job_events, scope
from ringwise.scheduler.faults.clocks import Clocks
from ringwise.scheduler.faults.cool_downs import CoolDowns, covering
from ringwise.scheduler.faults.detection import HARDWARE, FaultDetector, FaultType
from ringwise.scheduler.faults.fault_job import (
    FaultJob,
    FaultJobs,
    FaultyPod,
    broken_hardware,
    group_owner,
    lost_parts,
    owner_of,
    part_name,
    positions,
)
from ringwise.scheduler.faults.lost_pods import owner_id
from ringwise.scheduler.faults.policy import FaultPolicy, Mode, read_fault_policy
from ringwise.scheduler.faults.records import RescheduleRecords, RetryBudgets
from ringwise.scheduler.faults.rejected_pods import DELETE_AGAIN_AFTER, RejectedPods, Removals, mark
from ringwise.scheduler.faults.restarts import Restarts
from ringwise.scheduler.faults.states import ENDED, State, StateEvent, UndefinedTransition
from ringwise.state.failures import policies_come_first
from ringwise.state.hyper_nodes import Forest
from ringwise.state.model import Pod
from ringwise.topology.chips import chips_of
from ringwise.wellknown import LOGICAL_RACK

#: Seconds without any report of it after which it does not run. It writes every 5 s, changes or not; while it
#: starts, or another replica takes over, its ConfigMaps may be empty.
ABSENT_AFTER = 60


class ClusterDPresence(Component):
    """Whether Huawei's ClusterD runs: two policies of jobs leave their faults to it."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        #: Nodes of which it reports the chips; and until when it may still run after the last of them went.
        self._nodes: set[str] = set()
        self._until = context.deadlines.table()

    @on(ev.ReportSeen)
    def _report_seen(self, event: ev.ReportSeen, now: int) -> None:
        if event.report.aggregated:
            self._nodes.add(event.report.node)
            self._until.clear()

    @on(ev.ReportGone)
    def _report_gone(self, event: ev.ReportGone, now: int) -> None:
        if event.aggregated and event.node in self._nodes:
            self._nodes.discard(event.node)
            if not self._nodes:
                self._until.put("", now + ABSENT_AFTER * SECOND)

    def runs(self, now: int) -> bool:
        until = self._until.first()
        return bool(self._nodes) or (until is not None and now < until)

    def ended(self, now: int) -> bool:
        """Whether it has become certain that it no longer runs; reported once."""
        return bool(self._until.take(now))


#: Seconds of its clock after which the replacement of a drained pod has found no place.
FOUND_NO_PLACE_AFTER = 1
#: Seconds before a job that could not be looked at is looked at again.
REVIEW_AGAIN_AFTER = 5


class FaultHandler(Component):
    name = "faults"

    def __init__(self, context: Context, jobs: FaultJobs) -> None:
        super().__init__(context)
        self.jobs = jobs
        self.detector = FaultDetector(context)
        #: F2.
        self.clocks = Clocks(context)
        self.retries = RetryBudgets(context.record)
        self.restarts = Restarts(context)
        self.records = RescheduleRecords()
        self.clusterd = ClusterDPresence(context)
        #: F3.
        self.cool_downs = CoolDowns(context.record)
        #: Jobs to look at: now, and when time alone changes something.
        self._dirty: dict[str, None] = {}
        self._due = context.deadlines.table()
        #: By job: unknown values of `fault-scheduling` that were reported.
        self._unknown_modes: dict[str, str] = context.job_tables.add({})
        self._unmarked = Removals(context, jobs)
        rejected = RejectedPods(context, jobs)
        self.detector.is_rejected_for_good = rejected.is_failed
        self.parts = self.clusterd, self.detector, self._unmarked, rejected
        #: What this review has to say about jobs.
        self._events: list[RecordJobEvent] = []

    # -- facts ---------------------------------------------------------------------------------------

    @on(ie.NodeChanged)
    def _node_changed(self, event: ie.NodeChanged, now: int) -> None:
        """The jobs with pods on it are looked at, and no others."""
        name = event.name
        number = self._state.node_id.get(name)
        if number is None:
            return
        suspect = self.detector.is_suspect(number)
        for uid in self._state.pods_on[number]:
            job = self._book.job_of(uid)
            if job is not None and (suspect or self._is_watched(job.key)):
                self._dirty[job.key] = None
        for uid in self.detector.failed_on(name):
            job = self._book.job_of(uid)
            if job is not None:
                self._dirty[job.key] = None

    @on(ie.PodChanged)
    def _pod_changed(self, event: ie.PodChanged, now: int) -> None:
        job = event.job
        if job is None:
            return
        if self._is_watched(job.key) or self.detector.may_be_faulty(self._state.pods[event.pod.uid].pod):
            self._dirty[job.key] = None

    @on(ie.PodRemoved)
    def _pod_removed(self, event: ie.PodRemoved, now: int) -> None:
        if event.job is not None:
            self._job_changed(event.job.key)

    def _job_changed(self, key: str) -> None:
        """A job that is handled lost a pod, or is gone."""
        if self._is_watched(key):
            self._dirty[key] = None

    def _is_watched(self, key: str) -> bool:
        return key in self.jobs or key in self.clocks.by_job

    @on(ie.PlacementLost)
    def _pod_lost(self, event: ie.PlacementLost, now: int) -> None:
        """A pod of the job is gone, whatever the reason: how far its replacement may go depends on time (F2).

        Only racks have levels of placement; other jobs have a clock while a fault of them is handled.
        """
        job, pod = event.job, event.pod
        # M1: not for a move.
        if LOGICAL_RACK in pod.annotations and self.jobs.was_complete(job) and not job.places:
            # Without a fault. It ends at once where minAvailable pods are placed.
            self.clocks.begin(job, now)
            self._dirty[job.key] = None

    def _find_lost_pods(self, now: int) -> None:
        """The next leader: jobs for racks may have lost pods while none looked."""
        for job in self._book.jobs.values():
            if job.clock is None and self._book.has_pending(job):
                placed = (pod for pod in job.pods.values() if pod.node is not None)
                pod = next((pod for pod in placed if LOGICAL_RACK in pod.annotations), None)
                if pod is not None:
                    self._pod_lost(ie.PlacementLost(job, pod), now)

    def _group_changed(self, job: Job) -> None:
        """A fault that was ignored because of the policy or before the job ran may count now."""
        if self._is_watched(job.key) or any(map(self.detector.may_be_faulty, job.pods.values())):
            self._dirty[job.key] = None

    @on(ie.PodDrained)
    def _pod_drained(self, event: ie.PodDrained, now: int) -> None:
        """F4: a pod goes because its node is drained. The clock runs where its replacement finds no place."""
        job, pod = event.job, event.pod
        policy = self._policy(job, now)
        deletes = policy.mode in (Mode.GRACE, Mode.FORCE) and not policy.handled_elsewhere
        if not deletes or not pod.cls.chips or not self.jobs.would_handle(job):
            return
        handled = self.jobs.get(job.key) or FaultJob(job.key, owner_of(job), now)
        if pod.uid in handled.deletions or pod.uid in handled.faulty:
            return
        handled.drain(positions(job, self._forest)[pod.uid])
        self.jobs[job.key] = handled
        self._dirty[job.key] = None

    @on(ev.EvictFailed)
    def _deletion_failed(self, event: ev.EvictFailed, now: int) -> None:
        """The API server refused it: the pod stays, and is tried again a little later."""
        uid, why = event.uid, event.why
        job = self._book.job_of(uid)
        if job is None:
            return
        handled = self.jobs.get(job.key)
        deletion = None if handled is None else handled.deletions.get(uid)
        due = now + DELETE_AGAIN_AFTER * SECOND
        if handled is not None and handled.refused_on == uid:
            handled.refused_on = ""
            self._wake_at(job.key, (self._due.of(job.key), due))
        if deletion is not None:
            deletion.sent = deletion.forced = False
            deletion.not_before = due
            if deletion.evict and handled is not None:
                # Broken hardware under it is found again.
                handled.faulty.pop(uid, None)
            self._dirty[job.key] = None
            if handled is not None and why and handled.held_back != why:
                handled.held_back = why
                self._events.append(job_events.held_back(job, why))

    @on_job(ie.JobGone)
    def _job_gone(self, job: Job, now: int) -> None:
        """A lone pod that fault handling deletes keeps its record: it is the only trace."""
        if job.key not in self.jobs:
            self.records.jobs.pop(job.key)

    @on(ie.GroupSeen)
    def _group_seen(self, event: ie.GroupSeen, now: int) -> None:
        if event.changed:
            self._group_changed(event.job)

    @on(ev.PodGroupGone)
    def _group_gone(self, event: ev.PodGroupGone, now: int) -> None:
        """The job was deleted, unless the PodGroup is only that of a lone pod."""
        job, group = self._book.jobs.get(event.key), self._book.groups.get(event.key)
        if group is not None and not group.ordinary:
            self.records.jobs.pop(group.key)
        self._owner_gone(event.key if job is None else group_owner(job))
        self._job_changed(event.key)

    @on(ie.VcJobOver)
    def _vcjob_over(self, event: ie.VcJobOver, now: int) -> None:
        if event.job is not None:
            self._job_changed(event.job.key)

    @on(ie.VcJobRemoved)
    def _vcjob_removed(self, event: ie.VcJobRemoved, now: int) -> None:
        self._owner_gone(owner_id(event.vcjob.namespace, event.vcjob.uid))

    def _owner_gone(self, owner: str) -> None:
        self.retries.owners.pop(owner)
        self.restarts.owners.pop(owner)

    # -- time ------------------------------------------------------------------------------------------

    def act(self, now: int) -> list[Command]:
        """Look at every job that changed or whose time has come."""
        for job in self._book.jobs.values() if self.clusterd.ended(now) else ():
            self._group_changed(job)  # Faults that were left to it are ours.
        for key in self._due.due(now):
            self._dirty[key] = None
        keys = list(self._dirty)
        self._dirty.clear()
        commands: list[Command] = []
        for key in keys:
            self._due.pop(key)
            try:
                # Commands of a review that fails are not executed.
                commands += list(self._review(key, now))
            except Exception as error:
                # The other jobs are looked at as without it, and it is tried again.
                self._containment.failed("job", key, error, work=self.name)
                if isinstance(error, UndefinedTransition):
                    # No event leads out of it. Faults that still exist are found again.
                    self.jobs.pop(key)
                self._due.put(key, now + REVIEW_AGAIN_AFTER * SECOND)
            else:
                self._containment.succeeded("job", key, self.name)
            if key in self.jobs:
                self.jobs.touch(key)
            commands += self._events
            self._events.clear()
        return commands

    def _wake_at(self, key: str, times: Iterable[int | None]) -> None:
        due = earliest(*times)
        if due is not None:
            self._due.put(key, due)

    # -- one job ---------------------------------------------------------------------------------------

    def _review(self, key: str, now: int) -> Iterator[Command]:
        job = self._book.jobs.get(key)
        handled = self.jobs.get(key)
        clock = self.clocks.by_job.get(key)
        over = job is not None and self._book.is_over(job)
        owners = {one.owner for one in (handled, clock) if one is not None}
        if job is None or over or owners - {owner_of(job)}:
            self.clocks.end(key, job)
            if handled is not None:
                handled.happened(StateEvent.JOB_GONE)
                self._end(handled)
            if job is not None and not over:
                yield from self._review(key, now)
            return
        policy = self._policy(job, now)
        due: int | None = None
        looks = handled is not None or (policy.mode is not Mode.OFF and self.jobs.would_handle(job))
        if not looks:
            self.restarts.waiting.pop(key, None)
        if handled is None and policy.unknown_mode and self.jobs.would_handle(job):
            yield from self._report_unknown_mode(job, policy, now)
        elif looks:
            handled = handled or FaultJob(key, owner_of(job), now)
            due = self._look_for_faults(handled, job, policy, now)
            yield from self._act(handled, job, policy, now)
        active = handled is not None and handled.state is not State.HEALTHY and handled.state not in ENDED
        yield from self._run_clock(handled if active else None, job, policy, now)
        if handled is not None and handled.state in ENDED:
            self._end(handled)
        times = self._times(handled, job, now) if handled is not None and active else []
        self._wake_at(key, [due, self.clocks.due(job, now), *times])

    def _report_unknown_mode(self, job: Job, policy: FaultPolicy, now: int) -> Iterator[Command]:
        """Once, when the first of its pods is faulty, not at each report of the hardware."""
        for pod in job.pods.values() if self._unknown_modes.get(job.key) != policy.unknown_mode else ():
            fault = self.detector.look(pod, policy, now).fault if self._book.is_ours(pod) else None
            if fault is not None:
                self._unknown_modes[job.key] = policy.unknown_mode
                what = f"{pod.name}: {fault.why}; no pod is restarted: {policy.unknown_mode}"
                yield job_events.policy_note(job, what)
                return

    def _policy(self, job: Job, now: int) -> FaultPolicy:
        policy = read_fault_policy(job.labels, job.annotations, clusterd=self.clusterd.runs(now))
        vcjob = self._book.vcjob_of(job) if policy.retries else None
        if vcjob is not None and policies_come_first(vcjob, job.pods.values()):
            # F5: a policy of its vcjob decides about its failed pods.
            policy = replace(policy, retries=0)
        # The other replicas of a service continue to serve.
        return replace(policy, only_pods=True) if job.has_independent_pods else policy

    def _look_for_faults(self, handled: FaultJob, job: Job, policy: FaultPolicy, now: int) -> int | None:
        handled.account(job, partial(is_placed, self._state))
        handled.give_up(lambda uid: self.clocks.is_given_up(job, uid, now))
        self._find_late_hardware(handled, job, policy, now)
        due = self._find_faults(handled, job, policy, now)
        if handled.state is not State.HEALTHY:
            self.jobs[handled.key] = handled
        return due

    def _act(self, handled: FaultJob, job: Job, policy: FaultPolicy, now: int) -> Iterator[Command]:
        if handled.state is State.BLOCKED:
            self._look_at_blocked(handled, job, policy)
        if handled.state is State.FAULTY:
            yield from self._react(handled, job, policy, now)
        if handled.state is State.BLOCKED:
            yield from job_events.record_refusal(handled, job)
        if handled.hardware_broke:
            self._notify(ie.HardwareBroke(job), now)
        if handled.state is State.DELETING and handled.external:
            yield from self._unmark_healed(handled, job, policy, now)
        if handled.state is State.DELETING:
            yield from self._delete_rest(handled, job, policy, now)
        if handled.state is State.WAITING:
            yield from self._end_if_complete(handled, job, policy, now)

    def _end(self, handled: FaultJob) -> None:
        self.jobs.pop(handled.key)
        self._due.pop(handled.key)

    @property
    def _grace(self) -> int:
        return self._configuration.settings.grace_over_time

    def _find_faults(self, handled: FaultJob, job: Job, policy: FaultPolicy, now: int) -> int | None:
        """Add the pods that became faulty; healed ones are dropped while nothing was done about them."""
        due: int | None = None
        faulty: dict[str, FaultyPod] = {}
        too_soon: list[str] = []
        where = None
        over = not policy.retries and not any(pod.live for pod in job.pods.values())
        # F4: a disruption budget does not keep pods on broken hardware.
        going = {uid for uid, one in handled.deletions.items() if not one.is_held_back}
        for uid, pod in job.pods.items():
            handled_before = uid in going or self.clocks.is_given_up(job, uid, now)
            if handled_before or pod.node is None or not self._book.is_ours(pod):
                continue
            if uid in job.backups:
                # The job runs without it: ClusterD gives it up, or makes it a pod of the job.
                continue
            if over and not handled.faulty:
                # The job has ended: whether its owner begins it again is not a question of hardware.
                continue
            examined = self.detector.look(pod, policy, now)
            if uid in handled.deletions and (examined.fault is None or examined.fault.type not in HARDWARE):
                continue
            if pod.deleting and not (examined.fault is not None and examined.fault.unreachable):
                # It terminates by itself. On a node that is lost it never would.
                continue
            due = earliest(due, examined.due)
            if examined.fault is not None and uid not in handled.faulty:
                until = self.restarts.not_before(handled.owner, pod, now)
                if until is not None:
                    too_soon.append(pod.name)
                    due = earliest(due, until)
                    continue
            if examined.fault is not None:
                where = where or positions(job, self._forest)
                faulty[uid] = FaultyPod(uid, pod.name, pod.node, where[uid], examined.fault)
        held = self.restarts.wait_for(handled.key, handled.owner, too_soon)
        if held is not None:
            self._events.append(job_events.backoff(job, held, now))
        if any(uid not in handled.faulty for uid in faulty):
            new = [pod for uid, pod in faulty.items() if uid not in handled.faulty]
            if handled.state is State.HEALTHY:
                self._events += (job_events.policy_note(job, note) for note in policy.notes)
            self._events.append(job_events.fault_found(job, new))
            if not all(map(partial(self._broke_before, job, now), new)):
                self.clocks.restart(job, now)
            self._cool_down(job, new, now)
            for lost in new:
                if lost.fault.type is FaultType.RELATION:
                    self._notify(ie.RelationFault(lost.node), now)
            handled.add_faults(faulty, now)
        elif handled.state is State.BLOCKED and faulty != handled.faulty:
            # Also where the same pods are faulty for another reason: it may need no retries.
            before = broken_hardware(handled.faulty.values())
            self._cool_down(job, faulty.values(), now, before)
            for uid in handled.faulty.keys() - faulty.keys():
                self._runs_on(job, job.pods[uid])
            handled.faulty = faulty
        return due

    def _find_late_hardware(self, handled: FaultJob, job: Job, policy: FaultPolicy, now: int) -> None:
        """Pods that go already: a report that comes after the crash shows that hardware was the reason."""
        late = handled.late_hardware(
            job, lambda pod: self.detector.look(pod, policy, now).fault, self._forest
        )
        if not late:
            return
        self._events.append(job_events.fault_found(job, late))
        self._cool_down(job, late, now)
        if handled.used_retry:
            self.retries.give_back(handled.owner)
            handled.used_retry = False

    def _cool_down(
        self, job: Job, faulty: Iterable[FaultyPod], now: int, broken_before: Collection[BrokenChip] = ()
    ) -> None:
        """F3: the job avoids broken hardware for a while, also when it is healthy again.

        What is in `broken_before` does not break the job again.
        """
        broken = [chip for chip in broken_hardware(faulty) if chip not in broken_before]
        if not broken:
            return
        until = now + self._configuration.settings.fault_cooldown * SECOND
        job.cooling = self.cool_downs.add(owner_of(job), broken, now, until)

    def _broke_before(self, job: Job, now: int, pod: FaultyPod) -> bool:
        """F2: whether hardware breaks the job that did so within its cool-down: that is not a new fault."""
        broken = broken_hardware([pod])
        return bool(broken) and all(covering(job.cooling, one, now) for one in broken)

    def _runs_on(self, job: Job, pod: Pod) -> None:
        """F3: a pod that was never deleted runs on hardware that healed: it may return there (S9)."""
        if pod.node is not None and pod.live and job.cooling:
            self.cool_downs.used(job, owner_of(job), pod.node, chips_of(self._state.pods[pod.uid].chips))

    @on_job(ie.JobSeen)
    def _attach(self, job: Job, now: int) -> None:
        self.clocks.attach(job)
        if len(self.cool_downs):
            self.cool_downs.attach(job, owner_of(job))

    @on(ie.PodBound)
    def _pod_bound(self, event: ie.PodBound, now: int) -> None:
        if event.job.cooling:
            self.cool_downs.used(event.job, owner_of(event.job), event.node, event.chips)

    @on_job(ie.JobSettled, ie.JobChanged)
    def _nodes_changed(self, job: Job, now: int) -> None:
        """F2: no seconds are counted while it has its nodes and waits for the volumes of its claims."""
        if job.key in self.jobs and job.has_claims:
            self._due.put(job.key, now)

    # -- what is done -----------------------------------------------------------------------------------

    def _look_at_blocked(self, handled: FaultJob, job: Job, policy: FaultPolicy) -> None:
        if not handled.faulty:
            if handled.is_incomplete:
                handled.happened(StateEvent.ALLOWED)
            else:
                handled.happened(StateEvent.FAULT_GONE)
                self._events.append(job_events.fault_gone(job))
        elif not self._refusal(handled, policy):
            handled.happened(StateEvent.FAULT_FOUND)

    def _refusal(self, handled: FaultJob, policy: FaultPolicy) -> str:
        if not self._needs_retry(handled):
            return policy.refusal(1)
        return policy.refusal(self.retries.left(handled.owner, policy.retries))

    @staticmethod
    def _needs_retry(handled: FaultJob) -> bool:
        """F4: the processes that lose one to a drain may fail; that is not a failure of the job, once."""
        return handled.reason is FaultType.POD and (not handled.drained or handled.excused)

    def _react(self, handled: FaultJob, job: Job, policy: FaultPolicy, now: int) -> list[Command]:
        refusal = self._refusal(handled, policy)
        if refusal:
            handled.happened(StateEvent.REFUSED)
            if handled.blocked != refusal:
                handled.blocked = refusal
                self._events.append(job_events.blocked(job, handled))
            return []
        handled.blocked = ""
        if self._needs_retry(handled):
            self.retries.use(handled.owner, handled.key, policy.retries)
            handled.used_retry = True
        elif handled.reason is FaultType.POD:
            handled.excused = True
        else:
            # F4: from here on it is a fault as any other.
            handled.drained = False
            handled.drop_evictions()
            handled.hardware_broke = True
        handled.happened(StateEvent.ALLOWED)
        self.restarts.add(handled.owner, [job.pods[uid] for uid in handled.faulty], now)
        handled.external = policy.mode.external
        hot_switch = all(pod.fault.hot_switch for pod in handled.faulty.values())
        self.records.add(handled, now)
        level = first = Level.POD
        if handled.external:
            handled.plan_marks()
        else:
            if not handled.staying(job, partial(is_placed, self._state)).is_enough:
                # F2: at or above minAvailable nothing healthy is deleted.
                self.clocks.begin(job, now)
                if not hot_switch:
                    first = policy.first_level
                    present = positions(job, self._forest).values()
                    level = scope.effective_level(policy, first, handled.affected, present)
                self.clocks.set_level(job, level)
            self._plan_deletions(handled, job, level, now)
        self._events.append(job_events.rescheduling(job, handled, level, raised=level > first))
        return [] if handled.external else job_events.exit_requested(handled, job, policy)

    def _unmark_healed(self, handled: FaultJob, job: Job, policy: FaultPolicy, now: int) -> list[Command]:
        commands: list[Command] = []
        for uid in list(handled.deletions):
            pod = job.pods[uid]
            if pod.live and not pod.deleting and self.detector.look(pod, policy, now).fault is None:
                # A mark that stays would have it deleted later.
                handled.faulty.pop(uid, None)
                commands.append(self._unmarked.remove(job, handled.deletions.pop(uid).name, uid))
                self._runs_on(job, pod)
        if commands and not handled.deletions and not handled.missing:
            handled.happened(StateEvent.FAULT_GONE)
            self._events.append(job_events.fault_gone(job))
        return commands

    def _plan_deletions(self, handled: FaultJob, job: Job, level: Level, now: int) -> bool:
        return handled.plan_deletions(job, level, now, self._book.is_ours, self._forest)

    def _delete_rest(self, handled: FaultJob, job: Job, policy: FaultPolicy, now: int) -> Iterator[Command]:
        """Ask for the deletions that were not asked for yet; by force where the grace is over."""
        for pod in handled.drop_needless(job, lambda pod: not self.detector.look(pod, policy, now).fault):
            self._runs_on(job, pod)
        if handled.drained and is_complete(self._state, job):
            # F2: at or above minAvailable nothing healthy is deleted.
            handled.drop_evictions()
        by_force = not handled.external and handled.by_force(policy)
        over = not handled.external and now >= handled.deleting_since + self._grace * SECOND
        left = [one.name for one in handled.deletions.values() if not one.forced and not one.evict]
        if over and not by_force and left:
            handled.happened(StateEvent.GRACE_OVER)
            self._events.append(job_events.grace_over(job, left))
        for uid, one in handled.deletions.items():
            force = not one.evict and (by_force or over or one.unreachable)
            if one.forced or (one.sent and not force) or now < one.not_before:
                continue
            ends_already = job.pods[uid].deleting and not one.sent and not force
            one.sent = True
            if ends_already:
                # Its owner or a user deleted it.
                continue
            if handled.external and not one.evict:
                yield mark(handled, job, uid)
                continue
            one.forced = force
            why = handled.why(uid, part_name(job, self._level(job)))
            self._notify(ie.DeletingPod(uid), now)
            if one.evict:
                yield self._assumed.evict_together(job, uid, why, EvictionCause.DRAIN)
            else:
                yield self._assumed.delete(job, uid, why, 0 if force else None)
        if not handled.deletions:
            handled.happened(StateEvent.PODS_GONE)

    @property
    def _forest(self) -> Forest | None:
        """HyperNodes, where they count (M2)."""
        return None if self._configuration.current.plugin(PLUGIN) is None else self._state.hyper_forest()

    @staticmethod
    def _level(job: Job) -> Level:
        return Level.POD if job.clock is None else job.clock.level

    def _end_if_complete(self, handled: FaultJob, job: Job, policy: FaultPolicy, now: int) -> list[Command]:
        if not is_complete_and_confirmed(self._state, job):
            return []
        handled.happened(StateEvent.PLACED)
        placed = placed_pods(self._state, job)
        seconds = round((now - handled.since) / SECOND, 1)
        self._events.append(job_events.recovered(job, placed, seconds, drained=handled.drained))
        return job_events.restarted(handled, job, policy, now, self._level(job))

    def _run_clock(
        self, handled: FaultJob | None, job: Job, policy: FaultPolicy, now: int
    ) -> Iterator[Command]:
        """F2: start, continue or end the clock; if a higher level begins, delete more pods."""
        if handled is None and job.clock is None:
            return
        if is_complete_and_confirmed(self._state, job):
            self.clocks.end(job.key, job)
            return
        if handled is not None and handled.drained and not policy.escalates:
            handled = None
        if job.clock is None:
            if handled is None or handled.state is State.BLOCKED or is_complete(self._state, job):
                return
            self.clocks.begin(job, now)
        lost = lost_parts(job, self._forest) if handled is None else handled.lost(job, self._forest)
        if handled is not None and handled.drained and self._first_look(job, now) is not None:
            # F4: rank 0 sets the level of the whole job only where it finds no place.
            lost = lost.without_master
        if handled is None:
            # Nothing is deleted: what sets a level at once does so for placement.
            first = scope.effective_level(policy, policy.first_level, lost.affected, lost.present)
            self.clocks.set_level(job, first)
        level = self.clocks.tick(job, policy, lost, now)
        if level <= self._level(job):
            return
        self.clocks.set_level(job, level)
        if handled is None or handled.state is State.BLOCKED or handled.external:
            return
        # The user may have taken the labels back meanwhile.
        is_refused = policy.mode.external or policy.refusal(1)
        if is_refused or not self._plan_deletions(handled, job, level, now):
            return
        if handled.state is State.WAITING:
            handled.happened(StateEvent.NEXT_LEVEL)
        seconds = 0.0 if job.clock is None else job.clock.seconds(now)
        self._events.append(job_events.escalated(job, handled, level, round(seconds, 1)))
        yield from self._delete_rest(handled, job, policy, now)
        self.clocks.tick(job, policy, lost, now)

    @staticmethod
    def _first_look(job: Job, now: int) -> int | None:
        """When replacements of drained pods have been tried; None: they have, and found no place."""
        counted = 0.0 if job.clock is None else job.clock.seconds(now)
        return (
            None if counted >= FOUND_NO_PLACE_AFTER else now + int((FOUND_NO_PLACE_AFTER - counted) * SECOND)
        )

    def _times(self, handled: FaultJob, job: Job, now: int) -> list[int | None]:
        """When time alone moves the deletions on."""
        if handled.state is State.WAITING and handled.drained:
            runs = job.clock is not None and job.clock.running is not None
            return [self._first_look(job, now) if runs else None]
        if handled.state is not State.DELETING:
            return []
        times: list[int | None] = [one.not_before for one in handled.deletions.values() if not one.sent]
        plain = (one for one in handled.deletions.values() if not one.evict)
        if not handled.external and any(not one.forced for one in plain):
            times.append(handled.deleting_since + self._grace * SECOND)
        return [time for time in times if time is not None and time > now]

    # -- F1 --------------------------------------------------------------------------------------------

    def restore(self, record: RestoredRecord, now: int) -> None:
        """Jobs, used retries, tolerated faults and chips to avoid as the previous leader left them."""
        self.retries.owners.update(record.of(self.retries.owners))
        self.restarts.owners.update(record.of(self.restarts.owners))
        self.cool_downs.restore(record, now, now + self._configuration.settings.fault_cooldown * SECOND)
        # They stand until their job is looked at.
        self.clocks.by_job.update(record.of(self.clocks.by_job))
        self._dirty.update(dict.fromkeys(self.clocks.by_job))
        for job in self._book.jobs.values():
            self._attach(job, now)
        for handled in record.of(self.jobs).values():
            self.jobs[handled.key] = handled
            self._dirty[handled.key] = None
            placed = ((uid, self._state.pods.get(uid)) for uid in handled.deletions)
            handled.taken_over({uid: one.pod for uid, one in placed if one is not None})
        if record.takes_over:
            self._find_lost_pods(now)

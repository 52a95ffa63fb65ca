"""F2: the clocks of the jobs that lost pods, one for each.

A clock begins when pods of a job that was complete are lost, to a fault, a drain or their owner, and fewer
than minAvailable are placed. It ends when minAvailable pods are placed, or with the job. It counts while the
job could be complete: the pods that it lacks exist and wait for nodes, and none of it terminates.
"""

from __future__ import annotations

from ringwise.durations import SECOND
from ringwise.framework.gangs.gang_count import is_complete, needed_pods, placed_pods, waiting_pods
from ringwise.framework.job import Job
from ringwise.framework.reschedule_clock import RescheduleClock
from ringwise.grammar import agrees, counted
from ringwise.placement.racks.levels import Level
from ringwise.scheduler.cache.component import Context
from ringwise.scheduler.cache.record_tables import RecordTable
from ringwise.scheduler.faults.fault_job import owner_of
from ringwise.scheduler.faults.policy import FaultPolicy, ProcessRecovery
from ringwise.scheduler.faults.scope import LostParts, level_now, level_times, next_level
from ringwise.wellknown import PROCESS_RECOVER_ENABLE

_NEED_CLUSTERD = frozenset({ProcessRecovery.ON.value, ProcessRecovery.PAUSE.value})


class Clocks:
    def __init__(self, context: Context) -> None:
        self._state = context.state
        self._configuration = context.configuration
        #: A job whose level changes is placed by other rules: it is tried again.
        self._activate = context.job_queue.activate
        #: By job.
        self.by_job = context.record.add(RecordTable("clocks", RescheduleClock))

    def begin(self, job: Job, now: int) -> None:
        """Pods of the job are lost: start its clock if it does not run already."""
        if job.key not in self.by_job:
            self.by_job[job.key] = RescheduleClock(owner_of(job), now)
        job.clock = self.by_job[job.key]

    def attach(self, job: Job) -> None:
        """The job was seen, perhaps created again."""
        if job.clock is None and job.key in self.by_job:
            job.clock = self.by_job[job.key]

    def end(self, key: str, job: Job | None) -> None:
        """It is complete, or gone: seconds and level are forgotten."""
        self.by_job.pop(key)
        if job is not None and job.clock is not None:
            job.clock = None
            self._activate(key)

    def restart(self, job: Job, now: int) -> None:
        """Another fault, or ClusterD gave up: seconds and level are 0."""
        clock = job.clock
        if clock is not None:
            clock.counted, clock.level, clock.since = 0, Level.POD, now
            if clock.running is not None:
                clock.running = now
            self.by_job.touch(job.key)

    def set_level(self, job: Job, level: Level) -> None:
        """It grows: the rules of placement allow more."""
        clock = job.clock
        if clock is not None and level > clock.level:
            clock.level = level
            self.by_job.touch(job.key)
            self._activate(job.key)

    def tick(self, job: Job, policy: FaultPolicy, lost: LostParts, now: int) -> Level:
        """The job is looked at: the level that its clock has reached, and whether it counts from now on."""
        clock = job.clock
        if clock is None:
            return Level.POD
        clock.read(now)
        self._note_recovery(job, clock, policy, now)
        counts = not is_complete(self._state, job) and self.stands(job, now) is None
        if counts != (clock.running is not None):
            clock.running = now if counts else None
            self.by_job.touch(job.key)
        times = level_times(self._configuration.settings)
        level = clock.level
        if counts:
            level = max(level, level_now(policy, times, clock.seconds(now), lost))
        following = next_level(policy, times, clock.seconds(now), lost, level)
        clock.next_after, clock.next_level = (None, level) if following is None else following
        clock.stays = "" if following is not None else _stays(level, policy)
        return level

    def _note_recovery(self, job: Job, clock: RescheduleClock, policy: FaultPolicy, now: int) -> None:
        recovery = policy.process_recovery
        held = recovery is ProcessRecovery.ON
        block = level_times(self._configuration.settings).block
        # Held below block level.
        clock.most = max(0, int(block * SECOND) - 1) if held else None
        if recovery is ProcessRecovery.OFF and job.labels.get(PROCESS_RECOVER_ENABLE) in _NEED_CLUSTERD:
            # ClusterD does not run. When it does again, the label has not changed by that.
            return
        if clock.recovery != recovery.value:
            if recovery is ProcessRecovery.PAUSE and clock.recovery:
                # Once for each change of the label, also where another scheduler leads by then.
                self.restart(job, now)
            clock.recovery = recovery.value
            self.by_job.touch(job.key)

    def waiting_beyond(self, job: Job) -> int:
        """Pods that wait for nodes although minAvailable are placed."""
        return waiting_pods(self._state, job) if is_complete(self._state, job) else 0

    def stands(self, job: Job, now: int) -> str | None:
        """Why the clock of a job that is not complete stands; None where it counts."""
        going = self.terminating(job, now)
        if going:
            return f"while {counted(len(going), 'pod terminates', 'pods terminate')}"
        here = placed_pods(self._state, job) + waiting_pods(self._state, job)
        needed = needed_pods(job)
        if here < needed:
            return (
                f"until {_owner_name(job)} makes {counted(needed - here, 'pod')} again: "
                f"minAvailable is {needed}, {here} {agrees(here, 'exists', 'exist')}"
            )
        return None

    def terminating(self, job: Job, now: int) -> list[str]:
        """Its pods that terminate, except those that do so for longer than `grace-over-time`."""
        return [uid for uid, pod in job.pods.items() if pod.deleting and not self.is_given_up(job, uid, now)]

    def is_given_up(self, job: Job, uid: str, now: int) -> bool:
        """Whether the pod terminates for longer than `grace-over-time`: nothing waits for it."""
        pod = job.terminating.get(uid)
        return pod is not None and job.pods[uid].deleting and now >= pod.since + self._grace

    def due(self, job: Job, now: int) -> int | None:
        """When time alone changes its level, or whether it counts."""
        clock = job.clock
        if clock is None:
            return None
        if clock.running is not None:
            if clock.next_after is None:
                return None
            return now + max(1, int(clock.next_after * SECOND) - clock.counted)
        since = (job.terminating[uid].since for uid in self.terminating(job, now) if uid in job.terminating)
        return min((time + self._grace for time in since), default=None)

    @property
    def _grace(self) -> int:
        return self._configuration.settings.grace_over_time * SECOND


def _stays(level: Level, policy: FaultPolicy) -> str:
    """Why no higher level follows."""
    if level is Level.JOB:
        return "the whole job may move already"
    if policy.only_pods:
        return "healthy pods of this job are never restarted, so only the lost ones move"
    if policy.process_recovery is ProcessRecovery.ON:
        return f"a higher level follows only when the label {PROCESS_RECOVER_ENABLE} becomes pause"
    return "there is no higher level"


def _owner_name(job: Job) -> str:
    """Who makes the pods again."""
    owner = job.group.owner if job.group is not None else None
    if owner is None:
        owner = next((pod.owner for pod in job.pods.values() if pod.owner is not None), None)
    return f"{owner.kind} {owner.name}" if owner is not None else "their owner"

"""What a job that a fault hit waits for, and when each wait ends: every state of `faults/states.py`."""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.durations import SECOND, duration_text, seconds_text
from ringwise.framework.gangs.gang_count import needed_pods
from ringwise.framework.job import Job
from ringwise.grammar import agrees, amount_text, counted, listed
from ringwise.placement.racks.levels import Level
from ringwise.scheduler.affected_jobs import AffectedJobs
from ringwise.scheduler.faults.fault_job import Deletion, FaultJob, part_name
from ringwise.scheduler.faults.policy import FaultPolicy, Mode, ProcessRecovery, read_fault_policy
from ringwise.scheduler.faults.previous_placements import WHY
from ringwise.scheduler.faults.states import State
from ringwise.scheduler.view import SchedulerView
from ringwise.state.failures import max_restarts
from ringwise.state.model import Pod
from ringwise.topology.chips import chip_names
from ringwise.topology.natural import natural_key
from ringwise.wellknown import (
    FAULT_RETRY_TIMES,
    FAULT_SCHEDULING,
    FILTER_FAULT_CODE,
    FILTER_FAULT_LEVEL,
    JOB_CONTROLLER,
    NEED_VOLCANO_OPERATION,
    PROCESS_RECOVER_ENABLE,
    SUB_HEALTHY_STRATEGY,
)

#: Names in one sentence.
_NAMED = 3


def fault_waits(view: SchedulerView, job: Job, now: int) -> tuple[str, ...]:
    """One sentence for each wait; if there is none, the faults that affect it all the same."""
    handled = view.fault_jobs.get(job.key)
    policy = read_fault_policy(job.labels, job.annotations, clusterd=view.has_clusterd(now))
    sentences = [] if handled is None else [*_state(view, handled, now)]
    held = view.waiting_restarts.get(job.key)
    if held is not None:
        sentences.append(f"rescheduling: {held.text(now)}")
    if handled is None or handled.state is State.WAITING:
        sentences += _clock(view, handled, job, policy, now)
    if policy.mode is not Mode.OFF:
        spared = [pod for pod in job.in_order if _is_spared(view, handled, pod)]
        sentences += [*_tolerated(view, spared, policy, now), *_hot_switches(view, job, spared, policy)]
    if not sentences:
        sentences += _affecting_faults(view, job, policy, now)
    return (*sentences, *_retries(view, job), *_held(view, job, now), *_share(view, job, now))


def _affecting_faults(view: SchedulerView, job: Job, policy: FaultPolicy, now: int) -> Iterator[str]:
    faults = AffectedJobs(view).of_pods(job.pods)
    for one in faults[:_NAMED]:
        age = "" if one.since is None else f", for {duration_text(now - one.since)}"
        yield f"affected by {one.fault.text}{age}"
    if len(faults) > _NAMED:
        yield f"affected by {counted(len(faults) - _NAMED, 'more fault')}"
    if faults and policy.mode is Mode.OFF:
        yield (
            f"no pod is restarted because of it: {FAULT_SCHEDULING} is off or missing; to restart "
            f"such pods, set the label {FAULT_SCHEDULING}: {Mode.GRACE.value}"
        )


def _retries(view: SchedulerView, job: Job) -> Iterator[str]:
    """F5: who has to wait for the scheduler, does not."""
    vcjob = view.vcjob_of(job)
    # Before any controller has seen the vcjob it is unknown which one runs.
    if vcjob is None or not vcjob.phase or job.group is None or JOB_CONTROLLER in job.group.labels:
        return
    if max_restarts(job.labels, job.annotations):
        yield (
            "retries: another vcjob controller manages this job: if all its pods fail together, it ends the "
            f"job, and {FAULT_RETRY_TIMES} has no effect; use Ringwise's controller instead"
        )


def _is_spared(view: SchedulerView, handled: FaultJob | None, pod: Pod) -> bool:
    """It runs, and nothing is done about it."""
    handled_already = handled is not None and (pod.uid in handled.faulty or pod.uid in handled.deletions)
    return pod.live and not pod.deleting and not handled_already and view.is_ours(pod)


def _tolerated(view: SchedulerView, pods: list[Pod], policy: FaultPolicy, now: int) -> Iterator[str]:
    """Faults in the window of a mask; those that begin to count first."""
    faults = [(one, pod) for pod in pods for one in view.tolerated_faults(pod, policy, now)]
    faults.sort(key=lambda entry: entry[0].end)
    for one, pod in faults[:_NAMED]:
        fault = one.fault
        chip = chip_names(pod.cls.resource or "", (fault.chip,))
        mask = FILTER_FAULT_CODE if fault.code.lower() in policy.masks.codes else FILTER_FAULT_LEVEL
        # A scheduler that was made for this question does not know how long the fault has been there.
        most = "at most " if one.seen == now else ""
        yield (
            f"fault: {pod.name}: {chip} of {pod.node} has the fault {fault.code} ({fault.level}), "
            f"tolerated for {most}another {_left(one.end, now)} ({mask}); then it counts"
        )
    if len(faults) > _NAMED:
        more = agrees(len(faults) - _NAMED, "fault of a chip is", "faults of chips are")
        last = _left(faults[-1][0].end, now)
        yield f"fault: {len(faults) - _NAMED} more {more} tolerated, the last for another {last}"


def _hot_switches(view: SchedulerView, job: Job, pods: list[Pod], policy: FaultPolicy) -> Iterator[str]:
    """Sub-healthy pods that go when ClusterD says so."""
    waiting = [(pod, why) for pod in pods if (why := view.awaits_hot_switch(pod, policy))]
    for pod, why in waiting[:_NAMED]:
        yield (
            f"fault: {pod.name}: {why}; {SUB_HEALTHY_STRATEGY}: hotSwitch waits until ClusterD sets the "
            f"annotation {NEED_VOLCANO_OPERATION}: delete on the pod; to replace it now without a backup, "
            f"set this annotation or the label {SUB_HEALTHY_STRATEGY}: forceExit on {_has_labels(job)}"
        )
    if len(waiting) > _NAMED:
        more = agrees(len(waiting) - _NAMED, "pod waits", "pods wait")
        yield f"fault: {len(waiting) - _NAMED} more {more} on sub-healthy hardware for ClusterD"


def _has_labels(job: Job) -> str:
    """Whose labels count first."""
    return "the pod" if job.group is None else "the PodGroup"


def _state(view: SchedulerView, handled: FaultJob, now: int) -> Iterator[str]:
    faulty = sorted(handled.faulty.values(), key=lambda pod: pod.position.rank)
    for pod in faulty[:_NAMED]:
        yield f"fault: {pod.name}: {pod.fault.why}"
    if len(faulty) > _NAMED:
        yield f"fault: {counted(len(faulty) - _NAMED, 'more pod')}"
    match handled.state:
        case State.BLOCKED:
            yield f"rescheduling: no pod is restarted: {handled.blocked}"
            yield "rescheduling: this is asked again at every change"
        case State.DELETING:
            yield from _deletions(handled, now, view.settings.grace_over_time)


def _deletions(handled: FaultJob, now: int, grace: int) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    for one in handled.deletions.values():
        groups.setdefault(_deletion(handled, one, now, grace), []).append(one.name)
    for text, names in groups.items():
        ordered = sorted(names, key=natural_key)
        yield f"rescheduling: {listed(ordered, _NAMED)} {agrees(len(ordered), 'is', 'are')} {text}"


def _deletion(handled: FaultJob, one: Deletion, now: int, grace: int) -> str:
    if handled.external:
        return "marked; another component deletes the faulty pods"
    if one.evict:
        if one.sent:
            return "evicted, because the pods that a drain took found no nodes"
        why = handled.held_back or "the API server refused it"
        return f"to be evicted: {why}, again in {_left(one.not_before, now)}"
    if not one.sent:
        return f"to be deleted: the API server refused it, again in {_left(one.not_before, now)}"
    if one.forced:
        return "deleted by force; replacements start when nothing of this is left (N6)"
    end = handled.deleting_since + grace * SECOND
    return f"ending; what is left in {_left(end, now)} is deleted by force (grace-over-time)"


def _clock(
    view: SchedulerView, handled: FaultJob | None, job: Job, policy: FaultPolicy, now: int
) -> Iterator[str]:
    """F2: what the clock of the job shows; or, at or above minAvailable, why it has none."""
    clock = job.clock
    if clock is None:
        waiting = view.clocks.waiting_beyond(job) if policy.mode is not Mode.OFF else 0
        if waiting:
            wait = counted(waiting, "pod waits", "pods wait")
            least = counted(needed_pods(job), "pod")
            yield (
                f"rescheduling: pod level: {wait} for nodes; the job has its {least} of minAvailable, so "
                "nothing healthy is restarted for them"
            )
        return
    level, waited = part_name(job, clock.level), seconds_text(round(clock.seconds(now)))
    stands = view.clocks.stands(job, now)
    if stands is not None:
        yield f"rescheduling: {level} level, {waited} counted; the clock stands {stands}"
        return
    end = clock.stays
    if clock.next_after is not None and not (handled is not None and handled.external):
        left = seconds_text(clock.next_after - clock.seconds(now), up=True)
        end = f"{part_name(job, clock.next_level)} level begins in {left}"
    elif clock.level is Level.JOB:
        end = "the whole job was restarted" if handled is not None else clock.stays
    elif policy.process_recovery is ProcessRecovery.ON and not policy.only_pods:
        end = (
            f"a higher level follows when ClusterD sets the label {PROCESS_RECOVER_ENABLE}: pause; to go on "
            f"now, set it on {_has_labels(job)}"
        )
    yield f"rescheduling: {level} level: replacements wait for nodes since {waited}; {end}"


def _held(view: SchedulerView, job: Job, now: int) -> Iterator[str]:
    """S9."""
    reservation = view.reservations.of(job.key)
    if reservation is None or reservation.why != WHY or reservation.expires is None:
        return
    names = sorted((view.cluster.names[node] for node in reservation.nodes), key=natural_key)
    are, left = agrees(len(names), "is", "are"), _left(reservation.expires, now)
    yield f"rescheduling: {listed(names, _NAMED)} {are} held for it for another {left}"


def _share(view: SchedulerView, job: Job, now: int) -> Iterator[str]:
    """F6."""
    reserved, until = view.reserved_quota_of(job.key)
    if not reserved:
        return
    amounts = ", ".join(f"{amount_text(name, amount)} of {name}" for name, amount in sorted(reserved.items()))
    limit = "" if until is None else f" for another {_left(until, now)}"
    yield f"rescheduling: queue {job.queue} keeps {amounts} for it{limit}"


def _left(end: int, now: int) -> str:
    return duration_text(end - now)

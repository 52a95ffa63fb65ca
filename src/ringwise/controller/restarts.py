"""F5: pods that are restarted although they failed, by the scheduler, or by this controller.

The scheduler alone counts the restarts of `fault-retry-times`, and deletes for them. Where every pod of a job
has ended, the controller waits until it has done so or has written why not. A pod that kubelet rejected at
admission never ran: the controller makes it again, a few times.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ringwise.controller.job_record import FAILED, JobRecord
from ringwise.durations import SECOND, duration_text, seconds_text
from ringwise.framework.job import pod_order
from ringwise.messages.commands import RecordVcJobEvent
from ringwise.messages.event_reasons import EventReason
from ringwise.records import dataclass
from ringwise.state.failures import (
    MAX_REJECTIONS,
    is_made_again,
    max_restarts,
    pause_after,
    policies_come_first,
    rejections_before,
)
from ringwise.state.model import EMPTY, Pod, PodGroup
from ringwise.wellknown import KUBELET_REJECTIONS, RESTART_REFUSED

#: Seconds of its own running for which the controller waits for the scheduler.
WAIT = 60
#: Reasons in the status: it waits, and it ended although retries are set.
AWAITS_RESTART = "AwaitsRestart"
NOT_RESTARTED = "NotRestarted"
#: Characters of the scheduler's reason that are believed: anyone who may change pods may write one.
_MAX_REFUSAL = 500
#: Rejected pods of one job that are made again at the same time: the status names each of them.
_MAX_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class RestartAnswer:
    """About a job whose pods have all ended and that has not reached its goal."""

    #: The scheduler may still restart it.
    waits: bool = False
    #: Why it was not restarted although it asks for that; empty: it does not ask.
    refusal: str = ""


def restart_answer(
    record: JobRecord, group: PodGroup | None, names: Collection[str], now: int
) -> RestartAnswer:
    """Whether the scheduler is waited for. `names`: its names, by which pods ask for it."""
    current = record.current_pods()
    failed = [
        pod for pod in current if pod.phase == FAILED and pod.node is not None and pod.scheduler in names
    ]
    chips = sorted((pod for pod in current if pod.cls.chips), key=pod_order)
    if not failed or not chips or policies_come_first(record.job, current):
        return RestartAnswer()
    labels = {**chips[0].labels, **(group.labels if group is not None else EMPTY)}
    annotations = {**chips[0].annotations, **(group.annotations if group is not None else EMPTY)}
    if not max_restarts(labels, annotations):
        return RestartAnswer()
    refused = next(
        (pod.annotations[RESTART_REFUSED] for pod in failed if RESTART_REFUSED in pod.annotations), ""
    )
    if refused:
        return RestartAnswer(refusal=refused[:_MAX_REFUSAL])
    if record.restart_awaited is None:
        record.restart_awaited = now
    due = record.restart_awaited + WAIT * SECOND
    if now >= due:
        wait = seconds_text(WAIT)
        return RestartAnswer(refusal=f"no scheduler restarted it, or said why not, within {wait}")
    record.wake_at(due)
    return RestartAnswer(waits=True)


# -- pods that kubelet rejected ------------------------------------------------------------------------


def rejected_pods(record: JobRecord, now: int, events: list[RecordVcJobEvent]) -> list[Pod]:
    """The rejected pods whose time has come: they are deleted, and made again."""
    due: list[Pod] = []
    seen: dict[str, int] = {}
    if not any(pod.rejected for pod in record.own_pods()):
        record.rejected = seen
        return due
    for pod in record.current_pods():
        if not is_made_again(pod):
            continue
        times = rejections_before(pod) + 1
        pause = pause_after(times)
        if pod.uid not in record.rejected:
            events.append(
                RecordVcJobEvent(
                    record.job.key, EventReason.POD_REJECTED, _sentence(pod, times, pause), warning=True
                )
            )
        seen[pod.uid] = since = record.rejected.get(pod.uid, now)
        if since + pause > now:
            record.wake_at(since + pause)
        elif len(record.rejections) < _MAX_AT_ONCE:
            record.rejections[pod.name] = times
            due.append(pod)
    record.rejected = seen
    return due


def _sentence(pod: Pod, times: int, pause: int) -> str:
    return (
        f"kubelet of {pod.node} rejected pod {pod.name} ({pod.rejected}): it never ran, and is made again in "
        f"{duration_text(pause)} ({times} of {MAX_REJECTIONS}); this uses no retry and no policy"
    )


def made_again(record: JobRecord, pod: Pod) -> Pod:
    """The pod to create, with what is known of those before it."""
    times = record.rejections.get(pod.name)
    if times is None:
        return pod
    return replace(pod, annotations={**pod.annotations, KUBELET_REJECTIONS: str(times)})

"""What an eviction costs the job: how long its pods have run, what it says about that, and what is believed.

A job may ask to be spared for a while after its start (`volcano.sh/cooldown-time`), and say when it wrote its
last checkpoint (`ringwise.io/checkpoint-time`). Anyone may write anything there. The first counts up to the
limit of its queue; the second, where its queue believes it, can only make the job a cheaper victim.
"""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.durations import SECOND, duration_text, go_duration, plain_duration, unix_nanoseconds
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.state.model import Pod, Queue
from ringwise.wellknown import (
    BELIEVE_CHECKPOINTS,
    CHECKPOINT_TIME,
    COOLDOWN_TIME,
    EXPECTED_DURATION,
    LONGEST_COOLDOWN,
    MOVABLE,
    RESTART_COST,
)

#: How a restart that costs nothing is written (`ringwise.io/restart-cost`).
NO_COST = frozenset({"0", "0s"})
FALSE = frozenset({"false", "f", "0"})
TRUE = frozenset({"true", "t", "1"})
#: Where a queue says nothing, or nothing that can be read.
DEFAULT_LONGEST_COOLDOWN = 3600 * SECOND


def pod_started(job: Job, pod: Pod, now: int) -> int:
    """When the pod got its node. No clock runs so far ahead that it would be spared for ever."""
    started = pod.bound or job.started or pod.created
    return min(started, now)


def gang_started(job: Job, now: int) -> int:
    """When the present run of a gang began: it does not become young again with a pod that is replaced."""
    times = [pod_started(job, pod, now) for pod in job.pods.values() if pod.node is not None and pod.live]
    if job.started is not None:
        times.append(job.started)
    return min(times, default=now)


def written_cooldown(job: Job, pod: Pod) -> str | None:
    """As Volcano reads it: the pod's label, else its annotation; else what its PodGroup has."""
    return (
        pod.labels.get(COOLDOWN_TIME)
        or pod.annotations.get(COOLDOWN_TIME)
        or job.labels.get(COOLDOWN_TIME)
        or job.annotations.get(COOLDOWN_TIME)
    )


def longest_cooldown(queue: Queue | None) -> int:
    """In nanoseconds."""
    written = None if queue is None else queue.annotations.get(LONGEST_COOLDOWN)
    limit = None if written is None else go_duration(written)
    return DEFAULT_LONGEST_COOLDOWN if limit is None else limit


def cooldown_span(job: Job, pod: Pod, queue: Queue | None) -> int:
    """How long after its start the pod is to be spared, in nanoseconds; 0 where it does not ask for that."""
    written = written_cooldown(job, pod)
    span = None if written is None else go_duration(written)
    return min(span, longest_cooldown(queue)) if span else 0


def believed_checkpoint(job: Job, queue: Queue | None, start: int, now: int) -> int | None:
    """When the job wrote its last checkpoint. A time before its start or to come is no such time."""
    if queue is None or queue.annotations.get(BELIEVE_CHECKPOINTS) != "true":
        return None
    written = job.annotations.get(CHECKPOINT_TIME)
    time = None if written is None else unix_nanoseconds(written)
    return time if time is not None and start <= time <= now else None


def claim_problems(job: Job, queue: Queue | None, now: int) -> list[str]:
    """What the job says and does not count, and why."""
    return list(dict.fromkeys(_claim_problems(job, queue, now)))


def _claim_problems(job: Job, queue: Queue | None, now: int) -> Iterator[str]:
    longest = longest_cooldown(queue)
    for pod in job.in_order:
        written = written_cooldown(job, pod)
        span = None if written is None else go_duration(written)
        if written is not None and span is None:
            yield (
                f"{COOLDOWN_TIME}: invalid duration {shortened(written)}: expected a duration such as "
                "10m; ignored"
            )
        elif span is not None and span > longest:
            yield (
                f"{COOLDOWN_TIME}: {shortened(written or '')} counts as {duration_text(longest)}, the "
                f"longest that queue {job.queue} allows ({LONGEST_COOLDOWN})"
            )
    for key, instead in (
        (EXPECTED_DURATION, "it does not count"),
        (RESTART_COST, "the setting restart-cost counts"),
    ):
        written = job.annotations.get(key)
        if written is None or plain_duration(written) is not None:
            continue
        if key != RESTART_COST or written.strip() not in NO_COST:
            yield (
                f"{key}: invalid duration {shortened(written)}: expected a duration such as 90s, 1h30m "
                f"or 2d: {instead}"
            )
    written = job.annotations.get(MOVABLE)
    if written is not None and written.strip().lower() not in TRUE | FALSE:
        yield f'{MOVABLE}: {shortened(written)} is neither "true" nor "false": the job is never moved'
    written = job.annotations.get(CHECKPOINT_TIME)
    if written is not None:
        name = f"{CHECKPOINT_TIME}: {shortened(written)}"
        at = unix_nanoseconds(written)
        if at is None:
            yield f"{name}: invalid time: expected a time such as 2025-01-31T08:00:00Z; ignored"
        elif queue is None or queue.annotations.get(BELIEVE_CHECKPOINTS) != "true":
            yield f"{name} is ignored: queue {job.queue} has no {BELIEVE_CHECKPOINTS}: true"
        elif at > now:
            yield f"{name} is in the future and is ignored"


def queue_claim_problems(queue: Queue) -> list[str]:
    """What a queue says about such claims and cannot be read."""
    result = []
    written = queue.annotations.get(LONGEST_COOLDOWN)
    if written is not None and go_duration(written) is None:
        result.append(
            f"{LONGEST_COOLDOWN}: invalid duration {shortened(written)}: expected a duration such as "
            "30m; 1h is used"
        )
    written = queue.annotations.get(BELIEVE_CHECKPOINTS)
    if written not in (None, "true", "false"):
        result.append(f"{BELIEVE_CHECKPOINTS}: {shortened(written)} is neither true nor false: false counts")
    return result


def shortened(text: str) -> str:
    """What a user wrote, in a sentence."""
    return text if len(text) <= 40 else f"{text[:40]}..."


def lost_seconds(job: Job, pod: Pod, queue: Queue | None, now: int) -> int:
    """The work that its eviction loses, in chip-seconds: since its start, or since the job's checkpoint."""
    if not pod.cls.chips:
        return 0
    start = pod_started(job, pod, now)
    since = believed_checkpoint(job, queue, start, now)
    return pod.cls.chips * ((now - (start if since is None else since)) // SECOND)


def chip_hours(seconds: int) -> str:
    """Chip-seconds for people: `3.5 chip-hours`."""
    return f"{round(seconds / 3600, 1 if seconds >= 3600 else 2):.15g} chip-hours"


class LostWork:
    """The same for a cycle, of each pod computed once: a search for victims asks for thousands."""

    #: Above every priority.
    LATE = 1 << 40

    def __init__(self, session: Session) -> None:
        self._session = session
        self._seconds: dict[str, int] = {}
        self._ranks: dict[str, int] = {}

    def rank_of(self, job: Job) -> int:
        """The priority of the job as a victim. Jobs with a long grace period come last."""
        result = self._ranks.get(job.key)
        if result is None:
            longest = self._session.settings.long_grace_period
            late = any(pod.grace > longest for pod in job.pods.values())
            result = self._ranks[job.key] = job.priority + late * self.LATE
        return result

    def of(self, job: Job, pod: Pod) -> int:
        result = self._seconds.get(pod.uid)
        if result is None:
            queue = self._session.queues.get(job.queue)
            # A pod that waits for its claims has not begun.
            begun = not self._session.state.pods[pod.uid].reserved
            result = self._seconds[pod.uid] = lost_seconds(job, pod, queue, self._session.now) if begun else 0
        return result

    def was_preempted_lately(self, job: Job) -> bool:
        after = self._session.settings.preempt_again_after * SECOND
        return job.preempted is not None and job.preempted + after > self._session.now

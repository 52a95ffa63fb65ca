"""Chips that jobs hold and hardly use, from what our device plugins report of them."""

from __future__ import annotations

from ringwise.framework.job import Job
from ringwise.framework.users import user_of
from ringwise.scheduler.view import SchedulerView
from ringwise.state.model import Pod
from ringwise.topology.chips import chips_of
from ringwise.topology.natural import natural_key
from ringwise.views.documents.accounting import IdleDocument, IdleFields

#: Below this mean, in percent, a chip counts as idle, and how long it must have been measured, in seconds.
IDLE_BELOW = 5.0
MEASURED_FOR = 600


def idle_document(view: SchedulerView, now: int) -> IdleDocument:
    """All jobs that hold chips."""
    rows = [row for job in view.jobs.values() if (row := _row(view, job)) is not None]
    rows.sort(key=lambda row: (-row.idle_chips, natural_key(f"{row.namespace}/{row.name}")))
    return _of_rows(rows, now)


def idle_of_namespace(document: IdleDocument, namespace: str) -> IdleDocument:
    """The same for the jobs of one namespace."""
    return _of_rows([row for row in document.jobs if row.namespace == namespace], document.now)


def _of_rows(rows: list[IdleFields], now: int) -> IdleDocument:
    return IdleDocument(
        now=now,
        threshold_percent=IDLE_BELOW,
        min_measured_seconds=MEASURED_FOR,
        chips=sum(row.chips for row in rows),
        idle_chips=sum(row.idle_chips for row in rows),
        unknown_chips=sum(row.unknown_chips for row in rows),
        jobs=rows,
    )


def _row(view: SchedulerView, job: Job) -> IdleFields | None:
    held, means = 0, []
    for pod in job.pods.values():
        chips, measured = _measured(view, pod)
        held += chips
        means += measured
    if not held:
        return None
    user = user_of(job, view.settings)
    return IdleFields(
        namespace=job.namespace,
        name=job.name,
        queue=job.queue,
        user=user.name,
        verified=user.verified,
        chips=held,
        idle_chips=sum(mean < IDLE_BELOW for mean in means),
        unknown_chips=held - len(means),
        utilization_percent=round(sum(means) / len(means), 1) if means else None,
    )


def _measured(view: SchedulerView, pod: Pod) -> tuple[int, list[float]]:
    """How many chips the pod holds, and the means of those that were measured for long enough."""
    cluster = view.cluster
    placement = cluster.pods.get(pod.uid)
    if placement is None or placement.node < 0 or not pod.live or not pod.cls.chips:
        return 0, []
    chips = chips_of(placement.chips)
    usage = cluster.utilization_of(cluster.names[placement.node], pod.cls.resource or "")
    figures = [usage[chip][0] for chip in chips if chip in usage and usage[chip][1] >= MEASURED_FOR]
    return max(len(chips), pod.cls.chips), figures

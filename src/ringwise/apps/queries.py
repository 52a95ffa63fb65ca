"""Queries about a cluster that a scheduler knows: why a job waits, how much more fits, what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ringwise.apps.source import Source, from_bundle
from ringwise.framework.configuration import Configuration
from ringwise.manifests.bundle import Bundle
from ringwise.manifests.errors import ManifestError, one_line
from ringwise.scheduler.explain.capacity import BoardCapacity, capacity
from ringwise.scheduler.explain.doctor import Diagnosis, diagnose
from ringwise.scheduler.explain.findings import ERROR, Finding
from ringwise.scheduler.explain.why import Explanation, explain, find_job
from ringwise.topology.boards import BoardCatalog
from ringwise.topology.nearest import did_you_mean


class UnknownQueueError(LookupError):
    """No queue has that name."""


def explain_job(source: Source, name: str) -> Explanation:
    """Raises UnknownJobError."""
    job = find_job(source.view, name)
    if job.policy is None and source.view.serves(job):
        # An event about a running job clears its policy; its board and switches are part of the result.
        source.view.what_if.job_valid(job, source.now)
    return explain(source.view, job, source.now)


def count_capacity(source: Source, queue: str | None = None) -> list[BoardCapacity]:
    """Raises UnknownQueueError."""
    known = source.view.queues
    if queue is not None and queue not in known:
        raise UnknownQueueError(f"there is no queue {queue}{did_you_mean(queue, known)}")
    return capacity(source.view, source.now, queue)


def examine(
    bundle: Bundle, configuration: Configuration, catalog: BoardCatalog, *, now: int | None = None
) -> Diagnosis:
    """Everything wrong with the objects of an input, and with the cluster they describe."""
    source = from_bundle(bundle, configuration, catalog, now=now, keep_wrong_pods=True)
    unread = list(_unread(bundle.errors))
    diagnosis = diagnose(source.view)
    reported = {finding.code for finding in diagnosis.findings}
    # The checks of the state report chips held twice, or not on their node, with all pods.
    if not reported & {"chip-held-twice", "chip-not-on-node"}:
        unread += _unread(source.errors)
    return Diagnosis(diagnosis.nodes, diagnosis.jobs, (*unread, *diagnosis.findings))


def _unread(errors: Iterable[ManifestError]) -> Iterator[Finding]:
    for error in errors:
        where = ": ".join(part for part in (error.origin, error.field) if part)
        yield Finding(
            ERROR,
            "unreadable-object",
            one_line(where),
            one_line(error.message),
            "correct the field; until then the object does not count",
        )

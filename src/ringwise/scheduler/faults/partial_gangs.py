"""A gang does not stay partly bound: it is completed soon, or its bound pods are evicted."""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.durations import SECOND
from ringwise.framework.gangs.gang_count import is_complete, is_complete_and_confirmed, is_placed
from ringwise.framework.job import Job
from ringwise.messages.commands import Evict, EvictionCause
from ringwise.records import dataclass
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on_job
from ringwise.state.model import Pod
from ringwise.topology.numbers import UINT64, whole_number
from ringwise.wellknown import PREDICATE_TIME

WHY = "the gang could not be completed"
#: Seconds that a scheduler has after it first saw a partly bound gang, however long the gang has been so:
#: by then its own attempt to complete it has failed, and bindings that succeeded meanwhile are reported.
GRACE = 2
#: The same while bindings for all missing pods are under way.
GRACE_WHILE_BINDING = 10


@dataclass(slots=True)
class PartialGang:
    """Some pods of the gang are bound and others are not."""

    #: The last time another pod was bound.
    since: int
    #: When this scheduler saw it first, and how many bindings were confirmed when it was checked last.
    noticed: int
    confirmed: int


class PartialGangs(Component):
    """Finds gangs that were never complete: some of their bindings succeeded, others did not.

    Whatever the missing pods are pending for (capacity, an API server that refuses them or does not
    answer): after the limit without progress the gang is evicted. Every binding that succeeds is
    progress. Where pods were bound before this scheduler started, the time counts from the first of
    those bindings, so that restarts one after the other do not extend it.

    A gang that was complete and lost a pod is different: its pods keep running, the lost one is replaced.
    """

    name = "partial gangs"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        #: When this scheduler began to decide about gangs.
        self._began: int | None = None
        self._partial: dict[str, PartialGang] = context.job_tables.add({})
        #: Gangs that had all their pods at once.
        self._complete: dict[str, None] = context.job_tables.add({})

    @on_job(ie.JobSettled)
    def _job_settled(self, job: Job, now: int) -> None:
        if job.min_available < 2 and not job.sub_groups:
            return
        if self._began is None:
            self._began = now
        confirmed = self._confirmed(job)
        if is_complete_and_confirmed(self._state, job):
            self._complete[job.key] = None
        if not confirmed or self.was_complete(job):
            self._partial.pop(job.key, None)
            return
        partial = self._partial.get(job.key)
        if partial is None:
            since = self._bound_before_start(job, confirmed)
            self._partial[job.key] = PartialGang(now if since is None else since, now, len(confirmed))
            return
        if len(confirmed) > partial.confirmed:
            partial.since = now
        partial.confirmed = len(confirmed)

    def deadline(self) -> int | None:
        jobs = self._book.jobs
        times = [self._due(jobs[key], partial) for key, partial in self._partial.items() if key in jobs]
        return min(times, default=None)

    def publish(self, now: int) -> Iterator[Evict]:
        """Evict the bound pods of gangs whose time is over."""
        for key, partial in list(self._partial.items()):
            job = self._book.jobs.get(key)
            if job is None or not self._confirmed(job) or self.was_complete(job):
                del self._partial[key]
            elif self._due(job, partial) <= now:
                del self._partial[key]
                for uid in self._bound(job):
                    if self._book.is_ours(job.pods[uid]):
                        yield self._assumed.evict(job, uid, WHY, EvictionCause.OTHER)

    def _due(self, job: Job, partial: PartialGang) -> int:
        limit = self._configuration.settings.gang_recovery_limit
        grace = min(limit, GRACE)
        if is_complete(self._state, job):
            # No limit is so short that bindings under way have no time to be confirmed.
            limit, grace = max(limit, GRACE_WHILE_BINDING), GRACE_WHILE_BINDING
        return max(partial.since + limit * SECOND, partial.noticed + grace * SECOND)

    def _bound_before_start(self, job: Job, confirmed: list[str]) -> int | None:
        """When the first of its pods was bound, where that was before this scheduler started."""
        times = [bound_at(job.pods[uid]) for uid in confirmed]
        began = self._began or 0
        return min((time for time in times if time is not None and time < began), default=None)

    def _bound(self, job: Job) -> list[str]:
        """Pods with a node, including those whose binding is under way."""
        return [uid for uid, pod in job.pods.items() if pod.live and is_placed(self._state, pod)]

    def _confirmed(self, job: Job) -> list[str]:
        """Pods whose binding the API server confirmed."""
        placements = self._state.pods
        return [uid for uid in self._bound(job) if not placements[uid].assumed]

    def was_complete(self, job: Job) -> bool:
        """All pods of the gang had a node at once: seen here, or visible in its objects after a restart."""
        if job.key in self._complete:
            return True
        if job.group is not None and job.group.phase in ("Running", "Unknown", "Completed"):
            return True
        return any(pod.phase == "Succeeded" and not pod.deleting for pod in job.pods.values())


def bound_at(pod: Pod) -> int | None:
    """When a pod with chips was bound, from its `predicate-time`; None where that cannot be used.

    The device plugin overwrites the annotation with the largest unsigned number once the chips are
    mounted (D2). The caller must ignore times in the future: the clocks of two replicas may differ.
    """
    text = pod.annotations.get(PREDICATE_TIME, "")
    written = whole_number(text, 0, UINT64) if pod.cls.chips else None
    # No pod is bound before it is created.
    return None if written is None else max(written, pod.created) or None

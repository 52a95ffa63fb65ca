"""Draining nodes of a real cluster: the plan, tried on a copy, and the evictions, job by job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from pathlib import Path

from ringwise.apps.lab.lab import LabSettings, copy_of
from ringwise.apps.lab.maintenance import (
    goes_in_cluster,
    plan_drain,
    without_many_waiting,
)
from ringwise.apps.lab.submission import submission_of
from ringwise.apps.loading import from_bundle
from ringwise.apps.targets import find_target
from ringwise.durations import SECOND, seconds_text
from ringwise.embed.kubelet import PodTimeline
from ringwise.embed.objects import ObjectTable
from ringwise.embed.records import TIMELINE, key_of
from ringwise.framework.configuration import Configuration
from ringwise.grammar import counted
from ringwise.kubeclient.client import PAGE_SIZE, ApiError, Client, UnreachableError, run
from ringwise.kubeclient.clock import Clock, RealClock
from ringwise.kubeclient.config import Access
from ringwise.kubeclient.list_watch import name_of, raw_page
from ringwise.kubeclient.resources import PODS
from ringwise.manifests.bundle import Bundle
from ringwise.messages.move_plan import MovePlan
from ringwise.records import dataclass
from ringwise.state.model import Pod, Queue
from ringwise.state.vcjob import VcJob
from ringwise.topology.boards import BoardCatalog
from ringwise.topology.natural import natural_key
from ringwise.views.cluster import ClusterObjects, JobView
from ringwise.views.documents.maintenance import DrainPlanDocument

#: Seconds between two looks at the pods of a job that was evicted.
POLL_SECONDS = 2.0
#: Answers after which the eviction of a pod is over: it is gone, or another has its name.
_GONE = (404, 409)
#: Answers that no repetition changes.
_DENIED = (401, 403)


# -- the plan


def plan_of(
    bundle: Bundle,
    configuration: Configuration,
    boards: tuple[Path, ...],
    target: str,
    now: int,
    at: int | None,
    force: bool,
) -> DrainPlanDocument:
    """What draining the target would do. Raises UnknownTargetError."""
    table, without = without_many_waiting(table_of(bundle, now))
    with copy_of(table, now, LabSettings(boards=boards), configuration) as copy:
        drained = find_target(copy.view, target)
        return plan_drain(copy, drained, at=at, of_cluster=True, without=without, force=force)


def table_of(bundle: Bundle, now: int) -> ObjectTable:
    """The objects of a cluster for a copy of it, with their uids."""
    # What is wrong with its ConfigMaps is the business of `doctor`.
    submission, _ = submission_of(bundle)
    table = ObjectTable()
    if all(queue.name != "default" for queue in bundle.queues):
        # The scheduler creates it.
        table.put(*key_of(Queue("default")), Queue("default"))
    for value in submission.objects():
        # M1: a plan that was carried out, or failed, is not carried out again.
        if not isinstance(value, MovePlan):
            table.put(*key_of(value), value)
    running = {job.uid: job for job in bundle.vcjobs if job.phase == "Running"}
    for pod in bundle.pods:
        if pod.node is not None and pod.live:
            table.put(TIMELINE, pod.uid, _timeline(pod, running, now))
    return table


def _timeline(pod: Pod, running: dict[str, VcJob], now: int) -> PodTimeline:
    """Objects do not tell when a pod started: since its vcjob runs, else since it was created."""
    job = running.get(pod.owner.uid) if pod.owner is not None else None
    started = min(now, max(pod.created, job.since if job is not None else 0))
    return PodTimeline(
        bound=now if pod.phase == "Pending" else started,
        started=started if pod.phase == "Running" else None,
        deletion_requested=now if pod.deleting else None,
    )


# -- the drain


def objects_of(
    bundle: Bundle, configuration: Configuration, catalog: BoardCatalog, now: int
) -> ClusterObjects:
    """The objects as they are, without a decision of the scheduler."""
    loaded = from_bundle(bundle, configuration, catalog, now=now, decide=False, keep_wrong_pods=True)
    return loaded.objects


@dataclass(slots=True)
class DrainResult:
    #: Keys of pods that were evicted, in this order.
    evicted: list[str] = field(default_factory=list)
    #: Jobs with pods that are still there, one line each.
    problems: list[str] = field(default_factory=list)


def drain(
    access: Access,
    jobs: Sequence[JobView],
    nodes: Sequence[str],
    timeout: int,
    report: Callable[[str], object] = lambda line: None,
) -> DrainResult:
    """Evict the pods of these jobs on these nodes, one job after the other.

    `timeout`: nanoseconds after which the next job is evicted. Raises ApiError when the user may not evict.
    """
    return run(access, lambda client: drain_jobs(client, jobs, nodes, timeout, report=report))


async def drain_jobs(
    client: Client,
    jobs: Sequence[JobView],
    nodes: Sequence[str],
    timeout: int,
    *,
    clock: Clock | None = None,
    report: Callable[[str], object] = lambda line: None,
) -> DrainResult:
    done, wanted = DrainResult(), set(nodes)
    eviction = _Eviction(client, clock or RealClock(), timeout / SECOND, done)
    for view in jobs:
        leaving = [pod for pod in view.pods if pod.node in wanted and goes_in_cluster(pod)]
        report(f"evicting {view.key}")
        await eviction.of_job(view.key, leaving)
    return done


class _Eviction:
    def __init__(self, client: Client, clock: Clock, timeout: float, done: DrainResult) -> None:
        self._client = client
        self._clock = clock
        self._timeout = timeout
        self._done = done

    async def of_job(self, key: str, pods: Iterable[Pod]) -> None:
        """Evict the pods, and wait until they are gone, at most for the timeout."""
        left = {pod.uid: pod for pod in sorted(pods, key=lambda pod: natural_key(pod.name))}
        # A pod that is being deleted already is only waited for.
        to_ask = [uid for uid, pod in left.items() if not pod.deleting]
        deadline, problem = self._clock.monotonic() + self._timeout, ""
        while True:
            problem = ""
            try:
                for uid in tuple(to_ask):
                    refused = await self._ask(left[uid])
                    if refused:
                        problem = refused
                    else:
                        to_ask.remove(uid)
                there = await self._there({pod.node or "" for pod in left.values()})
                left = {uid: pod for uid, pod in left.items() if uid in there}
            except UnreachableError as error:
                problem = str(error)
            to_ask = [uid for uid in to_ask if uid in left]
            rest = deadline - self._clock.monotonic()
            if not left or rest <= 0:
                break
            await self._clock.sleep(min(POLL_SECONDS, rest))
        if left:
            why = f": {problem}" if problem else ""
            after = seconds_text(self._timeout)
            self._done.problems.append(
                f"{key}: {counted(left, 'pod')} still there after {after} "
                f"({', '.join([pod.name for pod in left.values()][:3])}){why}"
            )

    async def _ask(self, pod: Pod) -> str:
        """Evict one pod; why it has to be asked for again, empty if not."""
        try:
            await self._client.evict(pod.namespace, pod.name, pod.uid)
        except ApiError as error:
            if error.status in _DENIED:
                raise
            # A disruption budget does not allow it now, or the server cannot do it now.
            return "" if error.status in _GONE else str(error)
        self._done.evicted.append(pod.key)
        return ""

    async def _there(self, nodes: Iterable[str]) -> set[str]:
        """The uids of all pods on these nodes."""
        result: set[str] = set()
        for node in sorted(nodes):
            selector = {"fieldSelector": f"spec.nodeName={node}"}
            async for page in self._client.pages(PODS.path(), selector, PAGE_SIZE, raw_page):
                names = (name_of(raw) for raw in page.items or ())
                result.update(name.uid for name in names if name is not None and name.uid)
        return result

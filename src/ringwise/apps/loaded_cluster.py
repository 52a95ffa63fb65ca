"""A scheduler that knows the cluster of an input: every question about one starts from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from ringwise.apps.extensions import new_scheduler
from ringwise.apps.loading import check_holds, cluster_events, job_events
from ringwise.framework.configuration import Configuration
from ringwise.manifests.bundle import Bundle
from ringwise.manifests.text.errors import ManifestError
from ringwise.messages import events as ev
from ringwise.messages.events import Decide
from ringwise.records import dataclass
from ringwise.scheduler.view import SchedulerView
from ringwise.state.model import DEFAULT_QUEUE, Queue
from ringwise.topology.boards import BoardCatalog
from ringwise.views.cluster import ClusterObjects


@dataclass(slots=True)
class LoadedCluster:
    #: The objects of the input, with the PodGroups and pods that its vcjobs would get.
    objects: ClusterObjects
    #: Pods that name chips they cannot hold.
    errors: list[ManifestError] = field(default_factory=list)

    @property
    def view(self) -> SchedulerView:
        return self.objects.view

    @property
    def now(self) -> int:
        """Nanoseconds since 1970: the moment the question is about."""
        return self.objects.now


def from_bundle(
    bundle: Bundle,
    configuration: Configuration,
    catalog: BoardCatalog,
    *,
    now: int | None = None,
    decide: bool = True,
    keep_wrong_pods: bool = False,
) -> LoadedCluster:
    """The cluster of an input, after one cycle; without `decide`, as the input describes it.

    `keep_wrong_pods` includes pods that name chips they cannot hold: `doctor` reports them.
    """
    events, errors = input_events(bundle, keep_wrong_pods=keep_wrong_pods)
    now = bundle.newest_timestamp if now is None else now
    scheduler = new_scheduler(configuration, catalog, awaits_groups=bundle.awaits_groups)
    scheduler.handle(events, now, Decide.ONE_CYCLE if decide else Decide.NOTHING)
    if not decide:
        # A cycle finds out the boards of pending jobs, and by them those of nodes without a label.
        session = scheduler.view.what_if.open_session(now)
        for job in filter(scheduler.view.has_pending_pods, scheduler.view.jobs.values()):
            session.job_valid(job)
    return LoadedCluster(_objects(scheduler.view, now, events), errors)


def _objects(view: SchedulerView, now: int, events: Iterable[ev.Event]) -> ClusterObjects:
    nodes, pods, groups, queues, vcjobs = [], [], [], [], []
    for event in events:
        match event:
            case ev.NodeSeen():
                nodes.append(event.node)
            case ev.PodSeen():
                pods.append(event.pod)
            case ev.PodGroupSeen():
                groups.append(event.group)
            case ev.QueueSeen():
                queues.append(event.queue)
            case ev.VcJobSeen():
                vcjobs.append(event.job)
    if all(queue.name != DEFAULT_QUEUE for queue in queues):
        # The scheduler creates it.
        queues.append(Queue(DEFAULT_QUEUE))
    return ClusterObjects(view, now, nodes, pods, groups, queues, vcjobs)


def input_events(
    bundle: Bundle, *, keep_wrong_pods: bool = False
) -> tuple[list[ev.Event], list[ManifestError]]:
    """All objects of an input as events, and the errors of pods that name chips they cannot hold."""
    errors = check_holds(bundle)
    wrong = set() if keep_wrong_pods else {error.origin for error in errors}
    events: list[ev.Event] = [ev.KindServed(kind, False) for kind in bundle.not_served]
    events += [*cluster_events(bundle), *job_events(bundle)]
    events += [ev.PodSeen(pod) for pod in bundle.pods if pod.origin not in wrong]
    if bundle.written:
        # What the scheduler holds or reserves for jobs is not free for others.
        events.append(ev.LeaderRecordRead(bundle.written, takes_over=False))
    return events, errors

"""Convert the objects of an input to events, and create a scheduler that has received them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from ringwise.apps.extensions import new_scheduler
from ringwise.framework.configuration import Configuration
from ringwise.manifests.bundle import Bundle
from ringwise.manifests.kinds import STORED, event_of_object
from ringwise.manifests.text.errors import ManifestError
from ringwise.messages import events as ev
from ringwise.messages.claim_expansion import claims_of_job, ephemeral_claims_of, with_default_class
from ringwise.messages.events import Decide
from ringwise.messages.job_expansion import group_name, pod_group_of, pods_of
from ringwise.records import dataclass
from ringwise.scheduler.node_states import NodeState, node_states
from ringwise.scheduler.view import SchedulerView
from ringwise.state.model import DEFAULT_QUEUE, Node, Owner, Pod, PodGroup, PriorityClass, Queue
from ringwise.state.queue_rules import queue_problems
from ringwise.state.vcjob import VcJob
from ringwise.state.volumes import PersistentVolumeClaim, StorageClass
from ringwise.topology.boards import BoardCatalog
from ringwise.topology.chips import chip_names, chips_of, mask_of
from ringwise.views.cluster import ClusterObjects
from ringwise.wellknown import JOB_NAME


def cluster_events(bundle: Bundle) -> Iterator[ev.Event]:
    """The cluster itself: nodes, reports, topology, queues, priorities, groups. No vcjobs, no pods."""
    for kind in STORED:
        if kind not in (VcJob, Pod, PersistentVolumeClaim):
            yield from filter(None, map(event_of_object, bundle.of(kind)))
    for claim in bundle.of(PersistentVolumeClaim):
        yield ev.ClaimSeen(with_default_class(claim, bundle.of(StorageClass)))


def job_events(bundle: Bundle) -> Iterator[ev.Event]:
    """vcjobs with the PodGroup and pods they would get, unless these are in the input already.

    What the controller of a live cluster has not created does not exist.
    """
    priorities = {priority.name: priority.value for priority in bundle.of(PriorityClass)}
    groups = _groups_in(bundle)
    _adopt(bundle, groups)
    existing = {pod.key for pod in bundle.pods}
    claims = {claim.key for claim in bundle.of(PersistentVolumeClaim)}
    for vcjob in bundle.vcjobs:
        yield ev.VcJobSeen(vcjob)
        if vcjob.key in bundle.served:
            continue
        group = groups[vcjob.key]
        if group is None and not vcjob.over:
            yield ev.PodGroupSeen(pod_group_of(vcjob, priorities))
        pods = pods_of(vcjob, existing)
        for claim in _claims_made(vcjob, pods):
            if claim.key not in claims:
                yield ev.ClaimSeen(with_default_class(claim, bundle.of(StorageClass)))
        for pod in pods:
            if group is not None:
                pod.group = group.name
            yield ev.PodSeen(pod)


def _claims_made(job: VcJob, pods: Iterable[Pod]) -> Iterator[PersistentVolumeClaim]:
    """The claims that are made for a job and for its pods."""
    volumes = {task.name: task.template.ephemeral_volumes for task in job.tasks}
    yield from claims_of_job(job)
    for pod in pods:
        yield from ephemeral_claims_of(pod, volumes.get(pod.task, ()))


def _groups_in(bundle: Bundle) -> dict[str, PodGroup | None]:
    """Each vcjob's PodGroup in the input: the one it owns, or one of its name without an owner."""
    owned: dict[str, PodGroup] = {}
    loose: dict[str, PodGroup] = {}
    for group in bundle.pod_groups:
        if group.owner is None:
            loose[group.key] = group
        elif group.owner.is_vcjob:
            owned[f"{group.namespace}/{group.owner.name}"] = group
    result: dict[str, PodGroup | None] = {}
    for vcjob in bundle.vcjobs:
        named = loose.get(f"{vcjob.namespace}/{group_name(vcjob)}") or loose.get(vcjob.key)
        if vcjob.key not in owned and named is not None:
            named.owner = Owner("Job", vcjob.name, vcjob.uid)
        result[vcjob.key] = owned.get(vcjob.key, named)
    return result


def _adopt(bundle: Bundle, groups: Mapping[str, PodGroup | None]) -> None:
    """Complete pods that belong to a vcjob by name or label, but lack what its controller writes."""
    jobs = {vcjob.key: vcjob for vcjob in bundle.vcjobs}
    by_stem = {
        f"{vcjob.namespace}/{vcjob.name}-{task.name}": (vcjob, task.name)
        for vcjob in bundle.vcjobs
        for task in vcjob.tasks
    }
    keys = {group.key for group in bundle.pod_groups}
    for pod in bundle.pods if jobs else ():
        stem, _, index = pod.key.rpartition("-")
        vcjob, task = by_stem.get(stem, (None, "")) if index.isdigit() else (None, "")
        vcjob = vcjob or jobs.get(f"{pod.namespace}/{pod.labels.get(JOB_NAME, '')}")
        if vcjob is None:
            continue
        if pod.owner is not None and (pod.owner.kind, pod.owner.name) != ("Job", vcjob.name):
            continue
        named = groups[vcjob.key]
        group = group_name(vcjob) if named is None else named.name
        if pod.group is None or f"{pod.namespace}/{pod.group}" not in keys:
            pod.group = group
        if pod.group == group:
            pod.task = pod.task or task


def queue_notes(bundle: Bundle) -> list[str]:
    """New queues of the input that a cluster would refuse; those that exist are used as they are."""
    queues = {queue.name: queue for queue in bundle.queues}
    return [
        f"{queue.origin}: queue {queue.name}: {problem}"
        for queue in bundle.queues
        if not queue.created
        for problem in queue_problems(queue, queues)
    ]


def check_holds(bundle: Bundle) -> list[ManifestError]:
    """Chips that bound pods name but cannot hold: not on the node, or named twice."""
    nodes = {node.name: node for node in bundle.nodes}
    reported: dict[tuple[str, str], int] = {}
    faulty: dict[tuple[str, str], int] = {}
    for report in bundle.reports:
        network = report.network_unhealthy or 0
        seen = report.free | report.unhealthy | report.recovering | network
        key = (report.node, report.resource)
        reported[key] = reported.get(key, 0) | seen
        faulty[key] = faulty.get(key, 0) | report.unhealthy | report.recovering
    holder: dict[tuple[str, str, int], Pod] = {}
    errors: list[ManifestError] = []
    for pod in bundle.pods:
        resource = pod.cls.resource
        if pod.node is None or not pod.live or resource is None or not pod.named_chips:
            continue
        node = nodes.get(pod.node)
        if node is not None:
            place = (node.name, resource)
            chips = _listed(node, resource, reported.get(place), faulty.get(place, 0))
            strange = mask_of(pod.named_chips) & ~chips if chips is not None else 0
            if strange:
                errors.append(
                    ManifestError(
                        pod.origin,
                        f"metadata.annotations.{resource}",
                        f"{chip_names(resource, chips_of(strange))} not on node {node.name}, "
                        f"which has {chip_names(resource, chips_of(chips or 0)) or 'none'}",
                    )
                )
                continue
        for chip in pod.named_chips:
            first = holder.setdefault((pod.node, resource, chip), pod)
            if first is not pod:
                errors.append(
                    ManifestError(
                        pod.origin,
                        f"metadata.annotations.{resource}",
                        f"{chip_names(resource, (chip,))} of node {pod.node} "
                        f"is already held by pod {first.key}",
                    )
                )
                break
    return errors


def _listed(node: Node, resource: str, reported: int | None, faulty: int) -> int | None:
    """The chips that can be on the node; None when no object lists them.

    A report alone lists free and faulty chips; those in use are as many as Kubernetes counts besides.
    """
    if node.devices is not None:
        return mask_of(device.chip for device in node.devices)
    if reported is not None:
        count = max(
            node.chips_capacity.get(resource, 0), node.chips_allocatable.get(resource, 0) + faulty.bit_count()
        )
        return reported | ((1 << count) - 1)
    if resource in node.chips_allocatable:
        count = max(node.chips_capacity.get(resource, 0), node.chips_allocatable[resource])
        return (1 << count) - 1
    return None


def assumed_chips(view: SchedulerView) -> list[str]:
    """Nodes without a list of chips, for which 0..n-1 were assumed."""
    state = view.cluster
    return sorted(
        state.names[number]
        for number in state.existing_nodes()
        if any(one.state is NodeState.AWAITING_REPORT for one in node_states(state, number, view.history.now))
    )


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

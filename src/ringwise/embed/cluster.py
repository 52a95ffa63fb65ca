"""The embedded cluster: objects, simulated nodes and time, in one thread and without randomness.

It takes the place of a Kubernetes API server and of the kubelets: it stores objects, executes commands and
runs pods. It decides nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

import msgspec

from ringwise.embed import parts
from ringwise.embed.containers import PodContainer
from ringwise.embed.kubelet import (
    TERMINATED,
    PodTimeline,
    PodTimers,
    PodTransition,
    SimulationSettings,
    next_transition,
)
from ringwise.embed.nodes import SimulatedNodes
from ringwise.embed.objects import ConflictError, ObjectTable, TableWatch
from ringwise.embed.records import (
    ADDITIONS,
    CONTAINER,
    PUBLISHED,
    TIMELINE,
    ConfigMap,
    OwnerIndex,
    TableKey,
    events_of,
    key_of,
    merged,
)
from ringwise.embed.volumes import VolumeController
from ringwise.manifests.accounts.ledger import AccountLedger
from ringwise.manifests.config_maps.reset_config import changed
from ringwise.manifests.objects.chips import chips_in
from ringwise.manifests.objects.pods import group_of
from ringwise.manifests.text.errors import Findings
from ringwise.messages import commands as want
from ringwise.messages.accounting import AccountCommand
from ringwise.messages.claim_expansion import claims_of_job, ephemeral_claims_of
from ringwise.messages.events import BindFailed, Event
from ringwise.messages.move_plan import MovePlan, with_conditions
from ringwise.state.model import ENDED, HyperNode, Isolation, Owner, Pod, PodGroup, Queue
from ringwise.state.vcjob import COMMAND_ISSUED, VcJob
from ringwise.state.volumes import PersistentVolumeClaim
from ringwise.wellknown import (
    ASCEND_REAL,
    CLOSED_BY_PARENT,
    RANK_INDEX,
    RESET_CONFIG_PREFIX,
    RESET_KEY,
    TOPOLOGY_TYPE,
)

StoredKind = TypeVar("StoredKind")

#: Commands about a pod that exists.
_OF_PODS = (want.DeletePod, want.AnnotatePod, want.Evict, want.RemoveQueueGate)
#: Uids are derived from the version at which an object was created, so they never repeat.
_UIDS = uuid.UUID("3d6c1f0a-95ab-5c0e-8d7a-1f4b2a6e9c30")


class EmbeddedCluster:
    def __init__(
        self,
        *,
        settings: SimulationSettings | None = None,
        now: int = 0,
        table: ObjectTable | None = None,
    ) -> None:
        self.table = table or ObjectTable()
        self.settings = settings or SimulationSettings()
        self.now = now
        self.nodes = SimulatedNodes(self.table)
        self._volumes = VolumeController(self.table)
        #: The last status of groups. Not stored: the scheduler sends it again after a restart.
        self.group_status: dict[str, want.SetGroupStatus] = {}
        #: The last event on each queue. Not stored.
        self.queue_events: dict[str, want.RecordQueueEvent] = {}
        #: What became of the last Command for each job.
        self.job_command_events: dict[str, want.RecordVcJobEvent] = {}
        #: Messages about chips that two live pods were given. Empty, unless the scheduler has a fault.
        self.alarms: list[str] = []
        #: Adds up what is accounted for, where anything is.
        self.accounts: AccountLedger | None = None
        self._pod_keys: dict[str, str] = {}
        self._owners = OwnerIndex()
        self._timers = PodTimers()
        for group in self.all(PodGroup):
            self._owners.add(group)
        for pod in self.all(Pod):
            self._owners.add(pod)
            self._pod_keys[pod.uid] = pod.key
            self._claim(pod)
            self._set_timer(pod)

    # -- reading -----------------------------------------------------------------------

    def get(self, kind: type[StoredKind], key: str) -> StoredKind | None:
        return self.table.find(kind, key)

    def all(self, kind: type[StoredKind]) -> list[StoredKind]:
        return self.table.each(kind)

    def pod(self, uid: str) -> Pod | None:
        key = self._pod_keys.get(uid)
        return None if key is None else self.get(Pod, key)

    def published(self, namespace: str, name: str, key: str) -> str:
        """The value of a data key that scheduler or controller published; empty where there is none."""
        return self.published_data(namespace, [name]).get(key, "")

    def published_data(self, namespace: str, names: Iterable[str]) -> dict[str, str]:
        """All data of published ConfigMaps that is not empty."""
        maps = (self.table.find(ConfigMap, f"{namespace}/{name}") for name in names)
        return {key: text for one in maps if one is not None for key, text in one.data.items() if text}

    def additions(self, uid: str) -> want.PodAdditions:
        """What job plugins added to the pod: environment, host name, mounts."""
        return self.table.find(want.PodAdditions, uid) or want.PodAdditions()

    def container(self, uid: str) -> PodContainer | None:
        """What the pod's container got of its node's device plugin."""
        return self.table.find(PodContainer, uid)

    def watch(self, version: int | None = None) -> TableWatch:
        return TableWatch(self.table, version)

    # -- users ------------------------------------------------------------------

    def submit(self, value: object) -> int:
        """Create an object, or update what may change of it. Returns its version."""
        name = key_of(value)
        before = self.table.get(name.kind, name.key)
        stored = merged(before, value, self.now, self._new_uid(name))
        version = self._store(stored)
        if isinstance(value, Pod) and isinstance(stored, Pod):
            self._adopt_claims(stored, value.uid)
        self._volumes.seen(stored)
        for one in (before, stored):
            if isinstance(one, Isolation) and before != stored:
                self.nodes.report_again(one.node, self.now)
        return version

    def submit_all(self, values: Iterable[object]) -> None:
        for value in values:
            self.submit(value)

    def delete(self, kind: str, key: str, uid: str | None = None) -> bool:
        """Delete an object and what it owns; False when there is none. With a uid: only that object."""
        entry = self.table.get(kind, key)
        if entry is None:
            return False
        if uid is not None and getattr(entry, "uid", "") != uid:
            raise ConflictError(f"{kind} {key} has the uid {getattr(entry, 'uid', '')}, not {uid}")
        if isinstance(entry, Pod):
            self._request_deletion(entry)
        elif kind == "Node":
            # The pods of a node are deleted with it.
            for pod in self._pods_on(key):
                self._remove_pod(pod)
            self.nodes.remove(key)
        else:
            self.table.remove(kind, key)
            if isinstance(entry, PersistentVolumeClaim):
                self._volumes.claim_gone(entry)
            elif isinstance(entry, VcJob):
                self._delete_owned(entry)
            elif isinstance(entry, PodGroup):
                self.group_status.pop(entry.key, None)
                self._owners.remove(entry)
            elif isinstance(entry, Isolation):
                self.nodes.report_again(entry.node, self.now)
        return True

    def cordon(self, node: str, on: bool = True) -> bool:
        """False: it was so already."""
        return self.nodes.cordon(node, on)

    def set_ready(self, node: str, ready: bool) -> None:
        self.nodes.set_ready(node, ready)
        for pod in self._pods_on(node):
            self._set_timer(pod)

    # -- commands ----------------------------------------------------------------------

    def apply(self, command: want.Command) -> list[Event]:
        """Execute a command; returns the events of failures. A command without effect changes no version."""
        pod = self.pod(command.uid) if isinstance(command, _OF_PODS) else None
        match command:
            case want.Bind():
                why = self._bind(command)
                return [] if why is None else [BindFailed(command.uid, why)]
            case want.SelectNode():
                return self._volumes.select_node(command)
            case want.BindVolume():
                return self._volumes.bind_volume(command)
            case want.DeletePod(grace=0) if pod is not None:
                self._remove_pod(pod)
            case want.AnnotatePod() if pod is not None:
                retained = {key: one for key, one in pod.annotations.items() if key not in command.remove}
                annotations = {**retained, **command.annotations}
                group = group_of(annotations) or pod.group
                self._put_pod(replace(pod, annotations=annotations, group=group))
            case want.Evict() | want.DeletePod() if pod is not None:
                self._request_deletion(pod)
            case want.RemoveQueueGate() if pod is not None and pod.queue_gated:
                self._put_pod(replace(pod, gated=False, queue_gated=False))
            case want.SetGroupStatus():
                self._set_group_status(command)
            case want.AnnotateGroup():
                annotated = self.get(PodGroup, command.key)
                if annotated is not None:
                    written = {**annotated.annotations, **command.annotations}
                    annotations = {key: text for key, text in written.items() if text is not None}
                    self._store(replace(annotated, annotations=annotations))
            case want.Publish():
                self._publish(ConfigMap(command.namespace, command.name, dict(command.data)))
            case want.SetResetConfig():
                self._set_reset_config(command)
            case want.CreateGroup():
                self._create_group(command.group)
            case want.DeleteGroup():
                self.delete("PodGroup", command.key)
            case want.CreatePod():
                self._create_pod(command)
            case want.SetConditions(kind="MovePlan"):
                # Of other kinds nothing is kept: their conditions follow from the objects.
                plan = self.get(MovePlan, command.name)
                if plan is not None:
                    said = {one.type: (one.status, one.reason, one.message) for one in command.conditions}
                    self._store(with_conditions(plan, said, plan.finished or self.now))
            case want.DeleteFinished():
                self.delete(command.kind, command.name, command.uid)
            case want.SetJobStatus():
                self._set_job_status(command)
            case want.DeleteJob():
                self.delete("VcJob", command.key)
            case want.UpdateQueue():
                self._update_queue(command)
            case want.PutHyperNode():
                self._put_hyper_node(command.hyper_node)
            case want.DeleteHyperNode():
                if _is_discovered(self.get(HyperNode, command.name)):
                    self.delete("HyperNode", command.name)
            case want.RecordQueueEvent():
                self.queue_events[command.name] = command
            case want.RecordVcJobEvent() if command.reason == COMMAND_ISSUED:
                self.job_command_events[command.key] = command
            case _ if isinstance(command, AccountCommand):
                if self.accounts is not None:
                    self.accounts.apply(command, self.now)
        return []

    def _bind(self, command: want.Bind) -> str | None:
        pod = self.pod(command.uid)
        if pod is None:
            return f"pod {command.namespace}/{command.pod} is gone"
        if pod.deleting or not pod.live:
            return f"pod {pod.key} is {'terminating' if pod.deleting else pod.phase}"
        if pod.node is not None:
            return f"pod {pod.key} is already on {pod.node}"
        if self.nodes.get(command.node) is None:
            return f'node "{command.node}" not found'
        rank = command.annotations.get(RANK_INDEX, "")
        bound = replace(
            pod,
            node=command.node,
            annotations={
                **{key: value for key, value in pod.annotations.items() if key not in command.remove},
                **command.annotations,
            },
            holds=tuple(command.chips),
            mounted=(),
            stray=(),
            rank=int(rank) if rank.isdigit() else pod.rank,
            bound=self.now,
        )
        self._put_timeline(bound, PodTimeline(self.now))
        twice = self._claim(bound)
        if twice:
            self.alarms.append(
                f"{bound.key} was given chips {twice} of {bound.node}, which others still hold"
            )
        self._put_pod(bound)
        return None

    def _set_group_status(self, command: want.SetGroupStatus) -> None:
        group = self.get(PodGroup, command.key)
        if group is None:
            return
        self.group_status[command.key] = command
        if group.phase != command.phase:
            self._store(replace(group, phase=command.phase))

    def _create_group(self, group: PodGroup) -> None:
        """Create the group, or update it from its job."""
        before = self.get(PodGroup, group.key)
        if not self._owner_exists(group.namespace, group.owner):
            return
        if before is None or merged(before, group, self.now, "") != before:
            self.submit(group)

    def _put_hyper_node(self, wanted: HyperNode) -> None:
        """Only of one that was made so the members change, and what others wrote into it stays."""
        before = self.get(HyperNode, wanted.name)
        if before is None:
            self.submit(wanted)
        elif _is_discovered(before):
            labels = {**before.labels, **wanted.labels}
            self.submit(replace(wanted, labels=labels, node_count=before.node_count))

    def _publish(self, published: ConfigMap) -> None:
        """Write its keys; other keys of the ConfigMap stay."""
        key = f"{published.namespace}/{published.name}"
        before = self.table.find(ConfigMap, key)
        if before is not None:
            published = replace(published, data={**before.data, **published.data})
        if before != published:
            self.table.put(PUBLISHED, key, published)

    def _set_reset_config(self, command: want.SetResetConfig) -> None:
        """On a cluster the user makes it with the job; here it shows what the processes would read."""
        name = f"{RESET_CONFIG_PREFIX}{command.job}"
        data = changed(self.published(command.namespace, name, RESET_KEY) or "{}", command)
        if data is not None:
            self._publish(ConfigMap(command.namespace, name, data))

    def _create_pod(self, command: want.CreatePod) -> None:
        if self.get(Pod, command.pod.key) is not None:
            return
        if not self._owner_exists(command.pod.namespace, command.pod.owner):
            return
        name = TableKey("Pod", command.pod.key)
        pod = replace(command.pod, uid=self._new_uid(name), created=self.now)
        if command.additions != want.PodAdditions():
            self.table.put(ADDITIONS, pod.uid, command.additions)
        self._pod_keys[pod.uid] = pod.key
        self._create_claims(pod)
        self._store(pod)

    def _create_claims(self, pod: Pod) -> None:
        """Those of its job, which the first pod needs, and its own; one that exists is used as it is."""
        job = None if pod.owner is None else self.get(VcJob, f"{pod.namespace}/{pod.owner.name}")
        if job is None or not pod.claims:
            return
        volumes = (task.template.ephemeral_volumes for task in job.tasks if task.name == pod.task)
        for claim in (*claims_of_job(job), *ephemeral_claims_of(pod, next(volumes, ()))):
            if self.get(PersistentVolumeClaim, claim.key) is None:
                self.submit(claim)

    def _adopt_claims(self, pod: Pod, sent: str) -> None:
        """Claims of its ephemeral volumes that came with it, from where it had another uid."""
        for name in pod.ephemeral_claims:
            claim = self.get(PersistentVolumeClaim, f"{pod.namespace}/{name}")
            if claim is not None and claim.owner == sent:
                self._store(replace(claim, owner=pod.uid))

    def _set_job_status(self, command: want.SetJobStatus) -> None:
        job = self.get(VcJob, command.key)
        if job is None:
            return
        changed = replace(
            job,
            phase=command.phase,
            reason=command.reason,
            message=command.message,
            retry_count=command.retries,
            version=command.version,
            since=command.since,
            counts=dict(command.counts),
            conditions=command.conditions,
            rejections=job.rejections if command.rejections is None else dict(command.rejections),
        )
        if changed != job:
            self._store(changed)

    def _update_queue(self, command: want.UpdateQueue) -> None:
        queue = self.get(Queue, command.name)
        if queue is None:
            return
        annotations = dict(queue.annotations)
        if command.closed_by_parent is not None:
            annotations[CLOSED_BY_PARENT] = "true" if command.closed_by_parent else "false"
        self._store(
            replace(
                queue,
                state=command.state or queue.state,
                parent=command.parent or queue.parent,
                annotations=annotations,
                missing=tuple(name for name in queue.missing if not getattr(command, name)),
            )
        )

    # -- time --------------------------------------------------------------------------

    def next_deadline(self) -> int | None:
        """When the next timer expires."""
        return self._timers.next()

    def advance(self, to: int) -> list[Event]:
        """Advance the time and return the events of it."""
        watch = self.watch(self.table.version)
        self.pass_time(to)
        return events_of(watch.poll())

    def pass_time(self, to: int) -> None:
        """Advance the time; watches see the changes of it."""
        if to < self.now:
            raise ValueError(f"time cannot go back from {self.now} to {to}")
        while (due := self.next_deadline()) is not None and due <= to:
            uid, transition = self._timers.pop()
            self.now = max(self.now, due)
            pod = self.pod(uid)
            if pod is not None:
                self._carry_out(pod, transition)
        self.now = to
        self._take_annotations()

    def _take_annotations(self) -> None:
        """Pods get what device plugins wrote to them; the chips they name are theirs."""
        agents = self.nodes.agents
        for uid, written in agents.changes().items() if agents is not None else ():
            pod = self.pod(uid)
            resource = None if pod is None else pod.cls.resource
            if pod is None or resource is None:
                continue
            issues = Findings(f"pod {pod.key}")
            holds = chips_in(written.get(resource, ""), resource, resource, issues)
            mounted = chips_in(written.get(ASCEND_REAL, ""), resource, ASCEND_REAL, issues)
            if pod.live and holds != pod.holds:
                self.nodes.reassign(pod, holds)
            self._store(replace(pod, annotations=written, holds=holds, mounted=mounted))

    def _carry_out(self, pod: Pod, transition: PodTransition) -> None:
        match transition:
            case PodTransition.REMOVE:
                self._remove_pod(pod)
            case PodTransition.TERMINATE:
                # As kubelet does since Kubernetes 1.27: a phase says that the containers have ended.
                self._put_pod(replace(pod, phase="Failed", exit_code=TERMINATED, ended=self.now))
            case PodTransition.START:
                started, container = self.nodes.start(pod, self.now)
                if container is not None:
                    self.table.put(CONTAINER, pod.uid, container)
                timeline = self._timeline(pod)
                if timeline is not None and started.phase == "Running":
                    self._put_timeline(started, msgspec.structs.replace(timeline, started=self.now))
                self._put_pod(started)
                self._take_annotations()
            case PodTransition.REPORT:
                others = (one for one in self.all(Pod) if one.node == pod.node and one.uid != pod.uid)
                self._put_pod(self.nodes.reported(pod, list(others)))
            case PodTransition.END:
                ended = self.nodes.end(pod, self.now, self.settings)
                self._put_pod(ended)

    def _set_timer(self, pod: Pod) -> None:
        """Set the pod's timer to its next transition; an overdue one is due now."""
        timeline = self._timeline(pod)
        due = None
        if timeline is not None and pod.node is not None:
            node = self.nodes.get(pod.node)
            ready = node is not None and node.ready
            delay = parts.REPORT_DELAY if parts.awaits_report(pod) else None
            due = next_transition(pod, timeline, ready, self.settings, self._estimate(pod), delay)
        if due is not None and due.at < self.now:
            due = replace(due, at=self.now)
        self._timers.set(pod.uid, due)

    def _estimate(self, pod: Pod) -> int | None:
        """How long its vcjob says that it runs."""
        job = None if pod.owner is None else self.get(VcJob, f"{pod.namespace}/{pod.owner.name}")
        return job.running_estimate if job is not None and pod.owner and job.uid == pod.owner.uid else None

    # -- pods --------------------------------------------------------------------------

    def _request_deletion(self, pod: Pod) -> None:
        if pod.node is None or not pod.live:
            self._remove_pod(pod)
            return
        timeline = self._timeline(pod) or PodTimeline(self.now)
        if timeline.deletion_requested is None:
            requested = msgspec.structs.replace(timeline, deletion_requested=self.now)
            self._put_timeline(pod, requested)
        if not pod.deleting:
            self._put_pod(replace(pod, deleting=True))

    def _remove_pod(self, pod: Pod) -> None:
        self.table.remove("Pod", pod.key)
        self.table.remove(TIMELINE, pod.uid)
        self.table.remove(ADDITIONS, pod.uid)
        self.table.remove(CONTAINER, pod.uid)
        self._timers.set(pod.uid, None)
        self._owners.remove(pod)
        self._pod_keys.pop(pod.uid, None)
        self.nodes.release(pod, self.now)
        for name in pod.ephemeral_claims:
            claim = self.get(PersistentVolumeClaim, f"{pod.namespace}/{name}")
            if claim is not None and claim.owner == pod.uid:
                self.delete(PersistentVolumeClaim.__name__, claim.key)

    def _claim(self, pod: Pod) -> tuple[int, ...]:
        return self.nodes.claim(pod) if pod.live else ()

    def _put_pod(self, pod: Pod) -> None:
        if pod.phase in ENDED:
            self.nodes.release(pod, self.now)
        self._store(pod)
        self._set_timer(pod)

    def _pods_on(self, node: str) -> list[Pod]:
        return [pod for pod in self.all(Pod) if pod.node == node]

    def _owner_exists(self, namespace: str, owner: Owner | None) -> bool:
        """Whether the owner exists.

        Objects of a deleted job would be garbage collected, so they are not created.
        """
        if owner is None:
            return True
        job = self.get(VcJob, f"{namespace}/{owner.name}")
        return job is not None and job.uid == owner.uid

    def _delete_owned(self, job: VcJob) -> None:
        for kind, key in self._owners.of(job.uid):
            self.delete(kind, key)
        for claim in claims_of_job(job):
            self.delete(PersistentVolumeClaim.__name__, claim.key)

    # -- storing -----------------------------------------------------------------------

    def _timeline(self, pod: Pod) -> PodTimeline | None:
        entry = self.table.get(TIMELINE, pod.uid)
        return entry if isinstance(entry, PodTimeline) else None

    def _put_timeline(self, pod: Pod, timeline: PodTimeline) -> None:
        self.table.put(TIMELINE, pod.uid, timeline)

    def _store(self, value: object) -> int:
        name = key_of(value)
        if isinstance(value, Pod):
            self._pod_keys[value.uid] = value.key
        version = self.table.put(name.kind, name.key, value)
        if isinstance(value, (Pod, PodGroup)):
            self._owners.add(value)
        if isinstance(value, Pod) and value.node is not None and self._timeline(value) is None:
            # A pod that was submitted with a node: its timeline starts now.
            started = self.now if value.phase == "Running" else None
            self._put_timeline(value, PodTimeline(self.now, started))
            self._claim(value)
            self._set_timer(value)
        return version

    def _new_uid(self, name: TableKey) -> str:
        return str(uuid.uuid5(_UIDS, f"{name.kind}/{name.key}/{self.table.version}"))


def _is_discovered(hyper_node: HyperNode | None) -> bool:
    """Whether the controller made it: of others it changes nothing."""
    return hyper_node is not None and TOPOLOGY_TYPE in hyper_node.labels

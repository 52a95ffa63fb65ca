"""PodGroups for pods whose owner creates none: of Deployments, StatefulSets, Kubernetes' Jobs, and bare pods.

As Volcano's pg-controller does it: one PodGroup for each controller owner, named by its uid. A pod that
names a PodGroup is left alone. Decisions follow from the objects alone: a new controller that gets all
objects in its first call continues where the last one stopped.

A pod gets its annotation only after its PodGroup was seen, so that it never names one that does not exist.

A pod without an owner is a job of one pod with or without a PodGroup. Its PodGroup says nothing that the pod
does not say, except while it waits: so it gets one only after it has waited for a while. One that is bound
before has none, and names none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field, replace
from functools import partial

from ringwise.controller.job_record import RETRY_AFTER
from ringwise.controller.timers import Timers
from ringwise.durations import earliest
from ringwise.messages import events as ev
from ringwise.messages.commands import AnnotatePod, Command, CreateGroup, DeleteGroup
from ringwise.messages.containment import Containment
from ringwise.messages.ordinary_groups import (
    group_for,
    group_owner,
    is_as_wanted,
    marked_suspended,
    needs_group,
    queue_without_group,
)
from ringwise.records import dataclass
from ringwise.state.model import DEFAULT_QUEUE, Pod, PodGroup, ordinary_group_name
from ringwise.state.workload import PodOwner
from ringwise.wellknown import (
    DEPLOYMENT_API,
    GROUP_NAME,
    KUBERNETES_JOB_API,
    ORDINARY_GROUP_PREFIX,
    SCHEDULER_NAMES,
)

#: Kinds whose objects are read: they say how large the gang is, and how many pods there will be.
READ_KINDS = frozenset(
    {
        (DEPLOYMENT_API, "ReplicaSet"),
        (DEPLOYMENT_API, "StatefulSet"),
        (DEPLOYMENT_API, "DaemonSet"),
        (KUBERNETES_JOB_API, "Job"),
        ("v1", "ReplicationController"),
    }
)
#: Kinds whose PodGroup follows later changes, and is deleted when they have 0 replicas.
_FOLLOWED = frozenset({"ReplicaSet", "StatefulSet"})
#: Nanoseconds that a pod waits for its owner to be seen: the two are watched apart.
_OWNER_WAIT = 10_000_000_000
#: Nanoseconds that a pod without an owner waits for a node before it gets a PodGroup.
LONE_POD_WAIT = 30_000_000_000


@dataclass(slots=True)
class _Record:
    """One PodGroup that exists or should."""

    namespace: str
    #: Uid of the controller owner; of the pod itself where it has none.
    owner: str
    #: Pods that are in the group or should be, by uid.
    pods: dict[str, Pod] = field(default_factory=dict)
    #: When its creation or change, its deletion and the annotation of each pod were requested last.
    group_requested: int | None = None
    requested: PodGroup | None = None
    deletion_requested: int | None = None
    annotation_requested: dict[str, int] = field(default_factory=dict)
    #: Since when pods wait for an owner that was not seen, or one without an owner for its node.
    waits_since: int | None = None

    @property
    def key(self) -> str:
        return f"{self.namespace}/{ordinary_group_name(self.owner)}"


class PodGroupController:
    def __init__(self, scheduler_names: Iterable[str] = SCHEDULER_NAMES) -> None:
        self._names = frozenset(scheduler_names)
        self._records: dict[str, _Record] = {}
        self._record_of: dict[str, str] = {}
        self._owners: dict[str, PodOwner] = {}
        self._groups: dict[str, PodGroup] = {}
        self._changed: dict[str, None] = {}
        self._timers = Timers()
        #: Called with a pod that is a job of its own, by uid, and its queue; None: it is no longer one.
        self.on_lone_pod: Callable[[str, str | None], object] = lambda uid, queue: None

    def apply(self, event: ev.Event) -> None:
        match event:
            case ev.PodSeen():
                self._pod_seen(event.pod)
            case ev.PodGone():
                self._pod_left(event.uid)
            case ev.PodGroupSeen():
                if event.group.name.startswith(ORDINARY_GROUP_PREFIX):
                    self._groups[event.group.key] = event.group
                    self._changed[event.group.key] = None
            case ev.PodGroupGone():
                if self._groups.pop(event.key, None) is not None:
                    record = self._records.get(event.key)
                    if record is not None:
                        record.group_requested = record.deletion_requested = None
                    self._changed[event.key] = None
            case ev.PodOwnerSeen():
                self._owners[event.owner.uid] = event.owner
                self._changed[_key(event.owner)] = None
            case ev.PodOwnerGone():
                owner = self._owners.pop(event.uid, None)
                if owner is not None:
                    self._changed[_key(owner)] = None

    def sync(self, now: int, containment: Containment) -> list[Command]:
        """The commands that follow from the events since the last call, and from the time."""
        self._changed.update(dict.fromkeys(self._timers.take_due(now)))
        commands: list[Command] = []
        for key in self._changed:
            more: list[Command] = []
            if containment.attempt("PodGroup", key, partial(self._handle, key, now, more)):
                commands += more
        self._changed.clear()
        return commands

    def _handle(self, key: str, now: int, commands: list[Command]) -> None:
        self._timers.set(key, self._sync(key, now, commands))

    def next_deadline(self) -> int | None:
        return self._timers.next_deadline()

    # -- events --------------------------------------------------------------------------

    def _pod_seen(self, pod: Pod) -> None:
        owner = group_owner(pod)
        if pod.scheduler not in self._names or pod.group not in (None, ordinary_group_name(owner.uid)):
            self._pod_left(pod.uid)
            return
        record = _Record(pod.namespace, owner.uid)
        key = record.key
        if self._record_of.get(pod.uid, key) != key:
            self._pod_left(pod.uid)
        if owner.uid == pod.uid:
            self.on_lone_pod(pod.uid, queue_without_group(pod.annotations) if pod.group is None else None)
        record = self._records.setdefault(key, record)
        if pod.group is not None:
            record.annotation_requested.pop(pod.uid, None)
        record.pods[pod.uid] = pod
        self._record_of[pod.uid] = key
        self._changed[key] = None

    def _pod_left(self, uid: str) -> None:
        key = self._record_of.pop(uid, None)
        if key is not None:
            record = self._records[key]
            del record.pods[uid]
            self.on_lone_pod(uid, None)
            record.annotation_requested.pop(uid, None)
            self._changed[key] = None

    # -- one PodGroup --------------------------------------------------------------------

    def _sync(self, key: str, now: int, commands: list[Command]) -> int | None:
        """Returns when time alone changes something."""
        group, record = self._groups.get(key), self._records.get(key)
        if record is None:
            if group is None or group.owner is None:
                return None
            record = self._records[key] = _Record(group.namespace, group.owner.uid)
        owner = self._owners.get(record.owner)
        live = [pod for pod in record.pods.values() if pod.live and not pod.deleting]
        if not record.pods and (group is None or owner is None):
            del self._records[key]
            return None
        if owner is not None and owner.kind in _FOLLOWED and not owner.replicas:
            return self._delete(record, group, now, commands)
        record.deletion_requested = None
        if group is not None and owner is not None and _is_of_job(group, owner):
            marked = marked_suspended(group, owner)
            if marked.annotations != group.annotations:
                return _request(record, marked, now, commands)
        if not live:
            return None
        latest = max(live, key=lambda pod: (pod.created, pod.uid))
        reference = group_owner(latest)
        if owner is None and (reference.api, reference.kind) in READ_KINDS:
            record.waits_since = now if record.waits_since is None else record.waits_since
            if now < record.waits_since + _OWNER_WAIT:
                return record.waits_since + _OWNER_WAIT
        elif group is None and latest.group is None and not needs_group(latest):
            if latest.node is not None:
                return None
            record.waits_since = now if record.waits_since is None else record.waits_since
            if now < record.waits_since + LONE_POD_WAIT:
                return record.waits_since + LONE_POD_WAIT
        wanted = group_for(latest, owner)
        if group is None or (_follows(group, owner) and not is_as_wanted(group, wanted)):
            if group is not None and wanted.queue == DEFAULT_QUEUE:
                wanted = replace(wanted, queue=group.queue)
            due: int | None = _request(record, wanted, now, commands)
        else:
            record.group_requested = record.requested = due = None
        if group is not None:
            due = earliest(due, self._annotate(record, live, now, commands))
        return due

    def _annotate(
        self, record: _Record, live: Iterable[Pod], now: int, commands: list[Command]
    ) -> int | None:
        due: int | None = None
        requested = record.annotation_requested
        for pod in live:
            if pod.group is not None:
                continue
            if pod.uid not in requested or requested[pod.uid] + RETRY_AFTER <= now:
                requested[pod.uid] = now
                name = ordinary_group_name(record.owner)
                commands.append(AnnotatePod(pod.uid, pod.namespace, pod.name, {GROUP_NAME: name}))
            due = earliest(due, requested[pod.uid] + RETRY_AFTER)
        return due

    def _delete(
        self, record: _Record, group: PodGroup | None, now: int, commands: list[Command]
    ) -> int | None:
        """Once its last pod has ended: until then that belongs to the queue of the PodGroup."""
        owned = group is not None and group.owner is not None and group.owner.uid == record.owner
        if group is None or not owned or any(pod.live for pod in record.pods.values()):
            return None
        if record.deletion_requested is None or record.deletion_requested + RETRY_AFTER <= now:
            record.deletion_requested = now
            commands.append(DeleteGroup(group.key))
        return record.deletion_requested + RETRY_AFTER


def _request(record: _Record, wanted: PodGroup, now: int, commands: list[Command]) -> int:
    """Ask for the PodGroup, unless it was asked for a moment ago. Returns when it is asked for again."""
    again = record.requested is None or not is_as_wanted(record.requested, wanted)
    if again or record.group_requested is None or record.group_requested + RETRY_AFTER <= now:
        record.group_requested, record.requested = now, wanted
        commands.append(CreateGroup(wanted))
    return (record.group_requested or now) + RETRY_AFTER


def _is_of_job(group: PodGroup, owner: PodOwner) -> bool:
    """Whether the owner is a Job of Kubernetes, and the PodGroup its own."""
    return owner.kind == "Job" and group.owner is not None and group.owner.uid == owner.uid


def _follows(group: PodGroup, owner: PodOwner | None) -> bool:
    """Whether later changes of owner and pods are written to the PodGroup."""
    ours = owner is not None and group.owner is not None and group.owner.uid == owner.uid
    return ours and owner is not None and owner.kind in _FOLLOWED


def _key(owner: PodOwner) -> str:
    return f"{owner.namespace}/{ordinary_group_name(owner.uid)}"

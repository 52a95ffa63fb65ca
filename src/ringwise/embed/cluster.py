"""The embedded cluster: objects, simulated nodes and time, on one thread and without chance.

It stands where a Kubernetes API server and the kubelets would stand: it stores what it
is given, carries out commands and lets pods live. It decides nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from ringwise.embed.happenings import events_of
from ringwise.embed.kubelet import Life, Step, next_step
from ringwise.embed.nodes import Nodes
from ringwise.embed.objects import ConflictError, ObjectTable, Watch
from ringwise.embed.owners import Owners
from ringwise.embed.records import (
    ADDITIONS,
    LIFE,
    PUBLISHED,
    ConfigMap,
    RefusedError,
    Storable,
    TableKey,
    key_of,
    merged,
)
from ringwise.embed.simulated import Habits
from ringwise.embed.timers import Timers
from ringwise.messages import commands as want
from ringwise.messages.events import BindFailed, Event
from ringwise.reasons import Reason
from ringwise.state.model import ENDED, Owner, Pod, PodGroup, Queue
from ringwise.state.vcjob import VcJob
from ringwise.wellknown import RANK_INDEX

Kept = TypeVar("Kept")

#: Uids are made from the version at which an object was created, so they never repeat.
_UIDS = uuid.UUID("3d6c1f0a-95ab-5c0e-8d7a-1f4b2a6e9c30")


class EmbeddedCluster:
    def __init__(
        self, *, habits: Habits | None = None, now: int = 0, table: ObjectTable | None = None
    ) -> None:
        self.table = table or ObjectTable()
        self.habits = habits or Habits()
        self.now = now
        self.nodes = Nodes(self.table)
        #: What the scheduler last said about groups and pods; told anew after a restart, so not stored.
        self.group_status: dict[str, want.SetGroupStatus] = {}
        self.pod_reasons: dict[str, Reason] = {}
        #: Chips that two live pods were given, as sentences. Always empty with a sound scheduler.
        self.alarms: list[str] = []
        self._pod_keys: dict[str, str] = {}
        self._owners = Owners()
        self._timers = Timers()
        self._failing_binds: dict[str, int] = {}
        for group in self.all(PodGroup):
            self._owners.add(group)
        for pod in self.all(Pod):
            self._owners.add(pod)
            self._pod_keys[pod.uid] = pod.key
            self._claim(pod)
            self._plan(pod)

    # -- reading -----------------------------------------------------------------------

    def get(self, kind: type[Kept], key: str) -> Kept | None:
        found = self.table.get(kind.__name__, key)
        return found if isinstance(found, kind) else None

    def all(self, kind: type[Kept]) -> list[Kept]:
        return [value for value in self.table.kind(kind.__name__) if isinstance(value, kind)]

    def pod(self, uid: str) -> Pod | None:
        key = self._pod_keys.get(uid)
        return None if key is None else self.get(Pod, key)

    def additions(self, uid: str) -> want.PodAdditions:
        """What job plugins gave the pod: environment, host name, mounts."""
        found = self.table.get(ADDITIONS, uid)
        return found if isinstance(found, want.PodAdditions) else want.PodAdditions()

    def watch(self, version: int | None = None) -> Watch:
        return Watch(self.table, version)

    # -- what people do ------------------------------------------------------------------

    def submit(self, value: Storable, expected: int | None = None) -> int:
        """Create an object, or change what may be changed of it. Returns its version."""
        name = key_of(value)
        before = self.table.get(name.kind, name.key)
        return self._store(merged(before, value, self.now, self._new_uid(name)), expected)

    def submit_all(self, values: Iterable[Storable]) -> None:
        for value in values:
            self.submit(value)

    def update(self, kind: type[Kept], key: str, change: Callable[[Kept], Kept]) -> int:
        """Read, change, write; the version read must still be the one stored."""
        version = self.table.version_of(kind.__name__, key)
        value = self.get(kind, key)
        if value is None or version is None:
            raise RefusedError(f"there is no {kind.__name__} {key}")
        return self.table.put(kind.__name__, key, change(value), version)

    def delete(self, kind: str, key: str, uid: str | None = None) -> bool:
        """Delete an object and what it owns; False when there is none. With a uid: only that very one."""
        found = self.table.get(kind, key)
        if found is None:
            return False
        if uid is not None and getattr(found, "uid", "") != uid:
            raise ConflictError(f"{kind} {key} has the uid {getattr(found, 'uid', '')}, not {uid}")
        if isinstance(found, Pod):
            self._ask_to_go(found)
        elif kind == "Node":
            self._lose_node(key)
        else:
            self.table.remove(kind, key)
            if isinstance(found, VcJob):
                self._orphans(found)
            elif isinstance(found, PodGroup):
                self.group_status.pop(found.key, None)
                self._owners.remove(found)
                self._close_empty(found.queue)
        return True

    def cordon(self, node: str, on: bool = True) -> None:
        self.nodes.cordon(node, on)

    def drain(self, node: str) -> list[str]:
        """Cordon a node and ask its pods to go; returns their keys."""
        self.nodes.cordon(node)
        leaving = [pod for pod in self._pods_on(node) if pod.live]
        for pod in leaving:
            self._ask_to_go(pod)
        return [pod.key for pod in leaving]

    def set_ready(self, node: str, ready: bool) -> None:
        self.nodes.set_ready(node, ready)
        for pod in self._pods_on(node):
            self._plan(pod)

    def set_queue_open(self, name: str, on: bool) -> None:
        """Open a queue, or close it: it is Closing until its last PodGroup is gone."""
        self.update(Queue, name, lambda queue: replace(queue, state="Open" if on else "Closing"))
        self._close_empty(name)

    def fail_next_binds(self, node: str, count: int = 1) -> None:
        """Let the next bindings to this node fail, as a busy API server would."""
        self._failing_binds[node] = count

    # -- commands ----------------------------------------------------------------------

    def apply(self, command: want.Command) -> list[Event]:
        """Carry out a command. What did not come about is told; what is already so is left alone."""
        match command:
            case want.Bind():
                why = self._bind(command)
                return [] if why is None else [BindFailed(command.uid, why)]
            case want.Evict() | want.DeletePod():
                pod = self.pod(command.uid)
                if pod is not None:
                    self._ask_to_go(pod)
            case want.SetGroupStatus():
                self._set_group_status(command)
            case want.TellPod():
                if command.uid in self._pod_keys:
                    self.pod_reasons[command.uid] = command.reason
            case want.Publish():
                self._publish(ConfigMap(command.namespace, command.name, dict(command.data)))
            case want.CreateGroup():
                self._create_group(command.group)
            case want.DeleteGroup():
                self.delete("PodGroup", command.key)
            case want.CreatePod():
                self._create_pod(command)
            case want.SetJobStatus():
                self._set_job_status(command)
            case want.DeleteJob():
                self.delete("VcJob", command.key)
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
            return f"there is no node {command.node}"
        if self._failing_binds.get(command.node):
            self._failing_binds[command.node] -= 1
            return f"the binding to {command.node} was refused"
        rank = command.annotations.get(RANK_INDEX, "")
        bound = replace(
            pod,
            node=command.node,
            annotations={**pod.annotations, **command.annotations},
            holds=tuple(command.chips),
            rank=int(rank) if rank.isdigit() else pod.rank,
        )
        self.pod_reasons.pop(pod.uid, None)
        self._put_life(bound, Life(self.now))
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
        """Create the group, or bring it up to date with its job."""
        before = self.get(PodGroup, group.key)
        if not self._owner_lives(group.namespace, group.owner):
            return
        if before is None or merged(before, group, self.now, "") != before:
            self.submit(group)

    def _publish(self, published: ConfigMap) -> None:
        key = f"{published.namespace}/{published.name}"
        if self.table.get(PUBLISHED, key) != published:
            self.table.put(PUBLISHED, key, published)

    def _create_pod(self, command: want.CreatePod) -> None:
        if self.get(Pod, command.pod.key) is not None:
            return
        if not self._owner_lives(command.pod.namespace, command.pod.owner):
            return
        name = TableKey("Pod", command.pod.key)
        pod = replace(command.pod, uid=self._new_uid(name), created=self.now)
        if command.additions != want.PodAdditions():
            self.table.put(ADDITIONS, pod.uid, command.additions)
        self._pod_keys[pod.uid] = pod.key
        self._store(pod, 0)

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
        )
        if changed != job:
            self._store(changed)

    # -- time --------------------------------------------------------------------------

    def next_deadline(self) -> int | None:
        """When something happens by itself."""
        return self._timers.next()

    def advance(self, to: int) -> list[Event]:
        """Let time pass and return what happened in it."""
        watch = self.watch(self.table.version)
        self.pass_time(to)
        return events_of(watch.poll())

    def pass_time(self, to: int) -> None:
        """Let time pass; watchers see what happened in it."""
        if to < self.now:
            raise ValueError(f"time cannot go back from {self.now} to {to}")
        while (due := self.next_deadline()) is not None and due <= to:
            uid, step = self._timers.pop()
            self.now = max(self.now, due)
            pod = self.pod(uid)
            if pod is not None:
                self._step(pod, step)
        self.now = to

    def _step(self, pod: Pod, step: Step) -> None:
        match step:
            case Step.VANISH:
                self._vanish(pod)
            case Step.START:
                started = self.nodes.start(pod, self.now)
                life = self._life(pod)
                if life is not None and started.phase == "Running":
                    self._put_life(started, replace(life, started=self.now))
                self._put_pod(started)
            case Step.END:
                ended = self.nodes.end(pod, self.now, self.habits)
                self._put_pod(ended)

    def _plan(self, pod: Pod) -> None:
        """Set the pod's one timer. What is overdue happens now."""
        life = self._life(pod)
        coming = None
        if life is not None and pod.node is not None:
            node = self.nodes.get(pod.node)
            coming = next_step(pod, life, node is not None and node.ready, self.habits)
        if coming is not None and coming.at < self.now:
            coming = replace(coming, at=self.now)
        self._timers.set(pod.uid, coming)

    # -- pods --------------------------------------------------------------------------

    def _ask_to_go(self, pod: Pod) -> None:
        if pod.node is None or not pod.live:
            self._vanish(pod)
            return
        life = self._life(pod) or Life(self.now)
        if life.asked_to_go is None:
            self._put_life(pod, replace(life, asked_to_go=self.now))
        if not pod.deleting:
            self._put_pod(replace(pod, deleting=True))

    def _vanish(self, pod: Pod) -> None:
        self.table.remove("Pod", pod.key)
        self.table.remove(LIFE, pod.uid)
        self.table.remove(ADDITIONS, pod.uid)
        self._timers.set(pod.uid, None)
        self._owners.remove(pod)
        self._pod_keys.pop(pod.uid, None)
        self.pod_reasons.pop(pod.uid, None)
        self.nodes.release(pod, self.now)

    def _claim(self, pod: Pod) -> tuple[int, ...]:
        return self.nodes.claim(pod) if pod.live else ()

    def _put_pod(self, pod: Pod) -> None:
        if pod.phase in ENDED:
            self.nodes.release(pod, self.now)
        self._store(pod)
        self._plan(pod)

    def _pods_on(self, node: str) -> list[Pod]:
        return [pod for pod in self.all(Pod) if pod.node == node]

    def _lose_node(self, name: str) -> None:
        """Without its node a pod is nowhere: it goes with it."""
        for pod in self._pods_on(name):
            self._vanish(pod)
        self.nodes.remove(name)

    def _owner_lives(self, namespace: str, owner: Owner | None) -> bool:
        """What a job asks for after it was deleted would be collected at once, so it is not made."""
        if owner is None:
            return True
        job = self.get(VcJob, f"{namespace}/{owner.name}")
        return job is not None and job.uid == owner.uid

    def _orphans(self, job: VcJob) -> None:
        for kind, key in self._owners.of(job.uid):
            self.delete(kind, key)

    def _close_empty(self, name: str) -> None:
        queue = self.get(Queue, name)
        if queue is None or queue.state != "Closing":
            return
        if not any(group.queue == name for group in self.all(PodGroup)):
            self._store(replace(queue, state="Closed"))

    # -- storing -----------------------------------------------------------------------

    def _life(self, pod: Pod) -> Life | None:
        found = self.table.get(LIFE, pod.uid)
        return found if isinstance(found, Life) else None

    def _put_life(self, pod: Pod, life: Life) -> None:
        self.table.put(LIFE, pod.uid, life)

    def _store(self, value: Storable, expected: int | None = None) -> int:
        name = key_of(value)
        if isinstance(value, Pod):
            self._pod_keys[value.uid] = value.key
        version = self.table.put(name.kind, name.key, value, expected)
        if isinstance(value, (Pod, PodGroup)):
            self._owners.add(value)
        if isinstance(value, Pod) and value.node is not None and self._life(value) is None:
            # A pod that came with a node: its life begins when we first see it.
            self._put_life(value, Life(self.now, self.now if value.phase == "Running" else None))
            self._claim(value)
            self._plan(value)
        return version

    def _new_uid(self, name: TableKey) -> str:
        return str(uuid.uuid5(_UIDS, f"{name.kind}/{name.key}/{self.table.version}"))

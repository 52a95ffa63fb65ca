"""Objects in the table of the embedded cluster: their keys, what an update may change, owners and events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from ringwise.embed.objects import ObjectChange
from ringwise.manifests.kinds import STORED, event_of_deletion, event_of_object
from ringwise.messages.events import Event
from ringwise.messages.move_plan import PENDING, REJECTED, MovePlan
from ringwise.records import dataclass
from ringwise.state.job_rules import may_change_queue
from ringwise.state.model import Isolation, NodeReservation, Pod, PodGroup, Queue
from ringwise.state.vcjob import VcJob
from ringwise.state.volumes import PersistentVolume, PersistentVolumeClaim

Intent = TypeVar("Intent", Isolation, NodeReservation)

# Kinds of the table. Lab files contain these names.
TIMELINE = "Life"
PUBLISHED = "ConfigMap"
ADDITIONS = "PodAdditions"
CONTAINER = "PodContainer"


class ObjectRefusedError(Exception):
    """The object is not accepted."""


class AlreadyExistsError(ObjectRefusedError):
    """An object that is to be created exists."""


@dataclass(frozen=True, slots=True)
class ConfigMap:
    """A ConfigMap that the scheduler or the controller published."""

    namespace: str
    name: str
    data: Mapping[str, str]

    def __hash__(self) -> int:
        return hash((self.namespace, self.name))


class TableKey(NamedTuple):
    kind: str
    key: str


def key_of(value: object) -> TableKey:
    kind = STORED[type(value)]
    return TableKey(kind.name, kind.key_of(value))


def merged(before: object | None, value: object, now: int, uid: str) -> object:
    """What is stored when an object is submitted: a new one, or the existing one with its changes."""
    if before is None:
        return _new(value, now, uid)
    match value, before:
        case VcJob(), VcJob():
            return _changed_job(before, value)
        case Pod(), Pod():
            raise ObjectRefusedError(f"pod {value.key} already exists; delete it first")
        case PodGroup(), PodGroup():
            return replace(value, uid=before.uid, created=before.created, phase=before.phase)
        case Queue(), Queue():
            return replace(value, uid=before.uid, created=before.created, state=before.state)
        case PersistentVolume(), PersistentVolume():
            return replace(value, claim=value.claim or before.claim, phase=before.phase)
        case PersistentVolumeClaim(), PersistentVolumeClaim():
            return _changed_claim(before, value)
        case Isolation(), Isolation():
            return _next_generation(before, value)
        case NodeReservation(), NodeReservation():
            return _next_generation(before, value)
        case MovePlan(), MovePlan():
            return _changed_plan(before, value)
    return value


def _next_generation(before: Intent, value: Intent) -> Intent:
    made = replace(value, by=value.by or before.by, created=before.created, generation=before.generation)
    return made if made == before else replace(made, generation=before.generation + 1)


def _changed_plan(before: MovePlan, value: MovePlan) -> MovePlan:
    """Only its approval and its ttlSecondsAfterFinished may change."""
    if (before.job, before.room, before.moves) != (value.job, value.room, value.moves):
        raise ObjectRefusedError(f"MovePlan {value.id} exists: its moves are immutable; delete it first")
    if before.approval not in (PENDING, value.approval) and value.approval != REJECTED:
        raise ObjectRefusedError(f"MovePlan {value.id} is {before.approval}: it cannot be {value.approval}")
    same = (before.approval, before.ttl) == (value.approval, value.ttl)
    return replace(before, approval=value.approval, ttl=value.ttl, generation=before.generation + (not same))


def _new(value: object, now: int, uid: str) -> object:
    """A new object has a uid of its own, also when one of the same name was deleted before."""
    match value:
        case Pod():
            return replace(value, uid=uid, created=value.created or now)
        case VcJob():
            return replace(
                value,
                uid=uid,
                created=now,
                phase="",
                version=0,
                retry_count=0,
                since=0,
                reason="",
                message="",
                counts={},
            )
        case PersistentVolumeClaim() if not value.bound:
            return replace(value, uid=uid)
        case PodGroup() | Queue():
            return replace(value, uid=value.uid or uid, created=value.created or now)
        case Isolation():
            return replace(value, created=value.created or now, generation=1)
        case MovePlan():
            return replace(value, uid=uid, created=now, generation=1, state="", why="", finished=0)
        case NodeReservation():
            created = value.created or now
            return replace(value, created=created, start=value.start or created, generation=1)
        case _:
            return value


def _changed_job(before: VcJob, value: VcJob) -> VcJob:
    """Only replicas, minAvailable and the priority class may change; while the job waits, its queue, too."""
    shape = [(task.name, task.template, task.policies, task.depends_on) for task in before.tasks]
    if shape != [(task.name, task.template, task.policies, task.depends_on) for task in value.tasks]:
        raise ObjectRefusedError(
            f"job {value.key} already exists: only replicas and minAvailable of its tasks can be "
            "changed; delete it first to change others"
        )
    fixed = ["queue", "policies", "plugins", "max_retry", "ttl_seconds", "scheduler", "min_success"]
    if may_change_queue(before.phase, before.counts.get("Running", 0)):
        fixed.remove("queue")
    for field in fixed:
        if getattr(before, field) != getattr(value, field):
            raise ObjectRefusedError(
                f"job {value.key} already exists and its {field} is immutable; delete it first"
            )
    return replace(
        before,
        tasks=value.tasks,
        min_available=value.min_available,
        priority_class=value.priority_class,
        queue=value.queue,
        problems=value.problems,
    )


def _changed_claim(before: PersistentVolumeClaim, value: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """Only its size may change."""
    fixed = ("access_modes", "selector", "block") + (() if value.takes_default_class else ("storage_class",))
    for field in fixed:
        if getattr(before, field) != getattr(value, field):
            raise ObjectRefusedError(
                f"PersistentVolumeClaim {value.key} already exists: only resources of its spec can be changed"
            )
    return replace(before, requested=value.requested)


class OwnerIndex:
    """Pods and PodGroups by the uid of their owner, so that deleting a job needs no scan of all pods."""

    def __init__(self) -> None:
        self._owned: dict[str, dict[TableKey, None]] = {}

    def add(self, value: Pod | PodGroup) -> None:
        if value.owner is not None:
            self._owned.setdefault(value.owner.uid, {})[key_of(value)] = None

    def remove(self, value: Pod | PodGroup) -> None:
        if value.owner is not None and value.owner.uid in self._owned:
            owned = self._owned[value.owner.uid]
            owned.pop(key_of(value), None)
            if not owned:
                del self._owned[value.owner.uid]

    def of(self, uid: str) -> list[TableKey]:
        return list(self._owned.get(uid, ()))


def events_of(changes: Iterable[ObjectChange]) -> list[Event]:
    """The events of changes, in order. Objects that no decision depends on give none."""
    events = (
        event_of_deletion(change.object) if change.gone else event_of_object(change.object)
        for change in changes
    )
    return [event for event in events if event is not None]

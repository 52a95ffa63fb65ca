"""Status of PodGroups, jobs and queues, conditions of pods, and the events that go with them.

Three queues. Of the *status updates* one kind is urgent, because controllers wait for it: a PodGroup that
becomes Inqueue makes its controller create pods. All others, *conditions* and *events* give way to bindings
and to pods that are created. Events are limited in rate and have a queue of their own, so that conditions do
not wait behind them. In every queue a newer entry replaces an older one of the same object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

from ringwise.kube.watch.readers import Observed, ObservedGroup, ObservedHyperNode, ObservedQueue
from ringwise.kube.write.context import WriteContext
from ringwise.kube.write.event_recorder import EventRecorder, ObjectReference
from ringwise.kube.write.status_queue import MAX_STATUS_WAIT, Precedence, StatusQueue
from ringwise.kube.write.tenant_text import cut_text, reason_message
from ringwise.kubeclient.client import STRATEGIC_PATCH, Client, IgnoredStatus
from ringwise.kubeclient.clock import Clock
from ringwise.kubeclient.resources import HYPER_NODES, NAMESPACES, POD_GROUPS, PODS, QUEUES, VCJOBS, Resource
from ringwise.kubeclient.tasks import end
from ringwise.manifests.kinds import READABLE
from ringwise.manifests.text.quantities import rfc3339, written
from ringwise.messages import commands as cmd
from ringwise.messages.commands import SetQueueStatus
from ringwise.messages.event_reasons import EventReason
from ringwise.records import dataclass
from ringwise.scheduler.reasons import BIND_FAILED
from ringwise.state.model import EMPTY
from ringwise.wellknown import NAMESPACE_LIMITS, OPERATOR_GROUP

#: Reason of the condition if an error prevents the binding of a pod, as in kube-scheduler; autoscalers
#: add nodes only for pods that are Unschedulable.
SCHEDULER_ERROR = "SchedulerError"
_READY = "tasks in gang are ready to be scheduled"
#: Stands in the message of a condition between the reason and when the job is expected to start.
_START = ". Expected start: "

#: The condition of a HyperNode, and its reason if there is no problem.
_VALID = "Valid"
_NO_PROBLEM = "AllMembersFound"


#: Seconds between two writes of one queue. Jobs come in hundreds; only the sum is of interest.
WRITE_INTERVAL = 1.0
#: With many queues the interval is longer, so that not more than this many writes a second are made.
MAX_WRITES_PER_SECOND = 20.0
PHASES = ("Pending", "Inqueue", "Running", "Unknown", "Completed")


@dataclass(slots=True, eq=False)
class QueueStatusWriter:
    """The status of Queue objects, written about once per second and queue at most.

    Their state is not part of it: the controller and users write that.
    """

    client: Client
    updates: StatusQueue
    observed: Mapping[str, ObservedQueue]
    clock: Clock
    _waiting: dict[str, SetQueueStatus] = field(init=False, default_factory=dict)
    _task: asyncio.Task[None] | None = field(init=False, default=None)

    def put(self, command: SetQueueStatus) -> None:
        self._waiting[command.name] = command
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="status of queues")

    async def _run(self) -> None:
        """The first command is written at once; those that follow wait for the interval."""
        while self._waiting:
            commands, self._waiting = self._waiting, {}
            for command in commands.values():
                self.updates.put(f"Queue {command.name}", partial(self._write, command))
            await self.clock.sleep(max(WRITE_INTERVAL, len(commands) / MAX_WRITES_PER_SECOND))
        self._task = None

    async def _write(self, command: SetQueueStatus) -> None:
        observed = self.observed.get(command.name)
        # A queue without an object, such as `default` where it was not created, has no status to write.
        if observed is not None:
            body = {"status": queue_status(command, observed)}
            await self.client.patch(QUEUES, "", command.name, body, subresource="status")

    async def finish(self) -> None:
        if self._task is not None:
            await self._task

    async def stop(self) -> None:
        await end(self._task)


def queue_status(command: SetQueueStatus, observed: ObservedQueue) -> dict[str, Any]:
    # In a merge patch null removes a resource that is no longer allocated.
    allocated: dict[str, str | None] = dict.fromkeys(sorted(observed.allocated))
    allocated |= {name: written(name, amount) for name, amount in sorted(command.allocated.items())}
    status: dict[str, Any] = {phase.lower(): command.groups.get(phase, 0) for phase in PHASES}
    status["allocated"] = allocated
    return status


class StatusWriter:
    def __init__(
        self, context: WriteContext, observed: Observed, precedence: Precedence | None = None
    ) -> None:
        self._client, self._clock = context.client, context.clock
        self._observed = observed
        retrier = context.retrier()
        self._precedence = precedence or Precedence(context.clock)
        # The names of the queues are label values of metrics.
        self.updates = StatusQueue("status", context, retrier, 8, self._wait, requeue=True)
        self.conditions = StatusQueue("conditions", context, retrier, 4, self._wait)
        #: Pods that are being bound while an Unschedulable condition of them is being written.
        self._overtaken: set[str] = set()
        self.events = EventRecorder(context, retrier, self._precedence)
        self.queues = QueueStatusWriter(context.client, self.updates, observed.queues, context.clock)
        #: Groups whose status was written in this term: what was, and the uid of the group.
        self._written: dict[str, tuple[cmd.SetGroupStatus, str]] = {}
        #: Kinds whose CRD has no status subresource; their status is a part of the object.
        self._without_subresource: set[str] = set()

    # -- commands -------------------------------------------------------------------------

    def group(self, command: cmd.SetGroupStatus) -> None:
        namespace, _, name = command.key.partition("/")
        observed = self._observed.groups.get(command.key)
        if observed is not None and command.key not in self._written and _is_written(observed, command):
            # An earlier leader wrote it. From then on every command is written: an older one may be under
            # way.
            return
        uid = observed.uid if observed is not None else ""
        before, before_uid = self._written.get(command.key, (None, ""))
        self._written[command.key] = command, uid or before_uid
        if len(self._written) > 2 * len(self._observed.groups) + 1000:
            self._written = {key: one for key, one in self._written.items() if key in self._observed.groups}
        status = _group_status(command, self._clock.now())
        shown = observed.status.phase if observed is not None else ""
        self.updates.put(
            f"PodGroup {command.key}",
            lambda: self.write_status(POD_GROUPS, namespace, name, status),
            urgent=command.phase == "Inqueue" and shown != "Inqueue",
        )
        is_same_group = not uid or not before_uid or uid == before_uid
        if is_same_group and before is not None and replace(before, start=command.start) == command:
            # When it is expected to start is not an event.
            return
        if command.reason is not None:
            text = reason_message(command.reason, namespace)
            group = ObjectReference.to(POD_GROUPS, namespace, name, uid)
            self.events.record(group, EventReason.UNSCHEDULABLE, text, warning=True)
            owner = observed.owner if observed is not None else None
            if owner is not None and owner.kind == VCJOBS.kind:
                job = ObjectReference.to(VCJOBS, namespace, owner.name, owner.uid)
                message = f"PodGroup {namespace}:{owner.name} unschedulable, reason: {text}"
                self.events.record(job, EventReason.POD_GROUP_PENDING, message, warning=True)

    def pod(self, command: cmd.SetPodCondition) -> None:
        """A large gang gets a command with every pod that comes, so only what is written is formatted."""
        self._overtaken.discard(command.uid)
        self.conditions.put(command.uid, partial(self._write_reason, command, self._clock.now()))
        # Under the pod's uid: the event of its binding replaces this one.
        self.events.unschedulable(command)

    async def _write_reason(self, command: cmd.SetPodCondition, now: int) -> None:
        text = reason_message(command.reason, command.namespace)
        failed = command.reason.code == BIND_FAILED.code
        condition = {
            "status": "False",
            "reason": SCHEDULER_ERROR if failed else "Unschedulable",
            "message": text,
        }
        more: dict[str, str | None] = {}
        if command.nominated is not None:
            more["nominatedNodeName"] = command.nominated or None
        await self._write_condition(command.namespace, command.pod, command.uid, condition, now, more)

    def job(self, command: cmd.RecordJobEvent) -> None:
        """An event on the PodGroup, or on the pod of a job without one."""
        namespace, _, name = command.key.partition("/")
        observed = self._observed.groups.get(command.key)
        uid = command.pod or (observed.uid if observed is not None else "")
        regarding = ObjectReference.to(PODS if command.pod else POD_GROUPS, namespace, name, uid)
        self.events.record(regarding, command.reason, command.message, warning=command.warning)

    def hyper_node(self, command: cmd.SetHyperNodeStatus) -> None:
        """A good one gets no event."""
        observed = self._observed.hyper_nodes.get(command.name)
        if observed is None:
            return
        if hyper_node_status(command, observed, ""):
            key = f"HyperNode {command.name}"
            self.updates.put(key, partial(self._write_hyper_node, command, self._clock.now()))
        if not command.valid:
            about = ObjectReference.to(HYPER_NODES, "", command.name, observed.uid)
            self.events.record_once(about, EventReason.INVALID_HYPER_NODE, command.message)

    async def _write_hyper_node(self, command: cmd.SetHyperNodeStatus, now: int) -> None:
        observed = self._observed.hyper_nodes.get(command.name)
        # As it is now: it may be gone, or others may have written.
        status = {} if observed is None else hyper_node_status(command, observed, rfc3339(now))
        if status:
            await self._client.patch(HYPER_NODES, "", command.name, {"status": status}, subresource="status")

    def custom_resource(self, command: cmd.SetConditions) -> None:
        if merged_conditions(command, self._observed.conditions.get((command.kind, command.name)), ""):
            key = f"{command.kind} {command.name}"
            self.updates.put(key, partial(self._write_custom_resource, command, self._clock.now()))

    async def _write_custom_resource(self, command: cmd.SetConditions, now: int) -> None:
        observed = self._observed.conditions.get((command.kind, command.name))
        # As it is now: it may be gone, or an earlier leader wrote the same.
        if conditions := merged_conditions(command, observed, rfc3339(now)):
            body = {"status": {"conditions": conditions}}
            resource = Resource(*READABLE[OPERATOR_GROUP, command.kind].resource)
            await self._client.patch(resource, None, command.name, body, subresource="status")

    def namespace(self, command: cmd.SetNamespaceLimits) -> None:
        condition = {
            "type": NAMESPACE_LIMITS,
            "status": "True" if command.limits else "False",
            "reason": "Limited" if command.limits else "NotLimited",
            "message": command.limits,
            "lastTransitionTime": rfc3339(self._clock.now()),
        }
        self.updates.put(
            f"Namespace {command.namespace}",
            lambda: self._client.patch(
                NAMESPACES,
                None,
                command.namespace,
                {"status": {"conditions": [condition]}},
                subresource="status",
                content_type=STRATEGIC_PATCH,
            ),
        )

    def delete_finished(self, command: cmd.DeleteFinished) -> None:
        self.updates.put(f"{command.kind} {command.name} {command.uid}", partial(self._delete, command))

    async def _delete(self, command: cmd.DeleteFinished) -> None:
        resource = Resource(*READABLE[OPERATOR_GROUP, command.kind].resource)
        await self._client.delete(resource, None, command.name, uid=command.uid)

    async def _write_condition(
        self,
        namespace: str,
        name: str,
        uid: str,
        condition: Mapping[str, str | None],
        now: int,
        more: Mapping[str, str | None] = EMPTY,
    ) -> None:
        scheduled = {"type": "PodScheduled", **condition, "lastTransitionTime": rfc3339(now)}
        body = {"metadata": {"uid": uid}, "status": {"conditions": [scheduled], **more}}
        await self._client.patch(
            PODS, namespace, name, body, subresource="status", content_type=STRATEGIC_PATCH
        )

    def binding(self, binds: Iterable[cmd.Bind]) -> None:
        """These pods are about to be bound: an Unschedulable condition that still waits is obsolete."""
        if not self.conditions.is_idle:
            self._overtaken.update(bind.uid for bind in binds if self.conditions.discard(bind.uid))

    def bound(self, bind: cmd.Bind) -> None:
        """The API server has set PodScheduled to True with the binding.

        An Unschedulable condition that was being written meanwhile may have come after it. The next entry
        of a pod is written after the one before it, so that this one is the last.
        """
        self.events.scheduled(bind)
        if bind.uid in self._overtaken:
            self._overtaken.discard(bind.uid)
            condition = {"status": "True", "reason": None, "message": None}
            self.conditions.put(
                bind.uid,
                partial(
                    self._write_condition,
                    bind.namespace,
                    bind.pod,
                    bind.uid,
                    condition,
                    self._clock.now(),
                ),
            )

    # -- writing ------------------------------------------------------------------------------

    async def write_status(
        self, resource: Resource, namespace: str, name: str, status: Mapping[str, Any]
    ) -> None:
        """Through the status subresource; where the CRD has none, as a part of the object."""
        body = {"status": dict(status)}
        if resource.plural not in self._without_subresource:
            with IgnoredStatus(404):
                await self._client.patch(resource, namespace, name, body, subresource="status")
                return
        await self._client.patch(resource, namespace, name, body)
        # The object exists, so the 404 was about the subresource.
        self._without_subresource.add(resource.plural)

    async def _wait(self, since: float) -> None:
        await self._precedence.wait(since, MAX_STATUS_WAIT)

    async def wait_for_precedence(self) -> None:
        """Until bindings and creations of pods are done, but not for long."""
        await self._wait(self._clock.monotonic())

    async def finish(self) -> None:
        await self.queues.finish()
        for queue in (self.updates, self.conditions, self.events.queue):
            await queue.finish()

    async def stop(self) -> None:
        await self.queues.stop()
        for queue in (self.updates, self.conditions, self.events.queue):
            await queue.stop()


def _condition(command: cmd.SetGroupStatus) -> dict[str, str] | None:
    if command.reason is not None:
        text = reason_message(command.reason, command.key.partition("/")[0])
        if command.start:
            # Times only, and no names of other jobs: it has a fixed length.
            text = f"{text}{_START}{command.start}"
        return {
            "type": "Unschedulable",
            "status": "True",
            "reason": SCHEDULER_ERROR
            if command.reason.code == BIND_FAILED.code
            else command.reason.kind.stage.value,
            "message": text,
        }
    if command.phase in ("Running", "Completed"):
        return {"type": "Scheduled", "status": "True", "reason": _READY, "message": ""}
    return None


def _group_status(command: cmd.SetGroupStatus, now: int) -> dict[str, Any]:
    status: dict[str, Any] = {
        "phase": command.phase,
        "running": command.running,
        "succeeded": command.succeeded,
        "failed": command.failed,
    }
    condition = _condition(command)
    if condition is not None:
        timestamp = rfc3339(now)
        status["conditions"] = [{**condition, "lastTransitionTime": timestamp, "transitionID": f"{now:x}"}]
    return status


def _is_written(observed: ObservedGroup, command: cmd.SetGroupStatus) -> bool:
    """Whether the object has this status already."""
    status = observed.status
    counts = (status.running or 0, status.succeeded or 0, status.failed or 0)
    if status.phase != command.phase or counts != (command.running, command.succeeded, command.failed):
        return False
    condition = _condition(command)
    if condition is None:
        return True
    last = status.conditions[-1] if status.conditions else None
    if last is None:
        return False
    text = last.message or ""
    if not command.start:
        # What an earlier leader expected stands until this one has an estimate of its own.
        text = text.partition(_START)[0]
    return condition == {
        "type": last.type,
        "status": last.status,
        "reason": last.reason or "",
        "message": text,
    }


def hyper_node_status(
    command: cmd.SetHyperNodeStatus, observed: ObservedHyperNode, now: str
) -> dict[str, Any]:
    """What of the status has to be written. A HyperNode that never had a problem gets no condition.

    Volcano's controller writes the number, too. So a number that differs is written when what we know
    changes, and never because another writer changed it: two writers with different views would not end.
    """
    status: dict[str, Any] = {}
    if command.nodes is not None and (observed.nodes or 0) != command.nodes:
        status["nodeCount"] = command.nodes
    condition = {
        "type": _VALID,
        "status": "True" if command.valid else "False",
        "reason": command.reason or _NO_PROBLEM,
        "message": cut_text(command.message),
    }
    old = next((one for one in observed.conditions if one.get("type") == _VALID), EMPTY)
    is_wanted = bool(old) or bool(command.reason)
    if is_wanted and any(old.get(key, "") != value for key, value in condition.items()):
        others = [one for one in observed.conditions if one is not old]
        status["conditions"] = [*others, _dated(condition, old, now)]
    return status


def _dated(condition: dict[str, Any], old: Mapping[str, Any], now: str) -> dict[str, Any]:
    """A condition with the time since which it has its status."""
    since = old.get("lastTransitionTime") if old.get("status") == condition["status"] else None
    return {**condition, "lastTransitionTime": since or now}


def merged_conditions(
    command: cmd.SetConditions, observed: Sequence[Mapping[str, Any]] | None, now: str
) -> list[dict[str, Any]]:
    """Return the conditions to write; empty if they are as they should be, or the object does not exist."""
    if observed is None:
        return []
    before = {one.get("type"): one for one in observed}
    conditions: list[dict[str, Any]] = []
    for one in command.conditions:
        condition = {
            "type": one.type,
            "status": "True" if one.status else "False",
            "reason": one.reason,
            "message": cut_text(one.message),
            "observedGeneration": command.generation,
        }
        conditions.append(_dated(condition, before.get(one.type, {}), now))
    same = len(observed) == len(conditions) and all(
        all(before.get(one["type"], {}).get(key) == value for key, value in one.items()) for one in conditions
    )
    return [] if same else conditions

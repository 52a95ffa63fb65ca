"""Executes the commands of the core. Bindings have precedence; the rest is executed in order, job by job.

What is not urgent is written after the bindings: PodGroups of pods without an owner, counts of vcjobs, and
what `StatusWriter` writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, get_args

from ringwise.controller.job_record import COUNTED
from ringwise.kube.watch.job_templates import JobTemplates, TemplateStore
from ringwise.kube.write.binder import Binder
from ringwise.kube.write.context import WriteContext
from ringwise.kube.write.disruption_budgets import held_back, joined, pods_held_back
from ringwise.kube.write.event_recorder import ObjectReference
from ringwise.kube.write.job_commands import job_command
from ringwise.kube.write.job_resources import JobResources
from ringwise.kube.write.object_writers import ClaimWriter, HyperNodeWriter, ResetConfigs
from ringwise.kube.write.ordered_work import OrderedWork
from ringwise.kube.write.own_config_maps import OwnConfigMaps
from ringwise.kube.write.ownership import ExistingObject, Ownership, existing, not_yet_deleted
from ringwise.kube.write.pod_templates import render
from ringwise.kube.write.status import StatusWriter
from ringwise.kube.write.tenant_text import cut_text
from ringwise.kubeclient.client import STRATEGIC_PATCH, IgnoredStatus
from ringwise.kubeclient.resources import (
    CONFIG_MAPS,
    HYPER_NODES,
    JOB_COMMANDS,
    NODES,
    POD_GROUPS,
    PODS,
    QUEUES,
    VCJOBS,
    Resource,
)
from ringwise.kubeclient.retry import Action, GivenUpError, Retrier
from ringwise.log import Logger
from ringwise.manifests.config_maps.rejections import write_rejections
from ringwise.manifests.objects.network_topology import (
    TOPOLOGY_FIELDS,
    network_topology_body,
    sub_group_body,
)
from ringwise.manifests.text.quantities import rfc3339, written
from ringwise.messages import commands as cmd
from ringwise.messages.accounting import AccountCommand
from ringwise.messages.event_reasons import EventReason
from ringwise.messages.events import Event, EvictFailed, JobHeldUp
from ringwise.messages.ordinary_groups import BUILT_ANNOTATIONS, BUILT_LABELS
from ringwise.state.model import PodGroup, ordinary_group_name
from ringwise.wellknown import (
    CLOSED_BY_PARENT,
    GROUP_NAME,
    HOST_LISTS_SUFFIX,
    ORDINARY_GROUP_PREFIX,
    POD_STATUS,
    QUEUE_GATE,
    RECORD_CONFIG_MAPS,
    RESCHEDULING_CONFIG_MAP,
    RESTART_REFUSED,
    VOLCANO_SYSTEM,
)


def group_body(group: PodGroup) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "minMember": group.min_member,
        "minTaskMember": dict(group.min_task_member),
        "queue": group.queue,
        "minResources": {name: written(name, count) for name, count in group.min_resources.items()},
    }
    if group.priority_class:
        spec["priorityClassName"] = group.priority_class
    if group.topology is not None:
        spec["networkTopology"] = network_topology_body(group.topology)
    if group.sub_groups:
        spec["subGroupPolicy"] = [sub_group_body(policy) for policy in group.sub_groups]
    meta: dict[str, Any] = {
        "name": group.name,
        "namespace": group.namespace,
        "labels": dict(group.labels),
        "annotations": dict(group.annotations),
    }
    owner = group.owner
    if owner is not None:
        resource = Resource(owner.api or VCJOBS.version, owner.kind, "")
        reference = resource.reference(owner.name, owner.uid, controller=True)
        if owner.is_vcjob:
            # API servers that check owner references ask for a permission on each such kind.
            reference["blockOwnerDeletion"] = True
        meta["ownerReferences"] = [reference]
    return {"apiVersion": POD_GROUPS.version, "kind": POD_GROUPS.kind, "metadata": meta, "spec": spec}


_LOG = Logger()

#: The controller repeats creations and deletions that failed; more attempts here would only delay others.
_ATTEMPTS = 5
#: Creations and deletions of pods are left out while so many steps of their job wait: the controller requests
#: them every few seconds, for as long as the status of the job cannot be written.
_REPEATED, _MAX_STEPS = (cmd.CreatePod, cmd.DeletePod), 16
#: Writes of the record of F1, and the deletions that it has to precede.
_RESCHEDULING = f"{VOLCANO_SYSTEM}/{RESCHEDULING_CONFIG_MAP}"


class Creations:
    """Pods that are being created. Bindings follow them, so they come first, too."""

    def __init__(self) -> None:
        self._count = 0
        self.idle = asyncio.Event()
        self.idle.set()

    def __enter__(self) -> None:
        self._count += 1
        self.idle.clear()

    def __exit__(self, *_: object) -> None:
        self._count -= 1
        if not self._count:
            self.idle.set()


class Executor:
    def __init__(
        self,
        context: WriteContext,
        binder: Binder,
        status: StatusWriter,
        templates: TemplateStore,
        retrier: Retrier,
        report: Callable[[Event], object] = lambda event: None,
        on_contained: Callable[[cmd.SetAside], object] = lambda command: None,
        config_maps: OwnConfigMaps | None = None,
        creations: Creations | None = None,
        on_account: Callable[[AccountCommand], object] = lambda command: None,
        on_pod_created: Callable[[JobTemplates], object] = lambda job: None,
    ) -> None:
        """`report` gets what the core has to know about commands that failed."""
        self._creations = creations or Creations()
        #: The phase of each vcjob that was sent last.
        self._phases: dict[str, str] = {}
        self._on_contained = on_contained
        self._on_account = on_account
        self._on_pod_created = on_pod_created
        client = self._client = context.client
        self._binder = binder
        self._status = status
        self._templates = templates
        self._retrier = retrier
        self._config_maps = config_maps or OwnConfigMaps(client)
        self._report = report
        self._job_resources = JobResources(client, templates, retrier, self._report_foreign)
        self._reset_configs = ResetConfigs(client, retrier)
        self._claims = ClaimWriter(client, retrier, report)
        self._hyper_nodes = HyperNodeWriter(client)
        self._rows = self._table()
        self._ordered_work = OrderedWork(context.namespaces, status.wait_for_precedence)

    def execute(self, commands: Iterable[cmd.Command]) -> None:
        """Start all commands; called in the event loop."""
        binds: list[cmd.Bind] = []
        rest: list[cmd.Command] = []
        faulty: list[cmd.DeletePod] = []
        resets: list[cmd.SetResetConfig] = []
        making_room: dict[str, list[cmd.Evict]] = {}
        for command in commands:
            match command:
                case cmd.Bind():
                    binds.append(command)
                case cmd.DeletePod() if command.fault:
                    faulty.append(command)
                case cmd.SetResetConfig():
                    resets.append(command)
                case cmd.Evict() if command.by:
                    making_room.setdefault(command.by, []).append(command)
                case cmd.CreateGroup() if _is_of_lone_pod(command.group):
                    self._update(f"create PodGroup {command.group.key}", self._create_group, command.group)
                case cmd.AnnotatePod(uid) if command.annotations.get(GROUP_NAME) == ordinary_group_name(uid):
                    self._update(f"PodGroup of {command.uid}", self._patch_annotations, command)
                case _ if (row := self._rows[type(command)]).step == _AT_ONCE:
                    row.execute(command)
                case _:
                    rest.append(command)
        if binds:
            self._status.binding(binds)
            self._binder.submit(binds)
        if rest:
            self._in_order(rest)
        for key, evictions in making_room.items():
            # After the warnings of these pods, which are among the others.
            self._ordered_work.add(f"make room for {key}", [partial(self._make_room, evictions)])
        if resets:
            # Processes are notified before their pods are deleted.
            self._ordered_work.add(_RESCHEDULING, [partial(self._reset_configs.write, one) for one in resets])
        if faulty:
            # F1: the next leader must know what is deleted, so the record of it is written first.
            self._ordered_work.add(_RESCHEDULING, [partial(self._start_deletions, faulty)])

    async def _start_deletions(self, commands: Sequence[cmd.DeletePod]) -> None:
        groups: dict[str, list[cmd.DeletePod]] = {}
        for command in commands:
            if command.together:
                groups.setdefault(command.together, []).append(command)
            else:
                self._ordered_work.add(f"evict {command.uid}", [partial(self._execute, command)])
        for key, group in groups.items():
            self._ordered_work.add(f"evict job {key}", [partial(self._evict_together, group)])

    async def _evict_together(self, commands: Sequence[cmd.DeletePod]) -> None:
        """F4: all of them, or none."""
        labels = [one.labels for one in commands]
        why = joined(
            await self._problems(commands, partial(held_back, self._client, commands[0].namespace, labels))
        )
        for command in commands:
            if why:
                self._report(EvictFailed(command.uid, why))
            else:
                self._ordered_work.add(f"evict {command.uid}", [partial(self._evict_faulty, command)])

    async def _make_room(self, commands: Sequence[cmd.Evict]) -> None:
        """All that make room for one job, or none of them: a part would be in vain, and might break gangs."""
        problems = [""] * len(commands)
        for namespace in dict.fromkeys(one.namespace for one in commands) if len(commands) > 1 else ():
            there = [number for number, one in enumerate(commands) if one.namespace == namespace]
            evictions = [commands[number] for number in there]
            names = [one.pod for one in evictions]
            answers = await self._problems(evictions, partial(pods_held_back, self._client, namespace, names))
            for number, problem in zip(there, answers, strict=True):
                problems[number] = problem
        refused = any(problems)
        for command, why in zip(commands, problems, strict=True):
            if refused:
                self._report(EvictFailed(command.uid, why, in_vain=not why))
            else:
                self._ordered_work.add(f"evict {command.uid}", [partial(self._evict, command)])

    async def _problems(
        self, commands: Sequence[cmd.Command], ask: Callable[[], Awaitable[list[str]]]
    ) -> list[str]:
        """Of each pod: which disruption budgets do not allow its eviction with the others."""
        try:
            return await self._retrier.run(ask, _ATTEMPTS)
        except GivenUpError as error:
            return [f"disruption budgets cannot be read: {error}"] * len(commands)

    def _record_pod_event(
        self, pod: cmd.PodCommand, reason: EventReason, message: str, *, warning: bool = True
    ) -> None:
        about = ObjectReference.to(PODS, pod.namespace, pod.pod, pod.uid)
        self._status.events.record(about, reason, message, warning=warning)

    async def _evict_faulty(self, command: cmd.DeletePod) -> None:
        self._record_pod_event(command, EventReason.RESCHEDULED, f"Pod is evicted: {command.why}")
        await self._evict_pod(command)

    async def _evict(self, command: cmd.Evict) -> None:
        message = f"Pod is evicted, because of {command.why}"
        self._record_pod_event(command, EventReason.EVICT, message, warning=False)
        await self._evict_pod(command)

    async def _evict_pod(self, pod: cmd.PodCommand) -> None:
        try:
            await self._delete(partial(self._client.evict, pod.namespace, pod.pod, pod.uid))
        except GivenUpError as error:
            # The core would not repeat it: to the core the pod is already terminating.
            self._report(EvictFailed(pod.uid, str(error)))
            raise

    def _in_order(self, commands: list[cmd.Command]) -> None:
        """Commands of the controller come job by job: creations, then the status, then deletions.

        The status must be written before pods are deleted because of it, so the commands of one job form
        steps that are executed in order.
        """
        job, step, actions = "", "", list[Action]()
        for command in commands:
            row = self._rows[type(command)]
            next_job, next_step = row.queue(command) or job, row.step
            if (next_job, next_step) != (job, step) and actions:
                self._ordered_work.add(job, actions)
                actions = []
            job, step = next_job, next_step
            if isinstance(command, cmd.SetJobStatus):
                self._put_job_status(command)
            elif not isinstance(command, _REPEATED) or self._ordered_work.waiting(job) < _MAX_STEPS:
                actions.append(partial(self._execute, command))
        if actions:
            self._ordered_work.add(job, actions)

    def _put_job_status(self, command: cmd.SetJobStatus) -> None:
        """A phase is written at once and in its order; other counts of the same phase can wait."""
        repeated = self._phases.get(command.key) == command.phase
        if not repeated:
            if len(self._phases) > 2 * len(self._templates) + 1000:
                self._phases = {key: phase for key, phase in self._phases.items() if key in self._templates}
            self._phases[command.key] = command.phase
        action = partial(self._execute, command)
        self._ordered_work.add(command.key, [action], kind=f"status {command.phase}", patient=repeated)

    def _update(self, key: str, write: Callable[[Any], Awaitable[None]], what: Any) -> None:
        """Write what is not urgent, after the bindings."""
        self._status.updates.put(key, partial(write, what))

    def _table(self) -> dict[type[cmd.Command], _Row]:
        """Return how each command is executed."""
        retry, delete = self._retrier.run, self._delete
        return {
            **{kind: _Row(handler, step=_AT_ONCE) for kind, handler in self._written_at_once().items()},
            # Without a limit of attempts: pods are deleted only after it is written.
            cmd.SetJobStatus: _Row(
                lambda one: retry(partial(self._set_job_status, one)), lambda one: one.key, "status"
            ),
            cmd.CreatePod: _Row(self._create_pod, lambda one: one.job),
            cmd.CreateGroup: _Row(lambda one: self._put_group(one.group), _queue_of_new_group),
            cmd.DeletePod: _Row(self._delete_pod, step="delete"),
            cmd.AnnotatePod: _Row(self._annotate, _queue_of_pod),
            # Without a limit of attempts: the pod waits for it, and it is requested once.
            cmd.RemoveQueueGate: _Row(lambda one: retry(partial(self._remove_gate, one)), _queue_of_pod),
            cmd.DeleteGroup: _Row(
                lambda one: delete(partial(self._delete_group, one.key)), _queue_of_old_group, "delete"
            ),
            cmd.DeleteJob: _Row(lambda one: self._delete_job(one.key), lambda one: one.key, "delete"),
            cmd.AskJob: _Row(lambda one: delete(partial(self._ask_job, one)), lambda one: f"ask {one.key}"),
            cmd.UpdateQueue: _Row(self._update_queue, lambda one: f"queue {one.name}"),
            cmd.PutHyperNode: _Row(
                lambda one: delete(partial(self._hyper_nodes.put, one.hyper_node)),
                lambda one: f"HyperNode {one.hyper_node.name}",
            ),
            cmd.DeleteHyperNode: _Row(
                lambda one: delete(partial(self._hyper_nodes.delete, one.name)),
                lambda one: f"HyperNode {one.name}",
            ),
            cmd.Evict: _Row(self._evict, _queue_of_pod),
            cmd.Publish: _Row(self._publish, _queue_of_config_map),
            cmd.SelectNode: _Row(self._claims.select_node, _queue_of_claim),
            cmd.BindVolume: _Row(self._claims.bind_volume, _queue_of_claim),
        }

    def _written_at_once(self) -> dict[type[cmd.Command], Callable[[Any], object]]:
        status = self._status

        def annotate(command: cmd.AnnotateGroup) -> None:
            self._update(f"annotations of PodGroup {command.key}", self._annotate_group, command)

        return {
            cmd.SetGroupStatus: status.group,
            cmd.AnnotateGroup: annotate,
            cmd.SetPodCondition: status.pod,
            cmd.RecordJobEvent: status.job,
            cmd.SetQueueStatus: status.queues.put,
            cmd.SetHyperNodeStatus: status.hyper_node,
            cmd.SetConditions: status.custom_resource,
            cmd.SetNamespaceLimits: status.namespace,
            cmd.DeleteFinished: status.delete_finished,
            cmd.SetAside: self._on_contained,
            cmd.RecordVcJobEvent: self._record_job_event,
            cmd.RecordQueueEvent: self._record_queue_event,
            cmd.RecordHyperNodeEvent: self._record_node_event,
            cmd.RecordNodeEvent: self._record_node_event,
            cmd.CreateJobResources: self._job_resources.want,
            **dict.fromkeys(get_args(AccountCommand), self._on_account),
        }

    async def _execute(self, command: cmd.Command) -> None:
        await self._rows[type(command)].execute(command)

    async def _ask_job(self, command: cmd.AskJob) -> None:
        """Its name is the same each time: one that was not handled yet is not made twice."""
        namespace, _, job = command.key.partition("/")
        name = f"{job[:200]}-{command.action.lower()}-{command.uid[:8] or 'any'}"
        body = job_command(namespace, job, command.uid, command.action, command.message, name)
        await self._client.create_if_missing(JOB_COMMANDS, namespace, body)

    # -- queues ----------------------------------------------------------------------------

    async def _update_queue(self, command: cmd.UpdateQueue) -> None:
        try:
            await self._delete(partial(self._write_queue, command))
        except GivenUpError as error:
            # The Command that asked for it is deleted: without this nothing would tell the user.
            wanted = f"The state {command.state}" if command.state else "The queue"
            message = f"{wanted} could not be written and is tried again: {error}"
            about = ObjectReference.to(QUEUES, "", command.name, command.uid)
            self._status.events.record(about, EventReason.QUEUE_ERROR, message, warning=True)
            raise

    async def _write_queue(self, command: cmd.UpdateQueue) -> None:
        """The mark first: a queue that is closed without it would not be opened with the queue above."""
        body: dict[str, Any] = {}
        if command.closed_by_parent is not None:
            mark = "true" if command.closed_by_parent else "false"
            body["metadata"] = {"annotations": {CLOSED_BY_PARENT: mark}}
        if command.parent:
            body["spec"] = {"parent": command.parent}
        if body:
            await self._client.patch(QUEUES, "", command.name, body)
        if command.state:
            await self._status.write_status(QUEUES, "", command.name, {"state": command.state})

    def _record_queue_event(self, command: cmd.RecordQueueEvent) -> None:
        about = ObjectReference.to(QUEUES, "", command.name, command.uid)
        if (refused := command.refused) is not None:
            about = ObjectReference.to(JOB_COMMANDS, refused.namespace, refused.command, refused.uid)
            origin = f"{refused.namespace}/{refused.command}"
            _LOG.warning("Command rejected", command=origin, queue=refused.name, action=refused.action)
        self._status.events.record(about, command.reason, command.message, warning=command.warning)

    def _record_node_event(self, command: cmd.RecordNodeEvent | cmd.RecordHyperNodeEvent) -> None:
        is_node = isinstance(command, cmd.RecordNodeEvent)
        _LOG.warning("node" if is_node else "HyperNodes", object=command.name, why=command.message)
        # Events of nodes have the name as the UID: `kubectl describe node` looks for it.
        uid = command.name if is_node else ""
        about = ObjectReference.to(NODES if is_node else HYPER_NODES, "", command.name, uid)
        self._status.events.record(about, command.reason, command.message, warning=command.warning)

    # -- pods ------------------------------------------------------------------------------

    async def _create_pod(self, command: cmd.CreatePod) -> None:
        templates = self._templates.get(command.job)
        if templates is None:
            # The job was deleted meanwhile; its pod would be an orphan.
            return
        what = ""
        try:
            with self._creations:
                await self._job_resources.ensure(command.job, command.pod.namespace, _ATTEMPTS)
                what = f"pod {command.pod.name}: "
                create = partial(self._send_rendered, command, templates)
                if await self._retrier.run(create, _ATTEMPTS) is not None:
                    self._on_pod_created(templates)
        except GivenUpError as error:
            self._hold_up(command.job, templates, f"{what}{error}")
            raise

    def _hold_up(self, key: str, templates: JobTemplates, why: str) -> None:
        """Report that an object of the job could not be written; the controller requests it again."""
        self._report(JobHeldUp(key, templates.uid, cut_text(why)))
        job = ObjectReference.to(VCJOBS, key.partition("/")[0], templates.name, templates.uid)
        self._status.events.record(job, EventReason.FAILED_CREATE, why, warning=True)

    async def _send_rendered(self, command: cmd.CreatePod, templates: JobTemplates) -> bytes | None:
        """Rendered when it is sent: many pods of a large job can wait for it."""
        try:
            rendered = render(command, templates)
        except (AttributeError, TypeError) as problem:
            # The API server does not validate the templates of vcjobs.
            task = command.pod.task
            raise GivenUpError(f"the template of task {task} cannot be used: {problem}") from None
        return await self._client.create_if_missing(PODS, command.pod.namespace, rendered)

    async def _delete_pod(self, command: cmd.DeletePod) -> None:
        target = PODS, command.namespace, command.pod
        delete = partial(self._client.delete, *target, uid=command.uid, grace=command.grace)
        if not command.fault:
            await self._delete(delete)
            return
        how = " by force" if command.grace == 0 else ""
        self._record_pod_event(command, EventReason.RESCHEDULED, f"Pod is deleted{how}: {command.why}")
        try:
            await self._delete(delete)
        except GivenUpError:
            self._report(EvictFailed(command.uid))
            raise

    async def _annotate(self, command: cmd.AnnotatePod) -> None:
        try:
            await self._delete(partial(self._patch_annotations, command))
        except GivenUpError:
            if not {POD_STATUS, RESTART_REFUSED}.isdisjoint((*command.annotations, *command.remove)):
                # The core repeats it, as a deletion.
                self._report(EvictFailed(command.uid))
            raise

    async def _patch_annotations(self, command: cmd.AnnotatePod) -> None:
        """With the uid: the API server refuses it for a pod that was recreated meanwhile."""
        why = {name: cut_text(text) for name, text in command.annotations.items() if name == RESTART_REFUSED}
        annotations = {**dict.fromkeys(command.remove), **command.annotations, **why}
        body = {"metadata": {"uid": command.uid, "annotations": annotations}}
        await self._client.patch(PODS, command.namespace, command.pod, body)

    async def _remove_gate(self, command: cmd.RemoveQueueGate) -> None:
        gate = {"$patch": "delete", "name": QUEUE_GATE}
        body = {"metadata": {"uid": command.uid}, "spec": {"schedulingGates": [gate]}}
        await self._client.patch(PODS, command.namespace, command.pod, body, content_type=STRATEGIC_PATCH)

    async def _delete(self, action: Action) -> None:
        """An object that is gone, or was replaced by another of the same name, needs no deletion."""
        try:
            await self._retrier.run(action, _ATTEMPTS)
        except GivenUpError as error:
            if error.status not in (404, 409):
                raise

    # -- jobs and groups ---------------------------------------------------------------------

    async def _annotate_group(self, command: cmd.AnnotateGroup) -> None:
        namespace, _, name = command.key.partition("/")
        body = {"metadata": {"annotations": dict(command.annotations)}}
        with IgnoredStatus(404):
            await self._client.patch(POD_GROUPS, namespace, name, body)

    async def _put_group(self, group: PodGroup) -> None:
        try:
            await self._retrier.run(partial(self._create_group, group), _ATTEMPTS)
        except GivenUpError as error:
            owner = group.owner
            templates = self._templates.get(f"{group.namespace}/{owner.name}") if owner is not None else None
            if templates is not None and owner is not None and owner.uid == templates.uid:
                job = ObjectReference.to(VCJOBS, group.namespace, templates.name, templates.uid)
                message = f"PodGroup {group.name}: {error}"
                self._status.events.record(job, EventReason.POD_GROUP_ERROR, message, warning=True)
                self._report(JobHeldUp(f"{group.namespace}/{owner.name}", owner.uid, cut_text(message)))
            raise

    async def _create_group(self, group: PodGroup) -> None:
        body = group_body(group)
        if await self._client.create_if_missing(POD_GROUPS, group.namespace, body) is None:
            await self._update_group(group, body["spec"])

    async def _update_group(self, group: PodGroup, spec: dict[str, Any]) -> None:
        current = await existing(self._client, POD_GROUPS, group.namespace, group.name)
        owner = group.owner
        if group.ordinary:
            if owner is not None and current.is_owned_by(owner.uid):
                # Null removes what is no longer wanted; what others wrote stays.
                if group.topology is not None:
                    spec["networkTopology"] = {**dict.fromkeys(TOPOLOGY_FIELDS), **spec["networkTopology"]}
                more = {
                    "labels": {**dict.fromkeys(BUILT_LABELS), **group.labels},
                    "annotations": {**dict.fromkeys(BUILT_ANNOTATIONS), **group.annotations},
                }
                await self._patch_group(group, current, spec, more)
            return
        # As Volcano does: the topology of a job is written when its PodGroup is created, and left alone then.
        spec = {name: value for name, value in spec.items() if name != "networkTopology"}
        relation = current.ownership(owner.name, owner.uid) if owner is not None else Ownership.FOREIGN
        if relation is Ownership.EARLIER_JOB:
            raise not_yet_deleted(POD_GROUPS.kind, group.name)
        if relation is Ownership.FOREIGN:
            if owner is not None:
                job = f"{group.namespace}/{owner.name}"
                self._job_resources.report_foreign(job, group.namespace, POD_GROUPS, group.name)
            return
        await self._patch_group(group, current, spec, {})

    async def _patch_group(
        self, group: PodGroup, current: ExistingObject, spec: dict[str, Any], more: dict[str, Any]
    ) -> None:
        # With the version that was checked: the owner cannot change in between.
        meta = {"labels": dict(group.labels), "resourceVersion": current.metadata.resource_version, **more}
        await self._client.patch(POD_GROUPS, group.namespace, group.name, {"metadata": meta, "spec": spec})

    async def _delete_group(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        current = await self._client.get(POD_GROUPS, namespace, name, ExistingObject)
        if not current.is_owned_by_named_owner(name):
            _LOG.warning("PodGroup is not owned by its job and is not deleted", group=key)
            return
        await self._client.delete(POD_GROUPS, namespace, name, uid=current.metadata.uid or "")

    def _report_foreign(self, templates: JobTemplates, namespace: str, message: str) -> None:
        job = ObjectReference.to(VCJOBS, namespace, templates.name, templates.uid)
        self._status.events.record_once(job, EventReason.FOREIGN_OBJECT, message)

    def _record_job_event(self, command: cmd.RecordVcJobEvent) -> None:
        templates = self._templates.get(command.key)
        if templates is not None:
            namespace, _, name = command.key.partition("/")
            job = ObjectReference.to(VCJOBS, namespace, name, templates.uid)
            key = f"{command.reason} {command.key} {command.message}"
            self._status.events.record(job, command.reason, command.message, key=key, warning=command.warning)

    async def _set_job_status(self, command: cmd.SetJobStatus) -> None:
        namespace, _, name = command.key.partition("/")
        # A job that is gone: its pods are deleted with it.
        with IgnoredStatus(404):
            await self._status.write_status(VCJOBS, namespace, name, job_status(command))

    async def _delete_job(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        templates = self._templates.get(key)
        uid = templates.uid if templates is not None else ""
        await self._delete(
            partial(self._client.delete, VCJOBS, namespace, name, uid=uid, propagation="Foreground")
        )

    async def _publish(self, command: cmd.Publish) -> None:
        job = _job_of_config_map(command)
        if not job:
            write = partial(self._config_maps.write, command.namespace, command.name, command.data)
            # F1, F5: without a limit of attempts: pods are deleted only after the record is written.
            attempts = None if command.name in RECORD_CONFIG_MAPS else _ATTEMPTS
            await self._retrier.run(write, attempts)
            return
        publish = partial(self._job_resources.publish, job, command.namespace, command.name, command.data)
        try:
            await self._retrier.run(publish, _ATTEMPTS)
        except GivenUpError as error:
            if error.status != 409:
                if templates := self._templates.get(job):
                    self._hold_up(job, templates, f"{CONFIG_MAPS.kind} {command.name}: {error}")
                raise
            self._job_resources.report_foreign(job, command.namespace, CONFIG_MAPS, command.name)

    async def finish(self) -> None:
        """Wait until everything that was started has ended."""
        await self._binder.idle.wait()
        await self._ordered_work.finish()
        await self._status.finish()

    async def stop(self) -> None:
        await asyncio.gather(self._binder.stop(), self._ordered_work.stop(), self._status.stop())


def _queue_of_config_map(command: cmd.Publish) -> str:
    if command.name in RECORD_CONFIG_MAPS:
        # Deletions come after all objects of the record.
        return _RESCHEDULING
    return _job_of_config_map(command) or f"{command.namespace}/{command.name}"


def _job_of_config_map(command: cmd.Publish) -> str:
    """Key of the vcjob whose host lists it contains; empty for a ConfigMap of the scheduler itself."""
    job = command.name.removesuffix(HOST_LISTS_SUFFIX)
    return f"{command.namespace}/{job}" if job != command.name else ""


def _is_of_lone_pod(group: PodGroup) -> bool:
    """Its pod is scheduled with or without it: it says nothing that the pod does not."""
    lone = group.owner is not None and group.owner.kind == PODS.kind
    return group.ordinary and lone and group.topology is None


#: The step of commands that are handed on when they come, and not executed in order.
_AT_ONCE = "at once"


class _Row(NamedTuple):
    """How a command is executed: by what, in which queue, and in which step of its job."""

    #: Returns something to await, unless the step is `_AT_ONCE`.
    execute: Callable[[Any], Any]
    #: Empty: that of the command before it, which is about the same job.
    queue: Callable[[Any], str] = lambda command: ""
    step: str = "create"


def _queue_of_pod(command: cmd.Evict | cmd.AnnotatePod | cmd.RemoveQueueGate) -> str:
    return f"evict {command.uid}"


def _queue_of_claim(command: cmd.SelectNode | cmd.BindVolume) -> str:
    return f"claim {command.namespace}/{command.claim}"


def _queue_of_new_group(command: cmd.CreateGroup) -> str:
    group = command.group
    if group.ordinary:
        return f"group {group.key}"
    return "" if group.owner is None else f"{group.namespace}/{group.owner.name}"


def _queue_of_old_group(command: cmd.DeleteGroup) -> str:
    is_ordinary = command.key.partition("/")[2].startswith(ORDINARY_GROUP_PREFIX)
    return f"group {command.key}" if is_ordinary else ""


def job_status(command: cmd.SetJobStatus) -> dict[str, Any]:
    state = {
        "phase": command.phase,
        "reason": command.reason,
        "message": cut_text(command.message),
        # With nanoseconds: a controller that restarts must read the exact time it wrote.
        "lastTransitionTime": rfc3339(command.since, exact=True),
    }
    tasks = {
        task: {"phase": {phase: counts.get(phase) or None for phase in COUNTED}} if counts else None
        for task, counts in command.tasks.items()
    }
    return {
        "state": state,
        **{phase.lower(): command.counts.get(phase, 0) for phase in COUNTED},
        "retryCount": command.retries,
        "version": command.version,
        "taskStatusCount": tasks,
        "minAvailable": command.min_available,
        "conditions": [
            {"status": phase, "lastTransitionTime": rfc3339(began, exact=True)}
            for phase, began in command.conditions
        ],
        "controlledResources": {**command.controlled, **write_rejections(command.rejections)},
    }

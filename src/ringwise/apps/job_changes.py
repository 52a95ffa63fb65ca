"""Suspend, resume and requeue on a cluster, with the rights of the user.

A vcjob is asked for it with a Command, which its controller carries out: Volcano's or ours. Jobs of
Kubernetes and AscendJobs have a field `suspend` of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ringwise.apps.lab.requests import JobRequest
from ringwise.apps.suspension import (
    REQUEUE,
    RESUME,
    SUSPEND,
    SUSPENDABLE,
    JobChangeRequest,
    NotPossibleError,
    PlannedChange,
    change_of,
    check_priority,
    check_queue,
    done_word,
    job_change_document,
    message_of,
    not_suspendable,
)
from ringwise.durations import SECOND
from ringwise.kube.watch.readers import JobReader
from ringwise.kube.write.job_commands import job_command
from ringwise.kubeclient.client import PAGE_SIZE, ApiError, Client, IgnoredStatus, run
from ringwise.kubeclient.clock import Clock, RealClock
from ringwise.kubeclient.config import Access
from ringwise.kubeclient.list_watch import NamedObject, page_reader
from ringwise.kubeclient.resources import (
    ASCEND_JOBS,
    DEPLOYMENTS,
    JOB_COMMANDS,
    KUBERNETES_JOBS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    STATEFUL_SETS,
    VCJOBS,
    Resource,
)
from ringwise.manifests.objects.pods import PodClassCache
from ringwise.manifests.text.errors import Findings
from ringwise.state.model import DEFAULT_QUEUE
from ringwise.state.vcjob import SUSPENDED, VcJob
from ringwise.topology.nearest import did_you_mean
from ringwise.views.documents.changes import JobChangeDocument

Object = dict[str, Any]
_NAMED = page_reader(NamedObject)
#: Seconds between two checks of whether a request was carried out.
_PAUSE = 0.25
#: How a kind is called, and its fix where it has no `suspend`.
_WORDS = {VCJOBS: "vcjob", KUBERNETES_JOBS: "Job", ASCEND_JOBS: "AscendJob"}
_WITHOUT = {
    DEPLOYMENTS: "to give its chips back: kubectl scale deployment -n {namespace} {name} --replicas=0",
    STATEFUL_SETS: "to give its chips back: kubectl scale statefulset -n {namespace} {name} --replicas=0",
    PODS: "to give its chips back: kubectl delete pod -n {namespace} {name}",
}


def change_job(access: Access, action: str, request: JobRequest) -> JobChangeDocument:
    """Raises NotPossibleError, ApiError and UnreachableError.

    Without a namespace it is that of the kubeconfig's context, or with `all_namespaces` the one with the job.
    """
    name, namespace = request.job, request.namespace

    async def change(client: Client) -> JobChangeDocument:
        where, _, bare = name.rpartition("/")
        if where and namespace and where != namespace:
            raise NotPossibleError(
                f"{name} has namespace {where}, but -n is {namespace}: they cannot be combined"
            )
        where = where or namespace or ""
        if request.all_namespaces and not where:
            where = await namespace_with(client, bare)
        changes = JobChanges(client, where or access.namespace, bare, request.timeout / SECOND)
        wanted = JobChangeRequest(action, request.queue, request.priority)
        return await changes.carry_out(wanted, message_of(request.by, request.reason))

    return run(access, change)


async def namespace_with(client: Client, name: str) -> str:
    """The namespace that has a job of this name. Raises NotPossibleError where it is not one."""
    names: dict[str, None] = {}
    for resource in _WORDS:
        with IgnoredStatus(404):
            async for page in client.pages(
                resource.path(), {"fieldSelector": f"metadata.name={name}"}, PAGE_SIZE, _NAMED
            ):
                metas = [one.metadata for one in page.items or ()]
                names |= dict.fromkeys(meta.namespace or "" for meta in metas if meta and meta.name == name)
    if len(names) != 1:
        several = f"{len(names)} namespaces have a job {name}; use one of {', '.join(sorted(names)[:5])}"
        raise NotPossibleError(several if names else f'job "{name}" not found in any namespace')
    return next(iter(names))


class JobChanges:
    """One request for a change of one job."""

    def __init__(
        self, client: Client, namespace: str, name: str, timeout: float, clock: Clock | None = None
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._timeout = timeout
        self._clock = clock or RealClock()

    @property
    def _key(self) -> str:
        return f"{self._namespace}/{self._name}"

    async def carry_out(self, request: JobChangeRequest, message: str) -> JobChangeDocument:
        entry = await self._find()
        if entry is None:
            raise await self._not_found()
        resource, manifest = entry
        await self._check(request)
        if resource == VCJOBS:
            change = await self._vcjob(self._read(manifest), request, message)
        else:
            change = await self._other(resource, manifest, request)
        return job_change_document(self._namespace, self._name, _WORDS[resource], request.action, change)

    # -- what is asked for -----------------------------------------------------------------------

    async def _find(self) -> tuple[Resource, Object] | None:
        objects: list[tuple[Resource, Object]] = []
        refused: list[ApiError] = []
        for resource in _WORDS:
            try:
                with IgnoredStatus(404):
                    objects.append((resource, await self._get(resource)))
            except ApiError as error:
                if error.status != 403:
                    raise
                refused.append(error)
        if len(objects) > 1:
            kinds = " and ".join(f"{one.kind.lower()}s.{one.group}" for one, _ in objects)
            raise NotPossibleError(f"{self._key} matches several jobs ({kinds}): delete one of them")
        if not objects and refused:
            raise refused[0]
        return objects[0] if objects else None

    async def _get(self, resource: Resource) -> Object:
        return await self._client.get(resource, self._namespace, self._name, dict[str, Any])

    async def _not_found(self) -> NotPossibleError:
        for resource, fix in _WITHOUT.items():
            with IgnoredStatus(403, 404):
                await self._get(resource)
                fix = fix.format(namespace=self._namespace, name=self._name)
                return not_suspendable(resource.kind, self._key, fix)
        near = did_you_mean(self._name, await self._names(VCJOBS, self._namespace))
        return NotPossibleError(
            f'job "{self._name}" not found in namespace {self._namespace} among {SUSPENDABLE}; use '
            f"-n for another namespace{near}"
        )

    async def _names(self, resource: Resource, namespace: str | None = None) -> list[str]:
        """Names of objects of a kind, to tell which there are: one page, as far as the user may list them."""
        with IgnoredStatus(403, 404):
            async for page in self._client.pages(resource.path(namespace), {}, PAGE_SIZE, _NAMED):
                return [one.metadata.name or "" for one in page.items or () if one.metadata is not None]
        return []

    async def _check(self, request: JobChangeRequest) -> None:
        """Where the user may not read queues or priority classes, the API server has the word."""
        # The queue `default` exists without an object, too.
        if request.queue is not None and request.queue != DEFAULT_QUEUE:
            queue = await self._named(QUEUES, request.queue)
            if queue is not None:
                names = [request.queue] if queue else await self._names(QUEUES)
                check_queue(request.queue, names, str((queue.get("status") or {}).get("state") or ""), 0)
        if request.priority is not None and await self._named(PRIORITY_CLASSES, request.priority) == {}:
            check_priority(request.priority, await self._names(PRIORITY_CLASSES))

    async def _named(self, resource: Resource, name: str) -> Object | None:
        """An object that a request names, empty where there is none; None: the user may not read it."""
        with IgnoredStatus(403):
            return await self._client.find(resource, None, name, dict[str, Any]) or {}
        return None

    # -- vcjobs ----------------------------------------------------------------------------------

    def _read(self, manifest: Object) -> VcJob:
        issues = Findings(f"vcjob {self._key}")
        read = JobReader(PodClassCache(), {}).read(msgspec.Raw(msgspec.json.encode(manifest)), issues)
        for _, job in read or ():
            if isinstance(job, VcJob):
                return job
        raise NotPossibleError(f"vcjob {self._key} cannot be read: {'; '.join(map(str, issues.errors[:1]))}")

    async def _vcjob(self, job: VcJob, request: JobChangeRequest, message: str) -> PlannedChange:
        change = change_of(job, request)
        if change.spec:
            await self._client.patch(VCJOBS, self._namespace, self._name, {"spec": change.spec})
        if not change.command:
            return change
        command = await self._ask(job, change.command, message)
        await self._taken(command)
        suspended = request.action == SUSPEND

        def done(now: VcJob) -> bool:
            return now.version != job.version or (now.phase in SUSPENDED) == suspended != job.suspended

        now = await self._until(lambda now: done(self._read(now)), VCJOBS)
        if now is None:
            raise NotPossibleError(
                f"the controller accepted the Command {change.command}, and vcjob {self._key} did not change "
                f"within {self._timeout:g}s: kubectl describe vcjob -n {self._namespace} {self._name} shows "
                "its events"
            )
        return change

    async def _ask(self, job: VcJob, action: str, message: str) -> Object:
        body = job_command(self._namespace, job.name, job.uid, action, message)
        answer = await self._client.create(JOB_COMMANDS, self._namespace, body)
        return dict(msgspec.json.decode(answer))

    async def _taken(self, command: Object) -> None:
        """The controller deletes a Command before carrying it out. One that it leaves is deleted here."""
        name, uid = str(command["metadata"]["name"]), str(command["metadata"].get("uid") or "")
        end = self._clock.monotonic() + self._timeout
        while True:
            waiting = None
            # Who may not read it sees by the job what became of it.
            with IgnoredStatus(403):
                waiting = await self._client.find(JOB_COMMANDS, self._namespace, name, msgspec.Raw)
            if waiting is None:
                return
            if self._clock.monotonic() >= end:
                break
            await self._clock.sleep(_PAUSE)
        note = ""
        try:
            if not await self._client.delete(JOB_COMMANDS, self._namespace, name, uid=uid):
                return
        except ApiError as error:
            note = f"; it is still there, because it could not be deleted: {error}"
        raise NotPossibleError(
            f"no vcjob controller accepted the Command {name} within {self._timeout:g}s: nothing "
            "was changed; is Volcano's controller running, or `ringwise run controller`, or `ringwise run "
            f"scheduler` with its controller?{note}"
        )

    async def _until(self, done: Callable[[Object], bool], resource: Resource) -> Object | None:
        end = self._clock.monotonic() + self._timeout
        while True:
            now = await self._get(resource)
            if done(now):
                return now
            if self._clock.monotonic() >= end:
                return None
            await self._clock.sleep(_PAUSE)

    # -- jobs with a field of their own ------------------------------------------------------------

    async def _other(self, resource: Resource, manifest: Object, request: JobChangeRequest) -> PlannedChange:
        word = f"{_WORDS[resource]} {self._key}"
        if request.queue is not None or request.priority is not None:
            raise NotPossibleError(
                f"queue and priority of {word} are part of its pod template, which is immutable: "
                "delete the job and submit it again (only a vcjob can be changed)"
            )
        if (manifest.get("metadata") or {}).get("deletionTimestamp"):
            raise NotPossibleError(f"{word} is being deleted")
        ended = _ended(manifest)
        if ended:
            raise NotPossibleError(
                f"{word} is {ended}: a finished job cannot be {done_word(request)}; submit it again"
            )
        suspended = bool(_run_policy(resource, manifest).get("suspend"))
        if request.action == SUSPEND:
            if suspended:
                raise NotPossibleError(
                    f"{word} is already suspended; to resume it: ringwise resume {self._key}"
                )
            await self._set_suspend(resource, True)
            return PlannedChange(text=f"{word} suspended; its chips are released")
        if request.action == RESUME:
            if not suspended:
                raise NotPossibleError(f"{word} is not suspended")
            await self._set_suspend(resource, False)
            return PlannedChange(text=f"{word} resumed; it is pending")
        assert request.action == REQUEUE
        if suspended:
            raise NotPossibleError(f"{word} is suspended; to queue it again: ringwise resume {self._key}")
        if resource != KUBERNETES_JOBS:
            raise NotPossibleError(
                f"{word} cannot be requeued in one step: ringwise suspend {self._key}, and when its pods are "
                f"gone ringwise resume {self._key}"
            )
        await self._set_suspend(resource, True)
        gone = await self._until(lambda now: not (now.get("status") or {}).get("active"), resource)
        if gone is None:
            raise NotPossibleError(
                f"{word} is suspended, but its pods have not terminated after {self._timeout:g}s: it stays "
                f"suspended; then: ringwise resume {self._key}"
            )
        await self._set_suspend(resource, False)
        return PlannedChange(text=f"{word} requeued: it starts over")

    async def _set_suspend(self, resource: Resource, value: bool) -> None:
        spec: Mapping[str, Any] = {"suspend": value}
        if resource == ASCEND_JOBS:
            spec = {"runPolicy": spec}
        await self._client.patch(resource, self._namespace, self._name, {"spec": spec})


def _run_policy(resource: Resource, manifest: Object) -> Object:
    spec = manifest.get("spec") or {}
    return dict((spec.get("runPolicy") or {}) if resource == ASCEND_JOBS else spec)


def _ended(manifest: Object) -> str:
    """The condition by which it is over; empty: it is not."""
    for one in (manifest.get("status") or {}).get("conditions") or ():
        if one.get("type") in ("Complete", "Failed", "Succeeded") and one.get("status") == "True":
            return str(one["type"])
    return ""

"""Changes of a cluster with the rights of the user, by the requests that a lab takes, too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from ringwise.apps.job_changes import change_job
from ringwise.apps.lab.requests import (
    DeleteRequest,
    IsolateRequest,
    MoveRequest,
    NodeRequest,
    ReserveRequest,
    UnreserveRequest,
)
from ringwise.apps.lab.submission import Submission
from ringwise.apps.live import read_cluster
from ringwise.apps.loading import from_bundle
from ringwise.apps.reservations import unknown_reservation
from ringwise.apps.suspension import ACTIONS
from ringwise.apps.targets import (
    UnknownTargetError,
    find_target,
    isolation_answer,
    isolation_of,
    moment,
    named,
)
from ringwise.kubeclient.client import (
    API_ERRORS,
    JSON_PATCH,
    MAX_CONFLICTS,
    PAGE_SIZE,
    ApiError,
    Client,
    IgnoredStatus,
    run,
)
from ringwise.kubeclient.clock import Clock, RealClock
from ringwise.kubeclient.config import Access
from ringwise.kubeclient.list_watch import NamedObject, page_reader
from ringwise.kubeclient.resources import NODES, Resource
from ringwise.manifests.objects.custom_resources import CustomResourceWire, without_nulls
from ringwise.manifests.objects.isolations import (
    isolate_changes,
    isolation_body,
    isolation_from_wire,
    unisolate_changes,
)
from ringwise.manifests.objects.move_plans import move_plan_body, move_plan_from_wire
from ringwise.manifests.objects.node_reservations import node_reservation_body
from ringwise.manifests.objects.usage_limits import usage_limit_body
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.manifests.text.errors import Findings
from ringwise.messages.move_plan import MovePlan
from ringwise.scheduler.explain.reserving import NotReservableError
from ringwise.state.limits import UsageLimit
from ringwise.state.model import Isolation, NodeReservation
from ringwise.views.changes import cordon_change, reservation_change
from ringwise.views.documents.changes import (
    DeletedFields,
    DeleteDocument,
    NodeChangeDocument,
    SubmitDocument,
    SubmittedFields,
)
from ringwise.views.documents.reservations import ReservationChangeDocument
from ringwise.views.names import UnknownNameError
from ringwise.views.reservations import reservation_of_fields
from ringwise.wellknown import ISOLATIONS, MOVE_PLANS, NODE_RESERVATIONS, USAGE_LIMITS, ApiResource

_RESERVATIONS = Resource(*NODE_RESERVATIONS)
_MOVE_PLANS = Resource(*MOVE_PLANS)
_ISOLATIONS = Resource(*ISOLATIONS)


def _cordon(access: Access, action: str, request: NodeRequest) -> NodeChangeDocument:
    """Mark a node as unschedulable or schedulable, as kubectl does. Raises UnknownTargetError."""
    node, on = request.node, action == "cordon"

    async def change(client: Client) -> bool:
        # A user who may not list nodes may still be allowed to patch them.
        with IgnoredStatus(403):
            if bool((await _find_node(client, node)).spec.unschedulable) == on:
                return False
        body = {"spec": {"unschedulable": on or None}}
        with IgnoredStatus(404):
            await client.patch(NODES, None, node, body)
            return True
        raise UnknownTargetError(f'node "{node}" not found')

    changed, isolations = run(access, change), list[Isolation]()
    # They are for a note only: the node is uncordoned, whether or not they can be read.
    if action == "uncordon":
        with suppress(UnknownTargetError, *API_ERRORS):
            isolations = _read_isolations(access)
    return cordon_change(node, action, isolations, changed=changed)


def _isolate(access: Access, action: str, request: IsolateRequest) -> dict[str, Any]:
    now = time.time_ns()
    start = None if request.at is None else moment(request.at, now)
    wanted = isolation_of(*named(request.target), *request.chips, reason=request.reason, start=start)
    changed = isolate(access, wanted, on=action == "isolate")
    return isolation_answer(wanted, changed, now, _read_isolations(access) if action == "unisolate" else ())


def _reserve(access: Access, action: str, request: ReserveRequest) -> ReservationChangeDocument:
    fields = request.reservation
    body = without_nulls(node_reservation_body(reservation_of_fields(fields)))
    with _requires(_RESERVATIONS, NotReservableError):
        created = run(access, lambda client: client.create_if_missing(_RESERVATIONS, None, body))
    if created is None:
        raise NotReservableError(f"reservation {fields['name']} already exists")
    return reservation_change(action, fields["name"], fields)


def _unreserve(access: Access, action: str, request: UnreserveRequest) -> ReservationChangeDocument:
    name = request.name
    if not run(access, lambda client: client.delete(_RESERVATIONS, None, name)):
        raise unknown_reservation(name, ())
    return reservation_change(action, name)


def _move(access: Access, _action: str, request: MoveRequest) -> None:
    """Raises UnknownTargetError."""
    with _requires(_MOVE_PLANS, UnknownTargetError):
        run(access, lambda client: client.create(_MOVE_PLANS, None, request.plan))


# -- nodes and isolations ------------------------------------------------------------------------------


def isolate(access: Access, wanted: Isolation, *, on: bool) -> bool:
    """Take something out of use, or back into use; False if it was so already."""

    async def change(client: Client) -> bool:
        if on:
            await (_find_node(client, wanted.node) if wanted.node else _check_group(client, wanted.target))
        changed = await _change_isolations(client, wanted, on=on)
        if not on and not changed and wanted.node:
            # A name that was mistyped is an error; a node that does not exist can be unisolated all the same.
            await _find_node(client, wanted.node)
        return changed

    return run(access, change)


class _NodeSpec(msgspec.Struct):
    unschedulable: bool | None = False


class _Node(msgspec.Struct):
    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)


async def _change_isolations(client: Client, wanted: Isolation, *, on: bool) -> bool:
    """If another client writes meanwhile, the Isolations are read and changed again."""
    conflicts = 0
    while True:
        existing = await _isolations(client)
        isolations = [one for one, _ in existing.values()]
        changes = isolate_changes(isolations, wanted) if on else unisolate_changes(isolations, wanted)
        try:
            for name, one in changes.items():
                if one is None:
                    await client.delete(_ISOLATIONS, None, name)
                elif name not in existing:
                    await client.create(_ISOLATIONS, None, without_nulls(isolation_body(one)))
                else:
                    body = {**isolation_body(one), "metadata": {"resourceVersion": existing[name][1]}}
                    await client.patch(_ISOLATIONS, None, name, body)
            return bool(changes)
        except ApiError as error:
            conflicts += 1
            if error.status != 409 or conflicts == MAX_CONFLICTS:
                raise


def _read_isolations(access: Access) -> list[Isolation]:
    return [one for one, _ in run(access, _isolations).values()]


async def _isolations(client: Client) -> dict[str, tuple[Isolation, str]]:
    """Each with its version, by name. One that cannot be read is left alone."""
    result: dict[str, tuple[Isolation, str]] = {}
    with _requires(_ISOLATIONS, UnknownTargetError):
        async for page in client.pages(_ISOLATIONS.path(), {}, PAGE_SIZE, page_reader(CustomResourceWire)):
            for wire in page.items or ():
                findings = Findings(ISOLATIONS.kind)
                one = isolation_from_wire(wire, findings)
                if not findings.errors:
                    result[one.name] = one, wire.metadata.resource_version or ""
    return result


@contextmanager
def _requires(resource: Resource, error: type[Exception]) -> Iterator[None]:
    """Raise the error if the API server does not serve a kind."""
    with IgnoredStatus(404):
        yield
        return
    raise error(f"the API server does not serve {resource.kind}s; install the Helm chart")


async def _check_group(client: Client, target: str) -> None:
    """A leaf switch or a SuperPoD is known from the objects of the cluster."""
    live = await read_cluster(client)
    loaded = from_bundle(live.bundle, live.configuration, shipped_catalog(), decide=False)
    find_target(loaded.view, target)


async def _find_node(client: Client, node: str) -> _Node:
    """By a list: readers of the cluster may list nodes, and need no other verb for this."""
    # A node name has none of these characters, which have a meaning in a selector.
    if not any(sign in node for sign in ",=!\\"):
        selected = {"fieldSelector": f"metadata.name={node}"}
        async for page in client.pages(NODES.path(), selected, 1, page_reader(_Node)):
            for found in page.items or ():
                return found
    raise UnknownTargetError(f'node "{node}" not found')


# -- custom resources ------------------------------------------------------------------------------


class NotInClusterError(ValueError):
    """Only a lab stores or deletes it; the message names the command of kubectl."""


def _submit(access: Access, _action: str, request: Submission) -> SubmitDocument:
    """Create or change custom resources. Each is tried before the first is written: all are, or none."""
    objects = list(request.objects())
    strange = [type(one).__name__ for one in objects if type(one) not in _BODIES]
    if strange or request.configuration or request.job_commands or request.queue_commands:
        kinds = ", ".join(resource.kind for resource, _ in _BODIES.values())
        raise NotInClusterError(f"only {kinds} can be submitted to a cluster; others: kubectl create -f FILE")

    async def write(client: Client) -> list[SubmittedFields]:
        rows = [await _put(client, one, dry_run=True, create=request.create) for one in objects]
        if not request.dry_run:
            rows = [await _put(client, one, create=request.create) for one in objects]
        return rows

    rows = run(access, write)
    return SubmitDocument(dry_run=request.dry_run, objects=rows, jobs=[])


async def _put(client: Client, one: Any, *, dry_run: bool = False, create: bool) -> SubmittedFields:
    resource, body_of = _BODIES[type(one)]
    body = without_nulls(body_of(one))
    name = body["metadata"]["name"]
    params = {"dryRun": "All"} if dry_run else {}
    try:
        await client.request("POST", resource.path(None), params=params, body=msgspec.json.encode(body))
        done = "created"
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        if create:
            hint = "to change it: kubectl ringwise apply -f FILE"
            raise ApiError(
                error.status, error.reason, f"{resource.kind} {name} already exists; {hint}"
            ) from None
        # A merge would keep the entries of a map that the object no longer has.
        changed = msgspec.json.encode([{"op": "add", "path": "/spec", "value": body["spec"]}])
        path = resource.path(None, name)
        await client.request("PATCH", path, params=params, body=changed, content_type=JSON_PATCH)
        done = "changed"
    return SubmittedFields(kind=resource.kind, name=name, action=done)


def _delete(access: Access, _action: str, request: DeleteRequest) -> DeleteDocument:
    """Delete custom resources: all that are named, or none if one does not exist."""
    by_name = {name: Resource(*resource) for name, (_, resource, _) in _KINDS.items()}
    kinds = dict.fromkeys([*(kind for kind, _ in request.objects), *([request.all] if request.all else ())])
    if strange := [kind for kind in kinds if kind not in by_name]:
        allowed = ", ".join(by_name)
        raise NotInClusterError(f"only {allowed} can be deleted in a cluster; {strange[0]}: kubectl delete")

    async def change(client: Client) -> list[DeletedFields]:
        names = {kind: await _names(client, by_name[kind]) for kind in kinds}
        unknown = [f"there is no {kind} {name}" for kind, name in request.objects if name not in names[kind]]
        if unknown and not request.ignore_not_found:
            raise UnknownNameError("\n".join(unknown))
        chosen = [(kind, name) for kind, name in request.objects if name in names[kind]]
        if request.all is not None:
            chosen += [(request.all, name) for name in names[request.all]]
        return [
            DeletedFields(kind=kind, name=name)
            for kind, name in dict.fromkeys(chosen)
            if request.dry_run or await client.delete(by_name[kind], None, name)
        ]

    return DeleteDocument(deleted=run(access, change))


async def _names(client: Client, resource: Resource) -> list[str]:
    pages = [page async for page in client.pages(resource.path(), {}, PAGE_SIZE, page_reader(NamedObject))]
    items = [one.metadata for page in pages for one in page.items or ()]
    return [one.name for one in items if one is not None and one.name]


#: By the name that commands have for it: the kind, and the body of an object.
_KINDS: Mapping[str, tuple[type, ApiResource, Callable[[Any], dict[str, Any]]]] = {
    "reservation": (NodeReservation, NODE_RESERVATIONS, node_reservation_body),
    "isolation": (Isolation, ISOLATIONS, isolation_body),
    "usagelimit": (UsageLimit, USAGE_LIMITS, usage_limit_body),
    "moveplan": (MovePlan, MOVE_PLANS, move_plan_body),
}
_BODIES = {kind: (Resource(*resource), body) for kind, resource, body in _KINDS.values()}


#: By action, as in the table of requests.
CHANGES: Mapping[str, Callable[[Access, str, Any], Any]] = {
    **dict.fromkeys(("cordon", "uncordon"), _cordon),
    **dict.fromkeys(("isolate", "unisolate"), _isolate),
    "reserve": _reserve,
    "unreserve": _unreserve,
    "move": _move,
    **dict.fromkeys(ACTIONS, change_job),
    "submit": _submit,
    "delete": _delete,
}


#: Seconds between two looks at a plan, and how long a scheduler may take to accept it.
POLL_SECONDS, ACCEPT_SECONDS = 2.0, 120.0
NOT_TAKEN = "no scheduler has taken the plan: does one of this version run?"


class NotFollowedError(Exception):
    """The end of a plan is not known; one line."""


def follow(access: Access, name: str, report: Callable[[str], object] = lambda line: None) -> MovePlan:
    """Return a plan that has finished. Raises NotFollowedError and ApiError."""
    return run(access, lambda client: follow_plan(client, name, report=report))


async def follow_plan(
    client: Client,
    name: str,
    *,
    clock: Clock | None = None,
    report: Callable[[str], object] = lambda line: None,
) -> MovePlan:
    clock = clock or RealClock()
    began = clock.monotonic()
    while True:
        wire = await client.find(Resource(*MOVE_PLANS), None, name, CustomResourceWire)
        if wire is None:
            raise NotFollowedError(f"MovePlan {name} was deleted")
        plan = move_plan_from_wire(wire, Findings(MOVE_PLANS.kind))
        if plan.finished:
            return plan
        if not plan.state and clock.monotonic() - began > ACCEPT_SECONDS:
            raise NotFollowedError(NOT_TAKEN)
        report(plan.why or "waiting for the scheduler")
        await clock.sleep(POLL_SECONDS)

"""Reserving nodes for a queue or a namespace: from what a person writes to an object."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from ringwise.apps.targets import find_target, is_time_of_day, moment, span_of
from ringwise.durations import SECOND, time_text
from ringwise.grammar import listed, quoted
from ringwise.manifests.objects.custom_resources import CustomResourceWire
from ringwise.manifests.objects.node_reservations import (
    MAX_NAME,
    MAX_SPAN,
    node_reservation_body,
    node_reservation_from_wire,
)
from ringwise.manifests.text.errors import Findings
from ringwise.records import dataclass
from ringwise.scheduler.core.node_reservations import MAX_NODES, MAX_RESERVATIONS
from ringwise.scheduler.explain.reserving import NotReservableError, nodes_free_soonest, overlap
from ringwise.state.model import NodeReservation
from ringwise.topology.natural import natural_key
from ringwise.topology.nearest import did_you_mean
from ringwise.topology.numbers import whole_number
from ringwise.views.cluster import ClusterObjects

#: Reservations that are named where another one is asked for.
_NAMED = 8
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class ReservationRequest:
    """What a person asks for, as it was typed."""

    #: Nodes, leaf switches and SuperPoDs, or one number of nodes.
    targets: tuple[str, ...]
    holder: str
    start: str
    end: str
    name: str = ""
    board: str = ""
    reason: str = ""


def reservation_of(objects: ClusterObjects, request: ReservationRequest, now: int) -> NodeReservation:
    """The reservation that a request describes. Raises NotReservableError, UnknownTargetError."""
    option = "start"
    try:
        start = now - now % SECOND if request.start == "now" else moment(request.start, now)
        option = "end"
        after_start = request.end.startswith("+") or is_time_of_day(request.end)
        end = moment(request.end, start if after_start else now)
    except ValueError as problem:
        raise NotReservableError(f"{option}: {problem}") from None
    if end <= start:
        length = f"; +{request.end} is that long after it" if span_of(request.end) is not None else ""
        raise NotReservableError(f"the end {time_text(end)} is before the start {time_text(start)}{length}")
    if start > now + MAX_SPAN:
        raise NotReservableError(f"{time_text(start)} is more than a year ahead")
    queue, namespace = holder_of(objects, request.holder)
    name = request.name or _name_for(objects, queue or namespace, start)
    current = [one for one in objects.view.cluster.node_reservations.entries if one.end > now]
    nodes = _nodes(objects, request, start, end, now)
    made = NodeReservation(name, nodes, start, end, queue, namespace, reason=request.reason, created=now)
    check_new(made, current)
    return made


def check_new(one: NodeReservation, others: Sequence[NodeReservation]) -> None:
    """Raises NotReservableError if it cannot be added to the existing ones."""
    issues = Findings("")
    node_reservation_from_wire(msgspec.convert(node_reservation_body(one), CustomResourceWire), issues)
    problem = str(issues.errors[0]) if issues.errors else overlap(one, others)
    if not problem and len(others) >= MAX_RESERVATIONS:
        problem = f"there are {MAX_RESERVATIONS} reservations already"
    if not problem and sum(len(other.nodes) for other in others) + len(one.nodes) > MAX_NODES:
        problem = f"all reservations together have at most {MAX_NODES} nodes"
    if problem:
        raise NotReservableError(problem)


def holder_of(objects: ClusterObjects, text: str) -> tuple[str, str]:
    """Queue and namespace, one of them empty. Raises NotReservableError."""
    kind, sign, name = text.partition("=")
    queues = {queue.name for queue in objects.queues} | {"default"}
    if sign and kind == "queue":
        if name not in queues:
            raise NotReservableError(f'queue "{name}" not found{did_you_mean(name, sorted(queues))}')
        return name, ""
    if sign and kind == "namespace":
        if len(name) > MAX_NAME or not _LABEL.fullmatch(name):
            raise NotReservableError(f"invalid namespace name {quoted(name)}")
        return "", name
    if sign:
        raise NotReservableError(
            f"{quoted(text)} is neither a queue nor a namespace: expected queue=NAME or namespace=NAME"
        )
    namespaces = {pod.namespace for pod in objects.pods} | {job.namespace for job in objects.vcjobs}
    namespaces |= {group.namespace for group in objects.pod_groups}
    if text in queues and text in namespaces:
        raise NotReservableError(
            f"{text} is both a queue and a namespace: use queue={text} or namespace={text}"
        )
    if text in queues:
        return text, ""
    if text in namespaces:
        return "", text
    near = did_you_mean(text, sorted(queues | namespaces))
    raise NotReservableError(
        f'queue "{text}" not found, and namespace "{text}" has no jobs; use namespace={text} for '
        f"a namespace without jobs{near}"
    )


def _nodes(
    objects: ClusterObjects, request: ReservationRequest, start: int, end: int, now: int
) -> tuple[str, ...]:
    count = whole_number(request.targets[0]) if len(request.targets) == 1 else None
    if count is not None:
        if count < 1:
            raise NotReservableError("at least 1 node can be reserved")
        return nodes_free_soonest(objects.view, now, start, end, count, request.board)
    if request.board:
        raise NotReservableError("--board requires a number of nodes")
    nodes = {node for target in request.targets for node in find_target(objects.view, target).nodes}
    return tuple(sorted(nodes, key=natural_key))


def _name_for(objects: ClusterObjects, holder: str, start: int) -> str:
    """One that says for whom and when; the first that is free."""
    taken = {one.name for one in objects.view.cluster.node_reservations.entries}
    when = re.sub(r"[^0-9T]", "", time_text(start))[:13].replace("T", "-").lower()
    stem = f"{holder[: MAX_NAME - 20]}-{when}"
    name, number = stem, 2
    while name in taken:
        name, number = f"{stem}-{number}", number + 1
    return name


def unknown_reservation(name: str, names: Sequence[str]) -> NotReservableError:
    """Names those that there are, as far as they can be read at once."""
    there = f"must be one of {listed(names, _NAMED)}" if names else "there are no reservations"
    return NotReservableError(f'reservation "{name}" not found; {there}{did_you_mean(name, names)}')

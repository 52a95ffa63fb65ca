"""Nodes that are reserved for queues and namespaces: the ConfigMap `ringwise-reservations`.

A data key is the name of a reservation, its value the nodes, for whom, from when and to when. An entry that
cannot be read, or that says too much, does not count; the others do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.quantities import NotReadableError, nanoseconds, rfc3339
from ringwise.state.model import NodeReservation, NodeReservations
from ringwise.topology.natural import natural_key
from ringwise.versions import RECORD_VERSION, entry_problem

#: Whoever may write the ConfigMap writes no more than this; its size is at most 1 MiB in any case.
MAX_RESERVATIONS = 1_000
#: Of all reservations together.
MAX_NODES = 50_000
MAX_NAME = 63
#: What lasts longer is a mistake, or a label of the nodes.
MAX_DAYS = 366
MAX_SPAN = MAX_DAYS * 86_400 * 1_000_000_000
NAME = re.compile(r"[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?")


class _Version(msgspec.Struct, omit_defaults=True):
    version: int = 0


class _Entry(_Version, omit_defaults=True):
    nodes: list[str] = msgspec.field(default_factory=list)
    start: str = msgspec.field(default="", name="from")
    end: str = msgspec.field(default="", name="to")
    queue: str = ""
    namespace: str = ""
    by: str = ""
    at: str = ""


def reservation_entry(one: NodeReservation) -> tuple[str, str]:
    """Key and value of an entry."""
    times = rfc3339(one.start), rfc3339(one.end)
    entry = _Entry(RECORD_VERSION, list(one.nodes), *times, one.queue, one.namespace, one.by, one.at)
    return one.name, msgspec.json.encode(entry).decode()


def node_reservations_from_data(data: Mapping[str, str | None], found: Findings) -> NodeReservations:
    kept: list[NodeReservation] = []
    problems: list[str] = []
    nodes = 0
    for name, value in sorted(data.items(), key=lambda item: natural_key(item[0])):
        one = _reservation(name, value or "")
        if isinstance(one, NodeReservation):
            if len(kept) >= MAX_RESERVATIONS or nodes + len(one.nodes) > MAX_NODES:
                one = f"more than {MAX_RESERVATIONS} reservations, or than {MAX_NODES} nodes in them"
            else:
                kept.append(one)
                nodes += len(one.nodes)
                continue
        found.add_error(f"data.{name[:MAX_NAME]}", one)
        problems.append(f"{name[:MAX_NAME]}: {one}")
    return NodeReservations(tuple(kept), tuple(problems))


def problem_of(one: NodeReservation) -> str:
    """What is wrong with it; empty: nothing."""
    if len(one.name) > MAX_NAME or not NAME.fullmatch(one.name):
        return f"the name must have letters, digits and -._ between them, at most {MAX_NAME}"
    if not one.nodes:
        return "it names no nodes"
    if len(set(one.nodes)) < len(one.nodes):
        return "it names a node twice"
    if bool(one.queue) == bool(one.namespace):
        return "it must be for a queue or for a namespace"
    if one.end <= one.start:
        return "it ends before it begins"
    if one.end - one.start > MAX_SPAN:
        return f"it lasts longer than {MAX_DAYS} days"
    return ""


def _reservation(name: str, value: str) -> NodeReservation | str:
    """What it says, or what is wrong with it."""
    try:
        # Before the rest, which another version may have changed.
        if problem := entry_problem(msgspec.json.decode(value, type=_Version).version):
            return problem
        entry = msgspec.json.decode(value, type=_Entry)
        start, end = nanoseconds(entry.start), nanoseconds(entry.end)
    except NotReadableError:
        return "from and to must be times like 2026-01-31T08:00:00Z"
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        return str(problem).replace("`", "")[:200]
    one = NodeReservation(
        name,
        tuple(entry.nodes),
        start,
        end,
        entry.queue,
        entry.namespace,
        entry.by[:MAX_NAME],
        entry.at[:MAX_NAME],
    )
    return problem_of(one) or one

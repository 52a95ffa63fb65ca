"""What a lab shows of itself, as documents: nodes, queues, pods, and the whole at a glance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ringwise.apps.lab.jobs import JobView, job_views, pod_phase
from ringwise.apps.lab.lab import LiveLab
from ringwise.embed.clock import VirtualClock
from ringwise.framework.ranks import ranks_of
from ringwise.scheduler.explain.capacity import boards_present
from ringwise.state.fleet import HOSTS
from ringwise.state.model import Node, Pod, Queue
from ringwise.topology.board import Board
from ringwise.topology.chips import chips_of
from ringwise.topology.natural import natural_key
from ringwise.topology.nearest import did_you_mean
from ringwise.wellknown import ACCELERATOR_TYPE

KINDS = ("node", "job", "queue", "pod")


class UnknownNameError(LookupError):
    """No object, or more than one, has that name."""


def boards_by_node(live: LiveLab) -> dict[tuple[str, str], Board]:
    """(resource, accelerator-type) -> the board that jobs on such nodes get."""
    return {(resource, kind): board for resource, kind, board in boards_present(live.view)}


# -- nodes -------------------------------------------------------------------------------------


def node_documents(live: LiveLab) -> list[dict[str, Any]]:
    boards = boards_by_node(live)
    resolved = live.view.switches()
    pods: dict[str, int] = {}
    for pod in live.cluster.all(Pod):
        if pod.node is not None and pod.live:
            pods[pod.node] = pods.get(pod.node, 0) + 1
    return [
        {
            "name": node.name,
            "ready": node.ready,
            "cordoned": node.unschedulable,
            "address": node.internal_ip,
            "switch": None if resolved is None else resolved.switch_name(node.name),
            "superpod": node.superpod,
            "pods": pods.get(node.name, 0),
            "chips": [
                chips
                for resource in node.chips_capacity
                if (chips := _chips(live, node, resource, boards)) is not None
            ],
        }
        for node in sorted(live.cluster.all(Node), key=lambda node: natural_key(node.name))
    ]


def _chips(
    live: LiveLab, node: Node, resource: str, boards: dict[tuple[str, str], Board]
) -> dict[str, Any] | None:
    state = live.view.cluster
    fleet, number = state.fleets.get(resource), state.node_id.get(node.name)
    if fleet is None or number is None or resource == HOSTS or fleet.allocatable[number] < 0:
        return None
    board = boards.get((resource, node.labels.get(ACCELERATOR_TYPE, ""))) or boards.get((resource, ""))
    closed = fleet.closed[number]
    return {
        "resource": resource,
        "board": None if board is None else board.name,
        "count": fleet.listed[number].bit_count(),
        "free": list(chips_of(fleet.free_mask[number])),
        "held": list(chips_of(fleet.held[number])),
        "faulty": list(chips_of(fleet.unhealthy[number] | fleet.recovering[number])),
        "network_faulty": list(chips_of(max(0, fleet.network[number]))),
        "reserved": list(chips_of(fleet.reserved[number])),
        "closed": None if closed is None else closed.message,
    }


# -- queues -------------------------------------------------------------------------------------


def queue_documents(live: LiveLab, views: Iterable[JobView] | None = None) -> list[dict[str, Any]]:
    jobs = list(job_views(live) if views is None else views)
    found = []
    for queue in sorted(live.cluster.all(Queue), key=lambda queue: natural_key(queue.name)):
        own = [view for view in jobs if view.queue == queue.name]
        found.append(
            {
                "name": queue.name,
                "state": queue.state,
                "weight": queue.weight,
                "reclaimable": queue.reclaimable,
                "capability": dict(queue.capability),
                "guarantee": dict(queue.guarantee),
                "used": dict(live.view.used_by_queue(queue.name)),
                "jobs": len(own),
                "waiting": sum(1 for view in own if view.outcome == "waiting"),
            }
        )
    return found


# -- pods ---------------------------------------------------------------------------------------


def pod_documents(live: LiveLab, pods: Iterable[Pod] | None = None) -> list[dict[str, Any]]:
    found = []
    for pod in sorted(
        live.cluster.all(Pod) if pods is None else pods,
        key=lambda pod: (pod.namespace, natural_key(pod.name)),
    ):
        job = live.view.job_of(pod.uid)
        reason = live.cluster.pod_reasons.get(pod.uid)
        found.append(
            {
                "namespace": pod.namespace,
                "name": pod.name,
                "job": None if job is None else f"{job.namespace}/{job.name}",
                "phase": pod_phase(pod),
                "node": pod.node,
                "resource": pod.cls.resource,
                "asks": pod.cls.chips,
                "chips": list(pod.named_chips),
                "rank": pod.rank if job is None else ranks_of(job).get(pod.uid, pod.rank),
                "created": pod.created,
                "exit_code": pod.exit_code,
                "reason": None if reason is None else reason.as_json(),
            }
        )
    return found


# -- the whole -------------------------------------------------------------------------------------


def status_document(live: LiveLab) -> dict[str, Any]:
    """The lab in a few numbers."""
    state = live.view.cluster
    chips = held = faulty = 0
    for resource, fleet in state.fleets.items():
        if resource == HOSTS:
            continue
        for number in range(len(state.names)):
            if fleet.allocatable[number] >= 0:
                chips += fleet.listed[number].bit_count()
                held += fleet.held[number].bit_count()
                faulty += (fleet.unhealthy[number] | fleet.recovering[number]).bit_count()
    views = job_views(live)
    return {
        "folder": str(live.folder.path),
        "now": live.now,
        "speed": None if isinstance(live.clock, VirtualClock) else live.settings.speed,
        "nodes": live.cluster.table.count("Node"),
        "chips": chips,
        "held": held,
        "faulty": faulty,
        "jobs": len(views),
        "waiting": sum(1 for view in views if view.outcome == "waiting"),
        "placed": sum(1 for view in views if view.outcome == "placed"),
        "refused": sum(1 for view in views if view.never),
        "pods": live.cluster.table.count("Pod"),
        "commands": dict(live.lab.done),
        "incidents": [str(incident) for incident in live.view.incidents[-5:]],
        "alarms": list(live.cluster.alarms),
    }


# -- one object --------------------------------------------------------------------------------------


def plain(value: object) -> Any:
    """An object as JSON has it."""
    return msgspec.to_builtins(value)


def find_name(live: LiveLab, kind: str, name: str, namespace: str | None = None) -> str:
    """The key of the object with this name; `namespace/name` and a bare name both do."""
    if kind in ("node", "queue"):
        table = "Node" if kind == "node" else "Queue"
        if live.cluster.table.get(table, name) is None:
            known = [str(getattr(found, "name", "")) for found in live.cluster.table.kind(table)]
            raise UnknownNameError(f"there is no {kind} {name}{did_you_mean(name, known)}")
        return name
    keys = (
        [view.key for view in job_views(live)]
        if kind == "job"
        else [pod.key for pod in live.cluster.all(Pod)]
    )
    if namespace is not None and "/" not in name:
        name = f"{namespace}/{name}"
    if name in keys:
        return name
    matches = sorted(key for key in keys if key.partition("/")[2] == name)
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UnknownNameError(
            f"{len(matches)} {kind}s are called {name}; say which: {', '.join(matches[:5])}"
        )
    known = [*keys, *(key.partition("/")[2] for key in keys)]
    raise UnknownNameError(f"there is no {kind} {name}{did_you_mean(name, known)}")

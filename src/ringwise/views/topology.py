"""Switches, SuperPoDs and racks with what runs in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any

from ringwise.durations import time_text
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.scheduler.explain.doctor import superpod_problems
from ringwise.scheduler.node_faults import SWITCH, UNHEALTHY, node_faults
from ringwise.scheduler.node_states import chips_of_node, is_idle, node_states
from ringwise.scheduler.view import SchedulerView
from ringwise.topology.natural import natural_key
from ringwise.topology.numbers import INT32, whole_number
from ringwise.topology.superpods import NodeId
from ringwise.views.documents import topology as doc
from ringwise.views.reservations import reservation_documents
from ringwise.wellknown import SUPER_POD_RANK


@dataclass(slots=True)
class NodesByUse:
    """The nodes of a SuperPoD or a rack by what they do."""

    free: list[str] = field(default_factory=list)
    #: Nodes that hold pods of jobs that are not cut into blocks.
    busy: list[str] = field(default_factory=list)
    #: Nodes that hold nothing and cannot be had: cordoned, faulty, not ready.
    unusable: list[str] = field(default_factory=list)
    #: (job, block) -> nodes
    blocks: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    #: Nodes with a faulty chip or faulty switches, wherever else they are listed.
    faulty: set[str] = field(default_factory=set)

    def fields(self) -> dict[str, Any]:
        """The fields that SuperPoDs and racks have."""
        faulty = sorted(self.faulty, key=natural_key)
        nodes = {"free": self.free, "busy": self.busy, "unusable": self.unusable, "faulty": faulty}
        blocks = [
            doc.BlockFields(job=job, block=block, nodes=names)
            for (job, block), names in sorted(self.blocks.items())
        ]
        return {**nodes, **{f"{word}_nodes": len(names) for word, names in nodes.items()}, "blocks": blocks}


def topology_problems(view: SchedulerView) -> list[Reason]:
    """What is wrong with switches, and with SuperPoDs where there are any."""
    resolved = view.switches()
    result = [*(resolved.problems if resolved is not None else ())]
    if view.topology.topology_problem is not None and view.topology.topology_problem not in result:
        result.insert(0, view.topology.topology_problem)
    superpods = view.superpods()
    if not superpods.nodes_of:
        return result
    return [*result, *superpod_problems(view).values(), *superpods.superpod_problems.values()]


def _by_use(view: SchedulerView, nodes: Iterable[NodeId], now: int) -> dict[str, Any]:
    """The fields of these nodes."""
    result = NodesByUse()
    for node in nodes:
        _sort_in(view, result, int(node), now)
    return result.fields()


def _sort_in(view: SchedulerView, picture: NodesByUse, number: int, now: int) -> None:
    """Put a node where it belongs: free, busy, unusable or part of a block."""
    state = view.cluster
    name = state.names[number]
    if _has_faulty_chip(view, number, now) or _has_faulty_switches(view, number):
        picture.faulty.add(name)
    for uid in state.pods_on[number]:
        pod = state.pods[uid].pod
        block = whole_number(pod.annotations.get(SUPER_POD_RANK, ""), 0, INT32)
        job = view.job_of(uid)
        if pod.cls.chips and block is not None and job is not None:
            picture.blocks.setdefault((job.full_name, block), []).append(name)
            return
    if any(state.pods[uid].pod.cls.chips for uid in state.pods_on[number]):
        picture.busy.append(name)
    elif is_idle(state, number, now):
        picture.free.append(name)
    else:
        picture.unusable.append(name)


def _has_faulty_chip(view: SchedulerView, number: int, now: int) -> bool:
    states = node_states(view.cluster, number, now)
    return any(chips.faulty for chips in chips_of_node(view.cluster, number, states))


def _has_faulty_switches(view: SchedulerView, number: int) -> bool:
    return any(
        fault.kind == SWITCH and fault.level == UNHEALTHY for fault in node_faults(view.cluster, number)
    )


def _jobs_on(view: SchedulerView, number: int) -> list[str]:
    """The jobs with chips on this node (`namespace/name`), in the order in which they came."""
    pods = (view.cluster.pods[uid].pod for uid in view.cluster.pods_on[number])
    return list(dict.fromkeys(view.job_name_of_pod(pod) for pod in pods if pod.cls.chips))


def topology_document(view: SchedulerView, now: int) -> doc.TopologyDocument:
    """What `ringwise topology show -o json` prints."""
    isolated = [one for one in isolation_documents(view, now) if not one["chips"]]
    return doc.TopologyDocument(
        now=now,
        switches=switch_documents(view, now),
        superpods=superpod_documents(view, now),
        isolated=list(dict.fromkeys(one["target"] for one in isolated)),
        isolations=isolated,
        reservations=reservation_documents(view, now),
        problems=[problem.as_json() for problem in topology_problems(view)],
    )


def switch_documents(view: SchedulerView, now: int) -> list[doc.SwitchFields] | None:
    """None where there is no topology, or no usable one."""
    resolved = view.switches()
    if resolved is None or view.topology.topology_problem is not None:
        return None
    result: list[doc.SwitchFields] = []
    switches = zip(resolved.topology.switches, resolved.nodes, view.switch_states(), strict=True)
    for switch, seats, facts in switches:
        numbers = [view.cluster.node_id[seat.node] for seat in seats]
        #: Nodes that report that their switches are faulty.
        cut_off = [_has_faulty_switches(view, number) for number in numbers]
        nodes = [
            doc.SwitchNodeFields(
                node=seat.node,
                position=seat.index,
                free=is_idle(view.cluster, number, now),
                faulty=is_cut_off or _has_faulty_chip(view, number, now),
                jobs=_jobs_on(view, number),
            )
            for seat, number, is_cut_off in zip(seats, numbers, cut_off, strict=True)
        ]
        result.append(
            doc.SwitchFields(
                ip=switch.ip,
                state=facts.state.word,
                healthy=facts.healthy,
                faulty=bool(seats) and all(cut_off),
                free_nodes=sum(node.free for node in nodes),
                servers=max((server.index + 1 for server in switch.servers), default=0),
                nodes=nodes,
            )
        )
    return result


def superpod_documents(view: SchedulerView, now: int) -> list[doc.SuperPodFields]:
    racks, result = view.racks(), list[doc.SuperPodFields]()
    for superpod, nodes in view.superpods().nodes_of.items():
        by_rack: dict[int, list[NodeId]] = {rack: [] for rack in racks.nodes_of.get(superpod, {})}
        for node in nodes:
            if node in racks.rack_of:
                by_rack[racks.rack_of[node][1]].append(node)
        fields = _by_use(view, nodes, now)
        # The rules for racks keep no reserve.
        reserve = 0 if by_rack else view.settings.reserve_nodes
        made = [doc.RackFields(rack=rack, **_by_use(view, some, now)) for rack, some in by_rack.items()]
        result.append(
            doc.SuperPodFields(
                superpod=superpod,
                reserved_nodes=min(reserve, fields["free_nodes"]),
                racks=made,
                **fields,
            )
        )
    return result


def isolation_documents(view: SchedulerView, now: int) -> list[doc.IsolationFields]:
    """What operators took out of use, by target in natural order."""
    every = view.cluster.isolations.values()
    return [
        {
            "name": one.name,
            "target": one.target,
            "chips": list(one.chips),
            "title": one.title,
            "state": "pending" if (one.start or 0) > now else "active",
            "created_by": one.by,
            "created": time_text(one.created) if one.created else "",
            "reason": one.reason,
            "start": one.start,
        }
        for one in sorted(every, key=lambda one: natural_key(f"{one.target} {one.name}"))
    ]

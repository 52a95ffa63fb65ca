"""The documents of one job and of one node, beside the rows of the dashboard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from ringwise.framework.gangs.ranks import ranks_of
from ringwise.framework.job import Job, job_key
from ringwise.scheduler.node_states import StateOfNode, chips_of_node, node_states
from ringwise.scheduler.view import SchedulerView
from ringwise.state.model import Node, Pod
from ringwise.topology.chips import chip_names, chips_of
from ringwise.topology.natural import natural_key
from ringwise.topology.numbers import number_text
from ringwise.views.cluster import pod_phase
from ringwise.views.dashboard import DashboardRows
from ringwise.views.documents import dashboard as doc
from ringwise.views.parts import is_shared, shares_on, use_of_chip
from ringwise.wellknown import SUPER_POD_RANK

#: Characters of one label or annotation. An annotation may have a quarter of a megabyte.
MAX_TEXT = 500
#: Plans of moves of one job, of all jobs, and pods of one plan.
MAX_PLANS, MAX_MOVES, MAX_PLACES = 5, 100, 100


def job_document(
    rows: DashboardRows, view: SchedulerView, now: int, namespace: str, name: str
) -> doc.DashboardJobDocument | None:
    """None where there is no such job."""
    key = rows.find_job(namespace, name)
    row = None if key is None else rows.job_row(key)
    if key is None or row is None:
        return None
    job = view.jobs.get(key)
    if job is not None and job.policy is None and view.serves(job):
        # An event about a running job clears its policy; its board and class are part of the document.
        view.what_if.job_valid(job, now)
    policy = None if job is None else job.policy
    pods = _pods_of(view, key, job)
    return {
        "schema": "ringwise.io/dashboard-job/v1",
        "job": row,
        "min_available": _min_available(view, job, f"{namespace}/{name}"),
        "class": "" if policy is None else policy.switch_class or "",
        "board": "" if policy is None else policy.board.name,
        "labels": {} if job is None else _texts(job.labels),
        "annotations": {} if job is None else _texts(job.annotations),
        "pods": [_pod(rows, view, pod, {} if job is None else ranks_of(job)) for pod in pods],
        "plans": [*islice(_plans(view, key), MAX_PLANS)],
    }


def _min_available(view: SchedulerView, job: Job | None, vcjob: str) -> int:
    if job is not None:
        return job.min_available
    # Without pods and PodGroup, as a suspended one: what it asks for when it is resumed.
    entry = view.vcjobs.get(vcjob)
    return 1 if entry is None else entry.min_available


def moves_document(view: SchedulerView, now: int) -> doc.DashboardMovesDocument:
    """All plans of moves that are carried out or ended lately."""
    return {
        "schema": "ringwise.io/dashboard-moves/v1",
        "now": now,
        "moves": [*islice(_plans(view), MAX_MOVES)],
    }


def _plans(view: SchedulerView, key: str | None = None) -> Iterator[doc.DashboardPlan]:
    """Those of which the job is a part, or all; the last one first."""
    for live in reversed([*view.history.moves.plans.values()]):
        moved = list(dict.fromkeys(moving.job for moving in live.jobs))
        if key in (None, live.plan.job, *moved) and not live.failed:
            pods = [pod for _, _, pod in live.moving_pods()]
            yield {
                "state": "running",
                "job": view.job_name(live.plan.job),
                "moved": list(map(view.job_name, moved)),
                "pods": [
                    {
                        "pod": pod.target.pod,
                        "from": pod.old.node,
                        "to": pod.target.node,
                        "chips": list(chips_of(pod.target.chips)),
                    }
                    for pod in pods[:MAX_PLACES]
                ],
                "deleted_pods": sum(pod.gone for pod in pods),
                "message": "",
                "time": live.since,
            }
    for ended in reversed([*view.history.moves.ended.values()]):
        if key in (None, ended.job, *ended.moved):
            yield {
                "state": ended.outcome,
                "job": ended.name,
                "moved": list(ended.moved_names),
                "pods": [],
                "deleted_pods": 0,
                "message": ended.why,
                "time": ended.at,
            }


def _pods_of(view: SchedulerView, key: str, job: Job | None) -> list[Pod]:
    if job is not None:
        return job.in_order
    # A pod of another scheduler.
    return [
        one.pod for one in view.cluster.pods.values() if one.pod.group is None and job_key(one.pod) == key
    ]


def _pod(rows: DashboardRows, view: SchedulerView, pod: Pod, ranks: Mapping[str, int]) -> doc.DashboardPod:
    state = view.cluster
    placement = state.pods.get(pod.uid)
    number = -1 if placement is None else placement.node
    node = rows.node_row(state.names[number]) if number >= 0 else None
    return {
        "name": pod.name,
        "rank": ranks.get(pod.uid, pod.rank),
        "phase": pod_phase(pod),
        "node": state.names[number] if number >= 0 else "",
        "chips": [] if placement is None else list(chips_of(placement.chips | placement.part_chips)),
        "switch": None if node is None else node["switch"],
        "superpod": None if node is None else node["superpod"],
        "rack": None if node is None else node["rack"],
        "block": number_text(pod.annotations.get(SUPER_POD_RANK, "")) or "",
    }


def node_document(
    rows: DashboardRows, view: SchedulerView, now: int, name: str
) -> doc.DashboardNodeDocument | None:
    """None where there is no such node."""
    row, state = rows.node_row(name), view.cluster
    number = state.node_id.get(name)
    node = None if number is None else state.nodes[number]
    if row is None or number is None or node is None:
        return None
    states = node_states(state, number, now)
    pods = [
        state.pods[uid]
        for uid in sorted(state.pods_on[number], key=lambda uid: natural_key(state.pods[uid].pod.key))
    ]
    listed: list[doc.DashboardNodePod] = [
        {
            "namespace": one.pod.namespace,
            "name": one.pod.name,
            "job": view.job_name_of_pod(one.pod),
            "phase": pod_phase(one.pod),
            "chips": list(chips_of(one.chips | one.part_chips)),
        }
        for one in pods
    ]
    return {
        "schema": "ringwise.io/dashboard-node/v1",
        "node": row,
        "address": node.internal_ip,
        "labels": _texts(node.labels),
        "annotations": _texts(node.annotations),
        "chips": _chips(view, number, states, row["health"]),
        "pods": listed,
        "reasons": _reasons(states, node),
    }


def _chips(
    view: SchedulerView, number: int, states: Sequence[StateOfNode], health: str
) -> list[doc.DashboardChip]:
    letters = iter(health)
    result: list[doc.DashboardChip] = []
    for chips in sorted(chips_of_node(view.cluster, number, states), key=lambda one: one.resource):
        holders, faults, reserved = chips.holders(), chips.faults, chips.reserved
        for chip in chips_of(chips.states.listed):
            pod, doubtful = holders.get(chip, (None, False))
            notes = ("reserved for one job" if reserved >> chip & 1 else "", "doubtful" if doubtful else "")
            fields: doc.DashboardChip = {
                "name": chip_names(chips.resource, (chip,)),
                "number": chip,
                "health": next(letters),
                "codes": [f"{fault.code} ({fault.level})" for fault in faults if fault.chip == chip],
                "job": "" if pod is None else view.job_name_of_pod(pod),
                "pod": "" if pod is None else pod.key,
                "note": "; ".join(filter(None, notes)),
            }
            if is_shared(view, number):
                fields["shares"] = shares_on(view, number, chip)
                fields["note"] = "; ".join(filter(None, (use_of_chip(view, number, chip), *notes)))
            result.append(fields)
    return result


def _reasons(states: Sequence[StateOfNode], node: Node) -> list[doc.DashboardReason]:
    """Its states, unless it is ready, and the taints that pods have to tolerate."""
    result: list[doc.DashboardReason] = [
        {"code": one.state.value, "message": one.why} for one in states if one.why
    ]
    for taint in node.taints:
        text = f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
        message = f"pods need a toleration of the taint {text}"[:MAX_TEXT]
        result.append({"code": f"taint {taint.key}"[:MAX_TEXT], "message": message})
    return result


def _texts(texts: Mapping[str, str]) -> dict[str, str]:
    return {
        key: value if len(value) <= MAX_TEXT else value[: MAX_TEXT - 1] + "…" for key, value in texts.items()
    }

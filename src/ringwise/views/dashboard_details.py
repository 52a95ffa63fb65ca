"""The documents of one job and of one node, beside the rows of the dashboard."""

from __future__ import annotations

from collections.abc import Mapping

from ringwise.framework.job import Job, job_key
from ringwise.framework.ranks import ranks_of
from ringwise.scheduler.node_states import node_states
from ringwise.scheduler.view import SchedulerView
from ringwise.state.fleet import HOSTS
from ringwise.state.model import Node, Pod
from ringwise.topology.chips import chip_names, chips_of
from ringwise.topology.natural import natural_key
from ringwise.views.cluster import pod_phase
from ringwise.views.dashboard import DashboardRows
from ringwise.views.documents.dashboard import (
    DashboardChip,
    DashboardJobDocument,
    DashboardNodeDocument,
    DashboardNodePod,
    DashboardPod,
    DashboardReason,
)
from ringwise.wellknown import SUPER_POD_RANK

#: Characters of one label or annotation. An annotation may have a quarter of a megabyte.
MAX_TEXT = 500


def job_document(
    rows: DashboardRows, view: SchedulerView, now: int, namespace: str, name: str
) -> DashboardJobDocument | None:
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
        "minAvailable": 1 if job is None else job.min_available,
        "class": "" if policy is None else policy.switch_class or "",
        "board": "" if policy is None else policy.board.name,
        "labels": {} if job is None else _texts(job.labels),
        "annotations": {} if job is None else _texts(job.annotations),
        "pods": [_pod(rows, view, pod, {} if job is None else ranks_of(job)) for pod in pods],
    }


def _pods_of(view: SchedulerView, key: str, job: Job | None) -> list[Pod]:
    if job is not None:
        return job.in_order
    # A pod of another scheduler.
    return [
        one.pod for one in view.cluster.pods.values() if one.pod.group is None and job_key(one.pod) == key
    ]


def _pod(rows: DashboardRows, view: SchedulerView, pod: Pod, ranks: Mapping[str, int]) -> DashboardPod:
    state = view.cluster
    placement = state.pods.get(pod.uid)
    number = -1 if placement is None else placement.node
    node = rows.node_row(state.names[number]) if number >= 0 else None
    return {
        "name": pod.name,
        "rank": ranks.get(pod.uid, pod.rank),
        "phase": pod_phase(pod),
        "node": state.names[number] if number >= 0 else "",
        "chips": [] if placement is None else list(chips_of(placement.chips)),
        "switch": "" if node is None else node["switch"],
        "superpod": "" if node is None else node["superpod"],
        "rack": "" if node is None else node["rack"],
        "block": pod.annotations.get(SUPER_POD_RANK, "")[:MAX_TEXT],
    }


def node_document(
    rows: DashboardRows, view: SchedulerView, now: int, name: str
) -> DashboardNodeDocument | None:
    """None where there is no such node."""
    row, state = rows.node_row(name), view.cluster
    number = state.node_id.get(name)
    node = None if number is None else state.nodes[number]
    if row is None or number is None or node is None:
        return None
    pods = [
        state.pods[uid]
        for uid in sorted(state.pods_on[number], key=lambda uid: natural_key(state.pods[uid].pod.key))
    ]
    found: list[DashboardNodePod] = [
        {
            "namespace": one.pod.namespace,
            "name": one.pod.name,
            "job": _job_name(view, one.pod),
            "phase": pod_phase(one.pod),
            "chips": list(chips_of(one.chips)),
        }
        for one in pods
    ]
    return {
        "schema": "ringwise.io/dashboard-node/v2",
        "node": row,
        "address": node.internal_ip,
        "labels": _texts(node.labels),
        "annotations": _texts(node.annotations),
        "chips": _chips(view, number, node, row["health"]),
        "pods": found,
        "reasons": _reasons(view, number, node, now),
    }


def _job_name(view: SchedulerView, pod: Pod) -> str:
    job = view.job_of(pod.uid)
    return pod.key if job is None else f"{job.namespace}/{job.name}"


def _chips(view: SchedulerView, number: int, node: Node, health: str) -> list[DashboardChip]:
    state, letters = view.cluster, iter(health)
    found: list[DashboardChip] = []
    for resource in sorted(node.chips_capacity):
        fleet = state.fleets.get(resource)
        if fleet is None or resource == HOSTS or fleet.allocatable[number] < 0:
            continue
        report = state.report_of(node.name, resource)
        holders: dict[int, Pod] = {}
        for uid in state.pods_on[number]:
            placement = state.pods[uid]
            if placement.pod.cls.resource == resource:
                holders |= dict.fromkeys(chips_of(placement.chips), placement.pod)
        for chip in chips_of(fleet.listed[number]):
            pod = holders.get(chip)
            faults = report.faults if report is not None else ()
            found.append(
                {
                    "name": chip_names(resource, (chip,)),
                    "number": chip,
                    "health": next(letters),
                    "codes": [f"{fault.code} ({fault.level})" for fault in faults if fault.chip == chip],
                    "job": "" if pod is None else _job_name(view, pod),
                    "pod": "" if pod is None else pod.key,
                    "note": "reserved for one job" if fleet.reserved[number] >> chip & 1 else "",
                }
            )
    return found


def _reasons(view: SchedulerView, number: int, node: Node, now: int) -> list[DashboardReason]:
    """Its states, unless it is ready, and the taints that pods have to tolerate."""
    found: list[DashboardReason] = [
        {"code": one.state.value, "message": one.why}
        for one in node_states(view.cluster, number, now)
        if one.why
    ]
    for taint in node.taints:
        text = f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
        message = f"pods need a toleration of the taint {text}"[:MAX_TEXT]
        found.append({"code": f"taint {taint.key}"[:MAX_TEXT], "message": message})
    return found


def _texts(texts: Mapping[str, str]) -> dict[str, str]:
    return {
        key: value if len(value) <= MAX_TEXT else value[: MAX_TEXT - 1] + "…" for key, value in texts.items()
    }

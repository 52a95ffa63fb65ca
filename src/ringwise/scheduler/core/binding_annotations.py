"""What travels with a binding: the annotations that device plugin, operator and network read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringwise.framework.ranks import rank_of
from ringwise.framework.statement import Allocation
from ringwise.messages.rank_table import (
    RankTableDevice,
    carries_rank_table,
    rank_table_fragment,
    rank_table_key,
)
from ringwise.state.model import Node, Pod
from ringwise.topology.chips import chip_names
from ringwise.wellknown import ASCEND_REAL, DISTRIBUTED_JOB, OPERATOR_NAME, PREDICATE_TIME, RANK_INDEX

if TYPE_CHECKING:
    from ringwise.scheduler.core.machine import Scheduler


def binding_annotations(scheduler: Scheduler, allocation: Allocation, time: int) -> dict[str, str]:
    """`time` orders the pods of one node for the device plugin; it grows with every binding of a cycle."""
    job, pod = allocation.job, allocation.pod
    policy = job.policy
    if policy is None or not allocation.chips:
        return dict(allocation.annotations)
    chips = chip_names(policy.resource, allocation.chips)
    annotations = {
        DISTRIBUTED_JOB: "true" if policy.multi_pod else "false",
        policy.resource: chips,
        PREDICATE_TIME: str(time),
    }
    if not pod.annotations.get(RANK_INDEX):
        annotations[RANK_INDEX] = str(rank_of(job, pod))
    node = scheduler.state.nodes[allocation.node]
    if node is not None and carries_rank_table(
        pod.labels.get(OPERATOR_NAME),
        len(allocation.chips),
        node.chips_allocatable.get(policy.resource, 0),
        len(node.devices or ()),
    ):
        annotations[ASCEND_REAL] = chips
        annotations[rank_table_key(policy.resource)] = _fragment(scheduler, pod, node, allocation)
    annotations.update(allocation.annotations)
    return annotations


def _fragment(scheduler: Scheduler, pod: Pod, node: Node, allocation: Allocation) -> str:
    known = {device.chip: device for device in node.devices or ()}
    report = scheduler.state.report_of(node.name, pod.cls.resource or "")
    devices = [
        RankTableDevice(chip, known[chip].ip, known[chip].super_device_id)
        if chip in known
        else RankTableDevice(chip)
        for chip in allocation.chips
    ]
    superpod = report.superpod if report is not None and report.superpod is not None else node.superpod
    index = node.server_index
    if not index and report is not None and report.server_index is not None:
        index = str(report.server_index)
    return rank_table_fragment(
        pod_name=pod.name,
        pod_uid=pod.uid,
        node_ip=node.internal_ip,
        devices=devices,
        superpod=superpod,
        server_index=index,
    )

"""Final allocations become bindings, immediately or once the claims of their pods are bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ringwise.framework.gangs.ranks import rank_of
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.framework.statement import Allocation
from ringwise.messages.commands import Bind
from ringwise.messages.rank_table import (
    RankTableDevice,
    carries_rank_table,
    rank_table_fragment,
    rank_table_key,
)
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on_job
from ringwise.scheduler.core.volume_waits import VolumeWaits
from ringwise.scheduler.view import History
from ringwise.state.cluster import ClusterState
from ringwise.state.model import Node, Pod
from ringwise.topology.chips import chip_names
from ringwise.wellknown import (
    ASCEND_OPERATOR,
    ASCEND_REAL,
    DISTRIBUTED_JOB,
    JOB_COMPLETION_INDEX,
    OPERATOR_NAME,
    PREDICATE_TIME,
    RANK_INDEX,
    RESCHEDULE_IN_PLACE,
)


def binding_annotations(state: ClusterState, allocation: Allocation, time: int) -> dict[str, str]:
    """D1, D2: `time` is `predicate-time`, by which the device plugin orders the pods of a node."""
    job, pod = allocation.job, allocation.pod
    policy = job.policy
    if policy is None or not allocation.chips:
        if allocation.binding is not None:
            return {**allocation.annotations, PREDICATE_TIME: str(time)}
        return dict(allocation.annotations)
    chips = chip_names(policy.resource, allocation.chips)
    annotations = {
        DISTRIBUTED_JOB: "true" if policy.distributed else "false",
        policy.resource: chips,
        PREDICATE_TIME: str(time),
    }
    if not pod.annotations.get(RANK_INDEX) and not _numbered_by_owner(pod):
        annotations[RANK_INDEX] = str(rank_of(job, pod))
    node = state.nodes[allocation.node]
    if node is not None and carries_rank_table(
        pod.labels.get(OPERATOR_NAME),
        len(allocation.chips),
        node.chips_allocatable.get(policy.resource, 0),
        len(node.devices or ()),
    ):
        devices = _devices(node, allocation)
        if devices is not None:
            annotations[ASCEND_REAL] = chips
            annotations[rank_table_key(policy.resource)] = _fragment(state, pod, node, devices)
    if node is not None and job.previous_nodes and _returns_in_place(allocation, node):
        annotations[RESCHEDULE_IN_PLACE] = "true"
    annotations.update(allocation.annotations)
    return annotations


def _numbered_by_owner(pod: Pod) -> bool:
    """Whether the owner numbers its pods itself, so that a rank of ours could contradict it.

    Indexed Jobs of Kubernetes do, and Huawei's operator, which may write the rank later.
    """
    return JOB_COMPLETION_INDEX in pod.labels or pod.labels.get(OPERATOR_NAME) == ASCEND_OPERATOR


def _returns_in_place(allocation: Allocation, node: Node) -> bool:
    """Whether part of the job runs on, and the pod returns to the node that its rank had."""
    job = allocation.job
    previous = job.previous_nodes.get(rank_of(job, allocation.pod))
    if previous is None or previous.node != node.name:
        return False
    return any(pod.node is not None and pod.live and not pod.deleting for pod in job.pods.values())


def _devices(node: Node, allocation: Allocation) -> list[RankTableDevice] | None:
    """The chips with their addresses; None where one is unknown.

    Huawei's device plugin leaves a pod alone that has both annotations, so that a table without addresses
    would stay so. Without them it writes both when it mounts the chips.
    """
    device_of = {device.chip: device for device in node.devices or ()}
    devices = [
        RankTableDevice(chip, device_of[chip].ip, device_of[chip].super_device_id)
        for chip in allocation.chips
        if chip in device_of and (device_of[chip].ip or device_of[chip].super_device_id)
    ]
    return devices if len(devices) == len(allocation.chips) else None


def _fragment(state: ClusterState, pod: Pod, node: Node, devices: list[RankTableDevice]) -> str:
    report = state.report_of(node.name, pod.cls.resource or "")
    superpod = report.superpod if report is not None and report.superpod is not None else node.superpod
    rack = report.rack if report is not None and report.rack is not None else node.rack
    index = node.server_index
    if not index and report is not None and report.server_index is not None:
        index = str(report.server_index)
    return rank_table_fragment(
        pod_name=pod.name,
        pod_uid=pod.uid,
        node_ip=node.internal_ip,
        devices=devices,
        superpod=superpod,
        rack=rack or 0,
        server_index=index,
    )


class Bindings(Component):
    name = "bindings"

    def __init__(self, context: Context, volumes: VolumeWaits, history: History) -> None:
        super().__init__(context)
        self.volumes = volumes
        self._history = history
        #: Called during a long cycle with each batch of bindings; `take` returns them as well.
        self.on_bindings: Callable[[Sequence[Bind]], None] | None = None
        #: Bindings of this turn; they order `predicate-time`.
        self._in_turn = 0
        self._bindings: list[Bind] = []

    @on_job(ie.PodBound)
    def _bound(self, job: Job, now: int) -> None:
        self._history.bindings += 1
        if job.started is None:
            job.started = now

    def review(self, now: int) -> None:
        self._in_turn = 0

    def take(self) -> list[Bind]:
        """Return the bindings of the last cycle."""
        bindings, self._bindings = self._bindings, []
        return bindings

    def bind(self, session: Session, allocations: Sequence[Allocation]) -> None:
        """Bind pods of one job, or keep their nodes until their claims are bound."""
        now = session.now
        binds = [self._binding(allocation, now) for allocation in allocations]
        rules = session.claim_rules
        if rules is not None and allocations and self._must_wait(allocations):
            job = allocations[0].job
            self.volumes.hold(job, allocations, binds, rules.bind_timeout, now)
            if session.may_reserve:
                return
            self.volumes.settle_at_once(job.key)
        for allocation, bind in zip(allocations, binds, strict=True):
            self._notify(ie.PodBound(allocation.job, bind.node, bind.chips), now)
        self._bindings += binds
        if self.on_bindings is not None:
            self.on_bindings(binds)

    def _must_wait(self, allocations: Sequence[Allocation]) -> bool:
        """Return whether a pod has a claim without a volume, or pods of its job wait for theirs."""
        job = allocations[0].job
        return job.has_claims and (self.volumes.waits(job.key) or any(one.volumes for one in allocations))

    def _binding(self, allocation: Allocation, now: int) -> Bind:
        """D1: the binding carries chips, `predicate-time` and rank in one write."""
        pod, node = allocation.pod, self._state.names[allocation.node]
        annotations = binding_annotations(self._state, allocation, now + self._in_turn)
        self._in_turn += 1
        rank = int(annotations[RANK_INDEX]) if pod.rank is None and RANK_INDEX in annotations else pod.rank
        self._assumed.bind(allocation.job, pod, pod.with_chips(allocation.chips, annotations, rank))
        stray = tuple(key for key in pod.stray if key not in annotations)
        chips = allocation.chips if allocation.binding is None else ()
        return Bind(pod.uid, pod.namespace, pod.name, node, chips, annotations, stray)

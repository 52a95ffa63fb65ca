"""The words that a support bundle keeps: those that rules read, and that everybody may know."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from ringwise import wellknown
from ringwise.apps.extensions import installed_registry
from ringwise.apps.support.pseudonyms import runs_of, words_of
from ringwise.framework.arguments import Argument, ArgumentFamily
from ringwise.framework.configuration import ENABLE_FLAGS
from ringwise.messages.expected_start import StartKind
from ringwise.reasons import ReasonKind, kinds_in
from ringwise.scheduler.faults.detection import FaultType
from ringwise.scheduler.faults.states import State
from ringwise.state.job_rules import ACTIONS, EVENTS
from ringwise.state.model import DEFAULT_QUEUE, PRE_SEPARATE_LEVEL, ROOT_QUEUE
from ringwise.state.node_health import STATUSES, SUB_HEALTH_LEVEL
from ringwise.state.vcjob import COMMAND_ISSUED, OVER, SUSPENDED
from ringwise.topology.boards import BoardCatalog
from ringwise.wellknown import ApiResource

#: Runs of letters that stay wherever they stand: queues and namespaces that rules name, which come before or
#: after others by name, and the beginnings of names and types that are computed or matched.
FIXED_RUNS = frozenset(
    run
    for text in (
        *(DEFAULT_QUEUE, ROOT_QUEUE, *wellknown.SYSTEM_NAMESPACES, wellknown.ORDINARY_GROUP_PREFIX),
        # Of types of accelerators: a pattern of a board matches it.
        "card",
    )
    for run in runs_of(text)
)

#: Words of Kubernetes' API.
_KUBERNETES = """
    true false True False null none None cpu memory pods storage ephemeral-storage requests limits
    requests.cpu requests.memory limits.cpu limits.memory count hugepages-1Gi hugepages-2Mi
    requests.storage requests.ephemeral-storage limits.ephemeral-storage Pending Running Succeeded
    Failed Unknown Terminating Open Closed Closing Inqueue Completed Aborting Aborted Completing
    Terminated Restarting In NotIn Exists DoesNotExist Gt Lt Equal NoSchedule NoExecute PreferNoSchedule
    TCP UDP SCTP Node Pod Job PodGroup Queue ConfigMap PriorityClass ResourceQuota Deployment ReplicaSet
    StatefulSet DaemonSet ReplicationController CronJob AscendJob PyTorchJob TFJob MPIJob PodOwner v1
    v1alpha1 v1beta1 v2beta1 batch apps kubernetes.io topology.kubernetes.io node.kubernetes.io
    node-role.kubernetes.io beta.kubernetes.io zone region master control-plane worker hostname arch os
    linux amd64 arm64 metadata.name not-ready unreachable memory-pressure disk-pressure pid-pressure
    network-unavailable unschedulable UnexpectedAdmissionError OutOfcpu OutOfmemory OutOfpods
    NodeAffinity NodeShutdown apps.kubernetes.io pod-index statefulset.kubernetes.io pod-name
    pod-template-hash controller-uid batch.kubernetes.io controller-revision-hash
    PersistentVolumeClaim PersistentVolume StorageClass CSINode CSIDriver CSIStorageCapacity Available Bound
    Released Lost ReadWriteOnce ReadOnlyMany ReadWriteMany ReadWriteOncePod no-provisioner
"""
#: Values of the labels and annotations of Huawei's, and the names in their JSON.
_HUAWEI = """
    soft hard on off pause grace force external-grace external-force ignore graceExit forceExit
    hotSwitch normal-schema large-model-schema null chip card enabled delete backup pod Separate
    SubHealth software recover-in-place retry dump exit elastic-training process mindie-ms-server
    mindie-ms-controller mindie-ms-coordinator mindspore pytorch tensorflow ascend-910 ascend-910b
    ascend-310 ascend-310P ascend-310p ascend-npu huawei-Ascend910 huawei-Ascend310 huawei-Ascend310P
    huawei-npu npu A3 Ascend350 Ascend850 Ascend950 card-300i-duo 300I-Duo IP SuperDeviceID LevelList
    levelList pod_name server_id host_ip super_pod_id devices rack_id server_index server_ip device_id
    device_ip super_device_id rank_id net_layer net_instance_id net_type net_attr rank_addr_list addr
    addr_type ports plane_id
"""
#: Fault levels and states, and what reasons and records of Ringwise say in one word.
_RINGWISE = """
    NormalNPU NormalNetwork ManuallySeparateNPU SeparateNPU RestartNPU FreeRestartNPU RestartBusiness
    RestartRequest NotHandleFault NotHandle PreSeparateFault SeparateFault Reset PreSeparate node switch
    superpod chips chip job jobs nodes queue queues namespace pod rack racks succeed fail forever
    leaf-switches lab files cluster end requeue preempt reclaim gangpreempt gangreclaim fault move
    drain limit suspend limited throttled cut alone Terminate Requeue runningJobs pendingJobs
"""

#: Names in the records for Huawei's components.
_RECORD_KEYS = """
    CardNetworkUnhealthy CardUnhealthy FaultDeviceList IsHealthy IsSharedTor JobID JobName
    LogFileFormatTime NetworkUnhealthyNPU NodeHealthState NodeIp NodeName NodeRankIndex PodName
    ReasonOfTask RescheduleReason RescheduleRecords RescheduleTimeStamp Times TotalRescheduleTimes UUID
    UnhealthyNPU UpdateTime fault_code fault_handling fault_level fault_type large_model_fault_level
    npu_name
"""
#: Names in the leader record (F1): its tables, and the fields of their entries.
_TABLE_KEYS = """
    accepted again allowed annotations approval approved_by at awaited back block blocked borrowing
    borrowing-pods by cause chips clocks compressed cool-downs cost counted cpu_milli created
    deleting_since deletions drained ended-moves entries evict evicting excused expires extended external
    failed failed-vnpus fault-jobs faulty finished first forced generation gone hard hardware_broke held
    hot_switch id ignored isolations job_uid key last last_gone leaving leaving-pods lent level limited_by
    load loads lost max_run_time missing most moved moved-jobs moved_names moves nodereservations
    nominated old on_timeout outcome overruns owner plan pod-queues pods_owner position preemptions
    previous-placements rank ranks reason recovery rejected-pods reservations reserved-quota resource
    restarts retries room room_loads run-times saving selector sent since start started starts state
    suspended target told_to_exit tolerated-faults ttl type uid unreachable until usagelimits used
    used_retry user users version warned why
"""

#: Types of conditions of custom resources of ours, and their reasons.
_CONDITIONS = """
    Accepted Active Approved ChipNotFound ChipsDiffer Complete DuplicatePod EndInPast Ended
    EvictionsInProgress Exceeded Failed Finished GangIncomplete JobNotFound LeafSwitchNotFound
    LimitExceeded MovesTarget Moving NodeNotFound NodeUnsuitable NoMoves NotAccepted NotApproved NotCarriedOut
    NotFinished NotMovable NotStarted Overlaps Pending PlaceNotFree PodMoved PodNotFound Progressing
    Rejected ResourceNotFound SamePlace Started StepFailed SuperPodNotFound TargetNotFound
    TargetNotPending TargetReplaced TargetStarted TooLarge TooManyLimits TooManyPlans TooManyReservations
    UserNotVerified Waiting WithinLimit done failed queued rejected
"""


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, ApiResource):
        yield from (value.version, value.kind, value.plural)
    elif isinstance(value, (tuple, list, set, frozenset, dict)):
        for item in value:
            yield from _texts(item)


def vocabulary(catalog: BoardCatalog) -> frozenset[str]:
    """`catalog`: the boards of one's own are not secret either, where they were given."""
    texts: list[str] = f"{_KUBERNETES}{_HUAWEI}{_RINGWISE}{_RECORD_KEYS}{_TABLE_KEYS}{_CONDITIONS}".split()
    for name, value in vars(wellknown).items():
        if name.isupper():
            texts += _texts(value)
    texts += (*EVENTS, *ACTIONS, *STATUSES, SUB_HEALTH_LEVEL, PRE_SEPARATE_LEVEL, COMMAND_ISSUED)
    texts += (
        *OVER,
        *SUSPENDED,
        *StartKind,
        *map(str, (one.value for one in (*State, *FaultType))),
    )
    for board in catalog:
        texts += (board.name, *board.resources, *board.policies, *board.accelerator_types, board.ring_kind)
        texts += (part for pair in (*board.job_labels, *board.node_labels) for part in pair)
    registry = installed_registry()
    texts += (*registry.plugins, *registry.actions, *ENABLE_FLAGS, *reason_kinds())
    for row in _declared_arguments():
        texts += (row.name, *row.words) if isinstance(row, Argument) else row.pattern.words
    return frozenset(word for text in texts for word in words_of(text))


def _declared_arguments() -> Iterator[Argument[Any] | ArgumentFamily[Any]]:
    registry = installed_registry()
    for plugin in registry.plugins.values():
        yield from plugin.arguments or ()
    for action in registry.actions.values():
        yield from action.arguments


@cache
def argument_prefixes() -> tuple[str, ...]:
    return tuple(row.prefix for row in _declared_arguments() if isinstance(row, ArgumentFamily))


@cache
def reason_kinds() -> Mapping[str, ReasonKind]:
    """Return the kinds of reasons by code."""
    modules = [module for name, module in sys.modules.items() if name.startswith("ringwise.")]
    return {kind.code: kind for module in modules for kind in kinds_in(vars(module))}

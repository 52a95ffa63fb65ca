"""Reasons of the Kubernetes Events that the scheduler and the controller record."""

from __future__ import annotations

from enum import StrEnum

from ringwise.state.vcjob import COMMAND_ISSUED as VCJOB_COMMAND_ISSUED


class EventReason(StrEnum):
    """The `reason` of an Event: the one list of them."""

    # Scheduling
    SCHEDULED = "Scheduled"
    FAILED_SCHEDULING = "FailedScheduling"
    UNSCHEDULABLE = "Unschedulable"
    POD_GROUP_PENDING = "PodGroupPending"
    TOO_COSTLY = "SchedulingBackOff"
    PRIORITY_CLASS_IGNORED = "PriorityClassIgnored"
    NETWORK_TOPOLOGY_IGNORED = "NetworkTopologyIgnored"
    NETWORK_TOPOLOGY_UNREAD = "InvalidNetworkTopology"
    # Evictions and limits
    EVICT = "Evict"
    PREEMPTED = "Preempted"
    EVICTION_REFUSED = "FailedEviction"
    EXPECTED_DURATION_EXCEEDED = "ExpectedDurationExceeded"
    RUN_TIME_ENDS = "MaxRunTimeApproaching"
    RUN_TIME_OVER = "MaxRunTimeExceeded"
    DRAINED = "Drained"
    MOVING = "Moving"
    MOVED = "Moved"
    MOVE_FAILED = "FailedMove"
    # Faults
    FAULT_POLICY = "FaultPolicyIgnored"
    FAULT_FOUND = "FaultDetected"
    RESCHEDULING = "Rescheduling"
    RESCHEDULING_ESCALATED = "ReschedulingEscalated"
    RESCHEDULING_BLOCKED = "ReschedulingBlocked"
    RESCHEDULED = "Rescheduled"
    EVICTION_HELD_BACK = "EvictionBlocked"
    RESTART_BACKOFF = "BackOffRestart"
    GRACE_OVER = "GracePeriodExceeded"
    RECOVERED = "Recovered"
    POD_REJECTED = "PodRejected"
    # Objects that cannot be read or that conflict
    MALFORMED = "InvalidObject"
    INVALID_HYPER_NODE = "InvalidHyperNode"
    DUPLICATE_INTERNAL_IP = "DuplicateInternalIP"
    DISCOVERED_BY_OTHERS = "HyperNodeConflict"
    # Of the controller, with Volcano's reasons
    COMMAND_ISSUED = VCJOB_COMMAND_ISSUED
    EXECUTE_ACTION = "ExecuteAction"
    FAILED_CREATE = "FailedCreate"
    FOREIGN_OBJECT = "ObjectConflict"
    OPEN_QUEUE = "OpenQueue"
    CLOSE_QUEUE = "CloseQueue"
    PLUGIN_ARGUMENT_IGNORED = "PluginArgumentIgnored"
    POD_GROUP_ERROR = "PodGroupError"
    QUEUE_ERROR = "QueueError"

"""State objects as the events that the scheduler and the controller receive."""

from __future__ import annotations

from ringwise.framework.configuration import Configuration
from ringwise.messages import events as ev
from ringwise.state.model import (
    DeviceReport,
    Isolations,
    Node,
    NodeReport,
    Pod,
    PodGroup,
    PriorityClass,
    Queue,
    ResourceQuota,
)
from ringwise.state.vcjob import VcJob
from ringwise.state.workload import PodOwner
from ringwise.topology.switches import SwitchTopology


def event_of_object(value: object) -> ev.Event | None:
    """The event of an object that was added or changed; None for objects that no decision depends on."""
    match value:
        case Pod():
            return ev.PodSeen(value)
        case Node():
            return ev.NodeSeen(value)
        case DeviceReport():
            return ev.ReportSeen(value)
        case NodeReport():
            return ev.NodeReportSeen(value)
        case PodGroup():
            return ev.PodGroupSeen(value)
        case VcJob():
            return ev.VcJobSeen(value)
        case PodOwner():
            return ev.PodOwnerSeen(value)
        case Queue():
            return ev.QueueSeen(value)
        case PriorityClass():
            return ev.PriorityClassSeen(value)
        case ResourceQuota():
            return ev.QuotaSeen(value)
        case SwitchTopology():
            return ev.TopologySeen(value, value.unusable)
        case Isolations():
            return ev.IsolationsSeen(value)
        case Configuration():
            return ev.ConfigurationSeen(value)
    return None


def event_of_deletion(value: object) -> ev.Event | None:
    """The event of an object that was deleted.

    A deleted configuration gives none: the last one stays in use.
    """
    match value:
        case Pod():
            return ev.PodGone(value.uid)
        case Node():
            return ev.NodeGone(value.name)
        case DeviceReport():
            return ev.ReportGone(value.node, value.aggregated)
        case NodeReport():
            return ev.NodeReportGone(value.node, value.source, value.aggregated)
        case PodGroup():
            return ev.PodGroupGone(value.key)
        case VcJob():
            return ev.VcJobGone(value.key)
        case PodOwner():
            return ev.PodOwnerGone(value.uid)
        case Queue():
            return ev.QueueGone(value.name)
        case PriorityClass():
            return ev.PriorityClassGone(value.name)
        case ResourceQuota():
            return ev.QuotaGone(value.namespace, value.name)
        case SwitchTopology():
            return ev.TopologySeen(None)
        case Isolations():
            return ev.IsolationsSeen(Isolations())
    return None

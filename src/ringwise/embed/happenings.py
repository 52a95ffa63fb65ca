"""Changes of the table as the scheduler and the controller are told them."""

from __future__ import annotations

from collections.abc import Iterable

from ringwise.embed.objects import Change
from ringwise.messages import events as told
from ringwise.state.model import DeviceReport, Node, Pod, PodGroup, PriorityClass, Queue
from ringwise.state.vcjob import VcJob
from ringwise.topology.switches import SwitchTopology


def events_of(changes: Iterable[Change]) -> list[told.Event]:
    """One event per change, in order. Objects nobody decides about give none."""
    found = []
    for change in changes:
        event = _gone(change.object) if change.gone else _seen(change.object)
        if event is not None:
            found.append(event)
    return found


def _seen(value: object) -> told.Event | None:
    match value:
        case Pod():
            return told.PodSeen(value)
        case Node():
            return told.NodeSeen(value)
        case DeviceReport():
            return told.ReportSeen(value)
        case PodGroup():
            return told.PodGroupSeen(value)
        case VcJob():
            return told.VcJobSeen(value)
        case Queue():
            return told.QueueSeen(value)
        case PriorityClass():
            return told.PriorityClassSeen(value)
        case SwitchTopology():
            return told.TopologySeen(value, value.unusable)
    return None


def _gone(value: object) -> told.Event | None:
    match value:
        case Pod():
            return told.PodGone(value.uid)
        case Node():
            return told.NodeGone(value.name)
        case DeviceReport():
            return told.ReportGone(value.node, value.aggregated)
        case PodGroup():
            return told.PodGroupGone(value.key)
        case VcJob():
            return told.VcJobGone(value.key)
        case Queue():
            return told.QueueGone(value.name)
        case PriorityClass():
            return told.PriorityClassGone(value.name)
        case SwitchTopology():
            return told.TopologySeen(None)
    return None

"""Objects of the API as facts, and what changed between two sights of an object as events.

One object may carry several facts: an aggregated ConfigMap tells about a thousand nodes. What was
true before and is not any more is told as gone, whatever the reason: a deletion, a recreation under
the same name, a list that was read anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ringwise.framework.configuration import Configuration
from ringwise.messages import events as ev
from ringwise.state.model import DeviceReport, Node, Pod, PodGroup, PriorityClass, Queue
from ringwise.state.vcjob import VcJob
from ringwise.topology.switches import SwitchTopology


@dataclass(frozen=True, slots=True)
class NodeReports:
    """All that one ConfigMap says about one node's chips."""

    node: str
    aggregated: bool
    reports: tuple[DeviceReport, ...]


Fact = Node | Pod | PodGroup | Queue | PriorityClass | VcJob | NodeReports | SwitchTopology | Configuration
#: Facts of one object by their keys. A tuple, because there are as many as pods.
Facts = tuple[tuple[str, Fact], ...]


def changes(before: Facts, after: Facts) -> Iterable[ev.Event]:
    """What to tell when an object that carried the facts `before` carries `after` now."""
    if len(before) == 1 and len(after) == 1 and before[0][0] == after[0][0]:
        old, new = before[0][1], after[0][1]
        if isinstance(new, Pod):
            # There are as many as all others together.
            return () if old == new else (ev.PodSeen(new),)
        return changed(old, new)
    return _all_changes(before, after)


def _all_changes(before: Facts, after: Facts) -> Iterator[ev.Event]:
    old, new = dict(before), dict(after)
    for key, fact in old.items():
        if key not in new:
            yield from gone(fact)
    for key, fact in new.items():
        yield from changed(old.get(key), fact)


def changed(old: Fact | None, new: Fact) -> Iterator[ev.Event]:
    if old is None:
        yield from seen(new)
    elif isinstance(new, NodeReports) and isinstance(old, NodeReports):
        yield from _changed_reports(old, new)
    elif old != new:
        yield from seen(new)


def _changed_reports(old: NodeReports, new: NodeReports) -> Iterator[ev.Event]:
    known = {report.resource: report for report in old.reports}
    if known.keys() - {report.resource for report in new.reports}:
        # A resource can only be dropped with all others of the node.
        yield from gone(old)
        known = {}
    for report in new.reports:
        before = known.get(report.resource)
        # The report's time changes every few minutes; that alone is no news.
        if before is None or replace(before, update_time=report.update_time) != report:
            yield ev.ReportSeen(report)


def seen(fact: Fact) -> Iterator[ev.Event]:
    match fact:
        case Pod():
            yield ev.PodSeen(fact)
        case Node():
            yield ev.NodeSeen(fact)
        case PodGroup():
            yield ev.PodGroupSeen(fact)
        case VcJob():
            yield ev.VcJobSeen(fact)
        case Queue():
            yield ev.QueueSeen(fact)
        case PriorityClass():
            yield ev.PriorityClassSeen(fact)
        case NodeReports():
            yield from (ev.ReportSeen(report) for report in fact.reports)
        case SwitchTopology():
            yield ev.TopologySeen(fact, fact.unusable)
        case Configuration():
            yield ev.ConfigurationSeen(fact)


def gone(fact: Fact) -> Iterator[ev.Event]:
    match fact:
        case Pod():
            yield ev.PodGone(fact.uid)
        case Node():
            yield ev.NodeGone(fact.name)
        case PodGroup():
            yield ev.PodGroupGone(fact.key)
        case VcJob():
            yield ev.VcJobGone(fact.key)
        case Queue():
            yield ev.QueueGone(fact.name)
        case PriorityClass():
            yield ev.PriorityClassGone(fact.name)
        case NodeReports():
            yield ev.ReportGone(fact.node, fact.aggregated)
        case SwitchTopology():
            yield ev.TopologySeen(None)
        case Configuration():
            # The last good configuration goes on; nobody is to be surprised by another one.
            return

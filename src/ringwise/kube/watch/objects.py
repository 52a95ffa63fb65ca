"""Objects read from the API, and the events that follow from a change between two versions of one of them.

One API object can hold several: an aggregated ConfigMap reports on a thousand nodes. Whatever was there
before and no longer is gives a deletion event, whether the API object was deleted, replaced under the same
name, or missing in the next list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ringwise.manifests.kinds import event_of_deletion, event_of_object
from ringwise.messages import events as ev
from ringwise.records import dataclass
from ringwise.state.model import DeviceReport, Pod


@dataclass(frozen=True, slots=True)
class NodeReports:
    """The device reports of one node in one ConfigMap, one per chip resource."""

    node: str
    aggregated: bool
    reports: tuple[DeviceReport, ...]


#: The objects in one API object, with their keys. A tuple and not a dict, because there is one for every pod.
KeyedObjects = tuple[tuple[str, object], ...]


def change_events(before: KeyedObjects, after: KeyedObjects) -> Iterable[ev.Event]:
    """The events of an API object that held the objects `before` and holds `after` now."""
    if len(before) == 1 and len(after) == 1 and before[0][0] == after[0][0]:
        old, new = before[0][1], after[0][1]
        if isinstance(new, Pod):
            # A short path: there are as many pods as all other objects together.
            return () if old == new else (ev.PodSeen(new),)
        return _changed(old, new)
    return _all_changes(before, after)


def _all_changes(before: KeyedObjects, after: KeyedObjects) -> Iterator[ev.Event]:
    old, new = dict(before), dict(after)
    for key, value in old.items():
        if key not in new:
            yield from deletion_events(value)
    for key, value in new.items():
        yield from _changed(old.get(key), value)


def _changed(old: object, new: object) -> Iterator[ev.Event]:
    if isinstance(new, NodeReports):
        yield from _changed_reports(old if isinstance(old, NodeReports) else None, new)
    elif old != new and (event := event_of_object(new)) is not None:
        yield event


def _changed_reports(old: NodeReports | None, new: NodeReports) -> Iterator[ev.Event]:
    if old is not None and old.reports == new.reports:
        return
    previous = {report.resource: report for report in old.reports} if old is not None else {}
    if old is not None and previous.keys() - {report.resource for report in new.reports}:
        # There is no event for one resource: all reports of the node are deleted and sent again.
        yield from deletion_events(old)
        previous = {}
    for report in new.reports:
        before = previous.get(report.resource)
        # The update time alone changes every few minutes and matters to no decision.
        if before is None or replace(before, update_time=report.update_time) != report:
            yield ev.ReportSeen(report)


def deletion_events(value: object) -> Iterator[ev.Event]:
    if isinstance(value, NodeReports):
        yield ev.ReportGone(value.node, value.aggregated)
    elif (event := event_of_deletion(value)) is not None:
        yield event

"""After a relation fault ClusterD's word comes before that of the device plugin: chips whose link is down.

For 20 s such chips of the node count as network-unhealthy, as with Huawei's plugin, although their fault
(81078603) has a level that is not handled. By then the device plugin lists them itself, or the link is up.
"""

from __future__ import annotations

from collections.abc import Sequence

from ringwise.messages.commands import Command
from ringwise.messages.events import ReportGone, ReportSeen
from ringwise.reasons import Trigger
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on

LINK_DOWN_CODE = "81078603"
COUNTS_FOR = 20_000_000_000


class LinkDownNodes(Component):
    name = "links down"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        #: Node to the end of its time, in nanoseconds.
        self._until = context.deadlines.table()

    @on(ie.RelationFault)
    def _relation_fault(self, event: ie.RelationFault, now: int) -> None:
        self._until.put(event.node, now + COUNTS_FOR)
        self._read(event.node)

    @on(ReportSeen, ReportGone)
    def _report_changed(self, event: ReportSeen | ReportGone, now: int) -> None:
        self._read(event.about[1])

    def _read(self, node: str) -> None:
        if node not in self._until:
            return
        for resource in self._state.fleets:
            report = self._state.report_of(node, resource)
            mask = 0
            for fault in () if report is None else report.faults:
                if fault.code.upper() == LINK_DOWN_CODE:
                    mask |= 1 << fault.chip
            self._state.put_links_down(node, resource, mask)

    def act(self, now: int) -> Sequence[Command]:
        for node in self._until.take(now):
            for resource in self._state.fleets:
                self._state.put_links_down(node, resource, 0)
            self._triggers.add(Trigger.HEALTH_CHANGED)
        return ()

"""What is remembered of faults of nodes: since when they are known, links that are down, and failed vNPUs."""

from __future__ import annotations

from collections.abc import Sequence

from ringwise.framework.part_selection import AVOIDED
from ringwise.messages.commands import Command
from ringwise.messages.events import ReportGone, ReportSeen
from ringwise.placement.vnpus import EVERY_TEMPLATE
from ringwise.reasons import Trigger
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on
from ringwise.scheduler.cache.record_tables import RecordTable, RestoredRecord
from ringwise.scheduler.node_faults import NodeFault, node_faults
from ringwise.state.part_requests import binding_of
from ringwise.wellknown import NPU_CORE, SEGMENT_FAILED

LINK_DOWN_CODE = "81078603"
COUNTS_FOR = 20_000_000_000


class FaultTimes(Component):
    """Since when the faults of nodes are known. Nothing is decided by it."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._since: dict[str, dict[NodeFault, int]] = {}
        #: When the first fault was reported. The age of faults that existed before is not known.
        self._began: int | None = None

    @on(ie.NodeChanged)
    def _node_changed(self, event: ie.NodeChanged, now: int) -> None:
        name = event.name
        if self._began is None:
            self._began = now
        number = self._state.node_id.get(name)
        faults = () if number is None else node_faults(self._state, number)
        if not faults:
            self._since.pop(name, None)
            return
        before = self._since.get(name, {})
        self._since[name] = {fault: before.get(fault, now) for fault in faults}

    def since(self, fault: NodeFault) -> int | None:
        """In nanoseconds; None where it is not known."""
        time = self._since.get(fault.node, {}).get(fault)
        return time if time is not None and self._began is not None and time > self._began else None


class LinkDownNodes(Component):
    """After a relation fault ClusterD's word comes before that of the device plugin.

    For 20 s chips of the node whose link is down count as network-unhealthy, as with Huawei's plugin,
    although their fault (81078603) has a level that is not handled. By then the device plugin lists them
    itself, or the link is up.
    """

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


class FailedVnpus(Component):
    """V16: a chip on which a vNPU could not be created is not used for that template for some time."""

    name = "failed vNPUs"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._due = context.deadlines.table()
        kind = dict[tuple[int, str], int]
        self._failed: RecordTable[dict[tuple[int, str], int]]
        self._failed = context.record.add(
            RecordTable("failed-vnpus", kind, subject=lambda node, failed: "", droppable=lambda failed: True)
        )
        context.state.failed_vnpus = self._failed

    @on(ie.PodEnding)
    def _pod_ending(self, event: ie.PodEnding, now: int) -> None:
        pod = event.pod
        if pod is None or not pod.allocate_error or pod.node is None or pod.cls.part is None:
            return
        if pod.cls.part.resource != NPU_CORE:
            return
        record = self._state.pods.get(pod.uid)
        if record is not None and record.pod.allocate_error:
            return
        written = binding_of(pod)
        bound = record.binding if record is not None and record.binding is not None else written
        if bound is None or written != bound:
            # Its owner edited the annotation: what failed is not what the scheduler chose.
            return
        template = (
            bound.template if pod.allocate_error == SEGMENT_FAILED and bound.template else EVERY_TEMPLATE
        )
        at = min(pod.ended, now) if pod.ended else now
        if at + AVOIDED <= now:
            return
        failed = dict(self._failed.get(pod.node, {}))
        for chip in bound.chips:
            failed[chip, template] = max(at, failed.get((chip, template), 0))
        self._put(pod.node, failed)

    def _put(self, node: str, failed: dict[tuple[int, str], int]) -> None:
        self._failed[node] = failed
        self._due.put(node, min(failed.values()) + AVOIDED)
        self._changed(node)

    def _changed(self, node: str) -> None:
        number = self._state.node_id.get(node)
        if number is not None:
            self._state.refresh_node(number)

    def review(self, now: int) -> None:
        for node in self._due.due(now):
            self._due.pop(node)
            recent = {key: at for key, at in self._failed.get(node, {}).items() if at + AVOIDED > now}
            if recent:
                self._put(node, recent)
            else:
                self._failed.pop(node)
                self._changed(node)
            self._triggers.add(Trigger.CHIPS_FREED)

    def restore(self, record: RestoredRecord, now: int) -> None:
        for node, failed in record.of(self._failed).items():
            # Whatever the clock of the previous leader was.
            read = {key: min(at, now) for key, at in failed.items()}
            current = self._failed.get(node, {})
            recent = {key: at for key, at in {**current, **read}.items() if at + AVOIDED > now}
            if recent:
                self._put(node, recent)

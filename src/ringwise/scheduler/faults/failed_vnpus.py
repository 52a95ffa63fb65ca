"""V16: a chip on which a vNPU could not be created is not used for that template for some time."""

from __future__ import annotations

from ringwise.framework.part_selection import AVOIDED
from ringwise.placement.vnpus import EVERY_TEMPLATE
from ringwise.reasons import Trigger
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on
from ringwise.scheduler.cache.record_tables import RecordTable, RestoredRecord
from ringwise.state.part_requests import binding_of
from ringwise.wellknown import NPU_CORE, SEGMENT_FAILED


class FailedVnpus(Component):
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

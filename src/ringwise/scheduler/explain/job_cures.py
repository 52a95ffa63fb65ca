"""Cures that change the job itself, or its queue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ringwise.placement.switches.classes import asks_for_switches
from ringwise.plugins.reasons import SELECTOR_MISMATCH
from ringwise.reasons import Reason
from ringwise.scheduler.explain.cure_search import Cure, Suppose, Trying
from ringwise.scheduler.explain.what_if import Change, changed, queue_is
from ringwise.topology.policy import PolicyFacts, select_board
from ringwise.wellknown import SP_BLOCK, SUPER_POD_AFFINITY, TOR_AFFINITY


class JobCures(Trying):
    def _change(self, change: Change) -> Suppose:
        return partial(changed, self._scheduler, self._job, change)

    def _sizes(self) -> Iterator[Cure]:
        """Another valid number of chips in each pod: the largest below, and for odd ones the next above."""
        pods = [pod for pod in self._job.chip_pods if self._waits(pod.uid)]
        asked = {pod.cls.chips for pod in pods}
        if len(asked) != 1 or len(pods) != len(self._job.chip_pods):
            return
        now = asked.pop()
        sizes = self._allowed(len(pods))
        below = sorted((size for size in sizes if size < now), reverse=True)
        above = sorted(size for size in sizes if size > now) if now not in sizes else []
        each = " in each pod" if len(pods) > 1 else ""
        for tried in (below, above[:1]):
            for size in tried:
                found = list(
                    self._try(
                        "size", f"with {size} instead of {now} chips{each}", self._change(Change(chips=size))
                    )
                )
                if found:
                    yield found[0]
                    break

    def _allowed(self, pods: int) -> frozenset[int]:
        job = self._job
        first = job.chip_pods[0]
        facts = PolicyFacts(
            first.cls.resource or "", job.annotations, job.labels, dict(first.cls.node_selector)
        )
        board = job.policy.board if job.policy else select_board(self._scheduler.world.catalog, facts)
        if isinstance(board, Reason):
            return frozenset()
        return board.requests(pods, self._scheduler.configuration.settings.multi_pod_requests)

    def _waits(self, uid: str) -> bool:
        return self._scheduler.state.pods[uid].node < 0

    def _minimum(self) -> Iterator[Cure]:
        """The largest smaller gang that starts, found by halving."""
        job = self._job
        low, high = 0, job.min_available
        if high <= 1:
            return
        while high - low > 1:
            middle = (low + high) // 2
            if self._holds(self._change(Change(min_available=middle))):
                low = middle
            else:
                high = middle
        if low:
            text = f"with minAvailable {low} instead of {job.min_available}"
            yield self._cure("min-available", text, self._change(Change(min_available=low)))

    def _labels(self) -> Iterator[Cure]:
        job = self._job
        value = job.labels.get(TOR_AFFINITY)
        if asks_for_switches(value):
            change = Change(labels={TOR_AFFINITY: None})
            yield from self._try("label", f"without the label {TOR_AFFINITY}: {value}", self._change(change))
        if SP_BLOCK in job.annotations and job.labels.get(SUPER_POD_AFFINITY) != "soft":
            change = Change(labels={SUPER_POD_AFFINITY: "soft"})
            yield from self._try("label", "with the label super-pod-affinity: soft", self._change(change))
        if asks_for_switches(value) and SP_BLOCK in job.annotations:
            change = Change(annotations={SP_BLOCK: None})
            yield from self._try("label", "without the annotation sp-block", self._change(change))

    def _selectors(self) -> Iterator[Cure]:
        if SELECTOR_MISMATCH.code not in self._codes:
            return
        selector = dict(self._job.in_order[0].cls.node_selector)
        for key, value in selector.items():
            change = Change(unselected=frozenset({key}))
            yield from self._try("selector", f"without the nodeSelector {key}: {value}", self._change(change))

    # -- its queue -----------------------------------------------------------------------------------

    def _queues(self) -> Iterator[Cure]:
        scheduler, job = self._scheduler, self._job
        reason = job.reason
        if reason is None or "queue" not in reason.code:
            return
        queue = scheduler.book.queues.get(job.queue)
        if queue is not None:
            used = scheduler.ledger.used_by_queue(queue.name)
            needed = {
                name: max(limit, used.get(name, 0) + job.min_asked().get(name, 0))
                for name, limit in queue.capability.items()
            }
            raised = [name for name in needed if needed[name] > queue.capability[name]]
            if raised:
                words = ", ".join(
                    f"{needed[name]} of {name} (now {queue.capability[name]})" for name in raised
                )
                wider = replace(queue, capability=needed)
                text = f"if the capability of queue {queue.name} were {words}"
                yield from self._try("queue", text, partial(queue_is, scheduler, wider))
            if queue.state != "Open":
                opened = replace(queue, state="Open")
                text = f"if queue {queue.name} were open"
                yield from self._try("queue", text, partial(queue_is, scheduler, opened))
            if "share" in reason.code or "overused" in reason.code:
                yield from self._weights()
        for other in sorted(scheduler.book.queues)[:16]:
            if other != job.queue:
                found = list(self._try("queue", f"in queue {other}", self._change(Change(queue=other))))
                yield from found
                if found:
                    return

    def _weights(self) -> Iterator[Cure]:
        scheduler = self._scheduler
        queue = scheduler.book.queues[self._job.queue]
        for factor in (2, 4, 8, 16, 32):
            heavier = replace(queue, weight=max(1, queue.weight) * factor)
            text = f"if the weight of queue {queue.name} were {heavier.weight} (now {queue.weight})"
            found = list(self._try("queue", text, partial(queue_is, scheduler, heavier)))
            if found:
                yield from found
                return

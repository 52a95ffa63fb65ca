"""Metrics of the scheduler. Where Volcano has one that means the same, it is there under that name, too.

The metrics are plain numbers. prometheus_client turns them into text when they are scraped, and is imported
then. One thread changes a metric: the core thread those of a cycle, the event loop all others.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_SHORT = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_MILLISECONDS = tuple(seconds * 1000 for seconds in _SHORT)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[str, ...]


class MetricFamily:
    """Values by labels; a family without labels has one value, 0 at first."""

    def __init__(self, kind: str, name: str, text: str, *labels: str) -> None:
        self._type = kind
        self._name = name
        self._text = text
        self._labelnames = labels
        self._values: dict[Labels, float] = {} if labels else {(): 0.0}
        self._created = time.time()

    def inc(self, *labels: str, by: float = 1) -> None:
        self._values[labels] = self._values.get(labels, 0.0) + by

    def reset(self) -> None:
        """All values to zero; the labels stay."""
        self._values = dict.fromkeys(self._values, 0.0)

    def set(self, value: float, *labels: str) -> None:
        self._values[labels] = value

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        # A copy: the event loop may add labels meanwhile.
        values = dict(self._values)
        if self._type == "gauge":
            gauge = GaugeMetricFamily(self._name, self._text, labels=self._labelnames)
            for labels, value in values.items():
                gauge.add_metric(labels, value)
            yield gauge
        else:
            counter = CounterMetricFamily(self._name, self._text, labels=self._labelnames)
            for labels, value in values.items():
                counter.add_metric(labels, value, created=self._created)
            yield counter


class HistogramFamily:
    """How many values are at most as large as each bound."""

    _type = "histogram"
    _labelnames: Labels = ()

    def __init__(self, name: str, text: str, bounds: tuple[float, ...]) -> None:
        self._name = name
        self._text = text
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._created = time.time()

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import HistogramMetricFamily
        from prometheus_client.utils import floatToGoString

        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        family = HistogramMetricFamily(self._name, self._text)
        family.add_metric((), list(zip(bounds, accumulate(self._counts), strict=True)), self._sum)
        family.add_sample(f"{self._name}_created", {}, self._created)
        yield family


def _counter(name: str, text: str, *labels: str) -> MetricFamily:
    return MetricFamily("counter", name, text, *labels)


def _gauge(name: str, text: str, *labels: str) -> MetricFamily:
    return MetricFamily("gauge", name, text, *labels)


class Metrics:
    """The metrics of one process."""

    def __init__(self) -> None:
        self._cycle = HistogramFamily("ringwise_cycle_seconds", "Duration of one cycle of the core", _SHORT)
        self._events = _counter("ringwise_events", "Events received by the core")
        self._commands = _counter("ringwise_commands", "Commands of the core")
        self._bind = HistogramFamily(
            "ringwise_bind_seconds", "From the decision to the response of the API server", _SHORT
        )
        self._bindings = _counter("ringwise_bindings", "Pods bound")
        self._bind_errors = _counter("ringwise_bind_errors", "Failed bindings, by kind of error", "kind")
        self._bind_retries = _counter(
            "ringwise_bind_retries", "Retries of bindings, by kind of error", "kind"
        )
        self._queue = _gauge("ringwise_queue_length", "Requests that wait to be sent", "queue")
        self._leader = _gauge("ringwise_leader", "1 while this replica leads")
        self._relists = _counter(
            "ringwise_relists", "Lists repeated after an interrupted watch", "kind", "why"
        )
        self._malformed = _gauge("ringwise_malformed_objects", "API objects that cannot be read")
        self._dropped = _counter(
            "ringwise_status_dropped", "Status updates, conditions and events that were not written", "kind"
        )
        self._pending = _gauge("ringwise_pending_jobs", "Pending jobs, by reason", "reason")
        self._chips = _gauge("ringwise_chips", "Chips by resource and state", "resource", "state")
        self._shadow = _counter("ringwise_shadow_decisions", "Pods compared in shadow mode", "outcome")
        self._volcano_cycle = HistogramFamily(
            "volcano_e2e_scheduling_latency_milliseconds", "Duration of one cycle", _MILLISECONDS
        )
        self._volcano_attempts = _counter(
            "volcano_schedule_attempts", "Attempts to schedule pods, by result", "result"
        )
        self._volcano_unscheduled = _gauge("volcano_unschedule_job_count", "Jobs that could not be scheduled")

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        for family in vars(self).values():
            registry.register(family)
        return generate_latest(registry)

    # -- observations -----------------------------------------------------------------------

    def cycle(self, seconds: float, events: int, commands: int) -> None:
        if not events and not commands:
            return
        self._cycle.observe(seconds)
        self._volcano_cycle.observe(seconds * 1000)
        self._events.inc(by=events)
        self._commands.inc(by=commands)

    def bound(self, seconds: float) -> None:
        self._bindings.inc()
        self._bind.observe(seconds)
        self._volcano_attempts.inc("scheduled")

    def bind_failed(self, kind: str) -> None:
        self._bind_errors.inc(kind)
        self._volcano_attempts.inc("error")

    def bind_retried(self, kind: str) -> None:
        self._bind_retries.inc(kind)

    def queue_length(self, queue: str, length: int) -> None:
        self._queue.set(length, queue)

    def leading(self, leads: bool) -> None:
        self._leader.set(int(leads))

    def relisted(self, kind: str, why: str) -> None:
        self._relists.inc(kind, why)

    def malformed(self, count: int) -> None:
        self._malformed.set(count)

    def status_dropped(self, kind: str) -> None:
        self._dropped.inc(kind)

    def pending(self, by_reason: Mapping[str, int]) -> None:
        # A reason without jobs goes to zero; it does not stay at its last value.
        self._pending.reset()
        for reason, jobs in by_reason.items():
            self._pending.set(jobs, reason)
        self._volcano_unscheduled.set(sum(by_reason.values()))

    def chips(self, resource: str, free: int, held: int, unhealthy: int) -> None:
        for state, count in (("free", free), ("held", held), ("unhealthy", unhealthy)):
            self._chips.set(count, resource, state)

    def shadow(self, outcome: str) -> None:
        self._shadow.inc(outcome)

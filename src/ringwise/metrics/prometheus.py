"""Metrics for Prometheus, also under the name of Volcano's metric where one has the same meaning."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SHORT = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_MILLISECONDS = tuple(seconds * 1000 for seconds in _SHORT)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The metrics of one process, in a registry of their own. It implements the observer of `kube`."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        self._cycle = Histogram(
            "ringwise_cycle_seconds", "Duration of one cycle of the core", buckets=_SHORT, registry=registry
        )
        self._events = Counter("ringwise_events", "Events received by the core", registry=registry)
        self._commands = Counter("ringwise_commands", "Commands of the core", registry=registry)
        self._bind = Histogram(
            "ringwise_bind_seconds",
            "From the decision to the response of the API server",
            buckets=_SHORT,
            registry=registry,
        )
        self._bindings = Counter("ringwise_bindings", "Pods bound", registry=registry)
        self._bind_errors = Counter(
            "ringwise_bind_errors", "Failed bindings, by kind of error", ["kind"], registry=registry
        )
        self._bind_retries = Counter(
            "ringwise_bind_retries", "Retries of bindings, by kind of error", ["kind"], registry=registry
        )
        self._queue = Gauge(
            "ringwise_queue_length", "Requests that wait to be sent", ["queue"], registry=registry
        )
        self._leader = Gauge("ringwise_leader", "1 while this replica leads", registry=registry)
        self._relists = Counter(
            "ringwise_relists",
            "Lists repeated after an interrupted watch",
            ["kind", "why"],
            registry=registry,
        )
        self._malformed = Gauge(
            "ringwise_malformed_objects", "API objects that cannot be read", registry=registry
        )
        self._dropped = Counter(
            "ringwise_status_dropped",
            "Status updates, conditions and events that were not written",
            ["kind"],
            registry=registry,
        )
        self._pending = Gauge(
            "ringwise_pending_jobs", "Pending jobs, by reason", ["reason"], registry=registry
        )
        self._chips = Gauge(
            "ringwise_chips", "Chips by resource and state", ["resource", "state"], registry=registry
        )
        self._shadow = Counter(
            "ringwise_shadow_decisions", "Pods compared in shadow mode", ["outcome"], registry=registry
        )
        self._volcano_cycle = Histogram(
            "volcano_e2e_scheduling_latency_milliseconds",
            "Duration of one cycle",
            buckets=_MILLISECONDS,
            registry=registry,
        )
        self._volcano_attempts = Counter(
            "volcano_schedule_attempts", "Attempts to schedule pods, by result", ["result"], registry=registry
        )
        self._volcano_unscheduled = Gauge(
            "volcano_unschedule_job_count", "Jobs that could not be scheduled", registry=registry
        )
        self._reasons: set[str] = set()

    def text(self) -> bytes:
        return generate_latest(self._registry)

    # -- observer ------------------------------------------------------------------------------

    def cycle(self, seconds: float, events: int, commands: int) -> None:
        if not events and not commands:
            return
        self._cycle.observe(seconds)
        self._volcano_cycle.observe(seconds * 1000)
        self._events.inc(events)
        self._commands.inc(commands)

    def bound(self, seconds: float) -> None:
        self._bindings.inc()
        self._bind.observe(seconds)
        self._volcano_attempts.labels("scheduled").inc()

    def bind_failed(self, kind: str) -> None:
        self._bind_errors.labels(kind).inc()
        self._volcano_attempts.labels("error").inc()

    def bind_retried(self, kind: str) -> None:
        self._bind_retries.labels(kind).inc()

    def queue_length(self, queue: str, length: int) -> None:
        self._queue.labels(queue).set(length)

    def leading(self, leads: bool) -> None:
        self._leader.set(int(leads))

    def relisted(self, kind: str, why: str) -> None:
        self._relists.labels(kind, why).inc()

    def malformed(self, count: int) -> None:
        self._malformed.set(count)

    def status_dropped(self, kind: str) -> None:
        self._dropped.labels(kind).inc()

    def pending(self, by_reason: Mapping[str, int]) -> None:
        # A reason without jobs is set to zero; it must not keep its last value.
        self._reasons |= by_reason.keys()
        for reason in self._reasons:
            self._pending.labels(reason).set(by_reason.get(reason, 0))
        self._volcano_unscheduled.set(sum(by_reason.values()))

    def chips(self, resource: str, free: int, held: int, unhealthy: int) -> None:
        for state, count in (("free", free), ("held", held), ("unhealthy", unhealthy)):
            self._chips.labels(resource, state).set(count)

    def shadow(self, outcome: str) -> None:
        self._shadow.labels(outcome).inc()

"""Metrics of the scheduler and the controller.

One thread changes a metric: the core thread those of a cycle, the event loop all others.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from ringwise.metrics.families import HistogramFamily, MetricSet, counter, gauge
from ringwise.metrics.volcano import VolcanoMetrics

_SHORT = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics(MetricSet):
    """The metrics of one process of the scheduler."""

    def __init__(self, *, volcano: bool = False) -> None:
        #: Those of Volcano, if they are switched on.
        self.volcano = VolcanoMetrics() if volcano else None
        self._cycle = HistogramFamily(
            "ringwise_cycle_duration_seconds", "Duration of a scheduling cycle", _SHORT
        )
        self._last_cycle = gauge(
            "ringwise_last_cycle_timestamp_seconds",
            "Unix time of the last turn of the leader, which runs one every few seconds",
        )
        self._events = counter("ringwise_events", "Events that the scheduler handled")
        self._commands = counter("ringwise_commands", "Commands that the scheduler issued")
        self._bind = HistogramFamily(
            "ringwise_bind_duration_seconds", "Time from a decision to the response of the API server", _SHORT
        )
        self._bindings = counter("ringwise_bindings", "Pods bound")
        self._bind_errors = counter("ringwise_bind_errors", "Failed bindings, by reason", "reason")
        self.bind_retries = counter("ringwise_bind_retries", "Retries of bindings, by reason", "reason")
        self._queue = gauge("ringwise_request_queue_depth", "Requests that are waiting to be sent", "name")
        self.leader = gauge("ringwise_leader", "1 while this replica is the leader")
        self.relists = counter(
            "ringwise_relists", "Lists repeated after an interrupted watch", "kind", "reason"
        )
        self.invalid_objects = gauge("ringwise_invalid_objects", "API objects that cannot be read")
        self.internal_errors = counter(
            "ringwise_internal_errors",
            "Internal errors in the handling of objects; each is logged",
        )
        self.dropped_updates = counter(
            "ringwise_status_updates_dropped",
            "Status updates, conditions and events that were not written",
            "kind",
        )
        self._pending = gauge("ringwise_pending_jobs", "Pending jobs, by reason", "reason")
        self.job_backoffs = counter(
            "ringwise_job_backoffs",
            "Attempts to schedule a job that were stopped because they took too many steps, by reason",
            "reason",
        )
        self.throttled = gauge(
            "ringwise_throttled_namespace_cpu_seconds",
            "CPU time that a throttled namespace used in the last minute; 0 if it is no longer throttled",
            "namespace",
        )
        self.omitted_entries = gauge(
            "ringwise_rescheduling_omitted_entries",
            "Entries about rescheduled jobs that do not fit in their ConfigMap",
        )
        self.moves = counter(
            "ringwise_move_plans",
            "MovePlans that the scheduler accepted (planned), and that ended (done or failed)",
            "result",
        )
        self.saved = counter(
            "ringwise_moves_saved_chip_seconds",
            "Chips of pending jobs times the seconds by which moves of other jobs let them start earlier",
        )
        self.unusable_chips = gauge(
            "ringwise_chips_unusable_for_head",
            "Free chips while the first job of a queue does not fit, although it requests no more than these",
            "resource",
        )
        self._chips = gauge(
            "ringwise_chips",
            "Chips by resource and state: used, faulty, isolated, reserved, unschedulable or free; "
            "a chip in use that is faulty or isolated counts as both",
            "resource",
            "state",
        )
        self._capacity = gauge("ringwise_chip_capacity", "Chips by resource, in any state", "resource")
        self.stale_reports = gauge(
            "ringwise_stale_device_reports",
            "Ready nodes whose device plugin has not written its report for ten minutes",
        )
        self._before_drain = gauge(
            "ringwise_chips_until_drain",
            "Free chips on nodes with a later drain or reservation, only for jobs that end before it",
            "resource",
        )
        self.held = counter(
            "ringwise_allocated_chip_seconds",
            "Allocated chips times seconds, since this replica became the leader",
            "queue",
        )
        self.lost = counter(
            "ringwise_lost_chip_seconds",
            "Chips times seconds of lost work, by reason: fault, preempt, move, drain, ...",
            "queue",
            "reason",
        )
        self.evicted = counter(
            "ringwise_evicted_pods",
            "Pods with chips that were evicted, by reason: fault, preempt, reclaim, move, drain, ...",
            "queue",
            "reason",
        )
        self.waited = counter(
            "ringwise_job_pending_seconds", "Seconds that jobs were pending before they started", "queue"
        )
        self.starts = counter("ringwise_job_starts", "Job starts", "queue")
        self.failures = counter("ringwise_job_failures", "Runs of jobs that failed on their own", "queue")
        self.shadow = counter("ringwise_shadow_decisions", "Pods compared in shadow mode", "result")
        #: Changed by the core thread and by that of the journal.
        self.journal_dropped = counter(
            "ringwise_journal_dropped_turns", "Turns that are missing from the journal (--journal)"
        )

    # -- observations -----------------------------------------------------------------------

    def cycle(self, seconds: float, events: int, commands: int, at: float) -> None:
        """A turn of the leader ended at the Unix time `at`."""
        self._last_cycle.set(at)
        if not events and not commands:
            return
        self._cycle.observe(seconds)
        self._events.inc(by=events)
        self._commands.inc(by=commands)

    def bound(self, seconds: float) -> None:
        """A pod was bound this many seconds after the decision."""
        self._bindings.inc()
        self._bind.observe(seconds)
        if self.volcano is not None:
            self.volcano.attempts.inc("scheduled")
            self.volcano.bind.observe(seconds * 1000, "Bind")

    def bind_failed(self, kind: str) -> None:
        self._bind_errors.inc(kind)
        if self.volcano is not None:
            self.volcano.attempts.inc("error")

    def queue_length(self, queue: str, length: int) -> None:
        self._queue.set(length, queue)

    def pending(self, by_reason: Mapping[str, int]) -> None:
        # A reason without jobs goes to zero; it does not stay at its last value.
        self._pending.reset()
        for reason, jobs in by_reason.items():
            self._pending.set(jobs, reason)
        if self.volcano is not None:
            self.volcano.unscheduled.set(sum(by_reason.values()))

    def resources(self, names: Container[str]) -> None:
        """Remove the chips of all other resources, which no node offers."""
        for family in (self._before_drain, self._capacity, self._chips, self.unusable_chips):
            family.keep(names)

    def chips(self, resource: str, capacity: int, counts: Mapping[str, int], until_drain: int) -> None:
        """`until_drain`: of the free ones, on nodes that are drained or reserved later."""
        self._before_drain.set(until_drain, resource)
        self._capacity.set(capacity, resource)
        for state, count in counts.items():
            self._chips.set(count, resource, state)

"""Volcano's metrics: its names, labels and units, for dashboards that query them.

One thread changes a metric: the core thread, except those of bindings and created pods.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ringwise.framework.amounts import Amount, as_number
from ringwise.framework.step_timer import CycleStep
from ringwise.metrics.families import HistogramFamily, MetricFamily, MetricSet, counter, gauge

#: Upper bounds in milliseconds: of a cycle and its actions, of a plugin, and of the wait of a job or a pod.
_CYCLE = (0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10_000.0)
_PLUGIN = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0)
_WAIT = (
    50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10_000.0, 30_000.0, 60_000.0,
    300_000.0, 600_000.0, 1_800_000.0, 3_600_000.0, 14_400_000.0, 86_400_000.0,
)  # fmt: skip
#: What is shown of each queue, and how.
_AMOUNTS = {
    "allocated": "used by its pods",
    "request": "that its pods use or request",
    "deserved": "deserved by the queue",
    "capacity": "of the queue's capability",
    "real_capacity": "that the queue can use at most, excluding the guarantees of other queues",
    "inqueue": "admitted to jobs but not yet used",
}
_PHASES = ("Inqueue", "Pending", "Running", "Unknown", "Completed")


class VolcanoMetrics(MetricSet):
    """The metrics of Volcano that are exported; `docs/reference/volcano-metrics.md` lists all of them."""

    def __init__(self) -> None:
        # -- cycles
        self._cycle = _histogram(
            "e2e_scheduling_latency_milliseconds", "Duration of a cycle, from open to close", _CYCLE
        )
        self._opening = _histogram(
            "open_session_duration_milliseconds", "Duration of opening the session of a cycle", _CYCLE
        )
        self._plugin = _histogram(
            "plugin_scheduling_latency_milliseconds",
            "Duration of opening a plugin in a cycle; plugins are not closed, so OnSession is OnSessionOpen",
            _PLUGIN,
            "plugin",
            "OnSession",
        )
        self._action = _histogram(
            "action_scheduling_latency_milliseconds", "Duration of an action in a cycle", _CYCLE, "action"
        )
        # -- pods
        self.assumed = _histogram(
            "task_scheduling_latency_milliseconds",
            "Time from the creation of a pod to a stage; only Assumed, when it is placed on a node",
            _WAIT,
            "stage",
        )
        self.bind = _histogram(
            "scheduling_stage_duration_milliseconds",
            "Duration of a stage of one pod; only Bind, from the decision to the response of the API server",
            _CYCLE,
            "stage",
        )
        self.pod_created = _histogram(
            "controller_job_to_pod_creation_latency_milliseconds",
            "Time from the creation of a vcjob to the creation of each of its pods",
            _WAIT,
        )
        self.attempts = counter(
            "volcano_schedule_attempts", "Attempts to bind pods, by result: scheduled or error", "result"
        )
        self.victims = gauge(
            "volcano_pod_preemption_victims", "Pods evicted for the last job that preempted others"
        )
        # Prometheus' client gives every counter the suffix _total, which Volcano's name does not have.
        self.preemptions = MetricFamily(
            "untyped", "volcano_total_preemption_attempts", "Preemptions, each for one job in one cycle"
        )
        self.evictions = counter(
            "volcano_eviction_transactions", "Sets of evictions for one job, by action", "action"
        )
        # -- jobs
        self.unscheduled = gauge("volcano_unschedule_job_count", "Jobs that could not be scheduled")
        self.job_latency = _histogram(
            "e2e_job_scheduling_latency_milliseconds",
            "Time from the creation of a job to its last placed pod, for each turn that placed one",
            _WAIT,
        )
        self.job_duration = _of_job("duration", "The same for each job, in milliseconds")
        self.job_start = _of_job("start_time", "When the job was created, in seconds since 1970")
        self.job_last = _of_job("last_time", "When its last pod was placed, in seconds since 1970")
        self.missing_pods = gauge(
            "volcano_unschedule_task_count",
            "Pods that a pending job requires to start; jobs with the same name are added up",
            "job_id",
        )
        self.job_share = gauge(
            "volcano_job_share",
            "Largest share of a cluster resource that a job uses",
            "job_ns",
            "job_id",
        )
        # -- queues
        self.share = _of_queue("share", "Largest ratio of used to deserved resources of a queue")
        self.weight = _of_queue("weight", "Weight of a queue")
        self.overused = _of_queue("overused", "1 while a queue is overused")
        self.amounts = {name: QueueAmounts(name, text) for name, text in _AMOUNTS.items()}
        self.groups = {
            phase: _of_queue(f"pod_group_{phase.lower()}_count", f"PodGroups with the phase {phase}")
            for phase in _PHASES
        }

    def begin_term(self) -> None:
        """Remove what the previous term as the leader left: another replica may lead meanwhile."""
        for family in self.families():
            if isinstance(family, MetricFamily) and family.kind == "gauge":
                family.clear()

    @contextmanager
    def time(self, step: CycleStep, name: str, /) -> Iterator[None]:
        """Measure a step of a cycle: a `StepTimer`."""
        began = time.perf_counter()
        try:
            yield
        finally:
            took = (time.perf_counter() - began) * 1000
            match step:
                case CycleStep.CYCLE:
                    self._cycle.observe(took)
                case CycleStep.OPEN:
                    self._opening.observe(took)
                case CycleStep.PLUGIN:
                    self._plugin.observe(took, name, "OnSessionOpen")
                case CycleStep.ACTION:
                    self._action.observe(took, name)


class QueueAmounts(MetricSet):
    """One kind of amounts of all queues."""

    def __init__(self, name: str, text: str) -> None:
        self._cpu = _of_queue(f"{name}_milli_cpu", f"Milli-cores {text}")
        self._memory = _of_queue(f"{name}_memory_bytes", f"Bytes of memory {text}")
        # As in Volcano, which counts all but memory in thousandths.
        self._others = _of_queue(
            f"{name}_scalar_resources", f"Thousandths of other resources {text}", "resource"
        )

    def replace(self, amounts: Mapping[str, Mapping[str, Amount]]) -> None:
        """Show these queues, and no others; a resource that is missing in an amount has no series."""
        self._cpu.replace({(name,): as_number(of["cpu"]) for name, of in amounts.items() if "cpu" in of})
        self._memory.replace(
            {(name,): as_number(of["memory"]) for name, of in amounts.items() if "memory" in of}
        )
        self._others.replace(
            {
                (name, resource): as_number(amount * 1000)
                for name, of in amounts.items()
                for resource, amount in of.items()
                if resource not in ("cpu", "memory")
            }
        )


def _histogram(name: str, text: str, bounds: tuple[float, ...], *labels: str) -> HistogramFamily:
    return HistogramFamily(f"volcano_{name}", text, bounds, *labels)


def _of_job(name: str, text: str) -> MetricFamily:
    return gauge(f"volcano_e2e_job_scheduling_{name}", text, "job_name", "queue", "job_namespace")


def _of_queue(name: str, text: str, *labels: str) -> MetricFamily:
    return gauge(f"volcano_queue_{name}", text, "queue_name", *labels)

"""A session: one cycle's look at the live state, and what the plugins have to say about it.

The session owns no copy of anything. It walks tiers, keeps answers that hold for a
whole class of pods and a whole class of nodes, and collects what was decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ringwise.framework.configuration import Configuration
from ringwise.framework.extension_points import (
    GATED_WITH,
    UNGATED,
    Point,
    first_reason,
    starving,
    victims,
    votes,
)
from ringwise.framework.job import Job
from ringwise.framework.node_selection import NodeSelection
from ringwise.framework.plugin_options import PluginOption
from ringwise.framework.registry import Registry
from ringwise.framework.statement import Allocation, Eviction, Statement
from ringwise.framework.topology_cache import TopologyCache
from ringwise.framework.usage import ResourceUsage
from ringwise.reasons import Reason
from ringwise.state.cluster import ClusterState
from ringwise.state.model import Pod, PodClass, Queue
from ringwise.state.reservations import Reservations
from ringwise.topology.natural import natural_key

T = TypeVar("T")


@dataclass(slots=True)
class JobPlan:
    """Nodes chosen for a job as a whole (switches, SuperPoDs), pod by pod."""

    nodes: dict[str, int]
    annotations: dict[str, Mapping[str, str]] = field(default_factory=dict)
    #: What a person is shown: one line per switch or block.
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Incident:
    """Something went wrong inside a plugin or an action; it cost only the job it happened to."""

    where: str
    job: str
    error: str


class Session:
    def __init__(
        self,
        *,
        state: ClusterState,
        reservations: Reservations,
        jobs: Mapping[str, Job],
        queues: Mapping[str, Queue],
        usage: ResourceUsage,
        topology: TopologyCache,
        configuration: Configuration,
        registry: Registry,
        now: int,
        pending: Iterable[Job] = (),
        ours: Callable[[Pod], bool] = lambda pod: True,
        observer: Callable[[Session, Job], None] | None = None,
    ) -> None:
        self.state = state
        self.reservations = reservations
        self.jobs = jobs
        self.queues = queues
        self.usage = usage
        self.topology = topology
        self.configuration = configuration
        self.settings = configuration.settings
        self.now = now
        #: The jobs this cycle may decide about.
        self.pending = list(pending)
        #: Pods of other schedulers are neither placed nor sent away by us.
        self.ours = ours
        #: Told about every job just before it is decided; sees the state as the decision will.
        self.observe = observer or (lambda session, job: None)
        self.observed = observer is not None
        #: Told about allocations as soon as they are final, in the middle of the cycle.
        self.announce: Callable[[Sequence[Allocation]], None] = lambda allocations: None
        self.bound: list[Allocation] = []
        self.evicted: list[Eviction] = []
        self.plans: dict[str, JobPlan] = {}
        self.incidents: list[Incident] = []
        self._tiers: list[dict[Point, list[Callable[..., Any]]]] = []
        self._flat: dict[Point, list[Callable[..., Any]]] = {point: [] for point in Point}
        self._owner_of: dict[object, str] = {}
        self._selections: dict[tuple[PodClass, str, bool, bool], NodeSelection] = {}
        self._shared: dict[Callable[[Session], Any], Any] = {}
        self._option: PluginOption | None = None
        state.settle()
        for tier in configuration.tiers:
            self._tiers.append({})
            for option in tier.plugins:
                self._open(option, registry)

    # -- plugins ---------------------------------------------------------------------

    def _open(self, option: PluginOption, registry: Registry) -> None:
        builder = registry.plugins.get(option.name)
        if builder is None:
            self.incidents.append(Incident(f"plugin {option.name}", "", "no such plugin"))
            return
        self._option = option
        try:
            builder(option).open(self)
        except Exception as error:
            self.incidents.append(Incident(f"plugin {option.name}", "", f"{type(error).__name__}: {error}"))
        finally:
            self._option = None

    def on(self, point: Point, answer: Callable[..., Any]) -> None:
        """Called by a plugin while it opens: let `answer` take part at this point, if it is switched on."""
        option = self._option
        if option is None:
            raise ValueError("plugins register while they open")
        gate = GATED_WITH.get(point, point)
        if gate not in UNGATED and not option.on(gate.value):
            return
        self._tiers[-1].setdefault(point, []).append(answer)
        self._flat[point].append(answer)
        code = getattr(answer, "__code__", None)
        if code is not None:
            self._owner_of[code] = option.name

    def shared(self, make: Callable[[Session], T]) -> T:
        """What several plugins keep count of in the same way: made for the first, then given to all."""
        found: T | None = self._shared.get(make)
        if found is None:
            found = self._shared[make] = make(self)
        return found

    def registered(self, point: Point) -> list[Callable[..., Any]]:
        return self._flat[point]

    def tiers(self, point: Point) -> list[list[Callable[..., Any]]]:
        return [tier.get(point, []) for tier in self._tiers]

    def contain(self, error: Exception, job: Job | None, action: str) -> Incident:
        """Note an exception with the plugin it came from; the caller gives the job its reason."""
        where = f"action {action}"
        trace = error.__traceback__
        while trace is not None:
            owner = self._owner_of.get(trace.tb_frame.f_code)
            if owner is not None:
                where = f"plugin {owner}"
            trace = trace.tb_next
        incident = Incident(where, job.key if job is not None else "", f"{type(error).__name__}: {error}")
        self.incidents.append(incident)
        return incident

    # -- combined answers ----------------------------------------------------------------

    def job_key(self, job: Job) -> tuple[Any, ...]:
        """Jobs in order: the smallest key first. Every plugin adds its part, then age, then name."""
        return (*[key(job) for key in self._flat[Point.JOB_ORDER]], *job.seniority)

    def queue_key(self, queue: Queue) -> tuple[Any, ...]:
        parts = [key(queue) for key in self._flat[Point.QUEUE_ORDER]]
        return (*parts, queue.created, natural_key(queue.name))

    def pod_key(self, pod: Pod) -> tuple[Any, ...]:
        return tuple(key(pod) for key in self._flat[Point.TASK_ORDER])

    def job_valid(self, job: Job) -> Reason | None:
        return first_reason(self._flat[Point.JOB_VALID], job)

    def job_ready(self, job: Job) -> bool:
        return all(ready(job) for ready in self._flat[Point.JOB_READY])

    def job_pipelined(self, job: Job) -> bool:
        return votes((ask(job) for ask in tier) for tier in self.tiers(Point.JOB_PIPELINED))[0]

    def job_enqueueable(self, job: Job) -> tuple[bool, Reason | None]:
        return votes((ask(job) for ask in tier) for tier in self.tiers(Point.JOB_ENQUEUEABLE))

    def job_starving(self, job: Job) -> bool:
        return starving(self.tiers(Point.JOB_STARVING), job)

    def overused(self, queue: Queue) -> bool:
        return any(over(queue) for over in self._flat[Point.OVERUSED])

    def allocatable(self, queue: Queue, pod: Pod) -> Reason | None:
        return first_reason(self._flat[Point.ALLOCATABLE], queue, pod)

    def preemptive(self, queue: Queue, pod: Pod) -> bool:
        return all(ask(queue, pod) for ask in self._flat[Point.PREEMPTIVE])

    def preemptable(self, job: Job, pod: Pod, candidates: list[str]) -> list[str]:
        return victims((ask(job, pod, candidates) for ask in tier) for tier in self.tiers(Point.PREEMPTABLE))

    def reclaimable(self, job: Job, pod: Pod, candidates: list[str]) -> list[str]:
        return victims((ask(job, pod, candidates) for ask in tier) for tier in self.tiers(Point.RECLAIMABLE))

    # -- pods and nodes ---------------------------------------------------------------------

    def statement(self) -> Statement:
        return Statement(self)

    def node_selection(self, job: Job, pod: Pod) -> NodeSelection:
        """What is known about pods of this class: shared by all jobs of the cycle that ask the same."""
        cls = pod.cls
        policy = job.policy if cls.chips else None
        if policy is None:
            key = (cls, "", False, False)
        else:
            key = (cls, policy.board.name, policy.multi_pod, policy.withholds_network)
        found = self._selections.get(key)
        if found is None:
            found = self._selections[key] = NodeSelection(self, cls, policy)
        return found

    def prepare(self, job: Job) -> None:
        """Find out about the job what does not change before it is served. What goes wrong is told then."""
        try:
            if self.job_valid(job) is None:
                # Its place in the line is found here, too.
                self.job_key(job)
                for pod in job.pods.values():
                    self.node_selection(job, pod)
        except Exception as error:
            self.contain(error, job, "prepare")

    def is_pending(self, pod: Pod) -> bool:
        """Waits for a node and may get one."""
        placement = self.state.pods.get(pod.uid)
        return (
            placement is not None
            and placement.node < 0
            and pod.phase == "Pending"
            and not pod.deleting
            and not pod.gated
            and self.ours(pod)
        )

"""A session: one cycle on the live state, and the combined answers of the plugins.

The session copies nothing. It walks the tiers, caches answers that hold for a whole class
of pods and of nodes, and collects what was decided.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, Protocol, TypeVar

from ringwise.durations import SECOND
from ringwise.framework.budget import StepBudget, TooCostly
from ringwise.framework.configuration import ENQUEUE, Configuration, PluginOption
from ringwise.framework.extension_points import (
    ALLOCATABLE,
    ALLOCATED,
    CLAIMS,
    DEALLOCATED,
    EXTENSION_POINTS,
    JOB_ENQUEUEABLE,
    JOB_ENQUEUED,
    JOB_ORDER,
    JOB_PIPELINED,
    JOB_READY,
    JOB_STARVING,
    JOB_VALID,
    NODE_SCORE,
    NODE_SET,
    OVERUSED,
    PREDICATE,
    PREEMPT,
    PREEMPTIVE,
    QUEUE_ORDER,
    RECLAIM,
    SUB_JOB_PIPELINED,
    SUB_JOB_READY,
    TASK_ORDER,
    VICTIM_QUEUE_ORDER,
    VICTIMS,
    ClaimRules,
    ExtensionPoint,
    JobPlan,
    NodeSet,
    VictimPoints,
    agreed_victims,
    count_votes,
    first_reason,
    named_victims,
    starving,
)
from ringwise.framework.job import Job, job_key
from ringwise.framework.limits import LimitTable, WaitingCounts
from ringwise.framework.node_selection import NodeSelection
from ringwise.framework.part_selection import PartSelection, selection_scope
from ringwise.framework.queue_heads import QueueHeads
from ringwise.framework.reasons import INTERNAL_ERROR, NO_CHIP_PLUGIN
from ringwise.framework.retry_scope import RetryScope
from ringwise.framework.statement import Allocation, Eviction, Statement
from ringwise.framework.step_timer import CycleStep, StepTimer, untimed
from ringwise.framework.topology_cache import TopologyCache
from ringwise.framework.usage import ResourceUsage
from ringwise.framework.victim_queues import VictimQueue
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.state.cluster import ClusterState
from ringwise.state.model import Pod, PodClass, Queue, ResourceQuota
from ringwise.state.node_windows import WithheldNodes
from ringwise.state.reservations import Reservations
from ringwise.topology.natural import natural_key

T = TypeVar("T")
F = TypeVar("F")

#: Of pods without claims.
_NO_SETS: tuple[Hashable, Sequence[NodeSet]] = (None, ())


@dataclass(frozen=True, slots=True)
class Incident:
    """An exception inside a plugin or an action. Only the job it happened to is affected."""

    where: str
    job: str
    error: str


def _ignore_announcement(allocations: Sequence[Allocation]) -> None:
    pass


class Plugin(Protocol):
    """Built for each cycle from its entry in the configuration; `open` registers its functions."""

    def open(self, session: Session, /) -> None: ...


class Session:
    def __init__(
        self,
        *,
        state: ClusterState,
        reservations: Reservations,
        jobs: Mapping[str, Job],
        queues: Mapping[str, Queue],
        quotas: Mapping[str, Mapping[str, ResourceQuota]] | None = None,
        usage: ResourceUsage,
        topology: TopologyCache,
        configuration: Configuration,
        now: int,
        pending: Iterable[Job] = (),
        ours: Callable[[Pod], bool] = lambda pod: True,
        observer: Callable[[Session, Job], None] | None = None,
        heads: QueueHeads | None = None,
        limits: LimitTable | None = None,
        timer: StepTimer = untimed,
    ) -> None:
        self.state = state
        self._timer = timer
        #: Limits of namespaces, queues and users.
        self.limits = LimitTable(usage) if limits is None else limits
        self.waiting_counts = WaitingCounts(self.limits, jobs)
        #: The jobs that others of their queue wait behind, where the queue discipline is strict.
        self.heads = QueueHeads() if heads is None else heads
        self.reservations = reservations
        #: How far from its own places the job is tried that is placed now.
        self.retry_scope = RetryScope.ANY
        self.jobs = jobs
        self.queues = queues
        #: ResourceQuotas by namespace and name.
        self.quotas = quotas or {}
        self.usage = usage
        self.topology = topology
        self.configuration = configuration
        self.settings = configuration.settings
        self.now = now
        #: The jobs this cycle may decide about.
        self.pending = list(pending)
        #: Pods of other schedulers are neither placed nor evicted by this one.
        self.ours = ours
        #: Called with every job just before it is decided, in the state that the decision sees.
        self.observe = observer or (lambda session, job: None)
        self.observed = observer is not None
        #: Called with allocations as soon as they are final, in the middle of the cycle.
        self.announce: Callable[[Sequence[Allocation]], None] = _ignore_announcement
        #: Called with every job that is validated and every attempt to place one.
        self.on_progress: Callable[[], None] = lambda: None
        #: Whether the cycle may reserve something for pending jobs, and pods may wait for their claims.
        self.may_reserve = True
        #: Return whether a job is tried now or in the next turn, before each attempt; and whether a search
        #: continues with a job that was already tried.
        self.may_try: Callable[[Job], bool] = lambda job: True
        self.may_go_on: Callable[[Job], bool] = lambda job: True
        #: Called by an action that goes over its jobs a second time.
        self.next_phase: Callable[[], None] = lambda: None
        #: The work that jobs may cost.
        self.budget = StepBudget()
        self.bound: list[Allocation] = []
        self.evicted: list[Eviction] = []
        self.plans: dict[str, JobPlan] = {}
        #: When jobs are tried again although nothing changes, in nanoseconds by key.
        self.retries: dict[str, int] = {}
        self.incidents: list[Incident] = []
        #: By key of a job: when the first pod that it could evict but for its protection loses that.
        self.protected: dict[str, int] = {}
        #: Only to find out what a job would evict if nothing were protected.
        self.ignores_protection = False
        #: Whether victims are searched in bundles, which keep gangs: plugins that keep them abstain.
        self.searches_bundles = False
        #: Whether the first tier that has a say named victims when it was asked last: with more candidates it
        #: names these, too, and no other tier is asked.
        self.first_tier_decided = False
        #: Whether an action enqueues jobs; without one every job is admitted.
        self.enqueues = ENQUEUE in configuration.actions
        #: Plugins that give chips, where the configuration has none of them.
        self.missing_chip_plugins: tuple[str, ...] = ()
        self._tiers: list[dict[ExtensionPoint[Any], list[Any]]] = []
        self._functions: dict[ExtensionPoint[Any], list[Any]] = {point: [] for point in EXTENSION_POINTS}
        #: The registered functions, each with its plugin.
        self._registered: list[tuple[object, str]] = []
        self._selections: dict[
            tuple[PodClass, str, bool, bool, Hashable, Hashable, int | None], NodeSelection
        ] = {}
        #: The nodes that count while the pods of a job are placed; None: all.
        self._within: int | None = None
        #: What windows of nodes keep from jobs, by queue, namespace and end, at one time.
        self._withheld_nodes: dict[tuple[str, str, int | None], tuple[WithheldNodes, ...]] = {}
        self._withheld_at = -1
        self._shared: dict[Callable[[Session], Any], Any] = {}
        #: The plugin that is being opened.
        self._opening: PluginOption | None = None
        state.settle()

    def close(self) -> None:
        """At the end of a cycle: the session is no longer used.

        Session and plugins refer to each other. Unless that ends here, what a cycle has made is found by a
        search for garbage only, and until then every copy of the process has its pages to copy.
        """
        self._tiers = []
        self._functions = {}
        self._registered = []
        self._selections = {}
        self._shared = {}
        self.announce = _ignore_announcement

    # -- plugins ---------------------------------------------------------------------

    def begin_tier(self) -> None:
        """Plugins opened from here on belong to the next tier."""
        self._tiers.append({})

    def open_plugin(self, option: PluginOption, build: Callable[[PluginOption], Plugin]) -> None:
        """Build a plugin, which registers its functions. A failure is recorded; other plugins are opened."""
        self._opening = option
        try:
            with self._timer(CycleStep.PLUGIN, option.name):
                build(option).open(self)
        except Exception as error:
            self.incidents.append(Incident(f"plugin {option.name}", "", f"{type(error).__name__}: {error}"))
        finally:
            self._opening = None

    def register(self, point: ExtensionPoint[F], function: F) -> None:
        """Called by a plugin while it opens: ask `function` at this point, unless the flag is off."""
        option = self._opening
        if option is None:
            raise ValueError("plugins register while they open")
        if point.flag is not None and not option.is_enabled(point.flag):
            return
        self._tiers[-1].setdefault(point, []).append(function)
        self._functions[point].append(function)
        self._registered.append((function, option.name))

    def shared(self, make: Callable[[Session], T]) -> T:
        """A cache that several plugins use: made for the first that asks, and returned to the others."""
        result: T | None = self._shared.get(make)
        if result is None:
            result = self._shared[make] = make(self)
        return result

    def registered(self, point: ExtensionPoint[F]) -> list[F]:
        return self._functions[point]

    def tiers(self, point: ExtensionPoint[F]) -> list[list[F]]:
        return [tier.get(point, []) for tier in self._tiers]

    def contain(self, error: Exception, job: Job | None, action: str) -> Incident:
        """Record an exception with the plugin it came from; the caller gives the job its reason."""
        where = f"action {action}"
        # Only here, because the hash of a code object reads all of it.
        plugin_of = {getattr(function, "__code__", None): name for function, name in self._registered}
        trace = error.__traceback__
        while trace is not None:
            plugin = plugin_of.get(trace.tb_frame.f_code)
            if plugin is not None:
                where = f"plugin {plugin}"
            trace = trace.tb_next
        incident = Incident(where, job.key if job is not None else "", f"{type(error).__name__}: {error}")
        self.incidents.append(incident)
        return incident

    def fail_job(self, job: Job, error: Exception, action: str) -> None:
        """Record an exception that stops this job, and only this one."""
        job.note_contents()
        if isinstance(error, TooCostly):
            job.reason = error.reason
            if error.retry_at is not None:
                self.retry_at(job, error.retry_at)
            return
        incident = self.contain(error, job, action)
        job.reason = INTERNAL_ERROR(where=incident.where, error=incident.error)

    # -- combined answers ----------------------------------------------------------------

    def job_key(self, job: Job) -> tuple[Any, ...]:
        """The sort key of a job, smallest first: the keys of all plugins, then age, then name."""
        return (*[key(job) for key in self._functions[JOB_ORDER]], *job.seniority)

    def queue_key(self, queue: Queue) -> tuple[Any, ...]:
        parts = [key(queue) for key in self._functions[QUEUE_ORDER]]
        return (*parts, queue.created, natural_key(queue.name))

    def victim_queue_key(self, queue: Queue, victim: Queue) -> tuple[Any, ...]:
        """The order in which queues lose pods to `queue`, where plugins have one."""
        return tuple(key(queue, victim) for key in self._functions[VICTIM_QUEUE_ORDER])

    def pod_key(self, pod: Pod) -> tuple[Any, ...]:
        return tuple(key(pod) for key in self._functions[TASK_ORDER])

    def job_valid(self, job: Job) -> Reason | None:
        self.on_progress()
        # Its policy is set.
        job.note_contents()
        reason = first_reason(self.registered(JOB_VALID), job)
        if reason is None and not job.validated and job.policy is None:
            return self._without_chip_plugin(job)
        return reason

    def _without_chip_plugin(self, job: Job) -> Reason | None:
        """N6: no plugin chose how the job gets its chips, so it would be placed without any."""
        resource = next((pod.cls.resource for pod in job.in_order if pod.cls.chips), None)
        if resource is None:
            return None
        if self.missing_chip_plugins:
            line = " or ".join(f"`- name: {name}`" for name in self.missing_chip_plugins)
            return NO_CHIP_PLUGIN(resource=resource, line=line)
        failed = [incident for incident in self.incidents if not incident.job]
        where, error = (failed[0].where, failed[0].error) if failed else ("the chip plugin", "no answer")
        return INTERNAL_ERROR(where=where, error=error)

    def job_ready(self, job: Job) -> bool:
        ready = all(ready(job) for ready in self._functions[JOB_READY])
        return ready and (not job.sub_groups or all(ready(job) for ready in self._functions[SUB_JOB_READY]))

    def job_pipelined(self, job: Job) -> bool:
        """Whether the job could start with what it has in the open statement once its victims are gone."""
        points = (JOB_PIPELINED, SUB_JOB_PIPELINED) if job.sub_groups else (JOB_PIPELINED,)
        return all(
            count_votes((vote(job) for vote in tier) for tier in self.tiers(point))[0] for point in points
        )

    def limited(self, job: Job, pods: Sequence[Pod]) -> Reason | None:
        """The limit that keeps these pods of the job waiting, whatever is free."""
        return self.limits.refusal(job, pods, self.configuration.actions) if self.limits else None

    def job_enqueueable(self, job: Job) -> tuple[bool, Reason | None]:
        if self.limits:
            reason = self.waiting_counts.refusal(job)
            if reason is None:
                self.waiting_counts.tried(job)
                reason = self.limited(job, job.in_order[: max(1, job.min_available)])
            if reason is not None:
                return False, reason
        return count_votes((vote(job) for vote in tier) for tier in self.tiers(JOB_ENQUEUEABLE))

    def job_enqueued(self, job: Job) -> None:
        """Tell the plugins that the job was enqueued: the next vote counts what it was promised."""
        for notify in self._functions[JOB_ENQUEUED]:
            notify(job)

    def job_starving(self, job: Job) -> bool:
        return starving(self.tiers(JOB_STARVING), job)

    def overused(self, queue: Queue) -> bool:
        return any(over(queue) for over in self._functions[OVERUSED])

    def allocatable(self, queue: Queue, pod: Pod) -> Reason | None:
        return first_reason(self.registered(ALLOCATABLE), queue, pod)

    def preemptive(self, queue: Queue, pod: Pod) -> bool:
        return all(may(queue, pod) for may in self._functions[PREEMPTIVE])

    def preemptable(self, job: Job, pod: Pod, candidates: list[str]) -> list[str]:
        return self._allowed_victims(PREEMPT, job, pod, candidates)

    def reclaimable(self, job: Job, pod: Pod, candidates: list[str]) -> list[str]:
        return self._allowed_victims(RECLAIM, job, pod, candidates)

    def _keep_their_turn(self, job: Job, candidates: list[str]) -> dict[str, int]:
        """Until when pods are not reclaimed by a job that was evicted lately itself: those of jobs that got
        room by evictions lately. Shares in several resources may allow two jobs to reclaim from each other.
        """
        again = self.settings.preempt_again_after * SECOND
        if job.preempted is None or job.preempted + again <= self.now:
            return {}
        result: dict[str, int] = {}
        for uid in candidates:
            owner = self.job_of(self.state.pods[uid].pod)
            room_made = None if owner is None else owner.room_made_at
            if room_made is not None and room_made + again > self.now:
                result[uid] = min(room_made, job.preempted) + again
        return result

    @contextmanager
    def in_bundles(self) -> Iterator[None]:
        """Inside, plugins are asked about pods that go in bundles."""
        self.searches_bundles = True
        try:
            yield
        finally:
            self.searches_bundles = False

    def none_preemptable(self, job: Job, pod: Pod, victims: VictimQueue) -> bool:
        return self._none_named(PREEMPT, job, pod, victims)

    def none_reclaimable(self, job: Job, pod: Pod, victims: VictimQueue) -> bool:
        return self._none_named(RECLAIM, job, pod, victims)

    def _none_named(self, points: VictimPoints, job: Job, pod: Pod, victims: VictimQueue) -> bool:
        """Whether in every tier that is asked some plugin says beforehand that it names none of these."""
        return all(
            any(names_none(job, pod, victims) for names_none in checks)
            for named, checks in zip(self.tiers(points.named), self.tiers(points.precheck), strict=True)
            if named
        )

    def unprotected(self, job: Job, pod: Pod, candidates: list[str]) -> list[str]:
        """Those whose turn to be reclaimed no plugin puts off: of what was lent, nothing else is asked."""
        self.first_tier_decided = True
        return self._not_protected(RECLAIM, job, candidates, lambda uids: uids)

    def _allowed_victims(self, points: VictimPoints, job: Job, pod: Pod, candidates: list[str]) -> list[str]:
        first, *others = [tier for tier in self.tiers(points.named) if tier] or [[]]

        def agreed(uids: list[str]) -> list[str]:
            by_first = agreed_victims([(named(job, pod, uids) for named in first)])
            self.first_tier_decided = bool(by_first)
            return by_first or agreed_victims((named(job, pod, uids) for named in tier) for tier in others)

        keep_turns = points is RECLAIM
        return self._not_protected(points, job, candidates, agreed, keep_turns=keep_turns)

    def _not_protected(
        self,
        points: VictimPoints,
        job: Job,
        candidates: list[str],
        agreed: Callable[[list[str]], list[str]],
        *,
        keep_turns: bool = False,
    ) -> list[str]:
        spared = self._spared_pods
        until = {uid: spared[uid] for uid in candidates if uid in spared} if spared else {}
        if keep_turns:
            until |= self._keep_their_turn(job, candidates)
        for protects in self._functions[points.protection]:
            for uid in candidates:
                end = protects(uid)
                if end is not None and end > self.now:
                    until[uid] = max(until.get(uid, 0), end)
        if not until or self.ignores_protection:
            return agreed(candidates)
        # The tiers are not asked about those: what one of them refuses another could allow.
        later = agreed(list(until))
        if later:
            end = min(until[uid] for uid in later)
            self.protected[job.key] = min(end, self.protected.get(job.key, end))
        return agreed([uid for uid in candidates if uid not in until])

    @cached_property
    def _spared_pods(self) -> dict[str, int]:
        """By uid: pods of jobs whose eviction was refused lately, and until when."""
        return {
            uid: job.not_evicted_before
            for job in self.jobs.values()
            if job.not_evicted_before > self.now
            for uid in job.pods
        }

    def victims(self, candidates: list[str]) -> list[str]:
        """Return the running pods that plugins want to evict, even if no job needs their nodes."""
        return named_victims((named(candidates) for named in tier) for tier in self.tiers(VICTIMS))

    def retry_at(self, job: Job, time: int) -> None:
        """Called by a plugin whose answer about the job changes at that time, without any event."""
        earlier = self.retries.get(job.key)
        self.retries[job.key] = time if earlier is None else min(earlier, time)

    # -- jobs, pods and nodes -----------------------------------------------------------------

    def statement(self) -> Statement:
        self.on_progress()
        functions = self._functions
        return Statement(
            self.state, self.usage, functions[ALLOCATED], functions[DEALLOCATED], self._committed
        )

    def _committed(self, allocations: Sequence[Allocation]) -> None:
        self.bound.extend(allocations)
        if self.limits.may_burst or len(self.usage.reserved):
            for allocation in allocations:
                self.limits.note_borrowing(allocation.job, allocation.pod)
        self.announce(allocations)

    @property
    def within(self) -> int:
        """The nodes that take pods now, as bits by node id."""
        return self.state.labels.existing if self._within is None else self._within

    @contextmanager
    def restricted(self, nodes: int) -> Iterator[None]:
        """Inside, only these nodes (bits by node id) take pods, however they are chosen."""
        before = self._within
        self._within = nodes if before is None else nodes & before
        try:
            yield
        finally:
            self._within = before

    def node_selection(self, job: Job, pod: Pod) -> NodeSelection:
        """What is known about pods of this class: shared by all jobs of the cycle with equal requests."""
        cls = pod.cls
        policy = job.policy if cls.chips else None
        asks = policy is not None or cls.part is not None
        withheld = self._withheld(job) if asks and self.state.node_windows else ()
        within = self._within
        rules = self.claim_rules if pod.claims else None
        volumes, of_volumes = _NO_SETS if rules is None else rules.node_sets(pod)
        scope: Sequence[Hashable] = () if cls.part is None else selection_scope(job, cls.part)
        if policy is None:
            key = (cls, "", False, False, (withheld, *scope) if scope else withheld, volumes, within)
        else:
            board = policy.board.name
            key = (cls, board, policy.multi_pod, policy.withholds_network, withheld, volumes, within)
        result = self._selections.get(key)
        if result is None and within is not None:
            result = self._selections[key] = self._selection_of_all(job, pod).narrowed(within)
        elif result is None:
            make: Callable[..., NodeSelection] = NodeSelection
            if cls.part is not None:
                make = partial(PartSelection, request=cls.part, job=job, now=self.now)
            result = self._selections[key] = make(
                self.state,
                pod_class=cls,
                policy=policy,
                predicates=self.registered(PREDICATE),
                sets=[*(part for sets in self.registered(NODE_SET) for part in sets(cls)), *of_volumes],
                withheld=withheld,
                scores=self.registered(NODE_SCORE),
                budget=self.budget,
                sum_scores=self.settings.score_combination == "sum",
            )
        return result

    def _selection_of_all(self, job: Job, pod: Pod) -> NodeSelection:
        within, self._within = self._within, None
        try:
            return self.node_selection(job, pod)
        finally:
            self._within = within

    @property
    def claim_rules(self) -> ClaimRules | None:
        """What claims of volumes ask of nodes, where a plugin knows it."""
        rules = self._functions[CLAIMS]
        return rules[0] if rules else None

    def claim_refusal(self, pod: Pod) -> Reason | None:
        """Why the pod has to wait for one of its claims, whatever nodes are free."""
        rules = self.claim_rules if pod.claims else None
        return None if rules is None else rules.refusal(pod)

    def end_of(self, job: Job) -> int | None:
        """When the job ends if it starts now, by what is known; None: it is kept off nodes with a window.

        F4: `reserved-nodes-require-duration`.
        """
        length = self.run_time_of(job)
        if length is not None:
            return self.now + length
        return None if self.settings.reserved_nodes_require_duration else self.now

    def run_time_of(self, job: Job) -> int | None:
        """How long the job runs at most: what it says, and no longer than limits allow."""
        longest = self.limits.longest(job)
        if job.expected is None or longest is None:
            return longest if job.expected is None else job.expected
        return min(job.expected, longest)

    def _withheld(self, job: Job) -> tuple[WithheldNodes, ...]:
        """Nodes that are drained, or reserved for others, before the job ends."""
        if self._withheld_at != self.now:
            self._withheld_at = self.now
            self._withheld_nodes.clear()
        key = job.queue, job.namespace, self.end_of(job)
        result = self._withheld_nodes.get(key)
        if result is None:
            queue, namespace, ends = key
            result = self.state.window_sets.withheld(queue, namespace, self.now, ends)
            self._withheld_nodes[key] = result
        return result

    def prepare(self, job: Job) -> None:
        """Compute what does not change before the job is served. An error is reported when it is served."""
        try:
            if self.job_valid(job) is None:
                # This caches its seniority, too.
                self.job_key(job)
                for pod in job.pods.values():
                    self.node_selection(job, pod)
        except Exception as error:
            self.contain(error, job, "prepare")

    @property
    def is_strict(self) -> bool:
        """Whether jobs of a queue may not pass one that does not fit."""
        return self.settings.queue_discipline == "strict"

    def is_admitted(self, job: Job) -> bool:
        """Whether its pods may be placed: it is enqueued, or no action enqueues jobs."""
        return job.inqueue or not self.enqueues

    def is_pending(self, pod: Pod) -> bool:
        """Whether the pod waits for a node and may get one."""
        placement = self.state.pods.get(pod.uid)
        return (
            placement is not None
            and placement.node < 0
            and pod.phase == "Pending"
            and not pod.deleting
            and not pod.gated
            and self.ours(pod)
        )

    def job_of(self, pod: Pod) -> Job | None:
        """The job the pod belongs to; None for a pod of no job of this scheduler."""
        job = self.jobs.get(job_key(pod))
        return job if job is not None and pod.uid in job.pods else None

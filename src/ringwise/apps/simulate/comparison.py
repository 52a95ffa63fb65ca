"""A comparison: the same jobs and the same faults under several configurations, and the bound beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from ringwise.apps.extensions import new_scheduler
from ringwise.apps.simulate import bound
from ringwise.apps.simulate.hardware import FaultRates, Hardware, faults
from ringwise.apps.simulate.jobs import (
    JobMix,
    Shaping,
    SimulatedJob,
    SimulatedShape,
    generate,
    nodes_for_load,
)
from ringwise.apps.simulate.measures import RunOutcome
from ringwise.apps.simulate.policies import policy_plugin, with_policy
from ringwise.apps.simulate.run import START, Simulation, fleet_events, hardware_of, job_objects
from ringwise.embed.fleets import MAX_NODES, GeneratedFleet, board_named, make_fleet
from ringwise.framework.configuration import Configuration
from ringwise.grammar import counted, quoted
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind
from ringwise.messages.events import Decide
from ringwise.records import dataclass
from ringwise.scheduler.core.machine import Scheduler
from ringwise.state.model import PodClass


class ImpossibleSimulationError(ValueError):
    """What is to be simulated cannot be: one line."""


class ImpossibleClusterError(ImpossibleSimulationError):
    """It is the cluster that cannot be as it is wanted."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A configuration that is compared; with a policy, that chooses the nodes instead."""

    name: str
    configuration: Configuration
    policy: str | None = None
    #: What is different from the configuration given, by the names of settings.
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Cluster:
    board: str = "910-x8"
    #: None: as many as the load asks for.
    nodes: int | None = None
    leaf_size: int | None = None
    superpod_size: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """All that decides what comes of a simulation. Equal plans give equal results."""

    title: str
    cluster: Cluster
    variants: tuple[Variant, ...]
    #: The jobs of a trace and, by the reason, how many of it are left out; or a mix.
    trace: tuple[SimulatedJob, ...] = ()
    omitted: Mapping[str, int] = field(default_factory=dict, hash=False)
    mix: JobMix | None = None
    load: float = 0.85
    seed: str = "0"
    tor_affinity: str | None = None
    #: Jobs say how long they run.
    known_durations: bool = False
    #: Some jobs are asked about when they come: when does it start? Each answer plays the queue forward.
    estimates: bool = True
    rates: Mapping[Hardware, FaultRates] = field(default_factory=dict, hash=False)


#: Nodes of a generated job mix for which no number is given.
_NODES = 64
#: The jobs of a workload say how many chips they need, and not of which board.
ONE_BOARD = "must be one board: simulate the nodes of each board by themselves, with the jobs that run there"


def names_several_boards(text: str) -> bool:
    """Whether it is written as a lab is asked for several: `910-x8:200,310p:50`."""
    return ":" in text or "," in text


def _reasons(omitted: Mapping[str, int]) -> str:
    """Why nothing is left: the most frequent reasons."""
    most = Counter(omitted).most_common(3)
    return ": " + ", ".join(f"{counted(count, 'job')}: {why}" for why, count in most) if most else ""


class Comparison:
    """Raises ImpossibleSimulationError where the plan has no jobs, or asks for what is not there."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        cluster = plan.cluster
        if names_several_boards(cluster.board):
            raise ImpossibleClusterError(f"board: {ONE_BOARD}, got {quoted(cluster.board)}")
        try:
            self.board = board_named(cluster.board)
        except ValueError as error:
            raise ImpossibleClusterError(f"board: {error}") from None
        if cluster.superpod_size is not None and not self.board.superpod:
            raise ImpossibleClusterError(f"SuperPoD size: board {self.board.name} does not support SuperPoDs")
        self.resource = self.board.resources[0]
        self.nodes = self._node_count()
        self.chips = self.nodes * self.board.chips_per_node
        self.fleet: GeneratedFleet = make_fleet(
            self.nodes,
            cluster.board,
            leaf_size=cluster.leaf_size,
            superpod_size=cluster.superpod_size,
        )
        if Hardware.SWITCH in plan.rates and self.fleet.topology is None:
            raise ImpossibleClusterError("faults of switches: the cluster has no switches; set a leaf size")
        if plan.tor_affinity is not None and self.fleet.topology is None:
            raise ImpossibleClusterError("tor-affinity: the cluster has no switches; set a leaf size")
        jobs: Sequence[SimulatedJob] = plan.trace
        if plan.mix is not None:
            jobs = generate(plan.mix, self.chips, plan.load, plan.seed)
        if not jobs:
            raise ImpossibleSimulationError(f"no jobs to simulate{_reasons(plan.omitted)}")
        self.omitted: Counter[str] = Counter(plan.omitted)
        self.shapes = self._shapes({job.chips for job in jobs})
        fitting = [job for job in jobs if job.chips in self.shapes]
        self.jobs = [replace(job, number=number) for number, job in enumerate(fitting)]
        self._count_left_out(jobs)
        if not self.jobs:
            raise ImpossibleSimulationError(f"no job fits this cluster{_reasons(self.omitted)}")
        self.outcomes: list[RunOutcome] = []

    @property
    def interrupted(self) -> bool:
        return any(outcome.interrupted for outcome in self.outcomes)

    def _node_count(self) -> int:
        plan = self.plan
        nodes = plan.cluster.nodes
        if nodes is None:
            if plan.mix is not None:
                nodes = _NODES
            else:
                nodes = nodes_for_load(plan.trace, self.board.chips_per_node, plan.load)
        if nodes > MAX_NODES:
            raise ImpossibleClusterError(f"nodes: must be at most {MAX_NODES:,}, got {nodes:,}")
        return nodes

    def _shapes(self, sizes: set[int]) -> dict[int, SimulatedShape]:
        """The shape of each size that the board allows and that starts on the empty cluster."""
        plan = self.plan
        first = plan.variants[0].configuration
        settings = first.settings
        shaping = Shaping(
            self.board,
            settings.multi_pod_requests,
            plan.tor_affinity,
            plan.cluster.superpod_size or settings.super_pod_size,
        )
        wanted = {size: shape for size in sorted(sizes) if (shape := shaping.shape(size)) is not None}
        scheduler = new_scheduler(first)
        scheduler.handle(fleet_events(self.fleet), START, Decide.NOTHING)
        return {
            size: shape
            for size, shape in wanted.items()
            if size <= self.chips and self._starts(scheduler, shape)
        }

    def _starts(self, scheduler: Scheduler, shape: SimulatedShape) -> bool:
        """Whether the job starts on the empty cluster. It is empty again afterwards."""
        cls = PodClass(self.resource, shape.chips_per_pod)
        group, pods = job_objects(f"job-{shape.chips}", shape, cls, START, 0)
        seen: list[ev.Event] = [ev.PodSeen(pod) for pod in pods]
        gone: list[ev.Event] = [ev.PodGone(pod.uid) for pod in pods]
        if group is not None:
            seen.insert(0, ev.PodGroupSeen(group))
            gone.insert(0, ev.PodGroupGone(f"{group.namespace}/{group.name}"))
        commands = scheduler.handle(seen, START, Decide.ONE_CYCLE)
        scheduler.handle(gone, START, Decide.NOTHING)
        return sum(isinstance(command, Bind) for command in commands) == shape.pods

    def _count_left_out(self, jobs: Sequence[SimulatedJob]) -> None:
        sizes = Counter(job.chips for job in jobs if job.chips not in self.shapes)
        for size, count in sorted(sizes.items()):
            why = "is larger than the cluster" if size > self.chips else "is not allowed or does not fit"
            self.omitted[f"{counted(size, 'chip')}: {why}"] += count

    # -- running -----------------------------------------------------------------------------

    def run(self, on_progress: Callable[[str, int, int], None] = lambda name, done, total: None) -> None:
        """The bound first, then one variant after the other. After Ctrl-C the outcomes so far are there."""
        total = len(self.jobs)
        name = bound.NAME
        self.outcomes.append(
            bound.count_chips(self.jobs, self.chips, lambda done: on_progress(name, done, total))
        )
        for variant in self.plan.variants:
            simulation = self._simulation(variant)
            self.outcomes.append(simulation.outcome)

            def progress(done: int, name: str = variant.name) -> None:
                on_progress(name, done, total)

            simulation.run(progress)

    def _simulation(self, variant: Variant) -> Simulation:
        plan, configuration = self.plan, variant.configuration
        plugins = []
        if variant.policy is not None:
            plugins = [policy_plugin(variant.policy, plan.seed)]
            configuration = with_policy(configuration, variant.policy)
        pieces = hardware_of(self.fleet, self.resource)
        changes = faults(dict(plan.rates), pieces, plan.seed) if plan.rates else None
        return Simulation(
            variant.name,
            self.fleet,
            self.resource,
            self.jobs,
            self.shapes,
            configuration,
            plugins=plugins,
            faults=changes,
            known_durations=plan.known_durations,
            estimates=plan.estimates,
        )

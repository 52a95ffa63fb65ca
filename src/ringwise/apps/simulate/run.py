"""One run: jobs come, run and end in virtual time, and the real scheduler decides where and when.

The scheduler gets the events that it would get in a cluster (pods, PodGroups, nodes, reports), and its
commands are carried out at once. A job whose hardware breaks, or that has to make room, is created again with
the age that it had, and runs from its beginning. One that is moved keeps what it has done, and runs for its
restart cost longer.

Where the configuration lets jobs be moved (`defragment: auto`), plans are asked for after a turn, for the job
that waits for holes; the scheduler carries them out, as it does on a cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from heapq import heappop, heappush

from ringwise.apps.auto_moves import plans_for_heads
from ringwise.apps.extensions import new_scheduler
from ringwise.apps.moves import with_saving
from ringwise.apps.simulate.hardware import Change, Hardware
from ringwise.apps.simulate.jobs import SECOND, SimulatedJob, SimulatedShape
from ringwise.apps.simulate.measures import Estimate, Estimates, Meter, RunOutcome
from ringwise.embed.fleets import GeneratedFleet
from ringwise.framework.configuration import Configuration
from ringwise.framework.registry import PluginSpec
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, Command, DeleteFinished, DeletePod, Evict, SetGroupStatus
from ringwise.messages.move_plan import APPROVED, MovePlan
from ringwise.records import dataclass
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.explain.forecast import estimates
from ringwise.state.model import Owner, Pod, PodClass, PodGroup
from ringwise.topology.chips import mask_of
from ringwise.wellknown import EXPECTED_DURATION, MOVABLE

#: 2026-01-01T00:00:00Z: every run is the same.
START = 1_767_225_600 * 1_000_000_000
NAMESPACE = "simulated"
#: Turns in a row in which only time passes and no job starts: none will.
_MAX_IDLE_TURNS = 1000

#: Order of what happens at one moment.
_END, _HARDWARE, _ARRIVAL = range(3)


@dataclass(slots=True)
class _Live:
    """A job that waits or runs."""

    number: int
    pods: dict[str, Pod]
    group: PodGroup | None
    #: By uid: node and chips of bound pods.
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: Counts its runs; an end of an earlier run is not one of this.
    run: int = 0
    began: int = 0
    #: How long it has to run from there.
    remaining: int = 0

    @property
    def complete(self) -> bool:
        return len(self.places) == len(self.pods)


class Machines:
    """The nodes of a fleet as faults have left them."""

    def __init__(self, fleet: GeneratedFleet, resource: str) -> None:
        self._resource = resource
        self._nodes = list(fleet.nodes)
        self._reports = list(fleet.reports)
        self.number_of = {node.name: number for number, node in enumerate(fleet.nodes)}
        #: Node and number of each chip.
        self.chips: list[tuple[int, int]] = [
            (number, chip)
            for number, node in enumerate(fleet.nodes)
            for chip in range(node.chips_capacity.get(resource, 0))
        ]
        self._switches = _nodes_of_switches(fleet, self.number_of)
        #: How many faults keep a node down: its own, and that of its switch.
        self._down = [0] * len(fleet.nodes)
        #: Chips that are faulty or on nodes that are down.
        self.broken = 0

    def parts_of(self, change: Change) -> list[tuple[int, int | None]]:
        """What a change concerns: nodes, or a node and one of its chips."""
        if change.part is Hardware.CHIP:
            return [self.chips[change.number]]
        nodes = [change.number] if change.part is Hardware.NODE else self._switches[change.number]
        return [(node, None) for node in nodes]

    def turn(self, number: int, chip: int | None, broken: bool) -> list[ev.Event]:
        """Break or repair a chip or a node; what tells the scheduler of it, nothing if nothing changes."""
        node, sign = self._nodes[number], 1 if broken else -1
        if chip is None:
            was_down = bool(self._down[number])
            self._down[number] += sign
            if was_down == bool(self._down[number]):
                return []
            self.broken += sign * node.chips_allocatable.get(self._resource, 0)
            self._nodes[number] = replace(node, ready=not broken)
            return [ev.NodeSeen(self._nodes[number])]
        report = self._reports[number]
        bad = report.unhealthy | 1 << chip if broken else report.unhealthy & ~(1 << chip)
        self._reports[number] = replace(report, unhealthy=bad)
        good = node.chips_capacity[self._resource] - bad.bit_count()
        self._nodes[number] = replace(node, chips_allocatable={self._resource: good})
        if not self._down[number]:
            self.broken += sign
        return [ev.NodeSeen(self._nodes[number]), ev.ReportSeen(self._reports[number])]


class Simulation:
    def __init__(
        self,
        name: str,
        fleet: GeneratedFleet,
        resource: str,
        jobs: Sequence[SimulatedJob],
        shapes: dict[int, SimulatedShape],
        configuration: Configuration,
        *,
        plugins: Sequence[PluginSpec] = (),
        faults: Iterator[Change] | None = None,
        known_durations: bool = False,
        estimates: bool = True,
    ) -> None:
        self._fleet = fleet
        self._resource = resource
        self._jobs = jobs
        self._shapes = shapes
        self._scheduler: Scheduler = new_scheduler(configuration, specs=plugins)
        self._faults = iter(()) if faults is None else faults
        self._machines = Machines(fleet, resource)
        #: Jobs on each node.
        self._on_node: list[dict[int, None]] = [{} for _ in fleet.nodes]
        self._live: dict[int, _Live] = {}
        self._job_of_pod: dict[str, int] = {}
        self._classes: dict[int, PodClass] = {}
        #: Time, kind, number of the job and of its run.
        self._queue: list[tuple[int, int, int, int]] = []
        #: How many arrivals and ends are in it.
        self._to_come = 0
        self._next_change: Change | None = None
        settings = configuration.settings
        self._moves = settings.defragment == "auto"
        self._restart_cost = settings.restart_cost * SECOND
        #: Pods that the plan which is carried out moves.
        self._moving: set[str] = set()
        #: How often chips became free; the job for which no plan was found, and how often it was then.
        self._freed = 0
        self._without_plan: tuple[int, int] | None = None
        #: The job that came last.
        self._submitted = -1
        self._known_durations = known_durations
        self._estimates = Estimates(len(jobs), asks=estimates)
        self.outcome = RunOutcome(name, jobs, len(self._machines.chips), [None] * len(jobs))
        self.outcome.estimates = self._estimates.made
        self._meter = Meter(self.outcome)

    # -- time --------------------------------------------------------------------------------

    def run(self, on_progress: Callable[[int], None] = lambda done: None) -> RunOutcome:
        """Until every job has started. Ctrl-C ends it; what is known until then is in the outcome."""
        began = time.process_time_ns()
        try:
            self._run(on_progress)
        except KeyboardInterrupt:
            self.outcome.interrupted = True
            raise
        finally:
            self.outcome.processor = time.process_time_ns() - began
        return self.outcome

    def _run(self, on_progress: Callable[[int], None]) -> None:
        self._turn(fleet_events(self._fleet), 0)
        for job in self._jobs:
            self._plan(job.submitted, _ARRIVAL, job.number)
        self._await_change()
        idle = 0
        while not self._meter.all_started:
            now = self._next_time()
            if now is None or idle > _MAX_IDLE_TURNS:
                return
            self._meter.pass_until(now)
            events = self._due(now)
            # Faults never end: if only faults happen and no job starts, no job will start later.
            only_time = not any(isinstance(event, (ev.PodSeen, ev.PodGone)) for event in events)
            started = self._turn(events, now)
            self._estimate(now)
            if self._moves and self._move(now):
                started = True
            idle = 0 if started or not only_time or self._to_come else idle + 1
            on_progress(self._meter.started_count)

    def _plan(self, time: int, kind: int, number: int, run: int = 0) -> None:
        heappush(self._queue, (time, kind, number, run))
        self._to_come += 1

    def _next_time(self) -> int | None:
        times = [self._queue[0][0]] if self._queue else []
        deadline = self._scheduler.next_deadline()
        if deadline is not None:
            times.append(deadline - START)
        return max(self.outcome.end, min(times)) if times else None

    def _due(self, now: int) -> list[ev.Event]:
        """What happens at this moment, as events for the scheduler."""
        events: list[ev.Event] = []
        while self._queue and self._queue[0][0] <= now:
            _, kind, number, run = heappop(self._queue)
            self._to_come -= kind != _HARDWARE
            if kind == _ARRIVAL:
                self._meter.submitted(number)
                self._submitted = number
                events += self._create(number, 0)
            elif kind == _HARDWARE:
                events += self._change(now)
            elif (live := self._live.get(number)) is not None and live.run == run:
                events += self._remove(live)
                self._meter.ended(number)
                self._freed += 1
        return events

    def _turn(self, events: list[ev.Event], now: int) -> bool:
        """Tell the scheduler, and carry out what it commands, until it commands no more."""
        started = False
        while True:
            commands = self._scheduler.handle(events, START + now)
            events = []
            touched: dict[int, None] = {}
            evicted: dict[int, None] = {}
            for command in commands:
                events += self._carry_out(command, now, touched, evicted)
            for number in touched:
                live = self._live[number]
                if live.complete:
                    self._meter.started(number)
                    live.began = now
                    started = True
                    self._plan(now + live.remaining, _END, number, live.run)
            for number in evicted:
                events += self._restart(number, now)
            if not events:
                return started

    def _carry_out(
        self, command: Command, now: int, touched: dict[int, None], evicted: dict[int, None]
    ) -> list[ev.Event]:
        if isinstance(command, Bind):
            number = self._job_of_pod[command.uid]
            live = self._live[number]
            pod = live.pods[command.uid].with_chips(command.chips, command.annotations, None)
            pod.node, pod.phase = command.node, "Running"
            live.pods[command.uid] = pod
            node = self._machines.number_of[command.node]
            live.places[command.uid] = node, mask_of(command.chips)
            self._on_node[node][number] = None
            touched[number] = None
            return [ev.PodSeen(pod)]
        if isinstance(command, (Evict, DeletePod)) and command.uid in self._job_of_pod:
            if command.uid in self._moving:
                return self._evict_moved(command.uid, now)
            evicted[self._job_of_pod[command.uid]] = None
        elif isinstance(command, DeleteFinished):
            return [ev.MovePlanGone(command.name)]
        elif isinstance(command, SetGroupStatus):
            number = int(command.key.rpartition("-")[2])
            live_job = self._live.get(number)
            group = live_job.group if live_job is not None else None
            if live_job is not None and group is not None and group.phase != command.phase:
                live_job.group = replace(group, phase=command.phase)
                return [ev.PodGroupSeen(live_job.group)]
        return []

    # -- jobs --------------------------------------------------------------------------------

    def _create(self, number: int, run: int) -> list[ev.Event]:
        job = self._jobs[number]
        shape = self._shapes[job.chips]
        cls = self._classes.get(shape.chips_per_pod)
        if cls is None:
            cls = self._classes[shape.chips_per_pod] = PodClass(self._resource, shape.chips_per_pod)
        group, made = self._objects(number, cls, run)
        pods = {pod.uid: pod for pod in made}
        self._job_of_pod.update(dict.fromkeys(pods, number))
        self._live[number] = _Live(number, pods, group, run=run, remaining=job.duration)
        seen: list[ev.Event] = [ev.PodSeen(pod) for pod in pods.values()]
        return seen if group is None else [ev.PodGroupSeen(group), *seen]

    def _objects(self, number: int, cls: PodClass, run: int) -> tuple[PodGroup | None, list[Pod]]:
        job = self._jobs[number]
        lasts = job.duration if self._known_durations else None
        return job_objects(f"job-{number}", self._shapes[job.chips], cls, START + job.submitted, run, lasts)

    def _remove(self, live: _Live) -> list[ev.Event]:
        """Its pods have ended, and it is deleted."""
        events: list[ev.Event] = []
        for uid, pod in live.pods.items():
            del self._job_of_pod[uid]
            if uid in live.places:
                self._on_node[live.places[uid][0]].pop(live.number, None)
                events.append(ev.PodSeen(replace(pod, phase="Succeeded")))
        if live.group is not None:
            events.append(ev.PodGroupGone(f"{NAMESPACE}/{live.group.name}"))
        events += [ev.PodGone(uid) for uid in live.pods]
        del self._live[live.number]
        return events

    def _restart(self, number: int, now: int) -> list[ev.Event]:
        live = self._live[number]
        complete = live.complete
        events = self._remove(live)
        self._freed += 1
        if complete:
            self._meter.ended(number)
            self._meter.submitted(number)
            self.outcome.restarts += 1
            self.outcome.lost += (now - live.began) * self._jobs[number].chips
        return [*events, *self._create(number, live.run + 1)]

    # -- estimates ---------------------------------------------------------------------------

    def _estimate(self, now: int) -> None:
        """When the job that came last starts, as the scheduler says, if it waits and is one to ask about."""
        number = self._submitted
        self._submitted = -1
        if number < 0 or not self._estimates.is_due(number) or not self._meter.waits(number):
            return
        start = estimates(self._scheduler.view, START + now).get(self._key(number))
        if start is not None:
            earliest, latest = (
                None if time is None else time - START for time in (start.earliest, start.latest)
            )
            self._estimates.add(Estimate(number, earliest, latest, start.guess))

    def _key(self, number: int) -> str:
        """Of the job in the scheduler."""
        name = f"job-{number}" if self._live[number].group is not None else f"pod:job-{number}"
        return f"{NAMESPACE}/{name}"

    # -- moves -------------------------------------------------------------------------------

    def _move(self, now: int) -> bool:
        """Plans, one after the other, as long as there are any. Whether a job started."""
        started = False
        while (next_plan := self._next_plan(now)) is not None:
            job, plan = next_plan
            self.outcome.moves.plans += 1
            self._moving = {pod.uid for move in plan.moves for pod in move.pods}
            started = self._turn([ev.MovePlanSeen(plan)], now) or started
            self._moving = set()
            if self._meter.waits(job.number):
                self.outcome.moves.failed_plans += 1
                self._without_plan = job.number, self._freed
        return started

    def _next_plan(self, now: int) -> tuple[SimulatedJob, MovePlan] | None:
        """Return a plan for the head of the queue if it waits although enough chips are free.

        This is done as on a cluster, but at once, and the saving is not estimated if the moves cost nothing.
        A job is not tried a second time before chips become free.
        """
        job = self._meter.head()
        if job is None or job.chips > self._meter.free or self._without_plan == (job.number, self._freed):
            return None
        view = self._scheduler.view
        for plan in plans_for_heads(view, START + now):
            valued = plan if plan.cost == 0 else with_saving(view, plan, START + now)
            if valued.cost == 0 or (valued.saving is not None and valued.saving >= valued.cost):
                # It is deleted as soon as it has finished.
                return job, replace(valued, approval=APPROVED, ttl=0)
        self._without_plan = job.number, self._freed
        return None

    def _evict_moved(self, uid: str, now: int) -> list[ev.Event]:
        """The pod is gone, and its owner has created it again. The job keeps what it has done."""
        number = self._job_of_pod.pop(uid)
        live, job = self._live[number], self._jobs[number]
        if live.complete:
            self._meter.ended(number)
            self._meter.submitted(number)
            live.remaining += self._restart_cost - (now - live.began)
            live.run += 1
            self.outcome.moves.jobs += 1
            self.outcome.moves.chips += job.chips
            self.outcome.moves.cost += self._restart_cost * job.chips
        old = live.pods.pop(uid)
        node, _ = live.places.pop(uid)
        if all(place != node for place, _ in live.places.values()):
            self._on_node[node].pop(number, None)
        _, made = self._objects(number, old.cls, live.run)
        new = next(pod for pod in made if pod.name == old.name)
        live.pods[new.uid] = new
        self._job_of_pod[new.uid] = number
        return [ev.PodGone(uid), ev.PodSeen(new)]

    # -- hardware ------------------------------------------------------------------------------

    def _await_change(self) -> None:
        self._next_change = next(self._faults, None)
        if self._next_change is not None:
            heappush(self._queue, (self._next_change.at, _HARDWARE, 0, 0))

    def _change(self, now: int) -> list[ev.Event]:
        change = self._next_change
        assert change is not None
        self._await_change()
        events: list[ev.Event] = []
        for node, chip in self._machines.parts_of(change):
            reports = self._machines.turn(node, chip, change.broken)
            if not reports:
                continue
            self._meter.broken = self._machines.broken
            self._freed += 1
            events += reports
            for job in self._jobs_on(node, chip) if change.broken else ():
                events += self._restart(job, now)
        return events

    def _jobs_on(self, node: int, chip: int | None) -> list[int]:
        return [
            job
            for job in self._on_node[node]
            if chip is None
            or any(place == node and chips >> chip & 1 for place, chips in self._live[job].places.values())
        ]


def _nodes_of_switches(fleet: GeneratedFleet, number_of: dict[str, int]) -> list[list[int]]:
    if fleet.topology is None:
        return []
    by_address = {node.internal_ip: number_of[node.name] for node in fleet.nodes}
    return [
        [by_address[server.server_ip] for server in leaf.servers if server.server_ip in by_address]
        for leaf in fleet.topology.switches
    ]


def hardware_of(fleet: GeneratedFleet, resource: str) -> dict[Hardware, int]:
    """How many pieces of each kind the cluster has."""
    chips = sum(node.chips_capacity.get(resource, 0) for node in fleet.nodes)
    switches = 0 if fleet.topology is None else len(fleet.topology.switches)
    return {Hardware.CHIP: chips, Hardware.NODE: len(fleet.nodes), Hardware.SWITCH: switches}


def fleet_events(fleet: GeneratedFleet) -> list[ev.Event]:
    """What tells the scheduler of the cluster."""
    events: list[ev.Event] = [ev.NodeSeen(node) for node in fleet.nodes]
    events += [ev.ReportSeen(report) for report in fleet.reports]
    return events if fleet.topology is None else [*events, ev.TopologySeen(fleet.topology)]


def job_objects(
    name: str,
    shape: SimulatedShape,
    cls: PodClass,
    created: int,
    run: int,
    lasts: int | None = None,
) -> tuple[PodGroup | None, list[Pod]]:
    """The pods of a job, and its PodGroup; a pod on its own needs none. Their owner creates them again."""
    annotations = {**shape.annotations, MOVABLE: "true"}
    if lasts is not None:
        annotations[EXPECTED_DURATION] = f"{lasts / SECOND:.3f}s"
    owner = Owner("SimulatedJob", name, f"{name}.owner")
    group = None
    if shape.pods > 1:
        group = PodGroup(
            NAMESPACE,
            name,
            uid=f"{name}.{run}",
            min_member=shape.pods,
            phase="Inqueue",
            created=created,
            labels=shape.labels,
            annotations=annotations,
            owner=owner,
        )
    pods = [
        Pod(
            f"{name}-{index}.{run}",
            NAMESPACE,
            name if group is None else f"{name}-{index}",
            cls,
            created=created,
            labels=shape.labels,
            annotations=annotations,
            group=None if group is None else name,
            chip_containers=1,
            owner=owner,
        )
        for index in range(shape.pods)
    ]
    return group, pods

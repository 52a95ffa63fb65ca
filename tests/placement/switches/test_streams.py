"""Invariants of version 2.0 under random streams of jobs, endings and faults."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.placement.switches import (
    ClusterView,
    PlacedJob,
    Request,
    Seat,
    State,
    SwitchClass,
    SwitchPlan,
    SwitchSettings,
    SwitchState,
    SwitchView,
    plan,
    replan,
    switch_states,
)
from tests.placement.switches.plans import node_of_rank

#: What happens next: (kind, a number that picks class or job, a number of pods or a rank).
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["submit", "submit", "submit", "end", "fault", "heal"]),
        st.integers(0, 1000),
        st.integers(1, 14),
    ),
    min_size=1,
    max_size=30,
)


@dataclass
class Running:
    job_class: SwitchClass
    pods: int
    seats: dict[int, Seat]


@dataclass
class World:
    """A small cluster whose nodes are numbered switch * 10 + position."""

    leaves: int
    width: int
    rules: SwitchSettings
    jobs: dict[str, Running] = field(default_factory=dict)
    faulty: set[int] = field(default_factory=set)

    def placed(self) -> list[PlacedJob]:
        return [
            PlacedJob(
                key,
                job.job_class,
                tuple((s.switch, s.mark) for s in job.seats.values() if s.switch is not None),
            )
            for key, job in self.jobs.items()
        ]

    def states(self) -> list[SwitchState]:
        return switch_states(self.leaves, self.placed(), self.rules.shared_limit)

    def view(self) -> ClusterView:
        taken = {node_of(seat) for job in self.jobs.values() for seat in job.seats.values()} | self.faulty
        switches = []
        for leaf, facts in enumerate(self.states()):
            free = tuple(p for p in range(self.width) if leaf * 10 + p not in taken)
            switches.append(SwitchView(f"leaf-{leaf}", tuple(leaf * 10 + p for p in free), free, facts))
        return ClusterView(tuple(switches), self.width, self.rules)

    def carry_out(self, key: str, job: Running, answer: SwitchPlan) -> None:
        taken = {node_of(seat) for other in self.jobs.values() for seat in other.seats.values()}
        assert not taken & set(answer.nodes)
        assert not self.faulty & set(answer.nodes)
        marks = {node: entry.mark for entry in answer.entries for node in entry.nodes}
        for rank, node in node_of_rank(answer).items():
            assert rank not in job.seats
            job.seats[rank] = Seat(rank, node // 10, node % 10, marks[node])
        self.jobs[key] = job
        states = self.states()
        for entry in answer.entries:
            assert (states[entry.switch].state, states[entry.switch].healthy) == (entry.state, entry.healthy)


def node_of(seat: Seat) -> int:
    assert seat.switch is not None
    assert seat.position is not None
    return seat.switch * 10 + seat.position


def step(world: World, number: int, kind: str, pick: int, size: int) -> None:
    if kind == "submit":
        job_class = list(SwitchClass)[pick % 3]
        pods = size % 3 + 1 if job_class is SwitchClass.PADDING else max(size, 4)
        answer = plan(world.view(), Request(job_class, pods))
        if isinstance(answer, SwitchPlan):
            assert sorted(node_of_rank(answer)) == list(range(pods))
            world.carry_out(f"job-{number}", Running(job_class, pods, {}), answer)
    elif kind == "heal":
        world.faulty.clear()
    elif world.jobs:
        key = sorted(world.jobs)[pick % len(world.jobs)]
        if kind == "end":
            del world.jobs[key]
        else:
            fault(world, key, size)


def fault(world: World, key: str, size: int) -> None:
    job = world.jobs[key]
    lost = [seat for rank, seat in sorted(job.seats.items()) if rank % 5 == size % 5]
    world.faulty.update(node_of(seat) for seat in lost)
    for seat in lost:
        del job.seats[seat.rank]
    before = dict(job.seats)
    former = lost if size % 2 else [Seat(seat.rank) for seat in lost]
    answer = replan(world.view(), Request(job.job_class, job.pods), list(job.seats.values()), former)
    if isinstance(answer, SwitchPlan):
        assert sorted(node_of_rank(answer)) == [seat.rank for seat in lost]
        world.carry_out(key, job, answer)
    else:
        assert "unknown)" not in answer.message
        assert answer.cures
        del world.jobs[key]
        return
    assert {rank: job.seats[rank] for rank in before} == before


def check(world: World) -> None:
    states = world.states()
    limit = world.rules.shared_limit
    owners: Counter[int] = Counter()
    for job in world.jobs.values():
        under = {seat.switch for seat in job.seats.values() if seat.switch is not None}
        shared = [s for s in under if states[s].state is State.SHARED]
        if job.job_class is SwitchClass.PADDING:
            assert len(under) <= 1
            continue
        if job.job_class is SwitchClass.FOUNDATION_MODEL:
            assert all(states[s].healthy for s in shared)
            assert len(shared) <= limit
        elif len(shared) > limit:
            assert not any(states[s].healthy for s in shared)
        owners.update({seat.switch for seat in job.seats.values() if seat.mark and seat.switch is not None})
    for switch, facts in enumerate(states):
        if facts.state is State.EXCLUSIVE:
            assert owners[switch] == 1
        assert facts.healthy or facts.state is State.SHARED
    backwards = switch_states(world.leaves, world.placed()[::-1], limit)
    assert backwards == states


@given(st.integers(2, 5), st.integers(1, 6), st.integers(1, 2), st.booleans(), EVENTS)
@settings(max_examples=200)
def test_streams(
    leaves: int, width: int, limit: int, single_first: bool, events: list[tuple[str, int, int]]
) -> None:
    world = World(leaves, width, SwitchSettings("2.0", limit, single_first))
    for number, (kind, pick, size) in enumerate(events):
        step(world, number, kind, pick, size)
        check(world)
    world.jobs.clear()
    assert world.states() == [SwitchState()] * leaves


def test_crowded_streams() -> None:
    """Many common jobs on a nearly full cluster, so that unhealthy switches come and go."""
    unhealthy = 0
    for seed in range(60):
        dice = random.Random(seed)
        rules = SwitchSettings("2.0", dice.choice([1, 1, 2]), dice.random() < 0.2)
        world = World(dice.randint(4, 8), dice.randint(4, 7), rules)
        for number in range(50):
            kind = dice.choice(["submit"] * 8 + ["end"] * 3 + ["fault", "heal"])
            pick = dice.choice([0, 1, 1, 1, 2]) if kind == "submit" else dice.randrange(1000)
            step(world, number, kind, pick, dice.choice([4, 4, 5, 5, 6, 7, 9, 12]))
            check(world)
            unhealthy += any(not facts.healthy for facts in world.states())
    assert unhealthy > 50  # else this stream would prove nothing about them

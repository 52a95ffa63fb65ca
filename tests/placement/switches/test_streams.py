"""Invariants of version 2.0 under random streams of jobs, endings and faults."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.placement.switches.classes import SwitchClass
from ringwise.placement.switches.planning import plan
from ringwise.placement.switches.positions import PodPosition
from ringwise.placement.switches.reschedule import reschedule
from ringwise.placement.switches.states import SwitchFacts, SwitchJob, SwitchState, switch_states
from ringwise.placement.switches.view import (
    SwitchPlan,
    SwitchRequest,
    SwitchSettings,
    SwitchView,
    TopologyView,
)
from tests.examples import examples
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
    positions: dict[int, PodPosition]


@dataclass
class World:
    """A small cluster whose nodes are numbered switch * 10 + position."""

    leaves: int
    width: int
    rules: SwitchSettings
    jobs: dict[str, Running] = field(default_factory=dict)
    faulty: set[int] = field(default_factory=set)

    def placed(self) -> list[SwitchJob]:
        return [
            SwitchJob(
                key,
                job.job_class,
                tuple((s.switch, s.mark) for s in job.positions.values() if s.switch is not None),
            )
            for key, job in self.jobs.items()
        ]

    def states(self) -> list[SwitchFacts]:
        return switch_states(self.leaves, self.placed(), self.rules.shared_limit)

    def view(self) -> TopologyView:
        taken = {
            node_of(position) for job in self.jobs.values() for position in job.positions.values()
        } | self.faulty
        switches = []
        for leaf, facts in enumerate(self.states()):
            free = tuple(p for p in range(self.width) if leaf * 10 + p not in taken)
            switches.append(SwitchView(f"leaf-{leaf}", tuple(leaf * 10 + p for p in free), free, facts))
        return TopologyView(tuple(switches), self.width, self.rules)

    def carry_out(self, key: str, job: Running, answer: SwitchPlan) -> None:
        taken = {node_of(position) for other in self.jobs.values() for position in other.positions.values()}
        assert not taken & set(answer.nodes)
        assert not self.faulty & set(answer.nodes)
        marks = {node: entry.mark for entry in answer.entries for node in entry.nodes}
        for rank, node in node_of_rank(answer).items():
            assert rank not in job.positions
            job.positions[rank] = PodPosition(rank, node // 10, node % 10, marks[node])
        self.jobs[key] = job
        states = self.states()
        for entry in answer.entries:
            assert (states[entry.switch].state, states[entry.switch].healthy) == (entry.state, entry.healthy)


def node_of(position: PodPosition) -> int:
    assert position.switch is not None
    assert position.position is not None
    return position.switch * 10 + position.position


def step(world: World, number: int, kind: str, pick: int, size: int) -> None:
    if kind == "submit":
        job_class = list(SwitchClass)[pick % 3]
        pods = size % 3 + 1 if job_class is SwitchClass.PADDING else max(size, 4)
        answer = plan(world.view(), SwitchRequest(job_class, pods))
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
    lost = [position for rank, position in sorted(job.positions.items()) if rank % 5 == size % 5]
    world.faulty.update(node_of(position) for position in lost)
    for position in lost:
        del job.positions[position.rank]
    before = dict(job.positions)
    former = lost if size % 2 else [PodPosition(position.rank) for position in lost]
    answer = reschedule(
        world.view(), SwitchRequest(job.job_class, job.pods), list(job.positions.values()), former
    )
    if isinstance(answer, SwitchPlan):
        assert sorted(node_of_rank(answer)) == [position.rank for position in lost]
        world.carry_out(key, job, answer)
    else:
        assert "unknown)" not in answer.message
        assert answer.fixes
        del world.jobs[key]
        return
    assert {rank: job.positions[rank] for rank in before} == before


def check(world: World) -> None:
    states = world.states()
    limit = world.rules.shared_limit
    owners: Counter[int] = Counter()
    for job in world.jobs.values():
        under = {position.switch for position in job.positions.values() if position.switch is not None}
        shared = [s for s in under if states[s].state is SwitchState.SHARED]
        if job.job_class is SwitchClass.PADDING:
            assert len(under) <= 1
            continue
        if job.job_class is SwitchClass.FOUNDATION_MODEL:
            assert all(states[s].healthy for s in shared)
            assert len(shared) <= limit
        elif len(shared) > limit:
            assert not any(states[s].healthy for s in shared)
        owners.update(
            {
                position.switch
                for position in job.positions.values()
                if position.mark and position.switch is not None
            }
        )
    for switch, facts in enumerate(states):
        if facts.state is SwitchState.EXCLUSIVE:
            assert owners[switch] == 1
        assert facts.healthy or facts.state is SwitchState.SHARED
    backwards = switch_states(world.leaves, world.placed()[::-1], limit)
    assert backwards == states


@given(st.integers(2, 5), st.integers(1, 6), st.integers(1, 2), st.booleans(), EVENTS)
@settings(max_examples=examples(200))
def test_invariants_hold_under_random_streams_S2_S9(
    leaves: int, width: int, limit: int, single_first: bool, events: list[tuple[str, int, int]]
) -> None:
    world = World(leaves, width, SwitchSettings("2.0", limit, single_first))
    for number, (kind, pick, size) in enumerate(events):
        step(world, number, kind, pick, size)
        check(world)
    world.jobs.clear()
    assert world.states() == [SwitchFacts()] * leaves


def test_invariants_hold_under_crowded_streams_S2_S9() -> None:
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

"""On small clusters a plan has the least cost: compared with all sets of jobs and all places for them.

`RINGWISE_PLANS=10000` tries so many clusters.
"""

from __future__ import annotations

import os
import random
from itertools import combinations
from typing import Any, NamedTuple

import pytest

from ringwise.messages.move_plan import MovePlan
from ringwise.reasons import Reason
from ringwise.scheduler.defragment.search import find_plan
from ringwise.state.model import Owner, PodClass
from tests.builders.values import SECOND, group, node, pod, pod_class
from tests.examples import sample
from tests.scheduler.rig import NOW, told

COUNT = int(os.environ.get("RINGWISE_PLANS", len(sample(range(240), 3))))
OWNER = Owner("ReplicaSet", "service", "uid-of-service", "apps/v1")
#: Annotation -> seconds.
COSTS = {None: 600, "1m": 60, "20m": 1200}


class Running(NamedTuple):
    chips: int
    node: int
    holds: tuple[int, ...]
    zone: str
    movable: bool
    cost: str | None


class Small(NamedTuple):
    """Nodes with two rings of four chips, by zone; jobs of one pod; and a job that wants to start."""

    zones: tuple[str, ...]
    running: tuple[Running, ...]
    chips: int
    pods: int
    zone: str


def small_cluster(seed: int) -> Small:
    random_ = random.Random(seed)
    zones = tuple(random_.choice("ab") for _ in range(random_.randint(2, 4)))
    free = [[set(range(4)), set(range(4, 8))] for _ in zones]
    running = []
    for _ in range(random_.randint(2, 9)):
        chips, number = random_.choice((1, 1, 1, 2, 2, 4, 8)), random_.randrange(len(zones))
        zone = zones[number] if random_.random() < 0.25 else ""
        rings = free[number] if chips == 8 else [random_.choice(free[number])]
        there = sorted(set.union(*rings))
        if len(there) < chips:
            continue
        holds = tuple(sorted(random_.sample(there, chips)))
        for ring in rings:
            ring -= set(holds)
        cost = random_.choice(tuple(COSTS))
        running.append(Running(chips, number, holds, zone, random_.random() < 0.8, cost))
    chips = random_.choice((2, 4, 8, 8))
    pods = random_.choice((1, 1, 1, 2)) if chips == 8 else 1
    return Small(zones, tuple(running), chips, pods, random_.choice("ab") if random_.random() < 0.25 else "")


def events_of(cluster: Small) -> list[object]:
    events: list[Any] = [
        node(f"n{number}", labels={"zone": zone}) for number, zone in enumerate(cluster.zones)
    ]
    for number, one in enumerate(cluster.running):
        notes = {} if one.cost is None else {"ringwise.io/restart-cost": one.cost}
        if not one.movable:
            notes["ringwise.io/movable"] = "false"
        events.append(
            pod(
                f"p{number}",
                one.chips,
                on=f"n{one.node}",
                holds=one.holds,
                cls=_class(one.chips, one.zone),
                owner=OWNER,
                annotations=notes,
            )
        )
    events.append(group("waiting", cluster.pods))
    wanted = _class(cluster.chips, cluster.zone)
    events += [
        pod(f"waiting-{number}", cluster.chips, cls=wanted, group="waiting") for number in range(cluster.pods)
    ]
    return events


def _class(chips: int, zone: str) -> PodClass:
    return pod_class(chips, node_selector=(("zone", zone),) if zone else ())


def least_cost(cluster: Small) -> int | None:
    """In chip-seconds, by trying everything; None: no moves help."""
    free = [[4, 4] for _ in cluster.zones]
    for one in cluster.running:
        for chip in one.holds:
            free[one.node][chip // 4] -= 1
    movable = [one for one in cluster.running if one.movable]
    best: int | None = None
    for number in range(len(movable) + 1):
        for chosen in combinations(movable, number):
            cost = sum(COSTS[one.cost] * one.chips for one in chosen)
            if best is not None and cost >= best:
                continue
            left = [list(rings) for rings in free]
            for one in chosen:
                for chip in one.holds:
                    left[one.node][chip // 4] += 1
            wanted = [(cluster.chips, cluster.zone)] * cluster.pods + [
                (one.chips, one.zone) for one in chosen
            ]
            if _all_fit(sorted(wanted, reverse=True), left, cluster.zones):
                best = cost
    return best


def _all_fit(wanted: list[tuple[int, str]], free: list[list[int]], zones: tuple[str, ...]) -> bool:
    if not wanted:
        return True
    (chips, zone), rest = wanted[0], wanted[1:]
    for rings, where in zip(free, zones, strict=True):
        if zone not in ("", where):
            continue
        takes = [((4, 4))] if chips == 8 else [(chips, 0), (0, chips)]
        for first, second in takes:
            if rings[0] >= first and rings[1] >= second:
                rings[0] -= first
                rings[1] -= second
                fits = _all_fit(rest, free, zones)
                rings[0] += first
                rings[1] += second
                if fits:
                    return True
    return False


@pytest.mark.parametrize("part", range(6))
def test_no_other_moves_cost_less(part: int) -> None:
    plans = 0
    for seed in range(part, COUNT, 6):
        cluster = small_cluster(seed)
        view = told(events_of(cluster))
        job = view.jobs["default/waiting"]
        if not view.has_pending_pods(job):
            continue
        found = find_plan(view, job, NOW)
        expected = least_cost(cluster)
        if isinstance(found, Reason):
            assert expected is None, (seed, found.message)
            continue
        plans += 1
        assert isinstance(found, MovePlan)
        assert found.cost == (expected or 0) * SECOND, seed
        assert found.cost == sum(move.cost for move in found.moves)
    assert plans


def test_with_enough_chips_and_all_movable_there_is_always_a_plan() -> None:
    """Requests of 1, 2, 4 and 8 divide each other: enough free chips are the whole condition."""
    plans = 0
    seeds = sample(range(40))
    for seed in seeds:
        random_ = random.Random(seed)
        nodes = random_.randint(6, 20)
        events: list[Any] = [node(f"n{number}") for number in range(nodes)]
        free = 0
        for number in range(nodes):
            for ring in (0, 4):
                there = list(range(ring, ring + 4))
                while there:
                    chips = random_.choice((1, 1, 2, 4))
                    if len(there) < chips:
                        continue
                    holds, there = there[:chips], there[chips:]
                    if random_.random() < 0.6:
                        name = f"p{number}-{holds[0]}"
                        events.append(pod(name, chips, on=f"n{number}", holds=holds, owner=OWNER))
                    else:
                        free += chips
        pods = free // 8
        events.append(group("waiting", pods))
        events += [pod(f"waiting-{number}", 8, group="waiting") for number in range(pods)]
        view = told(events)
        job = view.jobs["default/waiting"]
        if not pods or not view.has_pending_pods(job):
            continue
        found = find_plan(view, job, NOW)
        assert isinstance(found, MovePlan), (seed, found.message)
        plans += 1
    assert plans > len(seeds) // 2

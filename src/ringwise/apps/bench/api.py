"""`ringwise bench api`: how fast pods get their nodes on a real API server.

Beside each other: a loop that only posts Bindings, and the scheduler, which reads everything, decides, and
posts them with the same client. The ratio says what deciding costs. How it is kept fair on a machine whose
speed changes by the second: see `bench_contest`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from statistics import median

from ringwise.apps.bench.binders import KUBE_SCHEDULER, LOOP, SCHEDULER
from ringwise.apps.bench.contest import contest
from ringwise.apps.bench.report import at_least, shown
from ringwise.apps.bench.scene import Scene
from ringwise.views.bench import Measured

GOAL = 0.9

USUAL = Scene("1,000 nodes, 3,000 one-chip pods", 1_000, 3_000, goal=GOAL)
MORE = (
    Scene("1,000 nodes, one gang of 1,000 whole nodes", 1_000, 1_000, chips=8, gang=True, rounds=1),
    Scene("1,000 nodes, 100 one-chip jobs at once", 1_000, 100, rounds=5),
    Scene("5,000 nodes, 3,000 one-chip pods", 5_000, 3_000),
    Scene("10,000 nodes, 3,000 one-chip pods", 10_000, 3_000),
)


def run(full: bool = False) -> list[Measured]:
    return measure(scenes(full))


def run_beside_kube_scheduler(full: bool = False) -> list[Measured]:
    """The same, and the same work by kube-scheduler in the same run."""
    return measure(scenes(full), beside=True)


def scenes(full: bool) -> tuple[Scene, ...]:
    return (replace(USUAL, rounds=2), *MORE) if full else (USUAL,)


def measure(chosen: Iterable[Scene], *, beside: bool = False) -> list[Measured]:
    return [measured for scene in chosen for measured in _measured(scene, beside)]


def _measured(scene: Scene, beside: bool) -> list[Measured]:
    # kube-scheduler knows no gangs.
    who = (LOOP, SCHEDULER, KUBE_SCHEDULER) if beside and not scene.gang else (LOOP, SCHEDULER)
    rounds = contest(scene, who)
    rates = {name: median(scene.pods / seconds[name] for seconds in rounds) for name in who}
    # Round by round, because a round has one speed of the machine.
    ratio = median(seconds[LOOP] / seconds[SCHEDULER] for seconds in rounds)
    name = f"{scene.name}, beside {LOOP}"
    return [
        *(shown(f"{scene.name}, {one}", rate, "pods/s") for one, rate in rates.items()),
        at_least(name, ratio, "x", scene.goal) if scene.goal else shown(name, ratio, "x"),
    ]

"""`ringwise bench api`: how fast pods get their nodes on a real API server.

Compared are a loop that only posts Bindings, and the scheduler, which reads all objects, decides, and posts
them with the same client. The ratio is what deciding costs. `comparison` keeps it fair on a machine whose
speed changes by the second.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from statistics import median

from ringwise.apps.bench.binders import KUBE_SCHEDULER, LOOP, SCHEDULER
from ringwise.apps.bench.comparison import compare
from ringwise.apps.bench.report import at_least, shown
from ringwise.apps.bench.scenario import Scenario
from ringwise.views.bench import Measured

GOAL = 0.9

USUAL = Scenario("1,000 nodes, 3,000 one-chip pods", 1_000, 3_000, goal=GOAL)
MORE = (
    Scenario("1,000 nodes, one gang of 1,000 whole nodes", 1_000, 1_000, chips=8, gang=True, rounds=1),
    Scenario("1,000 nodes, 100 one-chip jobs at once", 1_000, 100, rounds=5),
    Scenario("5,000 nodes, 3,000 one-chip pods", 5_000, 3_000),
    Scenario("10,000 nodes, 3,000 one-chip pods", 10_000, 3_000),
)


def run(full: bool = False) -> list[Measured]:
    return measure(scenarios(full))


def run_beside_kube_scheduler(full: bool = False) -> list[Measured]:
    """The same, and the same work by kube-scheduler in the same run."""
    return measure(scenarios(full), beside=True)


def scenarios(full: bool) -> tuple[Scenario, ...]:
    return (replace(USUAL, rounds=2), *MORE) if full else (USUAL,)


def measure(chosen: Iterable[Scenario], *, beside: bool = False) -> list[Measured]:
    return [measured for scenario in chosen for measured in _measured(scenario, beside)]


def _measured(scenario: Scenario, beside: bool) -> list[Measured]:
    # kube-scheduler knows no gangs.
    who = (LOOP, SCHEDULER, KUBE_SCHEDULER) if beside and not scenario.gang else (LOOP, SCHEDULER)
    rounds = compare(scenario, who)
    rates = {name: median(scenario.pods / seconds[name] for seconds in rounds) for name in who}
    # Round by round: within a round the machine has the same speed for both.
    ratio = median(seconds[LOOP] / seconds[SCHEDULER] for seconds in rounds)
    name = f"{scenario.name}, beside {LOOP}"
    return [
        *(shown(f"{scenario.name}, {one}", rate, "pods/s") for one, rate in rates.items()),
        at_least(name, ratio, "x", scenario.goal) if scenario.goal else shown(name, ratio, "x"),
    ]

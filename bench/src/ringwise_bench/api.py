"""`ringwise bench api`: how fast pods get their nodes on a real API server.

Compared are a loop that only posts Bindings, and the scheduler with its defaults, which reads all objects,
decides, posts them with the same client and writes PodGroups, status and events. The ratio is what all that
costs. A gang through a vcjob is compared with a loop that creates and binds the same pods. `comparison` keeps
it fair on a machine whose speed changes by the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median

from ringwise_bench.binders import ALONE, KUBE_SCHEDULER, LOOP, SCHEDULER
from ringwise_bench.comparison import Outcome, compare_in_turn
from ringwise_bench.report import Figure, at_least, at_most, shown
from ringwise_bench.scenario import Scenario

#: Bindings per second with the controller, and processor time until everything is written.
GOAL = 0.85
MAX_CPU = 3.0
GOAL_ALONE = 0.9

USUAL = (
    Scenario(
        "1,000 nodes, 3,000 one-chip pods",
        1_000,
        3_000,
        rounds=1,
        goal=GOAL,
        most_cpu=MAX_CPU,
    ),
    Scenario(
        "1,000 nodes, a vcjob of 1,000 whole nodes",
        1_000,
        1_000,
        chips=8,
        vcjob=True,
        rounds=1,
        goal=GOAL,
        most_cpu=MAX_CPU,
    ),
)
#: With `--full`, each after the other. The first is that of the usual run, twice and without controller, too.
FULL = (
    replace(USUAL[0], rounds=2, goal_alone=GOAL_ALONE),
    USUAL[1],
    Scenario("1,000 nodes, one gang of 1,000 whole nodes", 1_000, 1_000, chips=8, gang=True, rounds=1),
    Scenario("1,000 nodes, 100 one-chip jobs at once", 1_000, 100, rounds=5),
    Scenario("5,000 nodes, 3,000 one-chip pods", 5_000, 3_000),
    Scenario("10,000 nodes, 3,000 one-chip pods", 10_000, 3_000),
)


def run(full: bool = False) -> list[Figure]:
    return measure(scenarios(full))


def run_beside_kube_scheduler(full: bool = False) -> list[Figure]:
    """The same, and the same work by kube-scheduler in the same run."""
    return measure(scenarios(full), beside=True)


def scenarios(full: bool) -> tuple[tuple[Scenario, ...], ...]:
    """Groups of scenarios; the sides of a group are started together, and write what is left together."""
    return tuple((one,) for one in FULL) if full else (USUAL,)


def measure(chosen: Iterable[Sequence[Scenario]], *, beside: bool = False) -> list[Figure]:
    result: list[Figure] = []
    for group in chosen:
        plans = [(scenario, _sides(scenario, beside)) for scenario in group]
        for (scenario, who), rounds in zip(plans, compare_in_turn(plans), strict=True):
            result += _measured(scenario, who, rounds)
    return result


def _sides(scenario: Scenario, beside: bool) -> list[str]:
    who = [LOOP, SCHEDULER]
    if scenario.goal_alone is not None:
        who.append(ALONE)
    # kube-scheduler knows no gangs.
    if beside and not scenario.gang and not scenario.vcjob:
        who.append(KUBE_SCHEDULER)
    return who


def _measured(scenario: Scenario, who: Sequence[str], rounds: Sequence[dict[str, Outcome]]) -> list[Figure]:
    rates = {one: median(scenario.pods / outcomes[one].seconds for outcomes in rounds) for one in who}
    result = [shown(f"{scenario.name}, {one}", rate, "pods/s") for one, rate in rates.items()]
    for one, goal in ((SCHEDULER, scenario.goal), (ALONE, scenario.goal_alone)):
        if one in who:
            # Round by round: within a round the machine has the same speed for both.
            ratio = median(outcomes[LOOP].seconds / outcomes[one].seconds for outcomes in rounds)
            name = f"{scenario.name}, {one} beside {LOOP}"
            result.append(at_least(name, ratio, "x", goal) if goal is not None else shown(name, ratio, "x"))
    used, bare = rounds[0][SCHEDULER], rounds[0][LOOP]
    name = f"{scenario.name}, processor time in that of {LOOP}"
    ratio = used.cpu / bare.cpu
    result.append(
        at_most(name, ratio, "x", scenario.most_cpu)
        if scenario.most_cpu is not None
        else shown(name, ratio, "x")
    )
    result.append(shown(f"{scenario.name}, writes in those of {LOOP}", used.writes / bare.writes, "x"))
    return result

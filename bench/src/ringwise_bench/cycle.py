"""`ringwise bench cycle`: whole cycles with the default configuration, nodeorder and binpack on.

Beside each, the same plugins are asked about every node for every pod, as a plain
scheduler does it: for a sample of pods, because it takes long, and its answers are
compared with ours. Pods arrive as events; what is timed is the cycle that places them.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence

from ringwise.apps.extensions import new_scheduler
from ringwise.framework.extension_points import NODE_SCORE, PREDICATE
from ringwise.framework.gangs.gang_placement import node_filters
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind
from ringwise.messages.events import Decide
from ringwise.records import dataclass
from ringwise.scheduler.core.machine import Scheduler
from ringwise.state.model import Node, Pod, PodClass, PodGroup
from ringwise.wellknown import ASCEND910, HOSTNAME, SCHEDULE_POLICY
from ringwise_bench import accounting
from ringwise_bench.report import Figure, at_least, at_most, shown

SECOND = 1_000_000_000
#: Kinds of nodes, so that predicates and scores differ between nodes.
_KINDS = ((192_000, 1 << 40), (192_000, 1 << 39), (96_000, 1 << 39))


def _nodes(count: int) -> list[ev.Event]:
    result: list[ev.Event] = []
    for number in range(count):
        cpu, memory = _KINDS[number % len(_KINDS)]
        node = Node(
            f"node-{number}",
            labels={HOSTNAME: f"node-{number}", "zone": f"z{number % 3}"},
            chips_allocatable={ASCEND910: 8},
            cpu_milli=cpu,
            memory=memory,
            max_pods=110,
        )
        result.append(ev.NodeSeen(node))
    return result


def _gang(name: str, pods: int, chips: int, created: int) -> list[ev.Event]:
    cls = PodClass(resource=ASCEND910, chips=chips, cpu_milli=4_000 * chips, memory=chips << 30)
    # Several pods on a node: 910 x8 allows that to no gang, 910B x8 to all.
    policy = {SCHEDULE_POLICY: "chip8-node8"} if pods > 1 and chips < 8 else {}
    group = PodGroup(
        "bench", name, uid=name, min_member=pods, phase="Inqueue", created=created, annotations=policy
    )
    members = [
        Pod(
            f"{name}-{index}", "bench", f"{name}-{index}", cls, created=created, group=name, chip_containers=1
        )
        for index in range(pods)
    ]
    return [ev.PodGroupSeen(group), *(ev.PodSeen(pod) for pod in members)]


@dataclass(slots=True)
class TimedCycle:
    seconds: float
    pods: int
    scheduler: Scheduler

    @property
    def per_pod(self) -> float:
        return self.seconds / self.pods


def _cycle(nodes: int, gangs: Sequence[tuple[int, int]]) -> TimedCycle:
    """Place gangs of (pods, chips) on an empty cluster in one cycle."""
    scheduler = new_scheduler()
    scheduler.handle(_nodes(nodes), SECOND)
    # The scheduler sorts the nodes once, before the first job needs them: this is not measured.
    scheduler.prepare(SECOND)
    events: list[ev.Event] = []
    for number, (pods, chips) in enumerate(gangs):
        events += _gang(f"job-{number}", pods, chips, SECOND + number)
    scheduler.handle(events, 2 * SECOND, Decide.NOTHING)
    gc.collect()
    gc.freeze()
    started = time.perf_counter()
    commands = scheduler.handle([], 2 * SECOND, Decide.ONE_CYCLE)
    seconds = time.perf_counter() - started
    gc.unfreeze()
    bound = sum(isinstance(command, Bind) for command in commands)
    wanted = sum(pods for pods, _ in gangs)
    if bound != wanted:
        raise RuntimeError(f"{bound} of {wanted} pods were placed")
    return TimedCycle(seconds, bound, scheduler)


def _plain_choice(session: Session, job: Job, pod: Pod) -> int | None:
    """What a plain scheduler does for every pod: every plugin, every node."""
    state, policy = session.state, job.policy
    if policy is None:
        return None
    fleet = state.fleets[policy.resource]
    filters = node_filters(session, job, pod)
    best: tuple[float, float, int] | None = None
    chosen: int | None = None
    for node in range(len(state.names)):
        shape = state.shape_of(node)
        if shape is None or fleet.closed[node] is not None:
            continue
        if any(ask(pod.cls, policy, shape) is not None for ask in session.registered(PREDICATE)):
            continue
        if any(blocks(node) is not None for blocks in filters):
            continue
        usable = fleet.usable(node, policy.withholds_network)
        if usable < 0:
            continue
        signature = policy.rule.signature(usable, fleet.allocatable[node], fleet.faulty[node])
        score = policy.rule.score(signature, pod.cls.chips, policy.multi_pod)
        if score is None:
            continue
        rating = sum(rate(pod.cls, shape) for rate in session.registered(NODE_SCORE))
        key = (-score, -rating, state.rank_of(node))
        if best is None or key < best:
            best, chosen = key, node
    return chosen


def _plain(nodes: int, load: int, job_pods: int, chips: int, samples: int) -> tuple[float, int]:
    """Seconds a plain choice takes on a cluster that is filled half way, and how many differ from ours."""
    timed = _cycle(nodes, [(1, 1)] * load)
    scheduler = timed.scheduler
    spent, differing = 0.0, 0
    for sample in range(samples):
        events = _gang(f"probe-{sample}", job_pods, chips, 3 * SECOND)
        scheduler.handle(events, 3 * SECOND, Decide.NOTHING)
        job = scheduler.view.jobs[f"bench/probe-{sample}"]
        session = scheduler.view.what_if.open_session(3 * SECOND, [job])
        session.job_valid(job)
        pod = next(iter(job.pods.values()))
        started = time.perf_counter()
        plain = _plain_choice(session, job, pod)
        spent += time.perf_counter() - started
        ours = session.node_selection(job, pod).choose({})
        differing += plain != (None if ours is None else ours.node)
        scheduler.handle([], 3 * SECOND + sample, Decide.ONE_CYCLE)
    return spent / samples, differing


def _idle_ratio() -> float:
    """A cycle in which nothing changed, over one that places 1,000 pods."""
    timed = _cycle(1_000, [(1, 8)] * 1_000)
    scheduler = timed.scheduler
    # Jobs that wait: they must cost nothing while nothing changes.
    events = [event for number in range(500) for event in _gang(f"late-{number}", 1, 8, 3 * SECOND)]
    scheduler.handle(events, 3 * SECOND)
    rounds = 50
    started = time.perf_counter()
    for number in range(rounds):
        scheduler.handle([], 4 * SECOND + number)
    return (time.perf_counter() - started) / rounds / timed.seconds


def run(full: bool = False) -> list[Figure]:
    samples = 20 if full else 5
    results: list[Figure] = []

    singles = _cycle(10_000, [((1), (1, 1, 2, 4, 8)[n % 5]) for n in range(10_000)])
    plain, differing = _plain(10_000, 5_000, 1, 1, samples)
    results.append(shown("10,000 one-pod jobs on 10,000 nodes", singles.seconds, "s"))
    results.append(shown("pods per second", 1 / singles.per_pod, "1/s"))
    results.append(at_least("one-pod jobs: speed-up over a plain cycle", plain / singles.per_pod, "x", 100))
    results.append(at_most("one-pod jobs: answers that differ", differing, "", 0))

    gang = _cycle(5_000, [(5_000, 8)])
    plain, differing = _plain(5_000, 100, 64, 8, samples)
    results.append(shown("a 5,000-pod gang on 5,000 nodes", gang.seconds, "s"))
    results.append(at_least("5,000-pod gang: speed-up over a plain cycle", plain / gang.per_pod, "x", 100))
    results.append(at_most("5,000-pod gang: answers that differ", differing, "", 0))

    many = _cycle(5_000, [(3, 4)] * 3_000)
    results.append(shown("3,000 gangs of 3 on 5,000 nodes", many.seconds, "s"))
    large = _cycle(5_000, [(1_000, 4)] * 9)
    results.append(shown("9 gangs of 1,000 on 5,000 nodes", large.seconds, "s"))

    small, grown = _cycle(2_000, [(1, 2)] * 4_000), _cycle(20_000, [(1, 2)] * 4_000)
    results.append(
        at_most("cost per pod at 20,000 nodes over 2,000", grown.per_pod / small.per_pod, "x", 1.5)
    )
    results.append(at_most("a cycle without changes over one of 1,000 pods", _idle_ratio(), "x", 0.01))
    results += accounting.run(full)
    return results

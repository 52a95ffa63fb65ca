"""Random clusters: a plan that is shown starts its job, and moves nothing that must stay.

`RINGWISE_PLANS=10000` tries so many clusters.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.framework.job import Job
from ringwise.messages import events as ev
from ringwise.messages.move_plan import MovePlan
from ringwise.reasons import Reason
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.defragment.movable import DisruptionBudget, not_movable
from ringwise.scheduler.defragment.search import PlanBudget, find_plan, find_plans
from ringwise.state.cluster import double_claims
from ringwise.state.model import Owner, Requirement
from ringwise.state.vcjob import Policy, VcJob
from tests.builders.values import CHIP
from tests.examples import examples, sample
from tests.fingerprint import difference, whole_state
from tests.scheduler.rig import PLAIN, Rig

COUNT = int(os.environ.get("RINGWISE_PLANS", "48"))
OWNERS = (
    Owner("ReplicaSet", "service", "uid-of-service", "apps/v1"),
    Owner("StatefulSet", "store", "uid-of-store", "apps/v1"),
    Owner("Job", "batch", "uid-of-batch", "batch/v1"),
    Owner("DaemonSet", "daemon", "uid-of-daemon", "apps/v1"),
    None,
)
#: One budget that protects some pods, and one that lets one of its pods go.
BUDGETS = (
    DisruptionBudget("default", "none", (Requirement("app", "In", ("guarded",)),), 0),
    DisruptionBudget("default", "one", (Requirement("app", "In", ("loose",)),), 1),
)
KINDS = ("plain", "plain", "switches", "superpods", "racks")


def rig_of(random_: random.Random, kind: str) -> tuple[Rig, int]:
    """Empty nodes, and the chips of each."""
    if kind == "switches":
        rig = Rig(actions=PLAIN, nslb_version=random_.choice(("1.0", "2.0")))
        rig.switches(3, 3)
        return rig, 8
    if kind == "superpods":
        rig = Rig(actions=PLAIN, super_pod_size=4, reserve_nodes=0)
        rig.superpods(2, 4)
        return rig, 16
    if kind == "racks":
        rig = Rig(actions=PLAIN)
        rig.racks(2, 4)
        return rig, 8
    rig = Rig(actions=PLAIN, queue_discipline=random_.choice(("best-effort", "strict")))
    for number in range(1, random_.randint(4, 9)):
        rig.node(f"n{number}", cpu_milli=16_000, labels={"zone": random_.choice("ab")})
    return rig, 8


def submit_small(random_: random.Random, rig: Rig, name: str, whole: int) -> None:
    """A job that may be moved, or one of those that must not."""
    labels: dict[str, str] = {}
    notes = {"huawei.com/schedule_policy": "chip2-node16"} if whole == 16 else {}
    if random_.random() < 0.1:
        notes[random_.choice(("ringwise.io/movable", "volcano.sh/preemptable"))] = "false"
    if random_.random() < 0.1:
        labels["volcano.sh/preemptable"] = "false"
    if random_.random() < 0.2:
        labels["app"] = random_.choice(("guarded", "loose"))
    if random_.random() < 0.3:
        notes["ringwise.io/restart-cost"] = random_.choice(("1m", "1h"))
    if random_.random() < 0.1:
        notes["volcano.sh/cooldown-time"] = random_.choice(("1ms", "24h"))
    owner: Owner | None = random_.choice(OWNERS)
    if random_.random() < 0.6:
        owner = Owner("Job", name, f"uid-of-{name}")
        policies = tuple(
            Policy(
                random_.choice(("AbortJob", "RestartJob", "RestartPod", "TerminateJob", "CompleteJob")),
                (random_.choice(("PodEvicted", "PodFailed", "*", "TaskCompleted")),),
            )
            for _ in range(random_.choice((0, 0, 0, 1)))
        )
        retries = random_.choice((0, 0, 2))
        # The scheduler reads the policies of a vcjob only; its pods are there.
        rig.tell(
            ev.VcJobSeen(
                VcJob(
                    "default", name, owner.uid, (), 1, policies=policies, retry_count=retries, phase="Running"
                )
            )
        )
    chips = random_.choice((2, 2, 2, 4, 8, 16) if whole == 16 else (1, 1, 1, 2, 2, 4, 8))
    pods = random_.choice((1, 1, 1, 2)) if chips == whole else 1
    rig.submit(name, pods=pods, chips=chips, labels=labels, annotations=notes, owner=owner)


def cluster_of(seed: int) -> tuple[Rig, Job | None]:
    """Jobs came and went; one more waits."""
    random_ = random.Random(seed)
    kind = random_.choice(KINDS)
    rig, whole = rig_of(random_, kind)
    rig.run()
    for number in range(random_.randint(2, 5) * rig.machine.view.cluster.node_count):
        submit_small(random_, rig, f"small-{number}", whole)
    rig.run()
    running = [name for name in rig.groups if rig.nodes_of(name.partition("/")[2])]
    ending = random_.uniform(0.2, 0.6)
    for name in running:
        if random_.random() < ending:
            rig.end(name.partition("/")[2])
    rig.run()
    labels: dict[str, str] = {}
    notes: dict[str, str] = {}
    free = rig.machine.view.cluster.fleets[CHIP].free_mask
    pods, chips = max(2, min(4, sum(mask.bit_count() for mask in free) // whole)), whole
    if kind == "plain":
        pods, chips = random_.choice(((1, 2), (1, 4), (1, 8), (2, 8), (3, 8)))
    elif kind == "switches":
        labels["tor-affinity"] = random_.choice(("normal-schema", "large-model-schema"))
    elif kind == "superpods":
        pods, notes = pods // 2 * 2, {"sp-block": "32", "huawei.com/schedule_policy": "chip2-node16-sp"}
    else:
        pods = pods // 2 * 2
        notes = {"huawei.com/schedule_policy": "chip8-node8-ra64-sp", "sp-block": "16", "ra-block": "16"}
    rig.submit("waiting", pods=pods, chips=chips, labels=labels, annotations=notes)
    rig.run()
    job = rig.machine.view.jobs["default/waiting"]
    return rig, job if rig.machine.view.has_pending_pods(job) else None


def after(scheduler: Scheduler, plan: MovePlan) -> Scheduler:
    """Another scheduler, which knows the same cluster with the moved pods where they were planned.

    Without other pods that wait: an applied plan keeps the room for its job.
    """
    targets = {pod.uid: pod for move in plan.moves for pod in move.pods}
    told: list[ev.Event] = []
    for event in scheduler.view.current_events():
        if isinstance(event, ev.PodSeen) and event.pod.uid in targets:
            target = targets[event.pod.uid]
            event = ev.PodSeen(replace(event.pod, node=target.node, holds=target.chips))
        elif isinstance(event, ev.PodSeen) and event.pod.node is None and event.pod.group != "waiting":
            continue
        told.append(event)
    other = new_scheduler(scheduler.view.configuration)
    other.handle(told, scheduler.view.history.now)
    return other


def check(seed: int) -> MovePlan | Reason | None:
    rig, job = cluster_of(seed)
    if job is None:
        return None
    scheduler = rig.machine
    view, before = scheduler.view, whole_state(scheduler)
    stay = {other.key for other in view.jobs.values() if not_movable(view, other, rig.now, budgets=BUDGETS)}
    found = find_plan(view, job, rig.now, disruption_budgets=BUDGETS)
    assert difference(before, whole_state(scheduler)) == "", seed
    if isinstance(found, Reason):
        return found
    assert found.moves, seed
    assert not stay & set(found.moved_jobs), seed
    for budget in BUDGETS:
        evicted = [view.cluster.pods[pod.uid].pod for move in found.moves for pod in move.pods]
        assert sum(map(budget.counts, evicted)) <= budget.allowed, seed
    for move in found.moves:
        places = [(pod.node, pod.chips) for pod in move.pods]
        assert places != [(pod.node, pod.chips) for pod in move.old], seed
    other = after(scheduler, found)
    assert not double_claims(other.view.cluster), seed
    assert not other.view.has_pending_pods(other.view.jobs["default/waiting"]), seed
    assert find_plan(view, job, rig.now, disruption_budgets=BUDGETS) == found, seed
    return found


@pytest.mark.parametrize("part", sample(range(4)))
def test_a_plan_starts_its_job_and_moves_nothing_that_must_stay(part: int) -> None:
    found = [check(seed) for seed in range(part, COUNT, 4)]
    assert any(isinstance(one, MovePlan) for one in found)
    assert any(isinstance(one, Reason) for one in found)


def test_plans_in_a_row_leave_no_trace_and_end_with_their_steps() -> None:
    for seed in range(examples(8)):
        rig, job = cluster_of(seed)
        if job is None:
            continue
        before = whole_state(rig.machine)
        for steps in (1, 30, 1000):
            find_plans(rig.machine.view, rig.now, budget=PlanBudget(steps))
            find_plan(rig.machine.view, job, rig.now, budget=PlanBudget(steps))
            assert difference(before, whole_state(rig.machine)) == "", (seed, steps)

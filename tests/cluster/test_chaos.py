"""Trouble between components and API server, and replicas that are killed: what must hold all the same."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Sequence

import pytest

from ringwise.scheduler.faults.partial_gangs import GRACE
from ringwise.wellknown import PREDICATE_TIME
from tests.cluster.cluster import KILLED, Cluster, Component, asked_chips, check_chips, is_live, node_of
from tests.cluster.faulty_proxy import FaultyProxy
from tests.cluster.objects import CHIP, Object, nodes, vcjob
from tests.cluster.placement_monitor import PlacementMonitor
from tests.cluster.workload import Work

pytestmark = [pytest.mark.cluster, pytest.mark.chaos]

SEED = int(os.environ.get("RINGWISE_CHAOS_SEED", "1"))
SECONDS = float(os.environ.get("RINGWISE_CHAOS_SECONDS", "60"))
#: Short leases: of a minute most is spent at work, not in waiting for the next leader.
LEASE = ("--lease-duration=9", "--renew-deadline=4", "--retry-period=1")
#: Seconds in which a gang must be whole or undone, as set in the configuration for this story ...
RECOVERY_LIMIT = 10
#: ... and how long it may take to carry that out, when requests fail and are tried again.
TRIED_AGAIN = 5
#: Seconds for a leader that finds the limit over: its own try, then it undoes the gang.
FIRST_CYCLE = GRACE + TRIED_AGAIN
NODES = 5
#: Nodes that are taken by jobs without an end: three are left, and every job fits on three.
FOREVER = 2
#: Seconds after the trouble in which everything that was ordered runs or has run.
SETTLES = 45.0


def test_nothing_is_lost_and_nothing_is_given_twice(cluster: Cluster) -> None:
    rng = random.Random(SEED)
    cluster.apply(nodes(NODES))
    _configure(cluster)
    with (
        FaultyProxy(cluster.plane.url, cluster.plane.authority, SEED) as proxy,
        PlacementMonitor(cluster, RECOVERY_LIMIT + TRIED_AGAIN, FIRST_CYCLE) as monitor,
    ):
        cluster.start("controller", *LEASE, server=proxy.url)
        replicas = [cluster.start("scheduler", *LEASE, server=proxy.url) for _ in range(2)]
        cluster.wait(lambda: any(one.leads for one in replicas), "one replica leads")
        work = Work(cluster, rng, NODES * 8, FOREVER)
        proxy.trouble = True
        kills = _make_trouble(cluster, rng, proxy, replicas, work, monitor)
        proxy.trouble = False
        in_trouble = work.states()
        _everything_runs_or_has_run(cluster, work, monitor)
        _no_chip_is_lost(cluster, replicas, work)
        assert monitor.found is None, f"seed {SEED}: {monitor.found}"
    told = (
        f"seed {SEED}: {kills} kills, {len(monitor.bound)} pods bound, jobs {dict(work.states())}, "
        f"when the trouble ended {dict(in_trouble)}, {len(monitor.interrupted)} gangs interrupted "
        f"for at most {monitor.longest_partial:.1f} s, {monitor.longest_led:.1f} s under leaders, "
        f"{dict(proxy.counts)}"
    )
    print(told)
    assert monitor.checks > SECONDS, told
    # Enough has happened for the run to mean something.
    assert kills >= SECONDS / 20, told
    assert len(monitor.bound) >= SECONDS / 2, told
    assert in_trouble["finished"] >= SECONDS / 12, told
    for trouble in ("delayed", "dropped", "unanswered", "refused", "expired", "cut", "told twice"):
        assert proxy.counts[trouble] > 0, (trouble, told)
    for component in cluster.components:
        assert component.process.ended in (None, KILLED), (
            f"{component.process.name}\n{component.process.last_lines()}"
        )


def test_gang_that_cannot_be_completed_is_undone(cluster: Cluster) -> None:
    """Its scheduler dies in the middle, then there is no room for the rest; one pod runs already.

    The next leader goes by the time of the binding, not by its own: most of the limit is over by then.
    """
    cluster.apply(nodes(2))
    _configure(cluster)
    cluster.run("controller")
    with FaultyProxy(cluster.plane.url, cluster.plane.authority, SEED) as proxy:
        first = cluster.start("scheduler", *LEASE, server=proxy.url)
        cluster.wait(lambda: first.leads and first.ready, "the first scheduler leads")
        proxy.bindings_left = 1
        cluster.apply([vcjob("train", 2, 8)])
        placed = cluster.wait(lambda: _placed(cluster), "one pod of two runs")
        cluster.wait(lambda: proxy.bindings_here, "the other binding is under way")
        first.process.kill()
    empty = next(name for name in ("node-1", "node-2") if name != node_of(placed[0]))
    cluster.kubectl("cordon", empty)
    second = cluster.start("scheduler", *LEASE)
    cluster.wait(lambda: second.leads and second.ready, "the second scheduler leads")
    bound = int(placed[0]["metadata"]["annotations"][PREDICATE_TIME]) / 1e9
    left = max(bound + RECOVERY_LIMIT - time.time(), GRACE) + TRIED_AGAIN
    cluster.wait(lambda: not _placed(cluster), "the gang is undone", left)
    assert time.time() >= bound + RECOVERY_LIMIT, "it was given no time to become whole"
    cluster.wait(lambda: len(cluster.pods("train")) == 2, "the controller made the pod again")
    assert cluster.condition("train"), cluster.picture()
    # The chips are free for others, and the gang starts when it has room as a whole.
    cluster.kubectl("uncordon", empty)
    check_chips(cluster.wait_running("train", 2))


def _placed(cluster: Cluster) -> list[Object]:
    return [
        one
        for one in cluster.pods("train")
        if is_live(one) and "deletionTimestamp" not in one["metadata"] and one["status"]["phase"] == "Running"
    ]


def _make_trouble(
    cluster: Cluster,
    rng: random.Random,
    proxy: FaultyProxy,
    replicas: list[Component],
    work: Work,
    monitor: PlacementMonitor,
) -> int:
    """Work comes and goes while replicas are killed at moments drawn from the seed; how many were killed."""
    end = time.monotonic() + SECONDS
    next_kill = time.monotonic() + rng.uniform(2, 6)
    kills = 0
    while time.monotonic() < end:
        assert monitor.found is None, f"seed {SEED}: {monitor.found}"
        work.step()
        work.tend()
        cluster.collect_garbage()
        if time.monotonic() >= next_kill and not any(one.leads for one in replicas):
            # Most kills wait until somebody leads and works; a few do not.
            next_kill += rng.choice((0.0, 3.0, 3.0, 3.0))
        if time.monotonic() >= next_kill:
            victim = _victim(rng, replicas)
            _choose_the_moment(rng, proxy, work)
            replicas[victim].process.kill()
            replicas[victim] = cluster.start("scheduler", *LEASE, server=proxy.url)
            kills += 1
            next_kill = time.monotonic() + rng.uniform(3, 12)
        time.sleep(rng.uniform(0.05, 0.5))
    return kills


def _victim(rng: random.Random, replicas: Sequence[Component]) -> int:
    """The leader, more often than not."""
    leaders = [place for place, replica in enumerate(replicas) if replica.leads]
    if leaders and rng.random() < 0.6:
        return leaders[0]
    return rng.randrange(len(replicas))


def _choose_the_moment(rng: random.Random, proxy: FaultyProxy, work: Work) -> None:
    """In the middle of much work, or of one gang: that is when most can go wrong."""
    if rng.random() < 0.4:
        for _ in range(3):
            work.step()
        time.sleep(rng.uniform(0.0, 0.7))
        return
    passed = proxy.bindings_passed
    work.order(6, 1, rng.choice(("job", "group")), 1.0)
    deadline = time.monotonic() + 2.0
    while time.monotonic() < deadline and not (proxy.bindings_passed > passed and proxy.bindings_here):
        time.sleep(0.005)


def _everything_runs_or_has_run(cluster: Cluster, work: Work, monitor: PlacementMonitor) -> None:
    """Nobody is told to go: there is room for all, one after the other."""

    def settled() -> bool:
        assert monitor.found is None, f"seed {SEED}: {monitor.found}"
        work.tend()
        return not work.unsettled()

    cluster.wait(settled, f"seed {SEED}: everything that was ordered runs or has run", SETTLES)
    states = work.states()
    assert states["finished"] + states["runs"] + states["withdrawn"] == len(work.orders)
    assert states["runs"] <= FOREVER


def _no_chip_is_lost(cluster: Cluster, replicas: Sequence[Component], work: Work) -> None:
    """What the leader counts as held is held by live pods; and all the rest can be had in one piece."""
    free = NODES - work.states()["runs"]
    last = work.order(free, 8, "group", None)

    def runs() -> bool:
        work.tend()
        return work.orders[last].state == "runs"

    cluster.wait(runs, f"seed {SEED}: a gang gets all {free} nodes that are left")
    pods = cluster.pods()
    check_chips(pods)
    held = sum(asked_chips(one) for one in pods if is_live(one))
    assert held == NODES * 8
    counted = f'ringwise_chips{{resource="{CHIP}",state="held"}}'
    cluster.wait(
        lambda: any(one.leads and one.figure(counted) == held for one in replicas),
        f"seed {SEED}: the leader counts {held} chips as held",
    )


def _configure(cluster: Cluster) -> None:
    path = "/api/v1/namespaces/volcano-system/configmaps/volcano-scheduler-configmap"
    text = cluster.api.get(path)["data"]["volcano-scheduler.conf"]
    # Gangs of many small pods are allowed, too: they are cut in half most easily.
    settings = {"gang-recovery-limit": str(RECOVERY_LIMIT), "multi-pod-requests": "vendor"}
    changed = text.replace("arguments: {}", f"arguments: {json.dumps(settings)}")
    assert changed != text
    cluster.api.patch(path, {"data": {"volcano-scheduler.conf": changed}})

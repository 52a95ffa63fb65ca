"""Faults between components and API server, and killed replicas: what must hold in spite of them."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Sequence

import pytest

from ringwise.scheduler.faults.partial_gangs import GRACE
from ringwise.wellknown import PREDICATE_TIME
from tests.cluster.cluster import Cluster, Component, check_chips, is_live, node_of, requested_chips
from tests.cluster.commands import kubectl_ringwise
from tests.cluster.faulty_proxy import FaultyProxy
from tests.cluster.objects import CHIP, Object, nodes, vcjob
from tests.cluster.placement_monitor import PlacementMonitor
from tests.cluster.workload import Workload

pytestmark = [pytest.mark.cluster, pytest.mark.chaos, pytest.mark.alone]

SEED = int(os.environ.get("RINGWISE_CHAOS_SEED", "1"))
SECONDS = float(os.environ.get("RINGWISE_CHAOS_SECONDS", "60"))
#: How often schedulers, and how often controllers, are killed.
KILLS = int(os.environ.get("RINGWISE_CHAOS_KILLS", "3"))
#: Seconds from the moment a replica leads to the next kill: jobs must make progress between kills.
INTERVALS = {"scheduler": (1.0, 8.0), "controller": (3.0, 12.0)}
#: Share of the kills that do not wait for a leader.
IMPATIENT = 0.1
#: Faults go on until enough has happened for a meaningful result, at most for this long on a slow machine.
LIMIT = SECONDS * 5 + KILLS * 40
#: What the proxy must have done to requests.
FAULTS = ("delayed", "slow", "dropped", "unanswered", "refused", "expired", "cut", "duplicated")
#: Short leases, so that most of the time is not spent on waiting for the next leader.
LEASE = (
    "--leader-elect-lease-duration=9",
    "--leader-elect-renew-deadline=4",
    "--leader-elect-retry-period=1",
)
#: Seconds in which a gang must be complete or undone, as configured for this test ...
RECOVERY_LIMIT = 10
#: Gangs of many small pods are allowed, too: they are interrupted most easily.
#: Moves are carried out, too, as often as a plan is found.
SETTINGS = {
    "gang-recovery-limit": str(RECOVERY_LIMIT),
    "multi-pod-requests": "vendor",
    "defragment": "auto",
    "move-chips-per-hour": "100000",
    "move-again-after": "1",
}
#: ... and how long that may take when requests fail and are retried, on a busy machine.
RETRY_TIME = 20
#: Seconds for a leader that starts after the limit: its own attempt, then it undoes the gang.
FIRST_CYCLE = GRACE + RETRY_TIME
NODES = 5
#: Nodes that are used by jobs without an end: three are left, and every job fits on three.
FOREVER = 2


def test_N6_nothing_is_lost_and_no_chip_is_assigned_twice(cluster: Cluster) -> None:
    rng = random.Random(SEED)
    cluster.apply(nodes(NODES))
    cluster.configure(SETTINGS)
    with (
        FaultyProxy(cluster.plane.url, cluster.plane.authority, SEED) as proxy,
        PlacementMonitor(cluster, RECOVERY_LIMIT + RETRY_TIME, FIRST_CYCLE) as monitor,
    ):
        controllers = [cluster.start("controller", *LEASE, server=proxy.url)]
        replicas = [cluster.start("scheduler", *LEASE, server=proxy.url) for _ in range(2)]
        cluster.wait(lambda: any(one.leads for one in replicas), "one replica leads")
        work = Workload(cluster, rng, NODES * 8, FOREVER)
        began = time.monotonic()
        proxy.faults_on = True
        storm = Storm(cluster, rng, proxy, replicas, controllers, work, monitor)
        storm.run()
        proxy.faults_on = False
        during_faults = work.states()
        _all_jobs_run_or_have_run(cluster, work, monitor)
        _no_chip_is_lost(cluster, replicas, work)
        _accounting_is_possible(cluster, began)
        assert monitor.found is None, f"seed {SEED}: {monitor.found}"
    summary = (
        f"seed {SEED}: kills {dict(storm.kills)}, {storm.full} times a full etcd, "
        f"{work.suspensions} suspensions, {len(monitor.bound)} pods bound, jobs {dict(work.states())}, "
        f"when the faults ended {dict(during_faults)}, {len(monitor.interrupted)} gangs interrupted "
        f"for at most {monitor.longest_partial:.1f} s, {monitor.longest_led:.1f} s under leaders, "
        f"{dict(proxy.counts)}"
    )
    print(summary)
    assert storm.is_enough(during_faults), summary
    for component in cluster.components:
        assert not component.failed, f"{component.process.name}\n{component.process.last_lines()}"


def test_gang_that_cannot_be_completed_is_undone(cluster: Cluster) -> None:
    """Its scheduler is killed in the middle, then there are no chips for the rest; one pod runs already.

    The next leader counts from the time of the binding: most of the limit has passed by then.
    """
    cluster.apply(nodes(2))
    cluster.configure(SETTINGS)
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
    cluster.wait(lambda: not _placed(cluster), "the gang is undone")
    assert time.time() >= bound + RECOVERY_LIMIT, "it was undone before the limit"
    cluster.wait(lambda: len(cluster.pods("train")) == 2, "the controller made the pod again")
    cluster.wait(lambda: cluster.condition("train"), "the gang says that it waits")
    # The chips are free for others, and the gang starts when all its pods fit.
    cluster.kubectl("uncordon", empty)
    check_chips(cluster.wait_running("train", 2))


def _placed(cluster: Cluster) -> list[Object]:
    return [
        one
        for one in cluster.pods("train")
        if is_live(one) and "deletionTimestamp" not in one["metadata"] and one["status"]["phase"] == "Running"
    ]


class Storm:
    """Submits, suspends and ends jobs, kills components and fills etcd at times drawn from the seed."""

    def __init__(
        self,
        cluster: Cluster,
        rng: random.Random,
        proxy: FaultyProxy,
        schedulers: list[Component],
        controllers: list[Component],
        work: Workload,
        monitor: PlacementMonitor,
    ) -> None:
        self._cluster = cluster
        self._rng = rng
        self._proxy = proxy
        self._replicas = {"scheduler": schedulers, "controller": controllers}
        self._work = work
        self._monitor = monitor
        self.kills: Counter[str] = Counter()
        #: How often etcd refused all writes.
        self.full = 0

    def run(self) -> None:
        began = time.monotonic()
        due: dict[str, float | None] = dict.fromkeys(self._replicas)
        next_full = began + self._rng.uniform(5, 15)
        while time.monotonic() < began + SECONDS or (
            time.monotonic() < began + LIMIT and not self.is_enough(self._work.states())
        ):
            assert self._monitor.found is None, f"seed {SEED}: {self._monitor.found}"
            self._work.step()
            self._work.update()
            for kind, replicas in self._replicas.items():
                if self.kills[kind] >= KILLS:
                    continue
                if due[kind] is None and any(one.leads for one in replicas):
                    due[kind] = time.monotonic() + self._rng.uniform(*INTERVALS[kind])
                if (when := due[kind]) is not None and time.monotonic() >= when:
                    self._kill(kind)
                    due[kind] = time.monotonic() if self._rng.random() < IMPATIENT else None
            if time.monotonic() >= next_full:
                self._fill_etcd()
                next_full = time.monotonic() + self._rng.uniform(30, 60)
            time.sleep(self._rng.uniform(0.05, 0.5))

    def _kill(self, kind: str) -> None:
        replicas = self._replicas[kind]
        victim = _victim(self._rng, replicas)
        _wait_for_critical_moment(self._rng, self._proxy, self._work)
        replicas[victim].process.kill()
        replicas[victim] = self._cluster.start(kind, *LEASE, server=self._proxy.url)
        self.kills[kind] += 1

    def _fill_etcd(self) -> None:
        """All writes fail for some seconds, those of Leases among them."""
        self._cluster.plane.set_full(True)
        try:
            time.sleep(self._rng.uniform(1.0, 4.0))
        finally:
            self._cluster.plane.set_full(False)
        self._cluster.start_nodes()
        self.full += 1

    def is_enough(self, states: Counter[str]) -> bool:
        """Whether enough has happened for a meaningful result."""
        return (
            all(self.kills[kind] == KILLS for kind in self._replicas)
            and self.full > 0
            and self._work.suspensions > 0
            and self._monitor.checks > SECONDS
            and len(self._monitor.bound) >= SECONDS / 2
            and states["finished"] >= SECONDS / 20
            and all(self._proxy.counts[fault] for fault in FAULTS)
        )


def _victim(rng: random.Random, replicas: Sequence[Component]) -> int:
    """The index of the leader, in most cases."""
    leaders = [place for place, replica in enumerate(replicas) if replica.leads]
    if leaders and rng.random() < 0.6:
        return leaders[0]
    return rng.randrange(len(replicas))


def _wait_for_critical_moment(rng: random.Random, proxy: FaultyProxy, work: Workload) -> None:
    """Wait for many bindings, or for the middle of one gang: a kill is most critical then."""
    if rng.random() < 0.4:
        for _ in range(3):
            work.step()
        time.sleep(rng.uniform(0.0, 0.7))
        return
    passed = proxy.bindings_passed
    work.submit(6, 1, rng.choice(("job", "group")), 1.0)
    deadline = time.monotonic() + 2.0
    while time.monotonic() < deadline and not (proxy.bindings_passed > passed and proxy.bindings_here):
        time.sleep(0.005)


def _all_jobs_run_or_have_run(cluster: Cluster, work: Workload, monitor: PlacementMonitor) -> None:
    """No job is deleted for it: all fit, one after the other."""

    def settled() -> bool:
        assert monitor.found is None, f"seed {SEED}: {monitor.found}"
        work.update()
        return not work.unsettled()

    cluster.wait(settled, f"seed {SEED}: everything that was ordered runs or has run")
    states = work.states()
    assert states["finished"] + states["runs"] + states["withdrawn"] == len(work.jobs)
    assert states["runs"] <= FOREVER


def _no_chip_is_lost(cluster: Cluster, replicas: Sequence[Component], work: Workload) -> None:
    """The leader counts as held what live pods hold, and one gang can get all other chips."""
    free = NODES - work.states()["runs"]
    last = work.submit(free, 8, "group", None)

    def runs() -> bool:
        work.update()
        return work.jobs[last].state == "runs"

    cluster.wait(runs, f"seed {SEED}: a gang gets all {free} nodes that are left")
    pods = cluster.pods()
    check_chips(pods)
    held = sum(requested_chips(one) for one in pods if is_live(one))
    assert held == NODES * 8
    counted = f'ringwise_chips{{resource="{CHIP}",state="used"}}'
    cluster.wait(
        lambda: any(one.leads and one.metric(counted) == held for one in replicas),
        f"seed {SEED}: the leader counts {held} chips as held",
    )


def _accounting_is_possible(cluster: Cluster, began: float) -> None:
    """What was recorded can be read, and no chip is counted twice."""

    def held() -> float:
        done = kubectl_ringwise(cluster.admin_config, "report", "--group-by", "job", "-o", "json")
        assert done.returncode == 0, done.stderr
        return sum(float(row["allocated_chip_hours"]) for row in json.loads(done.stdout)["rows"]) * 3600

    # Documents are written once a minute.
    recorded = cluster.wait(held, "accounting has recorded jobs")
    assert recorded <= NODES * 8 * (time.monotonic() - began)

"""Random runs with faults, preemption and leader changes: accounting equals what the objects say.

`RINGWISE_RUNS` runs more of them than the few of `make test`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from typing import Any

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.controller.machine import Controller
from ringwise.durations import SECOND
from ringwise.embed.clock import VirtualClock
from ringwise.embed.fleets import make_fleet
from ringwise.embed.kubelet import SimulationSettings
from ringwise.embed.loop import EmbeddedLoop
from ringwise.manifests.accounts.document import AccountDocument, AccountLine, read_document
from ringwise.manifests.accounts.ledger import AccountLedger, current_parts
from ringwise.state.model import Node, PriorityClass, Queue
from ringwise.state.vcjob import PodTemplate, Policy, Task, VcJob
from tests.builders.values import pod_class
from tests.embed.faulty import set_health
from tests.examples import sample
from tests.scheduler.accounting.history import RememberingCluster
from tests.scheduler.rig import configuration, gangs_may_end

RUNS = int(os.environ.get("RINGWISE_RUNS", len(sample(range(4)))))
MINUTE, HOUR = 60 * SECOND, 3600 * SECOND
FORCE = {"fault-scheduling": "force"}


class Run:
    """A lab whose scheduler is replaced now and then, by one that knows only what is written."""

    def __init__(self, seed: int, *, limited: bool) -> None:
        self.random = random.Random(seed)
        self.limited = limited
        # Shortly before midnight.
        start = 20_000 * 24 * HOUR - self.random.randrange(4) * HOUR - 10 * MINUTE
        delay = self.random.choice([0, 3 * SECOND, 20 * MINUTE])
        self.cluster = RememberingCluster(settings=SimulationSettings(removal_delay=delay), now=start)
        fleet = make_fleet(6)
        self.cluster.submit_all([*fleet.nodes, *fleet.reports])
        self.cluster.submit_all([Queue("default"), Queue("other"), PriorityClass("high", 1000)])
        self.chosen = configuration(
            ("enqueue", "allocate", "preempt", "reclaim", "backfill"), tiers=gangs_may_end()
        )
        self.documents: dict[str, str] = {}
        self.ledger = self._next_ledger()
        self.cluster.accounts = self.ledger
        self.loop = EmbeddedLoop(
            self.cluster, new_scheduler(self.chosen), Controller(), VirtualClock(self.cluster.now)
        )
        self.jobs = 0

    def _next_ledger(self) -> AccountLedger:
        ledger = AccountLedger(limited=self.limited)
        ledger.read(sorted(self.documents.items()), self.cluster.now)
        assert not ledger.foreign
        return ledger

    def write(self) -> None:
        self.documents.update(self.ledger.due(self.cluster.now))

    def new_leader(self) -> None:
        self.ledger = self.cluster.accounts = self._next_ledger()
        self.loop.replace_scheduler(new_scheduler(self.chosen))

    def submit(self) -> None:
        self.jobs += 1
        pods = self.random.choice([1, 1, 2, 3])
        chips = 8 if pods > 1 else self.random.choice([1, 2, 4, 8])
        ends = self.random.choice(["succeed", "fail", "succeed"])
        script = f"{ends}@{self.random.randrange(30, 7200)}"
        template = PodTemplate(
            pod_class(chips),
            labels=FORCE,
            annotations={"ringwise.io/simulate": script},
            chip_containers=1,
        )
        restart = (Policy("RestartJob", ("PodFailed",)), Policy("RestartJob", ("PodEvicted",)))
        self.cluster.submit(
            VcJob(
                self.random.choice(["team-a", "team-b"]),
                f"job-{self.jobs}",
                f"uid-{self.jobs}",
                (Task("worker", pods, pods, template),),
                pods,
                labels=FORCE,
                max_retry=3,
                queue=self.random.choice(["default", "other"]),
                priority_class=self.random.choice(["", "high"]),
                policies=restart,
            )
        )

    def happen(self) -> None:
        nodes = [node.name for node in self.cluster.all(Node)]
        match self.random.choice(["submit"] * 4 + ["chip", "node", "heal", "heal", "delete", "kill"]):
            case "submit":
                self.submit()
            case "chip":
                chips = tuple(range(8))
                set_health(self.cluster, self.random.choice(nodes), chips, healthy=False)
            case "node":
                self.cluster.set_ready(self.random.choice(nodes), False)
            case "heal":
                for node in nodes:
                    self.cluster.set_ready(node, True)
                    set_health(self.cluster, node, tuple(range(8)), healthy=True)
            case "delete":
                jobs = self.cluster.all(VcJob)
                if jobs:
                    self.cluster.delete("VcJob", self.random.choice(jobs).key)
            case "kill":
                pods = [one.pod for one in self.cluster.histories.values() if one.removed is None]
                if pods:
                    self.cluster.delete("Pod", self.random.choice(pods).key)

    def let_pass(self, nanoseconds: int) -> None:
        self.loop.run_until(self.loop.clock.now() + nanoseconds)

    def without_leader(self, nanoseconds: int) -> None:
        """Pods end, the controller works, and no scheduler looks."""
        self.cluster.pass_time(self.cluster.now + nanoseconds)
        clock = self.loop.clock
        assert isinstance(clock, VirtualClock)
        clock.move_to(self.cluster.now)

    def lines(self) -> dict[str, AccountLine]:
        """All that is written, by the uid of the job, and what is open until now."""
        by_day: dict[str, list[tuple[str, AccountDocument]]] = {}
        for name, text in self.documents.items():
            document = read_document(text)
            by_day.setdefault(document.day, []).append((name, document))
        now = self.cluster.now // SECOND
        sums: dict[str, AccountLine] = {}
        last = max(by_day)
        for day, found in by_day.items():
            for _, document in current_parts(found):
                for job in document.jobs:
                    total = sums.setdefault(job.uid, AccountLine())
                    for line in job.lines:
                        total.add(line)
                    assert day == last or not job.holds
                    for held in job.holds:
                        start = max(held.since, now // 86_400 * 86_400)
                        total.held += held.chips * len(held.pods) * (now - start)
        return sums


def by_job(found: Mapping[str, Any], field: str) -> dict[str, Any]:
    return {uid: value for uid, one in found.items() if (value := getattr(one, field))}


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("seed", range(RUNS))
def test_accounting_equals_what_the_objects_say(seed: int, limited: bool) -> None:
    run = Run(seed, limited=limited)
    for _ in range(60):
        run.happen()
        run.let_pass(run.random.randrange(5 * MINUTE))
        run.write()
        if run.random.random() < 0.2:
            run.new_leader()
    run.let_pass(0)
    run.write()
    counted, lines = run.cluster.counted(), run.lines()
    assert by_job(lines, "held") == by_job(counted, "held")
    assert by_job(lines, "uncertain") == by_job(lines, "clamped") == {}
    assert by_job(lines, "lost") == by_job(counted, "lost")
    assert by_job(lines, "starts") == by_job(counted, "starts")
    assert by_job(lines, "failures") == by_job(counted, "failures")
    others = run.cluster.unfinished_waits()
    for uid, one in counted.items():
        if uid not in others:
            # Between two runs it may have waited to be admitted before its pods were created.
            assert one.waited <= lines[uid].waited <= one.waited_at_most
            assert one.starts > 1 or one.waited == one.waited_at_most
    assert len(by_job(lines, "starts")) > 5


@pytest.mark.parametrize("seed", range(RUNS))
def test_what_no_leader_saw_is_bounded_and_marked(seed: int) -> None:
    run = Run(seed, limited=True)
    unseen = 0
    for _ in range(60):
        run.happen()
        run.let_pass(run.random.randrange(5 * MINUTE))
        run.write()
        if run.random.random() < 0.2:
            run.without_leader(run.random.randrange(3 * MINUTE, 40 * MINUTE))
            unseen += 1
            run.new_leader()
    run.let_pass(0)
    run.write()
    counted, lines = run.cluster.counted(), run.lines()
    for uid, one in counted.items():
        line = lines.get(uid, AccountLine())
        assert line.held - line.uncertain <= one.held <= line.held
        assert line.starts == one.starts
    gaps = {gap for text in run.documents.values() for gap in read_document(text).gaps}
    assert len(gaps) == unseen

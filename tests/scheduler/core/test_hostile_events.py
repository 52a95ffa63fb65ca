"""The core under hostile objects: forged and edited annotations, odd numbers, nodes that come and go, jobs
that hop from queue to queue, PodGroups that are deleted under their pods, bursts that are to be kept.

The test keeps its own record of which chips each live container has and of the queue in which it got them,
and compares every binding with it. `RINGWISE_HOSTILE_STEPS` and `RINGWISE_HOSTILE_SEED` ask for more, and so
does `HYPOTHESIS_PROFILE=search`: 200,000 steps with a new seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, Command, Evict, SetAside
from ringwise.state.limits import UsageLimit
from ringwise.state.model import DeviceReport, Node, Pod, PodClass, PodGroup, PriorityClass, Queue
from ringwise.state.ranges import MAX_NODE_CHIPS
from ringwise.topology.chips import chip_names, mask_of
from ringwise.topology.switches import Server, make_topology
from ringwise.wellknown import (
    ASCEND_REAL,
    EXPECTED_DURATION,
    HIERARCHY,
    HIERARCHY_WEIGHTS,
    IS_SHARED_TOR,
    KUBELET_DEVICES,
    PREDICATE_TIME,
    QUEUE_NAME,
    RANK_TABLE_910,
    SCHEDULE_MIN_AVAILABLE,
    SP_BLOCK,
    SUPER_POD_RANK,
    TASK_PRIORITY,
    TOR_AFFINITY,
)
from tests import invariants
from tests.builders.values import CHIP, SECOND, seen
from tests.examples import PROFILE, sample
from tests.scheduler.rig import configuration

SEARCHES = PROFILE == "search"
STEPS = int(os.environ.get("RINGWISE_HOSTILE_STEPS", "200000" if SEARCHES else len(sample(range(2000), 3))))
SEED = int(os.environ.get("RINGWISE_HOSTILE_SEED", str(random.randrange(10**6)) if SEARCHES else "13"))
#: Of the queue `limited`.
LIMIT, BURST = 8, 8
QUEUES = ("default", "q", "no-such-queue", "limited", "limited")
NODES = 6
CLASSES = tuple(
    PodClass(resource=CHIP if chips else None, chips=chips, cpu_milli=cpu)
    for chips, cpu in ((0, 500), (1, 100), (2, 100), (4, 0), (8, 0), (3, 0))
)
#: Fewer than nodes: some of them claim the same one.
ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4")
#: Gangs of more than one pod ask for whole nodes, or for no chips.
OF_GANGS = (CLASSES[0], CLASSES[4]) * 6
HUGE = "9" * 4301
ODD = ("", "-1", HUGE, "1e9", "٣", "NaN", "inf", "18446744073709551615", "x" * 70_000, "\u202e", "0")


@dataclass
class Hostile:
    """A cluster whose tenants write whatever they like."""

    rng: random.Random
    settings: dict[str, Any]
    now: int = 1000 * SECOND
    serial: int = 0
    pods: dict[str, Pod] = field(default_factory=dict)
    groups: dict[str, PodGroup] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    #: Chips that each live container really has, by pod uid: node and chips.
    mounted: dict[str, tuple[str, frozenset[int]]] = field(default_factory=dict)
    #: Bindings whose confirmation is still on its way.
    bindings: list[Bind] = field(default_factory=list)
    #: The queue in which each pod was bound, by its uid; pods of our scheduler alone.
    bound: dict[str, str] = field(default_factory=dict)
    binds: int = 0
    gangs: int = 0
    #: How often a queue was full, and how often something was lent beyond that.
    full: int = 0
    lent: int = 0

    def __post_init__(self) -> None:
        self.scheduler = new_scheduler(configuration(**self.settings))
        servers = [Server(address, number, number) for number, address in enumerate(ADDRESSES)]
        self.scheduler.handle(seen(make_topology([("leaf", servers)], len(servers))), self.now)
        limit = UsageLimit("few", queue="limited", hard={CHIP: LIMIT}, borrowing={CHIP: BURST})
        self.scheduler.handle(seen(Queue("limited"), limit), self.now)

    # -- what tenants and operators do ---------------------------------------------------------

    def odd(self) -> str:
        return self.rng.choice(ODD)

    def forged(self) -> dict[str, str]:
        chips = chip_names(CHIP, tuple(self.rng.sample(range(8), self.rng.randint(1, 8))))
        found = {
            CHIP: chips,
            ASCEND_REAL: chips,
            KUBELET_DEVICES: chips,
            PREDICATE_TIME: self.odd(),
            IS_SHARED_TOR: self.rng.choice(("0", "1", "2", "x")),
            SUPER_POD_RANK: self.odd(),
            RANK_TABLE_910: "{",
            TASK_PRIORITY: self.odd(),
            **({SP_BLOCK: self.odd()} if self.rng.random() < 0.2 else {}),
            EXPECTED_DURATION: self.odd(),
        }
        return {key: found[key] for key in self.rng.sample(sorted(found), self.rng.randint(0, 4))}

    def create_pod(self) -> list[ev.Event]:
        self.serial += 1
        name = f"p{self.serial}"
        group = self.rng.choice(list(self.groups)) if self.groups and self.rng.random() < 0.4 else None
        labels = {TOR_AFFINITY: self.odd()} if self.rng.random() < 0.05 else {}
        pod = Pod(
            name,
            "ns",
            name,
            self.rng.choice(CLASSES if group is None else (*CLASSES, *OF_GANGS)),
            created=self.now,
            labels=labels,
            annotations={**self.forged(), QUEUE_NAME: self.rng.choice(QUEUES)},
            group=None if group is None else group.partition("/")[2],
            scheduler=self.rng.choice(("volcano", "volcano", "volcano", "other")),
            preemptable=self.rng.random() < 0.5,
        )
        if self.rng.random() < 0.05:
            # Another scheduler, or a tenant who may set spec.nodeName, places it.
            node = self.rng.choice([*self.nodes, "no-such-node"])
            chips = tuple(self.rng.sample(range(8), pod.cls.chips)) if self.rng.random() < 0.9 else ()
            taken = self.chips_on(node)
            chips = () if taken & set(chips) else chips
            pod = replace(pod, node=node, phase="Running", holds=chips, scheduler="other")
            self.mounted[pod.uid] = (node, frozenset(chips))
        elif self.rng.random() < 0.02 and (unbound := [uid for uid in self.pods if uid not in self.mounted]):
            # A uid that exists already, with another name.
            pod = replace(pod, uid=self.rng.choice(unbound))
        self.pods[pod.uid] = pod
        return [ev.PodSeen(pod)]

    def edit_pod(self) -> list[ev.Event]:
        if not self.pods:
            return []
        pod = self.pods[self.rng.choice(list(self.pods))]
        annotations = dict(pod.annotations)
        match self.rng.randrange(3):
            case 0:
                annotations.update(self.forged())
            case 1:
                annotations = {}
            case _:
                annotations.pop(self.rng.choice([*annotations, ""]), None)
        if self.rng.random() < 0.3:
            annotations[QUEUE_NAME] = self.rng.choice(QUEUES)
        edited = replace(pod, annotations=annotations)
        if self.rng.random() < 0.3:
            edited = replace(edited, preemptable=not pod.preemptable)
        if self.groups and pod.uid not in {one.uid for one in self.bindings} and self.rng.random() < 0.1:
            edited = replace(edited, group=self.rng.choice(list(self.groups)).partition("/")[2])
        if pod.node is not None:
            lie = tuple(self.rng.sample(range(8), min(8, pod.cls.chips)))
            lie = self.rng.choice((lie, ()))
            edited = replace(edited, holds=lie) if self.rng.random() < 0.5 else replace(edited, mounted=lie)
        self.pods[pod.uid] = edited
        return [ev.PodSeen(edited)]

    def end_pod(self) -> list[ev.Event]:
        if not self.pods:
            return []
        uid = self.rng.choice(list(self.pods))
        if any(bind.uid == uid for bind in self.bindings):
            return []
        pod = self.pods.pop(uid)
        self.mounted.pop(uid, None)
        if self.rng.random() < 0.3:
            ended = replace(pod, phase=self.rng.choice(("Succeeded", "Failed")))
            return [ev.PodSeen(ended), ev.PodGone(uid)]
        return [ev.PodGone(uid)]

    def group_event(self) -> list[ev.Event]:
        self.serial += 1
        if len(self.groups) > 5 or (self.groups and self.rng.random() < 0.5):
            key = self.rng.choice(list(self.groups))
            if self.rng.random() < 0.3:
                del self.groups[key]
                return [ev.PodGroupGone(key)]
            if self.rng.random() < 0.6:
                # While it runs, perhaps.
                group = replace(self.groups[key], queue=self.rng.choice(QUEUES))
            else:
                group = replace(self.groups[key], annotations={SCHEDULE_MIN_AVAILABLE: self.odd()})
        else:
            # Perhaps one that was deleted while pods of it are there.
            names = sorted({pod.group for pod in self.pods.values() if pod.group})
            again = bool(names) and self.rng.random() < 0.3
            name = self.rng.choice(names) if again else f"g{self.serial}"
            group = PodGroup("ns", name, min_member=self.rng.choice((1, 2, 2, 3, 3, 2**31 - 1)))
            group = replace(group, queue=self.rng.choice(QUEUES), uid=f"uid-{self.serial}")
        self.groups[group.key] = group
        return [ev.PodGroupSeen(group)]

    def node_event(self) -> list[ev.Event]:
        name = f"n{self.rng.randrange(NODES)}"
        if name in self.nodes and self.rng.random() < 0.2:
            del self.nodes[name]
            events: list[ev.Event] = [ev.NodeGone(name)]
            if self.rng.random() < 0.5:
                events += self.add_node(name)
            return events
        events = self.add_node(name)
        if self.rng.random() < 0.2:
            # It comes and goes within one batch.
            self.serial += 1
            short = replace(self.nodes[name], name=f"brief-{self.serial}")
            events += [ev.NodeSeen(short), ev.NodeGone(short.name)]
        return events

    def add_node(self, name: str) -> list[ev.Event]:
        chips = self.rng.choice((*(8,) * 20, 0, MAX_NODE_CHIPS))
        known = self.nodes.get(name)
        node = Node(
            name,
            # Its kubelet reports what it likes; the API server alone says how old it is.
            internal_ip=self.rng.choice(ADDRESSES),
            created=self.now // SECOND if known is None else known.created,
            chips_allocatable={CHIP: chips},
            chips_capacity={CHIP: 8},
            cpu_milli=64_000,
            max_pods=110,
            ready=self.rng.random() < 0.95,
            superpod=self.rng.choice((None, 0, -1)),
            server_index=self.odd(),
        )
        self.nodes[name] = node
        return [ev.NodeSeen(node)]

    def report_event(self) -> list[ev.Event]:
        name = f"n{self.rng.randrange(NODES)}"
        if self.rng.random() < 0.2:
            return [ev.ReportGone(name)]
        sick = mask_of(self.rng.sample(range(8), self.rng.choice((0, 0, 1))))
        everything = mask_of(range(8))
        return [ev.ReportSeen(DeviceReport(name, CHIP, free=everything & ~sick, unhealthy=sick))]

    def queue_event(self) -> list[ev.Event]:
        if self.rng.random() < 0.3:
            return [ev.QueueGone("q")]
        queue = Queue("q", weight=self.rng.choice((1, 5)))
        annotations = {HIERARCHY: f"root/{self.odd()}", HIERARCHY_WEIGHTS: f"1/{self.odd()}"}
        return [
            ev.QueueSeen(replace(queue, annotations=annotations)),
            ev.PriorityClassSeen(PriorityClass("high", self.rng.randint(-(2**31), 2**31))),
        ]

    def confirm(self) -> list[ev.Event]:
        if not self.bindings:
            return []
        bind = self.bindings.pop(self.rng.randrange(len(self.bindings)))
        pod = self.pods[bind.uid]
        if self.rng.random() < 0.1:
            del self.mounted[bind.uid]
            return [ev.BindFailed(bind.uid, "refused")]
        kept = {key: value for key, value in pod.annotations.items() if key not in bind.remove}
        placed = replace(
            pod,
            node=bind.node,
            phase="Running",
            holds=bind.chips,
            annotations={**kept, **bind.annotations},
        )
        self.pods[bind.uid] = placed
        return [ev.PodSeen(placed)]

    # -- the scheduler, and what must hold ----------------------------------------------------------

    def chips_on(self, node: str) -> set[int]:
        return {chip for where, chips in self.mounted.values() if where == node for chip in chips}

    def step(self) -> None:
        choices: tuple[tuple[Callable[[], list[ev.Event]], int], ...] = (
            (self.create_pod, 30),
            (self.confirm, 30),
            (self.end_pod, 22),
            (self.edit_pod, 15),
            (self.group_event, 10),
            (self.node_event, 4),
            (self.report_event, 4),
            (self.queue_event, 2),
        )
        deeds, weights = zip(*choices, strict=True)
        events: list[ev.Event] = []
        for deed in self.rng.choices(deeds, weights=weights, k=self.rng.randint(1, 3)):
            events += deed()
        if len(self.pods) > 40:
            events += self.end_pod() + self.end_pod()
        self.now += self.rng.choice((SECOND // 10, SECOND, 40 * SECOND))
        empty = {group.name for group in self.groups.values() if not self.placed(group.name)}
        self.check(self.scheduler.handle(events, self.now))
        invariants.check(self.scheduler, invariants.SAMPLED)
        for group in self.groups.values():
            if group.name in empty and (count := self.placed(group.name)):
                assert count >= group.min_member, f"{group.name} started with {count} of {group.min_member}"
                self.gangs += group.min_member > 1

    def check(self, commands: list[Command]) -> None:
        assert not [command for command in commands if isinstance(command, SetAside)]
        for command in commands:
            if isinstance(command, Evict):
                pod = self.pods.get(command.uid)
                if pod is not None:
                    assert pod.scheduler != "other"
            if not isinstance(command, Bind):
                continue
            pod = self.pods[command.uid]
            assert command.uid not in self.mounted, f"{pod.key} is bound twice"
            assert len(command.chips) == pod.cls.chips
            assert not set(command.chips) & self.chips_on(command.node), (
                f"{pod.key}: {command.chips} of {command.node} are in other containers"
            )
            self.mounted[command.uid] = (command.node, frozenset(command.chips))
            self.bindings.append(command)
            self.binds += 1
            job = self.scheduler.view.job_of(command.uid)
            assert job is not None
            self.bound[command.uid] = job.queue
        self.check_limit()

    def check_limit(self) -> None:
        """No queue has more than its limit and what it was lent, wherever its jobs hop; and that is known."""
        held = [uid for uid in self.mounted if self.bound.get(uid) == "limited"]
        chips = {uid: len(self.mounted[uid][1]) for uid in held}
        used = sum(chips.values())
        assert used <= LIMIT + BURST, f"the queue uses {used} chips: {chips}"
        self.full += used == LIMIT
        self.lent += used > LIMIT
        lent = sum(count for uid, count in chips.items() if uid in self.scheduler.view.usage.borrowing)
        assert used - LIMIT <= lent, f"{used} chips are in use and only {lent} are known to be lent"

    def placed(self, group: str) -> int:
        return sum(1 for uid in self.mounted if uid in self.pods and self.pods[uid].group == group)

    def check_addresses(self) -> None:
        """Each position under the switch is that of the oldest node with the address."""
        oldest: dict[str, Node] = {}
        for node in sorted(self.nodes.values(), key=lambda node: (node.created, node.name)):
            oldest.setdefault(node.internal_ip, node)
        switches = self.scheduler.view.switches()
        assert switches is not None
        positions = {one.server_ip: one.node for row in switches.nodes for one in row}
        assert positions == {address: node.name for address, node in oldest.items()}

    def recount(self) -> None:
        assert self.scheduler.view.inconsistencies() == []
        self.check_addresses()
        cluster = self.scheduler.view.cluster
        fleet = cluster.fleets.get(CHIP)
        if fleet is None:
            return
        for uid, (node, chips) in self.mounted.items():
            number = cluster.node_id.get(node)
            if uid in cluster.pods and number is not None:
                free = fleet.free_mask[number] if cluster.nodes[number] is not None else 0
                assert not free & mask_of(chips), (
                    f"{uid} has chips {sorted(chips)} of {node}, which look free"
                )


@pytest.mark.parametrize(
    "settings", [{}, {"self_maintain_available_card": "false"}], ids=["own-count", "reported"]
)
def test_N6_N8_hostile_objects_neither_stop_the_core_nor_get_a_chip_twice(settings: dict[str, Any]) -> None:
    print(f"RINGWISE_HOSTILE_SEED={SEED}")
    cluster = Hostile(random.Random(SEED), settings)
    for step in range(STEPS // 2):
        cluster.step()
        if step % 50 == 0:
            cluster.recount()
    cluster.recount()
    # The cluster was busy: the checks above saw something.
    assert cluster.binds > STEPS // 40
    assert cluster.gangs > 0
    assert cluster.full > 0
    assert cluster.lent > 0

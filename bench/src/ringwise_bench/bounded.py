"""`ringwise bench bounded`: what objects that somebody made large cost all others.

Ordinary jobs are placed on a cluster with and without each hostile object, on processor time of the deciding
thread. The objects are read from the bytes of an API server by the scheduler's own readers.
"""

from __future__ import annotations

import gc
import json
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import msgspec

from ringwise.apps.extensions import new_scheduler
from ringwise.apps.forked_queries import copied
from ringwise.durations import time_text
from ringwise.framework.configuration import Tier
from ringwise.framework.extension_points import JOB_VALID
from ringwise.framework.job import Job
from ringwise.framework.registry import PluginSpec
from ringwise.framework.session import Session
from ringwise.manifests.text.errors import Findings
from ringwise.messages.commands import Bind, Command, DeletePod, Evict
from ringwise.messages.events import Event
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.scheduler.defaults import default_configuration
from ringwise.wellknown import ASCEND910, GROUP_NAME, HOSTNAME, PREEMPTABLE, VOLCANO_SCHEDULER
from ringwise_bench.differing_gangs import WHOLE_JOBS
from ringwise_bench.hostile_objects import HOSTILE, HostileObject, pinned_gang
from ringwise_bench.object_feed import (
    CREATED,
    SECOND,
    ObjectFeed,
    Plain,
    Unreadable,
    device_report,
    node_body,
)
from ringwise_bench.report import Figure, at_least, at_most, shown, timed

NODES, JOBS, A_TURN = 1_000, 5_000, 100
#: Copies of one object, all of one namespace.
COPIES = 200
MAX_RATIO, MAX_GROWTH, MAX_READING = 1.5, 3.0, 20.0
MAX_MEMORY = 50
_SMALL_GANG, _LARGE_GANG = 150, 1_200
#: Nodes full of pods that may be evicted, and jobs that evict one each. All candidates are read for each job.
_FULL_NODES, _EVICTORS, MAX_SEARCH_GROWTH = 500, 10, 6.0
_LONG_NAMES = 1_500
#: The bench ends also where restarts do not.
_MAX_RECREATED = 100_000
_MIB = 1 << 20
#: A namespace with a flood of jobs, what its jobs may burn, and the limit of a turn, in seconds.
_FLOOD, _BURN, TURN_LIMIT = "flood", 0.05, 1
_MAX_TURNS = 300


class Ordinary:
    """A cluster of equal nodes, and jobs of one pod with one chip that arrive in turns."""

    def __init__(self, nodes: int) -> None:
        self.feed = ObjectFeed()
        self.nodes = [f"node-{number}" for number in range(nodes)]
        self.feed.on_command = self._recreate
        self._jobs = 0
        self._recreated = 0
        self.feed.deliver(event for name in self.nodes for event in self._node(name))
        # What the first cycle computes of the nodes is not a cost of jobs.
        self.turn(1)

    def _node(self, name: str) -> list[Event]:
        body = node_body(name, {HOSTNAME: name, "zone": f"z{len(name) % 3}"})
        return [*self.feed.put("ConfigMap", device_report(name)), *self.feed.put("Node", body)]

    def turn(self, jobs: int) -> float:
        """So many jobs arrive at once. Returns the processor time of the scheduler until it is done."""
        return self.pass_on(self.arrivals(jobs))

    def arrivals(self, jobs: int) -> list[Event]:
        """What the scheduler hears of so many new jobs."""
        events: list[Event] = []
        for _ in range(jobs):
            self._jobs += 1
            name = f"job-{self._jobs}"
            meta = {"name": name, "namespace": "team", "uid": name, "creationTimestamp": CREATED}
            group = {"metadata": meta, "spec": {"minMember": 1}, "status": {"phase": "Inqueue"}}
            events += self.feed.put("PodGroup", group)
            spec = {
                "schedulerName": VOLCANO_SCHEDULER,
                "containers": [{"name": "main", "resources": {"limits": {ASCEND910: 1}}}],
            }
            labels = {"owner": name}
            pod = {**meta, "uid": f"pod-{name}", "labels": labels, "annotations": {GROUP_NAME: name}}
            events += self.feed.put_pod({"metadata": pod, "spec": spec})
        return events

    def pass_on(self, events: Sequence[Event]) -> float:
        """One turn, a second later."""
        self.feed.now += SECOND
        return self.feed.time_of(events)

    def _recreate(self, command: Command) -> list[Event]:
        """Pods that are deleted are gone at once, and their owner makes them again."""
        key = self.feed.key_of_uid.get(command.uid) if isinstance(command, DeletePod) else None
        if key is None:
            return []
        body = self.feed.bodies[key]
        events = self.feed.remove_pod(key)
        if "ownerReferences" not in body["metadata"] or self._recreated >= _MAX_RECREATED:
            return events
        self._recreated += 1
        uid, created = f"again-{self._recreated}", time_text(self.feed.now)
        meta = {**body["metadata"], "uid": uid, "creationTimestamp": created, "annotations": {}}
        spec = {name: value for name, value in body["spec"].items() if name != "nodeName"}
        return [*events, *self.feed.put_pod({"metadata": meta, "spec": spec})]

    def add(self, objects: Sequence[tuple[str, Plain]]) -> list[Event]:
        """What the scheduler hears of these objects; what cannot be read it does not hear of."""
        events: list[Event] = []
        for kind, body in objects:
            try:
                bindable = kind == "Pod" and "nodeName" not in body["spec"]
                events += self.feed.put_pod(body) if bindable else self.feed.put(kind, body)
            except Unreadable:
                continue
        return events

    def waiting(self) -> int:
        """Ordinary jobs that have no node."""
        return sum(
            "nodeName" not in body["spec"]
            for body in self.feed.bodies.values()
            if body["metadata"]["namespace"] == "team"
        )


@dataclass(frozen=True, slots=True)
class Run:
    seconds: float
    waiting: int
    hostile_pods: int
    hostile_bound: int


class Prepared:
    """A cluster and the jobs that arrive in turns, made once: each run is that of a copy of the process."""

    def __init__(self, jobs: int, nodes: int) -> None:
        self._cluster = Ordinary(nodes)
        self._turns = [self._cluster.arrivals(A_TURN) for _ in range(jobs // A_TURN)]

    def run(self, hostile: HostileObject | None) -> Run:
        (copy,) = copied([lambda: msgspec.json.encode(self._live(hostile))])
        try:
            return msgspec.json.decode(copy.collect(), type=Run)
        finally:
            copy.close()

    def _live(self, hostile: HostileObject | None) -> Run:
        """Ordinary jobs in turns; the hostile object comes with the first and stays."""
        cluster, total = self._cluster, 0.0
        if hostile is not None:
            total += cluster.feed.time_of(cluster.add(hostile.make("h", cluster.nodes)))
        total += sum(map(cluster.pass_on, self._turns))
        theirs = [body for body in cluster.feed.bodies.values() if body["metadata"]["namespace"] != "team"]
        bound = sum("nodeName" in body["spec"] for body in theirs)
        return Run(total, cluster.waiting(), len(theirs), bound)


def gang_cost(pods: int, minimum: int | None = None) -> tuple[float, int]:
    """Processor time per pod of a gang each pod of which names its host, on twice as many nodes."""
    cluster = Ordinary(2 * pods)
    events = cluster.add(pinned_gang("g", cluster.nodes, pods, minimum))
    before = cluster.feed.bound
    return cluster.feed.time_of(events) / pods, cluster.feed.bound - before


def gangs() -> list[Figure]:
    """What a pod costs in a large gang all pods of which differ, and in a small one."""
    results: list[Figure] = []
    costs: dict[str, Callable[[int], tuple[float, int]]] = {
        "nodes of any kind": gang_cost,
        "beyond a gang of one": partial(gang_cost, minimum=1),
        **{one.name: one.cost for one in WHOLE_JOBS},
    }
    for name, cost in costs.items():
        cost(_SMALL_GANG)  # What is imported for the first job of a kind is not a cost of its pods.
        small, bound = cost(_SMALL_GANG)
        large, more = cost(_LARGE_GANG)
        results += [
            shown(f"{name}: a pod of a gang of {_LARGE_GANG} that differ", large * 1e6, "us"),
            at_most(f"{name}: the same over one of a gang of {_SMALL_GANG}", large / small, "x", MAX_GROWTH),
            at_least(f"{name}: pods of both that got a node", bound + more, "", _SMALL_GANG + _LARGE_GANG),
        ]
    return results


def preemption_cost(nodes: int) -> tuple[float, int]:
    """Processor time per job of one pod that evicts another where all nodes are full; and how many do."""
    evicted: list[Command] = []

    def note(command: Command) -> list[Event]:
        evicted.extend([command] if isinstance(command, Evict) else [])
        return []

    def job(name: str, pods: int, priority: str) -> list[Event]:
        meta: Plain = {"name": name, "namespace": "team", "uid": name, "creationTimestamp": CREATED}
        spec: Plain = {"minMember": 1, "priorityClassName": priority}
        events = list(feed.put("PodGroup", {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}))
        notes = {GROUP_NAME: name, PREEMPTABLE: "true"}
        for number in range(pods):
            pod = {**meta, "name": f"{name}-{number}", "uid": f"{name}-{number}", "annotations": notes}
            spec = {
                "schedulerName": VOLCANO_SCHEDULER,
                "priorityClassName": priority,
                "containers": [{"name": "main", "resources": {"limits": {ASCEND910: 8}}}],
            }
            events += feed.put_pod({"metadata": pod, "spec": spec})
        return events

    feed = ObjectFeed(replace(default_configuration(), actions=("enqueue", "allocate", "preempt")))
    feed.on_command = note
    for name, value in (("low", 1), ("high", 100)):
        feed.deliver(feed.put("PriorityClass", {"metadata": {"name": name}, "value": value}))
    for number in range(nodes):
        name = f"node-{number}"
        feed.deliver([*feed.put("ConfigMap", device_report(name)), *feed.put("Node", node_body(name, {}))])
    feed.deliver([event for number in range(nodes // 2) for event in job(f"low-{number}", 2, "low")])
    feed.now += SECOND
    feed.deliver([])
    events = [event for number in range(_EVICTORS) for event in job(f"high-{number}", 1, "high")]
    feed.now += SECOND
    return feed.time_of(events) / _EVICTORS, len(evicted)


def preemption() -> list[Figure]:
    """What a search for victims costs where the cluster is four times as large."""
    preemption_cost(_FULL_NODES)  # What is imported for the first is not a cost of the search.
    small, few = preemption_cost(_FULL_NODES)
    large, more = preemption_cost(4 * _FULL_NODES)
    name = f"victims on {4 * _FULL_NODES} full nodes"
    return [
        shown(f"{name}: a job that evicts one pod", large * 1e3, "ms"),
        at_most(f"{name}: the same over one on {_FULL_NODES}", large / small, "x", MAX_SEARCH_GROWTH),
        at_least(f"{name}: pods evicted, on both", few + more, "", 2 * _EVICTORS),
    ]


def crowd(hostile: HostileObject, copies: int, nodes: int) -> int:
    """Turns that jobs of another namespace wait for longer because of many copies of an object."""
    cluster = Ordinary(nodes)
    events: list[Event] = []
    for number in range(copies):
        events += cluster.add(hostile.make(f"h{number}", cluster.nodes[number:] + cluster.nodes[:number]))
    cluster.feed.deliver(events)
    cluster.turn(A_TURN)
    turns = 0
    while cluster.waiting() and turns < 10:
        cluster.turn(0)
        turns += 1
    return turns


class Burner:
    """A plugin that burns the processor for each job of one namespace: work that no step counts."""

    def open(self, session: Session) -> None:
        session.register(JOB_VALID, self._burn)

    def _burn(self, job: Job) -> Reason | None:
        if job.namespace == _FLOOD:
            until = time.thread_time() + _BURN
            while time.thread_time() < until:
                pass
        return None


class Flood:
    """A cluster with many jobs of one namespace, scheduled in turns as the live scheduler does."""

    def __init__(self, nodes: int, feed: ObjectFeed) -> None:
        self.feed = feed
        self.longest = 0.0
        feed.scheduler.measure(time.thread_time_ns)
        feed.on_command = lambda command: []
        for name in (f"node-{number}" for number in range(nodes)):
            feed.deliver(self.node(name, "old"))

    def node(self, name: str, pool: str = "new") -> list[Event]:
        body = node_body(name, {HOSTNAME: name, "pool": pool})
        return [*self.feed.put("ConfigMap", device_report(name)), *self.feed.put("Node", body)]

    def job(
        self, namespace: str, name: str, chips: int = 1, priority: str = "", **spec: object
    ) -> list[Event]:
        meta: Plain = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"}
        meta["creationTimestamp"] = CREATED
        wanted: Plain = {"minMember": 1, "priorityClassName": priority}
        group = {"metadata": meta, "spec": wanted, "status": {"phase": "Inqueue"}}
        pod = {
            **meta,
            "uid": f"pod-{namespace}-{name}",
            "annotations": {GROUP_NAME: name, PREEMPTABLE: "true"},
        }
        body: Plain = {
            "schedulerName": VOLCANO_SCHEDULER,
            "priorityClassName": priority,
            "containers": [{"name": "main", "resources": {"limits": {ASCEND910: chips}}}],
            **spec,
        }
        return [*self.feed.put("PodGroup", group), *self.feed.put_pod({"metadata": pod, "spec": body})]

    def turn(self, events: Sequence[Event] = ()) -> None:
        """Run one turn; its bindings are delivered as events in the next one."""
        feed = self.feed
        feed.now += SECOND
        batch = [*self._events, *events]
        began = time.thread_time()
        commands = feed.scheduler.handle(batch, feed.now)
        self.longest = max(self.longest, time.thread_time() - began)
        self._events = [event for one in commands if isinstance(one, Bind) for event in feed.bind(one)]

    _events: Sequence[Event] = ()

    def settle(self) -> None:
        """Run turns until every job was tried."""
        for _ in range(_MAX_TURNS):
            deadline = self.feed.scheduler.next_deadline()
            if not self._events and (deadline is None or deadline > self.feed.now + 1):
                return
            self.turn()

    def turns_until_bound(self, name: str, events: Sequence[Event]) -> int:
        """Return in which turn a new job of another namespace is bound that arrives with these events."""
        self.longest = 0.0
        self.turn([*events, *self.job("team", name)])
        turns = 1
        while "nodeName" not in self.feed.bodies[f"team/{name}"]["spec"] and turns < _MAX_TURNS:
            self.turn()
            turns += 1
        # The turns in which the jobs of the flood are tried must not be long, either.
        for _ in range(3):
            self.turn()
        return turns


def unplaceable_flood(jobs: int) -> Flood:
    """Pods whose nodeSelector matches nothing, ten minutes later."""
    flood = Flood(100, ObjectFeed())
    for number in range(0, jobs, 500):
        some = range(number, min(jobs, number + 500))
        flood.turn(
            [event for one in some for event in flood.job(_FLOOD, f"f-{one}", nodeSelector={"no": "such"})]
        )
    flood.settle()
    flood.feed.now += 600 * SECOND
    flood.turn()
    flood.settle()
    return flood


def searching_flood(jobs: int) -> Flood:
    """Whole-node jobs over nodes full of one-chip pods that may be evicted."""
    actions = ("enqueue", "allocate", "preempt")
    flood = Flood(1_000, ObjectFeed(replace(default_configuration(), actions=actions)))
    feed = flood.feed
    # Nodes that join are free for others.
    old = {"nodeSelector": {"pool": "old"}}
    for name, value in (("low", 1), ("high", 100)):
        feed.deliver(feed.put("PriorityClass", {"metadata": {"name": name}, "value": value}))
    feed.deliver([event for one in range(8_000) for event in flood.job("runs", f"low-{one}", priority="low")])
    for number in range(0, jobs, 500):
        some = range(number, min(jobs, number + 500))
        flood.turn([event for one in some for event in flood.job(_FLOOD, f"f-{one}", 8, "high", **old)])
    return flood


def burning_flood(jobs: int) -> Flood:
    """Jobs each of which burns the processor."""
    spec = PluginSpec("burner", "burns the processor", lambda option: Burner())
    plain = default_configuration()
    burning = replace(plain, tiers=(*plain.tiers, Tier((spec.option(),))))
    feed = ObjectFeed(burning, new_scheduler(burning, specs=[spec]))
    flood = Flood(100, feed)
    events = [
        event for one in range(jobs) for event in flood.job(_FLOOD, f"f-{one}", nodeSelector={"no": "such"})
    ]
    flood.turn(events)
    return flood


def floods(full: bool) -> list[Figure]:
    """Measure how long a flood of one namespace delays a job of another, and how long the turns are."""
    times = 10 if full else 1
    results: list[Figure] = []
    made: dict[str, Callable[[int], Flood]] = {
        "pods that fit nowhere": unplaceable_flood,
        "jobs that search victims": searching_flood,
        "jobs that burn 50 ms": burning_flood,
    }
    counts = {"pods that fit nowhere": 3_000, "jobs that search victims": 300, "jobs that burn 50 ms": 300}
    for name, make in made.items():
        count = counts[name] * times
        flood = make(count)
        turns = [
            flood.turns_until_bound(f"quiet-{number}", flood.node(f"new-{number}")) for number in range(2)
        ]
        label = f"{count:,} {name}"
        results += [
            at_most(f"{label}: turns until a job of another namespace is bound", max(turns), "", 3),
            at_most(f"{label}: the longest turn", flood.longest, "s", 2 * TURN_LIMIT),
        ]
    return results


def reading(hostile: HostileObject, nodes: Sequence[str]) -> float:
    """Processor time of the reader over that of `json.loads`, for the largest of its objects."""
    feed = ObjectFeed()
    kind, body = max(hostile.make("h", nodes), key=lambda one: len(msgspec.json.encode(one[1])))
    data = msgspec.json.encode(body)
    reader = feed.readers[kind]
    ours = _fastest(lambda: reader.read(msgspec.Raw(data), Findings("h")))
    return ours / _fastest(lambda: json.loads(data))


def _fastest(run: Callable[[], object]) -> float:
    return min(timed(run, time.thread_time) for _ in range(3))


def memory_left(count: int) -> float:
    """MiB that many objects with long names leave when they are gone."""
    long_names = HOSTILE[-1]
    cluster = Ordinary(20)
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(count):
        for kind, body in long_names.make(f"h{number}", cluster.nodes):
            cluster.feed.deliver(cluster.add([(kind, body)]))
            meta = body["metadata"]
            key = f"{meta['namespace']}/{meta['name']}"
            if (kind, key) in cluster.feed.objects:
                cluster.feed.deliver(cluster.feed.remove(kind, key))
    gc.collect()
    return (tracemalloc.get_traced_memory()[0] - before) / _MIB


def run(full: bool = False, jobs: int = JOBS, nodes: int = NODES) -> list[Figure]:
    """`full` measures five pairs of each, and copies of each."""
    results: list[Figure] = []
    # Alternating: a machine that gets slower or faster meanwhile does so for both.
    prepared = Prepared(jobs, nodes)
    rounds = [[prepared.run(hostile) for hostile in (None, *HOSTILE)] for _ in range(5 if full else 2)]
    lost = sum(one.waiting for runs in rounds for one in runs)
    unplaced = 0
    for position, hostile in enumerate(HOSTILE, 1):
        ratio = statistics.median(runs[position].seconds / runs[0].seconds for runs in rounds)
        results.append(at_most(f"{hostile.name}: others with it over without", ratio, "x", MAX_RATIO))
        if hostile.is_placed:
            unplaced += sum(runs[position].hostile_pods - runs[position].hostile_bound for runs in rounds)
    names = [f"node-{number}" for number in range(nodes)]
    for hostile in HOSTILE:
        ratio = reading(hostile, names)
        results.append(at_most(f"{hostile.name}: reading over json.loads", ratio, "x", MAX_READING))
    for hostile in HOSTILE if full else (HOSTILE[4], HOSTILE[5]):
        turns = crowd(hostile, COPIES, nodes)
        results.append(at_most(f"{hostile.name}, {COPIES} times: turns that others wait", turns, "", 1))
    results += gangs()
    results += preemption()
    results += floods(full)
    tracemalloc.start(1)
    try:
        memory = memory_left(_LONG_NAMES if full else _LONG_NAMES // 10)
    finally:
        tracemalloc.stop()
    return [
        *results,
        at_most("pods of objects within the limits that got none", unplaced, "", 0),
        at_most("memory after objects with long names are gone", memory, "MiB", MAX_MEMORY),
        at_most("ordinary jobs without a node at the end", lost, "", 0),
    ]

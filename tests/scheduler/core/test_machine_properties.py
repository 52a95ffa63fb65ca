"""Random event streams: invariants after every step, and identical replay."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ringwise.apps.extensions import new_scheduler
from ringwise.framework.gangs.gang_placement import missing_pods
from ringwise.framework.holdings import Scope
from ringwise.framework.job import Job
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, DeletePod, Evict
from ringwise.state.limits import UsageLimit
from ringwise.state.model import (
    NodeReservation,
    Pod,
    PodGroup,
    PodTerm,
    Requirement,
    TopologySpread,
)
from ringwise.wellknown import HOSTNAME
from tests.builders.values import CHIP, SECOND
from tests.examples import examples
from tests.scheduler.rig import Rig, configuration, gangs_may_end

SETTINGS: dict[str, Any] = {
    "reservation_after": 30,
    "grace_over_time": 20,
    "hold_healthy_nodes": 15,
    "gang_recovery_limit": 10,
}
CAPPED = 12
#: Chips of the queue `limited`, and what it is lent beyond them.
LIMIT, BURST = 8, 8
QUEUES = ["default", "capped", "limited"]
SHAPES = [(1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (3, 8)]
#: Of all jobs that spread, over nodes.
SPREAD = TopologySpread(PodTerm(HOSTNAME, (Requirement("app", "In", ("spread",)),)), 1, required=True)
_Wish = tuple[tuple[int, int], int, str, str, bool, str, bool]
#: Shape, pods beyond the gang, queue, priority, may be sent away, expected duration, spreads.
JOBS = st.tuples(
    st.sampled_from(SHAPES),
    st.integers(0, 1),
    st.sampled_from(["default", *QUEUES]),
    st.sampled_from(["low", "high"]),
    st.booleans(),
    st.sampled_from(["", "5s", "60s"]),
    st.booleans(),
)


class _Start(NamedTuple):
    job: Job
    pod: Pod
    node: str


class Stream(RuleBasedStateMachine):
    @initialize(nodes=st.integers(1, 4))
    def begin(self, nodes: int) -> None:
        self.rig = Rig(nodes, tiers=gangs_may_end(), **SETTINGS)
        self.node_names = [f"n{number}" for number in range(1, nodes + 1)]
        self.jobs = 0
        self.reserved: list[NodeReservation] = []
        #: Chips of the namespace.
        self.most: int | None = None
        #: Jobs that lost something: they may be below their minimum for a while.
        self.damaged: set[str] = set()
        #: The queue in which each pod was bound, by its binding alone; and how many turns were read for it.
        self.bound: dict[str, str] = {}
        self.read = 0
        #: PodGroups that their owner deleted while pods of them are there.
        self.deleted: dict[str, PodGroup] = {}
        for name, value in (("low", 10), ("high", 100)):
            self.rig.priority(name, value)
        self.rig.queue("capped", capability={CHIP: CAPPED})
        self.rig.queue("limited")
        self.rig.tell(UsageLimit("few", queue="limited", hard={CHIP: LIMIT}, borrowing={CHIP: BURST}))
        self.rig.step()

    # -- what happens --------------------------------------------------------------------------

    @rule(wishes=st.lists(JOBS, min_size=1, max_size=4), fail=st.booleans())
    def submit(self, wishes: list[_Wish], fail: bool) -> None:
        for (pods, chips), spare, queue, priority, preemptable, expected, spreads in wishes:
            self.jobs += 1
            self.rig.submit(
                f"j{self.jobs}",
                pods=pods,
                chips=chips,
                min_available=max(1, pods - spare),
                queue=queue,
                priority=priority,
                preemptable=preemptable,
                expected=expected,
                labels={"app": "spread"} if spreads else None,
                spread=(SPREAD,) if spreads else (),
            )
        failing = sorted(name for name, pod in self.rig.pods.items() if pod.node is None)[:1] if fail else []
        self.damaged.update(self.rig.pods[name].group or "" for name in failing)
        self.rig.step(1, fail=failing)

    @rule(seconds=st.sampled_from([1, 11, 31]))
    def time_passes(self, seconds: int) -> None:
        self.rig.step(seconds)
        self.rig.run(20)

    @precondition(lambda self: self.rig.pods)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        names = sorted({pod.group for pod in self.rig.pods.values() if pod.group})
        name = data.draw(st.sampled_from(names))
        if (group := self.deleted.pop(f"default/{name}", None)) is not None:
            self.rig.groups[group.key] = group
        self.rig.end(name)
        self.rig.run(20)

    @rule()
    def leavers_go(self) -> None:
        self.rig.gone(*[name for name, pod in self.rig.pods.items() if pod.deleting])
        self.rig.run(20)

    @precondition(lambda self: self.rig.pods)
    @rule(data=st.data(), how=st.sampled_from(["Failed", "Succeeded", "deleting", "gone", "again"]))
    def pod(self, data: st.DataObject, how: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.rig.pods)))
        pod = self.rig.pods[name]
        self.damaged.add(pod.group or "")
        if how == "deleting":
            self.rig.change(name, deleting=True)
        elif how == "gone":
            self.rig.gone(name)
        elif how == "again":
            self.rig.change(name)
        elif pod.node is not None:
            self.rig.change(name, phase=how)
        self.rig.step(1)

    @rule(data=st.data(), state=st.sampled_from(["good", "good", "good", "not ready", "cordoned", "sick"]))
    def node(self, data: st.DataObject, state: str) -> None:
        name = data.draw(st.sampled_from(self.node_names))
        self.rig.node(name, ready=state != "not ready", unschedulable=state == "cordoned")
        self.rig.sick(name, 0xF0 if state == "sick" else 0)
        self.rig.step(1)

    @rule(
        data=st.data(),
        queue=st.sampled_from(["capped", "default"]),
        begins=st.sampled_from([0, 20, 50]),
        lasts=st.sampled_from([10, 40]),
    )
    def reserve(self, data: st.DataObject, queue: str, begins: int, lasts: int) -> None:
        """Overlapping ones, too, of which only one is accepted."""
        name, now = data.draw(st.sampled_from(self.node_names)), self.rig.now
        start, end = now + begins * SECOND, now + (begins + lasts) * SECOND
        one = NodeReservation(f"r{self.rig.now}", (name,), start, end, queue=queue)
        before = self.reserved
        self.reserved = [*before[-1:], one]
        for old in before:
            if old not in self.reserved:
                self.rig.tell(ev.NodeReservationGone(old.name))
        self.rig.tell(one)
        self.rig.step(1)

    @rule(chips=st.sampled_from([None, 0, 8, 20]))
    def limit(self, chips: int | None) -> None:
        self.most = chips
        limit = UsageLimit("own", namespace="default", hard={CHIP: chips or 0})
        self.rig.tell(ev.UsageLimitGone("own") if chips is None else limit)
        self.rig.step(1)

    @precondition(lambda self: self.rig.groups)
    @rule(data=st.data(), queue=st.sampled_from(QUEUES), more=st.integers(-1, 2))
    def group(self, data: st.DataObject, queue: str, more: int) -> None:
        """Its owner changes a PodGroup while it waits or runs."""
        key = data.draw(st.sampled_from(sorted(self.rig.groups)))
        before = self.rig.groups[key]
        self.damaged.add(before.name)
        self.rig.groups[key] = replace(before, queue=queue, min_member=max(1, before.min_member + more))
        self.rig.tell(ev.PodGroupSeen(self.rig.groups[key]))
        self.rig.step(1)

    @precondition(lambda self: self.rig.groups)
    @rule(data=st.data())
    def delete_group(self, data: st.DataObject) -> None:
        """Its pods go on without it."""
        key = data.draw(st.sampled_from(sorted(self.rig.groups)))
        group = self.rig.groups.pop(key)
        self.damaged.add(group.name)
        if any(pod.group == group.name for pod in self.rig.pods.values()):
            self.deleted[key] = group
        self.rig.tell(ev.PodGroupGone(key))
        self.rig.step(1)

    @precondition(lambda self: self.deleted)
    @rule(data=st.data(), queue=st.sampled_from(QUEUES))
    def create_group_again(self, data: st.DataObject, queue: str) -> None:
        key = data.draw(st.sampled_from(sorted(self.deleted)))
        group = self.deleted.pop(key)
        self.jobs += 1
        self.rig.groups[key] = replace(group, queue=queue, uid=f"again-{self.jobs}", phase="")
        self.rig.tell(ev.PodGroupSeen(self.rig.groups[key]))
        self.rig.step(1)

    @precondition(lambda self: self.rig.pods and self.rig.groups)
    @rule(data=st.data())
    def join(self, data: st.DataObject) -> None:
        """A pod is written to belong to another PodGroup."""
        name = data.draw(st.sampled_from(sorted(self.rig.pods)))
        other = data.draw(st.sampled_from(sorted(self.rig.groups)))
        group = other.partition("/")[2]
        self.damaged |= {group, self.rig.pods[name].group or ""}
        self.rig.change(name, group=group)
        self.rig.step(1)

    @precondition(lambda self: self.rig.pods)
    @rule(data=st.data())
    def flip(self, data: st.DataObject) -> None:
        """All pods of a job may be evicted, or none any more: what was lent must be given back."""
        group = data.draw(st.sampled_from(sorted({pod.group or "" for pod in self.rig.pods.values()})))
        members = [name for name, pod in self.rig.pods.items() if pod.group == group]
        flag = not self.rig.pods[members[0]].preemptable
        for name in members:
            self.rig.change(name, preemptable=flag)
        self.rig.step(1)

    # -- what must hold (the rig checks the books after every step) ---------------------------------

    @invariant()
    def gangs_are_whole(self) -> None:
        machine = self.rig.machine
        for job in machine.view.jobs.values():
            placed = sum(machine.view.cluster.pods[uid].node >= 0 for uid in job.pods)
            if job.name not in self.damaged and not any(pod.deleting for pod in job.pods.values()):
                assert placed == 0 or placed >= job.min_available, job.key

    @invariant()
    def nobody_starts_on_a_node_that_is_reserved_for_others(self) -> None:
        """Counted from the entries alone, for every binding of the last turn."""
        if not self.rig.history:
            return
        _, now, commands = self.rig.history[-1]
        for bind in (one for one in commands if isinstance(one, Bind)):
            job = self.rig.machine.view.job_of(bind.uid)
            if job is None:
                continue
            refused = self.rig.machine.view.cluster.node_reservations.problems
            for one in (one for one in self.reserved if one.name not in refused):
                if bind.node in one.nodes and job.queue != one.queue and now < one.end:
                    assert now < one.start, (job.key, one)
                    assert job.expected is not None, (job.key, one)
                    assert now + job.expected <= one.start, (job.key, one)

    @invariant()
    def capability_is_never_exceeded(self) -> None:
        assert self.rig.machine.view.usage.used_by_queue("capped").get(CHIP, 0) <= CAPPED

    def _read_bindings(self) -> None:
        view = self.rig.machine.view
        for _, _, commands in self.rig.history[self.read :]:
            for bind in commands:
                job = view.job_of(bind.uid) if isinstance(bind, Bind) else None
                if job is not None and isinstance(bind, Bind):
                    self.bound[bind.uid] = job.queue
        self.read = len(self.rig.history)

    def _held(self) -> dict[str, list[Pod]]:
        """By queue: pods with a node, by what was bound alone; pods of other schedulers count for none."""
        found: dict[str, list[Pod]] = {}
        view = self.rig.machine.view
        for uid, record in view.cluster.pods.items():
            if record.node >= 0 and view.job_of(uid) is not None:
                found.setdefault(self.bound[uid], []).append(record.pod)
        return found

    @invariant()
    def pods_count_for_the_queue_in_which_they_were_bound(self) -> None:
        self._read_bindings()
        view, held = self.rig.machine.view, self._held()
        for queue in QUEUES:
            chips = sum(pod.cls.chips for pod in held.get(queue, ()))
            assert view.usage.used_by_queue(queue).get(CHIP, 0) == chips
            assert view.usage.holdings.used.get(Scope(queue=queue), {}).get(CHIP, 0) == chips

    @invariant()
    def no_queue_has_more_than_its_limit_and_what_it_was_lent(self) -> None:
        """Who lost pods may have as many again."""
        self._read_bindings()
        pods = self._held().get("limited", [])
        if any(pod.group in self.damaged for pod in pods):
            return
        chips = sum(pod.cls.chips for pod in pods)
        assert chips <= LIMIT + BURST
        lent = self.rig.machine.view.usage.borrowing
        assert chips - LIMIT <= sum(pod.cls.chips for pod in pods if pod.uid in lent)

    @invariant()
    def nobody_new_starts_beyond_a_limit(self) -> None:
        """Counted from pods alone. Who lost pods may have as many again."""
        started = {one.job.name for one in self._started()}
        if self.most is not None and started - self.damaged:
            cluster = self.rig.machine.view.cluster
            assert sum(one.pod.cls.chips for one in cluster.pods.values() if one.node >= 0) <= self.most

    @invariant()
    def pods_are_spread_when_they_start(self) -> None:
        started = {one.node for one in self._started() if one.pod.cls.spread}
        if not started:
            return
        leaving = {one.uid for one in self.rig.history[-1][2] if isinstance(one, Evict | DeletePod)}
        all_nodes, staying = Counter[str](), Counter[str]()
        cluster = self.rig.machine.view.cluster
        for uid, one in cluster.pods.items():
            # Who is evicted in this turn counted when others were placed.
            stays = uid in leaving or not one.pod.deleting
            if one.node >= 0 and one.pod.cls.spread and stays and one.pod.live:
                name = cluster.names[one.node]
                all_nodes[name] += 1
                staying[name] += uid not in leaving
        fewest = min(all_nodes[name] for name in self.node_names)
        assert all(staying[name] <= fewest + 1 for name in started), (all_nodes, staying)

    def _started(self) -> list[_Start]:
        """The bindings of the last turn."""
        found = []
        for bind in self.rig.history[-1][2] if self.rig.history else ():
            job = self.rig.machine.view.job_of(bind.uid) if isinstance(bind, Bind) else None
            if job is not None and isinstance(bind, Bind):
                found.append(_Start(job, job.pods[bind.uid], bind.node))
        return found

    @invariant()
    def who_waits_has_a_reason_that_is_true(self) -> None:
        machine = self.rig.machine
        if self.rig.events:
            return
        for job in list(machine.view.jobs.values()):
            if any(machine.view.is_pending(pod) for pod in job.pods.values()):
                assert job.reason is not None, job.key
                if missing_pods(machine.view.what_if.open_session(self.rig.now), job):
                    assert machine.view.what_if.verdict(job, self.rig.now) is not None, (
                        job.key,
                        job.reason.message,
                    )
        assert machine.view.inconsistencies() == []

    def teardown(self) -> None:
        if not hasattr(self, "rig"):
            return
        again = new_scheduler(configuration(tiers=gangs_may_end(), **SETTINGS))
        for events, now, commands in self.rig.history:
            assert tuple(again.handle(events, now)) == commands


TestStream = Stream.TestCase
TestStream.settings = settings(max_examples=examples(25), stateful_step_count=30, deadline=None)

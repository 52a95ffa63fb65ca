"""F6 by random events: what is kept in each queue is what the law says, counted from the objects."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ringwise.messages import events as ev
from tests.builders.values import CHIP, SECOND
from tests.examples import examples
from tests.scheduler.rig import Rig

HOLD = 15
SETTINGS: dict[str, Any] = {"hold_healthy_nodes": HOLD}
CAPS = {"small": 16, "large": 24}


class Drains(RuleBasedStateMachine):
    """Gangs of which pods are drained, deleted by users, created again, and end."""

    @initialize(nodes=st.integers(2, 4))
    def begin(self, nodes: int) -> None:
        self.rig = Rig(nodes, **SETTINGS)
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self.cordoned: set[str] = set()
        for name, limit in CAPS.items():
            self.rig.queue(name, capability={CHIP: limit})
        self.rig.step()
        #: Job -> its queue, and how many pods of how many chips it has.
        self.jobs: dict[str, tuple[str, int, int]] = {}
        #: Jobs that lost a pod by a drain and were not complete since, and when a pod of them was last gone.
        self.lost: dict[str, int | None] = {}
        #: Pods that their owner has not created yet.
        self.held_back: list[ev.Event] = []

    def settle(self) -> None:
        self.rig.run(20)
        for job in list(self.lost):
            if job not in self.jobs or self.placed(job) == self.jobs[job][1]:
                del self.lost[job]

    def placed(self, job: str) -> int:
        """F2: bound and not terminating, or succeeded."""
        own = [pod for pod in self.rig.pods.values() if pod.group == job]
        return sum(pod.node is not None and not pod.deleting for pod in own)

    # -- what happens --------------------------------------------------------------------------

    @precondition(lambda self: len(self.jobs) < 4)
    @rule(shape=st.sampled_from([(1, 4), (1, 8), (2, 8), (3, 8)]), queue=st.sampled_from(sorted(CAPS)))
    def submit(self, shape: tuple[int, int], queue: str) -> None:
        name = f"j{len(self.rig.history)}"
        self.jobs[name] = (queue, *shape)
        self.rig.submit(name, pods=shape[0], chips=shape[1], queue=queue)
        self.settle()

    def running(self) -> list[str]:
        return sorted(
            name
            for name, pod in self.rig.pods.items()
            if pod.node is not None and not pod.deleting and pod.phase == "Running"
        )

    @precondition(lambda self: self.running())
    @rule(data=st.data(), at_once=st.booleans())
    def drain(self, data: st.DataObject, at_once: bool) -> None:
        name = data.draw(st.sampled_from(self.running()))
        pod = self.rig.pods[name]
        assert pod.node is not None
        self.rig.node(pod.node, unschedulable=True)
        self.cordoned.add(pod.node)
        self.lost.setdefault(pod.group or "", None)
        self.rig.change(name, deleting=True)
        self.settle()
        if at_once:
            self.leavers_go(True)

    @precondition(lambda self: self.running())
    @rule(data=st.data(), how=st.sampled_from(["deleted", "succeeded"]))
    def other_end(self, data: st.DataObject, how: str) -> None:
        name = data.draw(st.sampled_from(self.running()))
        pod = self.rig.pods[name]
        if how == "succeeded":
            self.rig.change(name, phase="Succeeded")
        else:
            if pod.node in self.cordoned:
                self.lost.setdefault(pod.group or "", None)
            self.rig.change(name, deleting=True)
        self.settle()

    @rule(recreate=st.booleans())
    def some_go(self, recreate: bool) -> None:
        self.leavers_go(recreate)

    def leavers_go(self, recreate: bool) -> None:
        for name in [name for name, pod in self.rig.pods.items() if pod.deleting]:
            pod = self.rig.pods[name]
            self.rig.tell(ev.PodGone(pod.uid))
            job = pod.group or ""
            if job in self.lost:
                self.lost[job] = self.rig.now
            self.rig.replacement(name)
            if not recreate and job in self.lost:
                # Its owner takes its time.
                self.held_back.append(self.rig.events.pop())
        self.settle()

    @rule()
    def recreate(self) -> None:
        known = {pod.uid for pod in self.rig.pods.values()}
        self.rig.tell(
            *[one for one in self.held_back if isinstance(one, ev.PodSeen) and one.pod.uid in known]
        )
        self.held_back.clear()
        self.settle()

    @precondition(lambda self: self.cordoned)
    @rule(data=st.data())
    def uncordon(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.cordoned)))
        self.cordoned.discard(name)
        self.rig.node(name)
        self.settle()

    @precondition(lambda self: len(self.jobs) > 2)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.jobs)))
        del self.jobs[name]
        self.rig.end(name)
        self.settle()

    @rule(seconds=st.sampled_from([1, 7, HOLD]))
    def time_passes(self, seconds: int) -> None:
        self.rig.step(seconds)
        self.settle()

    @precondition(lambda self: self.lost and not self.held_back)
    @rule()
    def restart(self) -> None:
        """F1: another leader reads the objects and what the last one wrote."""
        history = self.rig.history
        other = self.rig.successor()
        # Queues first, and the same settings.
        fresh = Rig(**SETTINGS)
        fresh.now, fresh.pods, fresh.groups = other.now, other.pods, other.groups
        fresh._serial, fresh.history, fresh.commands = other._serial, history, self.rig.commands
        for name, limit in CAPS.items():
            fresh.queue(name, capability={CHIP: limit})
        fresh.events += other.events
        self.rig = fresh
        self.settle()

    # -- what must hold (the rig compares the sums with the records after every step) --------------

    @invariant()
    def the_law(self) -> None:
        expected = dict.fromkeys(CAPS, 0)
        for job, last in self.lost.items():
            if last is not None and self.rig.now >= last + HOLD * SECOND:
                continue
            queue, pods, chips = self.jobs[job]
            own = [pod for pod in self.rig.pods.values() if pod.group == job]
            expected[queue] += chips * (pods - sum(pod.node is not None for pod in own))
        view = self.rig.machine.view
        assert {name: view.usage.reserved.against(name, "").get(CHIP, 0) for name in CAPS} == expected

    @invariant()
    def nothing_is_evicted_and_no_limit_is_exceeded(self) -> None:
        assert self.rig.evictions() == []
        view = self.rig.machine.view
        for name, limit in CAPS.items():
            assert view.usage.used_by_queue(name).get(CHIP, 0) <= limit


TestDrains = Drains.TestCase
TestDrains.settings = settings(max_examples=examples(30), stateful_step_count=40, deadline=None)

"""Random faults, healings, API errors and restarts of the scheduler in virtual time.

No pod is deleted twice (by force once by each leader) or after it was recreated, healthy pods stay where they
are while their job asks for faulty pods only, no chip is given twice, and in the end every job runs.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ringwise.messages import events as ev
from ringwise.messages.commands import Command, DeletePod, Publish
from ringwise.scheduler.faults.handler import FaultHandler
from ringwise.scheduler.faults.states import State
from ringwise.state.model import Pod
from tests.examples import examples
from tests.scheduler.rig import Rig

NODES = [f"n{number}" for number in range(1, 8)]
JOBS = {
    "inference": (
        {"fault-scheduling": "force", "pod-rescheduling": "on"},
        {"huawei.com/recover_policy_path": "pod"},
    ),
    "model": ({"fault-scheduling": "grace"}, {}),
    "small": ({"fault-scheduling": "force", "pod-rescheduling": "on", "fault-retry-times": "2"}, {}),
}


class FaultStorm(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig(len(NODES), grace_over_time=20)
        self.rig.deaf = True
        self.bad: dict[str, int] = {}
        self.down: set[str] = set()
        #: Deletions that the API server carried out: uid to how, and those it refused.
        self.deleted: dict[str, list[int | None]] = {}
        #: Of those, deletions by force that the present leader may repeat.
        self.repeats: set[str] = set()
        #: The pods as their owner creates them.
        self.templates: dict[str, Pod] = {}
        self.tables: dict[str, str] = {}

    @initialize()
    def submit(self) -> None:
        for name, (labels, notes) in JOBS.items():
            self.rig.submit(name, pods=2, chips=8, labels=labels, annotations=notes)
        self.templates = dict(self.rig.pods)
        self.turn(0)
        self.turn(0)

    # -- what happens ------------------------------------------------------------------------------------

    @rule(node=st.sampled_from(NODES), mask=st.sampled_from([0, 1, 0b11000]))
    def chips(self, node: str, mask: int) -> None:
        self.bad[node] = mask
        self.rig.sick(node, mask)

    @rule(node=st.sampled_from(NODES), ready=st.booleans())
    def node(self, node: str, ready: bool) -> None:
        (self.down.discard if ready else self.down.add)(node)
        self.rig.node(node, ready=ready)

    @rule(index=st.integers(0, 20))
    def pod_fails(self, index: int) -> None:
        placed = [name for name, pod in sorted(self.rig.pods.items()) if pod.node and not pod.deleting]
        if placed:
            self.rig.change(placed[index % len(placed)], phase="Failed", exit_code=1)

    @rule(seconds=st.sampled_from([0, 1, 5, 30]), refuse=st.booleans())
    def turn(self, seconds: int, refuse: bool = False) -> None:
        for command in self.rig.step(seconds):
            self.carry_out(command, refuse)

    @rule(recreate=st.booleans())
    def pods_end(self, recreate: bool) -> None:
        """Terminating pods end where their node is up, or they were deleted by force."""
        for name, pod in list(self.rig.pods.items()):
            if pod.deleting and (pod.node not in self.down or 0 in self.deleted.get(pod.uid, ())):
                self.rig.tell(ev.PodGone(pod.uid))
                if recreate:
                    self.rig.replacement(name)
                    self.rig.change(name, exit_code=None)
                else:
                    del self.rig.pods[name]

    @rule()
    def restart(self) -> None:
        """F1: another leader, with the objects and the document."""
        old = self.rig
        self.rig = Rig(0, grace_over_time=20)
        self.rig.deaf, self.rig.now, self.rig._serial = True, old.now, old._serial
        self.rig.pods, self.rig.groups = old.pods, old.groups
        for node in NODES:
            self.rig.node(node, ready=node not in self.down)
            self.rig.sick(node, self.bad.get(node, 0))
        self.rig.tell(*map(ev.PodGroupSeen, old.groups.values()), *map(ev.PodSeen, old.pods.values()))
        self.rig.tell(ev.LeaderRecordRead(dict(self.tables)))
        # A pod that is still there did not get its deletion by force: the new leader repeats it, once.
        self.repeats = {uid for uid, sent in self.deleted.items() if 0 in sent}

    def carry_out(self, command: Command, refuse: bool) -> None:
        match command:
            case Publish(name="ringwise-rescheduling"):
                self.tables |= command.data
            case DeletePod():
                self.delete(command, refuse)
            case _:
                self.rig._carry_out(command, set())

    def delete(self, command: DeletePod, refuse: bool) -> None:
        pod = self.rig.pods.get(command.pod)
        assert command.fault
        # The pod that was seen, not one that was created after it.
        known = self.rig.machine._state.pods.get(command.uid)
        assert known is not None
        assert known.pod.uid == command.uid
        if refuse:
            self.rig.tell(ev.EvictFailed(command.uid))
            return
        if pod is None or pod.uid != command.uid:
            return
        before = self.deleted.setdefault(command.uid, [])
        # Once, and once more by force; only by force, and only after a restart, a third time.
        if command.uid in self.repeats:
            assert command.grace == 0
            self.repeats.discard(command.uid)
        else:
            assert command.grace not in before
            assert 0 not in before
        before.append(command.grace)
        if pod.group == "inference":
            assert self.is_faulty(command.pod), "a healthy pod is deleted at pod level"
        self.rig.change(command.pod, deleting=True)

    def is_faulty(self, name: str) -> bool:
        pod = self.rig.pods[name]
        if pod.node is None:
            return False
        bits = sum(1 << chip for chip in pod.holds)
        handled = self.rig.machine._components.of(FaultHandler).jobs.get(f"default/{pod.group}")
        known = handled is not None and pod.uid in handled.faulty
        return known or pod.node in self.down or bool(bits & self.bad.get(pod.node, 0))

    # -- what holds ----------------------------------------------------------------------------------------

    @invariant()
    def handled_jobs_are_known(self) -> None:
        for key, handled in self.rig.machine._components.of(FaultHandler).jobs.items():
            assert handled.key == key
            assert handled.state in (State.FAULTY, State.BLOCKED, State.DELETING, State.WAITING)

    def teardown(self) -> None:
        """When everything is repaired, every job runs: nothing may still be a reason to wait."""
        for node in NODES:
            self.chips(node, 0)
            self.node(node, True)
        for _ in range(12):
            self.turn(30)
            self.pods_end(True)
            # A failed pod that is not restarted because of a fault is removed by its owner.
            self.rig.gone(
                *[name for name, pod in self.rig.pods.items() if pod.phase == "Failed" and not pod.deleting]
            )
            missing = {f"{job}-{index}" for job in JOBS for index in range(2)} - self.rig.pods.keys()
            for name in sorted(missing):
                self.recreate(name)
        self.turn(0)
        for job in JOBS:
            pods = [pod for pod in self.rig.pods.values() if pod.group == job]
            placed = sum(pod.node is not None and pod.phase == "Running" for pod in pods)
            assert placed == 2, (
                job,
                self.rig.reason(job),
                self.rig.machine._components.of(FaultHandler).jobs,
            )

    def recreate(self, name: str) -> None:
        """The owner notices late that a pod is missing."""
        self.rig._serial += 1
        self.rig.put(replace(self.templates[name], uid=f"{name}.{self.rig._serial}"))


TestFaultStorm = FaultStorm.TestCase
TestFaultStorm.settings = settings(
    max_examples=examples(10),
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

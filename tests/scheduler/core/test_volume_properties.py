"""Whatever happens to claims, volumes and nodes: nothing is given twice, and gangs start as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ringwise.framework.job import Job
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, BindVolume, Command, SelectNode
from ringwise.state.model import Requirement
from ringwise.state.volumes import CsiDriver, StorageCapacity
from tests.builders.values import GIB, on_node
from tests.examples import examples
from tests.scheduler.volume_rig import VolumeRig

NODES = 3
PODS = 2
JOBS = ("one", "two", "three")
DRIVER = ev.CsiDriverSeen(CsiDriver("disk.example.com", publishes_capacity=True))


class Checked(VolumeRig):
    """Looks at every command: what it does to the objects must be allowed at that moment."""

    #: So many commands of a turn are carried out; then the scheduler is killed. None: all.
    left: int | None = None
    #: What the driver of `fast` publishes, by node.
    room: Mapping[str, StorageCapacity] = MappingProxyType({})

    def step(self, seconds: float = 0, **more: Any) -> list[Command]:
        commands = super().step(seconds, **more)
        self.check_gangs(commands)
        self.check_chips()
        return commands

    def _carry_out(self, command: Command, failing: set[str]) -> None:
        if self.left is not None:
            if not self.left:
                return
            self.left -= 1
        if isinstance(command, BindVolume):
            given = self.volumes[command.volume].claim
            assert given is None or given.name == command.claim, "a volume is given twice"
        if isinstance(command, Bind):
            pod = self.pods.get(command.pod)
            for name in pod.claims if pod is not None else ():
                assert self.claims[name].bound, "a pod is bound before its claims"
        super()._carry_out(command, failing)

    def check_gangs(self, commands: list[Command]) -> None:
        """Nodes of claims are selected for a whole gang; and a whole gang is bound."""
        chosen = {one.claim for one in commands if isinstance(one, SelectNode | BindVolume)}
        bound = {one.pod for one in commands if isinstance(one, Bind)}
        for job in JOBS:
            pods = [pod for pod in self.pods.values() if pod.group == job]
            names = {name for pod in pods for name in pod.claims}
            if chosen & names:
                records = self.machine.view.cluster.pods
                assert all(records[pod.uid].node >= 0 for pod in pods), "a part of a gang was reserved"
                assert len(pods) == PODS
            # Pods that request nothing count for their gang while they wait, as in Volcano.
            if any(pod.name in bound and not pod.cls.best_effort for pod in pods):
                assert all(pod.name in bound or pod.node is not None for pod in pods)

    def check_chips(self) -> None:
        """No chip is given twice, to pods that are bound or hold theirs."""
        used: set[tuple[int, int]] = set()
        for record in self.machine.view.cluster.pods.values():
            if record.node >= 0:
                chips = {(record.node, chip) for chip in range(8) if record.chips >> chip & 1}
                assert not chips & used
                used |= chips

    def restarted(self) -> Checked:
        """Another scheduler that reads the same objects."""
        other = Checked()
        other.now, other._serial = self.now, self._serial
        other.claims, other.volumes = self.claims, self.volumes
        other.pods, other.groups, other.room = self.pods, self.groups, self.room
        for number in range(1, NODES + 1):
            other.node(f"n{number}", labels={"host": f"n{number}"})
        other.tell(DRIVER, *self.room.values())
        other.tell(*self.volumes.values(), *self.claims.values())
        other.tell(*self.groups.values(), *self.pods.values())
        return other


claims = st.builds(lambda job, pod: f"{job}-{pod}", st.sampled_from(JOBS), st.integers(0, PODS - 1))
happenings = st.one_of(
    st.tuples(st.just("submit"), st.sampled_from(JOBS), st.sampled_from(["fast", "local"])),
    st.tuples(st.just("best effort"), st.sampled_from(JOBS), st.sampled_from(["fast", "local"])),
    st.tuples(st.just("room"), st.sampled_from(["n1", "n2", "n3"]), st.sampled_from(["0", "1"])),
    st.tuples(st.just("killed"), st.integers(0, 5).map(str), st.just("")),
    st.tuples(st.just("end"), st.sampled_from(JOBS), st.just("")),
    st.tuples(st.just("volume"), st.integers(1, 5).map(str), st.sampled_from(["", "n1", "n2", "n3"])),
    st.tuples(st.just("bind"), claims, st.sampled_from(["", "selected", "n1", "n2", "n3"])),
    st.tuples(st.just("refuse"), claims, st.just("")),
    st.tuples(st.just("delete"), claims, st.just("")),
    st.tuples(st.just("fail"), claims, st.just("")),
    st.tuples(st.just("node"), st.sampled_from(["n1", "n2", "n3"]), st.sampled_from(["ready", "not ready"])),
    st.tuples(st.just("time"), st.sampled_from(["1", "60", "600"]), st.just("")),
    st.tuples(st.just("restart"), st.just(""), st.just("")),
)


def happen(rig: Checked, what: str, name: str, how: str) -> Checked:
    match what:
        case "submit" | "best effort" if f"default/{name}" not in rig.groups:
            for index in range(PODS):
                if f"{name}-{index}" not in rig.claims:
                    rig.claim(f"{name}-{index}", how)
            rig.submit(name, pods=PODS, chips=8 if what == "submit" else 0, claims=(f"{name}-{{}}",))
        case "end" if f"default/{name}" in rig.groups:
            rig.end(name)
        case "volume" if name not in rig.volumes:
            rig.volume(name, node_terms=on_node(how) if how else ())
        case "bind" if name in rig.claims and not rig.claims[name].bound:
            bind(rig, name, how)
        case "refuse" if name in rig.claims and not rig.claims[name].bound:
            rig.change_claim(name, selected_node="")
        case "delete" if name in rig.claims and not used(rig, name):
            del rig.claims[name]
            rig.tell(ev.ClaimGone(f"default/{name}"))
        case "fail":
            rig.tell(ev.ClaimFailed(f"default/{name}", "refused by the test"))
        case "node":
            rig.node(name, ready=how == "ready", labels={"host": name})
        case "room":
            nodes = (Requirement("host", "In", (name,)),)
            found = StorageCapacity("kube-system", name, "fast", nodes, int(how) * GIB)
            rig.room = {**rig.room, name: found}
            rig.tell(found)
        case "killed":
            rig.left = int(name)
            rig.step()
            return rig.restarted()
        case "time":
            rig.step(int(name))
        case "restart":
            return rig.restarted()
    return rig


def used(rig: Checked, claim: str) -> bool:
    """Kubernetes keeps a claim while a bound pod uses it."""
    return any(claim in pod.claims and pod.node is not None for pod in rig.pods.values())


def bind(rig: Checked, name: str, how: str) -> None:
    """As the volume controller does: to the volume that names the claim, or to one that is made."""
    claim = rig.claims[name]
    given = next((volume for volume, to in rig.given().items() if to == name), None)
    if given is not None:
        rig.change_volume(given, phase="Bound")
        rig.complete(name, given)
    elif claim.storage_class == "fast" and claim.selected_node and f"pv-{name}" not in rig.volumes:
        where = claim.selected_node if how == "selected" else how
        rig.provision(name, node_terms=on_node(where) if where else ())


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(happenings, st.booleans()), min_size=4, max_size=24))
def test_nothing_is_given_twice_and_gangs_start_as_a_whole(
    story: list[tuple[tuple[str, str, str], bool]],
) -> None:
    rig = Checked()
    rig.tell(DRIVER)
    for number in range(1, NODES + 1):
        rig.node(f"n{number}", labels={"host": f"n{number}"})
    for (what, name, how), decides in story:
        rig = happen(rig, what, name, how)
        if decides:
            rig.step()
    for number in range(1, NODES + 1):
        rig.node(f"n{number}", labels={"host": f"n{number}"})
    for _ in range(4):
        rig.step(301)
        for claim in list(rig.claims):
            happen(rig, "bind", claim, "selected")
        rig.run()
    # Nothing is held for ever: whoever waits for volumes has claims that nobody bound.
    waiting = {job.name for job in rig.machine.view.jobs.values() if reason_of(job) == "volumes-pending"}
    unbound = {claim.name.rpartition("-")[0] for claim in rig.claims.values() if not claim.bound}
    assert waiting <= unbound


def reason_of(job: Job) -> str:
    return "" if job.reason is None else job.reason.code

"""Every order of placing, asking and failing (rules D2, D3): a kubelet, an API server and pods, simulated.

The kubelet here knows which pod it asks for and which ids it gave out; the allocator sees what a device
plugin sees. The truth is what was answered for each container.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ringwise.device.allocation import CONSUMED, AllocationError
from ringwise.device.allocator import AllocateResult, Allocator
from ringwise.device.ledger import Claim, Ledger, Mount
from ringwise.device.pods import NodePod
from tests.builders.values import CHIP, SECOND
from tests.device.cases import chips
from tests.device.test_allocation import REAL, healthy, waiting_pod
from tests.examples import examples, sample

ALL = chips(6)


TABLE = "ascend.kubectl.kubernetes.io/ascend-910-configuration"


def rank_table(_pod: NodePod, mounted: Sequence[str]) -> tuple[str, str]:
    """What stands for the rank table: it names the chips."""
    return TABLE, ";".join(sorted(mounted))


class Node(RuleBasedStateMachine):
    """`by_environment`: containers mount what their pod's annotation names, as with Ascend Docker Runtime."""

    by_environment = False

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.number = 0
        #: The API server's pods.
        self.pods: dict[str, NodePod] = {}
        #: Kubelet: pod uid to its ids; and what its container has.
        self.ids: dict[str, tuple[str, ...]] = {}
        self.containers: dict[str, tuple[str, ...]] = {}
        self.kubelet_answers = True
        #: Whether a pod went away within the last seconds: its answer may be one that kubelet never listed.
        self.recent_loss = False
        #: What the scheduler was told: pod uid to chips.
        self.reported: dict[str, tuple[str, ...]] = {}
        self.allocator = self._started(Ledger())

    def _started(self, ledger: Ledger) -> Allocator:
        made = Allocator(CHIP, ALL, ledger, rank_table=rank_table, mounts_by_environment=self.by_environment)
        made.replace_pods(self.pods.values(), 0)
        return made

    def _listing(self) -> dict[str, list[tuple[str, ...]]]:
        return {self.pods[uid].key: [ids] for uid, ids in self.ids.items() if uid in self.pods}

    def _write(self, pod: NodePod) -> None:
        self.pods[pod.uid] = pod
        self.allocator.put_pod(pod)

    def _waiting(self) -> list[str]:
        return [uid for uid, pod in self.pods.items() if pod.live and uid not in self.ids]

    def _scheduler_holds(self) -> set[str]:
        """What rule N8 holds: the reported chips, or those of the binding and of AscendReal."""
        reported = self.reported
        held: set[str] = set()
        for uid, pod in self.pods.items():
            named = reported.get(uid)
            if named is None:
                real = pod.annotations.get(REAL, "")
                named = (*pod.annotations[CHIP].split(","), *filter(None, real.split(",")))
            held.update(named)
        return held

    # -- what happens ---------------------------------------------------------------------------------

    @rule(count=st.integers(1, 3))
    def place(self, count: int) -> None:
        """The scheduler places a pod on chips that are free for it."""
        free = [chip for chip in ALL if chip not in self._scheduler_holds()]
        if len(free) < count:
            return
        self.number += 1
        pod = waiting_pod(f"pod-{self.number}", ",".join(free[:count]), str(self.number))
        if self.by_environment:
            pod = replace(pod, visible_from=frozenset({CHIP}))
        self._write(replace(pod, uid=f"uid-{self.number}"))

    @precondition(lambda self: self._waiting())
    @rule(
        data=st.data(), outcome=st.sampled_from(["works", "works", "works", "refused", "unknown", "killed"])
    )
    def ask(self, data: st.DataObject, outcome: str) -> None:
        """Kubelet asks for one of its pods, in any order."""
        uid = data.draw(st.sampled_from(self._waiting()))
        self.ask_for(uid, data.draw(st.permutations(self.free_ids())), outcome)

    def free_ids(self) -> list[str]:
        taken = {one for ids in self.ids.values() for one in ids}
        return [one for one in ALL if one not in taken]

    def ask_for(self, uid: str, free: list[str], outcome: str) -> None:
        """Kubelet asks for a pod with the first of these ids."""
        size = self.pods[uid].asks_for(CHIP)
        ids = free[:size]
        if len(ids) < size:
            return
        self.now += SECOND
        if self.allocator.needs_listing(self.now):
            self._list()
        try:
            allocation = self._allocated(ids)
        except AllocationError as error:
            self._check_failure(str(error))
            self._fail(uid)
            return
        if outcome == "refused":
            self.allocator.abort(allocation)
            self._fail(uid)
            return
        assert allocation.pod is not None
        chosen = self.pods[allocation.pod.uid].annotated(allocation.annotations)
        if outcome == "unknown":
            self.pods[chosen.uid] = chosen
            self.allocator.abort(allocation, maybe_patched=True)
            self.allocator.put_pod(chosen)
            self._fail(uid)
            return
        self._write(chosen)
        if outcome == "killed":
            # The answer was lost with the process: kubelet fails the pod.
            self.recent_loss = True
            self._fail(uid)
            self.allocator = self._started(self.allocator.ledger)
            return
        self.allocator.commit(allocation)
        self.ids[uid] = tuple(ids)
        own = tuple(self.pods[uid].annotations[CHIP].split(","))
        self.containers[uid] = own if self.by_environment else allocation.chips

    def _list(self) -> None:
        if self.kubelet_answers:
            self.allocator.listed(self._listing(), self.now, during_call=True)

    def _allocated(self, ids: list[str]) -> AllocateResult:
        """As the plugin does it: before a call fails, kubelet is asked."""
        try:
            return self.allocator.allocate(ids, self.now, healthy)
        except AllocationError:
            self._list()
            return self.allocator.allocate(ids, self.now, healthy)

    def _check_failure(self, why: str) -> None:
        """A call fails only on a chip that the scheduler could not know to be taken, or after a loss."""
        assert "held by" in why or self.recent_loss or not self.kubelet_answers

    def _fail(self, uid: str) -> None:
        self._write(replace(self.pods[uid], phase="Failed", reason="UnexpectedAdmissionError"))

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(list(self.pods)))
        self.recent_loss = True
        del self.pods[uid]
        self.ids.pop(uid, None)
        self.containers.pop(uid, None)
        self.allocator.drop_pod(uid, 0)

    @rule()
    def report(self) -> None:
        """The plugin's loop, while kubelet answers: afterwards every annotation names what is mounted."""
        if not self.kubelet_answers:
            return
        self.now += 20 * SECOND
        self.recent_loss = False
        self.allocator.listed(self._listing(), self.now)
        for correction in self.allocator.corrections():
            self._write(self.pods[correction.pod.uid].annotated(correction.annotations))
            self.allocator.corrected(correction)
        assert self.allocator.corrections() == []
        self.reported = self.allocator.chips_of_pods()
        assert {chip for chips in self.containers.values() for chip in chips} <= self._scheduler_holds()
        for uid, mounted in self.containers.items():
            annotations = self.pods[uid].annotations
            assert set(annotations[CHIP].split(",")) == set(mounted)
            assert set(annotations[REAL].split(",")) == set(mounted)
            assert set(annotations["huawei.com/kltDev"].split(",")) == set(self.ids[uid])
            assert annotations["predicate-time"] == CONSUMED
            assert annotations[TABLE] == rank_table(self.pods[uid], mounted)[1]

    @rule()
    def time_passes(self) -> None:
        self.now += 20 * SECOND
        self.recent_loss = False

    @rule()
    def restart(self) -> None:
        self.allocator = self._started(self.allocator.ledger)

    # -- what always holds ----------------------------------------------------------------------------

    @invariant()
    def no_chip_is_in_two_containers(self) -> None:
        given = [chip for mounted in self.containers.values() for chip in mounted]
        assert len(given) == len(set(given)), self.containers

    @invariant()
    def a_mounted_chip_never_looks_free(self) -> None:
        mounted = {chip for chips in self.containers.values() for chip in chips}
        assert mounted <= self.allocator.used()


class NodeWithRuntime(Node):
    by_environment = True


class NodeWithoutListing(Node):
    """Kubelet's pod-resources API is down: calls may fail, and no chip is given twice."""

    @initialize()
    def silence(self) -> None:
        self.kubelet_answers = False


TestExchanges = Node.TestCase
TestByEnvironment = NodeWithRuntime.TestCase
TestWithoutListing = NodeWithoutListing.TestCase
for case in (TestExchanges, TestByEnvironment, TestWithoutListing):
    case.settings = settings(max_examples=examples(60), stateful_step_count=15, deadline=None)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_d2_calls_in_the_order_of_predicate_time_get_exactly_their_chips(order: tuple[int, ...]) -> None:
    pods = [waiting_pod(f"p{at}", f"Ascend910-{at}", str(time)) for at, time in enumerate((10, 20, 30))]
    machine = Allocator(CHIP, ALL, Ledger())
    machine.replace_pods([pods[at] for at in order], 0)
    for at, pod in enumerate(pods):
        allocation = machine.allocate([f"Ascend910-{5 - at}"], at, healthy)
        machine.commit(allocation)
        assert allocation.pod is not None
        assert (allocation.pod.name, allocation.chips) == (pod.name, (f"Ascend910-{at}",))


def test_d2_an_exchange_in_the_middle_leaves_every_pod_its_turn() -> None:
    """Kubelet asks for b first: it gets a's chip. a then gets b's, also after a restart in between."""
    a, b = waiting_pod("a", "Ascend910-0", "10"), waiting_pod("b", "Ascend910-1", "20")
    machine = Allocator(CHIP, ALL, Ledger())
    machine.replace_pods([a, b], 0)
    machine.commit(machine.allocate(["Ascend910-5"], 0, healthy))
    machine.listed({"default/b": [["Ascend910-5"]]}, SECOND)
    changes = {one.pod.name: dict(one.annotations) for one in machine.corrections()}
    assert changes["a"] == {
        CHIP: "Ascend910-1",
        "predicate-time": "20",
        REAL: None,
        "huawei.com/kltDev": None,
    }
    assert changes["b"] == {
        CHIP: "Ascend910-0",
        REAL: "Ascend910-0",
        "huawei.com/kltDev": "Ascend910-5",
        "predicate-time": CONSUMED,
    }
    # Both are told at once: neither chip looks free in between.
    assert machine.chips_of_pods() == {"uid-b": ("Ascend910-0",), "uid-a": ("Ascend910-1",)}
    again = Allocator(CHIP, ALL, machine.ledger)
    again.replace_pods(machine.pods.values(), 0)
    allocation = again.allocate(["Ascend910-3"], 2 * SECOND, healthy)
    assert (allocation.pod and allocation.pod.name, allocation.chips) == ("a", ("Ascend910-1",))


@pytest.mark.parametrize("marked", [True, False], ids=["marked", "running"])
def test_a_mount_from_before_the_node_had_another_plugin_is_forgotten(marked: bool) -> None:
    """To Huawei's plugin and back: meanwhile kubelet gave the same ids to another pod, with other chips."""
    machine = Allocator(CHIP, ALL, Ledger())
    machine.replace_pods([waiting_pod("first", "Ascend910-0")], 0)
    machine.commit(machine.allocate(["Ascend910-3"], 0, healthy))
    machine.listed({"default/first": [["Ascend910-3"]]}, SECOND)
    later = Allocator(CHIP, ALL, machine.ledger)
    # Huawei's plugin does not mark a pod that takes a whole node.
    time, phase = (CONSUMED, "Pending") if marked else ("5", "Running")
    second = waiting_pod("second", "Ascend910-2", time, phase=phase)
    pods = [second.annotated({REAL: "Ascend910-1"}), waiting_pod("next", "Ascend910-0", "6")]
    later.replace_pods(pods, 2 * SECOND)
    later.listed({"default/second": [["Ascend910-3"]]}, 2 * SECOND, running=())
    assert later.chips_of_pods() == {}
    assert later.doubtful_chips() == {"uid-second": ("Ascend910-1", "Ascend910-2", "Ascend910-3")}
    allocation = later.allocate(["Ascend910-0"], 3 * SECOND, healthy)
    assert (allocation.pod and allocation.pod.name, allocation.chips) == ("next", ("Ascend910-0",))


def test_the_mount_of_a_pod_that_is_gone_is_not_that_of_its_successor() -> None:
    """A StatefulSet's pod: kubelet still lists the old one under the name of the new one, which waits."""
    machine = Allocator(CHIP, ALL, Ledger())
    machine.replace_pods([waiting_pod("same", "Ascend910-0")], 0)
    machine.commit(machine.allocate(["Ascend910-3"], 0, healthy))
    machine.listed({"default/same": [["Ascend910-3"]]}, SECOND)
    machine.replace_pods([replace(waiting_pod("same", "Ascend910-1", "5"), uid="uid-second")], 0)
    machine.listed({"default/same": [["Ascend910-3"]]}, 2 * SECOND)
    assert machine.ledger.mapped(CHIP) == {"Ascend910-3": "Ascend910-0"}
    assert machine.allocate(["Ascend910-4"], 3 * SECOND, healthy).chips == ("Ascend910-1",)


def test_a_pod_that_took_the_name_of_another_one_does_not_get_its_mount() -> None:
    first = waiting_pod("same", "Ascend910-0")
    machine = Allocator(CHIP, ALL, Ledger())
    machine.replace_pods([first], 0)
    machine.commit(machine.allocate(["Ascend910-3"], 0, healthy))
    second = replace(waiting_pod("same", "Ascend910-1", "5"), uid="uid-second")
    machine.replace_pods([second], 0)
    machine.listed({"default/same": [["Ascend910-3"]]}, SECOND)
    assert machine.chips_of_pods() == {}
    assert machine.used() == {"Ascend910-0", "Ascend910-1"}
    assert [pod.uid for pod in machine.waiting()] == ["uid-second"]


# -- every order of a few pods -----------------------------------------------------------------------

#: How a call ends: answered; the patch is refused; it is unknown whether it was taken; the plugin is killed.
OUTCOMES = ("works", "refused", "unknown", "killed")


def interleavings(pods: int) -> Iterator[tuple[tuple[str, int], ...]]:
    """Every order in which the pods are bound (0, 1, 2 ...) and asked for, each after it was bound."""
    for asked in permutations(range(pods)):
        for places in product(range(pods + 1), repeat=pods):
            # places[i]: how many pods are bound when the i-th call comes.
            if sorted(places) == list(places) and all(
                one < bound for one, bound in zip(asked, places, strict=True)
            ):
                events: list[tuple[str, int]] = []
                bound = 0
                for one, many in zip(asked, places, strict=True):
                    events += [("bind", number) for number in range(bound, many)]
                    bound = max(bound, many)
                    events.append(("ask", one))
                yield tuple(events)


def test_the_interleavings_of_two_pods() -> None:
    assert set(interleavings(2)) == {
        (("bind", 0), ("ask", 0), ("bind", 1), ("ask", 1)),
        (("bind", 0), ("bind", 1), ("ask", 0), ("ask", 1)),
        (("bind", 0), ("bind", 1), ("ask", 1), ("ask", 0)),
    }


@pytest.mark.parametrize("machine", [Node, NodeWithRuntime, NodeWithoutListing])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 1, 2)], ids=str)
def test_D2_D3_every_interleaving_of_three_pods(machine: type[Node], sizes: tuple[int, ...]) -> None:
    """Bind order, order of the calls, outcome of each, and where kubelet's list is read in between."""
    outcomes = product(OUTCOMES, repeat=len(sizes))
    for case in sample([*product(interleavings(len(sizes)), outcomes, (False, True))]):
        _live_through(machine(), sizes, *case)


def _live_through(
    node: Node,
    sizes: tuple[int, ...],
    events: Sequence[tuple[str, int]],
    outcomes: Sequence[str],
    reported: bool,
) -> None:
    node.kubelet_answers = not isinstance(node, NodeWithoutListing)
    decided: dict[str, tuple[str, ...]] = {}
    for what, number in events:
        if what == "bind":
            node.place(sizes[number])
            uid = f"uid-{node.number}"
            decided[uid] = tuple(node.pods[uid].annotations[CHIP].split(","))
        elif f"uid-{number + 1}" in node._waiting():
            # Kubelet's ids are never those of the decision.
            node.ask_for(f"uid-{number + 1}", node.free_ids()[::-1], outcomes[number])
        if reported:
            node.report()
        node.no_chip_is_in_two_containers()
        node.a_mounted_chip_never_looks_free()
    node.report()
    node.no_chip_is_in_two_containers()
    asked = [number for what, number in events if what == "ask"]
    if asked == sorted(asked) and set(outcomes) == {"works"}:
        assert node.containers == decided


@given(st.permutations(range(5)), st.permutations(range(5)), st.integers(1, 5))
def test_D3_no_chips_are_lost_in_whatever_order_owners_become_known(
    owners: Sequence[int], order: Sequence[int], calls: int
) -> None:
    """Calls were served as the first pods; those of them that are left over get the chips of the others."""
    pods = [f"pod-{number}" for number in range(5)]
    own = {pod: Claim((f"Ascend910-{number}",), str(number)) for number, pod in enumerate(pods)}
    ledger = Ledger([Mount(CHIP, (f"id-{pod}",), own[pod].chips, pod) for pod in pods[:calls]])
    free = {pod: own[pod] for pod in pods[calls:]}
    for one in order:
        if one < calls:
            mount = ledger.mounts[one]
            ledger.replace(mount, replace(mount, owner=pods[owners[one]]))
            ledger.settle(free | ledger.claims, pods)
    served = {mount.owner for mount in ledger.mounts}
    assert [mount.chosen for mount in ledger.mounts] == [pods[one] for one in owners[:calls]]
    waiting = [ledger.claims.get(pod, own[pod]).chips for pod in pods if pod not in served]
    assert sorted([*waiting, *(mount.chips for mount in ledger.mounts)]) == [own[pod].chips for pod in pods]

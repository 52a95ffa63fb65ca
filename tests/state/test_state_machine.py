"""The state under random streams of facts and decisions.

At every step: the index answers as a scan over all nodes would, no chip is held
twice, the books agree with the pods, and a rollback restores everything.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ringwise.manifests.settings.boards import shipped_boards
from ringwise.placement.rules import chip_rule
from ringwise.state.cluster import ClusterState, double_claims
from ringwise.state.fleet import Fleet
from ringwise.state.index import View
from ringwise.state.model import Device, DeviceReport, Node, Pod, Taint
from ringwise.state.node_shapes import NodeShape
from ringwise.topology.board import Board
from ringwise.topology.chips import mask_of
from ringwise.topology.natural import natural_key
from tests.builders.values import CHIP, pod, pod_class
from tests.examples import examples
from tests.fingerprint import fingerprint

BOARDS = [shipped_boards()[name] for name in ("910-x8", "910b-x8", "a3-x16", "910b-x16", "mesh4-x8")]
NAMES = ["node-1", "node-2", "node-10", "node-11", "a", "b-3"]


def untainted(shape: NodeShape) -> bool:
    return not shape.node_class.taints


def emptier(shape: NodeShape) -> float:
    """A rating that depends on the load, so that shapes of one bucket differ."""
    return float(-shape.pods)


class StateMachine(RuleBasedStateMachine):
    @initialize(board=st.sampled_from(BOARDS), multi_pod=st.booleans(), self_maintain=st.booleans())
    def start(self, board: Board, multi_pod: bool, self_maintain: bool) -> None:
        self.board, self.multi_pod = board, multi_pod
        self.rule_ = chip_rule(board)
        self.withholds = multi_pod and board.checks_network
        self.state = ClusterState(self_maintain=self_maintain)
        self.marks: list[tuple[int, tuple[object, ...]]] = []
        self.serial = 0
        for name in NAMES[:3]:
            self.state.put_node(self.make_node(name, False, False, True))

    @property
    def view(self) -> View:
        return self.state.view(CHIP, self.board.name, self.rule_, self.multi_pod, self.withholds)

    def make_node(self, name: str, tainted: bool, small: bool, ready: bool, cpu: int = 2000) -> Node:
        chips = self.board.chips_per_node
        return Node(
            name,
            taints=(Taint("busy"),) if tainted else (),
            cpu_milli=cpu,
            ready=ready,
            chips_allocatable={CHIP: chips - 1 if small else chips},
            devices=tuple(Device(chip) for chip in range(chips - 1 if small else chips)),
        )

    # -- facts, only outside a transaction ---------------------------------------------

    @precondition(lambda self: not self.marks)
    @rule(
        name=st.sampled_from(NAMES),
        tainted=st.booleans(),
        small=st.booleans(),
        ready=st.sampled_from([True, True, False]),
        cpu=st.sampled_from([1000, 2000, 3000]),
    )
    def node_seen(self, name: str, tainted: bool, small: bool, ready: bool, cpu: int) -> None:
        self.state.put_node(self.make_node(name, tainted, small, ready, cpu))

    @precondition(lambda self: not self.marks)
    @rule(name=st.sampled_from(NAMES))
    def node_gone(self, name: str) -> None:
        self.state.drop_node(name)

    @precondition(lambda self: not self.marks)
    @rule(name=st.sampled_from(NAMES), data=st.data())
    def report(self, name: str, data: st.DataObject) -> None:
        masks = st.integers(0, (1 << self.board.chips_per_node) - 1)
        self.state.put_report(
            DeviceReport(
                name,
                CHIP,
                free=data.draw(masks),
                unhealthy=data.draw(masks) & data.draw(masks) & data.draw(masks),
                network_unhealthy=data.draw(st.none() | masks),
                recovering=data.draw(masks) & data.draw(masks) & data.draw(masks),
            )
        )

    @precondition(lambda self: not self.marks)
    @rule(name=st.sampled_from(NAMES), chips=st.integers(1, 4), named=st.integers(0, 4))
    def foreign_pod(self, name: str, chips: int, named: int) -> None:
        """A pod bound by another scheduler, which names all, some or none of its chips; they are free."""
        self.serial += 1
        number = self.state.node_id.get(name)
        free = self.state.fleets[CHIP].free(number) if number is not None else 0
        held = tuple(c for c in range(64) if free >> c & 1)[: min(chips, named)]
        cls = pod_class(chips)
        self.state.put_pod(
            pod(
                f"f{self.serial}",
                uid=f"f{self.serial}",
                cls=cls,
                namespace="x",
                on=name,
                phase="Pending",
                holds=held,
            )
        )

    @precondition(lambda self: not self.marks)
    @rule(data=st.data())
    def pod_gone(self, data: st.DataObject) -> None:
        if self.state.pods:
            self.state.drop_pod(data.draw(st.sampled_from(sorted(self.state.pods))))

    @precondition(lambda self: not self.marks)
    @rule()
    def forget_views(self) -> None:
        """The next question fills a view with nodes that are known already."""
        self.state.fleets[CHIP].drop_views(())

    # -- decisions -------------------------------------------------------------------------

    @rule(request=st.sampled_from([1, 2, 3, 4, 8, 16]), rated=st.booleans())
    def place(self, request: int, rated: bool) -> None:
        self.state.settle()
        found = self.view.best(request, untainted, emptier if rated else None)
        if found is None:
            return
        node = found[0]
        fleet = self.state.fleets[CHIP]
        chips = self.rule_.chips(fleet.usable(node, self.withholds), request, self.multi_pod)
        assert len(chips) == len(set(chips)) == request
        self.serial += 1
        pod = Pod(
            f"p{self.serial}",
            "x",
            f"p{self.serial}",
            pod_class(request, cpu_milli=10),
        )
        if self.marks:
            return
        self.state.put_pod(pod)
        self.state.place(pod.uid, node, mask_of(chips))

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        holding = sorted(uid for uid, placement in self.state.pods.items() if placement.node >= 0)
        if holding:
            self.state.release(data.draw(st.sampled_from(holding)))

    @rule(data=st.data())
    def place_waiting(self, data: st.DataObject) -> None:
        """Give a pod that let go a place again: decisions inside a transaction."""
        waiting = sorted(
            uid
            for uid, placement in self.state.pods.items()
            if placement.node < 0 and placement.pod.cls.chips
        )
        if not waiting:
            return
        uid = data.draw(st.sampled_from(waiting))
        request = self.state.pods[uid].pod.cls.chips
        self.state.settle()
        found = self.view.best(request, untainted)
        if found is not None:
            usable = self.state.fleets[CHIP].usable(found[0], self.withholds)
            self.state.place(uid, found[0], mask_of(self.rule_.chips(usable, request, self.multi_pod)))

    @precondition(lambda self: len(self.marks) < 3)
    @rule()
    def checkpoint(self) -> None:
        self.state.settle()
        assert self.view is not None
        before = fingerprint(self.state)
        self.marks.append((self.state.checkpoint(), before))

    @precondition(lambda self: self.marks)
    @rule()
    def rollback(self) -> None:
        mark, before = self.marks.pop()
        self.state.rollback(mark)
        assert fingerprint(self.state) == before

    @precondition(lambda self: self.marks)
    @rule()
    def commit(self) -> None:
        mark, _ = self.marks.pop()
        self.state.commit(mark)

    # -- what must always hold -----------------------------------------------------------------

    @invariant()
    def index_equals_scan(self) -> None:
        if not hasattr(self, "state"):
            return
        self.state.settle()
        for request in (1, 2, 4, 8, 16):
            for rate in (None, emptier):
                assert self.view.best(request, untainted, rate) == self.scan(request, rate is not None)

    def scan(self, request: int, rated: bool) -> tuple[int, int] | None:
        """The rule asked about every node, the slow and obvious way."""
        state = self.state
        fleet = state.fleets[CHIP]
        found: list[tuple[tuple[float, float, object], int, int]] = []
        for number, node in enumerate(state.nodes):
            if node is None or not node.ready or node.taints or fleet.allocatable[number] < 0:
                continue
            held = 0
            requested = 0
            unknown = False
            pods = 0
            for placement in state.pods.values():
                if placement.node == number:
                    pods += 1
                    if placement.pod.cls.chips:
                        requested += placement.pod.cls.chips
                        held |= placement.chips
                        unknown |= placement.chips.bit_count() < placement.pod.cls.chips
            report = state.report_of(node.name, CHIP)
            bad = 0 if report is None else report.unhealthy | report.recovering
            listed = mask_of(device.chip for device in node.devices or ())
            # What a transaction released is free in it, although the report still lists it as used.
            reported = 0 if report is None else report.free | fleet.supposed_free[number]
            base = listed if state.self_maintain or report is None else reported
            free = base & ~held & ~bad
            if unknown or free.bit_count() > node.chips_allocatable[CHIP] - requested:
                continue
            if self.withholds and report is not None:
                if report.network_unhealthy is None:
                    continue
                free &= ~report.network_unhealthy
            faulty = 0 if report is None else report.unhealthy.bit_count()
            signature = self.rule_.signature(free, node.chips_allocatable[CHIP], faulty)
            score = self.rule_.score(signature, request, self.multi_pod)
            if score is not None:
                found.append(((-score, pods if rated else 0, natural_key(node.name)), number, score))
        if not found:
            return None
        _, number, score = min(found)
        return number, score

    @invariant()
    def no_chip_twice(self) -> None:
        if not hasattr(self, "state"):
            return
        assert double_claims(self.state) == []
        held: dict[int, int] = {}
        for placement in self.state.pods.values():
            if placement.node >= 0:
                assert not held.get(placement.node, 0) & placement.chips
                held[placement.node] = held.get(placement.node, 0) | placement.chips
        fleet = self.state.fleets[CHIP]
        for number in range(len(self.state.names)):
            assert fleet.held[number] == held.get(number, 0)


def test_a_new_view_reads_what_is_known_of_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """To compute it again for all nodes made the first cycle of a large cluster slow."""
    state, board = ClusterState(), BOARDS[0]
    for name in NAMES:
        devices = tuple(Device(chip) for chip in range(8))
        state.put_node(Node(name, cpu_milli=2000, chips_allocatable={CHIP: 8}, devices=devices))
    state.settle()
    refreshed: list[int] = []
    monkeypatch.setattr(Fleet, "refresh", lambda self, node, name, shape: refreshed.append(node))
    view = state.view(CHIP, board.name, chip_rule(board), False, False)
    found = view.best(8, untainted)
    assert found is not None
    assert state.names[found[0]] == "a"
    assert refreshed == []


TestStateMachine = StateMachine.TestCase
TestStateMachine.settings = settings(max_examples=examples(40), stateful_step_count=40, deadline=None)

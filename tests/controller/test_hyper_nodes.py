"""HyperNodes made from labels of nodes follow them, keep their names, and leave those of others alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.controller.hyper_nodes import LONGEST_RETRY
from ringwise.controller.job_record import RETRY_AFTER
from ringwise.controller.machine import Controller
from ringwise.messages.commands import Command, DeleteHyperNode, PutHyperNode, RecordHyperNodeEvent
from ringwise.messages.events import (
    Event,
    HyperNodeGone,
    HyperNodeSeen,
    NodeGone,
    NodeSeen,
    TopologyDiscoverySeen,
)
from ringwise.state.model import HyperNode, HyperNodeMember, Node
from ringwise.state.topology_discovery import NO_DISCOVERY, TopologyDiscovery, TopologyType
from tests.builders.values import seen
from tests.controller.turns import settle
from tests.examples import examples

TOR, HYPER, CLUSTER = "volcano.sh/tor", "volcano.sh/hypernode", "volcano.sh/hypercluster"
SOURCE, MARK = "volcano.sh/network-topology-source", "ringwise.io/topology-type"
A2 = TopologyType("A2", (TOR,))
A3 = TopologyType("A3", (HYPER, CLUSTER))
DNS = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

Tree = dict[tuple[str, int, str], frozenset[str]]


def discovery(*types: TopologyType, skipped: tuple[str, ...] = ()) -> TopologyDiscovery:
    return TopologyDiscovery(True, types, skipped)


class World:
    """Nodes and HyperNodes, and a controller that changes these."""

    def __init__(
        self,
        *types: TopologyType,
        objects: Iterable[HyperNode] = (),
        nodes: Mapping[str, dict[str, str]] | None = None,
    ) -> None:
        self.nodes: dict[str, dict[str, str]] = dict(nodes or {})
        self.objects = {one.name: one for one in objects}
        self.setting = discovery(*types)
        self.now = 0
        self.told: list[RecordHyperNodeEvent] = []
        self.writes = 0
        self.restart()

    def restart(self) -> None:
        self.controller = Controller()
        seen: list[Event] = [NodeSeen(Node(name, labels=labels)) for name, labels in self.nodes.items()]
        seen += map(HyperNodeSeen, self.objects.values())
        self.turn(TopologyDiscoverySeen(self.setting), *seen)

    def configure(self, setting: TopologyDiscovery) -> None:
        self.setting = setting
        self.turn(TopologyDiscoverySeen(setting))

    def turn(self, *events: Event) -> None:
        settle(self.controller, self.now, events, self.done)

    def done(self, command: Command) -> list[Event]:
        if isinstance(command, RecordHyperNodeEvent):
            self.told.append(command)
            return []
        self.writes += 1
        if isinstance(command, DeleteHyperNode):
            assert MARK in self.objects.pop(command.name).labels
            return [HyperNodeGone(command.name)]
        assert isinstance(command, PutHyperNode), command
        wanted = command.hyper_node
        before = self.objects.get(wanted.name, HyperNode(wanted.name, 0, labels={MARK: ""}))
        assert MARK in before.labels
        count = before.node_count
        self.objects[wanted.name] = replace(
            wanted, labels={**before.labels, **wanted.labels}, node_count=count
        )
        return [HyperNodeSeen(self.objects[wanted.name])]

    def label(self, node: str, **labels: str) -> None:
        self.set(node, {f"volcano.sh/{key}": value for key, value in labels.items()})

    def set(self, node: str, labels: dict[str, str] | None) -> None:
        if labels is None:
            self.nodes.pop(node, None)
            self.turn(NodeGone(node))
        else:
            self.nodes[node] = labels
            self.turn(NodeSeen(Node(node, labels=labels)))

    def change(self, name: str, changed: HyperNode | None) -> None:
        """Somebody else changes or deletes an object."""
        if changed is None:
            del self.objects[name]
            self.turn(HyperNodeGone(name))
        else:
            self.objects[name] = changed
            self.turn(HyperNodeSeen(changed))

    @property
    def ours(self) -> dict[str, HyperNode]:
        return {name: one for name, one in self.objects.items() if MARK in one.labels}

    def tree(self) -> Tree:
        """Domains with their members, those of higher tiers by the value of the domain below."""
        value_of = {name: one.labels[one.tier_name] for name, one in self.ours.items()}
        found: Tree = {}
        for one in self.ours.values():
            key = (one.labels[MARK], one.tier, one.labels[one.tier_name])
            assert key not in found
            assert all(member.hyper_node == (one.tier > 1) for member in one.members)
            names = [value_of[member.name] if member.hyper_node else member.name for member in one.members]
            found[key] = frozenset(names)
            assert len(found[key]) == len(names)
        return found

    def names(self) -> dict[tuple[str, int, str], str]:
        return {
            (one.labels[MARK], one.tier, one.labels[one.tier_name]): name for name, one in self.ours.items()
        }

    def name_of(self, value: str) -> str:
        (name,) = (name for key, name in self.names().items() if key[2] == value)
        return name


def expected(nodes: Mapping[str, Mapping[str, str]], *types: TopologyType) -> Tree:
    """The same by the rule alone."""
    found: dict[tuple[str, int, str], set[str]] = {}
    for name, labels in nodes.items():
        for kind in types:
            member = name
            for tier, key in enumerate(kind.labels, 1):
                if key not in labels:
                    break
                found.setdefault((kind.name, tier, labels[key]), set()).add(member)
                member = labels[key]
    return {key: frozenset(members) for key, members in found.items()}


def foreign(name: str, *nodes: str, **labels: str) -> HyperNode:
    """As Volcano's controller makes it."""
    members = tuple(HyperNodeMember(name=node) for node in nodes)
    marks = {SOURCE: "label", **{f"volcano.sh/{key}": value for key, value in labels.items()}}
    return HyperNode(name, 1, members, tier_name=TOR, labels=marks)


def test_a_hyper_node_is_made_changed_and_deleted_with_the_labels_of_its_nodes() -> None:
    world = World(A2)
    world.label("n0", tor="rack-a")
    world.label("n1", tor="rack-a")
    (name,) = world.objects
    assert re.fullmatch(r"hypernode-a2-tier1-[a-z0-9]{8}", name)
    assert world.objects[name] == HyperNode(
        name,
        1,
        (HyperNodeMember(name="n0"), HyperNodeMember(name="n1")),
        tier_name=TOR,
        labels={TOR: "rack-a", SOURCE: "label", MARK: "A2"},
    )
    world.label("n1", tor="rack-b")
    assert world.tree() == {("A2", 1, "rack-a"): {"n0"}, ("A2", 1, "rack-b"): {"n1"}}
    assert world.name_of("rack-a") == name
    world.label("n0")
    world.set("n1", None)
    assert world.objects == {}


def test_higher_tiers_name_the_hyper_nodes_below_and_end_at_the_first_label_that_is_missing() -> None:
    world = World(A3)
    world.label("n0", hypernode="h0", hypercluster="c0")
    world.label("n1", hypernode="h1", hypercluster="c0")
    world.label("n2", hypernode="h2")
    world.label("n3", hypercluster="c0")
    assert world.tree() == {
        ("A3", 1, "h0"): {"n0"},
        ("A3", 1, "h1"): {"n1"},
        ("A3", 1, "h2"): {"n2"},
        ("A3", 2, "c0"): {"h0", "h1"},
    }
    top = world.objects[world.name_of("c0")]
    assert [member.name for member in top.members] == sorted(map(world.name_of, ("h0", "h1")))
    assert (top.tier_name, top.labels[CLUSTER]) == (CLUSTER, "c0")


def test_status_and_what_others_wrote_into_a_hyper_node_stay() -> None:
    world = World(A2)
    world.label("n0", tor="r")
    (name,) = world.objects
    mine = world.objects[name]
    world.change(name, replace(mine, labels={**mine.labels, "team": "x"}, node_count=1))
    world.label("n1", tor="r")
    assert world.objects[name].node_count == 1
    assert world.objects[name].labels["team"] == "x"
    assert len(world.objects[name].members) == 2


def test_what_others_change_or_delete_of_ours_is_put_right() -> None:
    world = World(A3)
    world.label("n0", hypernode="h0", hypercluster="c0")
    before = dict(world.objects)
    name = world.name_of("h0")
    world.change(name, replace(world.objects[name], tier=7, members=()))
    assert world.objects == before
    world.change(name, None)
    assert world.objects == before
    # The order of members, in which Volcano's controller could write it, is not worth a request.
    writes = world.writes
    world.label("n1", hypernode="h1", hypercluster="c0")
    top = world.objects[world.name_of("c0")]
    writes = world.writes
    world.change(top.name, replace(top, members=top.members[::-1]))
    assert world.writes == writes


def test_after_a_restart_nothing_is_written_and_names_stay() -> None:
    world = World(A2, A3)
    for number in range(6):
        world.label(f"n{number}", tor=f"t{number % 2}")
        world.label(f"m{number}", hypernode=f"h{number % 3}", hypercluster="c")
    before, writes = dict(world.objects), world.writes
    world.restart()
    assert (world.objects, world.writes) == (before, writes)
    # What changed in between is made up for.
    world.nodes["m0"] = {HYPER: "new"}
    del world.nodes["n0"]
    world.restart()
    assert world.tree() == expected(world.nodes, A2, A3)


def test_without_the_setting_nothing_is_made_changed_or_deleted() -> None:
    world = World(A2)
    world.label("n0", tor="r")
    before = dict(world.objects)
    world.configure(NO_DISCOVERY)
    world.label("n0", tor="other")
    assert world.objects == before
    world.restart()
    assert world.objects == before
    assert world.controller.next_deadline() is None
    world.configure(discovery(A2))
    assert world.tree() == {("A2", 1, "other"): {"n0"}}


def test_hyper_nodes_of_a_type_that_is_gone_are_deleted_and_of_one_that_is_left_out_stay() -> None:
    world = World(A2, A3)
    world.label("n0", tor="r")
    world.label("m0", hypernode="h", hypercluster="c")
    world.configure(discovery(A3, skipped=("A2",)))
    world.label("n0", tor="moved")
    assert world.tree() == {("A2", 1, "r"): {"n0"}, **expected({"m0": world.nodes["m0"]}, A3)}
    world.configure(discovery(A3))
    assert {key[0] for key in world.tree()} == {"A3"}


def test_a_label_in_another_tier_makes_a_hyper_node_of_another_name() -> None:
    world = World(A3)
    world.label("n0", hypernode="h", hypercluster="c")
    world.configure(discovery(TopologyType("A3", (CLUSTER, HYPER))))
    assert world.tree() == {("A3", 1, "c"): {"n0"}, ("A3", 2, "h"): {"c"}}
    assert world.name_of("h").startswith("hypernode-a3-tier2-")


def test_hyper_nodes_of_others_are_not_touched_and_no_second_one_is_made_beside_them() -> None:
    theirs = foreign("hypernode-a2-tier1-x7k2p", "gone", tor="r")
    by_hand = HyperNode("rack-7", 1, (HyperNodeMember(name="n0"),))
    world = World(A2, A3, objects=[theirs, by_hand])
    world.label("n0", tor="r")
    world.label("m0", hypernode="h")
    assert world.objects[theirs.name] is theirs
    assert world.objects[by_hand.name] is by_hand
    assert world.tree() == {("A3", 1, "h"): {"m0"}}
    (told,) = world.told
    assert (told.name, told.warning) == (theirs.name, True)
    assert "1 HyperNode of topology type A2" in told.message
    assert "ringwise.io/topology-type=A2" in told.message
    # Deleted: now it is ours to make.
    world.change(theirs.name, None)
    assert world.tree() == expected(world.nodes, A2, A3)


def test_a_hyper_node_of_volcano_with_our_label_is_taken_over_under_its_name() -> None:
    theirs = foreign("hypernode-a2-tier1-x7k2p", "gone", tor="r")
    world = World(A2, objects=[replace(theirs, node_count=1)])
    world.label("n0", tor="r")
    world.change(theirs.name, replace(theirs, labels={**theirs.labels, MARK: "A2"}, node_count=1))
    assert list(world.objects) == [theirs.name]
    assert world.tree() == {("A2", 1, "r"): {"n0"}}
    assert world.objects[theirs.name].node_count == 1


def test_of_two_for_one_domain_the_first_by_name_stays() -> None:
    labels = {TOR: "r", SOURCE: "label", MARK: "A2"}
    twins = [HyperNode(f"hypernode-a2-tier1-{end}", 1, labels=labels) for end in ("bbbbb", "aaaaa")]
    world = World(A2, objects=twins, nodes={"n0": {TOR: "r"}})
    assert list(world.objects) == ["hypernode-a2-tier1-aaaaa"]


def test_a_name_that_another_object_has_is_not_used() -> None:
    first = World(A3)
    first.label("n0", hypernode="h", hypercluster="c")
    name = first.name_of("h")
    taken = HyperNode(name, 5)
    world = World(A3, objects=[taken])
    world.label("n0", hypernode="h", hypercluster="c")
    assert world.objects[name] is taken
    assert world.name_of("h") != name
    assert world.tree() == expected(world.nodes, A3)
    # Also where it comes while ours is being made.
    late = Controller()
    setting = TopologyDiscoverySeen(discovery(A3))
    late.handle(seen(setting, Node("n0", labels=world.nodes["n0"])), 0)
    commands = late.handle(seen(taken), 0)
    names = {one.hyper_node.name for one in commands if isinstance(one, PutHyperNode)}
    assert name not in names
    assert len(names) == 1


@pytest.mark.parametrize("kind", ["A3", "a", "A.3", "a..b", "a.-b", "X_Y.z", "0-_-9", "a" * 20])
@pytest.mark.parametrize("value", ["", "UPPER", "a.b_c-D", "x" * 63, "9"])
def test_every_type_and_value_makes_a_dns_name(kind: str, value: str) -> None:
    world = World(TopologyType(kind, (TOR,)))
    world.set("n0", {TOR: value})
    world.set("n1", {TOR: value.swapcase() if value.swapcase() != value else "else"})
    assert len(world.objects) == 2
    for one in world.objects.values():
        assert DNS.fullmatch(one.name), one.name
        assert len(one.name) <= 63


def test_one_request_for_an_object_is_out_at_a_time_and_one_without_effect_is_repeated() -> None:
    controller = Controller()
    setting = TopologyDiscoverySeen(discovery(A2))
    (first,) = controller.handle(seen(setting, Node("n0", labels={TOR: "r"})), 0)
    assert isinstance(first, PutHyperNode)
    assert controller.handle(seen(Node("n1", labels={TOR: "r"})), 1) == []
    # It is seen: now the node that came meanwhile is added.
    (second,) = controller.handle(seen(first.hyper_node), 2)
    assert isinstance(second, PutHyperNode)
    assert [member.name for member in second.hyper_node.members] == ["n0", "n1"]
    waits, now = [], 2
    for _ in range(8):
        due = controller.next_deadline()
        assert due is not None
        waits.append(due - now)
        now = due
        assert controller.handle([], now) == [second]
    assert waits[:2] == [RETRY_AFTER, 2 * RETRY_AFTER]
    assert waits[-1] == LONGEST_RETRY
    # Nobody wants it any more: then nothing is due.
    controller.handle([NodeGone("n0"), NodeGone("n1")], now + LONGEST_RETRY)
    controller.handle([HyperNodeGone(first.hyper_node.name)], now + LONGEST_RETRY)
    assert controller.next_deadline() is None


def test_a_deletion_without_effect_is_repeated() -> None:
    """Of a HyperNode without nodes, and of the second one of a domain."""
    labels = {TOR: "r", SOURCE: "label", MARK: "A2"}
    kept, second = (HyperNode(f"hypernode-a2-tier1-{end}", 1, labels=labels) for end in ("aaaaa", "bbbbb"))
    members = (HyperNodeMember(name="n0"),)
    empty = replace(kept, members=(), labels={**labels, TOR: "s"}, name="hypernode-a2-tier1-ccccc")
    node, setting = Node("n0", labels={TOR: "r"}), TopologyDiscoverySeen(discovery(A2))
    controller = Controller()
    kept = replace(kept, members=members, tier_name=TOR)
    deletions = [DeleteHyperNode(second.name), DeleteHyperNode(empty.name)]
    assert controller.handle(seen(setting, node, kept, second, empty), 0) == deletions
    assert controller.handle([], RETRY_AFTER - 1) == []
    assert controller.handle([], RETRY_AFTER) == deletions


def test_one_that_loses_our_label_while_it_is_deleted_is_another_s_from_then_on() -> None:
    controller = Controller()
    setting = TopologyDiscoverySeen(discovery(A2))
    ours = HyperNode("hypernode-a2-tier1-aaaaa", 1, labels={TOR: "r", SOURCE: "label", MARK: "A2"})
    assert controller.handle(seen(setting, ours), 0) == [DeleteHyperNode(ours.name)]
    controller.handle(seen(replace(ours, labels={})), 1)
    assert controller.handle([], RETRY_AFTER) == []
    assert controller.next_deadline() is None


_VALUES = st.sampled_from(["a", "b", "A", ""])
_LABELS = st.fixed_dictionaries({}, optional={TOR: _VALUES, HYPER: _VALUES, CLUSTER: _VALUES})
_STEPS = st.lists(
    st.tuples(st.sampled_from([f"n{number}" for number in range(5)]), st.none() | _LABELS, st.booleans()),
    max_size=12,
)


@given(_STEPS)
@settings(max_examples=examples(25))
def test_whatever_labels_change_the_objects_are_those_of_the_rule_and_names_stay(
    steps: list[tuple[str, dict[str, str] | None, bool]],
) -> None:
    world = World(A2, A3)
    for node, labels, restarts in steps:
        before = world.names()
        world.set(node, labels)
        if restarts:
            writes = world.writes
            world.restart()
            assert world.writes == writes
        tree = world.tree()
        assert tree == expected(world.nodes, A2, A3)
        assert {key: name for key, name in before.items() if key in tree}.items() <= world.names().items()


def test_five_thousand_nodes_whose_labels_change_cost_what_changed() -> None:
    world = World(A3)
    nodes = {f"n{number}": {HYPER: f"h{number // 8}", CLUSTER: f"c{number // 64}"} for number in range(5000)}
    world.nodes = nodes
    world.restart()
    assert len(world.objects) == 625 + 79
    writes = world.writes
    for number in range(200):
        world.set(f"n{number}", {**nodes[f"n{number}"], HYPER: "moved", CLUSTER: "c0"})
    # Each moves between two HyperNodes of tier 1; of the others only those that lost their last node change.
    assert world.writes - writes < 200 * 3 + 60
    assert world.tree() == expected(world.nodes, A3)

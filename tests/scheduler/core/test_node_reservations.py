"""Nodes that are reserved for a queue or a namespace: who starts there, and when it is over."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from ringwise.apps.extensions import new_scheduler
from ringwise.durations import go_duration
from ringwise.messages import events as ev
from ringwise.messages.commands import SetConditions
from ringwise.scheduler.core.node_reservations import MAX_RESERVATIONS, NodeReservationEvents
from ringwise.scheduler.explain.doctor import diagnose
from ringwise.scheduler.explain.forecast import estimates
from ringwise.scheduler.explain.reserving import nodes_free_soonest
from ringwise.scheduler.explain.why import explain
from ringwise.scheduler.node_states import chip_counts
from ringwise.state.index import View
from ringwise.state.limits import UsageLimit
from ringwise.state.model import Isolation, NodeReservation, Queue
from ringwise.state.node_labels import members_of
from ringwise.state.node_windows import NodeWindow, WindowSets
from tests.builders.values import CHIP, SECOND, isolated
from tests.examples import examples
from tests.scheduler.rig import Rig, configuration

#: The rig begins at 1000 s.
BEGIN = 1000


def reservation(
    name: str = "r", nodes: tuple[str, ...] = ("n1",), start: int = 100, end: int = 200, **holder: str
) -> NodeReservation:
    """Times are seconds after the beginning."""
    times = ((BEGIN + start) * SECOND, (BEGIN + end) * SECOND)
    queue, namespace = holder.get("queue", ""), holder.get("namespace", "")
    return NodeReservation(name, nodes, *times, queue or ("" if namespace else "research"), namespace)


def reserved(*entries: NodeReservation, nodes: int = 1, **settings: Any) -> Rig:
    rig = Rig(nodes, **settings)
    rig.queue("research")
    for one in entries:
        rig.tell(one)
    rig.step()
    return rig


@pytest.mark.parametrize("seed", range(examples(80)))
def test_a_window_withholds_a_node_while_a_job_of_others_would_be_on_it(seed: int) -> None:
    """Each node counts once, with the drain if there is one."""
    rng = random.Random(seed)
    kept = [
        reservation(f"r{at}", start=start, end=start + rng.randint(1, 4), **rng.choice(HOLDERS))
        for at, start in enumerate(rng.choices(range(8), k=3))
    ]
    windows: list[NodeWindow] = [*kept, *(Isolation("n1", start=(BEGIN + at) * SECOND) for at in (3, 6))]
    of_node = {node: tuple(one for one in windows if rng.random() < 0.4) for node in range(12)}
    sets = WindowSets(of_node)
    for now, lasts in product(range(9), (None, 0, 1, 3)):
        begin = (BEGIN + now) * SECOND
        ends = None if lasts is None else begin + lasts * SECOND
        until = begin + 100 * SECOND if ends is None else max(ends, begin + 1)
        drained, reserved_nodes = set[int](), set[int]()
        for node, of_it in of_node.items():
            for one in of_it:
                over = one.end if isinstance(one, NodeReservation) else until
                if (one.start or 0) < until and begin < over and not one.admits("research", "team"):
                    (reserved_nodes if isinstance(one, NodeReservation) else drained).add(node)
        expected = [(False, drained), (True, reserved_nodes - drained)]
        found = sets.withheld("research", "team", begin, ends)
        assert [(part.is_reservation, set(members_of(part.nodes))) for part in found] == [
            part for part in expected if part[1]
        ]


HOLDERS: list[dict[str, Any]] = [{"queue": "research"}, {"queue": "other"}, {"namespace": "team"}]
STARTS = {
    "it ends before": (0, "100s", "default", True),
    "it ends a second later": (0, "101s", "default", False),
    "it does not say": (0, "", "default", False),
    "of the queue": (0, "", "research", True),
    "in it, and short": (150, "1s", "default", False),
    "in it, of the queue": (150, "", "research", True),
    "just before it is over": (199, "1s", "default", False),
    "when it is over": (200, "", "default", True),
}


@pytest.mark.parametrize("case", STARTS)
def test_who_starts_on_a_reserved_node(case: str) -> None:
    at, expected, queue, starts = STARTS[case]
    rig = reserved(reservation())
    rig.step(at)
    rig.submit("job", chips=8, expected=expected, queue=queue)
    rig.run()
    assert rig.nodes_of("job") == (["n1"] if starts else [])


def test_a_namespace_has_it_whatever_the_queue_of_its_jobs() -> None:
    rig = reserved(reservation("r", namespace="default"), reservation("s", ("n2",), namespace="x"), nodes=2)
    rig.submit("job", chips=8)
    rig.submit("other", chips=8)
    rig.run()
    assert (rig.nodes_of("job"), rig.nodes_of("other")) == (["n1"], [])


def test_reservations_of_the_same_time_are_each_for_their_own_queue() -> None:
    rig = reserved(reservation("r"), reservation("s", ("n2",), queue="other"), nodes=2)
    rig.queue("other")
    rig.submit("first", chips=8, queue="research")
    rig.submit("second", chips=8, queue="other")
    rig.run()
    assert (rig.nodes_of("first"), rig.nodes_of("second")) == (["n1"], ["n2"])


def test_without_keep_off_a_job_that_says_nothing_starts_before_it() -> None:
    rig = reserved(reservation(), reserved_nodes_require_duration=False)
    rig.submit("job", chips=4)
    rig.run()
    rig.step(100)
    rig.submit("late", chips=4)
    rig.run()
    assert (rig.nodes_of("job"), rig.nodes_of("late")) == (["n1"], [])


@pytest.mark.parametrize(("longest", "starts"), [("20m", True), ("21m", False)])
@pytest.mark.parametrize("expected", ["", "5h"])
def test_no_job_runs_longer_than_its_queue_allows(longest: str, starts: bool, expected: str) -> None:
    rig = reserved(reservation(start=1200, end=2000))
    rig.tell(Queue("short", created=1), UsageLimit("short", queue="short", max_run_time=go_duration(longest)))
    rig.submit("job", chips=8, queue="short", expected=expected)
    rig.run()
    assert rig.nodes_of("job") == (["n1"] if starts else [])
    if not starts:
        answer = explain(rig.machine.view, rig.machine.view.jobs["default/job"], rig.now)
        assert "the job runs at most 21m" in answer.misses[0].reason.message


def test_who_runs_there_when_it_begins_stays() -> None:
    rig = Rig(1)
    rig.submit("job", chips=4)
    rig.run()
    rig.tell(reservation())
    for _ in range(3):
        rig.step(100)
    assert rig.nodes_of("job") == ["n1"]
    assert rig.evictions() == []


def test_it_is_over_by_itself_and_jobs_that_waited_start() -> None:
    rig = reserved(reservation())
    rig.submit("job", chips=8)
    rig.run()
    assert rig.machine.view.cluster.node_reservations.entries
    assert (deadline := rig.machine.next_deadline()) is not None
    assert deadline <= (BEGIN + 200) * SECOND
    rig.step(200)
    rig.run()
    assert rig.nodes_of("job") == ["n1"]
    assert rig.machine.view.cluster.node_reservations.entries == ()


def test_an_entry_that_is_over_and_seen_again_counts_for_nothing() -> None:
    rig = reserved(reservation())
    rig.step(200)
    rig.tell(reservation())
    rig.submit("job", chips=8)
    rig.run()
    assert rig.nodes_of("job") == ["n1"]


def test_a_drain_and_a_reservation_of_one_node_both_count() -> None:
    rig = reserved(reservation(start=50, end=60))
    drain = Isolation("n1", start=(BEGIN + 100) * SECOND)
    rig.tell(isolated(drain))
    for name, expected, at, queue in (
        ("short", "50s", 0, "default"),
        ("middle", "60s", 0, "default"),
        ("holder", "100s", 0, "research"),
        ("beyond", "101s", 0, "research"),
        ("after", "40s", 60, "default"),
    ):
        rig.step(at)
        rig.submit(name, chips=1, expected=expected, queue=queue)
        rig.run()
    started = [name for name in ("short", "middle", "holder", "beyond", "after") if rig.nodes_of(name)]
    assert started == ["short", "holder", "after"]


def test_free_chips_of_a_node_that_is_reserved_now_count_as_reserved() -> None:
    rig = reserved(reservation(), nodes=2)
    view = rig.machine.view
    assert (
        chip_counts(view.cluster, rig.now)[CHIP] | {"free": 16, "reserved": 0}
        == chip_counts(view.cluster, rig.now)[CHIP]
    )
    rig.step(100)
    counts = chip_counts(view.cluster, rig.now)[CHIP]
    assert (counts["free"], counts["reserved"], counts["unschedulable"]) == (8, 8, 0)


def test_why_names_the_reservation_with_fixes_that_were_tried() -> None:
    rig = reserved(reservation(start=600, end=1200))
    rig.submit("job", chips=8, expected="1h")
    rig.run()
    answer = explain(rig.machine.view, rig.machine.view.jobs["default/job"], rig.now)
    assert answer.reason is not None
    assert "node-reserved 1" in answer.reason.message
    assert [fix.text for fix in answer.fixes if fix.kind in ("duration", "unreserved")] == [
        "set ringwise.io/expected-duration to 10m or less",
        "delete reservation r (`ringwise unreserve r`)",
    ]
    # The state is as before.
    assert rig.machine.view.cluster.node_reservations.entries
    rig.step(1)
    assert rig.nodes_of("job") == []


def test_no_fix_is_offered_that_does_not_help() -> None:
    rig = reserved(reservation(start=600, end=1200))
    rig.submit("holder", chips=8, queue="research")
    rig.run()
    rig.submit("job", chips=8, expected="1h")
    rig.run()
    answer = explain(rig.machine.view, rig.machine.view.jobs["default/job"], rig.now)
    assert not [fix for fix in answer.fixes if fix.kind in ("duration", "unreserved")]


def test_a_job_that_waits_for_the_end_of_a_reservation_knows_when_it_starts() -> None:
    rig = reserved(reservation(start=0, end=200))
    rig.submit("job", chips=8, expected="1h")
    rig.submit("next", chips=8, expected="1h")
    rig.run()
    found = estimates(rig.machine.view, rig.now)
    first, second = found["default/job"], found["default/next"]
    assert (first.earliest, first.latest) == ((BEGIN + 200) * SECOND,) * 2
    assert first.after == ("reservation r",)
    assert second.latest == (BEGIN + 3800) * SECOND


def test_the_forecast_knows_that_shorter_jobs_start_before_a_reservation() -> None:
    """Jobs that differ in their duration alone are not alike where nodes are kept free."""
    rig = reserved(reservation(start=100, end=500))
    rig.submit("now", chips=8, expected="10s")
    rig.run()
    rig.submit("long", chips=8, expected="1h")
    rig.submit("short", chips=8, expected="20s")
    rig.run()
    found = estimates(rig.machine.view, rig.now)
    assert found["default/short"].latest == (BEGIN + 10) * SECOND
    assert found["default/long"].latest == (BEGIN + 500) * SECOND


def test_another_scheduler_that_is_told_the_same_knows_it() -> None:
    rig = reserved(reservation())
    again = new_scheduler(configuration())
    again.handle(rig.machine.view.what_if.current_events(), rig.now)
    assert again.view.cluster.node_reservations == rig.machine.view.cluster.node_reservations


def test_jobs_of_others_are_not_tried_on_each_reserved_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that is hidden from one job is hidden again from the next: of thousands that takes seconds."""
    hidden: list[int] = []
    suspend = View.suspend

    def counted(view: View, node: int) -> None:
        hidden.append(node)
        suspend(view, node)

    monkeypatch.setattr(View, "suspend", counted)
    names = tuple(f"n{number}" for number in range(1, 41))
    rig = reserved(reservation("r", names, start=0, end=500), nodes=50)
    for number in range(20):
        rig.submit(f"j{number}", chips=8)
    rig.run()
    assert hidden == []
    assert sum(bool(rig.nodes_of(f"j{number}")) for number in range(20)) == 10
    reason = rig.machine.view.jobs["default/j19"].reason
    assert reason is not None
    assert reason.details["refusals"] == {"node-not-wholly-free": 10, "node-reserved": 40}


# -- which are accepted


def accepted_in(rig: Rig) -> dict[str, str]:
    """Reason of Accepted by name, of what is wanted now."""
    found = rig.machine._components.of(NodeReservationEvents)._conditions
    return {name: one.conditions[0].reason for name, one in found.items()}


JUDGED: dict[str, tuple[list[NodeReservation], dict[str, str]]] = {
    "of two that overlap the older": (
        [replace(reservation("a"), created=2), replace(reservation("b"), created=1)],
        {"a": "Overlaps", "b": "Accepted"},
    ),
    "the one that was accepted before comes first": (
        [replace(reservation("a"), created=1), replace(reservation("b"), created=2, accepted=True)],
        {"a": "Overlaps", "b": "Accepted"},
    ),
    "of the same age the first by name": (
        [reservation("r10"), reservation("r9")],
        {"r10": "Overlaps", "r9": "Accepted"},
    ),
    "one after the other": (
        [reservation("a", start=0, end=10), reservation("b", start=10, end=20)],
        {"a": "Accepted", "b": "Accepted"},
    ),
    "an unknown node": ([reservation("a", ("n1", "n7"))], {"a": "NodeNotFound"}),
    "a node that was deleted since": (
        [replace(reservation("a", ("n1", "n7")), accepted=True)],
        {"a": "Accepted"},
    ),
    "an unknown leaf switch": (
        [replace(reservation("a", ()), switch="10.0.0.9")],
        {"a": "LeafSwitchNotFound"},
    ),
    "an unknown SuperPoD": ([replace(reservation("a", ()), superpod=7)], {"a": "SuperPodNotFound"}),
    "over before it was created": (
        [replace(reservation("a"), created=(BEGIN + 300) * SECOND)],
        {"a": "EndInPast"},
    ),
    "one that is over takes no place": (
        [reservation("a", start=-20, end=-10), reservation("b", start=-20, end=10)],
        {"a": "Accepted", "b": "Accepted"},
    ),
    "too many": (
        [reservation(f"r{number}", start=number, end=number + 1) for number in range(MAX_RESERVATIONS + 1)],
        {f"r{number}": "Accepted" for number in range(MAX_RESERVATIONS)}
        | {f"r{MAX_RESERVATIONS}": "TooManyReservations"},
    ),
}


@pytest.mark.parametrize("case", JUDGED)
def test_which_reservations_are_accepted(case: str) -> None:
    known, expected = JUDGED[case]
    rig = reserved(*known, nodes=2)
    assert accepted_in(rig) == expected
    refused = {name for name, reason in expected.items() if reason != "Accepted"}
    assert set(rig.machine.view.cluster.node_reservations.problems) == refused


def test_the_next_one_is_accepted_when_the_first_goes() -> None:
    rig = reserved(reservation("a"), reservation("b", namespace="x"))
    rig.tell(ev.NodeReservationGone("a"))
    rig.step()
    assert accepted_in(rig) == {"b": "Accepted"}


def test_a_change_does_not_take_the_nodes_of_another() -> None:
    rig = reserved(reservation("a", ("n1",)), reservation("b", ("n2",)), nodes=2)
    rig.tell(replace(reservation("a", ("n1", "n2")), generation=2))
    rig.step()
    assert accepted_in(rig) == {"a": "Overlaps", "b": "Accepted"}


def test_selected_nodes_follow_the_nodes() -> None:
    rig = Rig(2)
    rig.tell(replace(reservation("rack", ()), selector=(("rack", "7"),)))
    rig.tell(replace(reservation("pod", (), start=500, end=600), superpod=3))
    rig.step()

    def nodes() -> dict[str, tuple[str, ...]]:
        return {one.name: one.nodes for one in rig.machine.view.cluster.node_reservations.entries}

    assert nodes() == {"rack": ()}
    rig.node("n2", labels={"rack": "7"})
    rig.node("n3", superpod=3)
    rig.step()
    assert nodes() == {"rack": ("n2",), "pod": ("n3",)}
    rig.node("n2", labels={})
    rig.step()
    assert nodes() == {"rack": (), "pod": ("n3",)}


def test_those_of_a_leaf_switch() -> None:
    rig = Rig()
    rig.switches(2, 2)
    rig.step()
    switch = rig.machine.view.switches()
    assert switch is not None
    rig.tell(replace(reservation("leaf", ()), switch=switch.topology.switches[1].ip))
    rig.step()
    (one,) = rig.machine.view.cluster.node_reservations.entries
    assert one.nodes == tuple(node.node for node in switch.nodes[1])


def statuses(commands: Sequence[object]) -> list[tuple[str, str, str]]:
    return [
        (one.name, one.conditions[0].reason, one.conditions[1].reason)
        for one in commands
        if isinstance(one, SetConditions)
    ]


def test_conditions_are_sent_when_they_change_and_every_ten_seconds_at_most() -> None:
    rig = Rig(1)
    rig.tell(reservation("a", start=5, end=200))
    assert statuses(rig.step()) == [("a", "Accepted", "NotStarted")]
    assert statuses(rig.step(1)) == []
    # It begins 5 s after the first write.
    assert statuses(rig.step(4)) == []
    assert rig.machine.next_deadline() == (BEGIN + 10) * SECOND
    assert statuses(rig.step(5)) == [("a", "Accepted", "Started")]
    assert statuses(rig.step(190)) == [("a", "Accepted", "Ended")]
    rig.tell(ev.NodeReservationGone("a"))
    assert statuses(rig.step(20)) == []


def test_the_last_known_stay_while_the_kind_is_not_served() -> None:
    rig = reserved(reservation("a"), reservation("b", ("n2",)), nodes=2)
    assert set(rig.entries("nodereservations")) == {"a", "b"}
    other = rig.successor()
    other.events = [one for one in other.events if not isinstance(one, ev.NodeReservationSeen)]
    other.events.insert(0, ev.KindServed("NodeReservation", False))
    other.step()
    view = other.machine.view
    assert [one.name for one in view.cluster.node_reservations.entries] == ["a", "b"]
    assert [(one.severity, one.code) for one in diagnose(view).findings if "served" in one.code] == [
        ("error", "kind-not-served")
    ]
    # The next leader, and a copy, know it, too.
    copied = new_scheduler()
    copied.handle(view.current_events(), other.now)
    assert len(copied.view.cluster.node_reservations.entries) == 2
    assert copied.view.cluster.not_served == {"NodeReservation"}
    other.tell(reservation("b", ("n2",)), ev.KindServed("NodeReservation", True))
    other.step()
    assert [one.name for one in view.cluster.node_reservations.entries] == ["b"]
    assert not any("served" in one.code for one in diagnose(view).findings)


def test_a_leader_that_is_told_all_of_them_forgets_the_record() -> None:
    rig = reserved(reservation("a"))
    other = rig.successor()
    other.events = [one for one in other.events if not isinstance(one, ev.NodeReservationSeen)]
    other.step()
    assert other.machine.view.cluster.node_reservations.entries == ()


@pytest.mark.parametrize(("drain", "chosen"), [(50, "n2"), (199, "n2"), (200, "n1"), (5000, "n1")])
def test_a_node_that_is_drained_before_the_end_is_not_chosen(drain: int, chosen: str) -> None:
    rig = Rig(2)
    rig.tell(isolated(Isolation("n1", reason="drain", start=rig.now + drain * SECOND)))
    rig.step()
    times = rig.now + 100 * SECOND, rig.now + 200 * SECOND
    assert nodes_free_soonest(rig.machine.view, rig.now, *times, 1) == (chosen,)

"""What a node and its chips are: every state by itself, and sums that close in every view."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ringwise.cli.printers.explain import print_capacity
from ringwise.messages.commands import Bind
from ringwise.scheduler.defaults import default_configuration
from ringwise.scheduler.explain.capacity import capacity
from ringwise.scheduler.node_states import (
    CHIP_STATES,
    READY,
    NodeState,
    chip_counts,
    chip_states,
    is_idle,
    is_open,
    node_states,
)
from ringwise.scheduler.view import SchedulerView
from ringwise.state.changes import Changes
from ringwise.state.model import (
    Isolation,
    NodeReport,
    NodeReservation,
    Taint,
)
from ringwise.views.cluster import ClusterObjects, chip_totals, node_documents
from ringwise.views.dashboard import DashboardRows
from ringwise.views.dashboard_nodes import cluster_totals
from ringwise.views.explain import capacity_document
from ringwise.wellknown import EXPECTED_DURATION
from tests.builders.values import CHIP, SECOND, isolated, node, pod, report, seen
from tests.scheduler.rig import NOW, scheduler_told, told


def reserved(start: int, end: int = NOW + 9 * SECOND) -> NodeReservation:
    return NodeReservation("r", ("n1",), start, end, queue="research")


def states(view: SchedulerView, now: int = NOW) -> list[str]:
    return [one.state.value for one in node_states(view.cluster, view.cluster.node_id["n1"], now)]


CASES: dict[str, tuple[list[object], list[str], bool]] = {
    "a reported node": ([node("n1"), report("n1", range(8))], ["ready"], True),
    "not ready": ([node("n1", ready=False)], ["not ready"], False),
    "cordoned": ([node("n1", unschedulable=True)], ["cordoned"], False),
    "cordoned and not ready": (
        [node("n1", ready=False, unschedulable=True)],
        ["not ready", "cordoned"],
        False,
    ),
    "a condition": (
        [node("n1", taints=(Taint("node.kubernetes.io/disk-pressure"),))],
        ["unhealthy"],
        False,
    ),
    "dedicated": ([node("n1", taints=(Taint("tenant", "blue"),))], ["ready"], True),
    "NodeD says so": (
        [node("n1"), NodeReport("n1", "node", "UnHealthy")],
        ["unhealthy"],
        False,
    ),
    "its switch is broken": (
        [node("n1"), NodeReport("n1", "switch", "UnHealthy")],
        ["unhealthy"],
        False,
    ),
    "pre-separated": (
        [node("n1"), NodeReport("n1", "node", "PreSeparate")],
        ["unhealthy"],
        False,
    ),
    "sub-healthy": (
        [node("n1"), NodeReport("n1", "node", "SubHealthy")],
        ["sub-healthy"],
        True,
    ),
    "isolated": ([node("n1"), isolated(Isolation("n1"))], ["isolated"], False),
    "reserved later": ([node("n1"), reserved(NOW + SECOND)], ["reserved"], True),
    "reserved now": ([node("n1"), reserved(NOW)], ["reserved"], True),
    "reserved and cordoned": (
        [node("n1", unschedulable=True), reserved(NOW)],
        ["cordoned", "reserved"],
        False,
    ),
    "a reservation that is over": (
        [node("n1"), report("n1", range(8)), reserved(NOW - 2 * SECOND, NOW)],
        ["ready"],
        True,
    ),
    "a drain ahead": ([node("n1"), isolated(Isolation("n1", start=NOW + SECOND))], ["draining"], True),
    "a drain whose time has come": (
        [node("n1"), isolated(Isolation("n1", start=NOW))],
        ["draining"],
        False,
    ),
    "a drain that runs": (
        [node("n1"), pod("a", 8, on="n1", holds=range(8)), isolated(Isolation("n1", reason="drain"))],
        ["draining", "isolated"],
        False,
    ),
    "no report yet": ([node("n1", devices=None)], ["awaiting report"], True),
}


@pytest.mark.parametrize("case", CASES)
def test_each_state_is_named(case: str) -> None:
    events, expected, opened = CASES[case]
    view = told(*events)
    assert states(view) == expected
    assert is_open(node_states(view.cluster, 0, NOW)) is opened


def test_chips_that_kubernetes_counts_otherwise_make_a_node_unstable() -> None:
    view = told(node("n1", faulty=2))
    assert states(view) == ["unstable"]
    assert chip_counts(view.cluster, NOW)[CHIP]["free"] == 0


def test_a_pod_without_known_chips_makes_a_node_unstable_and_its_chips_closed() -> None:
    view = told(node("n1"), pod("a", 2, on="n1"))
    assert states(view) == ["unstable"]
    assert chip_counts(view.cluster, NOW)[CHIP] == {
        **dict.fromkeys(CHIP_STATES, 0),
        "chips": 8,
        "unschedulable": 8,
    }


def test_a_chip_is_shown_in_one_state_and_counts_as_faulty_or_isolated_also_in_use() -> None:
    entries = [Isolation("n1", (f"Ascend910-{chip}",)) for chip in range(4)]
    view = told(
        node("n1", faulty=2),
        report("n1", range(2, 8), unhealthy=0b11),
        pod("a", 2, on="n1", holds=[0, 3]),
        isolated(*entries),
    )
    found = chip_states(view.cluster, 0, view.cluster.fleets[CHIP], READY)
    assert (found.used, found.faulty, found.isolated) == (0b1001, 0b11, 0b1100)
    assert found.free == 0b1111_0000
    shown = dict(found.by_state())
    assert (shown["used"], shown["faulty"], shown["isolated"]) == (0b1001, 0b10, 0b100)


def test_a_node_with_a_faulty_chip_is_not_wholly_free() -> None:
    view = told(node("n1", faulty=1), report("n1", range(1, 8), unhealthy=1))
    assert not is_idle(view.cluster, 0, NOW)
    assert is_idle(told(node("n1")).cluster, 0, NOW)


def test_worst_comes_first() -> None:
    view = told(
        node("n1", unschedulable=True),
        NodeReport("n1", "node", "UnHealthy"),
        isolated(Isolation("n1"), Isolation("n1", start=NOW + SECOND)),
    )
    assert states(view) == ["unhealthy", "isolated", "cordoned", "draining"]


_NODES = st.fixed_dictionaries(
    {
        "ready": st.booleans(),
        "unschedulable": st.booleans(),
        "broken": st.integers(0, 255),
        "held": st.integers(0, 255),
        "isolated": st.integers(0, 255),
        "reserved": st.sampled_from([0, 0, -1, 1, 2]),
        "isolation": st.sampled_from(["", "whole", "ahead", "due"]),
        "health": st.sampled_from(["", "SubHealthy", "PreSeparate", "UnHealthy"]),
        "taint": st.sampled_from(["", "tenant", "node.kubernetes.io/memory-pressure"]),
    }
)


def _events(drawn: list[dict[str, Any]]) -> list[object]:
    found: list[object] = []
    entries: list[Isolation] = []
    kept: list[NodeReservation] = []
    for number, one in enumerate(drawn):
        name, broken = f"n{number}", one["broken"] & ~one["held"]
        taints = (Taint(one["taint"]),) if one["taint"] else ()
        state = {"ready": one["ready"], "unschedulable": one["unschedulable"], "taints": taints}
        found.append(node(name, faulty=broken.bit_count(), **state))
        free = [chip for chip in range(8) if not (broken | one["held"]) >> chip & 1]
        found.append(report(name, free, unhealthy=broken))
        held = [chip for chip in range(8) if one["held"] >> chip & 1]
        if held:
            found.append(pod(f"p{number}", len(held), on=name, holds=held))
        if one["health"]:
            found.append(NodeReport(name, "node", one["health"]))
        entries += [
            Isolation(name, (f"Ascend910-{chip}",)) for chip in range(8) if one["isolated"] >> chip & 1
        ]
        start = {"whole": None, "ahead": NOW + SECOND, "due": NOW}
        if one["isolation"]:
            entries.append(Isolation(name, start=start[one["isolation"]]))
        if one["reserved"]:
            kept.append(
                NodeReservation(
                    f"r{number}", (name,), NOW + one["reserved"] * SECOND, NOW + 10 * SECOND, queue="other"
                )
            )
    return [*found, isolated(*entries), *kept]


@given(st.lists(_NODES, min_size=1, max_size=4))
def test_the_sums_close_and_every_view_has_the_same(drawn: list[dict[str, Any]]) -> None:
    view = told(_events(drawn))
    cluster = view.cluster
    for number in cluster.existing_nodes():
        found = chip_states(cluster, number, cluster.fleets[CHIP], node_states(cluster, number, NOW))
        masks = [mask for _, mask in found.by_state()]
        assert sum(masks) == found.listed
        assert sum(mask.bit_count() for mask in masks) == found.listed.bit_count()
    counts = chip_counts(cluster, NOW)[CHIP]
    assert counts.pop("chips") == 8 * len(drawn)
    nodes = [one for one in cluster.nodes if one is not None]
    rows = node_documents(ClusterObjects(view, NOW, nodes, [], [], [], []))
    listed: list[dict[str, Any]] = [dict(chips) for row in rows for chips in row["chips"]]
    assert {name: sum(len(one[name]) for one in listed) for name in CHIP_STATES} == counts
    shown = DashboardRows(view, Changes())
    while not shown.fill(100):
        pass
    totals: list[Mapping[str, Mapping[str, Any]]] = [
        shown.totals()["resources"],
        cluster_totals(view, NOW)["resources"],
        chip_totals(view, NOW),
    ]
    for by_resource in totals:
        sums = by_resource[CHIP]
        assert {name: sums[name] for name in CHIP_STATES} == counts
        assert sums["chips"] == 8 * len(drawn)
    (board,) = capacity(view, NOW)
    assert {name: getattr(board.chips, name) for name in CHIP_STATES} == counts
    # Of the free ones all views count the same to nodes that are drained later.
    later = {
        row["name"]: len(row["chips"][0]["free"])
        for row in rows
        if row["chips"][0]["free"] and {"draining", "reserved"} & {one["state"] for one in row["states"]}
    }
    assert {one.name: one.chips for one in board.drains} == later
    assert board.chips.until_drain == sum(later.values())
    assert [one[CHIP]["until_drain"] for one in totals] == [sum(later.values())] * len(totals)
    letters = "".join(row["chip_states"] for row in shown.nodes())
    assert letters.count(".") == counts["free"]
    assert letters.count("c") == counts["unschedulable"]
    assert [row["state"] for row in rows] == [row["state"] for row in shown.nodes()]


#: Nodes whose chips are free for some job, more often than not.
_OPEN_NODES = st.fixed_dictionaries(
    {
        "ready": st.just(True),
        "unschedulable": st.just(False),
        "broken": st.integers(0, 255),
        "held": st.integers(0, 255),
        "isolated": st.integers(0, 255),
        "isolation": st.sampled_from(["", "ahead", "due"]),
        "reserved": st.sampled_from([0, 0, -1, 1, 2]),
        "health": st.sampled_from(["", "SubHealthy"]),
        "taint": st.just(""),
    }
)


@given(st.one_of(_NODES, _OPEN_NODES), st.booleans())
def test_free_chips_are_those_that_a_new_pod_gets(drawn: dict[str, Any], keeps_off: bool) -> None:
    """On one node: as many pods of one chip start as chips are free.

    Those of a node that is drained later are for pods that say that they end before.
    """
    usual = default_configuration()
    settings = replace(usual.settings, reserved_nodes_require_duration=keeps_off)
    tolerating = {"taint": "" if drawn["taint"] == "tenant" else drawn["taint"]}
    events = _events([drawn | tolerating, drawn | {"ready": False}])
    for notes in ({}, {EXPECTED_DURATION: "1s"}):
        scheduler = scheduler_told(events, configuration=replace(usual, settings=settings))
        counts = chip_totals(scheduler.view, NOW)[CHIP]
        usable = counts["free"] - (0 if notes else counts["until_drain"])
        if not notes:
            (board,) = capacity(scheduler.view, NOW)
            (shape,) = (shape for shape in board.shapes if shape.shape == "1 chip")
            assert (shape.jobs, shape.upper_bound, shape.stranded_chips) == (usable, usable, 0)
        asked = [pod(f"new{number}", 1, annotations=notes) for number in range(9)]
        assert sum(isinstance(one, Bind) for one in scheduler.handle(seen(*asked), NOW)) == usable


def test_at_the_time_of_a_drain_no_pod_comes_any_more_whatever_the_setting_is() -> None:
    usual = default_configuration()
    settings = replace(usual.settings, reserved_nodes_require_duration=False)
    events: list[object] = [node("n1"), isolated(Isolation("n1", start=NOW))]
    scheduler = scheduler_told(*events, configuration=replace(usual, settings=settings))
    assert not any(isinstance(one, Bind) for one in scheduler.handle(seen(pod("a")), NOW))


def test_capacity_says_where_chips_wait_for_a_drain() -> None:
    view = told(node("n1"), node("n2"), node("n10"), isolated(*_drained("n10", "n2")))
    (board,) = capacity(view, NOW)
    assert (board.chips.free, board.chips.until_drain) == (24, 16)
    drawn = StringIO()
    print_capacity(Console(file=drawn, width=200), capacity_document([board]))
    assert (
        "  16 of the free chips are only for jobs that end before 1970-01-01T00:16:41Z: "
        "n2, n10 are drained then\n"
    ) in drawn.getvalue()
    # At that time they are closed.
    (board,) = capacity(view, NOW + SECOND)
    assert (board.chips.free, board.chips.unschedulable, board.chips.until_drain) == (8, 16, 0)


def test_blocks_are_counted_without_nodes_that_are_drained_later() -> None:
    nodes = [
        node(f"n{number}", 16, labels={"accelerator-type": "module-a3-16-super-pod"}, superpod=0)
        for number in range(4)
    ]
    view = told(nodes, isolated(*_drained("n3")))
    (board,) = capacity(view, NOW)
    blocks = {shape.shape: (shape.jobs, shape.upper_bound) for shape in board.shapes if shape.kind == "block"}
    assert blocks["blocks of 2 nodes"] == (1, 1)


def _drained(*names: str) -> Iterator[Isolation]:
    return (Isolation(name, start=NOW + SECOND) for name in names)


def test_every_state_has_a_severity_of_its_own() -> None:
    assert [state.value for state in NodeState][-1] == "ready"

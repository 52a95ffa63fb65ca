"""What a node and its chips are: every state by itself, and sums that close in every view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.messages import events as ev
from ringwise.scheduler.explain.capacity import capacity
from ringwise.scheduler.node_states import (
    CHIP_STATES,
    NodeState,
    chip_counts,
    chip_states,
    is_idle,
    is_open,
    node_states,
)
from ringwise.scheduler.view import SchedulerView
from ringwise.state.changes import Changes
from ringwise.state.model import Isolation, Isolations, NodeReport, Taint
from ringwise.views.cluster import ClusterObjects, chip_totals, node_documents
from ringwise.views.dashboard import DashboardRows
from ringwise.views.dashboard_nodes import cluster_totals
from tests.scheduler.clusters import CHIP, NOW, node, pod, report, told

SECOND = 1_000_000_000


def isolations(*entries: Isolation) -> ev.IsolationsSeen:
    return ev.IsolationsSeen(Isolations(entries))


def states(view: SchedulerView, now: int = NOW) -> list[str]:
    return [one.state.value for one in node_states(view.cluster, view.cluster.node_id["n1"], now)]


CASES: dict[str, tuple[list[ev.Event], list[str], bool]] = {
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
        [node("n1"), ev.NodeReportSeen(NodeReport("n1", "node", "UnHealthy"))],
        ["unhealthy"],
        False,
    ),
    "its switch is broken": (
        [node("n1"), ev.NodeReportSeen(NodeReport("n1", "switch", "UnHealthy"))],
        ["unhealthy"],
        False,
    ),
    "pre-separated": (
        [node("n1"), ev.NodeReportSeen(NodeReport("n1", "node", "PreSeparate"))],
        ["unhealthy"],
        False,
    ),
    "sub-healthy": (
        [node("n1"), ev.NodeReportSeen(NodeReport("n1", "node", "SubHealthy"))],
        ["sub-healthy"],
        True,
    ),
    "isolated": ([node("n1"), isolations(Isolation("n1"))], ["isolated"], False),
    "a drain ahead": ([node("n1"), isolations(Isolation("n1", start=NOW + SECOND))], ["draining"], True),
    "a drain whose time has come": (
        [node("n1"), isolations(Isolation("n1", start=NOW))],
        ["draining"],
        False,
    ),
    "a drain that runs": (
        [node("n1"), pod("a", 8, on="n1", holds=range(8)), isolations(Isolation("n1", reason="drain"))],
        ["draining", "isolated"],
        False,
    ),
    "no report yet": ([node("n1", devices=None)], ["report pending"], True),
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
    assert chip_counts(view.cluster, NOW)[CHIP] == {**dict.fromkeys(CHIP_STATES, 0), "closed": 8}


def test_a_chip_counts_in_the_first_state_that_applies() -> None:
    entries = [Isolation("n1", f"Ascend910-{chip}", number=chip) for chip in range(3)]
    view = told(
        node("n1", faulty=2),
        report("n1", range(2, 8), unhealthy=0b11),
        pod("a", 1, on="n1", holds=[0]),
        isolations(*entries),
    )
    found = chip_states(view.cluster, 0, view.cluster.fleets[CHIP], is_open=True)
    assert (found.used, found.faulty, found.isolated) == (0b1, 0b10, 0b100)
    assert found.free == 0b1111_1000


def test_a_node_with_a_faulty_chip_is_not_wholly_free() -> None:
    view = told(node("n1", faulty=1), report("n1", range(1, 8), unhealthy=1))
    assert not is_idle(view.cluster, 0, NOW)
    assert is_idle(told(node("n1")).cluster, 0, NOW)


def test_worst_comes_first() -> None:
    view = told(
        node("n1", unschedulable=True),
        ev.NodeReportSeen(NodeReport("n1", "node", "UnHealthy")),
        isolations(Isolation("n1"), Isolation("n1", start=NOW + SECOND)),
    )
    assert states(view) == ["unhealthy", "isolated", "cordoned", "draining"]


_NODES = st.fixed_dictionaries(
    {
        "ready": st.booleans(),
        "unschedulable": st.booleans(),
        "broken": st.integers(0, 255),
        "held": st.integers(0, 255),
        "isolated": st.integers(0, 255),
        "isolation": st.sampled_from(["", "whole", "ahead", "due"]),
        "health": st.sampled_from(["", "SubHealthy", "PreSeparate", "UnHealthy"]),
        "taint": st.sampled_from(["", "tenant", "node.kubernetes.io/memory-pressure"]),
    }
)


def _events(drawn: list[dict[str, Any]]) -> list[ev.Event]:
    found: list[ev.Event] = []
    entries: list[Isolation] = []
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
            found.append(ev.NodeReportSeen(NodeReport(name, "node", one["health"])))
        entries += [
            Isolation(name, f"Ascend910-{chip}", number=chip)
            for chip in range(8)
            if one["isolated"] >> chip & 1
        ]
        start = {"whole": None, "ahead": NOW + SECOND, "due": NOW}
        if one["isolation"]:
            entries.append(Isolation(name, start=start[one["isolation"]]))
    return [*found, isolations(*entries)]


@given(st.lists(_NODES, min_size=1, max_size=4))
def test_the_sums_close_and_every_view_has_the_same(drawn: list[dict[str, Any]]) -> None:
    view = told(_events(drawn))
    cluster = view.cluster
    for number in cluster.known_nodes():
        found = chip_states(
            cluster, number, cluster.fleets[CHIP], is_open=is_open(node_states(cluster, number, NOW))
        )
        masks = [mask for _, mask in found.by_state()]
        assert sum(masks) == found.listed
        assert sum(mask.bit_count() for mask in masks) == found.listed.bit_count()
    counts = chip_counts(cluster, NOW)[CHIP]
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
    letters = "".join(row["states"] for row in shown.nodes())
    assert letters.count(".") == counts["free"]
    assert letters.count("c") == counts["closed"]
    assert [row["state"] for row in rows] == [row["state"] for row in shown.nodes()]


@given(_NODES)
def test_free_chips_are_those_that_a_new_pod_gets(drawn: dict[str, Any]) -> None:
    """On one node: a pod of one chip starts if and only if a chip is free."""
    tolerating = {"taint": "" if drawn["taint"] == "tenant" else drawn["taint"]}
    view = told(_events([drawn | tolerating, drawn | {"ready": False}]))
    free = chip_counts(view.cluster, NOW)[CHIP]["free"]
    # A pod that does not say how long it runs may come before a drain that lies ahead.
    (board,) = capacity(view, NOW)
    jobs = {shape.form: shape.jobs for shape in board.shapes}
    assert jobs["1 chip"] == free


def test_every_state_has_a_severity_of_its_own() -> None:
    assert [state.value for state in NodeState][-1] == "ready"

"""Whatever nodes are in, every view counts their chips alike: tables, describe, top, topology, capacity,
JSON, dashboard and metrics.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ringwise.cli.printers.cluster import NODES, draw_top
from ringwise.cli.printers.describe import print_node
from ringwise.kube.run.core_thread import SchedulerAdapter
from ringwise.metrics.prometheus import Metrics
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.explain.capacity import capacity
from ringwise.scheduler.node_states import CHIP_STATES, chip_counts
from ringwise.state.changes import Changes
from ringwise.state.model import Isolation, NodeReport, Taint, unreadable_pod
from ringwise.topology.switches import Server, make_topology
from ringwise.views.chips import chip_documents
from ringwise.views.cluster import ClusterObjects, chip_totals, node_documents, top_document
from ringwise.views.dashboard import DashboardRows
from ringwise.views.dashboard_details import node_document
from ringwise.views.dashboard_nodes import cluster_totals
from ringwise.views.documents.cluster import NodeDocument, StatusFields
from ringwise.views.explain import capacity_document
from ringwise.views.topology import topology_document
from tests.builders.values import CHIP, SECOND, address, isolated, node, pod, report
from tests.scheduler.rig import NOW, scheduler_told

#: What a node may be in, several at once.
KINDS = (
    *(
        "broken chip",
        "isolated chip",
        "held chips",
        "broken chip in use",
        "isolated chip in use",
        "broken switch",
        "unhealthy",
        "sub-healthy",
        "pre-separated",
    ),
    *(
        "drain ahead",
        "drain due",
        "drain in progress",
        "isolated",
        "unreadable",
        "report pending",
        "cordoned",
    ),
    *("not ready", "unstable", "dedicated", "memory pressure"),
)
HEALTH = {"unhealthy": "UnHealthy", "sub-healthy": "SubHealthy", "pre-separated": "PreSeparate"}
STARTS = {"drain ahead": NOW + SECOND, "drain due": NOW, "isolated": None, "drain in progress": None}
TAINTS = {"dedicated": "tenant", "memory pressure": "node.kubernetes.io/memory-pressure"}
SIGNS = {
    "#": "used",
    "X": "used",
    "x": "faulty",
    "i": "isolated",
    "~": "reserved",
    "-": "unschedulable",
    ".": "free",
}
LETTERS = {"u": "used", "f": "faulty", "i": "isolated", "r": "reserved", "c": "unschedulable", ".": "free"}

_NODES = st.lists(st.frozensets(st.sampled_from(KINDS), max_size=4), min_size=1, max_size=4)


def events_of(name: str, number: int, kinds: frozenset[str]) -> list[object]:
    broken, held = 0b1 if "broken chip" in kinds else 0, 0b110 if "held chips" in kinds else 0
    broken |= 0b1000 if "broken chip in use" in kinds else 0
    bad = [chip for chip, kind in ((3, "broken chip in use"), (4, "isolated chip in use")) if kind in kinds]
    pending = "report pending" in kinds
    more: dict[str, Any] = {"devices": None} if pending else {}
    found: list[object] = [
        node(
            name,
            faulty=0 if pending else broken.bit_count(),
            ready="not ready" not in kinds,
            unschedulable="cordoned" in kinds,
            taints=tuple(Taint(TAINTS[one]) for one in sorted(kinds & TAINTS.keys())),
            internal_ip=address(number),
            superpod=number % 2,
            **more,
        )
    ]
    if not pending:
        free = [chip for chip in range(8) if not (broken | held) >> chip & 1 and chip not in bad]
        found.append(report(name, free, unhealthy=broken))
    if held or "drain in progress" in kinds:
        found.append(pod(f"{name}-held", 2, on=name, holds=[1, 2]))
    if bad:
        found.append(pod(f"{name}-bad", len(bad), on=name, holds=bad))
    if "unstable" in kinds:
        found.append(pod(f"{name}-somewhere", 1, on=name))
    if "unreadable" in kinds:
        found.append(unreadable_pod(f"{name}-odd", "default", f"{name}-odd", name))
    found += [NodeReport(name, "node", HEALTH[one]) for one in sorted(kinds & HEALTH.keys())]
    if "broken switch" in kinds:
        found.append(NodeReport(name, "switch", "UnHealthy"))
    return found


def scheduler_of(drawn: list[frozenset[str]]) -> Scheduler:
    found: list[object] = []
    entries: list[Isolation] = []
    for number, kinds in enumerate(drawn):
        name = f"n{number}"
        found += events_of(name, number, kinds)
        for one in sorted(kinds & STARTS.keys()):
            reason = "drain" if one == "drain in progress" else ""
            entries.append(Isolation(name, reason=reason, start=STARTS[one]))
        if "isolated chip" in kinds:
            entries.append(Isolation(name, ("Ascend910-7",)))
        if "isolated chip in use" in kinds:
            entries.append(Isolation(name, ("Ascend910-4",)))
    servers = [Server(address(number), number, number) for number in range(len(drawn))]
    found.append(make_topology([("leaf", servers)], len(servers)))
    return scheduler_told([*found, isolated(*entries)])


def drawn_text(draw: Any, *arguments: Any) -> str:
    console = Console(file=io.StringIO(), width=200, no_color=True)
    draw(console, *arguments)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def drawn_counts(text: str) -> dict[str, int]:
    """The chips in the pictures of a drawing, by state."""
    signs = Counter("".join(re.findall(r"\[([#Xxi~.|-]+)\]", text)).replace("|", ""))
    found = Counter[str]()
    for sign, count in signs.items():
        found[SIGNS[sign]] += count
    return {name: found[name] for name in CHIP_STATES}


def lettered(letters: str) -> dict[str, int]:
    counts = Counter(LETTERS[letter] for letter in letters)
    return {name: counts[name] for name in CHIP_STATES}


@given(_NODES)
def test_every_view_has_the_same_chips_in_the_same_states(drawn: list[frozenset[str]]) -> None:
    scheduler = scheduler_of(drawn)
    view = scheduler.view
    counts = chip_counts(view.cluster, NOW)[CHIP]
    assert counts.pop("chips") == 8 * len(drawn)
    nodes = [one for one in view.cluster.nodes if one is not None]
    pods = [one.pod for one in view.cluster.pods.values()]
    objects = ClusterObjects(view, NOW, nodes, pods, [], [], [])

    # JSON and tables of nodes and chips, describe.
    documents = node_documents(objects)
    by_name = {one["name"]: one for one in documents}
    listed: list[dict[str, Any]] = [dict(chips) for one in documents for chips in one["chips"]]
    assert {name: sum(len(one[name]) for one in listed) for name in CHIP_STATES} == counts
    rows = Counter(one["state"] for one in chip_documents(view, NOW))
    # A picture shows each chip once; used ones that are faulty or isolated are counted as both.
    once = {name: rows[name] for name in CHIP_STATES}
    assert sum(once.values()) == 8 * len(drawn)
    used = {name: sum(len({*one["used"]} & {*one[name]}) for one in listed) for name in CHIP_STATES}
    assert {name: once[name] + used[name] * (name != "used") for name in CHIP_STATES} == counts
    table = drawn_text(NODES.draw, documents, NOW)
    assert drawn_counts(table) == once
    described = Counter[str]()
    for one in documents:
        whole: NodeDocument = {
            **one,
            "schema": "ringwise.io/node/v1",
            "now": NOW,
            "labels": {},
            "taints": [],
            "object": None,
            "pod_details": [],
        }
        text = drawn_text(print_node, whole)
        described.update(drawn_counts(text))
        assert f"{len(one['chips'][0]['free'])} of 8 free" in text
        assert all(state["message"] in " ".join(text.split()) for state in one["states"])
    assert {name: described[name] for name in CHIP_STATES} == once

    # top and status.
    totals = chip_totals(view, NOW)
    assert {name: dict(totals[CHIP])[name] for name in CHIP_STATES} == counts
    status: StatusFields = {
        "directory": "",
        "now": NOW,
        "speed": None,
        "nodes": len(nodes),
        "resources": totals,
        "jobs": 0,
        "pending": 0,
        "scheduled": 0,
        "rejected": 0,
        "pods": len(pods),
        "commands": {},
        "incidents": [],
        "alarms": [],
    }
    top = drawn_text(draw_top, top_document(objects, status, []))
    assert drawn_counts(top) == once
    assert f"{counts['used']} of {8 * len(drawn)} chips in use" in top
    for name in ("faulty", "isolated", "unschedulable"):
        assert (f", {counts[name]} {name}" in top) is bool(counts[name])

    # Capacity.
    (board,) = capacity_document(capacity(view, NOW)).boards
    assert {name: getattr(board.chips, name) for name in CHIP_STATES} == counts

    # Topology: a node is free when all of its chips are.
    free = {one["name"] for one in documents if len(one["chips"][0]["free"]) == 8}
    cut_off = {f"n{number}" for number, kinds in enumerate(drawn) if "broken switch" in kinds}
    faulty = {one["name"] for one in documents if one["chips"][0]["marks"]["faulty"]} | cut_off
    topology = topology_document(view, NOW)
    assert topology.switches is not None
    seats = [seat for switch in topology.switches for seat in switch.nodes]
    assert {seat.node for seat in seats} == by_name.keys()
    assert {seat.node for seat in seats if seat.free} == free
    assert {seat.node for seat in seats if seat.faulty} == faulty
    assert [switch.faulty for switch in topology.switches] == [cut_off == by_name.keys()]
    assert sum(switch.free_nodes for switch in topology.switches) == len(free)
    superpods = topology.superpods
    assert {name for one in superpods for name in one.free} == free
    assert sum(one.free_nodes + one.busy_nodes + one.unusable_nodes for one in superpods) == len(nodes)

    # Dashboard: rows, totals, samples, the page of a node.
    shown = DashboardRows(view, Changes())
    while not shown.fill(100):
        pass
    for resources in (shown.totals()["resources"], cluster_totals(view, NOW)["resources"]):
        assert {name: dict(resources[CHIP])[name] for name in CHIP_STATES} == counts
    assert lettered("".join(row["chip_states"] for row in shown.nodes())) == once
    health = Counter("".join(row["health"] for row in shown.nodes()))
    assert (health["f"], health["i"]) == (counts["faulty"], counts["isolated"])
    for row in shown.nodes():
        one = by_name[row["name"]]
        assert (row["state"], row["states"], row["schedulable"]) == (
            one["state"],
            one["states"],
            one["schedulable"],
        )
        page = node_document(shown, view, NOW, row["name"])
        assert page is not None
        assert [chip["number"] for chip in page["chips"]] == row["numbers"] == list(range(8))
        assert "".join(chip["health"] for chip in page["chips"]) == row["health"]
        assert [reason["code"] for reason in page["reasons"] if not reason["code"].startswith("taint ")] == [
            state["state"] for state in one["states"] if state["message"]
        ]

    # Metrics.
    observer = Metrics()
    SchedulerAdapter(scheduler).count(observer)
    told = re.findall(
        rf'ringwise_chips{{resource="{CHIP}",state="(\w+)"}} ([0-9.]+)', observer.text().decode()
    )
    assert {name: int(float(value)) for name, value in told if name in CHIP_STATES} == counts


def test_each_kind_gives_its_state() -> None:
    """So that the property above is about all of them."""
    states = {
        "broken switch": "unhealthy",
        "drain ahead": "draining",
        "drain due": "draining",
        "drain in progress": "draining",
        "isolated": "isolated",
        "unreadable": "invalid",
        "report pending": "awaiting report",
        "cordoned": "cordoned",
        "not ready": "not ready",
        "unstable": "unstable",
        "unhealthy": "unhealthy",
        "sub-healthy": "sub-healthy",
        "pre-separated": "unhealthy",
        "memory pressure": "unhealthy",
        "dedicated": "ready",
        "broken chip": "ready",
        "isolated chip": "ready",
        "held chips": "ready",
        "broken chip in use": "ready",
        "isolated chip in use": "ready",
    }
    assert states.keys() == set(KINDS)
    for kind, state in states.items():
        view = scheduler_of([frozenset({kind})]).view
        nodes = [one for one in view.cluster.nodes if one is not None]
        (row,) = node_documents(ClusterObjects(view, NOW, nodes, [], [], [], []))
        assert row["state"] == state, kind
    counted = {
        "broken chip": {"faulty"},
        "isolated chip": {"isolated"},
        "held chips": {"used"},
        "broken chip in use": {"used", "faulty"},
        "isolated chip in use": {"used", "isolated"},
    }
    for kind, expected in counted.items():
        counts = chip_counts(scheduler_of([frozenset({kind})]).view.cluster, NOW)[CHIP]
        assert {state for state in ("used", "faulty", "isolated") if counts[state]} == expected, kind

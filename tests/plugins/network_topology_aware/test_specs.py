"""Volcano's end-to-end specs 1.1 to 3.1 of network topologies: CPU jobs on 8 nodes, its CI configuration.

The cluster of these specs runs a network daemon on every node, which requests 100m cpu and 50 MiB: 2.1 and
3.1 depend on it. 1.3 and 2.2 expect the job to be pending, and see it so for a moment only: it fits, and the
rule says where.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ringwise.actions.allocate import allocate
from ringwise.state.model import NetworkTopology
from tests.builders.session_lab import Lab, cluster

MIB, GIB = 1 << 20, 1 << 30
CI = (
    ["priority", "gang", "conformance", "sla"],
    ["overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack", "network-topology-aware"],
)
LEAVES = {f"s{leaf}": (f"n{2 * leaf}", f"n{2 * leaf + 1}") for leaf in range(4)}
HARD_1, HARD_2 = NetworkTopology(highest_tier=1), NetworkTopology(highest_tier=2)
SOFT = NetworkTopology(soft=True)


def eight_nodes(used: Mapping[int, int], *, daemon: bool = True) -> Lab:
    """s0 to s3 with two nodes each, s4 and s5 above them, s6 above these."""
    lab = cluster()
    for number in range(8):
        lab.node(f"n{number}", cpu=8_000, memory=8 * GIB, pods=110)
    for name, nodes in LEAVES.items():
        lab.hyper_node(name, 1, *nodes)
    lab.hyper_node("s4", 2, "s0", "s1").hyper_node("s5", 2, "s2", "s3").hyper_node("s6", 3, "s4", "s5")
    for number in range(8):
        if daemon:
            lab.job(f"daemon-{number}", on=f"n{number}", cpu=100, memory=50 * MIB)
        if used.get(number):
            lab.job(f"filler-{number}", on=f"n{number}", cpu=1_000 * used[number], memory=GIB * used[number])
    return lab


def place(lab: Lab) -> list[str] | None:
    """The nodes of the job's pods; None while it waits."""
    session = lab.session(*CI)
    allocate(session)
    names = lab.state.names
    job = lab["job"]
    nodes = [lab.state.pods[uid].node for uid in job.pods]
    if any(node < 0 for node in nodes):
        assert job.reason is not None
        return None
    return sorted(names[node] for node in nodes)


@pytest.mark.parametrize(
    ("spec", "used", "cpu", "topology", "expected"),
    [
        ("1.1", {2: 1, 3: 1}, 2, HARD_1, {"n2", "n3"}),
        ("1.2", {2: 4, 3: 4, 4: 1}, 4, HARD_1, {"n4", "n5"}),
        # Of the leaves with room s0 is as full as s2.
        ("1.3", {0: 4, 2: 8, 3: 4, 4: 4, 6: 8, 7: 4}, 2, HARD_1, {"n0", "n1"}),
        ("2.1", {0: 4, 2: 4, 4: 4, 6: 4, 5: 1}, 2, HARD_2, {"n5", "n7"}),
        ("2.2", {0: 4, 1: 4, 2: 4, 4: 4, 5: 1, 6: 1}, 2, HARD_2, {"n0", "n1"}),
        ("2.3", {0: 1}, 2, HARD_1, {"n0", "n1"}),
        ("3.1", {0: 6, 2: 6, 4: 6, 6: 6, 1: 4, 3: 4, 7: 4, 5: 5}, 2, SOFT, {"n5", "n7"}),
    ],
)
def test_spec(
    spec: str, used: dict[int, int], cpu: int, topology: NetworkTopology, expected: set[str]
) -> None:
    lab = eight_nodes(used).job("job", pods=2, cpu=1_000 * cpu, memory=GIB * cpu, topology=topology)
    assert set(place(lab) or {"pending"}) <= expected


def test_spec_2_3_a_pod_that_is_deleted_comes_back_to_the_same_hyper_node() -> None:
    """Though s3 is fuller by then, and would be taken by a new job."""
    lab = eight_nodes({0: 1}).job("job", pods=2, cpu=2_000, memory=2 * GIB, topology=HARD_1)
    assert set(place(lab) or {"pending"}) <= {"n0", "n1"}
    lab.job("late", pods=2, on=["n6", "n7"], cpu=5_000, memory=5 * GIB)
    lab.state.release("job-0")
    assert set(place(lab) or {"pending"}) <= {"n0", "n1"}


def test_spec_3_1_on_nodes_without_a_daemon_fits_into_one_leaf() -> None:
    lab = eight_nodes({0: 6, 2: 6, 4: 6, 6: 6, 1: 4, 3: 4, 7: 4, 5: 5}, daemon=False)
    lab.job("job", pods=2, cpu=2_000, memory=2 * GIB, topology=SOFT)
    assert place(lab) == ["n4", "n5"]

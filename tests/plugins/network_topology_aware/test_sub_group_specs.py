"""Volcano's end-to-end specs 4.1 to 9.6 of network topologies: jobs with partitions on 8 nodes.

5.6, 7.2 and 9.3 expect the job to be pending, and see it so for a moment only, or ask for no pod at all: the
rule says what is right. 5.6 fits because its nodes have 8 cpus, so no daemon runs there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.actions.allocate import allocate
from ringwise.state.model import NetworkTopology, Requirement, SubGroupPolicy
from tests.builders.session_lab import Lab, cluster
from tests.examples import examples
from tests.plugins.network_topology_aware.test_specs import (
    CI,
    GIB,
    HARD_1,
    HARD_2,
    LEAVES,
    SOFT,
    eight_nodes,
)

PART = "volcano.sh/partition-id"
TASK = "volcano.sh/task-spec"
EVERYWHERE = range(8)


def add_job(
    lab: Lab,
    partitions: int,
    size: int,
    cpu: int,
    job: NetworkTopology | None,
    part: NetworkTopology | None,
    least: int | None = None,
    groups: int = 0,
) -> Lab:
    lab.job(
        "job",
        tasks={"work": partitions * size},
        min_available=least,
        cpu=1_000 * cpu,
        memory=GIB * cpu,
        topology=job,
    )
    group = lab["job"].group
    assert group is not None
    selector = (Requirement(TASK, "In", ("work",)),)
    group.sub_groups = (SubGroupPolicy("work", selector, (PART,), size, groups, part),)
    for number in range(partitions * size):
        lab.change(f"job-work-{number}", labels={TASK: "work", PART: str(number // size)})
    return lab


def place(lab: Lab) -> dict[str, list[str]]:
    """The nodes of the job's pods, by partition; those that wait are left out."""
    session = lab.session(*CI)
    allocate(session)
    return placed(lab)


def placed(lab: Lab) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for uid, pod in lab["job"].pods.items():
        node = lab.state.pods[uid].node
        if node >= 0:
            found.setdefault(pod.labels[PART], []).append(lab.state.names[node])
    return found


def leaf_of(node: str) -> str:
    return next(leaf for leaf, nodes in LEAVES.items() if node in nodes)


def keep(lab: Lab, lose: tuple[str, ...]) -> None:
    """The job runs where it is, but for some pods, which wait again."""
    for uid in list(lab["job"].pods):
        node = lab.state.pods[uid].node
        if uid in lose:
            lab.state.drop_pod(uid)
            lab.change(uid)
        elif node >= 0:
            lab.change(uid, phase="Running", node=lab.state.names[node])


@pytest.mark.parametrize(
    ("spec", "used", "shape", "topologies", "expected"),
    [
        ("4.1", {2: 1, 3: 1}, (2, 2, 2), (HARD_1, HARD_1), {"s1": 4}),
        ("5.1", {2: 1, 3: 1}, (2, 2, 2), (HARD_2, HARD_1), {"s1": 4}),
        ("6.1", {2: 1, 3: 1}, (2, 2, 2), (HARD_2, SOFT), {"s1": 4}),
        ("4.2", dict.fromkeys(EVERYWHERE, 6), (2, 1, 4), (HARD_1, HARD_1), None),
        ("5.5", dict.fromkeys(EVERYWHERE, 6), (2, 1, 4), (HARD_2, HARD_1), None),
        ("4.3", {0: 6, 1: 2, 2: 6, 3: 2, 4: 6, 5: 2, 6: 6, 7: 2}, (2, 1, 4), (HARD_1, HARD_1), None),
        ("5.2", {0: 3, 2: 3, 4: 6, 5: 6, 6: 6, 7: 6}, (2, 2, 3), (HARD_2, HARD_1), {"s0": 2, "s1": 2}),
        ("5.3", {6: 1, 7: 1}, (2, 2, 2), (HARD_2, HARD_1), {"s3": 4}),
        ("5.4", {0: 6, 1: 6, 2: 1, 3: 1}, (2, 2, 2), (HARD_2, HARD_1), {"s1": 4}),
        # Both fit into one leaf.
        ("5.6", dict.fromkeys(EVERYWHERE, 4), (2, 1, 4), (HARD_2, HARD_1), {"s0": 2}),
        ("6.2", {0: 3, 1: 3, 2: 3, 3: 5, 4: 2, 6: 2}, (2, 2, 4), (HARD_2, SOFT), {"s2": 2, "s3": 2}),
        ("6.3", {0: 6, 1: 2, 2: 2, 3: 2, 4: 6, 5: 2, 6: 2, 7: 2}, (2, 2, 4), (HARD_2, SOFT), None),
        ("7.1", {0: 4, 4: 4, 2: 6, 3: 6, 6: 6, 7: 6}, (2, 2, 3), (SOFT, HARD_1), {"s0": 2, "s2": 2}),
        ("8.1", {0: 4, 4: 4, 2: 6, 3: 6, 6: 6, 7: 6}, (2, 2, 3), (None, HARD_1), {"s0": 2, "s2": 2}),
        # Three pods need two leaves, which s4 has.
        ("7.2", dict.fromkeys(EVERYWHERE, 2), (3, 1, 4), (SOFT, HARD_1), {"s0": 2, "s1": 1}),
        ("9.1", {2: 1, 3: 1}, (2, 2, 3, 4, 2), (HARD_1, HARD_1), {"s1": 4}),
        ("9.2", {2: 1, 3: 1}, (4, 2, 3, 4, 4), (HARD_2, HARD_1), {"s0": 4, "s1": 4}),
        # A leaf takes 4 of these pods, and 6 must start together.
        ("9.3", {}, (6, 2, 3, 6, 2), (HARD_1, HARD_1), None),
        ("9.4", {}, (6, 2, 3, 4, 4), (HARD_1, HARD_1), None),
        ("9.5", {6: 1, 7: 1}, (2, 2, 3, 2), (HARD_2, HARD_1), {"s3": 4}),
        # The other 4 pods wait: the leaf of the job is full.
        ("9.6", {6: 1, 7: 1}, (4, 2, 3, 4, 2), (HARD_1, HARD_1), {"s3": 4}),
    ],
)
def test_spec(
    spec: str,
    used: Mapping[int, int],
    shape: tuple[int, ...],
    topologies: tuple[NetworkTopology | None, NetworkTopology | None],
    expected: Mapping[str, int] | None,
) -> None:
    partitions, size, cpu, *numbers = shape
    lab = add_job(eight_nodes(used, daemon=spec != "5.6"), partitions, size, cpu, *topologies, *numbers)
    found = place(lab)
    assert all(len(nodes) == size for nodes in found.values())
    if topologies[1] is HARD_1:
        assert all(len({leaf_of(node) for node in nodes}) == 1 for nodes in found.values())
    assert Counter(leaf_of(node) for nodes in found.values() for node in nodes) == (expected or {})
    reason = lab["job"].reason
    if expected is None:
        assert reason is not None
        assert reason.fixes
        assert reason.message


@pytest.mark.parametrize(
    ("spec", "shape", "topologies", "lost"),
    [
        ("5.3", (2, 2, 2), (HARD_2, HARD_1), ("job-work-1",)),
        ("9.5", (2, 2, 3, 2), (HARD_2, HARD_1), ("job-work-2",)),
        ("9.6", (4, 2, 3, 4, 2), (HARD_1, HARD_1), ("job-work-0", "job-work-3")),
    ],
)
def test_deleted_pods_run_again_where_the_rest_of_their_partition_runs(
    spec: str,
    shape: tuple[int, ...],
    topologies: tuple[NetworkTopology, NetworkTopology],
    lost: tuple[str, ...],
) -> None:
    partitions, size, cpu, *numbers = shape
    lab = add_job(eight_nodes({6: 1, 7: 1}), partitions, size, cpu, *topologies, *numbers)
    before = place(lab)
    keep(lab, lost)
    assert {leaf_of(node) for nodes in place(lab).values() for node in nodes} == {"s3"}
    assert {part: len(nodes) for part, nodes in placed(lab).items()} == dict.fromkeys(before, size)


def test_a_lost_pod_waits_for_room_in_the_domain_of_its_partition() -> None:
    lab = add_job(eight_nodes({}), 1, 2, 6, HARD_2, HARD_1)
    assert {leaf_of(node) for node in place(lab)["0"]} == {"s0"}
    keep(lab, ("job-work-1",))
    free = next(node for node in ("n0", "n1") if node not in placed(lab)["0"])
    lab.job("thief", on=free, cpu=4_000, memory=GIB)
    assert len(place(lab)["0"]) == 1
    reason = lab["job"].reason
    assert reason is not None
    assert "its other pods run in s0" in reason.message
    assert "sub-group work/0 requires 2 pods to start; 1 of them runs" in reason.message


@settings(max_examples=examples(30))
@given(
    free=st.tuples(*[st.integers(0, 3)] * 4),
    partitions=st.integers(1, 3),
    size=st.integers(1, 3),
    groups=st.integers(1, 3),
    tier=st.integers(1, 3),
    part_tier=st.integers(1, 3),
)
def test_the_lowest_domain_in_which_enough_whole_partitions_fit(
    free: tuple[int, ...], partitions: int, size: int, groups: int, tier: int, part_tier: int
) -> None:
    """Against all ways to give each partition a domain: 4 nodes in 2 leaves under one top, pods of 1 cpu."""
    groups = min(groups, partitions)
    lab = cluster()
    for number, cpu in enumerate(free):
        lab.node(f"n{number}", cpu=3_000, pods=110)
        if cpu < 3:
            lab.job(f"filler-{number}", on=f"n{number}", cpu=1_000 * (3 - cpu))
    for number in range(4):
        lab.hyper_node(f"h{number}", 1, f"n{number}")
    lab.hyper_node("l0", 2, "h0", "h1").hyper_node("l1", 2, "h2", "h3").hyper_node("top", 3, "l0", "l1")
    add_job(
        lab,
        partitions,
        size,
        1,
        NetworkTopology(highest_tier=tier),
        NetworkTopology(highest_tier=part_tier),
        groups * size,
        groups,
    )
    domains: dict[str, tuple[int, tuple[int, ...]]] = {f"h{number}": (1, (number,)) for number in range(4)}
    domains |= {"l0": (2, (0, 1)), "l1": (2, (2, 3)), "top": (3, (0, 1, 2, 3))}

    def room(nodes: tuple[int, ...]) -> int:
        """Whole partitions inside these nodes, each in a domain of its own tier."""
        inside = [spot for level, spot in domains.values() if level <= part_tier and set(spot) <= set(nodes)]
        best = 0
        for choice in product(inside, repeat=min(partitions, sum(free[node] for node in nodes) // size)):
            left = list(free)
            count = 0
            for spot in sorted(choice, key=len):
                if sum(left[node] for node in spot) < size:
                    continue
                count += 1
                missing = size
                for node in spot:
                    taken = min(missing, left[node])
                    left[node] -= taken
                    missing -= taken
            best = max(best, count)
        return best

    found = place(lab)
    fitting = [level for level, spot in domains.values() if level <= tier and room(spot) >= groups]
    assert all(len(nodes) == size for nodes in found.values())
    if not fitting:
        assert found == {}
        return
    assert len(found) >= groups
    # Further ones may go to a higher tier.
    used = {int(node[1:]) for part in range(groups) for node in found[str(part)]}
    holding = min(level for level, spot in domains.values() if used <= set(spot))
    assert holding <= min(fitting)

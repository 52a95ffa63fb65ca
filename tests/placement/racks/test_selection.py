"""Random rack clusters against the plain model, and what holds for every placement (R1)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ringwise.placement.matching import PodClasses
from ringwise.placement.racks.model import RackBlock, RackOrigin, RackRequest, RackShape
from ringwise.placement.racks.selection import fullest_nodes, select, select_for_service
from ringwise.reasons import Reason
from ringwise.topology.superpods import NodeId
from tests.placement.racks import reference
from tests.placement.racks.clusters import free_racks, per_rack, places

Scene = tuple[reference.Cluster, reference.Job, int]


@st.composite
def clusters(draw: st.DrawFn) -> reference.Cluster:
    """One to four SuperPoDs; rack ids of two UB-memory domains; now and then more nodes than a rack has."""
    chosen = draw(st.lists(st.integers(0, 12), min_size=1, max_size=4, unique=True))
    racks = st.dictionaries(
        st.sampled_from([0, 1, 2, 3, 14, 15, 16, 17]),
        st.integers(0, 8) | st.integers(5, 8) | st.integers(8, 10),
        min_size=1,
        max_size=6,
    )
    return {superpod: draw(racks) for superpod in chosen}


@st.composite
def jobs(draw: st.DrawFn, free: int = 24) -> reference.Job:
    """Jobs that could fit into so many nodes, and some that do not."""
    t = draw(st.sampled_from([1, 1, 2, 4, 8]))
    s = t * draw(st.integers(1, 4))
    n = draw(st.integers(1, max(1, free // s)) | st.integers(1, 5))
    return reference.Job(n * s, s, t, draw(st.booleans()), draw(st.sampled_from([False, False, True])))


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """A cluster, a job for it, and a super-pod-size that is sometimes too small."""
    cluster = draw(clusters())
    free = [sum(racks.values()) for racks in cluster.values()]
    job = draw(jobs(sum(free)))
    size = max(free) + draw(st.sampled_from([-1, 0, 0, 1, 8, 8, 64, 64]))
    return cluster, job, max(1, size)


CLUSTERS = clusters()


def asked(job: reference.Job, minimum: int | None = None) -> RackRequest:
    blocks = job.p // job.s
    return RackRequest(
        RackShape(job.s, job.t, blocks),
        tuple(range(blocks)),
        soft=job.soft,
        ub_memory=job.ub,
        minimum=minimum,
    )


@given(scenes())
def test_selection_is_what_the_rules_say_R1(scene: Scene) -> None:
    compare(*scene)


@pytest.mark.parametrize("seed", range(4))
def test_selection_is_what_the_rules_say_on_many_clusters_R1(seed: int) -> None:
    """Plain random numbers: many more clusters in the same time, and every stage among them."""
    random = Random(seed)
    seen: set[object] = set()
    for _ in range(300):
        cluster = {
            superpod: {rack: random.choice((1, 2, 3, 4, 5, 6, 7, 8, 8, 9)) for rack in random_racks(random)}
            for superpod in random.sample(range(12), random.randint(1, 4))
        }
        free = [sum(racks.values()) for racks in cluster.values()]
        t = random.choice((1, 1, 2, 4, 8))
        s = t * random.randint(1, 4)
        p = s * random.randint(1, max(1, sum(free) // s))
        job = reference.Job(p, s, t, random.random() < 0.5, random.random() < 0.2)
        seen |= compare(cluster, job, max(1, max(free) + random.choice((-1, 0, 1, 8, 64))))
    assert seen >= {
        RackOrigin.RACK,
        RackOrigin.SUPERPOD,
        RackOrigin.DOMAIN,
        RackOrigin.MULTI,
        RackOrigin.FRAGMENTS,
        "refused",
    }


def random_racks(random: Random) -> list[int]:
    return random.sample([0, 1, 2, 3, 14, 15, 16, 17], random.randint(1, 6))


def compare(cluster: reference.Cluster, job: reference.Job, size: int) -> set[object]:
    """Which stages placed the job; library and model must agree."""
    answer = select(free_racks(cluster), asked(job), size)
    expected = reference.place(cluster, job, size)
    assert (None if isinstance(answer, Reason) else places(answer)) == expected
    if isinstance(answer, Reason):
        assert answer.fixes
        assert "unknown" not in answer.message
        return {"refused"}
    return {block.origin for block in answer}


@given(
    CLUSTERS,
    st.integers(1, 4),
    st.integers(1, 9),
    st.sets(st.tuples(st.integers(0, 12), st.integers(0, 3)), max_size=3),
    st.sampled_from([24, 64, 64]),
)
def test_inference_services_are_what_the_rules_say_R1(
    cluster: reference.Cluster, n: int, s: int, used: set[tuple[int, int]], size: int
) -> None:
    request = RackRequest(RackShape(s, 1, n), tuple(range(n)))
    answer = select_for_service(free_racks(cluster), request, size, used)
    expected = reference.place_service(cluster, n, s, used, size)
    assert (None if isinstance(answer, Reason) else places(answer)) == expected


@given(CLUSTERS, jobs())
def test_what_holds_for_every_placement_R1(cluster: reference.Cluster, job: reference.Job) -> None:
    answer = select(free_racks(cluster), asked(job), 64)
    if isinstance(answer, Reason):
        return
    nodes = [slot.node for block in answer for slot in block.slots]
    assert len(nodes) == len(set(nodes)) == job.p
    for block in answer:
        assert len(block.slots) == job.s
        if block.origin is RackOrigin.FRAGMENTS:
            assert job.soft
            continue
        assert len({slot.superpod for slot in block.slots}) == 1
        for start in range(0, job.s, job.t):
            assert len({(slot.superpod, slot.rack) for slot in block.slots[start : start + job.t]}) == 1
    if job.ub:
        assert len({(superpod, rack // 16) for superpod, rack in places(answer)}) == 1


@given(CLUSTERS, jobs(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_changes_nothing_R1(
    cluster: reference.Cluster, job: reference.Job, random: Random
) -> None:
    shuffled = []
    for superpod, racks in cluster.items():
        entries = list(racks.items())
        random.shuffle(entries)
        shuffled.append((superpod, dict(entries)))
    random.shuffle(shuffled)
    assert select(free_racks(dict(shuffled)), asked(job), 64) == select(free_racks(cluster), asked(job), 64)


# -- fewer pods are enough (P8)


@given(CLUSTERS, jobs(), st.integers(1, 40))
def test_the_first_blocks_start_where_not_all_fit_P8(
    cluster: reference.Cluster, job: reference.Job, minimum: int
) -> None:
    assume(minimum < job.p)
    whole = select(free_racks(cluster), asked(job), 64)
    part = select(free_racks(cluster), asked(job, minimum), 64)
    if not isinstance(whole, Reason):
        assert part == whole
        return
    if isinstance(part, Reason):
        if not job.ub:
            # As many blocks as minMember needs do not fit as whole blocks either.
            blocks = -(-minimum // job.s)
            fewer = reference.Job(blocks * job.s, job.s, job.t)
            assert reference._multi_stage({k: dict(v) for k, v in cluster.items()}, fewer) is None
        return
    assert [block.logical for block in part] == list(range(len(part)))
    assert minimum <= len(part) * job.s < job.p
    assert all(block.origin is not RackOrigin.FRAGMENTS for block in part)


def test_a_service_starts_with_the_blocks_that_have_a_rack_P8() -> None:
    request = RackRequest(RackShape(4, 1, 3), (0, 1, 2), minimum=8)
    answer = select_for_service(free_racks({0: {0: 8, 1: 3}}), request, 64)
    assert not isinstance(answer, Reason)
    assert [block.logical for block in answer] == [0, 1]
    too_few = RackRequest(RackShape(4, 1, 3), (0, 1, 2), minimum=9)
    refused = select_for_service(free_racks({0: {0: 8, 1: 3}}), too_few, 64)
    assert isinstance(refused, Reason)
    assert refused.details["held"] == 2


def test_a_job_of_one_pod_keeps_to_the_fullest_nodes_R1() -> None:
    free = free_racks({0: {0: 2, 1: 2}})
    idle: dict[NodeId, int] = {"sp0-rack0-0": 8, "sp0-rack0-1": 8, "sp0-rack1-0": 8, "sp0-rack1-1": 5}
    request = RackRequest(RackShape(1, 1, 1), (0,))
    answer = select(fullest_nodes(free, idle), request, 64)
    assert not isinstance(answer, Reason)
    assert answer[0].slots[0].node == "sp0-rack1-1"


def test_an_oversize_superpod_stops_the_job_P6() -> None:
    for answer in (
        select(free_racks({3: {0: 8, 1: 1}}), asked(reference.Job(2, 2, 1)), 8),
        select_for_service(free_racks({3: {0: 8, 1: 1}}), asked(reference.Job(2, 2, 1)), 8),
    ):
        assert isinstance(answer, Reason)
        assert answer.code == "superpod-oversize"
        assert answer.details["superpod"] == 3


# -- reasons


@pytest.mark.parametrize(
    ("cluster", "job", "code", "fix"),
    [
        ({0: {0: 4, 1: 3}}, reference.Job(8, 8, 1), "rack-not-enough-blocks", "free nodes until"),
        ({0: {0: 3, 1: 3}}, reference.Job(4, 4, 4), "rack-no-rack-holds-group", 'ra-block: "16"'),
        ({0: {0: 3, 1: 3, 2: 1, 3: 1}}, reference.Job(6, 6, 2), "rack-blocks-not-placed", "soft"),
        ({0: {0: 8}, 1: {0: 7}}, reference.Job(16, 8, 4, True), "rack-not-enough-nodes", "free 1 more"),
        (
            {0: {0: 8, 16: 8}},
            reference.Job(16, 8, 1, ub=True),
            "rack-no-domain-holds-job",
            "huawei.com/schedule_ubmemory",
        ),
    ],
)
def test_a_job_without_room_is_told_what_would_help_R1(
    cluster: reference.Cluster, job: reference.Job, code: str, fix: str
) -> None:
    answer = select(free_racks(cluster), asked(job), 64)
    assert isinstance(answer, Reason)
    assert answer.code == code
    assert any(fix in one for one in answer.fixes), answer.fixes


# -- pods that differ


def every_way(job: reference.Job, free: list[tuple[int, str]], masks: dict[str, int]) -> Iterator[None]:
    """Ways to put one block of two classes of pods (class of rank 0 is 0, of the others 1) into racks."""
    for chosen in product(free, repeat=job.p):
        if len({node for _, node in chosen}) < job.p:
            continue
        if any(len({rack for rack, _ in chosen[i : i + job.t]}) > 1 for i in range(0, job.p, job.t)):
            continue
        if all(masks[node] >> min(rank, 1) & 1 for rank, (_, node) in enumerate(chosen)):
            yield None


@given(
    st.dictionaries(st.integers(0, 3), st.integers(0, 3), min_size=1, max_size=3),
    st.sampled_from([(2, 1), (4, 2), (4, 1)]),
    st.lists(st.integers(0, 3), min_size=9, max_size=9),
    st.booleans(),
)
def test_pods_that_differ_get_nodes_they_can_take_P8(
    racks: dict[int, int], cut: tuple[int, int], drawn: list[int], soft: bool
) -> None:
    job = reference.Job(cut[0], cut[0], cut[1], soft)
    free = free_racks({0: racks})
    nodes = [(rack, str(node)) for rack, members in free[0].items() for node in members]
    masks = dict(zip((node for _, node in nodes), drawn, strict=False))
    of_node: dict[NodeId, int] = dict(masks.items())
    classes = PodClasses({rank: min(rank, 1) for rank in range(job.p)}, of_node)
    request = RackRequest(RackShape(job.s, job.t, 1), (0,), soft=soft, classes=classes)
    answer = select(free, request, 64)
    possible = next(every_way(job, nodes, masks), True) is None
    if isinstance(answer, Reason):
        assert not possible
        return
    slots = answer[0].slots
    assert all(masks[str(slot.node)] >> min(rank, 1) & 1 for rank, slot in enumerate(slots))
    assert len({slot.node for slot in slots}) == job.p
    if answer[0].origin is not RackOrigin.FRAGMENTS:
        assert possible
        assert all(len({slot.rack for slot in slots[i : i + job.t]}) == 1 for i in range(0, job.p, job.t))


def test_blocks_are_taken_in_rank_order_each_where_its_pods_fit_P8() -> None:
    """Block 0 has a pod that only SuperPoD 1 can take; block 1 fits into the larger SuperPoD 0."""
    free = free_racks({0: {0: 8}, 1: {0: 6}})
    masks = {
        node: 0b10 if str(node).startswith("sp0") else 0b11
        for racks in free.values()
        for members in racks.values()
        for node in members
    }
    classes = PodClasses({rank: 0 if rank == 0 else 1 for rank in range(12)}, masks)
    answer = select(free, RackRequest(RackShape(6, 2, 2), (0, 1), classes=classes), 64)
    assert not isinstance(answer, Reason)
    assert [block.parts() for block in answer] == [[(1, 0, 6)], [(0, 0, 6)]]


def test_equal_pods_are_placed_by_counting_whatever_their_classes_R1() -> None:
    cluster = {0: {0: 4, 1: 6}, 1: {0: 8, 1: 8}}
    free = free_racks(cluster)
    everywhere = {node: 3 for racks in free.values() for members in racks.values() for node in members}
    classes = PodClasses({rank: rank % 2 for rank in range(12)}, everywhere)
    job = reference.Job(12, 4, 2)
    request = RackRequest(RackShape(4, 2, 3), (0, 1, 2), classes=classes)
    answer = select(free, request, 64)
    assert not isinstance(answer, Reason)
    assert places(answer) == reference.place(cluster, job, 64)


def test_many_groups_of_pods_that_differ_end_in_time_P8() -> None:
    """A pod that no node can take: the search ends although there are very many ways to try."""
    free = free_racks({0: dict.fromkeys(range(12), 8)})
    masks = {node: 0b10 for members in free[0].values() for node in members}
    masks[free[0][0][0]] = 0b01
    classes = PodClasses({rank: 0 if rank in (0, 90) else 1 for rank in range(96)}, masks)
    answer = select(free, RackRequest(RackShape(96, 2, 1), (0,), classes=classes), 96)
    assert isinstance(answer, Reason)


def test_parts_name_each_run_of_one_rack() -> None:
    answer = select(free_racks({0: {0: 2, 1: 4, 2: 6}}), asked(reference.Job(8, 8, 2)), 64)
    assert not isinstance(answer, Reason)
    block: RackBlock = answer[0]
    assert block.parts() == [(0, 0, 2), (0, 1, 4), (0, 2, 2)]
    assert per_rack(answer) == {(0, 0): 2, (0, 1): 4, (0, 2): 2}

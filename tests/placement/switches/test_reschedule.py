"""Rule S9: healthy pods keep their nodes, failed ones are placed near the job."""

from __future__ import annotations

import pytest

from ringwise.placement.matching import PodClasses
from ringwise.placement.switches.classes import SwitchClass
from ringwise.placement.switches.positions import PodPosition
from ringwise.placement.switches.reschedule import reschedule
from ringwise.placement.switches.states import SwitchFacts, SwitchState
from ringwise.placement.switches.view import (
    SwitchPlan,
    SwitchRequest,
    SwitchSettings,
    SwitchView,
    TopologyView,
)
from tests.placement.switches.plans import node_of_rank

MODEL, COMMON, PADDING = SwitchClass.FOUNDATION_MODEL, SwitchClass.COMMON, SwitchClass.PADDING
EXCLUSIVE = SwitchFacts(SwitchState.EXCLUSIVE, labeled=True, only_common=False)
SHARED = SwitchFacts(SwitchState.SHARED, labeled=True, only_common=False)
IDLE = SwitchFacts()


def view(
    *leaves: tuple[tuple[int, ...], SwitchFacts], limit: int = 2, version: str = "2.0", single: bool = False
) -> TopologyView:
    """Leaves as (free positions, facts); node ids are leaf * 10 + position."""
    return TopologyView(
        tuple(
            SwitchView(f"leaf-{n}", tuple(n * 10 + p for p in free), free, facts)
            for n, (free, facts) in enumerate(leaves)
        ),
        4,
        SwitchSettings(version, limit),
        single,
    )


def positions(*places: tuple[int, int, int]) -> list[PodPosition]:
    """Survivors as (rank, leaf, mark), at the position that is their rank."""
    return [PodPosition(rank, leaf, rank % 4, mark) for rank, leaf, mark in places]


def placed(answer: object) -> dict[int, int]:
    assert isinstance(answer, SwitchPlan), answer
    return node_of_rank(answer)


@pytest.mark.parametrize(
    ("leaves", "survivors", "failed", "expected"),
    [
        # The job's exclusive switch before its shared one.
        ([((3,), EXCLUSIVE), ((2,), SHARED)], positions((0, 0, 2), (1, 0, 2), (3, 1, 1)), [2], {2: 3}),
        # Then its shared one.
        ([((), EXCLUSIVE), ((2,), SHARED)], positions((0, 0, 2), (1, 0, 2), (3, 1, 1)), [2], {2: 12}),
        # Two exclusive ones: the one where the neighbors in rank sit.
        ([((3,), EXCLUSIVE), ((3,), EXCLUSIVE)], positions((0, 0, 2), (4, 1, 2), (6, 1, 2)), [5], {5: 13}),
        # Ranks return to their neighbors, whichever order the switches have.
        (
            [((3,), EXCLUSIVE), ((2,), SHARED)],
            positions((0, 0, 2), (1, 0, 2), (4, 1, 1)),
            [2, 5],
            {2: 3, 5: 12},
        ),
        # An unused healthy shared switch before an idle one.
        ([((), EXCLUSIVE), ((0, 1), IDLE), ((2,), SHARED)], positions((0, 0, 2), (1, 0, 2)), [2], {2: 22}),
    ],
)
def test_order_of_switches_S9(
    leaves: list[tuple[tuple[int, ...], SwitchFacts]],
    survivors: list[PodPosition],
    failed: list[int],
    expected: dict[int, int],
) -> None:
    answer = reschedule(
        view(*leaves), SwitchRequest(MODEL, 8), survivors, [PodPosition(rank) for rank in failed]
    )
    assert placed(answer) == expected


def test_an_idle_switch_becomes_shared_S9() -> None:
    answer = reschedule(
        view(((), EXCLUSIVE), ((0, 1, 2), IDLE)),
        SwitchRequest(MODEL, 4),
        positions((0, 0, 2), (1, 0, 2), (2, 0, 2)),
        [PodPosition(3)],
    )
    assert placed(answer) == {3: 10}
    assert isinstance(answer, SwitchPlan)
    assert (answer.entries[0].mark, answer.entries[0].state) == (1, SwitchState.SHARED)


@pytest.mark.parametrize("now", [SHARED, IDLE])
@pytest.mark.parametrize(("first", "expected"), [((), {2: 20, 3: 21}), ((0,), None)])
def test_a_shared_switch_that_the_job_left_counts_when_it_is_used_again_S9(
    first: tuple[int, ...], expected: dict[int, int] | None, now: SwitchFacts
) -> None:
    """The failed pods may have been its only ones: it is idle now, and their marks tell."""
    failed = [PodPosition(rank, leaf, rank % 4, 1) for rank, leaf in ((2, 1), (3, 2))]
    leaves = view(((), EXCLUSIVE), (first, now), ((0, 1), now), limit=1)
    answer = reschedule(leaves, SwitchRequest(MODEL, 4), positions((0, 0, 2), (1, 0, 2)), failed)
    # The first switch has room for one pod or for none, the other one for both.
    assert (placed(answer) if isinstance(answer, SwitchPlan) else None) == expected


@pytest.mark.parametrize("job_class", [MODEL, COMMON])
def test_the_limit_holds_for_unused_switches_S9(job_class: SwitchClass) -> None:
    busy = [((), SHARED), ((), SHARED)]
    refused = reschedule(
        view(*busy, ((0, 1), IDLE)),
        SwitchRequest(job_class, 4),
        positions((0, 0, 1), (1, 0, 1), (2, 1, 1)),
        [PodPosition(3)],
    )
    assert not isinstance(refused, SwitchPlan)
    assert "2 of 2 shared switches used" in refused.message
    assert refused.message.endswith("not placed")
    within = reschedule(
        view(*busy[:1], ((0, 1), IDLE)),
        SwitchRequest(job_class, 4),
        positions((0, 0, 1), (1, 0, 1)),
        [PodPosition(2), PodPosition(3)],
    )
    assert placed(within) == {2: 10, 3: 11}


def test_an_exclusive_switch_of_another_job_only_within_its_owners_limit_S5() -> None:
    survivors = positions((0, 0, 2), (1, 0, 2), (2, 0, 2))
    for owner_shared, expected in ((1, True), (2, False)):
        foreign = SwitchFacts(SwitchState.EXCLUSIVE, owner_shared=owner_shared, labeled=True)
        answer = reschedule(
            view(((), EXCLUSIVE), ((1,), foreign)), SwitchRequest(MODEL, 4), survivors, [PodPosition(3)]
        )
        assert isinstance(answer, SwitchPlan) is expected


def test_a_foundation_model_returns_to_no_unhealthy_switch_S4() -> None:
    ill = SwitchFacts(SwitchState.SHARED, healthy=False, labeled=True)
    survivors = positions((0, 0, 1), (1, 0, 1), (2, 0, 1))
    assert not isinstance(
        reschedule(view(((3,), ill)), SwitchRequest(MODEL, 4), survivors, [PodPosition(3)]), SwitchPlan
    )
    assert placed(reschedule(view(((3,), ill)), SwitchRequest(COMMON, 4), survivors, [PodPosition(3)])) == {
        3: 3
    }


@pytest.mark.parametrize(("job_class", "single"), [(PADDING, False), (MODEL, True), (COMMON, True)])
def test_one_switch_jobs_return_to_their_peers_S9_S11(job_class: SwitchClass, single: bool) -> None:
    survivors = positions((0, 1, 0))
    roomy = view(((0, 1), IDLE), ((1, 2, 3), IDLE), single=single)
    assert placed(reschedule(roomy, SwitchRequest(job_class, 2), survivors, [PodPosition(1)])) == {1: 11}
    full = view(((0, 1), IDLE), ((), IDLE), single=single)
    refused = reschedule(full, SwitchRequest(job_class, 2), survivors, [PodPosition(1)])
    assert not isinstance(refused, SwitchPlan)
    assert "leaf-1" in refused.message


def test_survivors_outside_the_topology_cause_no_error_S10() -> None:
    survivors = [PodPosition(0), PodPosition(1), PodPosition(2, 0, 2, 1)]
    answer = reschedule(view(((3,), SHARED)), SwitchRequest(MODEL, 4), survivors, [PodPosition(3)])
    assert placed(answer) == {3: 3}
    refused = reschedule(view(((3,), IDLE)), SwitchRequest(PADDING, 2), [PodPosition(0)], [PodPosition(1)])
    assert not isinstance(refused, SwitchPlan)
    assert "0 switches" in refused.message
    nowhere = reschedule(
        view(((3,), IDLE)),
        SwitchRequest(MODEL, 4),
        [PodPosition(0), PodPosition(1), PodPosition(2)],
        [PodPosition(3)],
    )
    assert placed(nowhere) == {3: 3}


def test_a_job_without_survivors_is_placed_anew_with_its_own_ranks_S9() -> None:
    answer = reschedule(view(((0, 1), IDLE)), SwitchRequest(COMMON, 2), [], [PodPosition(4), PodPosition(7)])
    assert placed(answer) == {4: 0, 7: 1}


def test_pods_that_move_with_their_whole_job_count_by_their_marks_S9() -> None:
    """No pod of the job runs, so its switches look idle; they are still the job's own."""
    staying = positions((0, 0, 2), (1, 0, 2), (2, 1, 1))
    answer = reschedule(
        view(((3,), IDLE), ((2, 3), IDLE), limit=1),
        SwitchRequest(MODEL, 5),
        staying,
        [PodPosition(3), PodPosition(4)],
    )
    assert isinstance(answer, SwitchPlan)
    assert [(entry.switch, entry.mark, entry.ranks) for entry in answer.entries] == [
        (0, 2, (3,)),
        (1, 1, (4,)),
    ]
    elsewhere = reschedule(
        view(((), IDLE), ((), IDLE), ((0,), IDLE), limit=1),
        SwitchRequest(MODEL, 4),
        staying,
        [PodPosition(3)],
    )
    assert not isinstance(elsewhere, SwitchPlan)


OWN = SwitchFacts(labeled=True, cross_model=True, only_common=False)


@pytest.mark.parametrize(
    ("leaves", "survivors", "failed", "expected"),
    [
        # A physical row: any free node of its leaf.
        ([((1, 3), OWN)], [PodPosition(0, 0, 0), PodPosition(2, 0, 2)], [PodPosition(1, 0, 1)], 1),
        # A logical row: the failed pod's own position, under the job's leaves first.
        (
            [((2,), IDLE), ((3,), OWN), ((2, 3), OWN)],
            [PodPosition(0, 1, 0), PodPosition(1, 2, 1), PodPosition(3, 1, 3)],
            [PodPosition(2, 1, 2)],
            22,
        ),
        # Position not known: the one missing in the row.
        (
            [((1, 2), IDLE), ((), OWN), ((3,), OWN)],
            [PodPosition(0, 1, 0), PodPosition(1, 2, 1), PodPosition(3, 1, 3)],
            [PodPosition(2)],
            2,
        ),
    ],
)
def test_version1_refills_the_row_S9(
    leaves: list[tuple[tuple[int, ...], SwitchFacts]],
    survivors: list[PodPosition],
    failed: list[PodPosition],
    expected: int,
) -> None:
    answer = reschedule(view(*leaves, version="1.0"), SwitchRequest(MODEL, 4), survivors, failed)
    assert list(placed(answer).values()) == [expected]


def test_version1_common_jobs_take_what_is_left_and_models_wait_S8() -> None:
    other_model = SwitchFacts(labeled=True, cross_model=True)
    other = SwitchFacts(labeled=True)
    leaves = view(((0,), other_model), ((0,), other), ((), OWN), ((), OWN), version="1.0")
    survivors = [PodPosition(0, 2, 0), PodPosition(1, 3, 1), PodPosition(2, 2, 2)]
    assert placed(reschedule(leaves, SwitchRequest(COMMON, 4), survivors, [PodPosition(3, 3, 3)])) == {3: 10}
    waiting = reschedule(leaves, SwitchRequest(MODEL, 4), survivors, [PodPosition(3, 3, 3)])
    assert not isinstance(waiting, SwitchPlan)
    assert "rank 3" in waiting.message
    assert "position 3" in waiting.message


def test_version1_where_not_all_find_a_node_the_first_one_does_S13() -> None:
    """What the others lack refuses the job: it is named, not the first pod."""
    survivors = [PodPosition(0, 0, 0), PodPosition(1, 0, 1)]
    failed = [PodPosition(2, 0, 2), PodPosition(3, 0, 3)]
    classes = PodClasses(dict.fromkeys(range(4), 0), {2: 1, 3: 0})
    request = SwitchRequest(COMMON, 4, classes)
    leaves = view(((2, 3), OWN), version="1.0")
    assert placed(reschedule(leaves, request, survivors, failed[:1])) == {2: 2}
    refused = reschedule(leaves, request, survivors, failed)
    assert not isinstance(refused, SwitchPlan)
    assert "rank 3" in refused.message

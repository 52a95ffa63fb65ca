"""After a fault: healthy pods stay, the failed ones follow the job."""

from __future__ import annotations

import pytest

from ringwise.placement.switches import (
    ClusterView,
    Request,
    Seat,
    State,
    SwitchClass,
    SwitchPlan,
    SwitchSettings,
    SwitchState,
    SwitchView,
    replan,
)
from tests.placement.switches.plans import node_of_rank

MODEL, COMMON, PADDING = SwitchClass.FOUNDATION_MODEL, SwitchClass.COMMON, SwitchClass.PADDING
EXCLUSIVE = SwitchState(State.EXCLUSIVE, labelled=True, only_common=False)
SHARED = SwitchState(State.SHARED, labelled=True, only_common=False)
IDLE = SwitchState()


def view(
    *leaves: tuple[tuple[int, ...], SwitchState], limit: int = 2, version: str = "2.0", single: bool = False
) -> ClusterView:
    """Leaves as (free positions, facts); node ids are leaf * 10 + position."""
    return ClusterView(
        tuple(
            SwitchView(f"leaf-{n}", tuple(n * 10 + p for p in free), free, facts)
            for n, (free, facts) in enumerate(leaves)
        ),
        4,
        SwitchSettings(version, limit),
        single,
    )


def seats(*places: tuple[int, int, int]) -> list[Seat]:
    """Survivors as (rank, leaf, mark), at the position that is their rank."""
    return [Seat(rank, leaf, rank % 4, mark) for rank, leaf, mark in places]


def placed(answer: object) -> dict[int, int]:
    assert isinstance(answer, SwitchPlan), answer
    return node_of_rank(answer)


@pytest.mark.parametrize(
    ("leaves", "survivors", "failed", "expected"),
    [
        # The job's exclusive switch before its shared one.
        ([((3,), EXCLUSIVE), ((2,), SHARED)], seats((0, 0, 2), (1, 0, 2), (3, 1, 1)), [2], {2: 3}),
        # Then its shared one.
        ([((), EXCLUSIVE), ((2,), SHARED)], seats((0, 0, 2), (1, 0, 2), (3, 1, 1)), [2], {2: 12}),
        # Two exclusive ones: the one where the neighbours in rank sit.
        ([((3,), EXCLUSIVE), ((3,), EXCLUSIVE)], seats((0, 0, 2), (4, 1, 2), (6, 1, 2)), [5], {5: 13}),
        # Ranks return to their neighbours, whichever order the switches have.
        ([((3,), EXCLUSIVE), ((2,), SHARED)], seats((0, 0, 2), (1, 0, 2), (4, 1, 1)), [2, 5], {2: 3, 5: 12}),
        # An unused healthy shared switch before an idle one.
        ([((), EXCLUSIVE), ((0, 1), IDLE), ((2,), SHARED)], seats((0, 0, 2), (1, 0, 2)), [2], {2: 22}),
    ],
)
def test_order_of_switches(
    leaves: list[tuple[tuple[int, ...], SwitchState]],
    survivors: list[Seat],
    failed: list[int],
    expected: dict[int, int],
) -> None:
    answer = replan(view(*leaves), Request(MODEL, 8), survivors, [Seat(rank) for rank in failed])
    assert placed(answer) == expected


def test_an_idle_switch_becomes_shared() -> None:
    answer = replan(
        view(((), EXCLUSIVE), ((0, 1, 2), IDLE)),
        Request(MODEL, 4),
        seats((0, 0, 2), (1, 0, 2), (2, 0, 2)),
        [Seat(3)],
    )
    assert placed(answer) == {3: 10}
    assert isinstance(answer, SwitchPlan)
    assert (answer.entries[0].mark, answer.entries[0].state) == (1, State.SHARED)


@pytest.mark.parametrize("job_class", [MODEL, COMMON])
def test_the_limit_holds_for_unused_switches(job_class: SwitchClass) -> None:
    busy = [((), SHARED), ((), SHARED)]
    refused = replan(
        view(*busy, ((0, 1), IDLE)), Request(job_class, 4), seats((0, 0, 1), (1, 0, 1), (2, 1, 1)), [Seat(3)]
    )
    assert not isinstance(refused, SwitchPlan)
    assert "of 2 shared switches allowed it uses 2" in refused.message
    within = replan(
        view(*busy[:1], ((0, 1), IDLE)),
        Request(job_class, 4),
        seats((0, 0, 1), (1, 0, 1)),
        [Seat(2), Seat(3)],
    )
    assert placed(within) == {2: 10, 3: 11}


def test_an_exclusive_switch_of_another_job_only_within_its_owners_limit() -> None:
    survivors = seats((0, 0, 2), (1, 0, 2), (2, 0, 2))
    for owner_shared, expected in ((1, True), (2, False)):
        foreign = SwitchState(State.EXCLUSIVE, owner_shared=owner_shared, labelled=True)
        answer = replan(view(((), EXCLUSIVE), ((1,), foreign)), Request(MODEL, 4), survivors, [Seat(3)])
        assert isinstance(answer, SwitchPlan) is expected


def test_a_foundation_model_returns_to_no_unhealthy_switch() -> None:
    ill = SwitchState(State.SHARED, healthy=False, labelled=True)
    survivors = seats((0, 0, 1), (1, 0, 1), (2, 0, 1))
    assert not isinstance(replan(view(((3,), ill)), Request(MODEL, 4), survivors, [Seat(3)]), SwitchPlan)
    assert placed(replan(view(((3,), ill)), Request(COMMON, 4), survivors, [Seat(3)])) == {3: 3}


@pytest.mark.parametrize(("job_class", "single"), [(PADDING, False), (MODEL, True), (COMMON, True)])
def test_one_switch_jobs_return_to_their_peers(job_class: SwitchClass, single: bool) -> None:
    survivors = seats((0, 1, 0))
    roomy = view(((0, 1), IDLE), ((1, 2, 3), IDLE), single=single)
    assert placed(replan(roomy, Request(job_class, 2), survivors, [Seat(1)])) == {1: 11}
    full = view(((0, 1), IDLE), ((), IDLE), single=single)
    refused = replan(full, Request(job_class, 2), survivors, [Seat(1)])
    assert not isinstance(refused, SwitchPlan)
    assert "leaf-1" in refused.message


def test_survivors_outside_the_topology_hurt_nobody() -> None:
    survivors = [Seat(0), Seat(1), Seat(2, 0, 2, 1)]
    answer = replan(view(((3,), SHARED)), Request(MODEL, 4), survivors, [Seat(3)])
    assert placed(answer) == {3: 3}
    refused = replan(view(((3,), IDLE)), Request(PADDING, 2), [Seat(0)], [Seat(1)])
    assert not isinstance(refused, SwitchPlan)
    assert "0 switches" in refused.message
    nowhere = replan(view(((3,), IDLE)), Request(MODEL, 4), [Seat(0), Seat(1), Seat(2)], [Seat(3)])
    assert placed(nowhere) == {3: 3}


def test_a_job_without_survivors_is_placed_anew_with_its_own_ranks() -> None:
    answer = replan(view(((0, 1), IDLE)), Request(COMMON, 2), [], [Seat(4), Seat(7)])
    assert placed(answer) == {4: 0, 7: 1}


def test_pods_that_move_with_their_whole_job_count_by_their_marks() -> None:
    """No pod of the job runs, so its switches look idle; they are still the job's own."""
    staying = seats((0, 0, 2), (1, 0, 2), (2, 1, 1))
    answer = replan(
        view(((3,), IDLE), ((2, 3), IDLE), limit=1), Request(MODEL, 5), staying, [Seat(3), Seat(4)]
    )
    assert isinstance(answer, SwitchPlan)
    assert [(entry.switch, entry.mark, entry.ranks) for entry in answer.entries] == [
        (0, 2, (3,)),
        (1, 1, (4,)),
    ]
    elsewhere = replan(
        view(((), IDLE), ((), IDLE), ((0,), IDLE), limit=1), Request(MODEL, 4), staying, [Seat(3)]
    )
    assert not isinstance(elsewhere, SwitchPlan)


OWN = SwitchState(labelled=True, cross_model=True, only_common=False)


@pytest.mark.parametrize(
    ("leaves", "survivors", "failed", "expected"),
    [
        # A physical row: any free node of its leaf.
        ([((1, 3), OWN)], [Seat(0, 0, 0), Seat(2, 0, 2)], [Seat(1, 0, 1)], 1),
        # A logical row: the failed pod's own position, under the job's leaves first.
        (
            [((2,), IDLE), ((3,), OWN), ((2, 3), OWN)],
            [Seat(0, 1, 0), Seat(1, 2, 1), Seat(3, 1, 3)],
            [Seat(2, 1, 2)],
            22,
        ),
        # Position not known: the one missing in the row.
        (
            [((1, 2), IDLE), ((), OWN), ((3,), OWN)],
            [Seat(0, 1, 0), Seat(1, 2, 1), Seat(3, 1, 3)],
            [Seat(2)],
            2,
        ),
    ],
)
def test_version1_repairs_the_row(
    leaves: list[tuple[tuple[int, ...], SwitchState]],
    survivors: list[Seat],
    failed: list[Seat],
    expected: int,
) -> None:
    answer = replan(view(*leaves, version="1.0"), Request(MODEL, 4), survivors, failed)
    assert list(placed(answer).values()) == [expected]


def test_version1_common_jobs_take_what_is_left_and_models_wait() -> None:
    other_model = SwitchState(labelled=True, cross_model=True)
    other = SwitchState(labelled=True)
    leaves = view(((0,), other_model), ((0,), other), ((), OWN), ((), OWN), version="1.0")
    survivors = [Seat(0, 2, 0), Seat(1, 3, 1), Seat(2, 2, 2)]
    assert placed(replan(leaves, Request(COMMON, 4), survivors, [Seat(3, 3, 3)])) == {3: 10}
    waiting = replan(leaves, Request(MODEL, 4), survivors, [Seat(3, 3, 3)])
    assert not isinstance(waiting, SwitchPlan)
    assert "rank 3" in waiting.message
    assert "position 3" in waiting.message

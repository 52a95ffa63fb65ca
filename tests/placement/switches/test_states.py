"""Rules S1 and S2: classes of jobs, and states computed from the live pods only."""

from __future__ import annotations

import pytest

from ringwise.placement.switches.classes import SwitchClass, classify
from ringwise.placement.switches.states import SwitchFacts, SwitchJob, SwitchState, as_version1, switch_states
from ringwise.reasons import Reason

MODEL, COMMON, PADDING = SwitchClass.FOUNDATION_MODEL, SwitchClass.COMMON, SwitchClass.PADDING


@pytest.mark.parametrize(
    ("label", "npu_pods", "expected"),
    [
        ("large-model-schema", 4, MODEL),
        ("large-model-schema", 3, PADDING),
        ("large-model-schema", 1, PADDING),
        ("normal-schema", 1, COMMON),
        ("normal-schema", 400, COMMON),
        ("null", 8, None),
        (None, 8, None),
        ("large-model-schema", 0, None),
    ],
)
def test_class_of_a_job_S1(label: str | None, npu_pods: int, expected: SwitchClass | None) -> None:
    assert classify(label, npu_pods) is expected


@pytest.mark.parametrize("label", ["Normal-Schema", "large-model-schemanormal-schema", "true", " ", ""])
def test_any_other_label_is_refused_S1(label: str) -> None:
    refused = classify(label, 8)
    assert isinstance(refused, Reason)
    assert label in refused.message
    assert refused.fixes


def job(key: str, job_class: SwitchClass, *pods: tuple[int, int]) -> SwitchJob:
    return SwitchJob(key, job_class, pods)


def test_shared_beats_exclusive_beats_idle_S2() -> None:
    states = switch_states(
        4,
        [
            job("a", MODEL, (0, 2), (0, 2), (1, 1), (2, 2)),
            job("b", MODEL, (2, 1), (3, 0)),
            job("c", PADDING, (3, 2), (3, 1)),
        ],
        2,
    )
    assert [s.state for s in states] == [
        SwitchState.EXCLUSIVE,
        SwitchState.SHARED,
        SwitchState.SHARED,
        SwitchState.IDLE,
    ]
    assert [s.labeled for s in states] == [True, True, True, True]


def test_padding_jobs_leave_a_switch_idle_S2() -> None:
    assert switch_states(1, [job("p", PADDING, (0, 1), (0, 2))], 1) == [SwitchFacts()]


def test_health_is_counted_per_job_S2() -> None:
    over = job("over", COMMON, (0, 1), (1, 1), (2, 1))
    beside = job("beside", COMMON, (2, 1), (3, 1))
    assert [s.healthy for s in switch_states(4, [over, beside], 2)] == [False, False, False, True]
    assert [s.healthy for s in switch_states(4, [beside], 2)] == [True] * 4
    assert [s.healthy for s in switch_states(4, [beside], 1)] == [True, True, False, False]


def test_a_converted_switch_is_shared_for_its_owner_too_S5() -> None:
    owner = job("owner", MODEL, (0, 2), (1, 2), (2, 1))
    guest = job("guest", COMMON, (0, 1))
    alone = switch_states(3, [owner], 2)
    assert (alone[0].owner_shared, alone[1].owner_shared) == (1, 1)
    both = switch_states(3, [owner, guest], 2)
    assert both[0].state is SwitchState.SHARED
    assert both[1].owner_shared == 2
    assert all(state.healthy for state in both)
    assert not switch_states(3, [owner, guest], 1)[2].healthy


def test_which_switches_carry_foundation_models_S7() -> None:
    states = switch_states(
        4, [job("m", MODEL, (0, 0), (1, 0)), job("one", MODEL, (2, 0)), job("c", COMMON, (3, 1), (0, 1))], 2
    )
    assert [s.only_common for s in states] == [False, False, False, True]
    assert [s.cross_model for s in states] == [True, True, False, False]


def test_version_1_shows_idle_or_not_S8() -> None:
    old_marks = [job("a", COMMON, (0, 0), (1, 1), (2, 1)), job("p", PADDING, (3, 0))]
    states = [as_version1(facts) for facts in switch_states(5, old_marks, 1)]
    assert [facts.state for facts in states] == [SwitchState.EXCLUSIVE] * 3 + [SwitchState.IDLE] * 2
    assert all(facts.healthy for facts in states)

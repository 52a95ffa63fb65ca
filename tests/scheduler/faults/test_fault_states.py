"""The states of a faulty job are a table: complete, without a state that cannot be left."""

from __future__ import annotations

from pathlib import Path

import pytest

from ringwise.scheduler.faults.states import (
    ENDED,
    TRANSITIONS,
    State,
    StateEvent,
    UndefinedTransition,
    next_state,
)

#: What a new leader does with a job that it reads back in a state.
RECOVERY = {
    State.FAULTY: "checks the policy; no pod was deleted yet",
    State.BLOCKED: "checks the policy again",
    State.DELETING: "deletes remaining pods again (terminating ones by force); the UID protects new pods",
    State.WAITING: "continues with the counted seconds; previous nodes stay reserved for their time",
}


def test_every_transition_is_defined_once() -> None:
    pairs = [(one.state, one.happened) for one in TRANSITIONS]
    assert len(pairs) == len(set(pairs))
    assert {one.happened for one in TRANSITIONS} == set(StateEvent)


def test_every_state_can_be_reached_and_ends() -> None:
    reached = {State.HEALTHY}
    while more := {one.to for one in TRANSITIONS if one.state in reached} - reached:
        reached |= more
    assert reached == set(State)
    for state in set(State) - ENDED - {State.HEALTHY}:
        assert next_state(state, StateEvent.JOB_GONE) is State.FORGOTTEN


def test_F1_every_state_that_is_kept_has_its_recovery() -> None:
    assert RECOVERY.keys() == set(State) - ENDED - {State.HEALTHY}


def test_an_undefined_transition_is_a_defect() -> None:
    with pytest.raises(UndefinedTransition, match="Healthy"):
        next_state(State.HEALTHY, StateEvent.PLACED)


def test_the_page_shows_every_transition_and_recovery() -> None:
    page = (Path(__file__).parents[3] / "docs" / "guides" / "rescheduling.md").read_text(encoding="utf-8")
    for one in TRANSITIONS:
        assert f"| {one.state.value} | {one.happened.value} | {one.to.value} | {one.does} |" in page
    for state, text in RECOVERY.items():
        assert f"| {state.value} | {text} |" in page

"""Which errors are retried, and which are given up."""

from __future__ import annotations

import random

import pytest

from ringwise.kubeclient.client import MAX_CONFLICTS, ApiError
from ringwise.kubeclient.retry import GivenUpError, Retrier
from tests.event_loop import run
from tests.kube.harness import InstantClock


@pytest.mark.parametrize(
    ("answers", "tries"),
    [
        ([ApiError(409, "Conflict", "the quota changed")] * 2, 3),
        ([ApiError(429, "TooManyRequests", "later"), ApiError(500, "InternalError", "oh")], 3),
    ],
)
def test_errors_that_can_pass_are_retried(answers: list[ApiError], tries: int) -> None:
    assert _tries(answers) == (tries, None)


@pytest.mark.parametrize(
    ("answer", "tries"),
    [
        (ApiError(409, "AlreadyExists", "it is there"), 1),
        (ApiError(409, "Conflict", "the UID in the precondition does not match"), MAX_CONFLICTS),
        (ApiError(403, "Forbidden", "no"), 1),
        (ApiError(404, "NotFound", "gone"), 1),
    ],
)
def test_permanent_errors_are_given_up_with_their_status(answer: ApiError, tries: int) -> None:
    assert _tries([answer] * 20) == (tries, answer.status)


def _tries(answers: list[ApiError]) -> tuple[int, int | None]:
    """Number of attempts, and the status with which it was given up."""
    made = 0
    status: int | None = None

    async def action() -> None:
        nonlocal made
        made += 1
        if made <= len(answers):
            raise answers[made - 1]

    async def test() -> None:
        nonlocal status
        clock = InstantClock()
        try:
            await Retrier(clock, rng=random.Random(1)).run(action)
        except GivenUpError as error:
            status = error.status

    run(test())
    return made, status


async def test_nothing_is_tried_when_writing_is_not_allowed() -> None:
    attempts: list[int] = []

    async def action() -> None:
        attempts.append(1)

    with pytest.raises(GivenUpError, match="no longer the leader"):
        await Retrier(InstantClock(), may_write=lambda: False).run(action)
    assert attempts == []

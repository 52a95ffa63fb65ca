"""What is tried again, and what is given up."""

from __future__ import annotations

import random

import pytest

from ringwise.kube.run.leader_election import Fence
from ringwise.kube.write.ordered_work import MOST_CONFLICTS, Chains, GivenUpError, Persistence
from ringwise.kubeclient.client import ApiError
from tests.kube.harness import JumpingClock, run


@pytest.mark.parametrize(
    ("answers", "tries"),
    [
        ([ApiError(409, "Conflict", "the quota changed")] * 2, 3),
        ([ApiError(429, "TooManyRequests", "later"), ApiError(500, "InternalError", "oh")], 3),
    ],
)
def test_what_passes_is_tried_again(answers: list[ApiError], tries: int) -> None:
    assert _tries(answers) == (tries, None)


@pytest.mark.parametrize(
    ("answer", "tries"),
    [
        (ApiError(409, "AlreadyExists", "it is there"), 1),
        (ApiError(409, "Conflict", "the UID in the precondition does not match"), MOST_CONFLICTS),
        (ApiError(403, "Forbidden", "no"), 1),
        (ApiError(404, "NotFound", "gone"), 1),
    ],
)
def test_what_stays_is_given_up_with_its_status(answer: ApiError, tries: int) -> None:
    assert _tries([answer] * 20) == (tries, answer.status)


def _tries(answers: list[ApiError]) -> tuple[int, int | None]:
    """How often it was tried, and with which status it was given up."""
    made = 0
    status: int | None = None

    async def action() -> None:
        nonlocal made
        made += 1
        if made <= len(answers):
            raise answers[made - 1]

    async def test() -> None:
        nonlocal status
        clock = JumpingClock()
        fence = Fence(clock)
        fence.open_for_good()
        try:
            await Persistence(fence, clock, random.Random(1)).insist(action)
        except GivenUpError as error:
            status = error.status

    run(test())
    return made, status


def test_a_defect_in_one_step_does_not_lose_the_next() -> None:
    done: list[str] = []

    async def broken() -> None:
        raise ValueError("a defect")

    async def sound() -> None:
        done.append("next")

    async def test() -> None:
        chains = Chains()
        chains.add("job", [broken])
        chains.add("job", [sound])
        await chains.finish()

    run(test())
    assert done == ["next"]

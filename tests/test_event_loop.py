"""Tests that are coroutines are awaited, and leave nothing behind."""

from __future__ import annotations

import asyncio

import pytest

from tests.event_loop import run


@pytest.mark.xfail(raises=AssertionError, reason="shows that a failed assertion of a coroutine is noticed")
async def test_a_coroutine_is_awaited() -> None:
    await asyncio.sleep(0)
    raise AssertionError


def test_a_task_that_is_left_fails_the_test() -> None:
    tasks: list[asyncio.Task[None]] = []

    async def leave_a_task() -> None:
        tasks.append(asyncio.create_task(asyncio.sleep(60), name="left"))

    with pytest.raises(AssertionError, match="left"):
        run(leave_a_task())

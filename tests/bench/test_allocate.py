"""`ringwise bench allocate`: what it counts. How long calls take is not asserted."""

from __future__ import annotations

import asyncio
import json

import pytest

from ringwise_bench import allocate
from ringwise_bench.virtual_loop import LoopClock, VirtualLoop


def test_a_virtual_hour_takes_no_time_and_keeps_the_order() -> None:
    async def hours() -> list[str]:
        clock = LoopClock(0)
        done: list[str] = []

        async def after(seconds: float, name: str) -> None:
            await clock.sleep(seconds)
            done.append(f"{name} {clock.monotonic():g}")

        await asyncio.gather(
            after(7200, "late"), after(3600, "early"), asyncio.to_thread(done.append, "thread")
        )
        assert clock.now() == 7200 * 10**9
        return done

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(hours()) == ["thread", "early 3600", "late 7200"]


@pytest.mark.full
def test_an_idle_plugin_asks_little(capsys: pytest.CaptureFixture[str]) -> None:
    """Four watches that end within the hour, and a report every five minutes."""
    allocate.idle_hour()
    figures = json.loads(capsys.readouterr().out)
    assert 12 <= figures["requests"] <= allocate.REQUESTS_GOAL

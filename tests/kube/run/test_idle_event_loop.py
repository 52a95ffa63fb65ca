"""An event loop that shows when it is idle."""

from __future__ import annotations

import asyncio
import threading

from ringwise.kube.run import idle_event_loop as idle_event_loop
from tests.timeouts import TEST_TIMEOUT


def test_it_is_idle_while_it_waits_and_busy_while_it_works() -> None:
    async def test() -> list[bool]:
        loop, idle = asyncio.get_running_loop(), idle_event_loop.loop_idle_event()
        seen = [idle.is_set()]
        answer: asyncio.Future[bool] = loop.create_future()

        def look() -> None:
            # Only another thread can see the loop wait.
            waits = idle.wait(TEST_TIMEOUT)
            loop.call_soon_threadsafe(answer.set_result, waits)

        watcher = threading.Thread(target=look)
        watcher.start()
        seen.append(await asyncio.wait_for(answer, TEST_TIMEOUT))
        seen.append(idle.is_set())
        # Polling without waiting is not idle.
        await asyncio.sleep(0)
        seen.append(idle.is_set())
        watcher.join()
        return seen

    assert idle_event_loop.run(test()) == [False, True, False, False]


async def test_another_loop_always_counts_as_idle() -> None:
    assert idle_event_loop.loop_idle_event().is_set()

"""A loop that tells when it has nothing to do."""

from __future__ import annotations

import asyncio
import threading

from ringwise.kube.run import idle_event_loop as idle_event_loop

#: Seconds after which a loop that does not answer is taken for hung.
PATIENCE = 10.0


def test_it_is_idle_while_it_waits_and_busy_while_it_works() -> None:
    async def test() -> list[bool]:
        loop, idle = asyncio.get_running_loop(), idle_event_loop.loop_idle_event()
        seen = [idle.is_set()]
        answer: asyncio.Future[bool] = loop.create_future()

        def look() -> None:
            # Only another thread can see it wait.
            waits = idle.wait(PATIENCE)
            loop.call_soon_threadsafe(answer.set_result, waits)

        watcher = threading.Thread(target=look)
        watcher.start()
        seen.append(await asyncio.wait_for(answer, PATIENCE))
        seen.append(idle.is_set())
        # To look without waiting is no pause.
        await asyncio.sleep(0)
        seen.append(idle.is_set())
        watcher.join()
        return seen

    assert idle_event_loop.run(test()) == [False, True, False, False]


def test_a_loop_that_does_not_tell_is_never_waited_for() -> None:
    async def test() -> bool:
        return idle_event_loop.loop_idle_event().is_set()

    assert asyncio.run(test())

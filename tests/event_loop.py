"""Run a coroutine of a test in an event loop of its own: no task or thread may be left."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

from tests.timeouts import TEST_TIMEOUT


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run a test; it fails when it leaves tasks or threads running."""

    async def checked() -> None:
        async with asyncio.timeout(TEST_TIMEOUT):
            await test
        # Run the callbacks of closed connections.
        for _ in range(5):
            await asyncio.sleep(0)
        # A task that ends by itself, for example with the thread it waits for, is not left running.
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        left = [task.get_name() for task in (await asyncio.wait(tasks, timeout=5))[1]] if tasks else []
        assert not left, f"tasks still running: {left}"
        threads = [thread.name for thread in threading.enumerate() if thread.name == "core"]
        assert not threads, f"threads still running: {threads}"

    asyncio.run(checked())

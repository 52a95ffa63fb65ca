"""Tasks of the event loop: what runs beside something else, what comes first, and what is repeated."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from ringwise.log import Logger

_LOG = Logger()


def stop_signal(*more: signal.Signals) -> asyncio.Event:
    """An event that SIGTERM and SIGINT set, and these signals."""
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT, *more):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    return stop


async def end(*tasks: asyncio.Future[Any] | None) -> None:
    """Cancel the tasks and wait until they have ended; None is a task that was not started."""
    started = [task for task in tasks if task is not None]
    for task in started:
        task.cancel()
    await asyncio.gather(*started, return_exceptions=True)


@asynccontextmanager
async def running(**works: Coroutine[Any, Any, Any]) -> AsyncIterator[None]:
    """Run the works, by their names, until the block ends."""
    tasks = [asyncio.create_task(work, name=name.replace("_", " ")) for name, work in works.items()]
    try:
        yield
    finally:
        await end(*tasks)


async def first_of(*works: Coroutine[Any, Any, Any]) -> None:
    """Wait until one of the works has ended, and cancel the others."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end(*tasks)


async def repeat(
    seconds: float,
    work: Callable[[], Awaitable[object]],
    tolerated: tuple[type[Exception], ...] = (),
    warning: str = "",
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    **fields: object,
) -> None:
    """Do some work after each pause, until this is canceled. Errors that are tolerated are logged."""
    while True:
        await sleep(seconds)
        try:
            await work()
        except tolerated as error:
            _LOG.warning(warning, why=str(error), **fields)

"""Work in order for one object."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ringwise.kube.write.ordered_work import OrderedWork
from tests.kube.harness import until


async def test_an_internal_error_in_one_step_does_not_lose_the_next() -> None:
    done: list[str] = []

    async def broken() -> None:
        raise ValueError("a defect")

    async def sound() -> None:
        done.append("next")

    ordered_work = OrderedWork()
    ordered_work.add("job", [broken])
    ordered_work.add("job", [sound])
    await ordered_work.finish()
    assert done == ["next"]


def noting(done: list[str], what: str) -> Callable[[], Coroutine[Any, Any, None]]:
    async def note() -> None:
        done.append(what)

    return note


async def test_a_patient_step_waits_and_gives_its_place_to_the_next_of_its_kind() -> None:
    first, done = asyncio.Event(), list[str]()

    async def wait() -> None:
        await first.wait()

    ordered_work = OrderedWork(wait=wait)
    for number in range(3):
        ordered_work.add("job", [noting(done, f"counts {number}")], kind="Running", patient=True)
        await asyncio.sleep(0)
    assert done == []
    first.set()
    await ordered_work.finish()
    assert done == ["counts 2"]


async def test_a_patient_step_that_another_step_follows_at_once_does_not_wait() -> None:
    done = list[str]()

    async def wait() -> None:
        await asyncio.Event().wait()

    ordered_work = OrderedWork(wait=wait)
    ordered_work.add("job", [noting(done, "counts")], kind="Running", patient=True)
    ordered_work.add("job", [noting(done, "deleted")])
    await until(lambda: done == ["counts", "deleted"])
    await ordered_work.finish()


async def test_a_patient_step_keeps_no_other_step_waiting() -> None:
    done = list[str]()

    async def wait() -> None:
        await asyncio.Event().wait()

    ordered_work = OrderedWork(wait=wait)
    ordered_work.add("job", [noting(done, "counts")], kind="Running", patient=True)
    ordered_work.add("other", [noting(done, "other")])
    await until(lambda: done == ["other"])
    ordered_work.add("job", [noting(done, "ended")], kind="Completed")
    ordered_work.add("job", [noting(done, "deleted")])
    await ordered_work.finish()
    assert done == ["other", "counts", "ended", "deleted"]
    ordered_work.add("job", [noting(done, "never")], kind="Running", patient=True)
    await asyncio.sleep(0)
    await ordered_work.stop()
    assert done[-1] == "deleted"

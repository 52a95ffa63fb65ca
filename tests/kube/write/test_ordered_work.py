"""Work in order for one object."""

from __future__ import annotations

from ringwise.kube.write.ordered_work import OrderedWork
from tests.kube.harness import run


def test_an_internal_error_in_one_step_does_not_lose_the_next() -> None:
    done: list[str] = []

    async def broken() -> None:
        raise ValueError("a defect")

    async def sound() -> None:
        done.append("next")

    async def test() -> None:
        ordered_work = OrderedWork()
        ordered_work.add("job", [broken])
        ordered_work.add("job", [sound])
        await ordered_work.finish()

    run(test())
    assert done == ["next"]

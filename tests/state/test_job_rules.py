"""Tasks that depend on others: who waits in a circle, found at the cost of reading the job once."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from ringwise.state.job_rules import problems_of
from ringwise.state.vcjob import VcJob
from tests.builders.values import job_of, task_of
from tests.controller.controller_lab import lab_with, pods_in


class CountedName(str):
    """A name that counts how often it is looked up or compared."""

    __slots__ = ()
    uses = 0

    def __hash__(self) -> int:
        CountedName.uses += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        CountedName.uses += 1
        return super().__eq__(other)


def chain(tasks: int) -> VcJob:
    """Each task depends on the one before it, the last comes first."""
    names = [CountedName(f"t{number}") for number in range(tasks)]
    return job_of(
        *(
            task_of(name, 1, depends_on=names[number - 1 : number] if number else [])
            for number, name in reversed(list(enumerate(names)))
        )
    )


def uses_of(run: Callable[[VcJob], object], tasks: int) -> int:
    job = chain(tasks)
    CountedName.uses = 0
    run(job)
    return CountedName.uses


def test_a_chain_of_tasks_is_checked_in_one_pass() -> None:
    assert problems_of(chain(50)) == ()
    assert uses_of(problems_of, 400) <= 2.5 * uses_of(problems_of, 200)


def test_the_controller_finds_the_tasks_that_may_start_in_one_pass() -> None:
    def started(job: VcJob) -> None:
        lab = lab_with(job)
        lab.run_until(0)
        assert list(pods_in(lab)) == ["train-t0-0"]

    assert uses_of(started, 400) <= 2.5 * uses_of(started, 200)


names = st.sampled_from("abcdef")


@given(st.dictionaries(names, st.lists(names, max_size=3), min_size=1))
def test_tasks_in_a_circle_and_those_behind_it_are_named(depends_on: dict[str, list[str]]) -> None:
    job = job_of(*(task_of(name, 1, depends_on=others) for name, others in depends_on.items()))
    waiting = dict(depends_on)
    while True:
        free = [name for name, others in waiting.items() if not any(other in waiting for other in others)]
        if not free:
            break
        for name in free:
            del waiting[name]
    found = [text.partition("wait for each other: ")[2] for text in problems_of(job) if "each other" in text]
    assert found == ([", ".join(waiting)] if waiting else [])

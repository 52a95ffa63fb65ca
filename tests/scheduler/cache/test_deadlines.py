"""One table of deadlines, compared with a plain one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from ringwise.scheduler.cache.deadlines import Deadlines

if TYPE_CHECKING:
    from _collections_abc import dict_values

KEYS = st.sampled_from("abcd")
TIMES = st.integers(0, 9)
STEPS = st.one_of(
    st.tuples(st.just("put"), KEYS, TIMES),
    st.tuples(st.just("drop"), KEYS, TIMES),
    st.tuples(st.just("take"), KEYS, TIMES),
    st.tuples(st.just("clear"), KEYS, TIMES),
)


@given(st.lists(STEPS, max_size=30))
def test_the_first_deadline_and_those_that_are_due_are_those_of_a_plain_table(
    steps: list[tuple[str, str, int]],
) -> None:
    table = Deadlines()
    plain: dict[str, int] = {}
    for step, key, time in steps:
        if step == "put":
            table.put(key, time)
            plain[key] = time
        elif step == "drop":
            table.pop(key)
            plain.pop(key, None)
        elif step == "clear":
            table.clear()
            plain.clear()
        else:
            due = [one for one, when in plain.items() if when <= time]
            assert table.due(time) == due
            assert table.take(time) == due
            for one in due:
                del plain[one]
        assert table.first() == min(plain.values(), default=None)
        assert [table.of(one) for one in "abcd"] == [plain.get(one) for one in "abcd"]
        assert [one in table for one in "abcd"] == [one in plain for one in "abcd"]


def test_the_first_deadline_is_not_searched_again_while_it_stays() -> None:
    table = Deadlines()
    times = _Counting()
    table._times = times
    for number in range(100):
        table.put(f"job-{number}", 1_000 + number)
        assert table.first() == 1_000
        assert table.due(999) == []
    table.pop("job-50")
    assert table.first() == 1_000
    assert times.searched == 0
    table.pop("job-0")
    assert table.first() == 1_001
    assert times.searched == 1


class _Counting(dict[str, int]):
    searched = 0

    def values(self) -> dict_values[str, int]:
        self.searched += 1
        return super().values()

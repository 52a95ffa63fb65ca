"""Versions, watches and lost updates, under random streams of writes."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ringwise.embed.objects import ObjectChange, ObjectTable, TableWatch, TooOldError
from tests.examples import examples

KEYS = st.sampled_from(["a", "b", "c"])
KINDS = st.sampled_from(["Pod", "Node"])


def replayed(changes: list[ObjectChange], onto: dict[tuple[str, str], object]) -> None:
    for change in changes:
        if change.gone:
            onto.pop((change.kind, change.key), None)
        else:
            onto[change.kind, change.key] = change.object


class Writers(RuleBasedStateMachine):
    """Watches that are polled at different times, compared with a plain dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.table = ObjectTable(history=4)
        self.plain: dict[tuple[str, str], object] = {}
        self.versions = [0]
        self.watchers: list[tuple[TableWatch, dict[tuple[str, str], object]]] = [
            (TableWatch(self.table), {}),
            (TableWatch(self.table), {}),
        ]

    def note(self) -> None:
        self.versions.append(self.table.version)

    @rule(kind=KINDS, key=KEYS, value=st.integers())
    def put(self, kind: str, key: str, value: int) -> None:
        assert self.table.put(kind, key, value) == self.table.version
        self.plain[kind, key] = value
        self.note()

    @rule(kind=KINDS, key=KEYS)
    def remove(self, kind: str, key: str) -> None:
        assert self.table.remove(kind, key) == self.plain.pop((kind, key), None)

    @rule(which=st.integers(0, 1))
    def poll(self, which: int) -> None:
        watch, seen = self.watchers[which]
        replayed(watch.poll(), seen)
        assert seen == self.plain
        assert watch.poll() == []

    @precondition(lambda self: self.table.version > 0)
    @rule(back=st.integers(0, 8))
    def since(self, back: int) -> None:
        start = max(0, self.table.version - back)
        if back > 4 and start < self.table.version - 4:
            with pytest.raises(TooOldError):
                self.table.since(start)
        else:
            found = [change.version for change in self.table.since(start)]
            assert found == list(range(start + 1, self.table.version + 1))

    @invariant()
    def versions_only_grow(self) -> None:
        assert self.versions == sorted(set(self.versions))

    @invariant()
    def holds_what_was_written(self) -> None:
        assert {(change.kind, change.key): change.object for change in self.table.all()} == self.plain


TestWriters = Writers.TestCase
TestWriters.settings = settings(max_examples=examples(60), stateful_step_count=40)


def test_a_watch_that_fell_behind_lists_again_and_shows_deletions() -> None:
    table = ObjectTable(history=2)
    watch = TableWatch(table)
    table.put("Pod", "kept", 1)
    table.put("Pod", "lost", 2)
    seen: dict[tuple[str, str], object] = {}
    replayed(watch.poll(), seen)
    table.remove("Pod", "lost")
    for value in range(5):
        table.put("Node", "n", value)
    changes = watch.poll()
    assert watch.relists == 1
    assert (changes[0].key, changes[0].gone) == ("lost", True)
    replayed(changes, seen)
    assert seen == {("Pod", "kept"): 1, ("Node", "n"): 4}

"""F1: the record for the next leader: what is written, what is dropped, and what cannot be read."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.apps.extensions import new_scheduler
from ringwise.framework.amounts import Amounts
from ringwise.messages import events as ev
from ringwise.messages.commands import Publish
from ringwise.scheduler.cache import entries, leader_record
from ringwise.scheduler.cache.entries import UNREADABLE, decode, encode
from ringwise.scheduler.cache.record_tables import RecordTable
from ringwise.scheduler.explain.doctor import diagnose
from ringwise.state.loads import Load
from ringwise.wellknown import RECORD_CONFIG_MAPS, UNREAD_RECORD_CONFIG_MAP, VOLCANO_SYSTEM
from tests.builders.records import entries_of, record_with, written_tables
from tests.examples import examples
from tests.scheduler.rig import Rig

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
TABLES = new_scheduler()._context.record.all


class Lines(dict[str, str]):
    """A table of texts in a scheduler that knows the jobs a/x and b/x."""

    def __init__(self, *, droppable: bool) -> None:
        self.rig = Rig(2)
        for namespace in "ab":
            self.rig.submit(f"x-{namespace}", chips=1, namespace=namespace)
        self.rig.run()
        self.table = RecordTable[str]("lines", str, subject=_job_in, droppable=lambda entry: droppable)
        self.rig.machine._context.record.add(self.table)

    def write(self, *keys: str) -> None:
        """Entries of 100 bytes each."""
        for key in keys:
            self.table[key] = "." * (100 - len(key) - 6)
        self.rig.step()


def _job_in(key: str, entry: object) -> str:
    namespace = key.partition("/")[0]
    return f"{namespace}/x-{namespace}"


@pytest.fixture(autouse=True)
def small_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """An object has room for ten entries."""
    monkeypatch.setattr(leader_record, "MAX_OBJECT", 1000)


def test_entries_of_jobs_that_are_gone_are_dropped_first() -> None:
    lines = Lines(droppable=False)
    lines.write("a/1", "gone/1", "a/2", "gone/2")
    assert list(lines.table) == ["a/1", "gone/1", "a/2", "gone/2"], "there is room"
    lines.write(*(f"b/{number}" for number in range(7)))
    # As few as needed, the oldest first.
    assert [key for key in lines.table if key.startswith("gone")] == ["gone/2"]
    assert len(lines.table) == 10


def test_the_namespace_that_has_most_loses_its_oldest_entries() -> None:
    lines = Lines(droppable=True)
    lines.write("a/1", "a/2", *(f"b/{number}" for number in range(10)))
    assert list(lines.table) == ["a/1", "a/2", *(f"b/{number}" for number in range(2, 10))]
    lines.write("a/3")
    assert list(lines.table)[:3] == ["a/1", "a/2", "b/3"]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), max_size=40))
@settings(max_examples=examples(20), deadline=None)
def test_a_namespace_within_its_share_loses_nothing_to_others(steps: list[tuple[str, int]]) -> None:
    lines = Lines(droppable=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leader_record, "MAX_OBJECT", 1000)
        written: dict[str, set[str]] = {"a": set(), "b": set()}
        for namespace, number in steps:
            lines.write(f"{namespace}/{number}")
            written[namespace].add(f"{namespace}/{number}")
            assert sum(table.size for table in lines.rig.machine._context.record.all) <= 1000
    for keys in written.values():
        if len(keys) <= 5:
            assert keys <= lines.table.keys()


def test_entries_that_enforce_something_stay_and_the_record_continues_in_other_objects() -> None:
    lines = Lines(droppable=False)
    keys = [f"{'ab'[number % 2]}/{number}" for number in range(25)]
    lines.write(*keys)
    assert list(lines.table) == keys
    objects = [
        one.name for one in lines.rig.commands if isinstance(one, Publish) and "lines" in str(one.data)
    ]
    assert objects == list(RECORD_CONFIG_MAPS[:3])
    assert list(entries_of(lines.rig.record, "lines")) == keys
    for command in lines.rig.published():
        assert sum(len(text) for text in command.data.values()) <= 1000
    # What is no longer needed is emptied.
    for key in keys[5:]:
        del lines.table[key]
    lines.rig.step()
    assert lines.rig.record.keys() == {"lines.json"}
    assert lines.rig.machine.view.rescheduling_left_out == 0


def test_entries_that_no_object_has_room_for_are_counted() -> None:
    lines = Lines(droppable=False)
    lines.write(*(f"a/{number}" for number in range(100)))
    left = len(entries_of(lines.rig.record, "lines"))
    assert 30 < left < 40
    assert lines.rig.machine.view.rescheduling_left_out == 100 - left


def test_only_entries_that_changed_are_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines(droppable=False)
    lines.write("a/1", "a/2", "a/3")
    encoded: list[object] = []

    def counting(value: object) -> str:
        encoded.append(value)
        return encode(value)

    monkeypatch.setattr(RecordTable, "encode", staticmethod(counting))
    lines.rig.step()
    assert encoded == []
    lines.write("a/2")
    assert len(encoded) == 1
    lines.table.touch("a/3")
    lines.table.rename("a/1", "a/4")
    lines.rig.step()
    assert len(encoded) == 3
    assert list(entries_of(lines.rig.record, "lines")) == ["a/2", "a/3", "a/4"]


def test_a_table_follows_another_one() -> None:
    source = {"a": "1", "b": "2"}
    table = RecordTable[str]("lines", str, source=lambda: source)
    assert table.refresh()
    assert not table.refresh()
    del source["a"]
    source["b"] = "3"
    assert table.refresh()
    assert dict(table) == source


@pytest.mark.parametrize(
    ("tables", "problem"),
    [
        ({"retries.json": '{"version":1,"a":{}}'}, "unsupported version 1: this Ringwise reads version 2"),
        ({"retries.json": "{"}, "is not JSON"),
        ({"retries.json": '{"version":2,"entries":[]}'}, "its entries are not a JSON object"),
        ({"retries.json": '{"version":2,"entries":{"a":{},"b":7}}'}, "2 entries cannot be read"),
        ({"others.json": '{"version":2,"entries":{}}'}, "is not a table of this version"),
    ],
)
def test_what_cannot_be_read_is_copied_and_reported(tables: dict[str, str], problem: str) -> None:
    rig = Rig(1)
    good = record_with("restarts", {"default/train": {"first": 1, "last": 1}})
    rig.tell(ev.LeaderRecordRead({**good.tables, **tables}))
    commands = rig.step()
    (copy,) = [one for one in commands if isinstance(one, Publish) and one.name == UNREAD_RECORD_CONFIG_MAP]
    assert (copy.namespace, copy.data) == (VOLCANO_SYSTEM, tables)
    # The record no longer has it.
    (key,) = tables
    (emptied,) = [one for one in commands if isinstance(one, Publish) and one.name == RECORD_CONFIG_MAPS[0]]
    assert emptied.data[key] == ""
    assert entries_of(rig.record, "restarts").keys() == {"default/train"}
    (finding,) = [one for one in diagnose(rig.machine.view).findings if one.code == "record-unread"]
    assert (finding.object, finding.message.split(";")[0]) == (f"leader record {key}", problem)
    assert rig.step() == []


def test_a_copy_reports_what_it_cannot_read_and_writes_no_copy_of_it() -> None:
    rig = Rig(1)
    rig.tell(ev.LeaderRecordRead({"retries.json": "{"}, takes_over=False))
    assert not [one for one in rig.step() if isinstance(one, Publish)]
    assert rig.machine.view.unread_record == {"retries.json": "is not JSON"}


def test_a_record_that_is_read_is_not_written_again() -> None:
    rig = Rig(1)
    rig.tell(record_with("restarts", {"default/train": {"first": 1, "last": 10**30}}))
    rig.step()
    written = written_tables(rig.commands)
    other = Rig(1)
    other.tell(ev.LeaderRecordRead(written))
    assert written_tables(other.step()) == {}


def test_a_large_entry_is_compressed_and_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = {f"node-{number}": Load(number, 1, 1, (("example.com/x", number),)) for number in range(100)}
    text = encode(loads)
    assert decode(dict[str, Load], json.loads(text)) == loads
    monkeypatch.setattr(entries, "LARGE_ENTRY", 100)
    packed = encode(loads)
    assert '"compressed"' in packed
    assert len(packed) < len(text) // 2
    assert decode(dict[str, Load], json.loads(packed)) == loads
    monkeypatch.setattr(entries, "MAX_UNPACKED", 1000)
    with pytest.raises(ValueError, match="larger than any entry"):
        decode(dict[str, Load], json.loads(packed))


def test_a_share_of_a_chip_is_written_exactly() -> None:
    amounts: Amounts = {"huawei.com/Ascend910": Decimal("0.10"), "cpu": 3}
    text = encode(amounts)
    assert text == '{"huawei.com/Ascend910":"0.10","cpu":3}'
    assert decode(Amounts, json.loads(text)) == amounts
    for wrong in ("0.1", "-0.10", "1e5", "NaN", True, 0.1, -2):
        with pytest.raises(UNREADABLE):
            decode(Amounts, {"cpu": wrong})


@pytest.mark.parametrize("packed", ["", "!", "AAAA", 7, None])
def test_a_compressed_entry_that_cannot_be_read_is_unreadable(packed: object) -> None:
    with pytest.raises(UNREADABLE):
        decode(dict[str, Load], {"compressed": packed})


def test_half_a_character_is_not_read_because_it_could_not_be_written() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        decode(dict[str, Load], {"\ud800": {}})


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
@settings(max_examples=examples(20), deadline=None)
@given(JSON, st.text(max_size=5), JSON)
def test_no_content_makes_reading_fail(
    table: RecordTable[object], given: object, key: str, value: object
) -> None:
    for content in (given, {key: value}, {"": given, key: value}):
        try:
            entry = decode(table.entry, content)
        except UNREADABLE:
            continue
        encode(entry)

"""A journal with records of version 1 is converted, and the next leader knows what it knew."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from tools.convert_journal import converted_line

from ringwise.apps.extensions import new_scheduler
from ringwise.apps.journal.format import JournalError, ReadBatch, open_journal
from ringwise.messages import events as ev
from ringwise.scheduler.cache.record_tables import read_tables
from tests.builders.records import restored
from tests.tools.schemas import SAMPLES

BEFORE = SAMPLES / "records-v1.jsonl"


def converted(folder: Path) -> list[ReadBatch]:
    path = folder / "journal.jsonl"
    path.write_text("".join(map(converted_line, BEFORE.read_text().splitlines(keepends=True))))
    with closing(open_journal(path).batches) as batches:
        return list(batches)


def test_a_journal_of_before_is_refused_as_it_is() -> None:
    with (
        pytest.raises(JournalError, match="ReschedulingRead"),
        closing(open_journal(BEFORE).batches) as batches,
    ):
        list(batches)


def test_every_entry_of_before_is_read_and_known_to_the_next_leader(tmp_path: Path) -> None:
    seen: set[str] = set()
    tables = new_scheduler()._context.record.all
    for batch in converted(tmp_path):
        read = [event for event in batch.events if isinstance(event, ev.LeaderRecordRead)]
        scheduler = new_scheduler(batch.section.configuration)
        for event in read:
            record = restored(event.tables)
            assert sum(map(len, map(record.of, tables))) == sum(
                map(len, read_tables(event.tables)[0].values())
            )
            assert record.unreadable == {}
        scheduler.handle(batch.events, batch.now, ev.Decide.NOTHING)
        assert scheduler.view.unread_record == {}
        known = [one for one in scheduler.view.current_events() if isinstance(one, ev.LeaderRecordRead)]
        before, after = (entries_of(events) for events in (read, known))
        assert before == after
        seen.update(before)
    names = {table.name for table in tables}
    # No sample of before has them.
    assert seen == names - {"throttled", "failed-vnpus", "nodereservations", "isolations", "usagelimits"}


def entries_of(events: list[ev.LeaderRecordRead]) -> dict[str, dict[str, object]]:
    """What is in the tables, decoded: fields with their default need not be written."""
    found: dict[str, dict[str, object]] = {}
    for event in events:
        record = restored(event.tables)
        for table in new_scheduler()._context.record.all:
            if entries := record.of(table):
                found.setdefault(table.name, {}).update({key: repr(one) for key, one in entries.items()})
    return found


def test_other_lines_stay_as_they_are() -> None:
    for line in ('{"format":"ringwise-journal","version":1}\n', json.dumps({"events": []}) + "\n", "torn"):
        assert converted_line(line) == line

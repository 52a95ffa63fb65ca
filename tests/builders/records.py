"""Leader records: what a scheduler wrote, and records as values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ringwise.messages.commands import Command, Publish
from ringwise.messages.events import LeaderRecordRead
from ringwise.scheduler.cache.record_tables import RestoredRecord, read_tables, table_of
from ringwise.versions import LEADER_RECORD_VERSION
from ringwise.wellknown import RECORD_CONFIG_MAPS


def written_tables(commands: Iterable[Command]) -> dict[str, str]:
    """The record as the commands leave it, by data key."""
    texts: dict[str, str] = {}
    for command in commands:
        if isinstance(command, Publish) and command.name in RECORD_CONFIG_MAPS:
            texts |= command.data
    return {key: text for key, text in texts.items() if text}


def entries_of(tables: Mapping[str, str], name: str) -> dict[str, Any]:
    """The entries of one table, as JSON has them."""
    result: dict[str, Any] = {}
    for key, text in tables.items():
        if table_of(key) == name:
            document = json.loads(text)
            assert document["version"] == LEADER_RECORD_VERSION
            result |= document["entries"]
    return result


def written_entries(commands: Iterable[Command], name: str) -> dict[str, Any]:
    return entries_of(written_tables(commands), name)


def with_entries(tables: Mapping[str, str], name: str, entries: object) -> dict[str, str]:
    """The record with other entries in one table."""
    text = json.dumps({"version": LEADER_RECORD_VERSION, "entries": entries})
    return {**{key: one for key, one in tables.items() if table_of(key) != name}, f"{name}.json": text}


def restored(tables: Mapping[str, str]) -> RestoredRecord:
    """The record as a component gets it."""
    return RestoredRecord(read_tables(tables)[0], takes_over=True)


def record_with(name: str, entries: object, *, takes_over: bool = True) -> LeaderRecordRead:
    return LeaderRecordRead(with_entries({}, name, entries), takes_over=takes_over)

"""Journals of earlier versions have other names for some commands."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from ringwise.apps.journal.format import JournalWriter, open_journal
from ringwise.framework.reasons import NO_PODS_YET
from ringwise.messages.commands import Command, RecordJobEvent, SetPodCondition
from ringwise.messages.event_reasons import EventReason
from ringwise.reasons import Reason
from ringwise.scheduler.defaults import default_configuration
from ringwise.scheduler.journal import Batch

COMMANDS: tuple[Command, ...] = (
    RecordJobEvent("lab/one", EventReason.RESCHEDULING, "the whole job is restarted"),
    SetPodCondition("uid", "lab", "one-0", Reason(NO_PODS_YET, {"pods": 1, "needed": 2})),
)
OLD_NAMES = ((b"RecordJobEvent", b"TellJob"), (b"SetPodCondition", b"TellPod"))


def recorded(path: Path) -> list[object]:
    with closing(open_journal(path).batches) as batches:
        return [command for batch in batches for command in batch.commands]


def test_commands_of_old_journals_have_the_names_of_today(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with path.open("wb") as file:
        JournalWriter(file, default_configuration(), ["volcano"])(Batch(1, 5, (), COMMANDS))
    today = recorded(path)
    assert len(today) == 2
    text = path.read_bytes()
    for new, old in OLD_NAMES:
        assert text.count(new) == 1
        text = text.replace(new, old)
    path.write_bytes(text)
    assert recorded(path) == today

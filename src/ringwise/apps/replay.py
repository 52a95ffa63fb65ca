"""Deciding everything in a journal again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

import msgspec

from ringwise.apps.extensions import new_scheduler
from ringwise.apps.journal.format import LEFT_OUT, JournalError, JournalFile, ReadBatch, plain_command
from ringwise.durations import time_text
from ringwise.grammar import counted
from ringwise.messages.commands import Command
from ringwise.records import dataclass
from ringwise.scheduler.core.machine import Scheduler
from ringwise.topology.boards import BoardCatalog
from ringwise.views.documents.reference import DifferenceFields, ReplayDocument
from ringwise.wellknown import (
    FAULT_NODES_CONFIG_MAP,
    RECORD_CONFIG_MAPS,
    RESCHEDULE_REASON_CONFIG_MAP,
)


def decided_again(
    journal: JournalFile, catalog: BoardCatalog
) -> Iterator[tuple[ReadBatch, Scheduler | None, list[Command]]]:
    """Yield each batch with the scheduler that has handled it, and its commands.

    None: what came before, from the start of a scheduler, is not in the journal.
    """
    scheduler: Scheduler | None = None
    before: ReadBatch | None = None
    with closing(journal.batches) as batches:
        for recorded in batches:
            if recorded.snapshot:
                continue
            section = recorded.section
            if recorded.begins:
                scheduler = new_scheduler(
                    section.configuration,
                    catalog,
                    section.scheduler_names,
                    awaits_groups=section.awaits_groups,
                )
            elif not recorded.follows(before):
                scheduler = None
            before = recorded
            commands: list[Command] = []
            if scheduler is not None:
                commands = scheduler.handle(recorded.events, recorded.now, recorded.decide, recorded.marks)
            yield recorded, scheduler, commands


def replay(journal: JournalFile, catalog: BoardCatalog) -> ReplayDocument:
    """Let new schedulers handle the recorded events, and compare their commands with the recorded ones.

    What follows a gap, or a beginning that was rotated away, is left out with a note, up to the next start.
    Raises JournalError when nothing is left.
    """
    batches = events = commands = 0
    omitted = _OmittedBatches()
    difference: DifferenceFields | None = None
    for recorded, scheduler, answer in decided_again(journal, catalog):
        if scheduler is None:
            omitted.add(recorded)
            continue
        batches += 1
        events += len(recorded.events)
        commands += len(answer)
        again = [_again(plain_command(command)) for command in answer]
        difference = _compare(recorded, _decisions(recorded.commands), _decisions(again))
        if difference is not None:
            break
    if omitted.batches and not batches:
        raise JournalError(f"{journal.first.path}: {omitted}; no file contains the start of a scheduler")
    notes = [*journal.notes, *([str(omitted)] if omitted.batches else ())]
    return ReplayDocument(
        identical=difference is None,
        recorded_by=journal.first.written_by,
        batches=batches,
        events=events,
        commands=commands,
        difference=difference,
        note="; ".join(notes) or None,
    )


@dataclass(slots=True)
class _OmittedBatches:
    """Batches that cannot be decided again."""

    batches: int = 0
    since: int = 0
    until: int = 0

    def add(self, recorded: ReadBatch) -> None:
        self.since = self.since or recorded.now
        self.until = recorded.now
        self.batches += 1

    def __str__(self) -> str:
        return (
            f"{counted(self.batches, 'batch')} from {time_text(self.since)} to {time_text(self.until)} "
            "cannot be decided again: what came before is not in the journal"
        )


def _again(document: dict[str, Any]) -> Any:
    """Through JSON and back, as the recorded one went."""
    return msgspec.json.decode(msgspec.json.encode(document))


def _same(recorded: Any, decided: Any) -> bool:
    """The order of the entries of a map is not a decision, and what a bundle omits is unknown."""
    if recorded == LEFT_OUT:
        return True
    if isinstance(recorded, dict) and isinstance(decided, dict):
        return recorded.keys() == decided.keys() and all(
            _same(recorded[key], decided[key]) for key in recorded
        )
    if isinstance(recorded, list) and isinstance(decided, list):
        return len(recorded) == len(decided) and all(map(_same, recorded, decided))
    return type(recorded) is type(decided) and bool(recorded == decided)


def _compare(recorded: ReadBatch, before: list[Any], decided: list[Any]) -> DifferenceFields | None:
    """The first command that is not the recorded one."""
    for position in range(max(len(before), len(decided))):
        then = before[position] if position < len(before) else None
        now = decided[position] if position < len(decided) else None
        if not _same(_decision(then), _decision(now)):
            return DifferenceFields(
                file=str(recorded.section.path),
                line=recorded.line,
                now=recorded.now,
                command=position,
                recorded=then,
                decided=now,
            )
    return None


#: Records of faults and for the next leader (F1). They follow from the decisions and the events, and have
#: sentences in them.
_RECORDS = frozenset({FAULT_NODES_CONFIG_MAP, RESCHEDULE_REASON_CONFIG_MAP, *RECORD_CONFIG_MAPS})


def _decisions(commands: Iterable[Any]) -> list[Any]:
    return [one for one in commands if not _is_record(one)]


def _is_record(command: Any) -> bool:
    return isinstance(command, dict) and command["type"] == "Publish" and command.get("name") in _RECORDS


#: Sentences of a command. They may be worded differently in another version.
_SENTENCES = frozenset({"message", "fixes", "why"})


def _decision(command: Any) -> Any:
    """A command without its sentences: of a reason, the code and the details that are not sentences."""
    if not isinstance(command, dict):
        return command
    rest = {key: value for key, value in command.items() if key not in _SENTENCES}
    if isinstance(rest.get("reason"), dict):
        reason = {key: value for key, value in rest["reason"].items() if key not in _SENTENCES}
        rest["reason"] = {**reason, "details": _without_sentences(reason.get("details"))}
    return rest


#: Details that guess what was meant by how it is spelled: a part of a fix. In a support bundle names are
#: spelled differently.
_GUESSES = frozenset({"nearest"})


def _without_sentences(value: Any) -> Any:
    if isinstance(value, str) and " " in value:
        return None
    if isinstance(value, dict):
        return {
            key: _without_sentences(item)
            for key, item in value.items()
            if not (key in _GUESSES and isinstance(item, str))
        }
    if isinstance(value, list):
        return [_without_sentences(item) for item in value]
    return value

"""The journal as a file, and deciding everything in it again.

One JSON object per line. The first is the header: format, version, configuration, and the
scheduler names. Every other line is one batch: time, events with their type, the commands
that were decided, and `decide` where not everything was to be decided (`ringwise place`). A file
may end in the middle of a line (the process died while writing); everything before it counts.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import field, fields, is_dataclass
from pathlib import Path
from typing import IO, Any, get_args

import msgspec

from ringwise import __version__
from ringwise.apps.extensions import installed_registry, new_scheduler
from ringwise.framework.configuration import Configuration, PluginOption, Settings, Tier
from ringwise.manifests.errors import one_line
from ringwise.messages import events as ev
from ringwise.messages.commands import Command
from ringwise.messages.events import Decide
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.scheduler.journal import Batch
from ringwise.topology.boards import BoardCatalog
from ringwise.views.documents.reference import DifferenceFields, ReplayDocument
from ringwise.wellknown import (
    FAULT_NODES_CONFIG_MAP,
    RESCHEDULE_REASON_CONFIG_MAP,
    RESCHEDULING_CONFIG_MAP,
)

FORMAT, VERSION = "ringwise-journal", 1
#: Files with a longer line are rejected.
MOST_LINE_BYTES = 1 << 30

_DECIDE = tuple(mode.value for mode in Decide)
_EVENT_TYPES: Mapping[str, type] = {kind.__name__: kind for kind in get_args(ev.Event)}


class JournalError(ValueError):
    """A file that is no journal, or a broken one: where, and what is wrong."""


class _Header(msgspec.Struct):
    format: str
    version: int
    ringwise: str
    configuration: msgspec.Raw
    scheduler_names: list[str]


class _Line(msgspec.Struct):
    number: int
    now: int
    events: list[tuple[str, msgspec.Raw]]
    commands: list[Any]
    #: Journals from before this field decided everything in every batch.
    decide: str = Decide.ALL.value


class _PluginWire(msgspec.Struct):
    name: str
    enabled: dict[str, bool]
    arguments: dict[str, Any]


class _TierWire(msgspec.Struct):
    plugins: list[_PluginWire]


class _ConfigurationWire(msgspec.Struct):
    actions: tuple[str, ...]
    tiers: list[_TierWire]
    settings: Settings
    action_arguments: dict[str, dict[str, Any]]


class _ConfigurationSeenWire(msgspec.Struct):
    configuration: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Recorded:
    """One batch as read from the file."""

    line: int
    now: int
    events: tuple[ev.Event, ...]
    commands: list[Any]
    decide: Decide


@dataclass(slots=True)
class JournalFile:
    configuration: Configuration
    scheduler_names: tuple[str, ...]
    written_by: str
    #: Read as they are consumed; the file is closed at its end, or with `batches.close()`.
    batches: Generator[Recorded, None, None] = field(init=False)
    #: Set when the last line was cut off.
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """The first batch in which today's decisions are not the recorded ones."""

    line: int
    now: int
    position: int
    recorded: Any
    decided: Any

    def as_json(self) -> DifferenceFields:
        return {
            "line": self.line,
            "now": self.now,
            "command": self.position,
            "recorded": self.recorded,
            "decided": self.decided,
        }


@dataclass(frozen=True, slots=True)
class Replay:
    written_by: str
    batches: int
    events: int
    commands: int
    difference: Difference | None = None
    note: str | None = None

    def as_json(self) -> ReplayDocument:
        return {
            "schema": "ringwise.io/replay/v1",
            "identical": self.difference is None,
            "written_by": self.written_by,
            "batches": self.batches,
            "events": self.events,
            "commands": self.commands,
            "difference": None if self.difference is None else self.difference.as_json(),
            "note": self.note,
        }


# -- writing -----------------------------------------------------------------------------------


def header_line(configuration: Configuration, scheduler_names: Iterable[str]) -> bytes:
    return _line(
        {
            "format": FORMAT,
            "version": VERSION,
            "ringwise": __version__,
            "configuration": configuration,
            "scheduler_names": sorted(scheduler_names),
        }
    )


def batch_line(batch: Batch) -> bytes:
    document: dict[str, Any] = {
        "number": batch.number,
        "now": batch.now,
        "events": [(type(event).__name__, event) for event in batch.events],
        "commands": [plain_command(command) for command in batch.commands],
    }
    if batch.decide is not Decide.ALL:
        document["decide"] = batch.decide.value
    return _line(document)


def _line(document: object) -> bytes:
    return msgspec.json.encode(document) + b"\n"


class JournalWriter:
    """A sink for `Journal`: every batch becomes a line at once."""

    def __init__(self, file: IO[bytes], configuration: Configuration, scheduler_names: Iterable[str]) -> None:
        self._file = file
        self._file.write(header_line(configuration, scheduler_names))
        self._file.flush()

    def __call__(self, batch: Batch) -> None:
        self._file.write(batch_line(batch))
        self._file.flush()


#: Fields that came after format 1 was fixed: absent where they are empty, so that old journals stay equal.
_ABSENT_WHEN_EMPTY = frozenset({"mounted", "remove", "stray"})


def plain_command(command: Command) -> dict[str, Any]:
    """A command as JSON has it, with its type. Equal decisions are equal documents."""
    return {"type": type(command).__name__, **_plain(command)}


def _plain(value: Any) -> Any:
    if isinstance(value, Reason):
        return _plain(value.as_json())
    if isinstance(value, enum.Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {
            one.name: _plain(getattr(value, one.name))
            for one in fields(value)
            if one.name not in _ABSENT_WHEN_EMPTY or getattr(value, one.name)
        }
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(_plain(item) for item in value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


# -- reading ------------------------------------------------------------------------------------


def open_journal(path: Path, only: Collection[type] | None = None) -> JournalFile:
    """Read the header now and the batches as they are asked for.

    With `only`, events of other types are left out, and nothing can be decided again: the plugins of the
    configuration need not be installed.
    """
    try:
        file = path.open("rb")
    except OSError as problem:
        raise JournalError(f"{path}: cannot be read: {(problem.strerror or str(problem)).lower()}") from None
    try:
        first = file.readline(MOST_LINE_BYTES)
    except OSError as problem:
        file.close()
        raise JournalError(f"{path}: cannot be read: {(problem.strerror or str(problem)).lower()}") from None
    try:
        header = msgspec.json.decode(first, type=_Header)
        configuration = _configuration(header.configuration)
    except (msgspec.MsgspecError, RecursionError, UnicodeError, ValueError) as problem:
        file.close()
        why = "is empty" if not first else f"is no journal: {_one(problem)}"
        raise JournalError(f"{path}: line 1: {why}") from None
    if header.format != FORMAT or header.version != VERSION:
        file.close()
        raise JournalError(
            f"{path}: line 1: is {one_line(header.format)} version {header.version}; "
            f"this Ringwise reads {FORMAT} version {VERSION}"
        )
    unknown = _not_installed(configuration) if only is None else None
    if unknown is not None:
        file.close()
        raise JournalError(f"{path}: line 1: {unknown}")
    journal = JournalFile(configuration, tuple(header.scheduler_names), header.ringwise)
    journal.batches = _batches(file, path, journal, None if only is None else frozenset(only))
    return journal


def _batches(
    file: IO[bytes], path: Path, journal: JournalFile, only: frozenset[type] | None
) -> Generator[Recorded, None, None]:
    with file:
        number = 1
        while True:
            text = file.readline(MOST_LINE_BYTES)
            if not text:
                return
            number += 1
            try:
                yield _recorded(text, number, only)
            except (msgspec.MsgspecError, RecursionError, UnicodeError, ValueError) as problem:
                if not text.endswith(b"\n"):
                    journal.note = f"line {number} is cut off and was left out"
                    return
                raise JournalError(f"{path}: line {number}: {_one(problem)}") from None


def _recorded(text: bytes, number: int, only: frozenset[type] | None) -> Recorded:
    line = msgspec.json.decode(text, type=_Line)
    events: list[ev.Event] = []
    for name, raw in line.events:
        kind = _EVENT_TYPES.get(name)
        if kind is None:
            raise ValueError(f"there is no event {name}; known are {', '.join(sorted(_EVENT_TYPES))}")
        if only is not None and kind not in only:
            continue
        if kind is ev.ConfigurationSeen:
            seen = msgspec.json.decode(raw, type=_ConfigurationSeenWire)
            configuration = _configuration(seen.configuration)
            unknown = _not_installed(configuration)
            if unknown is not None:
                raise ValueError(unknown)
            events.append(ev.ConfigurationSeen(configuration))
        else:
            events.append(msgspec.json.decode(raw, type=kind))
    if line.decide not in _DECIDE:
        raise ValueError(f"decide: {line.decide} is unknown; known are {', '.join(_DECIDE)}")
    return Recorded(number, line.now, tuple(events), line.commands, Decide(line.decide))


def _configuration(raw: msgspec.Raw) -> Configuration:
    wire = msgspec.json.decode(raw, type=_ConfigurationWire)
    return Configuration(
        wire.actions,
        tuple(
            Tier(tuple(PluginOption(one.name, one.enabled, _frozen(one.arguments)) for one in tier.plugins))
            for tier in wire.tiers
        ),
        wire.settings,
        {action: _frozen(arguments) for action, arguments in wire.action_arguments.items()},
    )


def _not_installed(configuration: Configuration) -> str | None:
    """Without its plugins and actions a scheduler would decide otherwise, and the difference mean nothing."""
    registry = installed_registry()
    plugins = [option.name for tier in configuration.tiers for option in tier.plugins]
    for kind, names, known in (
        ("action", configuration.actions, list(registry.actions)),
        ("plugin", plugins, list(registry.plugins)),
    ):
        for name in names:
            if name not in known:
                return (
                    f"the {kind} {name} of its configuration is not installed; known are {', '.join(known)}"
                )
    return None


def _frozen(value: Any) -> Any:
    """Lists of JSON were tuples."""
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return value


def _one(problem: Exception) -> str:
    return one_line(str(problem))[:300]


# -- deciding again --------------------------------------------------------------------------------


def replay(journal: JournalFile, catalog: BoardCatalog) -> Replay:
    """Let a new scheduler handle the recorded events, and compare its commands with the recorded ones."""
    scheduler = new_scheduler(journal.configuration, catalog, journal.scheduler_names)
    batches = events = commands = 0
    difference: Difference | None = None
    with closing(journal.batches) as recorded_batches:
        for recorded in recorded_batches:
            answer = scheduler.handle(recorded.events, recorded.now, recorded.decide)
            batches += 1
            events += len(recorded.events)
            commands += len(answer)
            difference = _compare(recorded, [_again(plain_command(command)) for command in answer])
            if difference is not None:
                break
    return Replay(journal.written_by, batches, events, commands, difference, journal.note)


def _again(document: dict[str, Any]) -> Any:
    """Through JSON and back, as the recorded one went."""
    return msgspec.json.decode(msgspec.json.encode(document))


def _sorted_json(command: Any) -> bytes:
    return msgspec.json.encode(command, order="deterministic")


def _compare(recorded: Recorded, decided: list[Any]) -> Difference | None:
    before = [command for command in recorded.commands if not _is_record(command)]
    decided = [command for command in decided if not _is_record(command)]
    for position in range(max(len(before), len(decided))):
        then = before[position] if position < len(before) else None
        now = decided[position] if position < len(decided) else None
        # The order of the entries of a map is no decision.
        if _sorted_json(_decision(then)) != _sorted_json(_decision(now)):
            return Difference(recorded.line, recorded.now, position, then, now)
    return None


#: Records of faults and for the next leader (F1). They follow from the decisions; older versions wrote none.
_RECORDS = frozenset({FAULT_NODES_CONFIG_MAP, RESCHEDULE_REASON_CONFIG_MAP, RESCHEDULING_CONFIG_MAP})


def _is_record(command: Any) -> bool:
    return isinstance(command, dict) and command.get("name") in _RECORDS and command["type"] == "Publish"


#: Sentences of a command. They may be worded differently in another version.
_SENTENCES = frozenset({"message", "cures", "why"})


def _decision(command: Any) -> Any:
    """A command without its sentences: of a reason, the code and the details that are not sentences."""
    if not isinstance(command, dict):
        return command
    kept = {key: value for key, value in command.items() if key not in _SENTENCES}
    if isinstance(kept.get("reason"), dict):
        reason = {key: value for key, value in kept["reason"].items() if key not in _SENTENCES}
        kept["reason"] = {**reason, "details": _without_sentences(reason.get("details"))}
    return kept


def _without_sentences(value: Any) -> Any:
    if isinstance(value, str) and " " in value:
        return None
    if isinstance(value, dict):
        return {key: _without_sentences(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_sentences(item) for item in value]
    return value

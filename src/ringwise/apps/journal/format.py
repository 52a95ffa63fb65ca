"""The journal as a file: its lines, and reading them.

One JSON object per line. The first is the header: format, version, configuration, and the
scheduler names. Every other line is one batch: time, events with their type, the commands
that were decided, and `decide` where not everything was to be decided (`ringwise place`). A file
may end in the middle of a line (the process died while writing); everything before it counts.

The component on Kubernetes (`files.py`) begins a new section with another header: after a start,
in a new file, and after turns that could not be written. The header says which scheduler it was and which
batch comes first. If that is not the first of all, the objects of the jobs follow (`snapshot`): histories
continue from these, but decisions cannot be repeated from there.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import field, fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

import msgspec

from ringwise import __version__
from ringwise.apps.extensions import installed_registry
from ringwise.framework.configuration import Configuration, PluginOption, Settings, Tier
from ringwise.manifests.kinds import events_of
from ringwise.manifests.text.errors import one_line
from ringwise.messages import events as ev
from ringwise.messages.accounting import chip_amount_text, read_chip_amount
from ringwise.messages.commands import Command
from ringwise.messages.events import Decide
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.scheduler.journal import Batch, TurnMark
from ringwise.versions import unsupported

FORMAT, VERSION = "ringwise-journal", 1
#: Stands for a text that a support bundle leaves out.
LEFT_OUT = "left-out"
#: Files with a longer line are rejected.
MAX_LINE_BYTES = 1 << 30

_DECIDE = tuple(mode.value for mode in Decide)
#: Those of objects, and what follows from commands or is read once.
EVENT_TYPES: Mapping[str, type[ev.Event]] = {
    kind.__name__: kind
    for kind in (
        *events_of(),
        *(ev.BindFailed, ev.EvictFailed, ev.JobCommand, ev.JobHeldUp, ev.LeaderRecordRead, ev.QueueCommand),
        *(ev.StartsEstimated, ev.AccountsRead, ev.ClaimFailed),
    )
}


class JournalError(ValueError):
    """A file that is not a journal, or a broken one: where, and what is wrong."""


class _Kind(msgspec.Struct):
    format: str
    version: int


class _Header(_Kind, omit_defaults=True):
    ringwise: str
    configuration: msgspec.Raw
    scheduler_names: list[str]
    scheduler: str = ""
    #: Where there is a scheduler; it may be 0.
    first: int | msgspec.UnsetType = msgspec.UNSET
    awaits_groups: bool = False


class _Line(msgspec.Struct, omit_defaults=True):
    number: int
    now: int
    events: list[tuple[str, msgspec.Raw]]
    commands: list[Any]
    decide: str = Decide.ALL.value
    snapshot: bool = False
    #: Choices that depended on processor time: choice, job or namespace, and calls of the progress hook.
    marks: list[tuple[str, str, int]] = []


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


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """Batches of one scheduler without a gap, after one header."""

    path: Path
    configuration: Configuration
    scheduler_names: tuple[str, ...]
    written_by: str
    #: Empty: a scheduler whose journal is this section alone.
    scheduler: str = ""
    #: Number of its first batch.
    first: int = 0
    #: Whether pods waited for the PodGroups of a controller.
    awaits_groups: bool = False


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """One batch as read from the file."""

    section: Section
    line: int
    number: int
    now: int
    events: tuple[ev.Event, ...]
    commands: list[Any]
    decide: Decide
    #: Not a batch: the objects of the jobs as they were before the first batch of the section.
    snapshot: bool = False
    marks: tuple[TurnMark, ...] = ()

    def follows(self, before: ReadBatch | None) -> bool:
        """Whether this is the next batch of the same scheduler."""
        if before is None or self.number != before.number + 1:
            return False
        scheduler = self.section.scheduler
        return self.section is before.section or (scheduler != "" and scheduler == before.section.scheduler)

    @property
    def begins(self) -> bool:
        """Whether this is the first batch of its scheduler."""
        return self.number == 0 and self.section.first == 0


@dataclass(slots=True)
class JournalFile:
    """A journal with its rotated files, oldest first."""

    first: Section
    #: Read as they are consumed; the files are closed at their end, or with `batches.close()`.
    batches: Generator[ReadBatch, None, None] = field(init=False)
    #: Lines that were cut off.
    notes: list[str] = field(default_factory=list)


# -- writing -----------------------------------------------------------------------------------


def header_line(
    configuration: Configuration,
    scheduler_names: Iterable[str],
    scheduler: str = "",
    first: int = 0,
    *,
    awaits_groups: bool = False,
) -> bytes:
    names = sorted(scheduler_names)
    raw = msgspec.Raw(_encode(configuration))
    turn = first if scheduler else msgspec.UNSET
    return _line(_Header(FORMAT, VERSION, __version__, raw, names, scheduler, turn, awaits_groups))


#: How every header begins.
HEADER_START = b'{"format":"' + FORMAT.encode() + b'",'
#: How a header of this version begins.
VERSION_START = HEADER_START + b'"version":' + str(VERSION).encode() + b","


def snapshot_line(first: int, now: int, events: Iterable[ev.Event]) -> bytes:
    """Objects as they were before the batch `first`."""
    return _line(_Line(first, now, _named(events), [], Decide.NOTHING.value, snapshot=True))


def batch_line(batch: Batch) -> bytes:
    commands = [plain_command(command) for command in batch.commands]
    marks = [(mark.choice, mark.name, mark.progress) for mark in batch.marks]
    decide = batch.decide.value
    return _line(_Line(batch.number, batch.now, _named(batch.events), commands, decide, marks=marks))


def _named(events: Iterable[Any]) -> list[tuple[str, Any]]:
    return [(type(event).__name__, event) for event in events]


def _encode(value: object) -> bytes:
    return msgspec.json.encode(value, enc_hook=chip_amount_text)


def _line(document: msgspec.Struct) -> bytes:
    return _encode(document) + b"\n"


class JournalWriter:
    """A sink for `Journal`: every batch becomes a line at once."""

    def __init__(self, file: IO[bytes], configuration: Configuration, scheduler_names: Iterable[str]) -> None:
        self._file = file
        self._file.write(header_line(configuration, scheduler_names))
        self._file.flush()

    def __call__(self, batch: Batch) -> None:
        self._file.write(batch_line(batch))
        self._file.flush()


def plain_command(command: Command) -> dict[str, Any]:
    """A command as JSON has it, with its type. Equal decisions are equal documents."""
    return {"type": type(command).__name__, **plain(command)}


#: Most values of commands are of these types.
_PLAIN_TYPES = frozenset({str, int, bool, float, type(None)})
#: The fields of each type of command, and of the values in them.
_FIELDS: dict[type, tuple[str, ...]] = {}


def plain(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN_TYPES:
        return value
    if isinstance(value, Reason):
        return plain(value.as_json())
    if isinstance(value, enum.Enum):
        return value.value
    if is_dataclass(kind):
        names = _FIELDS.get(kind)
        if names is None:
            names = _FIELDS[kind] = tuple(one.name for one in fields(kind))
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(plain(item) for item in value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Fraction):
        return chip_amount_text(value)
    return str(value) if isinstance(value, Decimal) else value


# -- reading ------------------------------------------------------------------------------------


def rotated_files(path: Path) -> list[Path]:
    """FILE and its rotated files FILE.1, FILE.2, ...: the oldest first."""
    older: list[Path] = []
    while (one := rotated(path, len(older) + 1)).exists():
        older.append(one)
    newest = [path] if path.exists() or not older else []
    return [*reversed(older), *newest]


def rotated(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def open_journal(path: Path, only: Collection[type] | None = None) -> JournalFile:
    """Read the first header now and the batches as they are asked for; rotated files come first.

    With `only`, events of other types are left out, and nothing can be decided again: the plugins of the
    configuration need not be installed.
    """
    older = rotated_files(path)
    reading = _Reading(older[0], None if only is None else frozenset(only))
    journal = JournalFile(reading.section)
    journal.batches = _batches(reading, older[1:], journal)
    return journal


def _batches(reading: _Reading, others: list[Path], journal: JournalFile) -> Generator[ReadBatch, None, None]:
    while True:
        try:
            yield from reading.batches()
        finally:
            reading.close()
        if reading.note is not None:
            journal.notes.append(f"{reading.path}: {reading.note}")
        if not others:
            return
        if others[0].stat().st_size == 0:
            # Its writer ended, or is, between creating the file and writing to it.
            return
        reading = _Reading(others.pop(0), reading.only)


class _Reading:
    """One file. Raises JournalError if it is not a journal."""

    def __init__(self, path: Path, only: frozenset[type] | None) -> None:
        self.path = path
        self.only = only
        #: Set when the last line was cut off.
        self.note: str | None = None
        try:
            self._file = path.open("rb")
        except OSError as problem:
            raise self._unreadable(problem) from None
        try:
            self.section = self._section(self._file.readline(MAX_LINE_BYTES), 1)
        except OSError as problem:
            self.close()
            raise self._unreadable(problem) from None
        except JournalError:
            self.close()
            raise

    def close(self) -> None:
        self._file.close()

    def batches(self) -> Iterator[ReadBatch]:
        number = 1
        while text := self._file.readline(MAX_LINE_BYTES):
            number += 1
            try:
                if text.startswith(HEADER_START):
                    self.section = self._section(text, number)
                else:
                    yield _recorded(text, self.section, number, self.only)
            except (msgspec.MsgspecError, RecursionError, UnicodeError, ValueError) as problem:
                if not text.endswith(b"\n"):
                    self.note = f"line {number} is truncated and was skipped"
                    return
                if isinstance(problem, JournalError):
                    raise
                raise JournalError(f"{self.path}: line {number}: {_one(problem)}") from None

    def _section(self, text: bytes, number: int) -> Section:
        where = f"{self.path}: line {number}"
        try:
            kind = msgspec.json.decode(text, type=_Kind)
            if kind.format != FORMAT:
                raise JournalError(f"{where}: is not a journal: its format is {one_line(kind.format)}")
            # Before the rest, which another version may have changed.
            if kind.version != VERSION:
                raise JournalError(f"{where}: {unsupported(kind.version, VERSION)}")
            header = msgspec.json.decode(text, type=_Header)
            configuration = _configuration(header.configuration)
        except JournalError:
            raise
        except (msgspec.MsgspecError, RecursionError, UnicodeError, ValueError) as problem:
            raise JournalError(
                f"{where}: " + (f"is not a journal: {_one(problem)}" if text else "is empty")
            ) from None
        unknown = _not_installed(configuration) if self.only is None else None
        if unknown is not None:
            raise JournalError(f"{where}: {unknown}")
        names = tuple(header.scheduler_names)
        return Section(
            self.path,
            configuration,
            names,
            header.ringwise,
            header.scheduler,
            header.first or 0,
            header.awaits_groups,
        )

    def _unreadable(self, problem: OSError) -> JournalError:
        return JournalError(f"{self.path}: cannot be read: {(problem.strerror or str(problem)).lower()}")


def _recorded(text: bytes, section: Section, number: int, only: frozenset[type] | None) -> ReadBatch:
    line = msgspec.json.decode(text, type=_Line)
    events: list[ev.Event] = []
    for name, raw in line.events:
        kind = EVENT_TYPES.get(name)
        if kind is None:
            raise ValueError(f"unknown event {name}; must be one of {', '.join(sorted(EVENT_TYPES))}")
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
            events.append(msgspec.json.decode(raw, type=kind, dec_hook=read_chip_amount))
    if line.decide not in _DECIDE:
        raise ValueError(f"decide: {line.decide} is unknown; must be one of {', '.join(_DECIDE)}")
    return ReadBatch(
        section,
        number,
        line.number,
        line.now,
        tuple(events),
        line.commands,
        Decide(line.decide),
        line.snapshot,
        tuple(TurnMark(*mark) for mark in line.marks),
    )


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
    for kind, names, listed in (
        ("action", configuration.actions, list(registry.actions)),
        ("plugin", plugins, list(registry.plugins)),
    ):
        for name in names:
            if name not in listed:
                return (
                    f"the {kind} {name} of its configuration is not installed; installed: {', '.join(listed)}"
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

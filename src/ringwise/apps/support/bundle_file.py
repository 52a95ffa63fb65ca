"""The file of a support bundle: written deterministically, and read again.

A gzipped tar file. `objects.jsonl` and the journals are journals: the first has one line with all
objects and no decision. `MANIFEST.json` says what is in it, `README.txt` how it is used.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, BinaryIO, Literal

import msgspec

from ringwise import __version__
from ringwise.apps.journal.format import (
    FORMAT,
    HEADER_START,
    MAX_LINE_BYTES,
    VERSION,
    JournalError,
    header_line,
    open_journal,
    rotated_files,
    snapshot_line,
)
from ringwise.apps.support.pseudonyms import Pseudonyms, TextRole
from ringwise.apps.support.renaming import Renaming
from ringwise.apps.support.vocabulary import FIXED_RUNS, vocabulary
from ringwise.files import replacing
from ringwise.framework.configuration import Configuration
from ringwise.grammar import counted
from ringwise.manifests.bundle import Bundle, garbage_collection_paused
from ringwise.manifests.kinds import KINDS, STORED, event_of_object
from ringwise.messages.events import Decide
from ringwise.records import dataclass
from ringwise.state.model import Pod, PodClass
from ringwise.topology.boards import BoardCatalog
from ringwise.versions import unsupported
from ringwise.views.documents.reference import BundledJournalFields, ReplacedFields, SupportBundleDocument
from ringwise.wellknown import SCHEDULER_NAMES

OBJECTS, JOURNAL, MANIFEST, README = "objects.jsonl", "journal.jsonl", "MANIFEST.json", "README.txt"
#: Bytes of journals that are taken along; of more, the newest files.
MAX_JOURNAL_BYTES = 1 << 30
#: Bytes of one file of a bundle that is read.
_MAX_MEMBER = 4 << 30
_NEVER = "Secrets; environment, images, arguments and commands of containers; other annotations"

Progress = Callable[[str], None]


class BundleError(ValueError):
    """A file that is not a support bundle: one line."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What is put into a bundle."""

    source: Literal["files", "lab", "cluster"]
    #: Header and snapshot: two lines of a journal.
    objects: bytes
    journals: tuple[tuple[str, Path], ...] = ()
    #: What could not be read or listed, one line each, without names; and what no decision depends on.
    missing: tuple[str, ...] = ()
    not_needed: tuple[str, ...] = ()


def lines_of(bundle: Bundle, configuration: Configuration, now: int) -> bytes:
    """All objects of an input as a journal of two lines: a header, and a snapshot without decisions."""
    events = [
        event for kind in STORED for event in map(event_of_object, bundle.of(kind)) if event is not None
    ]
    header = header_line(configuration, SCHEDULER_NAMES, awaits_groups=bundle.awaits_groups)
    return header + snapshot_line(0, now, events)


# -- writing ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Counts:
    """What is in the bundle, as found when it was read first; its journals may grow meanwhile."""

    kinds: Counter[str]
    missing: list[str]
    #: By file: lines, batches and events.
    files: dict[str, tuple[int, int, int]] = field(default_factory=dict)


@garbage_collection_paused()
def write_bundle(
    path: Path,
    contents: Contents,
    catalog: BoardCatalog,
    *,
    keep_names: bool = False,
    with_text: bool = False,
    mapping: Path | None = None,
    progress: Progress = lambda text: None,
) -> SupportBundleDocument:
    """Raises OSError. What cannot be read is left out and listed."""
    names = None if keep_names else Pseudonyms(vocabulary(catalog), FIXED_RUNS)
    renaming = Renaming(names, with_text)
    counts = _Counts(Counter(), list(contents.missing))
    files = _journals(contents.journals, counts.missing)
    for name, lines in _opened(contents, files):
        for _ in _renamed_lines(lines, renaming, name, counts):
            progress(f"reading {name}: {lines.tell() >> 20} MiB")
    if names is not None:
        names.close()
    with TemporaryDirectory(prefix="ringwise-bundle-") as folder, replacing(path) as file:
        written = []
        for name, lines in _opened(contents, files):
            target = Path(folder, name)
            with target.open("wb") as out:
                for line in islice(_renamed_lines(lines, renaming, name), counts.files[name][0]):
                    out.write(line)
                    progress(f"writing {name}: {lines.tell() >> 20} MiB")
            written.append((name, target))
        document = _document(contents, counts, renaming)
        _write_archive(file, _pretty(document), readme(document).encode(), written)
    if mapping is not None and names is not None:
        with replacing(mapping) as file:
            file.write(_pretty(names.mapping()))
    return document


def _opened(
    contents: Contents, files: Sequence[tuple[str, Path]]
) -> Iterator[tuple[str, BinaryIO | IO[bytes]]]:
    yield OBJECTS, io.BytesIO(contents.objects)
    for name, path in files:
        with path.open("rb") as lines:
            yield name, lines


def _journals(sources: Sequence[tuple[str, Path]], missing: list[str]) -> list[tuple[str, Path]]:
    """Each with its rotated files; of too many bytes the newest files."""
    result = []
    for name, path in sources:
        files = rotated_files(path)
        for older, file in zip(range(len(files) - 1, -1, -1), files, strict=True):
            result.append((f"{name}.{older}" if older else name, file))
    taken: list[tuple[str, Path]] = []
    size = 0
    for name, file in reversed(result):
        try:
            size += file.stat().st_size
            with file.open("rb") as opened:
                start = opened.read(len(HEADER_START))
        except OSError as problem:
            missing.append(f"{name}: cannot be read: {(problem.strerror or str(problem)).lower()}")
            continue
        if start != HEADER_START:
            missing.append(f"{name}: is {'not a journal' if start else 'empty'}")
        elif size > MAX_JOURNAL_BYTES:
            missing.append(f"{name}: journals of more than {MAX_JOURNAL_BYTES >> 30} GiB are left out")
        else:
            taken.append((name, file))
    return taken[::-1]


def _renamed_lines(
    lines: BinaryIO | IO[bytes], renaming: Renaming, name: str, counts: _Counts | None = None
) -> Iterator[bytes]:
    """Up to the first line that cannot be read; the last one may be cut off."""
    number = batches = events = 0
    problem = ""
    while text := lines.readline(MAX_LINE_BYTES):
        try:
            if not text.endswith(b"\n"):
                raise ValueError("truncated")
            line = msgspec.json.decode(text)
            if text.startswith(HEADER_START):
                renamed = _header(line, renaming)
            else:
                renamed = _batch(line, renaming)
                batches += not line.get("snapshot")
                events += len(renamed["events"])
                if name == OBJECTS and counts is not None:
                    counts.kinds.update(_KIND_OF_EVENT.get(name, name) for name, _ in renamed["events"])
        except JournalError as error:
            problem = f"and what follows: {error}"
            break
        except (msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
            is_whole = text.endswith(b"\n")
            problem = "and what follows: cannot be read" if is_whole else "is truncated and skipped"
            break
        number += 1
        yield msgspec.json.encode(renamed) + b"\n"
    if counts is not None:
        counts.files[name] = number, batches, events
        if problem:
            counts.missing.append(f"{name}: line {number + 1} {problem}")


def _header(line: dict[str, Any], renaming: Renaming) -> dict[str, Any]:
    if line["format"] != FORMAT:
        raise ValueError("not a journal")
    if line["version"] != VERSION:
        # Its names could not be replaced reliably.
        raise JournalError(unsupported(line["version"], VERSION))
    header = {
        "format": FORMAT,
        "version": VERSION,
        "ringwise": line["ringwise"],
        "configuration": renaming.configuration(line["configuration"]),
        "scheduler_names": [renaming.rename(name, TextRole.NAME) for name in line["scheduler_names"]],
    }
    if "scheduler" in line:
        header["scheduler"] = renaming.rename(line["scheduler"], TextRole.NAME)
        header["first"] = int(line.get("first", 0))
    if line.get("awaits_groups"):
        header["awaits_groups"] = True
    return header


def _batch(line: dict[str, Any], renaming: Renaming) -> dict[str, Any]:
    batch: dict[str, Any] = {
        "number": int(line["number"]),
        "now": int(line["now"]),
        "events": [[name, renaming.event(name, content)] for name, content in line["events"]],
        "commands": [renaming.command(one) for one in line["commands"]],
    }
    if "decide" in line:
        batch["decide"] = Decide(line["decide"]).value
    if line.get("snapshot"):
        batch["snapshot"] = True
    if "marks" in line:
        batch["marks"] = [
            [renaming.rename(choice), renaming.rename(name, TextRole.NAME), int(progress)]
            for choice, name, progress in line["marks"]
        ]
    return batch


_KIND_OF_EVENT = {kind.event_type.__name__: kind.name for kind in KINDS}


def _document(contents: Contents, counts: _Counts, renaming: Renaming) -> SupportBundleDocument:
    names = renaming.names
    addresses = 0 if names is None else names.addresses
    return SupportBundleDocument(
        ringwise=__version__,
        source=contents.source,
        names="kept" if names is None else "replaced",
        replaced=ReplacedFields(
            names=0 if names is None else len(names.mapping()) - addresses, addresses=addresses
        ),
        objects=dict(sorted(counts.kinds.items())),
        journals=[
            BundledJournalFields(file=name, batches=batches, events=events)
            for name, (_, batches, events) in counts.files.items()
            if name != OBJECTS
        ],
        excluded=_NEVER,
        omitted=[*([] if renaming.with_text else ["messages and other free text"]), *contents.not_needed],
        missing=counts.missing,
    )


def readme(document: SupportBundleDocument) -> str:
    """What is in a bundle, for people: on the terminal and in the file."""
    source = {"files": "files", "lab": "a lab", "cluster": "a cluster"}[document.source]
    lines = [f"support bundle of {source}, created by Ringwise {document.ringwise}"]
    objects = ", ".join(f"{count:,} {kind}" for kind, count in document.objects.items()) or "none"
    lines += [f"objects: {objects}"]
    for journal in document.journals:
        batches, events = counted(journal.batches, "batch"), counted(journal.events, "event")
        lines.append(f"{journal.file}: {batches}, {events}")
    if document.names == "kept":
        lines.append("names: kept")
    else:
        replaced = document.replaced
        lines.append(
            f"replaced: {counted(replaced.names, 'name')}, "
            f"{counted(replaced.addresses, 'address', 'addresses')}"
        )
    lines.append(f"never included: {document.excluded}")
    lines += [f"omitted: {line}" for line in document.omitted]
    lines += [f"missing: {line}" for line in document.missing]
    return "\n".join(lines) + "\n"


_USE = """
  ringwise place -f BUNDLE.tar.gz
  ringwise why JOB -f BUNDLE.tar.gz
  ringwise replay BUNDLE.tar.gz
"""


def _write_archive(file: BinaryIO, manifest: bytes, text: bytes, written: Sequence[tuple[str, Path]]) -> None:
    # No time and no owner: equal contents are equal files.
    with (
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, data in ((README, text + _USE.encode()), (MANIFEST, manifest)):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o600
            archive.addfile(entry, io.BytesIO(data))
        for name, path in written:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = path.stat().st_size, 0o600
            with path.open("rb") as content:
                archive.addfile(entry, content)


def _pretty(document: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


# -- reading ---------------------------------------------------------------------------------------


@contextmanager
def unpacked_bundle(
    path: Path | str, only: Callable[[str], bool], missing: str = "not a support bundle"
) -> Iterator[Path]:
    """A folder with those of its files; `missing`: what is wrong where it has none. Raises BundleError."""
    with TemporaryDirectory(prefix="ringwise-bundle-") as folder:
        any_read = False
        try:
            with tarfile.open(path, "r:gz") as archive:
                for entry in archive:
                    name = entry.name
                    if "/" in name or not entry.isfile() or not _is_part(name) or not only(name):
                        continue
                    if entry.size > _MAX_MEMBER:
                        raise BundleError(f"{path}: {name} is larger than {_MAX_MEMBER >> 30} GiB")
                    content = archive.extractfile(entry)
                    assert content is not None
                    with Path(folder, name).open("wb") as out:
                        while block := content.read(1 << 20):
                            out.write(block)
                    any_read = True
        except (tarfile.TarError, EOFError, zlib.error, OSError) as problem:
            raise BundleError(
                f"{path}: not a support bundle, or truncated ({type(problem).__name__})"
            ) from None
        if not any_read:
            raise BundleError(f"{path}: {missing}")
        yield Path(folder)


def _is_part(name: str) -> bool:
    return name == OBJECTS or name.startswith("journal.")


def read_support_bundle(path: Path | str) -> Bundle:
    """The objects of a bundle as if they had been read where it was made. Raises BundleError."""
    with unpacked_bundle(path, lambda name: name == OBJECTS) as folder:
        try:
            journal = open_journal(folder / OBJECTS)
            recorded = next(journal.batches, None)
            journal.batches.close()
        except JournalError as error:
            raise BundleError(str(error).replace(f"{folder}/", f"{path}: ")) from None
    if recorded is None:
        raise BundleError(f"{path}: does not contain objects")
    section = recorded.section
    bundle = Bundle(
        newest_timestamp=recorded.now, awaits_groups=section.awaits_groups, configured=section.configuration
    )
    classes: dict[PodClass, PodClass] = {}
    for event in recorded.events:
        value: Any = getattr(event, type(event).__match_args__[0])
        kind = STORED.get(type(value))
        if kind is None:
            continue
        objects = bundle.of(type(value))
        if isinstance(value, Pod):
            value.cls = classes.setdefault(value.cls, value.cls)
        if hasattr(value, "origin"):
            object.__setattr__(value, "origin", f"{path}: {kind.name} {len(objects) + 1}")
        objects.append(value)
    return bundle

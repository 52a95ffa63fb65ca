"""The file of a support bundle: written deterministically, and read again.

A gzipped tar file. `objects.jsonl` and the journals are journals: the first has one line with all
objects and no decision. `MANIFEST.json` says what is in it, `README.txt` how it is used.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, BinaryIO, Literal

import msgspec

from ringwise import __version__
from ringwise.apps.journal.format import (
    EVENT_TYPES,
    FORMAT,
    HEADER_START,
    MAX_LINE_BYTES,
    VERSION,
    JournalError,
    open_journal,
    rotated_files,
)
from ringwise.apps.support.pseudonyms import Pseudonyms
from ringwise.apps.support.rewriting import Texts, rewrite_command, rewrite_configuration, rewrite_event
from ringwise.apps.support.vocabulary import KEPT_RUNS, vocabulary
from ringwise.grammar import counted
from ringwise.manifests.bundle import Bundle, garbage_collection_paused
from ringwise.manifests.kinds import KINDS, STORED
from ringwise.messages.events import Decide
from ringwise.records import dataclass
from ringwise.state.model import Pod, PodClass
from ringwise.topology.boards import BoardCatalog
from ringwise.versions import unsupported
from ringwise.views.documents.reference import SupportBundleDocument

OBJECTS, JOURNAL, MANIFEST, README = "objects.jsonl", "journal.jsonl", "MANIFEST.json", "README.txt"
#: Bytes of journals that are taken along; of more, the newest files.
MAX_JOURNAL_BYTES = 1 << 30
#: Bytes of one file of a bundle that is read.
_MAX_MEMBER = 4 << 30
_NEVER = "Secrets; environment, images, arguments and commands of containers; other annotations"

Progress = Callable[[str], None]


class BundleError(ValueError):
    """A file that is no support bundle: one line."""


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


# -- writing ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Counts:
    kinds: Counter[str]
    journals: dict[str, tuple[int, int]]
    missing: list[str]


def write_bundle(
    path: Path,
    contents: Contents,
    catalog: BoardCatalog,
    *,
    keep_names: bool = False,
    mapping: Path | None = None,
    progress: Progress = lambda text: None,
) -> SupportBundleDocument:
    """Raises OSError. What cannot be read is left out and listed."""
    with garbage_collection_paused():
        return _write(path, contents, catalog, keep_names, mapping, progress)


def _write(
    path: Path,
    contents: Contents,
    catalog: BoardCatalog,
    keep_names: bool,
    mapping: Path | None,
    progress: Progress,
) -> SupportBundleDocument:
    counts = _Counts(Counter(), {}, list(contents.missing))
    files = _journals(contents.journals, counts.missing)
    names = Pseudonyms(vocabulary(catalog), KEPT_RUNS)
    if keep_names:
        texts = Texts(str, str, str, sentences=True)
    else:
        collecting = Texts(names.collect, lambda text: names.collect(text, is_name=True), lambda text: text)
        for name, lines in _opened(contents, files):
            _rewrite_lines(
                lines, collecting, name, _Counts(Counter(), {}, []), _told(progress, "reading", name)
            )
        names.close()
        texts = Texts(names.replace, names.replace, names.replace_names)
    with TemporaryDirectory(prefix="ringwise-bundle-") as folder, _replacing(path) as file:
        written = []
        for name, lines in _opened(contents, files):
            target = Path(folder, name)
            with target.open("wb") as out:
                _rewrite_lines(lines, texts, name, counts, _told(progress, "writing", name), out)
            written.append((name, target))
        document = _document(contents, counts, names, keep_names)
        manifest = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
        _write_archive(file, manifest, readme(document).encode(), written)
    if mapping is not None and not keep_names:
        _write_private(mapping, msgspec.json.format(msgspec.json.encode(names.mapping()), indent=2) + b"\n")
    return document


def _told(progress: Progress, verb: str, name: str) -> Callable[[int], None]:
    return lambda done: progress(f"{verb} {name}: {done >> 20} MiB")


def _opened(
    contents: Contents, files: Sequence[tuple[str, Path]]
) -> Iterator[tuple[str, BinaryIO | IO[bytes]]]:
    yield OBJECTS, io.BytesIO(contents.objects)
    for name, path in files:
        with path.open("rb") as lines:
            yield name, lines


def _journals(given: Sequence[tuple[str, Path]], missing: list[str]) -> list[tuple[str, Path]]:
    """Each with its rotated files; of too many bytes the newest files."""
    found = []
    for name, path in given:
        files = rotated_files(path)
        for older, file in zip(range(len(files) - 1, -1, -1), files, strict=True):
            found.append((f"{name}.{older}" if older else name, file))
    taken: list[tuple[str, Path]] = []
    size = 0
    for name, file in reversed(found):
        try:
            size += file.stat().st_size
            with file.open("rb") as opened:
                start = opened.read(len(HEADER_START))
        except OSError as problem:
            missing.append(f"{name}: cannot be read: {(problem.strerror or str(problem)).lower()}")
            continue
        if start != HEADER_START:
            missing.append(f"{name}: is {'no journal' if start else 'empty'}")
        elif size > MAX_JOURNAL_BYTES:
            missing.append(f"{name}: journals of more than {MAX_JOURNAL_BYTES >> 30} GiB are left out")
        else:
            taken.append((name, file))
    return taken[::-1]


class _Chain:
    """Whether decisions can be repeated: all batches since the start of their scheduler are there."""

    def __init__(self) -> None:
        self._scheduler: str | None = None
        self._first = self._next = 0
        self._section = 0
        self._whole = False

    def header(self, header: dict[str, Any]) -> None:
        scheduler = str(header.get("scheduler", ""))
        if not scheduler or scheduler != self._scheduler:
            self._whole = False
            self._next = -1
        self._scheduler, self._first = scheduler, int(header.get("first", 0) or 0)

    def batch(self, number: int) -> bool:
        if number == 0 and self._first == 0:
            self._whole = True
        elif number != self._next:
            self._whole = False
        self._next = number + 1
        return self._whole


def _rewrite_lines(
    lines: BinaryIO | IO[bytes],
    texts: Texts,
    name: str,
    counts: _Counts,
    tell: Callable[[int], None],
    out: BinaryIO | None = None,
) -> None:
    """Up to the first line that cannot be read; the last one may be cut off."""
    chain, number, batches, events = _Chain(), 0, 0, 0
    while text := lines.readline(MAX_LINE_BYTES):
        number += 1
        tell(lines.tell())
        try:
            if not text.endswith(b"\n"):
                raise ValueError("cut off")
            line = msgspec.json.decode(text)
            if text.startswith(HEADER_START):
                chain.header(line)
                done = _header(line, texts)
            else:
                snapshot = bool(line.get("snapshot"))
                whole = not snapshot and chain.batch(int(line["number"]))
                done = _batch(line, texts, whole)
                batches += not snapshot
                events += len(done["events"])
                if name == OBJECTS:
                    counts.kinds.update(_kind_of(found[0]) for found in done["events"])
        except JournalError as problem:
            counts.missing.append(f"{name}: line {number} and what follows: {problem}")
            break
        except (msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
            rest = (
                "is cut off and left out" if not text.endswith(b"\n") else "and what follows: cannot be read"
            )
            counts.missing.append(f"{name}: line {number} {rest}")
            break
        if out is not None:
            out.write(msgspec.json.encode(done) + b"\n")
    if name != OBJECTS:
        counts.journals[name] = (batches, events)


def _header(line: dict[str, Any], texts: Texts) -> dict[str, Any]:
    if line["format"] != FORMAT:
        raise ValueError("no journal")
    if line["version"] != VERSION:
        # Its names could not be replaced reliably.
        raise JournalError(unsupported(line["version"], VERSION))
    done = {key: line[key] for key in ("format", "version", "ringwise")}
    done["configuration"] = rewrite_configuration(line["configuration"], texts)
    done["scheduler_names"] = [texts.name(name) for name in line["scheduler_names"]]
    if "scheduler" in line:
        done["scheduler"] = texts.name(line["scheduler"])
    return done | {key: line[key] for key in ("first", "awaits_groups") if key in line}


def _batch(line: dict[str, Any], texts: Texts, whole: bool) -> dict[str, Any]:
    done: dict[str, Any] = {
        "number": int(line["number"]),
        "now": int(line["now"]),
        "events": [
            [name, rewrite_event(name, content, EVENT_TYPES, texts)] for name, content in line["events"]
        ],
        "commands": [rewrite_command(one, texts, with_details=whole) for one in line["commands"]],
    }
    if "decide" in line:
        done["decide"] = Decide(line["decide"]).value
    if line.get("snapshot"):
        done["snapshot"] = True
    return done


_KIND_OF_EVENT = {kind.seen.__name__: kind.name for kind in KINDS}


def _kind_of(event: str) -> str:
    return _KIND_OF_EVENT.get(event, event)


def _document(
    contents: Contents, counts: _Counts, names: Pseudonyms, keep_names: bool
) -> SupportBundleDocument:
    return {
        "schema": "ringwise.io/support-bundle/v1",
        "ringwise": __version__,
        "source": contents.source,
        "names": "kept" if keep_names else "replaced",
        "replaced": {
            "names": 0 if keep_names else len(names.mapping()) - names.addresses,
            "addresses": 0 if keep_names else names.addresses,
        },
        "objects": dict(sorted(counts.kinds.items())),
        "journals": [
            {"file": name, "batches": batches, "events": events}
            for name, (batches, events) in counts.journals.items()
        ],
        "never": _NEVER,
        "left_out": list(contents.not_needed),
        "missing": counts.missing,
    }


def readme(document: SupportBundleDocument) -> str:
    """What is in a bundle, for people: on the terminal and in the file."""
    source = {"files": "files", "lab": "a lab", "cluster": "a cluster"}[document["source"]]
    lines = [f"support bundle of {source}, made by Ringwise {document['ringwise']}"]
    objects = ", ".join(f"{count:,} {kind}" for kind, count in document["objects"].items()) or "none"
    lines += [f"objects: {objects}"]
    for journal in document["journals"]:
        batches, events = counted(journal["batches"], "batch"), counted(journal["events"], "event")
        lines.append(f"{journal['file']}: {batches}, {events}")
    if document["names"] == "kept":
        lines.append("names: as they are")
    else:
        replaced = document["replaced"]
        lines.append(
            f"replaced: {counted(replaced['names'], 'name')}, "
            f"{counted(replaced['addresses'], 'address', 'addresses')}; messages are left out"
        )
    lines.append(f"never in it: {document['never']}")
    lines += [f"left out: {line}" for line in document["left_out"]]
    lines += [f"missing: {line}" for line in document["missing"]]
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


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """The file appears when it is complete, readable by its owner alone."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            yield file
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _write_private(path: Path, data: bytes) -> None:
    with _replacing(path) as file:
        file.write(data)


# -- reading ---------------------------------------------------------------------------------------


@contextmanager
def unpacked_bundle(
    path: Path | str, only: Callable[[str], bool], missing: str = "is no support bundle"
) -> Iterator[Path]:
    """A folder with those of its files; `missing`: what is wrong where it has none. Raises BundleError."""
    with TemporaryDirectory(prefix="ringwise-bundle-") as folder:
        found = False
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
                    found = True
        except (tarfile.TarError, EOFError, zlib.error, OSError) as problem:
            raise BundleError(
                f"{path}: is no support bundle, or is cut off ({type(problem).__name__})"
            ) from None
        if not found:
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
        raise BundleError(f"{path}: holds no objects")
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
        found = bundle.of(type(value))
        if isinstance(value, Pod):
            value.cls = classes.setdefault(value.cls, value.cls)
        if hasattr(value, "origin"):
            object.__setattr__(value, "origin", f"{path}: {kind.name} {len(found) + 1}")
        found.append(value)
    return bundle

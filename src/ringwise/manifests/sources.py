"""Where the bytes come from: files, folders, pipes, standard input."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ringwise.manifests.errors import ManifestError
from ringwise.topology.natural import natural_key

#: The largest dump of a real cluster (100,000 nodes with their pods) is below 2 GiB. A sparse file of a
#: terabyte is refused before its first byte is read.
MAX_SOURCE_BYTES = 2 * 2**30

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"


@dataclass(frozen=True, slots=True)
class Source:
    """One stream of documents. `data` is set for what is in memory already, else `path` is opened."""

    name: str
    size: int
    path: Path | None = None
    data: bytes | None = None

    @property
    def is_json_by_name(self) -> bool:
        return self.name.lower().endswith(".json")


def find_sources(
    paths: Sequence[str], stdin: bytes | None = None
) -> tuple[list[Source], list[ManifestError]]:
    """The files behind the paths in the order given, folders in natural order; each file once."""
    sources: list[Source] = []
    errors: list[ManifestError] = []
    seen: set[Path] = set()
    for path in paths:
        if path == STDIN:
            sources.append(Source("stdin", len(stdin or b""), data=stdin or b""))
            continue
        try:
            found = _files_below(path)
        except (OSError, ValueError) as problem:
            errors.append(ManifestError(path, "", f"cannot be read: {_cause(problem)}"))
            continue
        if not found:
            errors.append(ManifestError(path, "", "folder has no .yaml, .yml or .json file"))
        for file in found:
            try:
                real = file.resolve()
                if real not in seen:
                    seen.add(real)
                    sources.append(_source_of(file))
            except ManifestError as error:
                errors.append(error)
            except (OSError, RuntimeError) as problem:
                errors.append(ManifestError(str(file), "", f"cannot be read: {_cause(problem)}"))
    return sources, errors


@contextmanager
def opened(source: Source) -> Iterator[mmap.mmap | bytes]:
    """The bytes of a source. A file is mapped, not read: its pages need not stay in memory."""
    if source.path is None:
        yield source.data or b""
        return
    try:
        with source.path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b""
    except (OSError, ValueError) as problem:
        raise ManifestError(source.name, "", f"cannot be read: {_cause(problem)}") from None
    yield mapped


def too_large(name: str, size: int) -> ManifestError:
    return ManifestError(
        name, "", f"is {size / 2**30:.1f} GiB; at most {MAX_SOURCE_BYTES // 2**30} GiB are read at once"
    )


def _files_below(path: str) -> list[Path]:
    root = Path(path)
    if not stat.S_ISDIR(root.stat().st_mode):
        return [root]
    found = [
        Path(folder, name)
        for folder, _, names in os.walk(root)
        for name in names
        if name.lower().endswith(SUFFIXES)
    ]
    return sorted(found, key=lambda file: [natural_key(part) for part in file.parts])


def _source_of(file: Path) -> Source:
    status = file.stat()
    if stat.S_ISREG(status.st_mode):
        if status.st_size > MAX_SOURCE_BYTES:
            raise too_large(str(file), status.st_size)
        return Source(str(file), status.st_size, path=file)
    # A pipe, as the shell's `-f <(command)` makes it: readable once, of unknown length.
    with file.open("rb") as pipe:
        data = pipe.read(MAX_SOURCE_BYTES + 1)
    if len(data) > MAX_SOURCE_BYTES:
        raise too_large(str(file), len(data))
    return Source(str(file), len(data), data=data)


def _cause(problem: Exception) -> str:
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror.lower()
    return str(problem)

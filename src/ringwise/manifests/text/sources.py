"""Sources of manifests: files, folders, pipes, standard input."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ringwise.manifests.text.errors import ManifestError, document_error
from ringwise.records import dataclass
from ringwise.topology.natural import natural_key

#: Largest size of one source. A dump of 100,000 nodes with their pods is smaller.
MAX_SOURCE_BYTES = 2 * 2**30

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"


@dataclass(frozen=True, slots=True)
class ManifestSource:
    """One stream of documents. `data` is set for content in memory, else `path` is opened."""

    name: str
    size: int
    path: Path | None = None
    data: bytes | None = None

    @property
    def is_json_by_name(self) -> bool:
        return self.name.lower().endswith(".json")


def find_sources(
    paths: Sequence[str], stdin: bytes | None = None
) -> tuple[list[ManifestSource], list[ManifestError]]:
    """The files of the paths in the order given, those of folders in natural order; each file once."""
    sources: list[ManifestSource] = []
    errors: list[ManifestError] = []
    seen: set[Path] = set()
    for path in paths:
        if path == STDIN:
            sources.append(ManifestSource("stdin", len(stdin or b""), data=stdin or b""))
            continue
        try:
            files = _files_below(path)
        except (OSError, ValueError) as problem:
            errors.append(ManifestError(path, "", f"cannot be read: {_cause(problem)}"))
            continue
        if not files:
            errors.append(
                ManifestError(path, "", "the directory does not contain .yaml, .yml or .json files")
            )
        for file in files:
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
def opened(source: ManifestSource) -> Iterator[mmap.mmap | bytes]:
    """The bytes of a source. A file is mapped, so its pages need not stay in memory."""
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


def read_file(path: Path, most: int = MAX_SOURCE_BYTES) -> bytes:
    """A file that people write by hand. Raises DocumentError: it cannot be read, or has more bytes."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as problem:
        raise document_error(str(path), f"cannot be read: {_cause(problem)}") from None
    if len(data) > most:
        raise document_error(str(path), f"must be at most {most >> 10} KiB")
    return data


def too_large(name: str, size: int) -> ManifestError:
    return ManifestError(
        name, "", f"is {size / 2**30:.1f} GiB; at most {MAX_SOURCE_BYTES // 2**30} GiB are read at once"
    )


def _files_below(path: str) -> list[Path]:
    root = Path(path)
    if not stat.S_ISDIR(root.stat().st_mode):
        return [root]
    files = [
        Path(folder, name)
        for folder, _, names in os.walk(root)
        for name in names
        if name.lower().endswith(SUFFIXES)
    ]
    return sorted(files, key=lambda file: [natural_key(part) for part in file.parts])


def _source_of(file: Path) -> ManifestSource:
    status = file.stat()
    if stat.S_ISREG(status.st_mode):
        if status.st_size > MAX_SOURCE_BYTES:
            raise too_large(str(file), status.st_size)
        return ManifestSource(str(file), status.st_size, path=file)
    # A pipe, such as `-f <(command)` of the shell: readable once, of unknown length.
    with file.open("rb") as pipe:
        data = pipe.read(MAX_SOURCE_BYTES + 1)
    if len(data) > MAX_SOURCE_BYTES:
        raise too_large(str(file), len(data))
    return ManifestSource(str(file), len(data), data=data)


def _cause(problem: Exception) -> str:
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror.lower()
    return str(problem)

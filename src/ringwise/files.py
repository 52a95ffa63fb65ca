"""Files that are written as a whole or not at all, and files that another process may replace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Write a file that takes the place of `path` when it is complete. Raises OSError."""
    unfinished = path.with_name(f".{path.name}.new")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(unfinished, flags, mode), "wb") as file:
            # The mode must not depend on the umask or on an unfinished file that was left behind.
            os.fchmod(file.fileno(), mode)
            yield file
        unfinished.replace(path)
    except BaseException:
        # On a full disk the rest of it would only take more room.
        with suppress(OSError):
            unfinished.unlink()
        raise


def is_still(path: Path, descriptor: int) -> bool:
    """Return whether the path still refers to the open file: it was neither deleted nor replaced."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False

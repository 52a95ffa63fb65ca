"""Accounting documents as the files of a folder."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

from ringwise.files import replacing
from ringwise.manifests.accounts.document import MAX_BYTES

#: Day and part.
_NAME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{2,4}")


class AccountFolder:
    """Files of other names are not read. Raises OSError where the folder itself cannot be used."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[tuple[str, str]]:
        """Names and texts, in order. The text of a file that cannot be read is empty."""
        try:
            names = sorted(path.stem for path in self.path.glob("*.json") if _NAME.fullmatch(path.stem))
        except FileNotFoundError:
            return []
        return [(name, self._text(name)) for name in names]

    def _text(self, name: str) -> str:
        try:
            with self._file(name).open("rb") as file:
                return file.read(4 * MAX_BYTES + 1).decode()
        except (OSError, UnicodeDecodeError):
            return ""

    def write(self, name: str, text: str) -> None:
        """All of it or nothing, whenever the process exits. Raises OSError."""
        self.path.mkdir(mode=0o750, parents=True, exist_ok=True)
        with replacing(self._file(name), 0o644) as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())

    def clear(self) -> None:
        """Delete the documents; other files stay."""
        for name, _ in self.read():
            self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self.path / f"{name}.json"


class FolderAccounts:
    """The folder as the store of a component on Kubernetes."""

    limited = False

    def __init__(self, folder: AccountFolder) -> None:
        self._folder = folder

    async def read(self) -> list[tuple[str, str]]:
        return await asyncio.to_thread(self._folder.read)

    async def write(self, name: str, text: str) -> None:
        await asyncio.to_thread(self._folder.write, name, text)

"""Values of JSON by key, as text, with a bound in bytes: a document that grows by single entries."""

from __future__ import annotations

import json


class BoundedTexts:
    """The entry that was written longest ago goes first. Only the entry that changes is turned into text."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        #: Whole entries, with their keys.
        self._texts: dict[str, str] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._texts)

    def put(self, key: str, value: object) -> list[str]:
        """Write an entry; returns the keys that had to go."""
        self.drop(key)
        text = f"{compact(key)}:{compact(value)}"
        self._texts[key] = text
        self._bytes += len(text.encode()) + 1
        gone: list[str] = []
        while self._bytes > self._largest:
            gone.append(next(iter(self._texts)))
            self.drop(gone[-1])
        return gone

    def drop(self, key: str) -> None:
        text = self._texts.pop(key, None)
        if text is not None:
            self._bytes -= len(text.encode()) + 1

    def document(self) -> str:
        """An object of JSON."""
        return "{" + ",".join(self._texts.values()) + "}"


#: Made once: `json.dumps` makes one for each value, and documents have thousands of them.
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def compact(value: object) -> str:
    return _ENCODER.encode(value)


def check_writable(value: object) -> None:
    """Raises ValueError for what was read and cannot be written again: JSON names halves of characters.

    A record with one would never be written, and pods are deleted only after it is.
    """
    compact(value).encode()

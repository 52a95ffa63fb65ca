"""Splits JSON into objects without keeping all of it in memory.

A dump of a cluster is one List of many thousand objects. The end of each object is found by decoding from
its first byte: the decoder stops behind the value, and its error gives the position of the next byte. So an
object is decoded from its own bytes into a trimmed struct, and mapped pages behind it are released.
Documents that follow each other without a separator are found in the same way.

msgspec gives this position only in the text of its error. The text is tested, and pyproject.toml admits only
versions of msgspec that were tested (docs/develop/decisions/0012-json-streams.md).
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Generator, Iterator

import msgspec

from ringwise.manifests.text.errors import ManifestError
from ringwise.records import dataclass

#: Bytes that are first passed to the decoder for one value; most objects are smaller. Four times more next.
_WINDOW = 1 << 16
#: Pages that were read are released in steps of this size.
_STEP = 1 << 23

_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_BYTE = re.compile(r"\(byte (\d+)\)")
_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"((?:[^"\\\x00-\x1f]|\\.)*)"')
_SEPARATOR = re.compile(rb"---[ \t]*(?:\r?\n|$)")

TOO_DEEP = "is nested too deeply to be a Kubernetes object"


@dataclass(frozen=True, slots=True)
class JsonValue:
    """One object of the stream. `item` is its index in a List, or None; `list_kind` the kind of the List."""

    document: int
    item: int | None
    raw: memoryview
    list_kind: str = ""


class _Kind(msgspec.Struct):
    kind: object = None


class JsonStream:
    """The objects of one source, in order."""

    def __init__(
        self, name: str, data: mmap.mmap | bytes, advanced: Callable[[int], None] = lambda at: None
    ) -> None:
        self._name = name
        self._data = data
        self._view = memoryview(data)
        self._end = len(self._view)
        self._advanced = advanced
        self._released = 0
        self._skip = msgspec.json.Decoder(msgspec.Raw)
        self._document = 1
        #: The position after a `---` line at which text that is not JSON begins, and its document number.
        self.rest: tuple[int, int] | None = None

    def values(self) -> Iterator[JsonValue]:
        """All objects; those of Lists one by one. Malformed JSON ends the stream with a ManifestError."""
        at = self._space(3 if bytes(self._view[:3]) == b"\xef\xbb\xbf" else 0)
        separated = False
        while at < self._end:
            separator = _SEPARATOR.match(self._data, at)
            if separator:
                separated, at = True, self._space(separator.end())
                continue
            if separated and not self._is_at(at, b"{["):
                self.rest = (at, self._document)
                return
            at = self._space((yield from self._top(at)))
            separated = False
            self._document += 1
            self._passed(at)

    def _top(self, start: int) -> Generator[JsonValue, None, int]:
        """One document; returns the position of its end. An object with an array `items` is a List."""
        if not self._is_at(start, b"{"):
            end = self._value_end(start)
            yield JsonValue(self._document, None, self._view[start:end])
            return end
        is_list, kind = False, ""
        at = self._space(start + 1)
        while not self._is_at(at, b"}"):
            key, at = self._key(at)
            if key == b"items" and self._is_at(at, b"["):
                is_list = True
                at = yield from self._items(at, kind)
            else:
                end = self._value_end(at)
                if key == b"kind":
                    kind = _text(self._view[at:end])
                at = end
            at = self._after_value(at, b"}")
        if not is_list:
            yield JsonValue(self._document, None, self._view[start : at + 1])
        return at + 1

    def _items(self, start: int, kind: str) -> Generator[JsonValue, None, int]:
        at = self._space(start + 1)
        item = 0
        while not self._is_at(at, b"]"):
            end = self._value_end(at)
            raw = self._view[at:end]
            if item == 0 and not kind and not _text(raw, inside=True):
                kind = self._kind_behind(start)
            yield JsonValue(self._document, item, raw, kind or "List")
            at = self._after_value(end, b"]")
            item += 1
            self._passed(at)
        return at + 1

    def _kind_behind(self, array: int) -> str:
        """The kind of a List that comes after its items, for items without a kind of their own."""
        at = self._after_value(self._value_end(array), b"}")
        while not self._is_at(at, b"}"):
            key, at = self._key(at)
            end = self._value_end(at)
            if key == b"kind":
                return _text(self._view[at:end])
            at = self._after_value(end, b"}")
        return ""

    def _key(self, at: int) -> tuple[bytes, int]:
        match = _STRING.match(self._data, at)
        if match is None:
            raise self._broken(at, "expected a key in double quotes")
        colon = self._space(match.end())
        if not self._is_at(colon, b":"):
            raise self._broken(colon, "expected ':'")
        return match[1], self._space(colon + 1)

    def _after_value(self, at: int, closing: bytes) -> int:
        """The position after the comma, or that of the closing bracket."""
        at = self._space(at)
        if self._is_at(at, closing):
            return at
        if not self._is_at(at, b","):
            raise self._broken(at, f"expected ',' or '{closing.decode()}'")
        at = self._space(at + 1)
        if self._is_at(at, closing):
            raise self._broken(at, "trailing comma")
        return at

    def _value_end(self, at: int) -> int:
        window = _WINDOW
        while True:
            stop = min(at + window, self._end)
            try:
                self._skip.decode(self._view[at:stop])
            except msgspec.DecodeError as problem:
                text = str(problem)
                trailing = _TRAILING.search(text)
                if trailing:
                    # The position in the error is the one after the first trailing byte.
                    return at + int(trailing[1]) - 1
                # A value that the window cuts can look malformed (a number that ends in its sign).
                if stop == self._end:
                    raise self._malformed(at, text) from None
            except RecursionError:
                raise ManifestError(self._where, "", TOO_DEEP) from None
            else:
                if stop == self._end:
                    return stop
            window *= 4

    def _malformed(self, at: int, text: str) -> ManifestError:
        """The decoder's error about the value that begins here, with line and column."""
        byte = _BYTE.search(text)
        if byte is None:
            return self._broken(at, "the value that begins here is not terminated")
        message = text.removeprefix("JSON is malformed: ").partition(" (byte")[0]
        return self._broken(at + int(byte[1]), message)

    def _space(self, at: int) -> int:
        match = _SPACE.match(self._data, at)
        return match.end() if match else at

    def _is_at(self, at: int, any_of: bytes) -> bool:
        return at < self._end and self._view[at] in any_of

    @property
    def _where(self) -> str:
        return f"{self._name}: document {self._document}"

    def _broken(self, at: int, message: str) -> ManifestError:
        line, begin = 1, 0
        while (newline := self._data.find(b"\n", begin, at)) >= 0:
            line, begin = line + 1, newline + 1
        return ManifestError(
            self._where, "", f"invalid JSON in line {line}, column {at - begin + 1}: {message}"
        )

    def _passed(self, at: int) -> None:
        if at - self._released < _STEP:
            return
        if isinstance(self._data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            first = self._released - self._released % mmap.PAGESIZE
            self._data.madvise(mmap.MADV_DONTNEED, first, at - first)
        self._released = at
        self._advanced(at)


def _text(raw: memoryview, *, inside: bool = False) -> str:
    """The string of a JSON value; with `inside`, that of its key `kind`. Empty when it is not a string."""
    try:
        value = msgspec.json.decode(raw, type=_Kind).kind if inside else msgspec.json.decode(raw)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return ""
    return value if isinstance(value, str) else ""

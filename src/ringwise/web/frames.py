"""Events of the stream, encoded once for all clients, and the last of them."""

from __future__ import annotations

import struct
import zlib
from collections import deque
from collections.abc import Iterator
from functools import cached_property
from itertools import islice

import msgspec

#: Most bytes and most events that are kept for clients that were away.
MAX_HISTORY_BYTES = 16 << 20
MAX_HISTORY_FRAMES = 4096


class Frame:
    """One event of the stream, as it is and packed."""

    def __init__(self, name: str, document: object, sequence: int | None = None) -> None:
        self.name = name
        self.sequence = sequence
        lines = [f"event: {name}\n".encode()]
        if sequence is not None:
            lines.append(f"id: {sequence}\n".encode())
        # JSON has no line breaks outside of strings, and none unescaped inside.
        self.raw = b"".join((*lines, b"data: ", msgspec.json.encode(document), b"\n\n"))

    @cached_property
    def packed(self) -> bytes:
        return packed(self.raw)


def packed(raw: bytes) -> bytes:
    """Deflated so that any sequence of such parts is one valid stream: it refers to nothing before it."""
    deflate = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflate.compress(raw) + deflate.flush(zlib.Z_FULL_FLUSH)


class GzipStream:
    """The parts of one gzip stream: many clients get the same packed frames, each with its own ends."""

    #: No name, no time, unknown system.
    HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

    def __init__(self) -> None:
        self._checksum = 0
        self._length = 0

    def part(self, raw: bytes, deflated: bytes) -> bytes:
        self._checksum = zlib.crc32(raw, self._checksum)
        self._length += len(raw)
        return deflated

    def end(self) -> bytes:
        """An empty last block, and the checksum."""
        return b"\x03\x00" + struct.pack("<II", self._checksum, self._length & 0xFFFFFFFF)


class FrameHistory:
    """The last frames, without gaps. Clients read here at their own pace and own nothing themselves."""

    def __init__(self) -> None:
        self._frames: deque[Frame] = deque()
        self._bytes = 0
        #: Sequence of the state before the first frame, and after the last one.
        self.first = 0
        self.last = 0

    def append(self, frame: Frame) -> None:
        self._frames.append(frame)
        self._bytes += len(frame.raw)
        self.last += 1
        while self._frames and (self._bytes > MAX_HISTORY_BYTES or len(self._frames) > MAX_HISTORY_FRAMES):
            self._bytes -= len(self._frames.popleft().raw)
            self.first += 1

    def has(self, since: int) -> bool:
        """Whether the frames after this sequence are complete for a client."""
        return self.first <= since <= self.last

    def after(self, since: int) -> Iterator[Frame]:
        """The frames that follow a sequence that `has` has confirmed."""
        return iter(list(islice(self._frames, since - self.first, None)))

    def __len__(self) -> int:
        return len(self._frames)

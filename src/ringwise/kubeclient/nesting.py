"""JSON that is nested too deeply for a decoder.

An API server takes values that are nested ten thousand levels deep, for example in the template of a vcjob or
in `metadata.managedFields`. One such object must not make the list that contains it unreadable. No field that
is read lies that deep, so values beyond a limit are read as null.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

#: Levels that are read. Fields of the API are less than 30 levels deep.
MAX_LEVELS = 100

#: A string, or a bracket outside of strings.
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


def decode_nested(decoder: msgspec.json.Decoder[Any], text: bytes | msgspec.Raw) -> Any:
    """What the decoder makes of the text. Raises only what it raises for any other text."""
    try:
        return decoder.decode(text)
    except RecursionError:
        return decoder.decode(without_deep_values(bytes(text)))


def without_deep_values(text: bytes) -> bytes:
    """The same JSON with null in place of every array or object that is nested too deeply."""
    parts: list[bytes] = []
    depth = begin = 0
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first in b"[{":
            depth += 1
            if depth == MAX_LEVELS + 1:
                parts += [text[begin : token.start()], b"null"]
        elif first in b"]}":
            if depth == MAX_LEVELS + 1:
                begin = token.end()
            depth -= 1
    parts.append(text[begin:])
    return b"".join(parts)

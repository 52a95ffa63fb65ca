"""Typed entries of the leader record as values of JSON, and back.

A dataclass is an object with its fields; a field that has its default is left out, so that a new field with a
default needs no new version of the record. A named tuple is a list, an enum its value.
"""

from __future__ import annotations

import base64
import enum
import json
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from decimal import Decimal
from functools import cache, partial
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from ringwise.records import RECORDED
from ringwise.state.ranges import MAX_NODE_CHIPS

#: An entry whose JSON has more bytes is compressed: that of a job with thousands of pods.
LARGE_ENTRY = 64 * 1024
#: Bytes of a compressed entry when it is unpacked: those of more than 100,000 pods.
MAX_UNPACKED = 64 * 1024 * 1024
#: Errors of entries that cannot be read.
UNREADABLE = (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, zlib.error)
_PLAIN_TYPES = frozenset({str, int, bool, float, NoneType})
#: The largest number is a mask of all chips of a node; -1 stands for none.
_NUMBERS = range(-1, 1 << MAX_NODE_CHIPS)
_HUNDREDTHS = re.compile(r"[0-9]{1,9}\.[0-9]{2}", re.ASCII)
#: Made once: `json.dumps` makes one for each value.
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)

compact = _ENCODER.encode


def encode(value: object) -> str:
    """Return an entry as JSON."""
    text = compact(plain(value))
    if len(text) <= LARGE_ENTRY:
        return text
    return compact({"compressed": base64.b64encode(zlib.compress(text.encode())).decode()})


def decode(kind: Any, value: Any) -> Any:
    """Return an entry that was read as JSON. Raises one of `UNREADABLE`."""
    value = expanded(value) if isinstance(value, dict) else value
    # JSON can name halves of characters; what has one could not be written again.
    compact(value).encode()
    return reader(kind)(value)


def expanded(value: dict[str, Any]) -> Any:
    """Return what a compressed entry is; any other object is returned as it is."""
    if value.keys() != {"compressed"}:
        return value
    decompressor = zlib.decompressobj()
    data = decompressor.decompress(base64.b64decode(value["compressed"], validate=True), MAX_UNPACKED)
    if not decompressor.eof:
        raise ValueError("a compressed entry is larger than any entry can be")
    return json.loads(data)


def plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    kind: Any = type(value)
    if kind in _PLAIN_TYPES:
        return value
    if isinstance(value, Mapping):
        if type(next(iter(value), "")) in (str, int):
            return {key: plain(item) for key, item in value.items()}
        return [[plain(key), plain(item)] for key, item in value.items()]
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Decimal):
        # As text, which is exact.
        return str(value)
    if isinstance(value, frozenset):
        return sorted(map(plain, value))
    written = ((name, default, getattr(value, name)) for name, default in _defaults(kind))
    return {name: plain(item) for name, default, item in written if item != default}


@cache
def _defaults(kind: Any) -> list[tuple[str, Any]]:
    """The fields that are written, with their defaults."""
    result: list[tuple[str, Any]] = []
    for one in fields(kind):
        default = one.default if one.default_factory is MISSING else one.default_factory()
        if one.metadata.get(RECORDED, True):
            result.append((one.name, default))
    return result


@cache
def reader(kind: Any) -> Callable[[Any], Any]:
    """Return what reads a value of a type; it raises one of `UNREADABLE` for another value."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is None:
        return _reader_of_class(kind)
    if Decimal in parts:
        return _amount
    if NoneType in parts:
        (inner,) = (part for part in parts if part is not NoneType)
        return partial(_optional, reader(inner))
    readers = [reader(part) for part in parts if part is not Ellipsis]
    if issubclass(origin, Mapping):
        return partial(_mapping, readers[0], readers[1], parts[0] is int)
    if origin is tuple and Ellipsis not in parts:
        return partial(_tuple, readers)
    made = {tuple: tuple, frozenset: frozenset}.get(origin, list)
    return lambda value: made(map(readers[0], _of(list, value)))


def _reader_of_class(kind: Any) -> Callable[[Any], Any]:
    if kind is int:
        return _number
    if kind in _PLAIN_TYPES:
        return partial(_of, kind)
    if issubclass(kind, enum.Enum):
        return kind  # type: ignore[no-any-return]
    hints = get_type_hints(kind)
    if issubclass(kind, tuple):
        readers = [reader(hints[name]) for name in kind._fields]
        return lambda value: kind(
            *(read(part) for read, part in zip(readers, _of(list, value), strict=False))
        )
    named = {name: reader(hints[name]) for name, _ in _defaults(kind)}
    return lambda value: kind(
        **{name: read(value[name]) for name, read in named.items() if name in _of(dict, value)}
    )


def _of(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"must be a {kind.__name__}")
    return value


def _number(value: Any) -> int:
    if _of(int, value) not in _NUMBERS:
        raise ValueError("must be a number, at least -1")
    return value  # type: ignore[no-any-return]


def _amount(value: Any) -> int | Decimal:
    """Read a number, or the text of a share of a chip: `"0.25"`."""
    if isinstance(value, str) and _HUNDREDTHS.fullmatch(value):
        return Decimal(value)
    return _number(value)


def _optional(read: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else read(value)


def _mapping(key: Callable[[Any], Any], item: Callable[[Any], Any], numbers: bool, value: Any) -> Any:
    if not isinstance(value, dict):
        return {key(one): item(other) for one, other in value}
    return {key(int(one) if numbers else one): item(other) for one, other in value.items()}


def _tuple(readers: list[Callable[[Any], Any]], value: Any) -> Any:
    return tuple(read(part) for read, part in zip(readers, _of(list, value), strict=True))

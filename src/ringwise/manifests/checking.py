"""What is wrong with a value that does not fit its struct.

The decoder stops at the first misfit and does not show the value. It is asked
first because it is fast; only when it refuses is the value walked again here,
beside the struct's own types, to name every wrong field with what stands there.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec.inspect as shapes

from ringwise.manifests.errors import shown

_WORDS: dict[type, str] = {
    shapes.StrType: "text",
    shapes.IntType: "a whole number",
    shapes.FloatType: "a number",
    shapes.BoolType: "true or false",
    shapes.ListType: "a list",
    shapes.DictType: "an object",
    shapes.StructType: "an object",
}


def misfits(value: object, kind: object) -> Iterator[tuple[str, str]]:
    """Field path and message for everything in `value` that a struct of type `kind` cannot take."""
    return _misfits(value, shapes.type_info(kind), "")


def _misfits(value: object, shape: shapes.Type, field: str) -> Iterator[tuple[str, str]]:
    if isinstance(shape, shapes.UnionType):
        fitting = next((one for one in shape.types if _fits(value, one)), None)
        if fitting is None:
            yield field, _message(value, [one for one in shape.types if not isinstance(one, shapes.NoneType)])
        else:
            yield from _misfits(value, fitting, field)
    elif not _fits(value, shape):
        yield field, _message(value, [shape])
    elif isinstance(shape, shapes.StructType) and isinstance(value, dict):
        for inner in shape.fields:
            if inner.encode_name in value:
                path = f"{field}.{inner.encode_name}" if field else inner.encode_name
                yield from _misfits(value[inner.encode_name], inner.type, path)
    elif isinstance(shape, shapes.DictType) and isinstance(value, dict):
        for key, entry in value.items():
            yield from _misfits(entry, shape.value_type, keyed(field, str(key)))
    elif isinstance(shape, shapes.ListType) and isinstance(value, list):
        for position, entry in enumerate(value):
            yield from _misfits(entry, shape.item_type, f"{field}[{position}]")


def keyed(field: str, key: str) -> str:
    """The path of a map's entry. Keys with dots stand in brackets, or the path could not be read."""
    if key.replace("-", "").replace("_", "").isalnum():
        return f"{field}.{key}"
    return f"{field}[{key[:100]}]"


def _fits(value: object, shape: shapes.Type) -> bool:
    match shape:
        case shapes.AnyType() | shapes.RawType():
            return True
        case shapes.NoneType():
            return value is None
        case shapes.BoolType():
            return isinstance(value, bool)
        case shapes.IntType():
            return isinstance(value, int) and not isinstance(value, bool)
        case shapes.FloatType():
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case shapes.StrType():
            return isinstance(value, str)
        case shapes.ListType():
            return isinstance(value, list)
        case shapes.DictType() | shapes.StructType():
            return isinstance(value, dict)
    return False


def _message(value: object, allowed: list[shapes.Type]) -> str:
    words = list(dict.fromkeys(_WORDS.get(type(shape), "something else") for shape in allowed))
    if words == ["text", "a whole number", "a number"]:
        words = ["a quantity"]
    message = f"must be {' or '.join(words)}, got {shown(value)}"
    if words == ["text"] and isinstance(value, (int, float, bool)):
        message += "; put it in quotes"
    return message

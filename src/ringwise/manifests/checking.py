"""Decoding with complete errors: every field of a value that does not fit its struct.

The decoder of msgspec is fast, but stops at the first error and does not show the value. When it fails, the
value is compared with the types of the struct here, to report every wrong field with its value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import GenericAlias
from typing import Any, TypeVar

import msgspec
import msgspec.inspect as shapes

from ringwise.grammar import agrees
from ringwise.manifests.errors import Findings, shown
from ringwise.manifests.json_stream import TOO_DEEP

Kind = TypeVar("Kind")

#: Wrong entries of one map that are named: to explain one takes much longer than to read one.
MOST_EXPLAINED = 100

_TYPE_NAMES: dict[type, str] = {
    shapes.StrType: "text",
    shapes.IntType: "a whole number",
    shapes.FloatType: "a number",
    shapes.BoolType: "true or false",
    shapes.ListType: "a list",
    shapes.DictType: "an object",
    shapes.StructType: "an object",
}


def misfits(value: object, kind: object) -> Iterator[tuple[str, str]]:
    """Field path and message of every part of `value` that does not fit the type `kind`."""
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


def without_misfits(value: object, kind: object) -> Any:
    """The value without the fields and entries of maps that do not fit; lists keep their places."""
    return _without_misfits(value, shapes.type_info(kind))


def _without_misfits(value: object, shape: shapes.Type) -> object:
    if isinstance(shape, shapes.UnionType):
        shape = next((one for one in shape.types if _fits(value, one)), shape)
    if isinstance(shape, shapes.StructType) and isinstance(value, dict):
        types = {inner.encode_name: inner.type for inner in shape.fields}
        return {
            key: _without_misfits(entry, types[key])
            for key, entry in value.items()
            if key in types and _may_fit(entry, types[key])
        }
    if isinstance(shape, shapes.DictType) and isinstance(value, dict):
        return {
            key: _without_misfits(entry, shape.value_type)
            for key, entry in value.items()
            if _may_fit(entry, shape.value_type)
        }
    if isinstance(shape, shapes.ListType) and isinstance(value, list):
        return [_without_misfits(entry, shape.item_type) for entry in value]
    return value


def _may_fit(value: object, shape: shapes.Type) -> bool:
    return any(
        _fits(value, one) for one in (shape.types if isinstance(shape, shapes.UnionType) else (shape,))
    )


def follows_from(field: str, misfit: str) -> bool:
    """Whether an error of `field` may only follow from a field that was left out."""
    # What a container requests and its limits are compared.
    resources, found, _ = misfit.rpartition(".resources.")
    within = f"{resources}.resources" if found else misfit
    return field.startswith(within) or misfit.startswith(field)


def keyed(field: str, key: str) -> str:
    """The path of a map entry. Keys with dots are written in brackets, or the path would be ambiguous."""
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
    words = list(dict.fromkeys(_TYPE_NAMES.get(type(shape), "something else") for shape in allowed))
    if words == ["text", "a whole number", "a number"]:
        words = ["a quantity"]
    message = f"must be {' or '.join(words)}, got {shown(value)}"
    if words == ["text"] and isinstance(value, (int, float, bool)):
        message += "; put it in quotes"
    return message


# -- JSON in annotations and ConfigMaps


def decoded(text: str, kind: type[Kind], path: str, found: Findings) -> Kind | None:
    """JSON in an annotation or ConfigMap as a value of that type; None, with errors, if it does not fit."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError) as problem:
        _explain(text, kind, path, found, problem)
    return None


def decoded_entries(text: str, kind: type[Kind], path: str, found: Findings) -> dict[str, Kind]:
    """A JSON object with many entries of one type. One that does not fit is an error and costs no other."""
    all_of_them: Any = GenericAlias(dict, (str, kind))
    try:
        fitting: dict[str, Kind] = msgspec.json.decode(text, type=all_of_them)
        return fitting
    except (msgspec.DecodeError, ValueError, RecursionError):
        return read_entries(decoded(text, dict[str, msgspec.Raw], path, found) or {}, kind, path, found)


def read_entries(
    raws: Mapping[str, msgspec.Raw], kind: type[Kind], path: str, found: Findings
) -> dict[str, Kind]:
    """The same of entries that were told apart already."""
    fitting: dict[str, Kind] = {}
    unexplained = 0
    for key, raw in raws.items():
        try:
            fitting[key] = msgspec.json.decode(raw, type=kind)
        except (msgspec.DecodeError, ValueError, RecursionError) as problem:
            if len(found.errors) < MOST_EXPLAINED:
                _explain(bytes(raw).decode(), kind, keyed(path, key), found, problem)
            else:
                unexplained += 1
    if unexplained:
        found.wrong(
            path, f"has {unexplained} more {agrees(unexplained, 'entry', 'entries')} that cannot be read"
        )
    return fitting


def _explain(text: str, kind: type[Kind], path: str, found: Findings, problem: Exception) -> None:
    try:
        # Broken syntax is reported before fields that do not fit, wherever it is in the text.
        plain = msgspec.json.decode(text)
    except RecursionError:
        found.wrong(path, TOO_DEEP)
        return
    except (msgspec.DecodeError, ValueError) as broken:
        reason = str(broken).removeprefix("JSON is malformed: ")
        found.wrong(path, f"must be valid JSON; {reason[:1].lower()}{reason[1:]}")
        return
    before = len(found.errors)
    for field, message in misfits(plain, kind):
        separator = "" if field.startswith((".", "[")) or not field else "."
        found.wrong(f"{path}{separator}{field}", message)
    if len(found.errors) == before:
        found.wrong(path, f"cannot be read: {problem}")

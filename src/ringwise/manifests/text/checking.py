"""Decoding with complete errors: every field of a value that does not fit its struct.

The decoder of msgspec is fast, but stops at the first error and does not show the value. When it fails, the
value is compared with the types of the struct here, to report every wrong field with its value.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from types import GenericAlias
from typing import Any, TypeVar

import msgspec
import msgspec.inspect as shapes

from ringwise.grammar import agrees
from ringwise.manifests.text.errors import MAX_ERRORS, SHOWN_CHARACTERS, Findings, invalid
from ringwise.manifests.text.json_stream import TOO_DEEP
from ringwise.topology.nearest import did_you_mean

Kind = TypeVar("Kind")
#: A value of a type that msgspec does not know, from what was written. Raises ValueError: what it must be.
Hook = Callable[[type, object], object]

#: To inspect a type takes much longer than to check a value.
_shape_of: Callable[[Any], shapes.Type] = lru_cache(64)(shapes.type_info)
_FIELDED = shapes.StructType | shapes.DataclassType
_TYPE_NAMES: dict[type, str] = {
    shapes.StrType: "a string",
    shapes.IntType: "a whole number",
    shapes.FloatType: "a number",
    shapes.BoolType: "true or false",
    shapes.DictType: "an object",
    shapes.StructType: "an object",
    shapes.DataclassType: "an object",
}


def misfits(
    value: object, kind: object, path: str = "", hook: Hook | None = None
) -> Iterator[tuple[str, str]]:
    """Field and message of every part of `value`, which is at `path`, that does not fit the type `kind`."""
    return _misfits(value, _shape_of(kind), path, hook)


def checked(value: object, kind: type[Kind], path: str, issues: Findings, hook: Hook) -> Kind | None:
    """A part of a file that people write, where a field that is null is as if it were not there.

    None, with all errors, if it does not fit; fields that are missing or unknown are errors, too.
    """
    # To find out what is wrong takes longer than to convert what is not.
    with contextlib.suppress(msgspec.ValidationError):
        return msgspec.convert(value, kind, dec_hook=hook, str_keys=True)
    before = len(issues.errors)
    for field, message in islice(misfits(value, kind, path, hook), MAX_ERRORS):
        issues.add_error(field, message)
    if len(issues.errors) > before:
        return None
    return msgspec.convert(without_misfits(value, kind), kind, dec_hook=hook, str_keys=True)


def no_hook(kind: type, value: object) -> object:
    """For structs without types of their own."""
    raise NotImplementedError(f"{kind.__name__} needs a hook")


def must_be_one_of(value: object, allowed: Iterable[str]) -> str:
    """What a value that is not one of a few words must be, with the one that is likely meant."""
    words = list(allowed)
    near = did_you_mean(value[:SHOWN_CHARACTERS], words) if isinstance(value, str) else ""
    return f"must be one of {', '.join(words)}{near}"


def check_word(field: str, value: object, allowed: Collection[str], issues: Findings) -> None:
    """Add an error if a value is not one of a few words."""
    if value not in allowed:
        issues.invalid(field, value, must_be_one_of(value, allowed))


def one_of(value: object, allowed: Sequence[str]) -> str:
    """For a hook: one of a few words."""
    if value not in allowed:
        raise ValueError(must_be_one_of(value, allowed))
    return str(value)


def _misfits(
    value: object, shape: shapes.Type, field: str, hook: Hook | None = None
) -> Iterator[tuple[str, str]]:
    """With a hook also what is unknown or not accepted by the hook; null is then as if it were missing."""
    if isinstance(shape, shapes.UnionType):
        fitting = next((one for one in shape.types if _fits(value, one)), None)
        if fitting is None:
            yield field, _message(value, [one for one in shape.types if not isinstance(one, shapes.NoneType)])
        else:
            yield from _misfits(value, fitting, field, hook)
    elif not _fits(value, shape):
        yield field, _message(value, [shape])
    elif isinstance(shape, _FIELDED) and isinstance(value, dict):
        fields = {inner.encode_name: inner for inner in shape.fields}
        if hook is not None:
            for key in value:
                if key not in fields and getattr(shape, "forbid_unknown_fields", False):
                    near = did_you_mean(str(key), fields)
                    yield keyed(field, str(key)), f"unknown field; allowed: {', '.join(fields)}{near}"
        for name, inner in fields.items():
            if value.get(name) is None and (hook is not None or name not in value):
                if inner.required:
                    yield keyed(field, name), "Required value"
            else:
                yield from _misfits(value[name], inner.type, keyed(field, name), hook)
    elif isinstance(shape, shapes.DictType) and isinstance(value, dict):
        for key, entry in value.items():
            if isinstance(shape.key_type, shapes.IntType) and not str(key).isdecimal():
                yield field, invalid(key, "must have whole numbers as keys")
            yield from _misfits(entry, shape.value_type, keyed(field, str(key)), hook)
    elif isinstance(shape, shapes.CollectionType) and isinstance(value, list):
        for position, entry in enumerate(value):
            yield from _misfits(entry, shape.item_type, f"{field}[{position}]", hook)
    elif isinstance(shape, shapes.CustomType) and hook is not None:
        try:
            hook(shape.cls, value)
        except ValueError as problem:
            yield field, invalid(value, str(problem))


def without_misfits(value: object, kind: object) -> Any:
    """The value without the fields and entries of maps that do not fit; lists keep their places."""
    return _without_misfits(value, _shape_of(kind))


def _without_misfits(value: object, shape: shapes.Type) -> object:
    if isinstance(shape, shapes.UnionType):
        shape = next((one for one in shape.types if _fits(value, one)), shape)
    if isinstance(shape, _FIELDED) and isinstance(value, dict):
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
    if isinstance(shape, shapes.CollectionType) and isinstance(value, list):
        return [_without_misfits(entry, shape.item_type) for entry in value]
    return value


def _may_fit(value: object, shape: shapes.Type) -> bool:
    return any(
        _fits(value, one) for one in (shape.types if isinstance(shape, shapes.UnionType) else (shape,))
    )


def follows_from(field: str, misfit: str) -> bool:
    """Whether an error of `field` may only follow from a field that was left out."""
    # What a container requests and its limits are compared.
    resources, separator, _ = misfit.rpartition(".resources.")
    within = f"{resources}.resources" if separator else misfit
    return field.startswith(within) or misfit.startswith(field)


def keyed(field: str, key: str) -> str:
    """The path of a map entry. Keys with dots are written in brackets, or the path would be ambiguous."""
    if len(key) <= 100 and key.replace("-", "").replace("_", "").isalnum():
        return f"{field}.{key}" if field else key
    return f"{field}[{key[:100]}]"


def _fits(value: object, shape: shapes.Type) -> bool:
    match shape:
        case shapes.AnyType() | shapes.RawType() | shapes.CustomType():
            return True
        case shapes.LiteralType():
            return value in shape.values
        case shapes.NoneType():
            return value is None
        case shapes.BoolType():
            return isinstance(value, bool)
        case shapes.IntType():
            return (
                isinstance(value, int)
                and not isinstance(value, bool)
                and (shape.ge is None or value >= shape.ge)
                and (shape.le is None or value <= shape.le)
            )
        case shapes.FloatType():
            return (
                isinstance(value, (int, float))
                and not isinstance(value, bool)
                and (shape.gt is None or value > shape.gt)
                and (shape.le is None or value <= shape.le)
            )
        case shapes.StrType():
            return isinstance(value, str) and len(value) >= (shape.min_length or 0)
        case shapes.CollectionType():
            return isinstance(value, list) and (
                (shape.min_length or 0) <= len(value) and (shape.max_length or len(value)) >= len(value)
            )
        case shapes.DictType():
            return isinstance(value, dict) and (shape.max_length or len(value)) >= len(value)
        case shapes.StructType() | shapes.DataclassType():
            return isinstance(value, dict)
    return False


def _message(value: object, allowed: list[shapes.Type]) -> str:
    words = list(dict.fromkeys(_type_name(shape, value) for shape in allowed))
    if words == ["a string", "a whole number", "a number"]:
        words = ["a quantity"]
    quotes = "; put it in quotes" if words == ["a string"] and isinstance(value, (int, float, bool)) else ""
    return invalid(value, f"must be {' or '.join(words)}{quotes}")


def _type_name(shape: shapes.Type, value: object) -> str:
    match shape:
        case shapes.LiteralType():
            return " or ".join(map(str, shape.values)).replace(" or ", ", ", len(shape.values) - 2)
        case shapes.IntType() if shape.ge is not None and shape.le is not None:
            return f"a whole number from {shape.ge} to {shape.le}"
        case shapes.IntType() if shape.ge is not None:
            return f"a whole number of {shape.ge} or more"
        case shapes.FloatType() if shape.gt is not None and shape.le is not None:
            return f"a number above {shape.gt:g} and at most {shape.le:g}"
        case shapes.StrType() if shape.min_length and value == "":
            return "a string that is not empty"
        case shapes.DictType() if isinstance(value, dict):
            return f"an object of at most {shape.max_length} entries"
        case shapes.CollectionType():
            if isinstance(value, list) and value:
                return f"a list of at most {shape.max_length} entries"
            return "a list that is not empty" if shape.min_length else "a list"
    return _TYPE_NAMES.get(type(shape), "something else")


# -- JSON in annotations and ConfigMaps


def decoded(
    text: str | bytes, kind: type[Kind], path: str, issues: Findings, hook: Hook | None = None
) -> Kind | None:
    """JSON in an annotation or ConfigMap as a value of that type; None, with errors, if it does not fit.

    With a hook it is read like a file that people write (`checked`).
    """
    try:
        if hook is not None:
            return checked(msgspec.json.decode(text), kind, path, issues, hook)
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError) as problem:
        _explain(text, kind, path, issues, problem)
    return None


def decoded_entries(text: str, kind: type[Kind], path: str, issues: Findings) -> dict[str, Kind]:
    """A JSON object with many entries of one type. One that does not fit is an error and costs no other."""
    all_of_them: Any = GenericAlias(dict, (str, kind))
    try:
        fitting: dict[str, Kind] = msgspec.json.decode(text, type=all_of_them)
        return fitting
    except (msgspec.DecodeError, ValueError, RecursionError):
        return read_entries(decoded(text, dict[str, msgspec.Raw], path, issues) or {}, kind, path, issues)


def read_entries(
    raws: Mapping[str, msgspec.Raw], kind: type[Kind], path: str, issues: Findings
) -> dict[str, Kind]:
    """The same for entries that were split already."""
    fitting: dict[str, Kind] = {}
    unexplained = 0
    for key, raw in raws.items():
        try:
            fitting[key] = msgspec.json.decode(raw, type=kind)
        except (msgspec.DecodeError, ValueError, RecursionError) as problem:
            # To explain a wrong entry takes much longer than to read one.
            if len(issues.errors) < MAX_ERRORS:
                _explain(bytes(raw).decode(), kind, keyed(path, key), issues, problem)
            else:
                unexplained += 1
    if unexplained:
        issues.add_error(
            path, f"has {unexplained} more {agrees(unexplained, 'entry', 'entries')} that cannot be read"
        )
    return fitting


def _explain(text: str | bytes, kind: type[Kind], path: str, issues: Findings, problem: Exception) -> None:
    try:
        # Broken syntax is reported before fields that do not fit, wherever it is in the text.
        plain = msgspec.json.decode(text)
    except RecursionError:
        issues.add_error(path, TOO_DEEP)
        return
    except (msgspec.DecodeError, ValueError) as broken:
        reason = str(broken).removeprefix("JSON is malformed: ")
        issues.add_error(path, f"must be valid JSON; {reason[:1].lower()}{reason[1:]}")
        return
    before = len(issues.errors)
    for field, message in misfits(plain, kind, path):
        issues.add_error(field, message)
    if len(issues.errors) == before:
        issues.add_error(path, f"cannot be read: {problem}")

"""Enough of the API server's checking of structural schemas to try ours on objects.

Unknown fields are findings here, where the server would drop them silently: a field that is dropped is a
field that would be ignored silently.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
}


def misfits(value: Any, schema: dict[str, Any], path: str = "") -> Iterator[str]:
    if value is None:
        if not schema.get("nullable"):
            yield f"{path}: null"
        return
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            yield f"{path}: neither a number nor a text"
        return
    allowed = _TYPES[schema["type"]]
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        yield f"{path}: not {schema['type']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value} is not one of {schema['enum']}"
    if isinstance(value, int) and not isinstance(value, bool):
        if value < schema.get("minimum", value) or value > schema.get("maximum", value):
            yield f"{path}: {value} is out of range"
        if schema.get("format") == "int32" and not -(2**31) <= value < 2**31:
            yield f"{path}: {value} is not an int32"
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from misfits(item, schema["items"], f"{path}[{position}]")
    if isinstance(value, dict):
        yield from _fields(value, schema, path)


def _fields(value: dict[str, Any], schema: dict[str, Any], path: str) -> Iterator[str]:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}.{name}: missing"
    for name, item in value.items():
        where = f"{path}.{name}"
        if name in known:
            yield from misfits(item, known[name], where)
        elif "additionalProperties" in schema:
            yield from misfits(item, schema["additionalProperties"], where)
        elif not schema.get("x-kubernetes-preserve-unknown-fields") and path != ".metadata":
            yield f"{where}: unknown field"


def not_structural(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """What the API server would refuse in the schema itself."""
    if "type" not in schema and not schema.get("x-kubernetes-int-or-string"):
        yield f"{path}: has no type"
    if "properties" in schema and "additionalProperties" in schema:
        yield f"{path}: has both properties and additionalProperties"
    if schema.get("type") == "array" and "items" not in schema:
        yield f"{path}: has no items"
    for name, part in schema.get("properties", {}).items():
        yield from not_structural(part, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if name in schema:
            yield from not_structural(schema[name], f"{path}.{name}")

"""JSON that stands as text inside an annotation or a ConfigMap."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from ringwise.manifests.checking import misfits
from ringwise.manifests.errors import Findings
from ringwise.manifests.json_stream import TOO_DEEP

Kind = TypeVar("Kind")


def decoded(text: str, kind: type[Kind], path: str, found: Findings) -> Kind | None:
    """The text as a value of that type, else None and every misfit by its path inside the text."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError) as problem:
        _explain(text, kind, path, found, problem)
    return None


def _explain(text: str, kind: type[Kind], path: str, found: Findings, problem: Exception) -> None:
    try:
        # A misfit can be met before broken syntax further on; syntax is told first.
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

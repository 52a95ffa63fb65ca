"""What of a printed document is a decision, and what is wording."""

from __future__ import annotations

from typing import Any

#: Everything below these keys is data that others read, spaces included.
_VERBATIM = frozenset({"annotations", "labels", "data", "config"})
#: Below these keys the names are data, not fields.
_MAPS = frozenset(
    {
        "allocatable",
        "allocated",
        "annotations",
        "by_code",
        "capability",
        "chips_allocatable",
        "chips_capacity",
        "commands",
        "counts",
        "data",
        "details",
        "extended",
        "extended_allocatable",
        "guarantee",
        "labels",
        "min_task_member",
        "plugins",
        "refusals",
        "used",
    }
)
TEXT = "(text)"


def decisions(document: Any) -> Any:
    """The document with its sentences left out: wording may change, decisions may not.

    A sentence is a text with a space in it. How many sentences give advice is wording, too, and whether any
    does: fixes are those that help at the moment.
    """
    if isinstance(document, dict):
        return {
            key: value if key in _VERBATIM else TEXT if _is_advice(key, value) else decisions(value)
            for key, value in document.items()
        }
    if isinstance(document, list):
        if all(isinstance(item, str) and " " not in item for item in document):
            # Names: those of the jobs on a node were in an order that depended on what had been asked.
            return sorted(document)
        items = [decisions(item) for item in document]
        return [TEXT] if items and all(item == TEXT for item in items) else items
    if isinstance(document, str) and " " in document:
        return TEXT
    return document


def _is_advice(key: str, value: Any) -> bool:
    return key == "fixes" and isinstance(value, list) and all(isinstance(item, str) for item in value)


def field_paths(document: Any) -> set[str]:
    """All field names of a document, as `jobs[].pods[].name`; names below maps are left out."""
    found: set[str] = set()
    _collect(document, "", found)
    return found


def _collect(value: Any, path: str, found: set[str]) -> None:
    if isinstance(value, list):
        for item in value:
            _collect(item, f"{path}[]", found)
    elif isinstance(value, dict):
        for key, item in value.items():
            below = f"{path}.{key}" if path else key
            found.add(below)
            if key not in _MAPS:
                _collect(item, below, found)


def first_difference(left: Any, right: Any, path: str = "") -> str | None:
    """Where two documents differ first, in one line; None when they are equal."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in [*left, *(key for key in right if key not in left)]:
            if key not in left or key not in right:
                side = "left" if key not in left else "right"
                return f"{path}.{key}: missing on the {side}"
            found = first_difference(left[key], right[key], f"{path}.{key}")
            if found is not None:
                return found
        return None
    if isinstance(left, list) and isinstance(right, list):
        for position, (one, other) in enumerate(zip(left, right, strict=False)):
            found = first_difference(one, other, f"{path}[{position}]")
            if found is not None:
                return found
        return None if len(left) == len(right) else f"{path}: {len(left)} items, {len(right)} items"
    if left == right and type(left) is type(right):
        return None
    return f"{path}: {_short(left)}, {_short(right)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."

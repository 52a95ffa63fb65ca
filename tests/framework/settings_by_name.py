"""Settings asked by the names they have in the file."""

from __future__ import annotations

from dataclasses import fields

from ringwise.framework.arguments import Value
from ringwise.framework.configuration import SETTINGS, Settings


def value_of(settings: Settings, name: str) -> Value:
    values: dict[str, Value] = {
        one: getattr(settings, row.name) for one, row in zip(SETTINGS, fields(settings), strict=True)
    }
    return values[name]

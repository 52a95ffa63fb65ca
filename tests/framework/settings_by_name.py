"""Settings asked by the names they have in the file."""

from __future__ import annotations

from dataclasses import fields

from ringwise.framework.arguments import Value
from ringwise.framework.configuration import Settings


def value_of(settings: Settings, name: str) -> Value:
    (row,) = (row for row in fields(settings) if row.metadata["argument"].name == name)
    value: Value = getattr(settings, row.name)
    return value

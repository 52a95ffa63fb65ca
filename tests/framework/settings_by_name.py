"""Settings asked by the names they have in the file."""

from __future__ import annotations

from dataclasses import fields

from ringwise.framework.configuration import Settings
from ringwise.framework.parameters import Value


def value_of(settings: Settings, name: str) -> Value:
    (row,) = (row for row in fields(settings) if row.metadata["parameter"].name == name)
    value: Value = getattr(settings, row.name)
    return value

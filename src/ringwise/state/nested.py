"""Tables of tables, in which no inner table is empty."""

from __future__ import annotations

from typing import Any, TypeVar

K = TypeVar("K")
M = TypeVar("M")


def discard(table: dict[K, dict[M, Any]], key: K, member: M) -> None:
    """Remove the member of a key, if it is there; a key without members goes."""
    members = table.get(key)
    if members is not None:
        members.pop(member, None)
        if not members:
            del table[key]

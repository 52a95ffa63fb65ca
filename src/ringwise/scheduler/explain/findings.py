"""A finding: a problem of a cluster, with its place and its cure."""

from __future__ import annotations

from ringwise.records import dataclass

ERROR, WARNING, NOTE = "error", "warning", "note"


@dataclass(frozen=True, slots=True)
class Finding:
    severity: str
    code: str
    where: str
    what: str
    cure: str


#: Names that are written out before the rest is only counted.
_NAMED = 8


def named(names: list[str], word: str) -> str:
    """`node a`, or `3 nodes (a, b, c)`"""
    if len(names) == 1:
        return f"{word} {names[0]}"
    more = ", ..." if len(names) > _NAMED else ""
    return f"{len(names)} {word}s ({', '.join(names[:_NAMED])}{more})"

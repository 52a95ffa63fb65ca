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


def throttled_text(used: int) -> str:
    """What is said of a namespace that used so many nanoseconds of the scheduler in the last minute."""
    return (
        f"is above its fair share of the scheduler: its jobs took {used / 1e9:.1f}s of processor time in "
        "the last minute; while jobs of other namespaces wait, one of them is tried in a turn"
    )

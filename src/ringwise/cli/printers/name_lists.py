"""Many names in few words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ringwise.topology.natural import natural_key

if TYPE_CHECKING:
    from ringwise.views.documents.reservations import ReservationFields

#: Names and ranges of one list that are shown.
_PARTS = 4
#: Fewer names than this are shown one by one.
_SHORTEST_RANGE = 3
_LAST_NUMBER = re.compile(r"(.*?)([0-9]+)([^0-9]*)", re.ASCII | re.DOTALL)


def name_list(names: Sequence[str]) -> str:
    """`node-0 to node-7, node-9`: those that count up are one part; of many parts the first ones."""
    runs: list[list[str]] = []
    for name in sorted(names, key=natural_key):
        if runs and _follows(runs[-1][-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    parts = [
        part for run in runs for part in ([run] if len(run) >= _SHORTEST_RANGE else [[name] for name in run])
    ]
    shown = parts[:_PARTS]
    more = len(names) - sum(map(len, shown))
    text = ", ".join(part[0] if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in shown)
    return f"{text} and {more} more" if more else text


def states_text(states: Iterable[str]) -> str:
    """`2 pending, 5 scheduled`"""
    return ", ".join(f"{count} {state}" for state, count in sorted(Counter(states).items()))


def holder_text(reservation: ReservationFields) -> str:
    """`queue research`: who can use the nodes of a reservation."""
    queue = reservation["queue"]
    return f"queue {queue}" if queue else f"namespace {reservation['namespace']}"


def _follows(before: str, name: str) -> bool:
    """Whether it has the next number, written as long as the one before where that begins with 0."""
    one, two = _LAST_NUMBER.fullmatch(before), _LAST_NUMBER.fullmatch(name)
    if one is None or two is None or (one[1], one[3]) != (two[1], two[3]):
        return False
    return two[2] == str(int(one[2]) + 1).zfill(len(one[2]))

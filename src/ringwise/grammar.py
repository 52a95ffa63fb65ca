"""Words that agree with a number: 1 pod waits, 2 pods wait.

This is the lowest layer: every package may import it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Sized
from typing import TYPE_CHECKING, TypeVar

from ringwise.durations import seconds_text

if TYPE_CHECKING:
    from decimal import Decimal

T = TypeVar("T")

_NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?", re.ASCII)


def agrees(number: object, one: str, many: str) -> str:
    """The word for that number; a number may be text, such as `1-8`."""
    return one if str(number) == "1" else many


def plural(word: str) -> str:
    return f"{word}es" if word.endswith(("ch", "sh", "s", "x")) else f"{word}s"


def counted(number: object, one: str, many: str = "") -> str:
    """`1 pod`, `2 pods`; the regular plural needs not be given. Of a list, set or map the entries count."""
    if isinstance(number, Sized) and not isinstance(number, str):
        number = len(number)
    return f"{number} {agrees(number, one, many or plural(one))}"


def listed(items: Sequence[object], most: int, separator: str = ", ", word: str = "") -> str:
    """Return the first items and the number of the others: `a, b and 3 more`, or `a, b and 3 more nodes`."""
    shown, more = separator.join(map(str, items[:most])), len(items) - most
    if more <= 0:
        return shown
    return f"{shown} and {counted(more, f'more {word}')}" if word else f"{shown} and {more:,} more"


def first_of(
    items: Sequence[T], most: int, rest: str = "and {n} more", text: Callable[[T], str] = str
) -> list[str]:
    """Texts about the first items; if there are more, also one with their number (`Quantity`)."""
    shown, more = [text(item) for item in items[:most]], len(items) - most
    return [*shown, rest.format(n=Quantity(more))] if more > 0 else shown


def quoted(text: str, longest: int = 60) -> str:
    """A value for a message: in double quotes, on one line and not long."""
    short = text if len(text) <= longest else text[: longest - 3] + "..."
    escaped = (one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in short)
    return f'"{"".join(escaped)}"'


_SIZES = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def amount_text(resource: str, amount: int | float | Decimal) -> str:
    """An amount in the units of people: cpu in cores, sizes in GiB and the like, all else as it is.

    Inside, cpu is counted in thousandths and sizes in bytes.
    """
    name = resource.removeprefix("requests.").removeprefix("limits.")
    if name == "cpu":
        return _short(float(amount) / 1000)
    if name in ("memory", "ephemeral-storage") or name.startswith("hugepages-"):
        for unit, size in _SIZES:
            if amount >= size:
                return f"{_short(float(amount) / size)} {unit}"
    return str(amount) if isinstance(amount, int) else f"{amount:.2f}"


def _short(number: float) -> str:
    return f"{number:.3f}".rstrip("0").rstrip(".")


class Quantity(str):
    """A number in a message. The format specification names what is counted:

    `{pods:pod}` is "1 pod" or "2 pods", `{pods:pod waits|pods wait}` has both forms, `{pods:=is|are}` is the
    word without the number, and `{pods:#}` the number without a word. `{seconds:~}` is a duration, "2m30s".
    `{n:?{best} has {n}|none has one}` is the first text, or the second if the number is 0.
    """

    def __format__(self, specification: str) -> str:
        if not specification or specification == "#":
            return str(self)
        if specification == "~":
            seconds = _NUMBER.fullmatch(self)
            return seconds_text(float(self)) if seconds else str(self)
        if specification.startswith("?"):
            # From the end: names in the first text may hold any sign.
            some, _, none = specification[1:].rpartition("|")
            return none if self == "0" else some
        one, _, many = specification.removeprefix("=").partition("|")
        if specification.startswith("="):
            return agrees(self, one, many)
        return counted(str(self), one, many)

"""Arguments of plugins, actions and settings as data: what may be written, what it means, the default.

One row is the single source: the reader of the configuration file checks by it, its error
messages quote it, the plugin gets its typed value through it, and the reference page is
printed from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from ringwise.durations import go_duration
from ringwise.grammar import quoted
from ringwise.records import dataclass
from ringwise.topology.nearest import did_you_mean

Value: TypeAlias = "bool | int | float | str | tuple[Value, ...] | Mapping[str, Value] | None"
T = TypeVar("T", bound=Value)
C = TypeVar("C", str, int)

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?")
_LABEL_KEY = re.compile(
    r"(?:(?=.{1,253}/)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
)
_RESOURCE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?")


def is_label_key(text: str) -> bool:
    return _LABEL_KEY.fullmatch(text) is not None


class InvalidArgument(ValueError):
    """A value that an argument does not take; the text states what was written and what is allowed."""


@dataclass(frozen=True, slots=True)
class Argument(Generic[T]):
    """One thing a user can set, under its name in the file."""

    name: str
    default: T
    allowed: str
    meaning: str
    #: None, or a ValueError with more about it: the text is not allowed.
    convert: Callable[[str], T | None]
    #: The values to choose from, when there are few; used for "did you mean".
    words: tuple[str, ...] = ()
    #: How the default is printed on the reference page, where the plain value is not enough.
    default_text: str = ""
    #: False: it is checked and has no effect; files written for Volcano carry it.
    has_effect: bool = True

    def read(self, text: str) -> T:
        """The value that is written as `text`. Raises `InvalidArgument`."""
        detail = ""
        try:
            value = self.convert(text)
        except ValueError as error:
            value, detail = None, f": {error}" if str(error) else ""
        if value is None:
            guess = did_you_mean(text, self.words)
            raise InvalidArgument(f"{quoted(text)} is not allowed{detail}; allowed: {self.allowed}{guess}")
        return value

    @property
    def printed_default(self) -> str:
        return self.default_text or printed(self.default)


@dataclass(frozen=True, slots=True)
class ArgumentFamily(Generic[T]):
    """Arguments whose names end in something the user chooses, such as a resource name."""

    prefix: str
    #: Stands for the chosen ending on the reference page.
    ending: str
    #: The row for every one of them; its name is that of the reference page.
    pattern: Argument[T]

    @property
    def name(self) -> str:
        return self.prefix + self.ending

    def has(self, name: str) -> bool:
        return name.startswith(self.prefix) and len(name) > len(self.prefix)


def find_argument(declared: Iterable[Argument[Any] | ArgumentFamily[Any]], name: str) -> Argument[Any] | None:
    """The row for the argument with this name; None when it is not declared."""
    family: Argument[Any] | None = None
    for row in declared:
        if isinstance(row, ArgumentFamily):
            family = row.pattern if row.has(name) else family
        elif row.name == name:
            return row
    return family


def defaults(declared: Iterable[Argument[Any] | ArgumentFamily[Any]]) -> dict[str, Value]:
    return {row.name: row.default for row in declared if isinstance(row, Argument)}


def integer(
    name: str,
    default: int,
    meaning: str,
    *,
    minimum: int = 0,
    maximum: int | None = None,
    unit: str = "",
    default_text: str = "",
    limit_text: str = "",
    has_effect: bool = True,
) -> Argument[int]:
    def convert(text: str) -> int | None:
        number = int(text) if _WHOLE_NUMBER.fullmatch(text) else minimum - 1
        return number if minimum <= number <= (number if maximum is None else maximum) else None

    span = f"{minimum} to {maximum}" if maximum is not None else f"{minimum} or more"
    noun = f"a whole number of {unit}" if unit else "a whole number"
    allowed = f"{noun}, {span}{limit_text}"
    return Argument(
        name, default, allowed, meaning, convert, default_text=default_text, has_effect=has_effect
    )


def seconds(
    name: str, default: int, meaning: str, *, minimum: int = 0, maximum: int = 86_400
) -> Argument[int]:
    """A number of seconds, at most a day unless the setting says otherwise."""
    return integer(name, default, meaning, minimum=minimum, maximum=maximum, unit="seconds")


def score_weight(name: str, default: int, meaning: str, *, has_effect: bool = True) -> Argument[int]:
    """The weight of a score or of a part of one."""
    return integer(name, default, meaning, maximum=1_000_000, has_effect=has_effect)


def decimal(name: str, default: float, meaning: str, *, minimum: float = 0.0) -> Argument[float]:
    """A number that may have a fraction."""

    def convert(text: str) -> float | None:
        return float(text) if _NUMBER.fullmatch(text) and float(text) >= minimum else None

    return Argument(name, default, f"a number, {minimum:g} or more", meaning, convert)


def waiting_time(name: str, meaning: str) -> Argument[int]:
    """A span of time in nanoseconds, written as a Go duration; 0 where it is not set."""
    allowed = 'a duration such as "90s", "10m" or "1h30m"; 0 for none'
    return Argument(name, 0, allowed, meaning, go_duration, default_text="none")


def boolean(name: str, default: bool, meaning: str, *, has_effect: bool = True) -> Argument[bool]:
    by_text = {"true": True, "false": False}

    def convert(text: str) -> bool | None:
        return by_text.get(text.lower())

    allowed = "true or false"
    return Argument(name, default, allowed, meaning, convert, words=tuple(by_text), has_effect=has_effect)


def choice(
    name: str,
    choices: tuple[C, ...],
    meaning: str,
    *,
    default: C | None = None,
    synonyms: Mapping[str, C] | None = None,
) -> Argument[C]:
    """One of a few values, of which the first is the default. `synonyms` are further ways to write some."""
    by_text: dict[str, C] = {str(value): value for value in choices}
    words = tuple(by_text)
    by_text.update(synonyms or {})

    allowed = " or ".join(words).replace(" or ", ", ", len(words) - 2)
    first = choices[0] if default is None else default
    return Argument(name, first, allowed, meaning, by_text.get, words=words)


def resource_list(name: str, meaning: str, *, has_effect: bool = True) -> Argument[tuple[str, ...]]:
    """Return an argument of comma-separated resource names."""

    def convert(text: str) -> tuple[str, ...]:
        if not text.strip():
            return ()
        names = tuple(item.strip() for item in text.split(","))
        for item in names:
            if not _RESOURCE_NAME.fullmatch(item):
                raise ValueError(f"{quoted(item)} is not a resource name")
        return names

    allowed = "comma-separated resource names"
    return Argument(name, (), allowed, meaning, convert, default_text="none", has_effect=has_effect)


def any_text(name: str, meaning: str) -> Argument[str]:
    """Any text, without an effect: files written for Volcano carry it."""
    return Argument(name, "", "any text", meaning, str, default_text="none", has_effect=False)


def label_key(name: str, meaning: str) -> Argument[str]:
    """The key of a label, as the API server allows it; empty: none."""

    def convert(text: str) -> str | None:
        return text if not text or is_label_key(text) else None

    allowed = "the key of a label, such as example.com/owner"
    return Argument(name, "", allowed, meaning, convert, default_text="none")


def resource_levels(name: str, meaning: str) -> Argument[str]:
    """The tree of topology levels of Huawei's plugin: JSON inside a string."""
    allowed = (
        'JSON such as {"tree": {"level1": {"label": "rack", "reservedNode": 1}, "level2": {"label": "room"}}}'
    )
    return Argument(name, "", allowed, meaning, _resource_levels, default_text="none", has_effect=False)


def _resource_levels(text: str) -> str:
    if not text.strip():
        return ""
    try:
        trees: Any = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON ({error.msg} at character {error.pos})") from None
    if not isinstance(trees, dict) or not trees:
        raise ValueError("it is not an object with at least one tree")
    for tree, levels in trees.items():
        if not isinstance(levels, dict) or not levels:
            raise ValueError(f"{quoted(tree)} has no levels")
        expected = {f"level{number}" for number in range(1, len(levels) + 1)}
        if set(levels) != expected:
            raise ValueError(f"{quoted(tree)} must have level1 to level{len(levels)} without a gap")
        for level, content in levels.items():
            _check_level(f"{tree}.{level}", content)
    return text


def _check_level(place: str, content: Any) -> None:
    if not isinstance(content, dict):
        raise ValueError(f"{place} is not an object")
    for key, value in content.items():
        if key == "label":
            if not isinstance(value, str) or not value:
                raise ValueError(f"{place}.label is not a label name")
        elif key == "reservedNode":
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ValueError(f"{place}.reservedNode is not a whole number, 0 or more")
        else:
            raise ValueError(f"{place} allows only label and reservedNode, got {quoted(key)}")
    if "label" not in content:
        raise ValueError(f"{place} has no label")


def printed(value: Value) -> str:
    """A value as it would be written in the configuration file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(printed(item) for item in value)
    return str(value)

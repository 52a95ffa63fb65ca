"""Parameters as data: what may be written, what it means, what holds when nothing is written.

One row says all of it. The reader of the configuration file checks by it, its error
messages quote it, and the reference page is printed from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ringwise.topology.nearest import nearest

Value: TypeAlias = "bool | int | float | str | tuple[Value, ...] | Mapping[str, Value] | None"

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
_RESOURCE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?")
#: Longer words are not worth a search for a similar one.
_LONGEST_GUESS = 80


class NotAllowed(ValueError):
    """A value that a parameter does not take; the text says what was written and what is allowed."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One thing a person can set, under the name that stands in the file."""

    name: str
    default: Value
    allowed: str
    meaning: str
    convert: Callable[[str], Value]
    #: The words to choose from, when there are few; they feed "did you mean".
    words: tuple[str, ...] = ()
    #: How the default reads on the reference page, where the plain value does not say it all.
    default_text: str = ""
    #: False: known, checked and then left alone, because the field's files carry it.
    has_effect: bool = True

    def read(self, text: str) -> Value:
        """The value that `text` stands for, or `NotAllowed`."""
        try:
            return self.convert(text)
        except ValueError as error:
            detail = f": {error}" if str(error) else ""
            guess = did_you_mean(text, self.words)
            raise NotAllowed(
                f"{quoted(text)} is not allowed{detail}; allowed: {self.allowed}{guess}"
            ) from None

    @property
    def printed_default(self) -> str:
        return self.default_text or printed(self.default)


def whole_number(
    name: str,
    default: int | None,
    meaning: str,
    *,
    minimum: int = 0,
    maximum: int | None = None,
    unit: str = "",
    default_text: str = "",
    limit_text: str = "",
    has_effect: bool = True,
) -> Parameter:
    def convert(text: str) -> int:
        if not _WHOLE_NUMBER.fullmatch(text):
            raise ValueError
        number = int(text)
        if number < minimum or (maximum is not None and number > maximum):
            raise ValueError
        return number

    span = f"{minimum} to {maximum}" if maximum is not None else f"{minimum} or more"
    noun = f"a whole number of {unit}" if unit else "a whole number"
    allowed = f"{noun}, {span}{limit_text}"
    return Parameter(
        name, default, allowed, meaning, convert, default_text=default_text, has_effect=has_effect
    )


def truth(name: str, default: bool, meaning: str, *, has_effect: bool = True) -> Parameter:
    return Parameter(
        name, default, "true or false", meaning, _truth, words=("true", "false"), has_effect=has_effect
    )


def one_of(name: str, default: str | int, choices: tuple[str | int, ...], meaning: str) -> Parameter:
    by_text: dict[str, str | int] = {str(choice): choice for choice in choices}

    def convert(text: str) -> str | int:
        if text not in by_text:
            raise ValueError
        return by_text[text]

    words = tuple(by_text)
    return Parameter(name, default, " or ".join(words), meaning, convert, words=words)


def resource_list(name: str, meaning: str, *, has_effect: bool = True) -> Parameter:
    """Resource names with commas between them."""

    def convert(text: str) -> tuple[str, ...]:
        if not text.strip():
            return ()
        names = tuple(item.strip() for item in text.split(","))
        for item in names:
            if not _RESOURCE_NAME.fullmatch(item):
                raise ValueError(f"{quoted(item)} is no resource name")
        return names

    allowed = "resource names with commas between them"
    return Parameter(name, (), allowed, meaning, convert, default_text="none", has_effect=has_effect)


def any_text(name: str, meaning: str) -> Parameter:
    """Something old files carry and nothing here reads."""
    return Parameter(name, "", "any text", meaning, str, default_text="none", has_effect=False)


def resource_levels(name: str, meaning: str) -> Parameter:
    """The field's tree of topology levels: JSON inside a string."""
    allowed = (
        'JSON such as {"tree": {"level1": {"label": "rack", "reservedNode": 1}, "level2": {"label": "room"}}}'
    )
    return Parameter(name, "", allowed, meaning, _resource_levels, default_text="none", has_effect=False)


def _truth(text: str) -> bool:
    word = text.lower()
    if word not in ("true", "false"):
        raise ValueError
    return word == "true"


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
        raise ValueError("it is not an object that holds a tree")
    for tree, levels in trees.items():
        if not isinstance(levels, dict) or not levels:
            raise ValueError(f"{quoted(tree)} holds no levels")
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
            raise ValueError(f"{place} knows label and reservedNode, not {quoted(key)}")
    if "label" not in content:
        raise ValueError(f"{place} has no label")


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """The end of an error message: `; did you mean 'gang'?`, or nothing."""
    if not word or len(word) > _LONGEST_GUESS:
        return ""
    choice = nearest(word, choices)
    return f"; did you mean {choice!r}?" if choice is not None else ""


def quoted(text: str, longest: int = 60) -> str:
    """A written value as a message shows it: on one line and never long."""
    return repr(text if len(text) <= longest else text[: longest - 3] + "...")


def printed(value: Value) -> str:
    """A value as it would be written in the configuration file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(printed(item) for item in value)
    return str(value)

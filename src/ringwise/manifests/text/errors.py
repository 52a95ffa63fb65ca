"""Errors of an input, one line each: where, which field, and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

Written = TypeVar("Written")
Kind = TypeVar("Kind")
Default = TypeVar("Default", int, None)

#: A value is quoted in a message up to this length; a hostile one has megabytes.
SHOWN_CHARACTERS = 60

#: Kubernetes counts are int32.
MAX_COUNT = 2**31 - 1


#: Errors of one file after which reading stops: a hostile file could cause any number.
MAX_ERRORS = 100


class ManifestError(Exception):
    """One error of one document. `field` is empty when it concerns the whole document."""

    def __init__(self, origin: str, field: str, message: str, line: int | None = None) -> None:
        super().__init__(origin, field, message, line)
        self.origin = origin
        self.field = field
        self.message = message
        #: Of the file; None where it is unknown.
        self.line = line

    @property
    def place(self) -> str:
        """Line and field."""
        return ": ".join(part for part in (f"line {self.line}" if self.line else "", self.field) if part)

    def __str__(self) -> str:
        return one_line(": ".join(part for part in (self.origin, self.place, self.message) if part))


class DocumentError(ValueError):
    """A document that cannot be used, with all its errors in the order of their lines."""

    def __init__(self, errors: Iterable[ManifestError]) -> None:
        self.errors = sorted(errors, key=lambda error: error.line or math.inf)
        super().__init__("\n".join(map(str, self.errors)))


def document_error(origin: str, message: str, line: int | None = None) -> DocumentError:
    """The only error of a document, which concerns all of it."""
    return DocumentError([ManifestError(origin, "", message, line)])


class Findings:
    """The errors of one object or file. Reading continues after each, so that all are reported at once.

    Of a file whose lines are known, DocumentError is raised after `MAX_ERRORS`.
    """

    __slots__ = ("_line_of", "errors", "origin", "oversized")

    def __init__(self, origin: str, line_of: Callable[[str], int] | None = None) -> None:
        self.origin = origin
        self._line_of = line_of
        self.errors: list[ManifestError] = []
        #: Those of the errors that say that a field exceeds a limit of sizes.
        self.oversized: list[ManifestError] = []

    def add_error(self, field: str, message: str) -> None:
        line = None if self._line_of is None else self._line_of(field)
        self.errors.append(ManifestError(self.origin, field, message, line))
        if self._line_of is not None and len(self.errors) >= MAX_ERRORS:
            raise DocumentError(self.errors)

    def invalid(self, field: str, value: object, allowed: str) -> None:
        """In the form of the API server; `allowed` says what the value must be."""
        self.add_error(field, invalid(value, allowed))

    def raise_errors(self) -> None:
        if self.errors:
            raise DocumentError(self.errors)

    def parsed(self, field: str, value: Written, parse: Callable[[Written], Kind], otherwise: Kind) -> Kind:
        """What a value means; else an error says what it must be, as the parser does with a ValueError."""
        try:
            return parse(value)
        except ValueError as problem:
            self.invalid(field, value, str(problem))
            return otherwise

    def too_large(self, field: str, message: str) -> None:
        self.add_error(field, message)
        self.oversized.append(self.errors[-1])

    @property
    def excess(self) -> str:
        """Which field exceeds a limit, the first of them, where nothing else is wrong; else empty."""
        if not self.oversized or len(self.oversized) < len(self.errors):
            return ""
        return f"{self.oversized[0].field}: {self.oversized[0].message}"

    def count(
        self, field: str, value: int | None, default: Default, least: int = 0, most: int = MAX_COUNT
    ) -> int | Default:
        """A whole number within its bounds; else an error is added and the default returned."""
        if value is None:
            return default
        if least <= value <= most:
            return value
        at_least = most == MAX_COUNT and value < least
        self.invalid(field, value, f"must be {f'at least {least}' if at_least else f'{least} to {most}'}")
        return default


def one_line(text: str) -> str:
    """Text for one line of a terminal: without line breaks, control characters and lone surrogates."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def printable(text: str) -> str:
    """The same with its line breaks."""
    return "\n".join(map(one_line, text.split("\n")))


def shown(value: object) -> str:
    """A value as it was written, shortened when it is long."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if abs(value) < 10**SHOWN_CHARACTERS else "a number of more than 60 digits"
    if isinstance(value, float):
        return str(value) if math.isfinite(value) else "a number that is not finite"
    if isinstance(value, str):
        if len(value) <= SHOWN_CHARACTERS:
            return f'"{one_line(value)}"'
        return f'"{one_line(value[:SHOWN_CHARACTERS])}..." ({len(value)} characters)'
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return f"a {type(value).__name__}"


def invalid(value: object, allowed: str) -> str:
    """The message about a value, in the form of the API server."""
    return f"Invalid value: {shown(value)}: {allowed}"

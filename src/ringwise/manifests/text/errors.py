"""Errors of an input, one line each: where, which field, and what is allowed."""

from __future__ import annotations

import math

from ringwise.records import dataclass

#: A value is quoted in a message up to this length; a hostile one has megabytes.
SHOWN_CHARACTERS = 60

#: Kubernetes counts are int32.
MAX_COUNT = 2**31 - 1


class ManifestError(Exception):
    """One error of one document. `field` is empty when it concerns the whole document."""

    def __init__(self, origin: str, field: str, message: str) -> None:
        super().__init__(origin, field, message)
        self.origin = origin
        self.field = field
        self.message = message

    def __str__(self) -> str:
        return one_line(": ".join(part for part in (self.origin, self.field, self.message) if part))


class Findings:
    """The errors of one object. Conversion continues after each, so that all are reported at once."""

    __slots__ = ("errors", "origin", "oversized")

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.errors: list[ManifestError] = []
        #: Those of the errors that say that a field exceeds a limit of sizes.
        self.oversized: list[ManifestError] = []

    def wrong(self, field: str, message: str) -> None:
        self.errors.append(ManifestError(self.origin, field, message))

    def too_large(self, field: str, message: str) -> None:
        self.wrong(field, message)
        self.oversized.append(self.errors[-1])

    @property
    def excess(self) -> str:
        """Which field exceeds a limit, the first of them, where nothing else is wrong; else empty."""
        if not self.oversized or len(self.oversized) < len(self.errors):
            return ""
        return f"{self.oversized[0].field} {self.oversized[0].message}"

    def count(
        self, field: str, value: int | None, default: int, least: int = 0, most: int = MAX_COUNT
    ) -> int:
        """A whole number within its bounds; else an error is added and the default returned."""
        if value is None:
            return default
        if least <= value <= most:
            return value
        allowed = f"{least} or more" if most == MAX_COUNT and value < least else f"{least} to {most}"
        self.wrong(field, f"must be a whole number of {allowed}, got {shown(value)}")
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


@dataclass(frozen=True, slots=True)
class ConfigurationProblem:
    """One error and its position."""

    origin: str
    line: int | None
    place: str
    message: str

    def __str__(self) -> str:
        parts = [self.origin]
        if self.line is not None:
            parts.append(f"line {self.line}")
        if self.place:
            parts.append(self.place)
        return ": ".join((*parts, self.message))


class ConfigurationError(ValueError):
    """A configuration that cannot be used, with all its errors in the order of the file."""

    def __init__(self, errors: list[ConfigurationProblem]) -> None:
        super().__init__("\n".join(str(error) for error in errors))
        self.errors = errors

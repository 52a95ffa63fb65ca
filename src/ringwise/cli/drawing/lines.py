"""Lines of text that keep to the width of the terminal."""

from __future__ import annotations

import re

from rich.console import Console
from rich.text import Text

#: How far a line that goes on below is indented, beyond where it began.
_HANG = 2
_CURE = "-> "
#: A narrower place than this is not worth wrapping for.
_NARROWEST = 12
_WORD = re.compile(r"\S+\s*")
_PART = re.compile(r"[/,;:._-]")


def print_line(console: Console, line: str | Text, style: str = "") -> None:
    """Print one line of markup; where it is longer than the terminal is wide, it goes on below, indented."""
    text = Text.from_markup(line) if isinstance(line, str) else line
    for part in wrapped(text, console.width):
        console.print(part, style=style, soft_wrap=True)


def print_lines(console: Console, text: str, style: str = "") -> None:
    """Print plain text of one line or more."""
    for line in text.splitlines():
        print_line(console, Text(line), style)


def wrapped(text: Text, width: int) -> list[Text]:
    """The text in lines of at most this width. It breaks at blanks; only a longer word is cut."""
    if text.cell_len <= width:
        return [text]
    plain = text.plain
    indent = len(plain) - len(plain.lstrip())
    hang = indent + (len(_CURE) if plain[indent:].startswith(_CURE) else _HANG)
    if width - hang < _NARROWEST:
        indent = hang = 0
    lines = folded(text[len(plain) - len(plain.lstrip()) :], width - hang)
    for number, line in enumerate(lines):
        line.pad_left(hang if number else indent)
    return lines


def folded(text: Text, width: int) -> list[Text]:
    """The text in lines of at most this width, without indentation."""
    if text.cell_len <= width:
        return [text]
    lines = list(text.divide(_line_ends(text.plain, max(1, width))))
    for line in lines:
        line.rstrip()
    return lines


def _line_ends(plain: str, width: int) -> list[int]:
    """Where lines end: at blanks, and in longer words after the last sign that separates their parts."""
    ends: list[int] = []
    begin = 0
    for word in _WORD.finditer(plain):
        first, last = word.start(), word.start() + len(word[0].rstrip())
        if last - begin > width and first > begin:
            ends.append(first)
            begin = first
        while last - begin > width:
            parts = [part.end() for part in _PART.finditer(plain, begin, begin + width)]
            begin = parts[-1] if parts and parts[-1] - begin > width // 3 else begin + width
            ends.append(begin)
    return ends

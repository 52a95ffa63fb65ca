"""Where a text is folded: lines keep to a width, and no word stands on a line of its own without need."""

from __future__ import annotations

import itertools
import re

#: A number stays with the word that it counts: `8 chips`, and the `node-unhealthy 3` of a reason.
_COUNTED = r"(?!(?:is|are|was|were|has|have|of|to|and|or|in|on|at|by|from|for)\b)[A-Za-z]"
_WORD = re.compile(
    rf"(?:[a-z]+(?:-[a-z]+)+ \d+(?=[,;)]|$)\S*|(?:[(]?\d(?:[\d,.]*\d)? (?={_COUNTED}))?\S+)\s*"
)
_PART = re.compile(r"[/,;:._-]")

#: Begin, end, and whether it is a whole word, not a part of one that is longer than a line.
_Piece = tuple[int, int, bool]


def fold(text: str, width: int, indent: str = "") -> str:
    """The text in lines of at most this width; those after the first are indented."""
    if len(text) <= width:
        return text
    ends = [0, *line_ends(text, max(1, width - len(indent))), len(text)]
    lines = (text[begin:end].rstrip() for begin, end in itertools.pairwise(ends))
    return f"\n{indent}".join(lines)


def line_ends(plain: str, width: int) -> list[int]:
    """Where lines end: at blanks, and in longer words after the last sign that separates their parts.

    Lines are filled one after the other. Where that leaves a word alone on its line, words of the lines
    before it are moved down to it.
    """
    pieces = _pieces(plain, width)
    ends = _filled(pieces, width)
    begins = [0, *ends, len(pieces)]
    if any(_is_alone(pieces, *line) for line in itertools.pairwise(begins)):
        ends = _balanced(pieces, width)
    return [pieces[number][0] for number in ends]


def words(text: str) -> list[str]:
    """What stands together on a line."""
    return [word.rstrip() for word in _WORD.findall(text)]


def _pieces(plain: str, width: int) -> list[_Piece]:
    result: list[_Piece] = []
    for word in _WORD.finditer(plain):
        # Blanks before the first word belong to its line.
        begin, end = word.start() if result else 0, word.start() + len(word[0].rstrip())
        blank = plain.find(" ", word.start(), end)
        if blank >= 0 and end - begin > width:
            # There is no room for both.
            result.append((begin, blank, True))
            begin, blank = blank + 1, -1
        whole = end - begin <= width and blank < 0
        while end - begin > width:
            parts = [part.end() for part in _PART.finditer(plain, begin, begin + width)]
            cut = parts[-1] if parts and parts[-1] - begin > width // 3 else begin + width
            result.append((begin, cut, False))
            begin = cut
        result.append((begin, end, whole))
    return result


def _is_alone(pieces: list[_Piece], first: int, end: int) -> bool:
    return end - first == 1 and len(pieces) > 1 and pieces[first][2]


def _filled(pieces: list[_Piece], width: int) -> list[int]:
    """Numbers of the pieces that begin a line, after the first."""
    begins: list[int] = []
    begin = 0
    for number, (_, end, _whole) in enumerate(pieces):
        if end - pieces[begin][0] > width and number > begin:
            begins.append(number)
            begin = number
    return begins


def _balanced(pieces: list[_Piece], width: int) -> list[int]:
    """The same with as few words alone as can be, in as few lines, the first ones as full as can be."""
    count = len(pieces)
    #: From each piece on: words that are alone, lines, and where the line ends.
    best = [(0, 0, count)] * (count + 1)
    for first in range(count - 1, -1, -1):
        choices = []
        for end in range(first + 1, count + 1):
            if end > first + 1 and pieces[end - 1][1] - pieces[first][0] > width:
                break
            alone, lines, _ = best[end]
            choices.append((alone + _is_alone(pieces, first, end), lines + 1, -end))
        alone, lines, end = min(choices)
        best[first] = (alone, lines, -end)
    begins: list[int] = []
    number = best[0][2]
    while number < count:
        begins.append(number)
        number = best[number][2]
    return begins

"""Regular expressions that find names of nodes, in the syntax of Go (RE2) and in bounded time.

An expression becomes an automaton whose steps are computed when a name first needs them: a name costs as much
as it is long, and what is computed for one expression is bounded. What Go does not have (lookahead,
backreferences, possessive repetition) is refused.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import NamedTuple

#: As Go: of `x{n}`, also where repetitions are inside each other.
MAX_REPEAT = 1_000
#: Groups inside each other.
MAX_DEPTH = 50
#: Of the automaton.
MAX_STATES = 2_000
#: What may be computed for one expression: states that are visited for new steps of its automaton.
MAX_WORK = 1_000_000
#: So many names are looked at one by one.
_FEW = 64

#: A set of characters has a bit for each of ASCII, and one for all others.
_OTHER = 1 << 128
_ANY = (_OTHER << 1) - 1


def _characters(*ranges: tuple[str, str]) -> int:
    return sum(1 << code for first, last in ranges for code in range(ord(first), ord(last) + 1))


_LOWER, _UPPER, _DIGIT = _characters(("a", "z")), _characters(("A", "Z")), _characters(("0", "9"))
_WORD = _LOWER | _UPPER | _DIGIT | 1 << ord("_")
_SPACE = sum(1 << ord(one) for one in "\t\n\f\r ")
_GRAPH = _characters(("!", "~"))
_PERL = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_POSIX = {
    "alnum": _LOWER | _UPPER | _DIGIT,
    "alpha": _LOWER | _UPPER,
    "ascii": _OTHER - 1,
    "blank": 1 << ord("\t") | 1 << ord(" "),
    "cntrl": _characters(("\0", "\x1f")) | 1 << 0x7F,
    "digit": _DIGIT,
    "graph": _GRAPH,
    "lower": _LOWER,
    "print": _GRAPH | 1 << ord(" "),
    "punct": _GRAPH & ~(_LOWER | _UPPER | _DIGIT),
    "space": _SPACE | 1 << ord("\v"),
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": _DIGIT | _characters(("a", "f"), ("A", "F")),
}
_CONTROL = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_OCTAL = "01234567"


_CATEGORIES = {"C": "cfos", "L": "lmotu", "M": "cen", "N": "dlo", "P": "cdefios", "S": "ckmo", "Z": "lps"}
_SCRIPTS = ("Arabic", "Cyrillic", "Greek", "Han", "Hangul", "Hebrew", "Hiragana", "Katakana", "Thai")


def _unicode_classes() -> dict[str, int]:
    """What ASCII has of the general categories and scripts of Unicode."""
    names = [first + second for first, others in _CATEGORIES.items() for second in ("", *others)]
    found = dict.fromkeys((*names, *_SCRIPTS), 0)
    for code in range(128):
        category = unicodedata.category(chr(code))
        found[category] |= 1 << code
        found[category[0]] |= 1 << code
    return {**found, "Any": _ANY, "Latin": _LOWER | _UPPER, "Common": (_OTHER - 1) & ~(_LOWER | _UPPER)}


_UNICODE = _unicode_classes()


class BadPattern(Exception):
    """What is wrong with an expression, as a user reads it."""


class PatternTooCostly(Exception):
    """Finding out which names it matches takes too long."""


# -- reading an expression --------------------------------------------------------------------

#: Zero-width conditions: they hold or do not hold between two characters.
_BEGIN, _END, _BOUNDARY, _NO_BOUNDARY = range(4)


class _Characters(NamedTuple):
    mask: int


class _Condition(NamedTuple):
    condition: int


class _Sequence(NamedTuple):
    parts: tuple[_Part, ...]


class _Choice(NamedTuple):
    parts: tuple[_Part, ...]


class _Repeat(NamedTuple):
    part: _Part
    least: int
    #: None: any number.
    most: int | None


_Part = _Characters | _Condition | _Sequence | _Choice | _Repeat


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._fold = False
        self._dot_all = False
        self._depth = 0
        self._names: set[str] = set()

    def read(self) -> _Part:
        part = self._choice()
        if self._at < len(self._text):
            raise BadPattern("unexpected )")
        return part

    def _peek(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _take(self, text: str) -> bool:
        found = self._peek(text)
        if found:
            self._at += len(text)
        return found

    def _next(self, missing: str) -> str:
        if self._at >= len(self._text):
            raise BadPattern(missing)
        self._at += 1
        return self._text[self._at - 1]

    def _choice(self) -> _Part:
        flags = self._fold, self._dot_all
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        # Flags hold until the end of their group, through all its alternatives.
        self._fold, self._dot_all = flags
        return parts[0] if len(parts) == 1 else _Choice(tuple(parts))

    def _sequence(self) -> _Part:
        parts: list[_Part] = []
        while self._at < len(self._text) and not self._peek("|") and not self._peek(")"):
            if self._take("\\Q"):
                quoted, _, rest = self._text[self._at :].partition("\\E")
                self._at = len(self._text) - len(rest)
                parts += [self._literal(one) for one in quoted]
                if quoted:
                    parts[-1] = self._repeated(parts[-1])
                continue
            part = self._atom()
            if part is not None:
                parts.append(self._repeated(part))
            start = self._at
            if part is None and self._repeat_count() is not None:
                raise BadPattern(f"missing argument to repetition operator: {self._text[start : self._at]}")
        return parts[0] if len(parts) == 1 else _Sequence(tuple(parts))

    def _repeated(self, part: _Part) -> _Part:
        start = self._at
        count = self._repeat_count()
        if count is None:
            return part
        end = self._at
        if self._repeat_count() is not None:
            raise BadPattern(f"invalid nested repetition operator: {self._text[start : self._at]}")
        least, most = count
        part = _Repeat(part, least, most)
        if _repeats(part) > MAX_REPEAT:
            raise BadPattern(
                f"invalid repeat count: {self._text[start:end]}, at most {MAX_REPEAT:,} are allowed"
            )
        return part

    def _repeat_count(self) -> tuple[int, int | None] | None:
        """Whether fewer or more repetitions are preferred makes no difference here."""
        found: tuple[int, int | None] | None = None
        if self._take("*"):
            found = 0, None
        elif self._take("+"):
            found = 1, None
        elif self._take("?"):
            found = 0, 1
        elif self._peek("{"):
            found = self._braces()
        if found is not None:
            self._take("?")
        return found

    def _braces(self) -> tuple[int, int | None] | None:
        """What has not this form is no repetition: `{` stands for itself."""
        inside, closed, _ = self._text[self._at + 1 :].partition("}")
        first, comma, last = inside.partition(",")
        if not closed or not _number(first) or (last and not _number(last)):
            return None
        written = self._text[self._at : self._at + len(inside) + 2]
        if max(len(first), len(last)) > 4:
            raise BadPattern(f"invalid repeat count: {written}, at most {MAX_REPEAT:,} are allowed")
        least = int(first)
        most = least if not comma else int(last) if last else None
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise BadPattern(
                f"invalid repeat count: {written}, the first must not be above the second, "
                f"and at most {MAX_REPEAT:,} are allowed"
            )
        self._at += len(written)
        return least, most

    def _atom(self) -> _Part | None:
        """None for what is no part by itself: flags, and a repetition of nothing."""
        start = self._at
        if self._repeat_count() is not None:
            self._at = start
            return None
        character = self._next("")
        match character:
            case "(":
                return self._group()
            case "[":
                return _Characters(self._class())
            case ".":
                return _Characters(_ANY if self._dot_all else _ANY & ~(1 << ord("\n")))
            case "^":
                return _Condition(_BEGIN)
            case "$":
                return _Condition(_END)
            case "\\":
                return self._escape()
        return self._literal(character)

    def _literal(self, character: str) -> _Characters:
        return _Characters(self._folded(_bit(character)))

    def _folded(self, mask: int) -> int:
        if not self._fold:
            return mask
        return mask | (mask & _LOWER) >> 32 | (mask & _UPPER) << 32

    def _group(self) -> _Part | None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise BadPattern(f"groups are inside each other more than {MAX_DEPTH} times")
        flags = self._fold, self._dot_all
        if self._take("?") and not self._group_kind():
            # Flags for the rest of the group that this is in.
            self._depth -= 1
            return None
        part = self._choice()
        if not self._take(")"):
            raise BadPattern("missing closing )")
        self._depth -= 1
        self._fold, self._dot_all = flags
        return part

    def _group_kind(self) -> bool:
        """After `(?`: whether a group follows."""
        if self._take("P<") or (self._peek("<") and not self._peek("<=") and not self._peek("<!")):
            self._take("<")
            name, closed, _ = self._text[self._at :].partition(">")
            if not closed or not name or any(not _bit(one) & _WORD for one in name):
                raise BadPattern(f"invalid named capture: {name[:32]}")
            if name in self._names:
                raise BadPattern(f"duplicate capture group name: {name[:32]}")
            self._names.add(name)
            self._at += len(name) + 1
            return True
        on = complete = True
        start = self._at
        while True:
            flag = self._next("missing closing )")
            match flag:
                case "i":
                    self._fold = on
                case "s":
                    self._dot_all = on
                case "m" | "U":
                    # SearchableNames have one line, and any match counts.
                    pass
                case "-" if on:
                    on = complete = False
                    continue
                case ":" | ")" if complete:
                    return flag == ":"
                case _:
                    raise BadPattern(f"invalid or unsupported Perl syntax: (?{self._text[start : self._at]}")
            complete = True

    def _escape(self) -> _Part:
        if self._at < len(self._text):
            match self._text[self._at]:
                case "A":
                    self._at += 1
                    return _Condition(_BEGIN)
                case "z":
                    self._at += 1
                    return _Condition(_END)
                case "b":
                    self._at += 1
                    return _Condition(_BOUNDARY)
                case "B":
                    self._at += 1
                    return _Condition(_NO_BOUNDARY)
        mask = self._escaped_class()
        return _Characters(mask) if mask is not None else self._literal(self._escaped_character())

    def _escaped_class(self) -> int | None:
        """After a backslash: the characters of \\d, \\pL and the like."""
        letter = self._text[self._at : self._at + 1]
        if letter and letter.lower() in _PERL:
            self._at += 1
            mask = self._folded(_PERL[letter.lower()])
            return mask if letter.islower() else _ANY & ~mask
        if letter not in ("p", "P") or not letter:
            return None
        self._at += 1
        name = self._next("trailing backslash")
        if name == "{":
            name, closed, _ = self._text[self._at :].partition("}")
            if not closed:
                raise BadPattern(f"invalid character class range: \\{letter}{{{name[:32]}")
            self._at += len(name) + 1
        negative = (letter == "P") != name.startswith("^")
        known = _UNICODE.get(name.removeprefix("^"))
        if known is None:
            raise BadPattern(f"invalid or unsupported character class: \\{letter}{{{name[:32]}}}")
        mask = self._folded(known)
        return _ANY & ~mask if negative else mask

    def _escaped_character(self) -> str:
        character = self._next("trailing backslash at the end")
        if character in _CONTROL:
            return _CONTROL[character]
        if character == "x":
            return self._hexadecimal()
        following = self._text[self._at : self._at + 1]
        if character == "0" or (character in _OCTAL and following and following in _OCTAL):
            digits = character
            while len(digits) < 3 and self._text[self._at : self._at + 1] in tuple(_OCTAL):
                digits += self._next("")
            return chr(int(digits, 8))
        if character < "\x80" and not character.isalnum():
            return character
        raise BadPattern(f"invalid escape sequence: \\{character}")

    def _hexadecimal(self) -> str:
        if self._take("{"):
            digits, closed, _ = self._text[self._at :].partition("}")
            self._at += len(digits) + 1
        else:
            digits = self._text[self._at : self._at + 2]
            closed = "}" if len(digits) == 2 else ""
            self._at += 2
        hexadecimal = digits and all(one in "0123456789abcdefABCDEF" for one in digits)
        if not closed or not hexadecimal or int(digits, 16) > 0x10FFFF:
            raise BadPattern(f"invalid escape sequence: \\x{digits[:32]}")
        return chr(int(digits, 16))

    def _class(self) -> int:
        start = self._at - 1
        missing = f"missing closing ]: {self._text[start : start + 32]}"
        negative = self._take("^")
        mask = 0
        first = True
        while first or not self._peek("]"):
            posix = self._posix()
            if posix is not None:
                mask |= posix
            elif self._peek("\\") and (escaped := self._class_escape()) is not None:
                mask |= escaped
            else:
                mask |= self._range(missing)
            first = False
        self._at += 1
        return _ANY & ~mask if negative else mask

    def _posix(self) -> int | None:
        if not self._peek("[:"):
            return None
        name, closed, _ = self._text[self._at + 2 :].partition(":]")
        if not closed:
            return None
        known = _POSIX.get(name.removeprefix("^"))
        if known is None:
            raise BadPattern(f"invalid character class range: [:{name[:32]}:]")
        self._at += len(name) + 4
        known = self._folded(known)
        return _ANY & ~known if name.startswith("^") else known

    def _class_escape(self) -> int | None:
        self._at += 1
        mask = self._escaped_class()
        if mask is None:
            self._at -= 1
        return mask

    def _range(self, missing: str) -> int:
        start = self._at
        low = self._class_character(missing)
        high = low
        if self._peek("-") and self._text[self._at + 1 : self._at + 2] not in ("", "]"):
            self._at += 1
            high = self._class_character(missing)
        if ord(high) < ord(low):
            raise BadPattern(f"invalid character class range: {self._text[start : self._at]}")
        mask = sum(1 << code for code in range(ord(low), min(ord(high), 127) + 1))
        return self._folded(mask | (_OTHER if ord(high) > 127 else 0))

    def _class_character(self, missing: str) -> str:
        character = self._next(missing)
        return self._escaped_character() if character == "\\" else character


def _number(text: str) -> bool:
    """As Go: no number is written with a zero in front."""
    return text.isascii() and text.isdigit() and (text == "0" or not text.startswith("0"))


def _repeats(part: _Part) -> int:
    """How often the innermost part of it is repeated."""
    if isinstance(part, _Repeat):
        count = part.least if part.most is None else part.most
        return max(1, count) * _repeats(part.part)
    if isinstance(part, _Sequence | _Choice):
        return max(map(_repeats, part.parts), default=1)
    return 1


def _bit(character: str) -> int:
    return 1 << ord(character) if character < "\x80" else _OTHER


def _required(part: _Part) -> str:
    """The longest text that every match contains."""
    longest = run = ""
    for one in part.parts if isinstance(part, _Sequence) else (part,):
        if isinstance(one, _Condition):
            continue
        single = isinstance(one, _Characters) and one.mask.bit_count() == 1 and one.mask < _OTHER
        run = run + chr(one.mask.bit_length() - 1) if single and isinstance(one, _Characters) else ""
        longest = max(longest, run, key=len)
    return longest


# -- the automaton ----------------------------------------------------------------------------


#: Instead of a condition: a character of the mask leads on. Or nothing is needed.
_CHARACTER, _ALWAYS = -2, -1


class _State(NamedTuple):
    condition: int
    targets: tuple[int, ...]
    mask: int = 0


class _Program:
    """The automaton of an expression. State 0 is a match."""

    def __init__(self, part: _Part) -> None:
        self.states: list[_State] = [_State(_ALWAYS, ())]
        self.start = self._add(part, 0)

    def _new(self, condition: int, targets: tuple[int, ...], mask: int = 0) -> int:
        if len(self.states) >= MAX_STATES:
            raise BadPattern(f"is too large: repetitions written out have more than {MAX_STATES:,} parts")
        self.states.append(_State(condition, targets, mask))
        return len(self.states) - 1

    def _add(self, part: _Part, target: int) -> int:
        """The state from which the part leads to the target."""
        if isinstance(part, _Characters):
            return self._new(_CHARACTER, (target,), part.mask)
        if isinstance(part, _Condition):
            return self._new(part.condition, (target,))
        if isinstance(part, _Sequence):
            for one in reversed(part.parts):
                target = self._add(one, target)
            return target
        if isinstance(part, _Choice):
            return self._new(_ALWAYS, tuple(self._add(one, target) for one in part.parts))
        if part.most is None:
            loop = self._new(_ALWAYS, ())
            self.states[loop] = _State(_ALWAYS, (self._add(part.part, loop), target))
            target = loop
        else:
            end = target
            for _ in range(part.most - part.least):
                target = self._new(_ALWAYS, (self._add(part.part, target), end))
        for _ in range(part.least):
            target = self._add(part.part, target)
        return target


#: What is on one side of a place in a name.
_EDGE, _NO_WORD, _IN_WORD = range(3)


def _holds(condition: int, before: int, after: int) -> bool:
    if condition == _ALWAYS:
        return True
    if condition == _BEGIN:
        return before == _EDGE
    if condition == _END:
        return after == _EDGE
    return ((before == _IN_WORD) != (after == _IN_WORD)) == (condition == _BOUNDARY)


class _Step:
    """The states that wait for the next character, and what came before it."""

    __slots__ = ("before", "following", "waiting")

    def __init__(self, waiting: frozenset[int], before: int) -> None:
        self.waiting = waiting
        self.before = before
        #: By character, empty at the end of a name; None: it matches. Computed when it is first needed.
        self.following: dict[str, _Step | None] = {}


class NamePattern:
    """An expression that can be asked which names it matches anywhere. Raises BadPattern."""

    def __init__(self, text: str) -> None:
        part = _Reader(text).read()
        program = _Program(part)
        #: Every name that matches contains it.
        self.required = _required(part)
        first = part.parts[0] if isinstance(part, _Sequence) and part.parts else part
        self._at_begin = first == _Condition(_BEGIN)
        self._states = program.states
        self._start = program.start
        self._steps: dict[tuple[frozenset[int], int], _Step] = {}
        self._first = self._step(frozenset((program.start,)), _EDGE)
        #: States that were visited, and characters of names.
        self.work = 0

    def found_in(self, name: str) -> bool:
        """Raises PatternTooCostly."""
        return self.required in name and self._goes_on(self._first, name)

    def _goes_on(self, step: _Step | None, rest: str) -> bool:
        """Whether what is left of a name leads to a match."""
        for character in (*rest, ""):
            if step is None:
                return True
            step = self._next(step, character)
            if step is not None and not step.waiting:
                return False
        return step is None

    def _next(self, step: _Step, character: str) -> _Step | None:
        if character not in step.following:
            step.following[character] = self._compute(step, character)
        return step.following[character]

    def found_in_all(self, names: SearchableNames, most: int = MAX_WORK) -> set[str]:
        """Those of the names that match. Whether it is too costly depends on these names only.

        Where many names contain what is required, those that begin alike are looked at together.
        """
        self._steps.clear()
        self._first = self._step(self._first.waiting, _EDGE)
        self.work = 0
        candidates = list(islice(names.containing(self.required), _FEW + 1))
        if len(candidates) <= _FEW:
            return {name for name in candidates if self.found_in(name)}
        found: set[str] = set()
        todo: list[tuple[_Branch, _Step | None]] = [(names.root, self._first)] if names.root else []
        steps = 0
        while todo:
            branch, step = todo.pop()
            if branch.rest is not None:
                steps += len(branch.rest) + 1
                if self._goes_on(step, branch.rest):
                    found.add(names.names[branch.start])
            elif step is None:
                found.update(names.names[branch.start : branch.end])
            elif step.waiting:
                steps += len(branch.branches)
                todo += [
                    (more, self._next(step, character) if character else step)
                    for character, more in branch.branches
                ]
            if steps + self.work > most:
                raise PatternTooCostly
        self.work += steps
        return found

    def _step(self, waiting: frozenset[int], before: int) -> _Step:
        key = waiting, before
        if key not in self._steps:
            self._steps[key] = _Step(waiting, before)
        return self._steps[key]

    def _compute(self, step: _Step, character: str) -> _Step | None:
        bit = _bit(character) if character else 0
        after = _EDGE if not character else _IN_WORD if bit & _WORD else _NO_WORD
        seen: set[int] = set()
        waiting: set[int] = set()
        todo = list(step.waiting)
        while todo:
            number = todo.pop()
            if number in seen:
                continue
            seen.add(number)
            if not number:
                return None
            state = self._states[number]
            if state.condition == _CHARACTER:
                if state.mask & bit:
                    waiting.update(state.targets)
            elif _holds(state.condition, step.before, after):
                todo.extend(state.targets)
        self.work += len(seen) + 1
        if self.work > MAX_WORK:
            raise PatternTooCostly
        if character and not self._at_begin:
            waiting.add(self._start)
        return self._step(frozenset(waiting), after)


class _Branch:
    """All names that begin alike: their range in the order, and how they go on."""

    __slots__ = ("branches", "end", "rest", "start")

    def __init__(self, names: Sequence[str], start: int, end: int, depth: int) -> None:
        self.start = start
        self.end = end
        #: Of a single name what is left of it; else None.
        self.rest = names[start][depth:] if end - start == 1 else None
        self.branches: list[tuple[str, _Branch]] = []
        at = start
        while self.rest is None and at < end:
            # The one that ends here comes first.
            character = names[at][depth : depth + 1]
            after = at + 1
            while after < end and names[after][depth : depth + 1] == character:
                after += 1
            if character:
                self.branches.append((character, _Branch(names, at, after, depth + 1)))
            else:
                self.branches.append(("", _Branch(names, at, after, depth)))
            at = after


class SearchableNames:
    """Many names, of which those that match are found without looking at each."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = sorted(names)
        self._text = "\n".join(self.names)
        self._starts = list(accumulate((len(name) + 1 for name in self.names), initial=0))
        self.root = _Branch(self.names, 0, len(self.names), 0) if self.names else None

    def containing(self, part: str) -> Iterator[str]:
        at = self._text.find(part) if self.names else -1
        while at >= 0:
            position = bisect_right(self._starts, at) - 1
            yield self.names[position]
            if position + 1 == len(self.names):
                return
            at = self._text.find(part, self._starts[position + 1])

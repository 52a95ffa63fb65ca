"""Pseudonyms that keep natural order, equality, and how names are made of other names.

Every text is renamed by the same function, wherever it stands. It is made of words; a word that belongs to
the vocabulary of Kubernetes, Volcano, Huawei or Ringwise stays, and so do short numbers: `node-2` comes
before `node-10`, selectors compare numbers, and the pods of a task are counted. Runs of letters between them
are replaced one by one, so what is joined of names (`namespace/name`, `job-task-0`) is joined of their
pseudonyms. The letters of a pseudonym are greater than every digit and separator, as those of names are:
because runs keep their order, texts keep theirs.
"""

from __future__ import annotations

import enum
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from ipaddress import IPv6Address
from itertools import count, product
from typing import Any

_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)"
#: Times, and words: what is compared with the vocabulary as a whole. The slash, quotes and commas part them.
_WORD = re.compile(rf"{_TIME}|[^\x00-,/:-@\[\]{{}}\s]+", re.ASCII)
_ADDRESS = r"(?<!\d)(?<!\d\.)\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?!\.?\d)"
_UID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
#: A number with at least six digits is too long to number pods or nodes, and may be that of a person.
_PART = re.compile(
    rf"(?P<uid>{_UID})|(?P<address>{_ADDRESS})|(?P<run>[^\d\x00-@]+)|(?P<number>0*[1-9]\d{{5,}})"
)
#: Numbers, amounts, durations, chips and times: no names.
_MEASURE = re.compile(
    r"[-+]?\d+(\.\d+)?([KMGTPE]i?|k|%)?|(\d+(\.\d+)?(ns|us|ms|s|m|h|d|w))+"
    rf"|(Ascend[0-9]{{3}}[A-Za-z0-9]{{0,3}}|npu)(-\d+)+|{_TIME}"
)
_FAULT_CODE = re.compile(r"0x[0-9a-fA-F]{1,16}|[0-9A-F]{8}")
_SYLLABLES = tuple(map("".join, product("bdfgklmnprstvz", "aeiou")))
#: Texts that are remembered to save time.
_REMEMBERED = 1_000_000


class TextRole(enum.Enum):
    """What a text is in the object that it was read from."""

    #: Other names are made of it: a word of the vocabulary then stays in all of them.
    NAME = enum.auto()
    #: Such as the value of a label.
    VALUE = enum.auto()
    #: Its numbers mean something to a rule: the value of a well-known key.
    WORD = enum.auto()
    FAULT_CODE = enum.auto()


def words_of(text: str) -> list[str]:
    return _WORD.findall(text)


class Pseudonyms:
    """Collects first, then renames. `vocabulary`: words that stay; `kept`: runs of letters that do."""

    def __init__(self, vocabulary: Iterable[str], fixed: Iterable[str] = ()) -> None:
        self._vocabulary = set(vocabulary)
        self._fixed = set(fixed)
        #: Runs of letters, long numbers and addresses, each with its pseudonym once all are known.
        self._parts: dict[str, str] = {}
        self._words: set[str] = set()
        #: Texts that were collected, and renamed: the same ones come again and again.
        self._collected: set[tuple[str, TextRole]] = set()
        self._renamed: dict[str, str] = {}
        #: Collecting has ended.
        self.closed = False

    def stays(self, text: str) -> bool:
        """Whether all its words belong to the vocabulary."""
        return self._vocabulary.issuperset(words_of(text))

    def rename(self, text: str, role: TextRole) -> str:
        """Return the pseudonym of a text; until all are collected, the text itself."""
        if not self.closed:
            self._collect(text, role)
            return text
        renamed = self._renamed.get(text)
        if renamed is None:
            is_address = ":" in text and text in self._parts
            renamed = self._parts[text] if is_address else _WORD.sub(lambda word: self._word(word[0]), text)
            if len(self._renamed) < _REMEMBERED:
                self._renamed[text] = renamed
        return renamed

    def _collect(self, text: str, role: TextRole) -> None:
        if (text, role) in self._collected:
            return
        if len(self._collected) < _REMEMBERED:
            self._collected.add((text, role))
        if _is_long_address(text):
            self._parts[text] = ""
            return
        if role is TextRole.FAULT_CODE and _FAULT_CODE.fullmatch(text):
            self._vocabulary.add(text)
        for word in words_of(text):
            if word in self._vocabulary:
                if role is TextRole.NAME:
                    self._fixed.update(runs_of(word))
            elif word not in self._words and (
                not _MEASURE.fullmatch(word)
                or (role is not TextRole.WORD and word.isdecimal() and len(word) > 5)
            ):
                self._words.add(word)
                self._parts |= ((part[0], "") for part in _PART.finditer(word) if not part["uid"])

    def close(self) -> None:
        """Choose the pseudonyms."""
        self.closed = True
        self._collected.clear()
        kinds: dict[str, list[str]] = {"run": [], "number": [], "address": [], "long": []}
        for part in self._parts:
            kinds[_kind(part)].append(part)
        self._choose_runs(set(kinds["run"]))
        # As numbers, but without making one of a million digits.
        self._choose(
            kinds["number"],
            lambda part: (len(part.lstrip("0")), part.lstrip("0")),
            lambda part, rank: str(100_000 + rank),
        )
        self._choose(
            kinds["address"],
            lambda part: tuple(map(int, part.split("."))),
            lambda part, rank: f"{part.split('.')[0]}.{rank >> 16}.{rank >> 8 & 255}.{rank & 255}",
        )
        self._choose(kinds["long"], IPv6Address, lambda part, rank: str(IPv6Address((0xFD00 << 112) + rank)))

    def _choose(self, parts: list[str], order: Callable[[str], Any], form: Callable[[str, int], str]) -> None:
        ranks = count(1)
        for part in sorted(parts, key=lambda one: (order(one), one)):
            # A pseudonym that is the name of something else would make readers doubt.
            self._parts[part] = next(new for rank in ranks if (new := form(part, rank)) not in self._parts)

    def _choose_runs(self, runs: set[str]) -> None:
        fixed = sorted(self._fixed)
        taken = runs | self._vocabulary | self._fixed
        between: dict[int, list[str]] = {}
        for run in sorted(runs - self._fixed):
            between.setdefault(bisect_left(fixed, run), []).append(run)
        for below, some in between.items():
            low = fixed[below - 1] if below else ""
            high = fixed[below] if below < len(fixed) else None
            self._parts |= zip(some, _codes(len(some), low, high, taken), strict=True)
        self._parts |= {one: one for one in fixed}

    def _word(self, word: str) -> str:
        if word in self._vocabulary or (word not in self._words and _MEASURE.fullmatch(word)):
            return word
        return _PART.sub(lambda part: part[0] if part["uid"] else self._parts[part[0]], word)

    def mapping(self) -> dict[str, str]:
        """Return every word and address that was replaced, with its pseudonym."""
        words = {word: self._word(word) for word in sorted(self._words)}
        words |= {one: self._parts[one] for one in sorted(self._parts) if ":" in one}
        return {word: new for word, new in words.items() if word != new}

    @property
    def addresses(self) -> int:
        return sum(_kind(part) in ("address", "long") for part in self._parts)


def runs_of(word: str) -> Iterator[str]:
    return (part["run"] for part in _PART.finditer(word) if part["run"])


def _kind(part: str) -> str:
    if ":" in part:
        return "long"
    if not part[0].isdecimal():
        return "run"
    return "address" if "." in part else "number"


def _is_long_address(text: str) -> bool:
    if text.count(":") < 2 or len(text) > 45:
        return False
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


def _codes(count: int, low: str, high: str | None, taken: set[str]) -> Iterator[str]:
    """So many in ascending order, all between `low` and `high`, none of them `taken`."""
    start = _start(low, high)
    width = 2
    # Twice as many as are needed, because only a few of them are taken.
    while len(_SYLLABLES) ** width < 2 * count + len(taken):
        width += 1
    made = 0
    for syllables in product(_SYLLABLES, repeat=width):
        if made == count:
            return
        code = start + "".join(syllables)
        if code not in taken:
            made += 1
            yield code


def _start(low: str, high: str | None) -> str:
    """How texts begin that are all between the two, whatever follows."""
    for length in range(len(low) + 1):
        letters = "abcdefghijklmnopqrstuvwxyz" if length else ["", *"abcdefghijklmnopqrstuvwxyz"]
        for letter in letters:
            start = low[:length] + letter
            if start > low and (high is None or (start < high and not high.startswith(start))):
                return start
    if high is None or not high.startswith(low):
        return low
    # Between a word and a longer one that continues it with the lowest letter.
    return low + "A"

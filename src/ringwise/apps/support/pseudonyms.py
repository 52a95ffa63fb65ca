"""Pseudonyms that keep natural order, equality, and how names are made of other names.

Every text is replaced by the same function, wherever it stands. It is made of words; a word that belongs to
the vocabulary of Kubernetes, Volcano, Huawei or Ringwise stays, and so do digits: `node-2` comes before
`node-10`, selectors compare numbers, and the pods of a task are counted. Runs of letters between them are
replaced one by one, so what is joined of names (`namespace/name`, `job-task-0`) is joined of their
pseudonyms. The letters of a pseudonym are greater than every digit and separator, as those of names are:
because runs keep their order, texts keep theirs.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from ipaddress import IPv6Address
from itertools import product

#: Times, and words: what is compared with the vocabulary as a whole. The slash, quotes and commas part them.
_WORD = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)|[^\x00-,/:-@\[\]{}\s]+", re.ASCII
)
_ADDRESS = r"(?<![\d.])\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?![\d.])"
_UID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_PART = re.compile(rf"(?P<uid>{_UID})|(?P<address>{_ADDRESS})|(?P<run>[^\d\x00-@]+)")
#: Numbers, amounts, spans of time, chips, fault codes and times: no names.
_MEASURE = re.compile(
    r"[-+]?\d+(\.\d+)?([KMGTPE]i?|k|%)?|(\d+(\.\d+)?(ns|us|ms|s|m|h|d|w))+|(Ascend[0-9]{3}[A-Za-z0-9]{0,3}|npu)(-\d+)+"
    r"|0x[0-9a-fA-F]{1,16}|[0-9A-F]{8}|\d{4}-\d\d-\d\dT.*"
)
_SYLLABLES = tuple(map("".join, product("bdfgklmnprstvz", "aeiou")))
#: Runs that are shorter tell nothing and are parts of many words of Ringwise's own.
_TELLING = 3
#: Texts that are remembered to save time.
_REMEMBERED = 1_000_000


def words_of(text: str) -> list[str]:
    return _WORD.findall(text)


def _number(address: str) -> tuple[int, ...]:
    return tuple(map(int, address.split(".")))


class Pseudonyms:
    """Collects first, then replaces. `vocabulary`: words that stay; `kept`: runs of letters that do."""

    def __init__(self, vocabulary: Iterable[str], kept: Iterable[str] = ()) -> None:
        self._vocabulary = frozenset(vocabulary)
        self._kept = set(kept)
        self._runs: set[str] = set()
        self._words: set[str] = set()
        self._addresses: set[str] = set()
        self._long_addresses: set[str] = set()
        self._of_run: dict[str, str] = {}
        self._of_address: dict[str, str] = {}
        #: Texts that were collected, and replaced: the same ones come again and again.
        self._collected: set[tuple[str, bool]] = set()
        self._replaced: dict[str, str] = {}
        self._closed = False

    # -- collecting

    def collect(self, text: str, *, is_name: bool = False) -> str:
        """A name is joined with others: one of the vocabulary then stays in all of them."""
        if (text, is_name) in self._collected:
            return text
        if len(self._collected) < _REMEMBERED:
            self._collected.add((text, is_name))
        if _is_long_address(text):
            self._long_addresses.add(text)
            return text
        for word in _WORD.findall(text):
            if word in self._vocabulary:
                if is_name:
                    self._kept.update(run for run in runs_of(word))
            elif word not in self._words and not _MEASURE.fullmatch(word):
                self._words.add(word)
                for part in _PART.finditer(word):
                    if part["run"]:
                        self._runs.add(part["run"])
                    elif part["address"]:
                        self._addresses.add(part["address"])
        return text

    def close(self) -> None:
        """Choose the pseudonyms: nothing is collected any more."""
        self._closed = True
        self._collected.clear()
        fixed = sorted(self._kept)
        taken = self._runs | self._vocabulary | self._kept
        between: dict[int, list[str]] = {}
        for run in sorted(self._runs - self._kept):
            between.setdefault(bisect_left(fixed, run), []).append(run)
        for below, runs in between.items():
            low = fixed[below - 1] if below else ""
            high = fixed[below] if below < len(fixed) else None
            self._of_run |= zip(runs, _codes(len(runs), low, high, taken), strict=True)
        self._of_run |= {one: one for one in fixed}
        ranks: dict[int, int] = {}
        for address in sorted(self._addresses, key=lambda one: (_number(one), one)):
            first = _number(address)[0]
            while True:
                rank = ranks[first] = ranks.get(first, 0) + 1
                new = f"{first}.{rank >> 16}.{rank >> 8 & 255}.{rank & 255}"
                if new not in self._addresses:
                    break
            self._of_address[address] = new
        for rank, address in enumerate(sorted(self._long_addresses, key=IPv6Address), 1):
            self._of_address[address] = str(IPv6Address((0xFD00 << 112) + rank))

    # -- replacing

    def replace(self, text: str) -> str:
        """What is not known to be harmless is replaced."""
        assert self._closed
        found = self._replaced.get(text)
        if found is None:
            found = self._of_address.get(text) or _WORD.sub(lambda found: self._word(found[0]), text)
            if len(self._replaced) < _REMEMBERED:
                self._replaced[text] = found
        return found

    def _word(self, word: str) -> str:
        if word in self._vocabulary or _MEASURE.fullmatch(word):
            return word
        return _PART.sub(self._part, word)

    def _part(self, found: re.Match[str]) -> str:
        """What was not collected is in no object: Ringwise wrote it."""
        return self._of_address.get(found[0]) or self._of_run.get(found[0], found[0])

    def replace_names(self, text: str) -> str:
        """Of what Ringwise itself wrote: only what was collected is replaced."""
        assert self._closed
        if text in self._of_address:
            return self._of_address[text]
        return _WORD.sub(lambda found: self._named(found[0]), text)

    def _named(self, word: str) -> str:
        if word in self._words:
            return self._word(word)
        if word in self._vocabulary or _MEASURE.fullmatch(word):
            return word
        parts = list(_PART.finditer(word))
        known = any(
            part["address"] in self._of_address
            or (len(part["run"] or "") >= _TELLING and part["run"] in self._runs)
            for part in parts
        )
        # A word of one run that was not collected as a word is Ringwise's own.
        return self._word(word) if known and len(parts) > 1 else word

    # -- what was replaced

    def mapping(self) -> dict[str, str]:
        """Every word that was replaced, with its pseudonym."""
        words = {word: self._word(word) for word in sorted(self._words)}
        return {word: new for word, new in words.items() if word != new} | {
            one: self._of_address[one] for one in sorted(self._long_addresses)
        }

    @property
    def addresses(self) -> int:
        return len(self._of_address)


def runs_of(word: str) -> Iterator[str]:
    return (part["run"] for part in _PART.finditer(word) if part["run"])


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
    # Twice as many as are needed: no more than a few are taken.
    while len(_SYLLABLES) ** width < 2 * count + len(taken):
        width += 1
    found = 0
    for syllables in product(_SYLLABLES, repeat=width):
        if found == count:
            return
        code = start + "".join(syllables)
        if code not in taken:
            found += 1
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
    # Between a word and a longer one that goes on with its least letter.
    return low + "A"

"""F3: which chips broke which jobs a short while ago, also after a restart (F1)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ringwise.framework.job import WHOLE_NODE, BrokenChip, Job
from ringwise.scheduler.faults.bounded_texts import BoundedTexts

#: Bytes of the document; beyond it the oldest faults go first.
LARGEST_DOCUMENT = 150 * 1024


class CoolDowns:
    """By owner of the job: a new job of the same name has none. Oldest first."""

    def __init__(self) -> None:
        self._chips: dict[str, dict[BrokenChip, int]] = {}
        self._texts = BoundedTexts(LARGEST_DOCUMENT - 2)
        #: Whether there are entries that were not written yet.
        self.changed = False

    def add(self, owner: str, broken: Iterable[BrokenChip], now: int, until: int) -> dict[BrokenChip, int]:
        self._forget_old(now)
        kept = {chip: end for chip, end in self._chips.get(owner, {}).items() if end > now}
        self._put(owner, kept | dict.fromkeys(broken, until))
        return self._chips[owner]

    def used(self, job: Job, owner: str, node: str, chips: Iterable[int]) -> None:
        """The job got such chips because nothing else fitted: from now on they are as good as others."""
        taken = {BrokenChip(node, chip) for chip in (WHOLE_NODE, *chips)}
        if taken.isdisjoint(job.cooling):
            return
        kept = {chip: until for chip, until in job.cooling.items() if chip not in taken}
        job.cooling = kept
        if kept:
            self._put(owner, kept)
        else:
            self._chips.pop(owner, None)
            self._texts.drop(owner)
            self.changed = True

    def _put(self, owner: str, chips: dict[BrokenChip, int]) -> None:
        self._chips.pop(owner, None)
        self._chips[owner] = chips
        self.changed = True
        # What is too much for the document is still avoided until the next restart.
        self._texts.put(owner, [[*chip, until] for chip, until in chips.items()])

    def _forget_old(self, now: int) -> None:
        while self._chips:
            oldest = next(iter(self._chips))
            if max(self._chips[oldest].values()) > now:
                return
            del self._chips[oldest]
            self._texts.drop(oldest)

    def attach(self, job: Job, owner: str) -> None:
        """The job was seen, perhaps made anew: it still avoids the chips that broke it."""
        # A document of version 0.1 has the uid of the owner alone.
        old = self._chips.pop(owner.removeprefix(f"{job.namespace}/"), None)
        if old is not None:
            self._put(owner, old | self._chips.get(owner, {}))
        if not job.cooling:
            job.cooling = self._chips.get(owner, job.cooling)

    def __len__(self) -> int:
        return len(self._chips)

    def document(self) -> str:
        return self._texts.document()

    def read(self, text: str, now: int, latest: int) -> None:
        """What the previous leader wrote. No clock runs so far ahead that it could last longer than set."""
        try:
            found = json.loads(text or "{}")
        except (ValueError, RecursionError):
            return
        for owner, written in found.items() if isinstance(found, dict) else ():
            chips = _chips(written)
            kept = {chip: min(until, latest) for chip, until in chips.items() if until > now}
            if kept:
                self._put(owner, kept)
        self.changed = False


def _chips(written: Any) -> dict[BrokenChip, int]:
    found: dict[BrokenChip, int] = {}
    for entry in written if isinstance(written, list) else ():
        match entry:
            case [str(node), int(chip), int(until)]:
                found[BrokenChip(node, chip)] = until
    return found


def is_cooling(job: Job, node: str, chips: int, now: int) -> bool:
    """F3: whether one of these chips broke the job a short while ago."""
    return any(
        broken.node == node and until > now and (broken.chip == WHOLE_NODE or chips >> broken.chip & 1)
        for broken, until in job.cooling.items()
    )

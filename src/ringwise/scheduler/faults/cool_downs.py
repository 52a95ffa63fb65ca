"""F3: which chips broke which jobs a short while ago, also after a restart (F1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ringwise.framework.job import WHOLE_NODE, BrokenChip, CoolDown, Job
from ringwise.scheduler.cache.record_tables import RecordTable, RecordTables, RestoredRecord


class CoolDowns:
    """By owner of the job: a new job of the same name has none. Oldest first."""

    def __init__(self, record: RecordTables) -> None:
        kind = dict[BrokenChip, CoolDown]
        self._chips: RecordTable[dict[BrokenChip, CoolDown]]
        self._chips = record.add(RecordTable("cool-downs", kind, droppable=lambda chips: True))

    def add(
        self, owner: str, broken: Iterable[BrokenChip], now: int, until: int
    ) -> dict[BrokenChip, CoolDown]:
        self._chips.drop_oldest(lambda chips: max(one.until for one in chips.values()) <= now)
        current = {chip: one for chip, one in self._chips.get(owner, {}).items() if one.until > now}
        new = {chip: CoolDown(until, 1 + covering(current, chip, now)) for chip in broken}
        self._chips.renew(owner, current | new)
        return self._chips[owner]

    def used(self, job: Job, owner: str, node: str, chips: Iterable[int]) -> None:
        """The job got such chips because nothing else fitted. One that broke it again is avoided further."""
        taken = [BrokenChip(node, chip) for chip in (WHOLE_NODE, *chips)]
        used = {chip: job.cooling[chip] for chip in taken if chip in job.cooling}
        new = {chip: one._replace(used=True) for chip, one in used.items() if not one.broke_again}
        if any(not one.used for one in used.values()) and new:
            self._chips.renew(owner, {**job.cooling, **new})
            job.cooling = self._chips[owner]

    def attach(self, job: Job, owner: str) -> None:
        """The job was seen, perhaps created again: it still avoids the chips on which it failed."""
        if not job.cooling:
            job.cooling = self._chips.get(owner, job.cooling)

    def __len__(self) -> int:
        return len(self._chips)

    def restore(self, record: RestoredRecord, now: int, latest: int) -> None:
        """Take over what the previous leader wrote; nothing lasts longer than set, whatever its clock was."""
        for owner, chips in record.of(self._chips).items():
            current = {
                chip: one._replace(until=min(one.until, latest))
                for chip, one in chips.items()
                if one.until > now
            }
            if current:
                self._chips.renew(owner, current)


def covering(cooling: Mapping[BrokenChip, CoolDown], broken: BrokenChip, now: int) -> int:
    """How often this hardware broke the job within its cool-down; a node stands for each of its chips."""
    return max(
        (
            one.times
            for chip, one in cooling.items()
            if chip.node == broken.node
            and one.until > now
            and (chip.chip == broken.chip or WHOLE_NODE in (chip.chip, broken.chip))
        ),
        default=0,
    )


def is_cooling(job: Job, node: str, chips: int, now: int) -> bool:
    """F3: whether the job avoids one of these chips because it broke it a short while ago."""
    return any(
        broken.node == node
        and one.until > now
        and not one.used
        and (broken.chip == WHOLE_NODE or chips >> broken.chip & 1)
        for broken, one in job.cooling.items()
    )

"""Why jobs were rescheduled lately, and how many restarts they have left, as Huawei's plugin writes it."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable
from datetime import UTC, datetime
from typing import Any

from ringwise.durations import SECOND
from ringwise.records import dataclass
from ringwise.scheduler.cache.entries import compact
from ringwise.scheduler.cache.record_tables import RecordTable, RecordTables
from ringwise.scheduler.faults.fault_job import FaultJob
from ringwise.wellknown import RESCHEDULE_RECORDS_KEY

#: Records of one job, and reasons of one record.
MAX_RECORDS = 10
MAX_REASONS = 10
#: Bytes of the document; beyond it the oldest records go first.
MAX_DOCUMENT = 950 * 1024
#: Bytes of `remain-retry-times`, which is beside `fault-node` in its ConfigMap. It is only shown.
MAX_RETRIES = 150 * 1024


def entries_within(size: int, entries: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the first text of each key, up to so many bytes with a comma each."""
    texts: dict[str, str] = {}
    for key, text in entries:
        size -= len(text.encode()) + 1
        if size < 0:
            break
        texts.setdefault(key, text)
    return texts


class _JobRecords(RecordTable[dict[str, Any]]):
    #: Huawei's components read them: none is compressed.
    encode = staticmethod(compact)


class RescheduleRecords:
    """`recent-reschedule-records`: for each job its last records, newest first, and how many there were."""

    def __init__(self) -> None:
        #: In the order in which the jobs were last rescheduled.
        self.jobs = _JobRecords(RESCHEDULE_RECORDS_KEY, dict)
        #: The changes of the records that were written last.
        self._written = 0

    def add(self, handled: FaultJob, now: int) -> None:
        entry = self.jobs.get(handled.key) or {
            "JobID": handled.key,
            "TotalRescheduleTimes": 0,
            "RescheduleRecords": [],
        }
        pods = sorted(handled.faulty.values(), key=lambda pod: pod.position.rank)[:MAX_REASONS]
        seconds, rest = divmod(now, SECOND)
        moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)
        record = {
            "LogFileFormatTime": moment.strftime("I%m%d %H:%M:%S.%f"),
            "RescheduleTimeStamp": seconds,
            "ReasonOfTask": [
                {
                    "RescheduleReason": pod.fault.type.value,
                    "PodName": pod.name,
                    "NodeName": pod.node,
                    "NodeRankIndex": str(pod.position.rank),
                }
                for pod in pods
            ],
        }
        entry["TotalRescheduleTimes"] += 1
        entry["RescheduleRecords"] = [record, *entry["RescheduleRecords"]][:MAX_RECORDS]
        self.jobs.renew(handled.key, entry)

    @property
    def changed(self) -> bool:
        """Whether there are records that were not written yet."""
        return self.jobs.changes != self._written

    def document(self) -> str:
        """The value of the data key; jobs that do not fit are forgotten, oldest first."""
        while self.jobs.refresh() and self.jobs.size > MAX_DOCUMENT - 2:
            del self.jobs[next(iter(self.jobs))]
        self._written = self.jobs.changes
        return f"{{{','.join(self.jobs.texts())}}}"

    def read(self, text: str, jobs: Container[str]) -> None:
        """What a previous leader, or Huawei's plugin, wrote. What cannot be read is left out.

        `jobs` are those that still exist.
        """
        try:
            record = json.loads(text or "{}")
        except (ValueError, RecursionError):
            return
        for key, value in record.items() if isinstance(record, dict) else ():
            if _is_job_record(value):
                records = value["RescheduleRecords"][:MAX_RECORDS]
                self.jobs.renew(key, {**value, "RescheduleRecords": records})
        self._written = self.jobs.changes
        for key in [key for key in self.jobs if key not in jobs]:
            del self.jobs[key]


def _is_job_record(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("RescheduleRecords"), list):
        return False
    times = value.get("TotalRescheduleTimes")
    return isinstance(times, int) and all(isinstance(one, dict) for one in value["RescheduleRecords"])


@dataclass(slots=True)
class RetryBudget:
    job: str
    used: int
    #: What the label allowed when it was used last.
    allowed: int

    def left(self, owner: str) -> str:
        """Return the entry of `remain-retry-times`."""
        uid = owner if owner == self.job else owner.removeprefix(f"{self.job.partition('/')[0]}/")
        return f"{compact(self.job)}:{compact({'UUID': uid, 'Times': max(0, self.allowed - self.used)})}"


class RetryBudgets:
    """Restarts after failed pods (`fault-retry-times`), by the owner: a new job has its own."""

    def __init__(self, record: RecordTables) -> None:
        self.owners = record.add(RecordTable("retries", RetryBudget))

    def left(self, owner: str, allowed: int) -> int:
        budget = self.owners.get(owner)
        return allowed if budget is None else allowed - budget.used

    def use(self, owner: str, job: str, allowed: int) -> None:
        budget = self.owners.get(owner) or RetryBudget(job, 0, allowed)
        budget.used += 1
        budget.job, budget.allowed = job, allowed
        self.owners.renew(owner, budget)

    def give_back(self, owner: str) -> None:
        """The restart that used one had another reason than the failed pods."""
        budget = self.owners.get(owner)
        if budget is not None:
            budget.used -= 1
            self.owners.touch(owner)
            if budget.used <= 0:
                del self.owners[owner]

    def document(self) -> str:
        """The value of `remain-retry-times`: job to owner and restarts that are left; those used last."""
        used_last = reversed(self.owners.items())
        texts = entries_within(MAX_RETRIES - 2, ((one.job, one.left(owner)) for owner, one in used_last))
        return f"{{{','.join(reversed(texts.values()))}}}"

"""Limits the size of an accounting document, with a fair share for each namespace.

The part that small namespaces do not use is available to large ones. Only namespaces above their share are
merged, so the jobs of others are still listed by name. Only the text is changed: the scheduler that writes it
keeps all jobs in memory, and the next leader reads existing jobs from their objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar

from ringwise.manifests.accounts.document import (
    AccountDocument,
    AccountLine,
    JobAccount,
    OpenTotal,
    account_text,
    document_text,
    size_of,
)

Sum = TypeVar("Sum", AccountLine, OpenTotal)
#: Namespace, user and whether that is verified.
Owner = tuple[str, str, bool]
#: Of what is merged of all namespaces.
_NONE: Owner = ("", "", False)


def share_of(sizes: Iterable[int], room: int) -> int:
    """Return the maximum size of an item with which all fit; small items leave their rest to large ones."""
    level = room
    ordered = sorted(sizes)
    for position, size in enumerate(ordered):
        level = room // (len(ordered) - position)
        if size > level:
            return level
        room -= size
    return level


def add_lines(lines: dict[tuple[str, str], Sum], more: Iterable[Sum]) -> None:
    for line in more:
        existing = lines.get((line.queue, line.board))
        if existing is None:
            existing = lines[line.queue, line.board] = type(line)(line.queue, line.board)
        existing.add(line)


def fitted_text(
    document: AccountDocument, accounts: Iterable[tuple[JobAccount, str]], start: int, most: int
) -> str:
    """Return the text of a document with these jobs and their texts, of at most so many bytes.

    `start` is that of its day, in seconds.
    """
    fitting = _Fitting(document, accounts, start, most)
    steps = (
        fitting.merge_waiting,
        fitting.merge_unverified_users,
        fitting.merge_users,
        fitting.leave_out_pods,
        fitting.merge_jobs,
        fitting.merge_users,
        fitting.merge_queues,
        fitting.merge_namespaces,
        fitting.merge_all,
    )
    text = fitting.text()
    for step in steps:
        if size_of(text) <= most:
            break
        step()
        text = fitting.text()
    return text


class _MergedJobs:
    """Jobs of one owner, as one."""

    def __init__(self) -> None:
        self.lines: dict[tuple[str, str], AccountLine] = {}
        self.open: dict[tuple[str, str], OpenTotal] = {}

    def add(self, lines: Iterable[AccountLine], totals: Iterable[OpenTotal]) -> None:
        add_lines(self.lines, lines)
        add_lines(self.open, totals)


class _Fitting:
    def __init__(
        self, document: AccountDocument, accounts: Iterable[tuple[JobAccount, str]], start: int, most: int
    ) -> None:
        self._document = document
        self._start = start
        #: The rest is for the part of the document that does not belong to a job.
        self._room = most * 9 // 10
        #: Jobs that are listed by name, and their texts.
        self._jobs: list[tuple[JobAccount, str]] = []
        self._merged: dict[Owner, _MergedJobs] = {}
        for one, text in accounts:
            if one.uid:
                self._jobs.append((one, text))
            else:
                self._merge(one)

    def text(self) -> str:
        merged = (self._account_text(owner, one) for owner, one in self._merged.items())
        return document_text(self._document, [*merged, *(text for _, text in self._jobs)])

    # -- steps ---------------------------------------------------------------------------------------

    def merge_waiting(self) -> None:
        """Merge pending jobs, last those that ran before: objects do not show since when they are pending."""
        self._merge_where(lambda one: not (one.holds or one.ran))
        self._merge_where(lambda one: not one.holds)

    def merge_jobs(self) -> None:
        self._merge_where(lambda one: True)

    def leave_out_pods(self) -> None:
        """Leave out the names of pods, those of the largest jobs first."""
        above = self._above_share()
        order = sorted(range(len(self._jobs)), key=lambda position: -size_of(self._jobs[position][1]))
        for position in order:
            one, text = self._jobs[position]
            if one.holds and above[one.namespace] > 0:
                self._document.unnamed += _pods(one)
                short = self._without_pods(one)
                self._jobs[position] = short, account_text(short)
                above[one.namespace] -= size_of(text) - size_of(self._jobs[position][1])

    def merge_unverified_users(self) -> None:
        self._merge_users(lambda verified: not verified)

    def merge_users(self) -> None:
        self._merge_users(lambda verified: True)

    def merge_queues(self) -> None:
        """A job may name queues that do not exist."""
        above = self._above_share()
        for owner, merged in list(self._merged.items()):
            if above[owner[0]] > 0:
                del self._merged[owner]
                self._add_without_queues(owner, merged)

    def merge_namespaces(self) -> None:
        for one, _ in self._jobs:
            self._merge(one)
        former, self._jobs, self._merged = self._merged, [], {_NONE: _MergedJobs()}
        for merged in former.values():
            self._add(_NONE, merged.lines.values(), merged.open.values())

    def merge_all(self) -> None:
        self._add_without_queues(_NONE, self._merged.pop(_NONE))

    # -- how they are merged -----------------------------------------------------------------------------

    def _above_share(self) -> Counter[str]:
        """Return by how much namespaces are above their share."""
        sizes = Counter[str]()
        for one, text in self._jobs:
            sizes[one.namespace] += size_of(text)
        for owner, merged in self._merged.items():
            sizes[owner[0]] += size_of(self._account_text(owner, merged))
        share = share_of(sizes.values(), self._room)
        return Counter({namespace: size - share for namespace, size in sizes.items()})

    def _merge_where(self, matches: Callable[[JobAccount], bool]) -> None:
        above = self._above_share()
        rest = []
        for one, text in self._jobs:
            if above[one.namespace] > 0 and matches(one):
                above[one.namespace] -= size_of(text)
                self._merge(one)
            else:
                rest.append((one, text))
        self._jobs = rest

    def _merge_users(self, matches: Callable[[bool], bool]) -> None:
        above = self._above_share()
        for owner, merged in list(self._merged.items()):
            namespace, user, verified = owner
            if user and above[namespace] > 0 and matches(verified):
                del self._merged[owner]
                self._add((namespace, "", False), merged.lines.values(), merged.open.values())

    def _add_without_queues(self, owner: Owner, merged: _MergedJobs) -> None:
        for line in merged.lines.values():
            line.queue = ""
        for total in merged.open.values():
            total.queue = ""
        self._add(owner, merged.lines.values(), merged.open.values())

    def _merge(self, one: JobAccount) -> None:
        if one.uid:
            self._document.merged += 1
            self._document.unnamed += _pods(one)
        self._add((one.namespace, one.user, one.verified), one.lines, self._totals(one))

    def _add(self, owner: Owner, lines: Iterable[AccountLine], totals: Iterable[OpenTotal]) -> None:
        self._merged.setdefault(owner, _MergedJobs()).add(lines, totals)

    def _without_pods(self, one: JobAccount) -> JobAccount:
        merged = _MergedJobs()
        merged.add((), self._totals(one))
        return JobAccount(
            one.namespace,
            one.name,
            one.uid,
            one.user,
            one.verified,
            one.lines,
            ran=one.ran,
            failed=one.failed,
            open=list(merged.open.values()),
        )

    def _totals(self, one: JobAccount) -> list[OpenTotal]:
        """Return the running totals of a job, less the part of the day before they began."""
        totals = list(one.open)
        for held in one.holds:
            chips = held.chips * len(held.pods)
            before = chips * max(held.since - self._start, 0)
            totals.append(OpenTotal(held.queue, held.board, chips, before))
        if one.waits is not None:
            before = max(one.waits.since - self._start, 0)
            totals.append(OpenTotal(one.waits.queue, waiting=1, seconds_before=before))
        return totals

    @staticmethod
    def _account_text(owner: Owner, merged: _MergedJobs) -> str:
        namespace, user, verified = owner
        lines, totals = list(merged.lines.values()), list(merged.open.values())
        return account_text(JobAccount(namespace, user=user, verified=verified, lines=lines, open=totals))


def _pods(one: JobAccount) -> int:
    return sum(len(held.pods) for held in one.holds)

"""A namespace that fills the documents of a day: they stay within their size, and others keep their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ringwise.manifests.accounts import ledger as ledger_module
from ringwise.manifests.accounts.document import (
    FORMAT,
    MAX_BYTES,
    VERSION,
    AccountDocument,
    JobAccount,
    OpenHold,
    OpenWait,
    account_text,
    read_document,
    size_of,
)
from ringwise.manifests.accounts.fitting import fitted_text, share_of
from ringwise.manifests.accounts.ledger import day_of
from ringwise.messages.accounting import (
    AccountClosed,
    AccountCommand,
    AccountedJob,
    HoldEnded,
    JobWaits,
    PodHeld,
    WaitEnded,
)
from ringwise.views.documents.accounting import ReportRowFields
from ringwise.views.report import ReportPeriod, report_document
from tests.builders.values import SECOND
from tests.examples import PROFILE
from tests.manifests.accounts.test_ledger import DAY, START, Kept, job, run_job

COUNT = 30_000
#: The limit of a ConfigMap is 1 MiB with its metadata.
LIMIT = 900 * 1024
NOON = START + DAY // 2


def flooding(number: int, user: str = "", *, verified: bool = False) -> AccountedJob:
    name = f"{number:05}".rjust(253, "x")
    return AccountedJob("flood", name, f"00000000-0000-0000-0000-{number:012}", user, verified)


def waits(number: int) -> list[AccountCommand]:
    return [JobWaits(flooding(number), "default", NOON * SECOND)]


def waits_of_many_users(number: int) -> list[AccountCommand]:
    who = flooding(number, f"{number:05}".rjust(63, "u"), verified=True)
    return [JobWaits(who, "default", NOON * SECOND)]


def ended_of_many_users(number: int) -> list[AccountCommand]:
    who = flooding(number, f"{number:05}".rjust(63, "u"))
    held = PodHeld(who, "default", "910-x8", 1, who.uid, (NOON - 60) * SECOND)
    end = NOON * SECOND
    return [held, HoldEnded(who.uid, end, end, end), AccountClosed(who)]


def holds(number: int) -> list[AccountCommand]:
    who = flooding(number)
    return [PodHeld(who, "default", "910-x8", 1, who.uid, NOON * SECOND)]


def holds_in_other_letters(number: int) -> list[AccountCommand]:
    # Three bytes each.
    who = flooding(number, f"{number:05}".rjust(200, "\u7528"))
    return [PodHeld(who, "default", "910-x8", 1, who.uid, NOON * SECOND)]


def waits_in_many_queues(number: int) -> list[AccountCommand]:
    # They need not exist.
    return [JobWaits(flooding(number), f"{number:05}".rjust(253, "q"), NOON * SECOND)]


Flood = Callable[[int], list[AccountCommand]]
#: What each of them comes to a second after noon: chip-seconds and seconds.
FLOODS: list[tuple[Flood, int, int]] = [
    (waits, 0, 60),
    (waits_of_many_users, 0, 60),
    (waits_in_many_queues, 0, 60),
    (ended_of_many_users, 60, 0),
    (holds, 60, 0),
    (holds_in_other_letters, 60, 0),
]


def rows(kept: Kept, days_ago: int = 0) -> dict[str | None, ReportRowFields]:
    day = day_of(kept.now - days_ago * DAY)
    report = report_document(
        sorted(kept.documents.items()), ReportPeriod(day, day), "namespace", kept.now * SECOND
    )
    assert report.unreadable == []
    return {row.namespace: row for row in report.rows}


def amounts(row: ReportRowFields) -> tuple[int, int]:
    return round(row.allocated_chip_hours * 3600), round(row.pending_hours * 3600)


each_flood = pytest.mark.parametrize(
    ("flood", "held", "waited"), FLOODS, ids=[one[0].__name__ for one in FLOODS]
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """Documents of a thirtieth of the size, and as many objects less."""
    size = MAX_BYTES // 30
    monkeypatch.setattr(ledger_module, "MAX_BYTES", size)
    monkeypatch.setattr(ledger_module, "_FULL", size * 3 // 4)
    return COUNT // 30


@pytest.mark.parametrize(
    ("flood", "held", "waited"), FLOODS[:-1], ids=[one[0].__name__ for one in FLOODS[:-1]]
)
def test_30000_objects_of_a_namespace_fit_and_jobs_of_others_are_recorded(
    flood: Flood, held: int, waited: int, request: pytest.FixtureRequest
) -> None:
    count = request.getfixturevalue("small") if PROFILE == "quick" else COUNT
    kept = Kept()
    kept.now = NOON
    kept.tell(PodHeld(job(1, "other"), "default", "910-x8", 8, "pod-1", NOON * SECOND))
    kept.write()
    for number in range(count):
        kept.tell(*flood(number))
    kept.write()
    kept.now += 60
    # Later than the flood.
    run_job(kept, 2, 10, "other")
    kept.tell(JobWaits(job(3, "third"), "default", kept.now * SECOND))
    kept.write()
    assert len(kept.documents) <= 8
    most = MAX_BYTES * count // COUNT
    assert max(len(text.encode()) for text in kept.documents.values()) <= most <= LIMIT
    found = rows(kept)
    assert amounts(found["flood"]) == (count * held, count * waited)
    assert amounts(found["other"]) == (8 * 60 + 8 * 10, 5)
    named = {one.name for text in kept.documents.values() for one in read_document(text).jobs}
    assert {"job-1", "job-2", "job-3"} <= named


@each_flood
def test_what_is_merged_is_counted_once_by_the_next_leader_and_at_midnight(
    flood: Flood, held: int, waited: int, small: int
) -> None:
    kept = Kept()
    kept.now = NOON
    for number in range(small):
        kept.tell(*flood(number))
    kept.now += 60
    kept.write()
    assert sum(read_document(text).merged for text in kept.documents.values()) > small // 2
    assert amounts(rows(kept)["flood"]) == (small * held, small * waited)
    # The next leader tells again what exists and is not named.
    known = kept.again().state()
    named = {one.pod for one in known.held} | {one.job.uid for one in known.waits}
    is_open = flood is not ended_of_many_users
    for number in range(small if is_open else 0):
        if flooding(number).uid not in named:
            kept.tell(*flood(number))
    kept.now += 10
    kept.write()
    span = 70 if is_open else 60
    assert amounts(rows(kept)["flood"]) == (small * bool(held) * span, small * bool(waited) * span)
    kept.now = START + DAY + 100
    kept.write()
    span = DAY // 2 if is_open else 60
    assert amounts(rows(kept, 1)["flood"]) == (small * bool(held) * span, small * bool(waited) * span)
    if is_open:
        assert amounts(rows(kept)["flood"]) == (small * bool(held) * 100, small * bool(waited) * 100)


@pytest.mark.parametrize("order", [1, -1])
def test_jobs_that_never_ran_are_merged_before_those_that_ran_and_those_that_run_last(order: int) -> None:
    """Of the first ones the next leader reads from their objects since when they wait."""
    kinds: list[dict[str, Any]] = [
        {},
        {"ran": True},
        {"holds": [OpenHold("default", "910-x8", 8, START, ["p"])]},
    ]
    accounts = [
        JobAccount(
            "flood", f"job-{kind}-{at:03}", f"uid-{kind}-{at:03}", waits=OpenWait("default", START), **what
        )
        for kind, what in enumerate(kinds)
        for at in range(100)
    ][::order]
    texts = [(one, account_text(one)) for one in accounts]
    sizes = [sum(size_of(text) for one, text in texts if f"-{kind}-" in one.uid) for kind in range(3)]
    for kept in (1, 2):
        room = sum(sizes[kept:]) + sizes[kept - 1] // 2
        document = AccountDocument(FORMAT, VERSION, day_of(START), START)
        text = fitted_text(document, texts, START, room * 10 // 9)
        named = Counter(one.uid[:5] for one in read_document(text).jobs if one.uid)
        assert 0 < named[f"uid-{kept - 1}"] < 60, "merged first"
        assert {kind for kind in range(3) if named[f"uid-{kind}"] == 100} == set(range(kept, 3))


def test_a_merged_job_that_starts_is_counted_from_its_beginning_once(small: int) -> None:
    kept = Kept()
    kept.now = NOON
    for number in range(small):
        kept.tell(*waits(number))
    kept.write()
    kept.now += 50
    last, now = flooding(small - 1), kept.now * SECOND
    kept.tell(
        PodHeld(last, "default", "910-x8", 4, "pod", now),
        WaitEnded(last, "default", "910-x8", NOON * SECOND, now, now, started=True),
    )
    kept.now += 50
    kept.write()
    found = rows(kept)["flood"]
    assert amounts(found) == (4 * 50, (small - 1) * 100 + 50)
    assert found.starts == 1


def test_pods_that_are_not_named_are_not_counted_again_for_the_day_before(small: int) -> None:
    kept = Kept()
    kept.now = NOON
    for number in range(small):
        kept.tell(*holds(number))
    kept.now = START + DAY + 60
    kept.write()
    expected = amounts(rows(kept, 1)["flood"])
    assert expected == (small * DAY // 2, 0)
    named = {one.pod for one in kept.again().state().held}
    assert len(named) < small
    kept.tell(*(one for n in range(small) if flooding(n).uid not in named for one in holds(n)))
    kept.now += 60
    kept.write()
    assert amounts(rows(kept, 1)["flood"]) == expected
    assert amounts(rows(kept)["flood"]) == (small * 120, 0)


def test_a_day_whose_last_document_was_not_written_is_settled(small: int) -> None:
    kept = Kept()
    kept.now = NOON
    for number in range(small):
        kept.tell(*waits(number), *holds(number + small))
    kept.write()
    former = dict(kept.documents)
    kept.now = START + DAY + 60
    written = kept.ledger.due(kept.now * SECOND)
    today = [name for name, text in written if read_document(text).day == day_of(kept.now)]
    # Only the first documents, those of today, arrive.
    kept.documents = {**former, **{name: text for name, text in written if name in today}}
    kept.again()
    kept.now += 60
    kept.write()
    found = rows(kept, 1)["flood"]
    assert amounts(found) == (small * DAY // 2, small * DAY // 2)
    assert found.uncertain_chip_hours > 0


@pytest.mark.parametrize(
    ("sizes", "room", "share"),
    [
        ([], 100, 100),
        ([10, 20], 100, 90),
        ([10, 200], 100, 90),
        ([10, 200, 300], 100, 45),
        ([50, 50, 50], 90, 30),
    ],
)
def test_the_share_of_a_namespace(sizes: list[int], room: int, share: int) -> None:
    found = share_of(sizes, room)
    assert found == share
    assert sum(min(size, found) for size in sizes) <= room


def test_more_namespaces_and_queues_than_fit_become_one_line_of_each_board(small: int) -> None:
    kept = Kept()
    kept.now = NOON
    boards = ("910-x8", "910b-x8")
    for number in range(small):
        who = AccountedJob(f"namespace-{number}", "train", f"uid-{number}")
        queue = f"{number:05}".rjust(63, "q")
        kept.tell(PodHeld(who, queue, boards[number % 2], 1, f"pod-{number}", NOON * SECOND))
    kept.now += 60
    kept.write()
    report = report_document(
        sorted(kept.documents.items()), ReportPeriod(day_of(NOON), day_of(NOON)), "board", kept.now * SECOND
    )
    held = {row.board: round(row.allocated_chip_hours * 3600) for row in report.rows}
    assert held == dict.fromkeys(boards, small // 2 * 60)

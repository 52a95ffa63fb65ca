"""Documents of accounting: how large and how many they get, and what is done with those of others."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from ringwise.manifests.accounts import ledger as ledger_module
from ringwise.manifests.accounts.document import MAX_BYTES, AccountLine, NotAnAccountError, read_document
from ringwise.manifests.accounts.ledger import CONFIG_MAPS, SLOTS, AccountLedger, current_parts
from ringwise.messages.accounting import (
    AccountClosed,
    AccountCommand,
    AccountedJob,
    FailureExcused,
    HoldEnded,
    JobWaits,
    PodHeld,
    WaitEnded,
)
from tests.builders.values import SECOND

DAY = 86_400
#: 2024-10-04, midnight.
START = 20_000 * DAY


def job(number: int, namespace: str = "team", user: str = "") -> AccountedJob:
    return AccountedJob(namespace, f"job-{number}", f"uid-{number}", user, bool(user))


def held(who: AccountedJob, since: int, chips: int = 8, pod: str = "") -> PodHeld:
    return PodHeld(who, "default", "910-x8", chips, pod or f"pod-of-{who.uid}", since * SECOND)


def ended(who: AccountedJob, until: int, *, failed: bool = False) -> HoldEnded:
    return gone(f"pod-of-{who.uid}", until, failed=failed)


def gone(pod: str, until: int, told: int = 0, *, failed: bool = False) -> HoldEnded:
    return HoldEnded(pod, until * SECOND, until * SECOND, (told or until) * SECOND, failed=failed)


class Kept:
    """Documents as somebody keeps them, and ledgers that read them one after the other."""

    def __init__(self, *, limited: bool = True) -> None:
        self.limited = limited
        self.documents: dict[str, str] = {}
        self.now = START
        self.ledger = self.again()

    def again(self) -> AccountLedger:
        self.ledger = AccountLedger(limited=self.limited)
        self.ledger.read(sorted(self.documents.items()), self.now * SECOND)
        return self.ledger

    def tell(self, *commands: AccountCommand) -> None:
        for command in commands:
            self.ledger.apply(command, self.now * SECOND)

    def write(self) -> None:
        written = self.ledger.due(self.now * SECOND)
        assert all(len(text.encode()) <= MAX_BYTES for _, text in written)
        self.documents.update(written)
        assert not self.limited or set(self.documents) <= set(SLOTS)

    def total(self) -> AccountLine:
        total = AccountLine()
        for day in {read_document(text).day for text in self.documents.values()}:
            found = [(n, d) for n, text in self.documents.items() if (d := read_document(text)).day == day]
            for _, document in current_parts(found):
                for one in document.jobs:
                    for line in one.lines:
                        total.add(line)
        return total

    def of(self, name: str) -> AccountLine:
        total = AccountLine()
        for text in self.documents.values():
            for one in read_document(text).jobs:
                for line in one.lines if one.name == name else ():
                    total.add(line)
        return total


def run_job(kept: Kept, number: int, seconds: int, namespace: str = "team") -> None:
    who, now = job(number, namespace), kept.now * SECOND
    kept.tell(
        held(who, kept.now),
        WaitEnded(who, "default", "910-x8", now - 5 * SECOND, now, now, started=True),
        ended(who, kept.now + seconds),
        AccountClosed(who),
    )


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """Documents of a fortieth of the size: as many jobs as a hostile tenant has do not fit sooner."""
    size = MAX_BYTES // 40
    monkeypatch.setattr(ledger_module, "MAX_BYTES", size)
    monkeypatch.setattr(ledger_module, "_FULL", size * 3 // 4)
    return size


def test_very_many_tiny_jobs_of_a_day_stay_within_the_limits(small: int) -> None:
    kept = Kept()
    kept.now += DAY // 2
    for number in range(2_500):
        run_job(kept, number, 2, f"team-{number % 7}")
        if number % 100 == 99:
            kept.now += 60
            kept.write()
    total = kept.total()
    assert (total.held, total.starts, total.waited) == (2_500 * 8 * 2, 2_500, 2_500 * 5)
    assert len(kept.documents) <= 8
    assert all(len(text) <= small for text in kept.documents.values())
    documents = [read_document(text) for text in kept.documents.values()]
    merged = sum(document.merged for document in documents)
    named = sum(bool(one.uid) for document in documents for one in document.jobs)
    assert merged + named == 2_500
    assert merged
    assert named > 100


def test_there_are_64_config_maps_at_most_and_old_days_merge_before_any_is_given_up(small: int) -> None:
    kept = Kept()
    for day in range(30):
        kept.now = START + day * DAY + 100
        for number in range(100):
            run_job(kept, day * 1_000 + number, 3)
        kept.write()
        kept.again()
    assert 30 < len(kept.documents) <= CONFIG_MAPS
    assert kept.total().starts == 30 * 100
    assert not any(read_document(text).given_up for text in kept.documents.values())
    whole = [one for text in kept.documents.values() if (one := read_document(text)).whole]
    assert whole
    assert all(one.merged >= 100 for one in whole)


def test_when_every_day_has_one_config_map_the_oldest_day_is_given_up_and_that_is_told() -> None:
    kept = Kept()
    for day in range(70):
        kept.now = START + day * DAY + 100
        run_job(kept, day, 3)
        kept.write()
        # Long enough that nothing of the day is corrected any more.
        kept.now += 2 * 3600
        kept.write()
    assert len(kept.documents) == CONFIG_MAPS
    days = sorted(read_document(text).day for text in kept.documents.values())
    assert days[0] == "2024-10-10"
    assert max(read_document(text).given_up for text in kept.documents.values()) == days[0]


def test_files_of_a_folder_are_named_by_day_and_none_is_given_up() -> None:
    kept = Kept(limited=False)
    for day in range(100):
        kept.now = START + day * DAY + 100
        run_job(kept, day, 3)
        kept.write()
    assert len(kept.documents) == 100
    assert min(kept.documents) == "2024-10-04-00"
    assert kept.total().held == 100 * 8 * 3


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "cannot be read"),
        ("{}", "not an accounting document"),
        ('{"format":"ringwise-accounting","version":2}', "version 2"),
        ('{"format":"ringwise-accounting","version":1,"day":"today","written":1}', "day"),
        ('{"format":"ringwise-accounting","version":1,"day":"2024-13-01","written":1}', "2024-13-01"),
        ('{"format":"ringwise-accounting","version":1,"day":"2099-01-01","written":1}', "in the future"),
        (
            '{"format":"ringwise-accounting","version":1,"day":"2024-10-04","written":1,'
            '"jobs":[{"namespace":"a","lines":[{"held":-1}]}]}',
            "held",
        ),
        ("[" * 5_000, "cannot be read"),
        ("x" * (5 * MAX_BYTES), "larger"),
    ],
)
@pytest.mark.parametrize("limited", [True, False])
def test_what_is_no_document_of_ours_stays_as_it_is(text: str, why: str, limited: bool) -> None:
    kept = Kept(limited=limited)
    name = "00" if limited else "2024-10-04-00"
    kept.documents[name] = text
    kept.again()
    assert why in kept.ledger.foreign[name]
    run_job(kept, 1, 5)
    kept.write()
    assert kept.documents.pop(name) == text
    assert kept.total().held == 40


def test_config_maps_that_all_belong_to_somebody_else_stop_nothing() -> None:
    kept = Kept()
    kept.documents = dict.fromkeys(SLOTS, "mine")
    kept.again()
    run_job(kept, 1, 5)
    assert kept.ledger.due(kept.now * SECOND) == []


def test_names_with_separators_and_quotes_do_not_collide() -> None:
    names = ["a/b", "a", "b", 'a","uid":"x', "a\nb", "a\x00", "\u2028", "=1+1", "a,b"]
    kept = Kept()
    for number, name in enumerate(names):
        who = AccountedJob("a", name, f"uid {name}", user=name, verified=number % 2 == 0)
        kept.tell(
            held(who, kept.now, pod=f"p{number}"),
            gone(f"p{number}", kept.now + number),
        )
    kept.write()
    for number, name in enumerate(names):
        assert kept.of(name).held == 8 * number


def test_a_verified_user_and_an_unverified_one_of_the_same_name_are_two() -> None:
    kept = Kept()
    for verified in (True, False):
        who = AccountedJob("team", "job", "uid", "ana", verified)
        pod = f"pod-{verified}"
        kept.tell(held(who, kept.now, pod=pod), gone(pod, kept.now + 5))
    kept.write()
    (document,) = [read_document(text) for text in kept.documents.values()]
    assert [(one.user, one.verified, one.lines[0].held) for one in document.jobs] == [
        ("ana", True, 40),
        ("ana", False, 40),
    ]


def test_what_is_open_at_midnight_is_on_both_days_once() -> None:
    kept = Kept()
    kept.now = START + DAY - 10
    kept.tell(held(job(1), kept.now), JobWaits(job(2), "default", kept.now * SECOND))
    kept.write()
    kept.now = START + DAY + 20
    kept.again()
    kept.tell(ended(job(1), kept.now))
    until = kept.now * SECOND
    kept.tell(WaitEnded(job(2), "default", "", (START + DAY - 10) * SECOND, until, until, started=False))
    kept.write()
    days = {read_document(text).day: read_document(text) for text in kept.documents.values()}
    of_job = {day: [line.held for line in one.jobs[0].lines] for day, one in days.items()}
    assert of_job == {"2024-10-04": [80], "2024-10-05": [160]}
    assert kept.total().waited == 30


def test_an_end_before_midnight_that_is_told_after_it_corrects_the_day_before() -> None:
    kept = Kept()
    kept.now = START + DAY - 100
    kept.tell(held(job(1), kept.now))
    kept.write()
    kept.now = START + DAY + 5
    kept.write()
    kept.tell(ended(job(1), START + DAY - 40))
    kept.write()
    assert kept.total().held == 60 * 8


def test_a_leader_that_dies_between_the_documents_of_two_days_loses_and_doubles_nothing() -> None:
    kept = Kept()
    kept.now = START + DAY - 100
    kept.tell(held(job(1), kept.now), held(job(2), kept.now))
    kept.write()
    kept.now = START + DAY + 5
    kept.tell(ended(job(2), START + DAY - 90))
    written = kept.ledger.due(kept.now * SECOND)
    assert len(written) == 2
    # Only the first arrives.
    kept.documents.update(written[:1])
    known = kept.again().state()
    assert {one.pod for one in known.held} == {"pod-of-uid-1"}
    kept.now += 5
    kept.tell(ended(job(1), kept.now))
    kept.write()
    assert kept.of("job-1").held == 110 * 8
    other = kept.of("job-2")
    assert other.held - other.uncertain <= 10 * 8 <= other.held


def test_pods_that_ended_are_not_counted_again_by_the_next_leader() -> None:
    kept = Kept()
    kept.tell(held(job(1), kept.now), ended(job(1), kept.now + 5))
    kept.now += 10
    kept.write()
    assert kept.again().state().ended == ("pod-of-uid-1",)
    # A node whose clock is far ahead: for as long as it says that the end is yet to come.
    kept.tell(
        held(job(2), kept.now),
        gone("pod-of-uid-2", kept.now, kept.now + DAY),
    )
    kept.now += 3600
    kept.tell(held(job(3), kept.now))
    kept.write()
    assert "pod-of-uid-2" in kept.again().state().ended


def test_a_failure_for_which_hardware_is_to_blame_is_no_failure_but_a_loss() -> None:
    kept = Kept()
    who = job(1)
    kept.tell(held(who, kept.now), ended(who, kept.now + 100, failed=True))
    kept.write()
    assert (kept.total().failures, kept.total().lost) == (1, {})
    kept.again()
    kept.tell(FailureExcused(who))
    kept.write()
    assert (kept.total().failures, kept.total().lost) == (0, {"fault": 800})
    kept.tell(FailureExcused(who))
    kept.write()
    assert kept.total().lost == {"fault": 800}


def test_what_a_job_saved_before_hardware_failed_is_not_lost() -> None:
    kept = Kept()
    who = job(1)
    end = replace(ended(who, kept.now + 100, failed=True), lost_since=(kept.now + 75) * SECOND)
    kept.tell(held(who, kept.now), end, FailureExcused(who))
    kept.write()
    assert kept.total().lost == {"fault": 200}


def test_a_document_that_could_not_be_written_is_written_the_next_time() -> None:
    kept = Kept()
    run_job(kept, 1, 5)
    first = kept.ledger.due(kept.now * SECOND)
    kept.ledger.failed([name for name, _ in first])
    assert [name for name, _ in kept.ledger.due(kept.now * SECOND)] == [name for name, _ in first]
    assert kept.ledger.due(kept.now * SECOND) == []


def test_a_job_with_very_many_pods_does_not_make_its_document_too_large() -> None:
    kept = Kept()
    who = job(1)
    kept.tell(*(held(who, kept.now + number % 600, pod=f"{number:036}") for number in range(21_000)))
    kept.tell(held(job(2), kept.now))
    kept.now += 600
    kept.write()
    document = read_document(kept.documents["00"])
    assert document.unnamed == 21_000
    assert [one.name for one in document.jobs if one.holds] == ["job-2"]


@pytest.mark.parametrize(
    "amount", ["true", "-1", "1.5", '"-1/2"', '"1/0"', '"0.5"', '"٣/4"', '"1e9/1"', "null"]
)
def test_a_document_with_an_amount_that_is_no_fraction_is_left_alone(amount: str) -> None:
    kept = Kept()
    kept.tell(replace(held(job(1), kept.now), chips=Fraction(1, 4)))
    kept.now += 100
    kept.tell(ended(job(1), kept.now))
    kept.write()
    assert '"held":"25/1"' in kept.documents["00"]
    assert kept.total().held == 25
    kept.documents["00"] = kept.documents["00"].replace('"25/1"', amount)
    assert list(kept.again().foreign) == ["00"]
    assert "$.jobs[0].lines[0].held" in kept.ledger.foreign["00"]


def test_the_text_of_a_document_is_plain_json() -> None:
    kept = Kept()
    kept.now += 100
    run_job(kept, 1, 5)
    kept.write()
    document = json.loads(kept.documents["00"])
    assert document["format"] == "ringwise-accounting"
    assert document["jobs"][0]["lines"] == [
        {"queue": "default", "board": "910-x8", "held": 40, "waited": 5, "starts": 1}
    ]
    with pytest.raises(NotAnAccountError):
        read_document(kept.documents["00"][:-20])

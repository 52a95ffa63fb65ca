"""Accounting for the dashboard: the document of `ringwise report`, or a word why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from ringwise.apps.web.job_documents import Recent
from ringwise.apps.web.kube import CACHE_SECONDS, read_documents
from ringwise.kubeclient.client import ApiError, UnreachableError
from ringwise.manifests.accounts.document import (
    FORMAT,
    VERSION,
    AccountDocument,
    AccountLine,
    JobAccount,
    account_text,
    document_text,
)
from ringwise.web.guard import RequestRefusedError
from tests.tools.schemas import check_document
from tests.web.rig import dashboard

#: The day of the rig's clock.
DAY = "1970-01-01"
JOBS = [
    JobAccount("ml", "a", "1", "ana", True, [AccountLine("research", "910-x8", held=8 * 3600, starts=1)]),
    JobAccount(
        "ml", "b", "2", "ana", False, [AccountLine("default", "910-x8", held=3600, lost={"fault": 1800})]
    ),
]
DOCUMENT = document_text(AccountDocument(FORMAT, VERSION, DAY, 900), map(account_text, JOBS))


async def test_the_days_that_are_asked_for_are_added_up() -> None:
    asked = 0

    async def accounts() -> Sequence[tuple[str, str]]:
        nonlocal asked
        asked += 1
        return [(f"{DAY}-00", DOCUMENT)]

    async with dashboard(accounts=accounts) as at:
        status, week = await at.get("api/v1/report")
        assert status == 200
        assert check_document(week) == "ringwise.io/report/v1"
        assert (week["group_by"], len(week["days"]), week["days"][-1]) == ("queue", 7, DAY)
        held = {row["queue"]: row["allocated_chip_hours"] for row in week["rows"]}
        assert held == {"research": 8, "default": 1}
        status, day = await at.get("api/v1/report?by=user&days=1")
        assert (day["group_by"], len(day["days"])) == ("user", 1)
        users = {(row["user"], row["verified"]): row["allocated_by_day"] for row in day["rows"]}
        assert users == {("ana", True): [8], ("ana", False): [1]}
        for wrong in ("by=pod", "by=", "days=0", "days=367", "days=x", "days=-1"):
            status, error = await at.get(f"api/v1/report?{wrong}")
            assert (status, error["error"]["code"]) == (400, "bad-request"), wrong
    assert asked == 2


async def test_where_none_is_kept_it_says_so() -> None:
    async with dashboard() as at:
        status, error = await at.get("api/v1/report")
        assert (status, error["error"]["code"]) == (404, "no-accounting")


async def test_documents_are_read_once_a_minute_for_all() -> None:
    times, answers = iter([0.0, 0.0, 30.0, 59.0, 60.0, 60.0, 61.0]), iter([[("first", "")], [("second", "")]])

    async def read() -> Any:
        return next(answers)

    accounts = Recent(partial(read_documents, read), CACHE_SECONDS, lambda: next(times))
    found = [await accounts() for _ in range(5)]
    assert found == [[("first", "")]] * 3 + [[("second", "")]] * 2


@pytest.mark.parametrize(
    ("problem", "status", "code"),
    [
        (ApiError(403, "Forbidden", "no"), 404, "no-accounting"),
        (ApiError(500, "InternalError", "no"), 503, "no-accounting-now"),
        (UnreachableError("no", maybe_done=False), 503, "no-accounting-now"),
        (OSError("no"), 503, "no-accounting-now"),
    ],
)
async def test_what_cannot_be_read_is_said_and_asked_for_again(
    problem: Exception, status: int, code: str
) -> None:
    problems = [problem]

    async def read() -> Any:
        if problems:
            raise problems.pop()
        return [("read", "")]

    accounts = Recent(partial(read_documents, read), CACHE_SECONDS, lambda: 0.0)
    with pytest.raises(RequestRefusedError) as refusal:
        await accounts()
    assert (refusal.value.status, refusal.value.code) == (status, code)
    assert await accounts() == [("read", "")]

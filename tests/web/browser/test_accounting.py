"""The page of accounting: what the lab has counted, and what is drawn of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.rig import job, queue
from tests.web.browser.conftest import Opener
from tests.web.browser.rig import DashboardLab, View
from tests.web.browser.test_hostile_text import PIECES, assert_harmless

pytestmark = pytest.mark.browser


def amounts(held: float, waited: float = 0.0, **lost: float) -> dict[str, Any]:
    return {
        "held_chip_hours": held,
        "uncertain_chip_hours": 0.0,
        "lost_chip_hours": lost,
        "waited_hours": waited,
        "uncertain_waited_hours": 0.0,
        "starts": 2,
        "failures": 1,
        "clamped": 0,
    }


def row(user: str, held: list[float], waited: float = 0.0, verified: bool = True, **lost: float) -> Any:
    names = dict.fromkeys(("queue", "namespace", "job", "uid", "board"))
    return {
        **names,
        **amounts(sum(held), waited, **lost),
        "user": user,
        "verified": verified,
        "held_by_day": held,
    }


def answered(rows: list[Any], **more: Any) -> dict[str, Any]:
    return {
        "schema": "ringwise.io/report/v1",
        "now": 0,
        "by": "user",
        "days": [f"2027-01-{day:02}" for day in range(1, 8)],
        "rows": rows,
        "total": amounts(sum(one["held_chip_hours"] for one in rows)),
        "gaps": [],
        "merged_jobs": 0,
        "given_up_before": None,
        "unreadable": [],
        **more,
    }


def shown(lab: DashboardLab, open_page: Opener, document: dict[str, Any], width: int = 1280) -> View:
    view = open_page(lab.url, width=width)
    view.page.route("**/api/v1/report*", lambda route: route.fulfill(json=document))
    view.open("accounting", settings="by=user")
    view.page.get_by_role("img", name="Chip-hours of 7 days").wait_for()
    return view


def no_wider_than_the_screen(view: View) -> bool:
    script = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    return bool(view.page.evaluate(script))


@pytest.mark.parametrize("width", [1280, 360])
def test_days_are_columns_of_parts_with_one_scale(
    quiet_lab: DashboardLab, open_page: Opener, width: int
) -> None:
    days = [float(day) for day in range(7)]
    rows = [
        row(f"user-{i}", [10 * (9 - i), *days[1:]], 4.0 - i / 10, fault=3.0, preempt=1.0) for i in range(9)
    ]
    view = shown(quiet_lab, open_page, answered(rows), width)
    columns = view.page.locator(".columns > span")
    assert columns.count() == 7
    # Six users have a part of their own, the other three share one.
    assert columns.first.locator("i").count() == 7
    view.see("3 others")
    # The first day has the most: its column is as high as the plot.
    heights = view.page.evaluate(
        """[...document.querySelectorAll(".columns > span")].map((column) =>
             [...column.children].reduce((sum, part) => sum + part.getBoundingClientRect().height, 0) /
             column.getBoundingClientRect().height)"""
    )
    assert heights[0] == pytest.approx(1, abs=0.02)
    assert heights[6] == pytest.approx(9 * 6 / sum(10 * (9 - i) for i in range(9)), abs=0.02)
    view.row("user-8", "Accounting").wait_for()
    view.page.get_by_role("img", name="fault 3, preempt 1").first.wait_for()
    view.page.get_by_role("img", name="waited 2").first.wait_for()
    assert no_wider_than_the_screen(view)


@pytest.mark.parametrize("width", [1280, 360])
def test_a_verified_user_and_an_unverified_one_of_the_same_name_are_two(
    quiet_lab: DashboardLab, open_page: Opener, width: int
) -> None:
    rows = [row("ana", [8.0] * 7), row("ana", [4.0] * 7, verified=False), row("", [1.0] * 7, verified=False)]
    view = shown(quiet_lab, open_page, answered(rows), width)
    table = view.page.get_by_role("table", name="Accounting").get_by_role("row")
    assert [("unverified" in text, "not known" in text) for text in table.all_inner_texts()[1:]] == [
        (False, False),
        (True, False),
        (False, True),
    ]


@pytest.mark.parametrize("width", [1280, 360])
def test_users_of_any_name_are_text(quiet_lab: DashboardLab, open_page: Opener, width: int) -> None:
    pieces = [piece for piece in PIECES if "\ud800" not in piece]
    rows = [row(piece, [1.0] * 7, 1.0, verified=bool(i % 2), fault=1.0) for i, piece in enumerate(pieces)]
    document = answered(rows, unreadable=list(pieces), given_up_before="2026-12-01", merged_jobs=3)
    view = shown(quiet_lab, open_page, document, width)
    view.see("3 jobs merged")
    assert_harmless(view)
    assert no_wider_than_the_screen(view)


def test_what_the_lab_counted_is_shown(lab: DashboardLab, open_page: Opener) -> None:
    lab.terminal.submit(queue("research"), job("runs", 2, 8, queue="research"))
    lab.terminal.ok("advance 1m")
    lab.terminal.submit(job("large", 6, 8))
    lab.terminal.ok("advance 3h")
    view = open_page(lab.url).open("accounting")
    found = view.row("research", "Accounting")
    found.wait_for()
    assert "48" in found.inner_text()
    view.row("default", "Accounting").wait_for()
    view.page.get_by_label("Of each").select_option("job")
    view.row("lab/runs", "Accounting").wait_for()
    view.page.get_by_label("Of the last").select_option("30")
    view.page.get_by_role("img", name="Chip-hours of 30 days").wait_for()
    assert "by=job" in view.page.url


def test_where_nothing_is_kept_the_page_says_so(quiet_lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(quiet_lab.url)
    refused = {
        "schema": "ringwise.io/error/v1",
        "error": {"code": "no-accounting", "message": "none is kept"},
    }
    view.page.route("**/api/v1/report*", lambda route: route.fulfill(status=404, json=refused))
    # The browser tells of the status by itself.
    view.open("accounting")
    view.see("There is no accounting: none is kept.")
    view.problems.clear()

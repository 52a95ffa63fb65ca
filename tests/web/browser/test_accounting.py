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
        "allocated_chip_hours": held,
        "uncertain_chip_hours": 0.0,
        "lost_chip_hours": lost,
        "pending_hours": waited,
        "uncertain_pending_hours": 0.0,
        "starts": 2,
        "failures": 1,
        "clamped": 0,
    }


def row(
    user: str,
    held: list[float],
    waited: float = 0.0,
    verified: bool = True,
    board: str = "910-x8",
    **lost: float,
) -> Any:
    names = dict.fromkeys(("queue", "namespace", "job", "uid"))
    return {
        **names,
        "board": board,
        **amounts(sum(held), waited, **lost),
        "user": user,
        "verified": verified,
        "allocated_by_day": held,
    }


def answered(rows: list[Any], **more: Any) -> dict[str, Any]:
    return {
        "schema": "ringwise.io/report/v1",
        "now": 0,
        "group_by": "user",
        "days": [f"2027-01-{day:02}" for day in range(1, 8)],
        "rows": rows,
        "notes": [],
        "totals": [
            {
                "board": board,
                **amounts(sum(one["allocated_chip_hours"] for one in rows if one["board"] == board)),
            }
            for board in dict.fromkeys(one["board"] for one in rows)
        ],
        "gaps": [],
        "merged_jobs": 0,
        "has_chip_fractions": False,
        "discarded_before": None,
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
    columns = view.page.locator(".days > span")
    assert columns.count() == 7
    # Six users have a part of their own, the other three share one.
    assert columns.first.locator("i").count() == 7
    view.see("3 others")
    # The first day has the most: its column is as high as the plot.
    heights = view.page.evaluate(
        """[...document.querySelectorAll(".days > span")].map((column) =>
             [...column.children].reduce((sum, part) => sum + part.getBoundingClientRect().height, 0) /
             column.getBoundingClientRect().height)"""
    )
    assert heights[0] == pytest.approx(1, abs=0.02)
    assert heights[6] == pytest.approx(9 * 6 / sum(10 * (9 - i) for i in range(9)), abs=0.02)
    view.row("user-8", "Accounting").wait_for()
    view.page.get_by_role("img", name="fault 3, preempt 1").first.wait_for()
    view.page.get_by_role("img", name="waited 2h").first.wait_for()
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
    document = answered(rows, unreadable=list(pieces), discarded_before="2026-12-01", merged_jobs=3)
    view = shown(quiet_lab, open_page, document, width)
    view.see("3 jobs merged")
    assert_harmless(view)
    assert no_wider_than_the_screen(view)


def test_bars_are_as_long_as_the_numbers_beside_them_say(quiet_lab: DashboardLab, open_page: Opener) -> None:
    """Bars of one panel with the same text have the same length, and none of them says nothing."""
    waits = [0.004, 0.0121, 0.0122, 0.3, 2.04, 2.05]
    rows = [row(f"user-{i}", [1.0] * 7, 2 * wait, fault=wait) for i, wait in enumerate(waits)]
    view = shown(quiet_lab, open_page, answered(rows))
    for title in ("Waiting time", "Lost chip-hours"):
        panel = view.page.get_by_role("region", name=title)
        found: list[tuple[str, float]] = panel.locator("dd").evaluate_all(
            """all => all.map((one) => [one.innerText.trim(),
                 one.querySelector(".stripes i").getBoundingClientRect().width])"""
        )
        assert len(found) == len(waits)
        by_text: dict[str, set[int]] = {}
        for text, width in found:
            by_text.setdefault(text, set()).add(round(width))
        assert all(len(widths) == 1 for widths in by_text.values()), found
        assert not any(text.startswith(("0 ", "0s")) or text == "0" for text in by_text), found
    waiting = view.page.get_by_role("region", name="Waiting time")
    assert [one.split(",")[0] for one in waiting.locator("dd").all_inner_texts()] == [
        *("2h3m", "2h2m", "18m", "44s", "44s", "14s")
    ]


def test_fractions_of_chips_have_two_decimals(quiet_lab: DashboardLab, open_page: Opener) -> None:
    rows = [row("ana", [30.0] * 6 + [0.25], fault=2.125), row("ben", [0.5] * 7)]
    view = shown(quiet_lab, open_page, answered(rows, has_chip_fractions=True))
    view.see("183.75 chip-hours held")
    view.page.get_by_role("img", name="Chip-hours of 7 days: ana 180.25; ben 3.50").wait_for()
    assert "2.13" in view.row("ana", "Accounting").inner_text()


def test_chips_of_two_boards_are_shown_one_board_at_a_time(
    quiet_lab: DashboardLab, open_page: Opener
) -> None:
    rows = [row("ana", [8.0] * 7), row("ana", [2.0] * 7, board="310p-duo"), row("ben", [1.0] * 7, board="")]
    view = shown(quiet_lab, open_page, answered(rows))
    view.see("56 chip-hours held")
    table = view.page.get_by_role("table", name="Accounting").get_by_role("row")
    assert table.count() == 3
    view.page.get_by_label("On board").select_option("310p-duo")
    view.see("14 chip-hours held")
    view.page.get_by_role("img", name="Chip-hours of 7 days: ana 14").wait_for()
    assert "board=310p-duo" in view.page.url


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

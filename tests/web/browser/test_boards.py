"""A cluster of several boards: chips of different resources are never added, and all can be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.rig import job, queue
from tests.web.browser.conftest import Opener
from tests.web.browser.rig import DashboardLab, View, dashboard_lab

pytestmark = pytest.mark.browser

INFER, TRAIN = "Ascend310P", "Ascend910"
STATES = ("in use", "free", "faulty", "isolated", "reserved", "unschedulable")


@pytest.fixture(scope="module")
def mixed_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DashboardLab]:
    """Six nodes for training, three for inference; one of the latter is closed, one has a drain ahead."""
    folder: Path = tmp_path_factory.mktemp("lab")
    with dashboard_lab(folder, "--board", "910-x8:6,310p:3") as lab:
        lab.terminal.submit(queue("research", 3), job("train", 2, 8, queue="research"))
        lab.terminal.submit(job("infer", 1, 40).replace(TRAIN, INFER))
        lab.terminal.ok("cordon node-7")
        lab.terminal.ok("drain node-8 --at 90m")
        lab.terminal.ok("fault inject chip node-5 7")
        lab.terminal.ok("advance 5s")
        yield lab


def header(view: View) -> dict[str, dict[str, int]]:
    """Resource -> name -> chips."""
    table = view.page.get_by_role("table", name="Totals of the cluster by resource")
    names = [text.lower() for text in table.get_by_role("columnheader").all_inner_texts()]
    rows = [row.get_by_role("cell").all_inner_texts() for row in table.get_by_role("row").all()[1:]]
    found = [dict(zip(names, row, strict=True)) for row in rows]
    return {
        row["resource"]: {name: int(row[name].replace(",", "")) for name in (*STATES, "chips") if name in row}
        for row in found
    }


def legend(view: View) -> dict[str, dict[str, int]]:
    """Entry -> resource -> chips."""
    found = {}
    for item in view.page.locator(".legend li").all():
        amounts = [text.split() for text in item.locator(".amount > span").all_inner_texts()]
        if amounts:
            label = item.locator("span:not(.swatch), button").first.inner_text()
            found[label] = {resource: int(chips.replace(",", "")) for chips, resource in amounts}
    return found


def test_header_and_legend_count_each_resource_by_itself(mixed_lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(mixed_lab.url)
    for mode in ("job", "queue", "free", "fragmentation", "health"):
        view.open("map", settings=f"color={mode}").complete()
        view.see(f"Colored by {mode}")
        above, entries = header(view), legend(view)
        assert set(above) == {INFER, TRAIN}
        for resource, counts in above.items():
            assert sum(counts.get(name, 0) for name in STATES) == counts["chips"]
            assert sum(entry.get(resource, 0) for entry in entries.values()) == counts["chips"], mode
        assert (above[TRAIN]["chips"], above[TRAIN]["in use"], above[TRAIN]["faulty"]) == (48, 16, 1)
        assert (above[INFER]["chips"], above[INFER]["in use"], above[INFER]["unschedulable"]) == (192, 40, 64)
        if mode in ("job", "queue", "free"):
            assert entries["free"] == {TRAIN: above[TRAIN]["free"], INFER: above[INFER]["free"]}


def test_the_map_is_grouped_by_board(mixed_lab: DashboardLab, open_page: Opener) -> None:
    # Without switches and SuperPoDs it begins so.
    view = open_page(mixed_lab.url).open("map").complete()
    view.until(lambda: view.page.get_by_label("Group by").input_value() == "board")
    view.page.locator(".map-overlay").focus()
    view.page.keyboard.press("ArrowDown")
    cursor = view.page.locator("#map-cursor")
    cursor.get_by_text("board 310p: 3 nodes, 88 of 192 chips free, 64 unschedulable").wait_for()
    view.open("nodes", settings="rows=board")
    rows = view.page.get_by_role("table", name="boards", exact=True).get_by_role("row").all_inner_texts()
    assert [row.split()[:5] for row in rows[1:]] == [
        ["310p", INFER, "3", "1", "192"],
        ["910-x8", TRAIN, "6", "3", "48"],
    ]
    view.open("nodes", settings="text=node-6")
    signs = view.row("node-6", "Nodes").locator(".chip-signs").inner_text()
    assert signs == "[40# 24.]"


def test_queues_have_a_share_of_each_resource(mixed_lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(mixed_lab.url).open("queues")
    view.row("research", "Queues").first.wait_for()
    rows = view.page.get_by_role("table", name="Queues", exact=True).get_by_role("row").all()
    titles = [text.lower() for text in rows[0].get_by_role("columnheader").all_inner_texts()]
    found = [dict(zip(titles, row.get_by_role("cell").all_inner_texts(), strict=True)) for row in rows[1:]]
    shown = [(row["queue"], row["resource"], row["used"], row["share"], row["running"]) for row in found]
    assert shown == [
        ("default", INFER, "40", "48", "1"),
        ("default", TRAIN, "0", "12", ""),
        ("research", INFER, "0", "144", "1"),
        ("research", TRAIN, "16", "36", ""),
    ]


def test_a_small_screen_has_all_totals(mixed_lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(mixed_lab.url, width=360).open("queues")
    assert {name: counts["chips"] for name, counts in header(view).items()} == {INFER: 192, TRAIN: 48}
    width = view.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1]


def test_over_time_has_a_plot_for_each_resource(mixed_lab: DashboardLab, open_page: Opener) -> None:
    mixed_lab.terminal.ok("advance 10s")
    view = open_page(mixed_lab.url).open("over-time")
    for title in (f"Chips, {INFER}", f"Chips, {TRAIN}"):
        view.page.get_by_role("region", name=title).wait_for()
    region = view.page.get_by_role("region", name=f"Chips, {INFER}")
    view.until(lambda: "in use 40 now" in region.inner_text())

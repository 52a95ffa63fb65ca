"""For everybody: both themes, a narrow screen, the keyboard alone, and screen readers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.rig import job, queue
from tests.web.browser.conftest import Opener
from tests.web.browser.rig import DashboardLab, View, dashboard_lab

pytestmark = pytest.mark.browser

AXE = Path(__file__).parent / "axe" / "axe.js"
VIEWS = {
    "map": ("map",),
    "jobs": ("jobs",),
    "waiting job": ("jobs", "lab", "large"),
    "running job": ("jobs", "lab", "first"),
    "nodes": ("nodes",),
    "node": ("nodes", "node-0"),
    "queues": ("queues",),
    "what-if": ("what-if",),
    "over time": ("over-time",),
    "accounting": ("accounting",),
}


@pytest.fixture(scope="module")
def busy_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DashboardLab]:
    """Jobs that run, wait and are refused; a faulty chip, a cordoned node."""
    with dashboard_lab(tmp_path_factory.mktemp("lab"), "--nodes", "6", "--leaf-size", "3") as lab:
        lab.terminal.submit(job("first", 4, 8), job("small", 1, 2), job("large", 4, 8), job("odd", 1, 3))
        lab.terminal.ok("fault inject chip node-5 7")
        lab.terminal.ok("cordon node-5")
        lab.terminal.ok("advance 5s")
        yield lab


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_axe_finds_nothing_serious(busy_lab: DashboardLab, open_page: Opener, theme: str, width: int) -> None:
    view = open_page(busy_lab.url, width, theme, bypass_csp=True)
    serious = {}
    for name, path in VIEWS.items():
        view.open(*path).complete()
        if not view.page.evaluate("'axe' in window"):
            view.page.add_script_tag(path=str(AXE))
        found: dict[str, Any] = view.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        for one in found["violations"]:
            if one["impact"] in ("serious", "critical"):
                serious[f"{name}: {one['id']}"] = [node["html"][:200] for node in one["nodes"]]
    assert serious == {}


def test_axe_would_find_something(busy_lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(busy_lab.url, bypass_csp=True).open("jobs").complete()
    view.page.add_script_tag(path=str(AXE))
    view.page.evaluate("document.querySelector('main').append(document.createElement('button'))")
    found = view.page.evaluate("axe.run(document)")
    assert "button-name" in [one["id"] for one in found["violations"]]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_is_wider_than_a_phone(busy_lab: DashboardLab, open_page: Opener, theme: str) -> None:
    view = open_page(busy_lab.url, 360, theme, 740, device_scale_factor=2)
    wide = {}
    for name, path in VIEWS.items():
        view.open(*path).complete()
        width = view.page.evaluate("document.documentElement.scrollWidth")
        if width > 360:
            wide[name] = width
    assert wide == {}


def test_short_names_are_not_broken(lab: DashboardLab, open_page: Opener) -> None:
    lab.terminal.submit(queue("production"), job("train", 1, 8, queue="production"), job("large", 9, 8))
    view = open_page(lab.url).open("jobs")
    cell = view.row("lab/train", "Jobs").get_by_text("production")
    cell.wait_for()
    lines = """one => {
      const range = document.createRange();
      range.selectNodeContents(one);
      return range.getClientRects().length;
    }"""
    assert cell.evaluate(lines) == 1


def background(view: View) -> list[int]:
    color = view.page.evaluate("getComputedStyle(document.body).backgroundColor")
    return [int(part) for part in color.removeprefix("rgb(").removesuffix(")").split(",")]


def test_the_theme_is_that_of_the_system_until_another_is_chosen(
    busy_lab: DashboardLab, open_page: Opener
) -> None:
    view = open_page(busy_lab.url, theme="dark").open("map")
    assert max(background(view)) < 60
    view.settled()
    before = view.page.evaluate(CANVAS_PIXEL)
    view.page.get_by_label("Colors of the page").select_option("light")
    view.until(lambda: min(background(view)) > 200)
    view.until(lambda: view.page.evaluate(CANVAS_PIXEL) != before)
    view.page.reload()
    view.wait_state("live")
    assert min(background(view)) > 200
    view.page.get_by_label("Colors of the page").select_option("system")
    view.page.emulate_media(color_scheme="light")
    view.until(lambda: min(background(view)) > 200)


#: The first pixel of the map, which has the color of the page.
CANVAS_PIXEL = (
    """[...document.querySelector('canvas.map-base').getContext('2d').getImageData(1, 1, 1, 1).data].join()"""
)


def focused(view: View) -> str:
    script = "(one => one.getAttribute('aria-label') ?? one.innerText ?? '')(document.activeElement).trim()"
    return str(view.page.evaluate(script))


def tab_until(view: View, wanted: str) -> None:
    for _ in range(80):
        view.page.keyboard.press("Tab")
        if focused(view).startswith(wanted):
            return
    raise AssertionError(f"the keyboard does not reach {wanted!r}")


#: Keys on the map, and what the cursor is on afterwards. Two wide groups are one below the other.
KEYS_ON_THE_MAP = [
    ("ArrowDown", "leaf switch 172.0.0.0: 3 nodes"),
    ("ArrowDown", "leaf switch 172.0.0.1: 3 nodes"),
    ("ArrowUp", "leaf switch 172.0.0.0: 3 nodes"),
    ("Enter", "node-0: ready"),
    ("ArrowRight", "node-1: ready"),
    ("Enter", "node-1, chip 0: held by"),
    ("ArrowDown", "node-1, chip 4: held by"),
    ("Escape", "node-1: ready"),
    ("Escape", "leaf switch 172.0.0.0: 3 nodes"),
    ("Enter", "node-0: ready"),
    ("Enter", "node-0, chip 0: held by"),
]


def test_the_keyboard_alone_goes_from_the_cluster_to_a_chip(
    busy_lab: DashboardLab, open_page: Opener
) -> None:
    view = open_page(busy_lab.url).open("map")
    tab_until(view, "Map of 6 nodes")
    for key, says in KEYS_ON_THE_MAP:
        view.page.keyboard.press(key)
        view.page.locator("#map-cursor").get_by_text(says).wait_for()
    view.page.keyboard.press("Enter")
    view.page.locator("#view-title").get_by_text("node-0").wait_for()
    view.until(lambda: view.page.evaluate("document.activeElement.id") == "view-title")


def test_the_keyboard_alone_goes_through_all_views(busy_lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(busy_lab.url).open("map")
    view.page.evaluate("document.activeElement.blur()")
    view.page.keyboard.press("Tab")
    assert focused(view) == "To the content"
    view.page.keyboard.press("Enter")
    view.until(lambda: view.page.evaluate("document.activeElement.id") == "view-title")
    for title in ("Jobs", "Nodes", "Queues", "What-if", "Over time", "Accounting", "Map"):
        view.page.evaluate("window.scrollTo(0, 0); document.querySelector('.skip').focus()")
        tab_until(view, title)
        view.page.keyboard.press("Enter")
        view.page.locator("#view-title").get_by_text(title, exact=True).wait_for()


def test_the_keyboard_alone_colors_filters_and_sorts(busy_lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(busy_lab.url).open("map")
    view.page.get_by_role("radio", name="job").focus()
    view.page.keyboard.press("ArrowRight")
    view.see("Colored by queue")
    view.open("jobs")
    tab_until(view, "")
    view.page.get_by_label("Filter").focus()
    view.page.keyboard.type("large")
    view.see("1 of 4 jobs")
    view.until(lambda: view.row("lab/", "Jobs").count() == 1)
    view.page.keyboard.press("Control+A")
    view.page.keyboard.press("Delete")
    view.see("4 jobs")
    view.page.get_by_role("button", name="chips").focus()
    view.page.keyboard.press("Enter")
    view.page.keyboard.press("Enter")
    table = view.page.get_by_role("table", name="Jobs")
    header = table.get_by_role("columnheader", name="chips")
    view.until(lambda: bool(header.get_attribute("aria-sort") == "descending"))
    view.until(lambda: "32" in table.get_by_role("row").nth(1).inner_text())


def test_the_pointer_finds_nodes_and_chips(busy_lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(busy_lab.url).open("map")
    view.settled()
    canvas = view.page.locator("canvas.map-overlay")
    box = canvas.bounding_box()
    view.page.get_by_label("Find").fill("node-4")
    view.page.get_by_role("list", name="Found").get_by_role("button", name="node-4").click()
    view.page.locator("#map-cursor").get_by_text("node-4: ready").wait_for()
    view.settled()
    canvas.click(position={"x": box["width"] / 2, "y": box["height"] / 2 - 60})
    view.page.locator("#map-cursor").get_by_text("node-4, chip").wait_for()
    canvas.hover(position={"x": box["width"] / 2, "y": box["height"] / 2 - 60})
    view.page.locator(".hover").get_by_text("node-4, chip").wait_for()
    view.page.mouse.wheel(0, 4000)
    view.page.get_by_role("button", name="Whole cluster").click()
    view.page.locator(".map-overlay:not(.zoomed)").wait_for()


def test_every_color_of_the_map_has_a_text(busy_lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(busy_lab.url)
    expected = {
        "job": ["free", "lab/first 32", "faulty 1", "node cordoned or isolated 1 node"],
        "queue": ["free", "queue default 34", "faulty 1"],
        "health": ["healthy 47", "faulty 1"],
        "free": ["free 6", "used 34", "unschedulable: the node accepts no new pods 7"],
        "fragmentation": [
            "free, on a node without used chips",
            "free, on a node that is partly in use 6",
            "used, on a node that is partly in use 2",
        ],
    }
    for mode, words in expected.items():
        view.open("map", settings=f"color={mode}")
        view.see(f"Colored by {mode}")
        view.settled()
        text = " ".join(view.page.get_by_role("region", name="Legend").inner_text().split())
        for one in words:
            assert one in text, (mode, one, text)


@pytest.mark.parametrize(("page", "label"), [("map", "Find"), ("jobs", "Filter"), ("nodes", "Filter")])
def test_a_slash_searches_in_the_view(
    busy_lab: DashboardLab, open_page: Opener, page: str, label: str
) -> None:
    view = open_page(busy_lab.url).open(page)
    view.page.keyboard.press("/")
    field = view.page.get_by_label(label, exact=True)
    view.until(lambda: bool(field.evaluate("one => one === document.activeElement")))
    # What is typed then is text, as is a further slash.
    view.page.keyboard.type("lab/?")
    assert field.input_value() == "lab/?"
    assert view.page.get_by_role("dialog").count() == 0


@pytest.mark.parametrize("page", [("queues",), ("nodes", "node-0"), ("over-time",)])
def test_a_slash_searches_the_jobs_where_a_view_has_no_search(
    busy_lab: DashboardLab, open_page: Opener, page: tuple[str, ...]
) -> None:
    view = open_page(busy_lab.url).open(*page)
    view.page.keyboard.press("/")
    field = view.page.get_by_label("Filter", exact=True)
    field.wait_for()
    view.until(lambda: bool(field.evaluate("one => one === document.activeElement")))
    view.page.keyboard.type("small")
    view.see("1 of 4 jobs")


def test_a_question_mark_shows_the_keys(busy_lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(busy_lab.url)
    keys = view.page.get_by_role("dialog", name="Keys")
    for path in VIEWS.values():
        view.open(*path)
        view.page.keyboard.press("?")
        keys.get_by_text("show this list").wait_for()
        view.page.keyboard.press("Escape")
        keys.wait_for(state="hidden")
    # In a text it is a letter, with a modifier a key of the browser.
    view.open("what-if")
    view.page.locator("textarea").press("?")
    view.page.locator("body").press("Control+/")
    assert view.page.locator("textarea").input_value() == "?"
    assert keys.count() == 0
    view.page.get_by_role("button", name="Keys").click()
    keys.get_by_role("button", name="Close").click()
    keys.wait_for(state="hidden")


def test_the_list_of_keys_has_every_key_of_the_map(busy_lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(busy_lab.url).open("map")
    view.page.keyboard.press("?")
    listed = view.page.get_by_role("dialog").inner_text()
    for key in ("arrows", "Enter", "Escape", "Backspace", "+ and -", "0", "Home", "o"):
        assert key in listed

"""Every page, as boxes: nothing overlaps, every heading can be reached, no text is cut off."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.checkout import PACKAGE
from tests.lab.rig import job, queue
from tests.web.browser.conftest import Opener
from tests.web.browser.layout import arrangement, layout_problems
from tests.web.browser.pages import (
    LAB_OPTIONS,
    LARGE_OPTIONS,
    PAGES,
    PICTURED,
    PICTURES,
    SIZES,
    STATES,
    fill,
    fill_large,
    picture,
    written_arrangements,
)
from tests.web.browser.rig import DashboardLab, dashboard_lab

pytestmark = pytest.mark.browser

#: All pictures together, in bytes.
MOST = 2_400_000


@pytest.fixture(scope="module")
def full_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DashboardLab]:
    with dashboard_lab(tmp_path_factory.mktemp("lab"), *LAB_OPTIONS) as lab:
        fill(lab)
        yield lab


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 420])
def test_nothing_overlaps_is_cut_off_or_out_of_reach(
    full_lab: DashboardLab, open_page: Opener, width: int, theme: str
) -> None:
    view = open_page(full_lab.url, width, theme)
    problems = {}
    for name, page in PAGES.items():
        if found := layout_problems(page.open(view)):
            problems[name] = found
    assert problems == {}


@pytest.mark.parametrize(("width", "theme"), SIZES.values())
def test_other_contents_fit_as_well(
    full_lab: DashboardLab, open_page: Opener, width: int, theme: str
) -> None:
    view = open_page(full_lab.url, width, theme)
    found = {name: layout_problems(page.open(view)) for name, page in STATES.items()}
    assert {name: problems for name, problems in found.items() if problems} == {}


def test_every_view_is_among_the_pages() -> None:
    text = (PACKAGE / "web/page/main.js").read_text(encoding="utf-8")
    views = {(view, bool(more)) for view, more in re.findall(r'view === "([a-z-]+)"( && first)?', text)}
    assert ("jobs", True) in views
    assert {(page.path[0], len(page.path) > 1) for page in PAGES.values()} == {*views, ("map", False)}


# -- other clusters


def _fill_mixed(lab: DashboardLab) -> None:
    lab.terminal.submit(queue("research", 3), job("train", 2, 8, queue="research"))
    lab.terminal.submit(job("infer", 1, 40).replace("Ascend910", "Ascend310P"))
    lab.terminal.ok("cordon node-7")
    lab.terminal.ok("drain node-8 --at 90m")
    lab.terminal.ok("fault inject chip node-5 7")


def _fill_superpods(lab: DashboardLab) -> None:
    def blocks(name: str, pods: int, minutes: int = 0) -> str:
        policy = "annotations: {huawei.com/schedule_policy: chip2-node16-sp, sp-block: '32'}"
        return job(name, pods, 16, minutes=minutes).replace(
            "namespace: lab}", f"namespace: lab, {policy}}}", 1
        )

    lab.terminal.submit(blocks("ended", 2, minutes=1), blocks("paused", 2), blocks("train", 4))
    lab.terminal.ok("advance 5s")
    assert {one["state"] for one in lab.terminal.json("get jobs")["jobs"]} == {"scheduled"}
    lab.terminal.ok("suspend paused --reason 'replace a disk'")
    lab.terminal.ok("advance 5m")
    lab.terminal.submit(blocks("train-with-a-long-name-that-does-not-end-soon", 6))


#: Options of a lab, what happens in it, and its pages beside those that every lab has.
LABS: dict[str, tuple[tuple[str, ...], Callable[[DashboardLab], None], list[tuple[str, ...]]]] = {
    "no nodes": (("--nodes", "0"), lambda lab: None, []),
    "two boards": (
        ("--board", "910-x8:6,310p:3"),
        _fill_mixed,
        [("jobs", "lab", "infer"), ("nodes", "node-6")],
    ),
    "5,000 nodes": (LARGE_OPTIONS, fill_large, [("jobs", "lab", "train-3"), ("nodes", "node-0")]),
    "SuperPoDs": (
        ("--nodes", "8", "--board", "a3-x16-superpod", "--superpod-size", "4"),
        _fill_superpods,
        [("jobs", "lab", name) for name in ("ended", "paused", "train")] + [("nodes", "node-0")],
    ),
}


@pytest.mark.parametrize("name", LABS)
def test_pages_of_other_clusters_fit_as_well(tmp_path: Path, open_page: Opener, name: str) -> None:
    options, fill_lab, more = LABS[name]
    paths = {page.path for page in PAGES.values() if len(page.path) == 1}
    with dashboard_lab(tmp_path, *options) as lab:
        fill_lab(lab)
        lab.terminal.ok("advance 5s")
        found = {}
        for width, theme in SIZES.values():
            view = open_page(lab.url, width, theme)
            for path in sorted({*paths, *more}):
                found[path, width] = layout_problems(view.open(*path).complete())
    assert {where: problems for where, problems in found.items() if problems} == {}


#: What the server answers, and how the page says so.
ANSWERS = {
    "token": (401, {"code": "token-invalid", "message": "the token has expired; ask for another one"}),
    "standby": (
        503,
        {"code": "not-leading", "message": "", "leader": "scheduler-1", "address": "https://npu:8443/"},
    ),
    "waiting": (500, {"code": "internal", "message": "an error that takes a whole sentence to tell"}),
}


@pytest.mark.parametrize("state", ANSWERS)
def test_a_page_without_a_server_fits(quiet_lab: DashboardLab, open_page: Opener, state: str) -> None:
    status, error = ANSWERS[state]
    for width, theme in SIZES.values():
        view = open_page(quiet_lab.url, width, theme)
        view.page.route(
            "**/api/v1/snapshot", lambda route: route.fulfill(status=status, json={"error": error})
        )
        view.page.goto(view.url)
        view.wait_state(state)
        view.page.locator(".banner").wait_for()
        assert layout_problems(view) == []


@pytest.mark.parametrize(("ending", "size"), SIZES.items())
def test_pages_are_arranged_as_in_their_pictures(
    full_lab: DashboardLab, open_page: Opener, ending: str, size: tuple[int, str]
) -> None:
    """After a change that is meant: make pictures, and look at them."""
    width, theme = size
    view = open_page(full_lab.url, width, theme)
    written = written_arrangements()
    for name, page in PAGES.items():
        assert arrangement(page.open(view)) == written.pop(f"{name}{ending}"), name
    assert [name for name in written if name.endswith("-narrow") == bool(ending)] == []


def test_every_page_has_its_pictures() -> None:
    names = [name for _, _, pages in PICTURED for name in pages]
    expected = {picture(name, ending): size[0] for name in names for ending, size in SIZES.items()}
    assert {path.name for path in PICTURES.glob("*.png")} == set(expected)
    for name, width in expected.items():
        # Width and height follow the signature and the head of the first chunk.
        assert struct.unpack(">I", (PICTURES / name).read_bytes()[16:20])[0] == width, name
    assert sum(path.stat().st_size for path in PICTURES.glob("*.png")) < MOST


#: Mistakes in the style sheet, and what is found then.
MISTAKES = {
    ".columns { display: flex; align-items: flex-end; height: 170px; }": [
        "overlap",
        'heading "Why pending" cannot be scrolled into view',
    ],
    ".panel { height: 5rem; overflow: hidden; }": ["cut off"],
    ".panel h2 { position: absolute; left: -99rem; }": ["cannot be scrolled into view"],
    "main { overflow: hidden; white-space: nowrap; }": ["cut off"],
    ".facts dd { margin-left: -6rem; }": ["is over"],
    ".facts { width: 200rem; }": ["wide on a screen of"],
}


@pytest.mark.parametrize(("rule", "words"), MISTAKES.items(), ids=range(len(MISTAKES)))
def test_mistakes_would_be_found(
    full_lab: DashboardLab, open_page: Opener, rule: str, words: list[str]
) -> None:
    view = PAGES["job-pending"].open(open_page(full_lab.url, bypass_csp=True))
    view.page.add_style_tag(content=rule)
    problems = layout_problems(view)
    for word in words:
        assert any(word in problem for problem in problems), (word, problems)

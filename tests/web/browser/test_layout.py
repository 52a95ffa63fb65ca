"""Every page, as boxes: nothing overlaps, every heading can be reached, no text is cut off."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from tests.web.browser.conftest import Opener
from tests.web.browser.layout import arrangement, layout_problems
from tests.web.browser.pages import (
    LAB_OPTIONS,
    PAGES,
    PICTURES,
    SIZES,
    fill,
    picture,
    written_arrangements,
)
from tests.web.browser.rig import DashboardLab, dashboard_lab

pytestmark = pytest.mark.browser

#: All pictures together, in bytes.
MOST = 2_000_000


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
    expected = {picture(name, ending): size[0] for name in PAGES for ending, size in SIZES.items()}
    assert {path.name for path in PICTURES.glob("*.png")} == set(expected)
    for name, width in expected.items():
        # Width and height follow the signature and the head of the first chunk.
        assert struct.unpack(">I", (PICTURES / name).read_bytes()[16:20])[0] == width, name
    assert sum(path.stat().st_size for path in PICTURES.glob("*.png")) < MOST


#: Mistakes in the style sheet, and what is found then.
MISTAKES = {
    ".columns { display: flex; align-items: flex-end; height: 170px; }": [
        "overlap",
        'heading "Why it waits pending" cannot be scrolled into view',
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

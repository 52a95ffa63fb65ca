"""Nodes with soft shares and vNPUs: what pods have of a chip is drawn, named and counted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.test_parts import share, text, vnpu
from tests.web.browser.conftest import Opener
from tests.web.browser.layout import layout_problems
from tests.web.browser.pages import SIZES
from tests.web.browser.rig import DashboardLab, dashboard_lab

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def shared_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DashboardLab]:
    """A node with whole chips, one with soft shares, one with dynamic vNPUs; two jobs share a chip."""
    options = ("--nodes", "1", "--soft", "1", "--dynamic", "1")
    with dashboard_lab(tmp_path_factory.mktemp("lab"), *options) as lab:
        lab.terminal.submit(text(share("serve", 30, 20_000, pods=3)), text(share("other", 50, 20_000)))
        lab.terminal.submit(text(vnpu("infer", 2, pods=2)), text(vnpu("large", 8)))
        lab.terminal.ok("advance 30s")
        yield lab


def test_a_node_shows_what_each_pod_has_of_its_chips(shared_lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(shared_lab.url).open("nodes", "node-1").complete()
    view.see("soft shares")
    chips = view.page.get_by_role("list", name="Chips of node-1")
    drawn = chips.get_by_role("img").all()
    assert [one.get_attribute("aria-label") for one in drawn] == [
        "80% used: vcjob/other-w-0 50%, vcjob/serve-w-0 30%",
        "61% used: vcjob/serve-w-1 30%, vcjob/serve-w-2 30%",
    ]
    # Memory counts if it is more: 20000 of 65536 MB are 31 percent.
    assert [one.evaluate("e => e.style.width") for one in drawn[0].locator("i").all()] == ["50%", "31%"]
    colors = {one.evaluate("e => e.style.background") for one in drawn[0].locator("i").all()}
    assert len(colors) == 2
    row = view.row("Ascend910-0", "Chips")
    for words in (
        "vcjob/other-w-0 (50%)",
        "vcjob/serve-w-0 (30%)",
        "80% 40000 of 65536 MB (elastic), 2 pods",
    ):
        assert words in row.inner_text()
    pods = view.row("vcjob/serve-w-2", "Pods").inner_text()
    assert pods.split()[-1] == "1"


def test_a_node_shows_vnpus_and_whole_chips(shared_lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(shared_lab.url).open("nodes", "node-2").complete()
    view.see("dynamic vNPUs")
    drawn = view.page.get_by_role("list", name="Chips of node-2").get_by_role("img").all()
    assert [one.get_attribute("aria-label") for one in drawn] == [
        "25% used: vcjob/infer-w-0 2 cores",
        "25% used: vcjob/infer-w-1 2 cores",
        "100% used: vcjob/large-w-0 8 cores",
    ]


def test_the_map_marks_such_nodes_and_fills_chips_as_far_as_they_are_used(
    shared_lab: DashboardLab, open_page: Opener
) -> None:
    view = open_page(shared_lab.url).open("map", settings="node=node-1").complete()
    view.see("node with soft shares or vNPUs")
    legend = view.page.locator(".legend li").filter(has_text="soft shares or vNPUs")
    assert "2 nodes" in legend.inner_text()
    cursor = view.page.locator("#map-cursor")
    cursor.get_by_text("node-1: ready; soft shares; 6 of 8 chips free").wait_for()
    view.page.locator(".map-overlay").focus()
    view.page.keyboard.press("Enter")
    cursor.get_by_text("held by vcjob/other and 1 other job, 80% used").wait_for()


def test_the_map_fills_a_chip_as_far_as_it_is_used(shared_lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(shared_lab.url).open("map", settings="color=free").complete()
    view.see("Colored by free")
    # Of 24 chips 80, 61, 25, 25 and 100 percent are used.
    assert view.page.evaluate(_USED) == pytest.approx(2.91 / 24, abs=0.02)


#: The part of the pixels of chips that has the color of used ones.
_USED = """() => {
  const canvas = document.querySelector("canvas.map-base");
  const style = getComputedStyle(canvas);
  const counts = {};
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  for (let at = 0; at < data.length; at += 4) {
    const key = [0, 1, 2].map((i) => data[at + i].toString(16).padStart(2, "0")).join("");
    counts[key] = (counts[key] || 0) + 1;
  }
  const of = (name) => counts[style.getPropertyValue(`--map-${name}`).trim().slice(1).toLowerCase()] || 0;
  return of("held") / (of("held") + of("free"));
}"""


def test_nodes_are_listed_with_tenths(shared_lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(shared_lab.url).open("nodes").complete()
    view.see("1-9 tenths used by shares or vNPUs")
    row = view.row("node-1", "Nodes")
    assert row.locator(".chip-signs").inner_text() == "[86......]"
    assert "vcjob/other (1)" in row.inner_text()
    assert "vcjob/serve (2)" in row.inner_text()


@pytest.mark.parametrize(("width", "theme"), SIZES.values())
def test_pages_of_such_nodes_fit(shared_lab: DashboardLab, open_page: Opener, width: int, theme: str) -> None:
    view = open_page(shared_lab.url, width, theme)
    paths = [("map",), ("nodes",), ("nodes", "node-1"), ("nodes", "node-2"), ("jobs", "vcjob", "serve")]
    found = {path: layout_problems(view.open(*path).complete()) for path in paths}
    assert {path: problems for path, problems in found.items() if problems} == {}

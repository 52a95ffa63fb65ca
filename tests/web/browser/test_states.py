"""What the page says of nodes and chips is what the scheduler counts, in header, map, legend and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.checkout import ROOT
from tests.lab.rig import job
from tests.web.browser.conftest import Opener
from tests.web.browser.rig import DashboardLab, View, dashboard_lab
from tests.web.browser.test_modules import call as call  # a fixture

pytestmark = pytest.mark.browser

STATES = ("in use", "free", "faulty", "isolated", "reserved", "unschedulable")
CANVAS = "document.querySelector('canvas.map-base').toDataURL()"


@pytest.fixture(scope="module")
def broken_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DashboardLab]:
    """Nodes that are cordoned, isolated, not ready, unhealthy, under a drain now and later; two bad chips."""
    folder = tmp_path_factory.mktemp("lab")
    with dashboard_lab(folder, "--nodes", "12", "--leaf-size", "4") as lab:
        lab.terminal.submit(job("train", 1, 4), job("wide", 1, 8))
        lab.terminal.ok("drain node-6 --at 1m")
        lab.terminal.ok("advance 2m")
        lab.terminal.ok("cordon node-8")
        lab.terminal.ok(f"isolate node-2 --lab {folder} --reason test")
        lab.terminal.ok("fault inject node node-3")
        lab.terminal.ok("fault inject switch node-4")
        lab.terminal.ok("drain node-5 --at 90m")
        lab.terminal.ok("fault inject chip node-7 7")
        lab.terminal.ok(f"isolate node-7 Ascend910-5 --lab {folder} --reason test")
        lab.terminal.ok("advance 1s")
        yield lab


def totals(view: View) -> dict[str, int]:
    found = view.page.locator(".totals div").all_inner_texts()
    pairs = (text.split("\n") for text in found)
    return {name.lower(): int(value.replace(",", "")) for name, value in pairs if not value.endswith("%")}


def legend(view: View) -> list[str]:
    items = view.page.get_by_role("region", name="Legend").get_by_role("listitem").all_inner_texts()
    return [" ".join(item.split()) for item in items]


def chips_of(entries: list[str]) -> int:
    """The sum of what the legend counts in chips."""
    found = [re.search(r" ([\d,]+)$", entry) for entry in entries]
    return sum(int(one[1].replace(",", "")) for one in found if one)


def test_the_sums_of_header_and_legend_close(broken_lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(broken_lab.url)
    for mode in ("job", "queue", "free", "fragmentation", "health"):
        view.open("map", settings=f"color={mode}").complete()
        view.see(f"Colored by {mode}")
        header, entries = totals(view), legend(view)
        assert sum(header.get(name, 0) for name in STATES) == header["chips"] == 96
        assert "of these in use" not in header
        assert chips_of(entries) == 96, (mode, entries)
        if mode in ("job", "queue", "free"):
            assert f"free {header['free']}" in entries
        if mode != "health":
            assert f"faulty {header['faulty']}" in entries
            assert f"isolated by an operator {header['isolated']}" in entries
            assert f"unschedulable: the node accepts no new pods {header['unschedulable']}" in entries


def test_faulty_and_isolated_chips_in_use_are_counted_everywhere(
    lab: DashboardLab, open_page: Opener
) -> None:
    lab.terminal.submit(job("wide", 1, 8), job("small", 1, 2))
    lab.terminal.ok("advance 5s")
    seats = {name.split("-")[0]: seat for name, seat in lab.terminal.seats().items()}
    wide, (small, (chip, _)) = seats["lab/wide"][0], seats["lab/small"]
    lab.terminal.ok(f"fault inject chip {wide} 3 --level PreSeparateNPU --code 80E01801")
    lab.terminal.ok(f"isolate {small} Ascend910-{chip} --lab {lab.folder} --reason test")
    lab.terminal.ok("fault inject chip node-3 7")
    lab.terminal.ok("advance 1s")
    view = open_page(lab.url).open("map").complete()
    for name, value in (("in use", 10), ("faulty", 2), ("isolated", 1), ("of these in use", 2)):
        view.see_total(name, str(value))
    # The map colors chips by the job that holds them: its sums close.
    assert chips_of(legend(view)) == 48
    assert "faulty, not in use 1" in legend(view)
    view.open("nodes", wide)
    view.see("0 of 8 chips free, 8 used, 1 faulty")
    view.open("nodes", small)
    view.see("6 of 8 chips free, 2 used, 1 isolated")
    view.open("nodes", settings=f"rows=switch&text={wide}")
    view.row("172.0.0", "leaf switches").get_by_text("1 faulty").wait_for()


def test_every_kind_of_closed_node_has_its_own_sign(broken_lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(broken_lab.url).open("map").complete()
    entries = legend(view)
    for label, nodes in (
        ("node not ready", "1 node"),
        ("node unhealthy", "1 node"),
        ("node draining", "1 node"),
        ("node cordoned or isolated", "2 nodes"),
        ("node drained at a time ahead", "1 node"),
    ):
        assert f"{label} {nodes}" in entries
    swatches = view.page.locator(".legend .swatch[class*=sign-]")
    looks = [one.evaluate("one => getComputedStyle(one).background") for one in swatches.all()]
    assert len(set(looks)) == len(looks) == 5
    for node, words in (
        ("node-3", "not ready"),
        ("node-4", "unhealthy"),
        ("node-5", "drained at 20"),
        ("node-6", "draining since 20"),
    ):
        view.open("nodes", settings=f"text={node}")
        view.row(node, "Nodes").get_by_text(words).first.wait_for()
        view.open("nodes", node)
        view.see(words)
    view.open("nodes", settings="text=node-7")
    view.until(lambda: "[....|.i.x]" in view.row("node-7", "Nodes").inner_text())
    view.open("nodes", settings="text=node-2")
    view.row("node-2", "Nodes").get_by_text("chips 0-7 isolated by an operator").wait_for()
    view.open("nodes", settings="text=node-8")
    view.until(lambda: "[----|----]" in view.row("node-8", "Nodes").inner_text())


def test_a_drain_ahead_is_on_the_map_and_begins_by_itself(lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(lab.url).open("map", settings="color=free").complete()
    before = view.page.evaluate(CANVAS)
    lab.terminal.ok("drain node-2 --at 10m")
    ahead = view.page.get_by_role("region", name="Legend").get_by_text("node drained at a time ahead")
    ahead.wait_for()
    view.until(lambda: view.page.evaluate(CANVAS) != before)
    marked = view.page.evaluate(CANVAS)
    # Its chips are free until then.
    assert totals(view)["free"] == 48
    lab.terminal.ok("advance 11m")
    view.page.get_by_role("region", name="Legend").get_by_text("node draining").wait_for()
    view.see_total("free", "40")
    view.see_total("unschedulable", "8")
    view.until(lambda: view.page.evaluate(CANVAS) not in (before, marked))


def test_a_reservation_is_on_the_map_from_when_it_is_made_to_its_end(
    lab: DashboardLab, open_page: Opener
) -> None:
    view = open_page(lab.url).open("map", settings="color=free").complete()
    before, free = view.page.evaluate(CANVAS), totals(view)["free"]
    lab.terminal.ok("reserve node-2 --for queue=default --from 10m --to 30m --yes")
    legend = view.page.get_by_role("region", name="Legend")
    legend.get_by_text("node reserved for a queue or a namespace").wait_for()
    view.until(lambda: view.page.evaluate(CANVAS) != before)
    assert totals(view)["free"] == free
    lab.terminal.ok("advance 11m")
    view.see_total("reserved", "8")
    view.see_total("free", str(free - 8))
    lab.terminal.ok("advance 20m")
    view.see_total("free", str(free))
    legend.get_by_text("node reserved for a queue or a namespace").wait_for(state="detached")


SIGNS = ("not-ready", "unhealthy", "invalid", "draining", "closed", "drain-ahead", "reserved")
#: When a drain begins, in nanoseconds since 1970.
DRAIN = 1_767_225_600_000_000_000


@pytest.mark.parametrize(("width", "height"), [(12, 9), (60, 40)])
def test_signs_differ_without_color(call: Any, width: int, height: int) -> None:
    body = """
      const [signs, width, height] = argument;
      return signs.map((sign) => {
        let text = "";
        for (let i = 0; i < width * height; i += 1) {
          text += module.inSign(sign, i % width, Math.floor(i / width), width, 7, 2) ? "#" : ".";
        }
        return text;
      });
    """
    drawn = call("colors.js", body, [SIGNS, width, height])
    assert all("#" in one and "." in one for one in drawn)
    for a, b in combinations(drawn, 2):
        # Much of the picture differs, not a pixel of it.
        assert sum(x != y for x, y in zip(a, b, strict=True)) > width * height / 20


@pytest.mark.parametrize(
    ("state", "is_open", "drain", "sign"),
    [
        ("ready", True, None, ""),
        ("sub-healthy", True, None, ""),
        ("awaiting report", True, None, ""),
        ("draining", True, DRAIN, "drain-ahead"),
        ("reserved", True, DRAIN, "reserved"),
        ("draining", False, DRAIN, "draining"),
        ("draining", False, None, "draining"),
        ("not ready", False, None, "not-ready"),
        ("unhealthy", False, None, "unhealthy"),
        ("invalid", True, None, "invalid"),
        ("unstable", True, None, "invalid"),
        ("isolated", False, None, "closed"),
        ("cordoned", False, None, "closed"),
        ("a state of a later version", False, None, "closed"),
    ],
)
def test_states_and_their_signs(call: Any, state: str, is_open: bool, drain: int | None, sign: str) -> None:
    row = {
        "state": state,
        "schedulable": is_open,
        "states": [{"state": state, "message": "", "start": drain}],
    }
    assert call("store.js", "return module.nodeSign(argument)", row) == sign


@pytest.mark.parametrize(
    ("states", "sign"),
    [
        (["awaiting report", "draining"], "drain-ahead"),
        (["draining", "reserved"], "drain-ahead"),
        (["reserved", "sub-healthy"], "reserved"),
        (["sub-healthy", "reserved"], "reserved"),
    ],
)
def test_a_node_with_several_states_that_close_nothing_has_one_sign(
    call: Any, states: list[str], sign: str
) -> None:
    listed = [
        {"state": state, "message": "", "start": DRAIN if state in ("draining", "reserved") else None}
        for state in states
    ]
    row = {"state": states[0], "schedulable": True, "states": listed}
    assert call("store.js", "return module.nodeSign(argument)", row) == sign


def test_a_cluster_without_device_reports(tmp_path: Path, open_page: Opener) -> None:
    """No chip is known to be healthy; what a new pod may have is free above and in the legend."""
    with dashboard_lab(tmp_path, "--nodes", "3") as lab:
        view = open_page(lab.url)
        view.page.route("**/api/v1/snapshot", _without_reports)
        view.open("map", settings="color=free").complete()
        assert totals(view)["free"] == 24
        assert legend(view)[0] == "free 24"
        view.open("nodes", "node-0")
        view.see("no device plugin of node-0 has reported")


def _without_reports(route: Any) -> None:
    document = route.fetch().json()
    for row in document["nodes"]:
        why = f"no device plugin of {row['name']} has reported its chips"
        states = [{"state": "awaiting report", "message": why, "start": None}]
        row |= {"health": "u" * 8, "state": "awaiting report", "states": states}
    route.fulfill(json=document)


def test_blocks_and_racks_of_superpods(tmp_path: Path, open_page: Opener) -> None:
    with dashboard_lab(tmp_path, "--nodes", "32", "--board", "950-x8-rack", "--superpod-size", "16") as lab:
        lab.terminal.ok(f"submit {ROOT}/examples/racks/job.yaml")
        lab.terminal.ok("advance 5s")
        view = open_page(lab.url).open("jobs", "default", "train")
        where = view.page.get_by_role("list", name="Where the job is")
        where.get_by_text("block 0").first.wait_for()
        titles = where.get_by_role("heading").all_inner_texts()
        assert all(re.match(r"SuperPoD \d+, block 0, rack \d+", title) for title in titles), titles
        view.until(lambda: where.get_by_role("link").count() == 8)
        view.open("map", settings="group=rack").complete()
        view.page.locator(".map-overlay").focus()
        for key, says in (("ArrowDown", "SuperPoD 0: 16 nodes"), ("Enter", "rack 0: 8 nodes")):
            view.page.keyboard.press(key)
            view.page.locator("#map-cursor").get_by_text(says).wait_for()
        view.open("nodes", settings="rows=rack")
        table = view.page.get_by_role("table", name="racks", exact=True)
        table.get_by_role("row").filter(has_text="0 / 0").wait_for()
        cells = [row.split("\t") for row in table.get_by_role("row").all_inner_texts()[1:]]
        assert sum(int(row[1]) for row in cells) == 32

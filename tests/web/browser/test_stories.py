"""Stories on a live lab: what an operator sees while jobs come and hardware breaks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ringwise.apps.lab.client import LabClient
from ringwise.apps.lab.requests import MoveRequest
from tests.builders.objects import usage_limit
from tests.lab.rig import job, queue
from tests.lab.test_moves import submitted
from tests.web.browser.conftest import Opener
from tests.web.browser.rig import DashboardLab, dashboard_lab

pytestmark = pytest.mark.browser


def test_a_job_arrives_waits_and_is_fixed(lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(lab.url).open("jobs")
    view.see("There are no jobs.")
    lab.terminal.submit(job("first", 5, 8, minutes=10))
    lab.terminal.ok("advance 5s")
    view.row("lab/first", "Jobs").get_by_text("5 of 5").wait_for()
    view.see_total("in use", "40")
    lab.terminal.submit(job("large", 2, 8))
    waiting = view.row("lab/large", "Jobs")
    waiting.get_by_text("too-few-free-chips").wait_for()
    view.see_total("jobs pending", "1")

    waiting.get_by_role("link", name="lab/large").click()
    view.see("wait for job lab/first to end")
    view.until(lambda: view.page.evaluate("document.activeElement.id") == "view-title")

    lab.terminal.ok("advance 11m")
    view.page.get_by_role("table", name="Pods").get_by_text("Running").first.wait_for()
    view.see("2 of 2 running")
    view.see_total("jobs pending", "0")
    where = view.page.get_by_role("list", name="Where the job is")
    where.get_by_text("leaf switch").first.wait_for()
    history = view.page.get_by_role("list", name="History").first
    history.get_by_text("pending", exact=True).wait_for()
    history.get_by_text("running", exact=True).wait_for()
    view.until(lambda: view.page.get_by_role("table", name="Pods").get_by_role("row").count() == 3)


def test_a_refused_job_says_what_would_be_allowed(lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(lab.url).open("jobs")
    lab.terminal.submit(job("odd", 1, 3))
    view.row("lab/odd", "Jobs").get_by_text("rejected").wait_for()
    view.open("jobs", "lab", "odd")
    view.see("request 4 instead of 3 chips")


def test_a_chip_breaks_and_comes_back(lab: DashboardLab, open_page: Opener) -> None:
    lab.terminal.submit(job("small", 1, 4))
    lab.terminal.ok("advance 5s")
    view = open_page(lab.url).open("nodes", "node-5")
    view.page.get_by_role("list", name="Chips of node-5").wait_for()
    lab.terminal.ok("fault inject chip node-5 7")
    view.page.get_by_role("list", name="Chips of node-5").get_by_text("faulty").wait_for()
    view.row("faulty", "Chips").first.wait_for()
    view.see_total("faulty", "1")
    view.open("map", settings="color=health")
    view.page.get_by_role("region", name="Legend").get_by_text("faulty").wait_for()
    view.open("nodes", settings="show=bad")
    view.row("node-5", "Nodes").get_by_text("chip 7 faulty").wait_for()
    view.until(lambda: "[....|...x]" in view.row("node-5", "Nodes").inner_text())
    lab.terminal.ok("fault clear chip node-5 7")
    view.see("No node fits the filter.")
    view.see_total("faulty", "0")


def test_a_node_goes_and_its_job_moves(lab: DashboardLab, open_page: Opener) -> None:
    lab.terminal.submit(job("pair", 2, 8))
    lab.terminal.ok("advance 5s")
    before = {node for node, _ in lab.terminal.seats().values()}
    lost = sorted(before)[0]
    view = open_page(lab.url).open("nodes", settings="rows=node")
    view.row(f"{lost} ", "Nodes").get_by_text("ready", exact=True).wait_for()
    lab.terminal.ok(f"fault inject node {lost}")
    lab.terminal.ok("advance 10s")
    view.row(f"{lost} ", "Nodes").get_by_text("not ready").or_(
        view.row(f"{lost} ", "Nodes").get_by_text("cordoned")
    ).first.wait_for()
    view.open("map")
    view.page.get_by_role("region", name="Legend").get_by_text("node not ready").wait_for()


def test_a_cluster_without_nodes_says_so(tmp_path: Path, open_page: Opener) -> None:
    with dashboard_lab(tmp_path, "--nodes", "0") as lab:
        view = open_page(lab.url).open("map")
        view.see("The cluster has no nodes.")
        view.open("nodes")
        view.see("The cluster has no nodes.")
        view.open("jobs")
        view.see("There are no jobs.")


def test_jobs_that_move_show_their_plan(tmp_path: Path, open_page: Opener) -> None:
    with dashboard_lab(tmp_path, "--nodes", "2") as lab:
        submitted(lab.terminal)
        view = open_page(lab.url).open("jobs", "lab", "big")
        view.see("move job lab/small to other nodes")
        answer = LabClient(tmp_path).ask("moves", job="lab/big")
        (plan,) = answer["objects"]
        LabClient(tmp_path).do("move", MoveRequest(plan))
        moves = view.page.get_by_role("list", name="Moves")
        moves.get_by_text("running", exact=True).wait_for()
        moves.get_by_text("0 of 1 pod gone").wait_for()
        moved = plan["spec"]["moves"][0]["pods"][0]
        moves.get_by_text(f"from {moved['from']['node']} to {moved['to']['node']}").wait_for()
        view.open("jobs")
        for name in ("lab/big", "lab/small"):
            view.row(name, "Jobs").get_by_text("moves", exact=True).wait_for()
        lab.terminal.ok("advance 30s")
        view.until(lambda: view.page.get_by_text("moves", exact=True).count() == 0)
        view.open("jobs", "lab", "small")
        view.page.get_by_role("list", name="Moves").get_by_text("done", exact=True).wait_for()
        view.see("a plan of moves put it there, so that lab/big could start")


def test_an_operator_cordons_a_node(lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(lab.url).open("nodes")
    lab.terminal.ok("cordon node-2")
    view.row("node-2", "Nodes").get_by_text("cordoned").first.wait_for()
    # The legend counts as free what the line above counts: chips on nodes that take pods.
    view.see_total("free", "40")
    view.open("map")
    legend = view.page.get_by_role("region", name="Legend")
    legend.get_by_role("listitem").filter(has_text="unschedulable: the node accepts no new pods").get_by_text(
        "8"
    ).wait_for()
    view.until(lambda: legend.get_by_role("listitem").first.inner_text().split() == ["free", "40"])
    view.open("nodes")
    lab.terminal.ok("uncordon node-2")
    view.row("node-2", "Nodes").get_by_text("ready", exact=True).wait_for()


def test_an_operator_finds_the_job_that_a_fault_hurts(lab: DashboardLab, open_page: Opener) -> None:
    lab.terminal.submit(job("whole", 1, 8), job("other", 1, 8))
    lab.terminal.ok("advance 5s")
    view = open_page(lab.url).open("jobs")
    view.row("lab/other", "Jobs").wait_for()
    (node,) = {node for name, (node, _) in lab.terminal.seats().items() if "whole" in name}
    lab.terminal.ok(f"fault inject chip {node} 3 --level PreSeparateNPU --code 80E01801")
    lab.terminal.ok("advance 1s")
    view.row("lab/whole", "Jobs").get_by_text("affected", exact=True).wait_for()
    view.page.get_by_label("State").select_option("affected")
    view.row("lab/whole", "Jobs").wait_for()
    view.row("lab/other", "Jobs").wait_for(state="detached")
    view.row("lab/whole", "Jobs").get_by_role("link").first.click()
    view.see(f"Ascend910-3 of {node}: PreSeparateNPU, code 80E01801")
    lab.terminal.ok("fault clear --all")
    lab.terminal.ok("advance 1s")
    view.page.get_by_text("Ascend910-3 of").first.wait_for(state="detached")


def test_a_start_is_a_time_only_where_it_is_known(lab: DashboardLab, open_page: Opener) -> None:
    lab.terminal.submit(*(job(f"runs-{n}", 1, 8, minutes=10) for n in range(6)))
    lab.terminal.ok("advance 5s")
    lab.terminal.submit(job("first", 6, 8))
    lab.terminal.ok("advance 5s")
    lab.terminal.submit(job("second", 6, 8))
    lab.terminal.ok("advance 5s")
    view = open_page(lab.url)
    for name, later in (("first", ""), ("second", " or later")):
        short = re.compile(rf"in 9m\d+s{later}")
        text = lab.terminal.json(f"why {name}")["expected_start"]["message"]
        assert text.startswith("not before") is (name == "second")
        view.open("jobs", "lab", name)
        view.page.locator("main").get_by_text(short).first.wait_for()
        view.see("not before 20" if name == "second" else "at 20")
        view.open("jobs")
        view.row(f"lab/{name}", "Jobs").get_by_text(short).wait_for()


def test_a_start_that_was_expected_is_not_shown_as_one_to_come(lab: DashboardLab, open_page: Opener) -> None:
    """Of a cluster where nothing happened since: the page knows how late it is, and says so."""
    lab.terminal.submit(job("runs", 6, 8, minutes=10))
    lab.terminal.ok("advance 5s")
    lab.terminal.submit(job("waits", 6, 8))
    lab.terminal.ok("advance 5s")
    view = open_page(lab.url).open("jobs")
    cell = view.row("lab/waits", "Jobs")
    cell.get_by_text(re.compile(r"in 9m\d+s")).wait_for()
    late = """async () => {
      const { store } = await import("/page/context.js");
      const time = new Date(Date.parse(store.time) + 3600_000).toISOString();
      store.apply({ sequence: store.sequence, time });
    }"""
    view.page.evaluate(late)
    cell.get_by_text("overdue by 50m").wait_for()


def test_queues_show_what_they_use_and_who_waits(lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(lab.url).open("queues")
    lab.terminal.submit(
        queue("small", chips=8), job("fits", 1, 8, queue="small"), job("more", 1, 8, queue="small")
    )
    lab.terminal.ok("advance 5s")
    row = view.row("small", "Queues")
    row.get_by_role("link", name="1 jobs of small are pending").wait_for()
    row.get_by_role("img", name="uses 8 chips").wait_for()
    row.get_by_role("link", name="1 jobs of small are pending").click()
    view.row("lab/more", "Jobs").wait_for()
    view.until(lambda: view.row("lab/fits", "Jobs").count() == 0)


def test_queues_show_their_limit_of_chips(lab: DashboardLab, open_page: Opener) -> None:
    hard = {"requests.huawei.com/Ascend910": 16}
    limit = json.dumps(usage_limit("small", {"queue": "small"}, hard=hard)) + "\n"
    lab.terminal.submit(queue("small"), limit, queue("capped", chips=8), queue("third"))
    view = open_page(lab.url).open("queues")
    for name, limit in (("small", "16"), ("capped", "8"), ("third", "no limit")):
        view.row(name, "Queues").locator("[data-title='limit']").get_by_text(limit, exact=True).wait_for()


def test_plots_show_what_the_process_remembers(lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(lab.url)
    view.page.route(
        "**/api/v1/series",
        lambda route: route.fulfill(
            json={
                "interval_seconds": 10,
                "times": [1_800_000_000 + 10 * i for i in range(60)],
                "resources": {
                    "huawei.com/Ascend910": {
                        "used": list(range(60)),
                        "free": [48 - i % 48 for i in range(60)],
                        "fragmentation": [i / 100 for i in range(60)],
                    }
                },
                "pending": [i % 5 for i in range(60)],
                "decisions": [i % 3 / 25 for i in range(60)],
            }
        ),
    )
    view.open("over-time")
    view.page.get_by_role("img", name="in use 59 now, 0 at least, 59 at most").wait_for()
    view.until(lambda: view.page.locator(".plot-frame canvas").count() == 4)
    view.page.get_by_text("The same as a table").click()
    # Few decisions are told from none.
    view.row("2027-01-15 08:09:50", "Values over time").get_by_text("0.08", exact=True).wait_for()


def test_what_the_real_server_remembers_is_shown(lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(lab.url).open("over-time")
    view.page.locator("main p").first.wait_for()
    assert "cannot be shown" not in view.text()

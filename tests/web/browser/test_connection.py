"""The page finds its way back: after a cut network, a restarted scheduler, a new leader, and with a token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.rig import job
from tests.web.browser.conftest import Opener
from tests.web.browser.rig import DashboardLab, Network, View, dashboard_lab

pytestmark = pytest.mark.browser


def snapshots(view: View) -> list[str]:
    """Fetched snapshots, to be counted."""
    found: list[str] = []
    view.page.on("request", lambda one: found.append(one.url) if "/api/v1/snapshot" in one.url else None)
    return found


def test_a_cut_network_is_told_and_the_page_catches_up(lab: DashboardLab, open_page: Opener) -> None:
    network = Network(lab.port)
    try:
        view = open_page(network.url)
        fetched = snapshots(view)
        view.open("jobs")
        lab.terminal.submit(job("before", 1, 8))
        view.row("lab/before", "Jobs").wait_for()
        network.cut()
        view.wait_state("waiting")
        view.see("What is shown is the last known state.", "body")
        lab.terminal.submit(job("meanwhile", 1, 8))
        lab.terminal.ok("delete job before -n lab")
        lab.terminal.ok("advance 5m")
        view.until(lambda: view.row("lab/before", "Jobs").count() == 1)
        view.page.get_by_role("button", name="Try now").click()
        network.mend()
        view.row("lab/meanwhile", "Jobs").wait_for()
        view.row("lab/before", "Jobs").wait_for(state="detached")
        view.wait_state("live")
        # It asked for what it missed, not for everything.
        assert len(fetched) == 1
    finally:
        network.cut()


def test_it_tries_again_by_itself(lab: DashboardLab, open_page: Opener) -> None:
    network = Network(lab.port)
    try:
        view = open_page(network.url).open("jobs")
        network.cut()
        view.wait_state("waiting")
        network.mend()
        view.wait_state("live")
    finally:
        network.cut()


@pytest.mark.parametrize("lost", [False, True], ids=["resumed", "lost"])
def test_a_minute_of_silence_is_told_and_caught_up(lab: DashboardLab, open_page: Opener, lost: bool) -> None:
    """The network loses everything and closes nothing. Old connections go on afterwards, or never."""
    network = Network(lab.port)
    try:
        view = open_page(network.url)
        view.page.clock.install()
        fetched = snapshots(view)
        view.open("jobs")
        lab.terminal.submit(job("before", 1, 8))
        view.row("lab/before", "Jobs").wait_for()
        network.hold()
        lab.terminal.submit(job("meanwhile", 1, 8))
        view.page.clock.fast_forward(20_000)
        view.wait_state("live")
        view.page.clock.fast_forward(21_000)
        view.wait_state("waiting")
        view.see("the server is silent", ".banner")
        # Further attempts are not answered, either.
        view.page.clock.run_for(20_000)
        assert view.row("lab/meanwhile", "Jobs").count() == 0
        network.release(lost=lost)
        while not view.page.locator(".connection-live").count():
            view.page.clock.run_for(1_000)
        view.row("lab/meanwhile", "Jobs").wait_for()
        assert len(fetched) == 1
    finally:
        network.cut()


def test_another_network_is_used_at_once(lab: DashboardLab, open_page: Opener) -> None:
    """Where the machine has a network again, a stream over the old one may be silent for ever."""
    view = open_page(lab.url).open("jobs")
    with view.page.expect_request("**/api/v1/stream?**"):
        view.page.evaluate("window.dispatchEvent(new Event('online'))")
    view.wait_state("live")
    lab.terminal.submit(job("meanwhile", 1, 8))
    view.row("lab/meanwhile", "Jobs").wait_for()


def test_a_snapshot_that_never_comes_is_asked_for_again(lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(lab.url)
    view.page.clock.install()
    asked: list[Any] = []

    def answer(route: Any) -> None:
        asked.append(route)
        if len(asked) > 1:
            route.continue_()

    view.page.route("**/api/v1/snapshot", answer)
    view.page.goto(view.url)
    view.wait_state("connecting")
    while not asked:
        view.settled()
    view.page.clock.fast_forward(41_000)
    view.wait_state("waiting")
    view.page.clock.fast_forward(1_000)
    view.wait_state("live")
    assert len(asked) == 2


def test_a_document_that_could_not_be_read_is_read_when_the_server_is_back(
    lab: DashboardLab, open_page: Opener
) -> None:
    lab.terminal.submit(job("train", 1, 8))
    lab.terminal.ok("advance 5s")
    network = Network(lab.port)
    try:
        view = open_page(network.url).open("jobs")
        network.cut()
        view.wait_state("waiting")
        view.page.get_by_role("link", name="lab/train").click()
        view.see("The job cannot be shown: the server does not answer")
        network.mend()
        view.wait_state("live")
        view.row("node-", "Pods").wait_for()
        # Reason and history are read by themselves, a moment later or earlier.
        for problem in view.page.get_by_text("cannot be shown").all():
            problem.wait_for(state="detached")
        assert view.page.get_by_text("cannot be shown").count() == 0
    finally:
        network.cut()


def test_a_restarted_scheduler_is_followed(tmp_path: Path, open_page: Opener) -> None:
    with dashboard_lab(tmp_path, "--nodes", "4") as first:
        first.terminal.submit(job("kept", 1, 8))
        port = first.port
        view = open_page(first.url)
        fetched = snapshots(view)
        view.open("jobs")
        view.row("lab/kept", "Jobs").wait_for()
        view.page.evaluate("window.sameDocument = true")
    view.wait_state("waiting")
    with dashboard_lab(tmp_path, port=port) as second:
        view.wait_state("live")
        second.terminal.submit(job("later", 1, 8))
        view.row("lab/later", "Jobs").wait_for()
        view.until(lambda: view.row("lab/kept", "Jobs").count() == 1)
        assert len(fetched) == 2
        assert view.page.evaluate("window.sameDocument")


@pytest.mark.parametrize(("status", "code"), [(401, "token-invalid"), (403, "forbidden")])
def test_a_token_is_asked_for_and_sent(lab: DashboardLab, open_page: Opener, status: int, code: str) -> None:
    """Also where the one that was given has not the permissions: another one may have them."""
    view = open_page(lab.url)
    sent: list[str | None] = []

    def answer(route: Any) -> None:
        sent.append(route.request.headers.get("authorization"))
        if sent[-1] == "Bearer right":
            route.continue_()
        else:
            missing = sent[-1] is None
            error = {"code": "token-missing" if missing else code, "message": "no token that may read"}
            route.fulfill(status=401 if missing else status, json={"error": error})

    view.page.route("**/api/v1/**", answer)
    view.page.goto(view.url)
    field = view.page.get_by_label("Token")
    field.fill("wrong")
    with view.page.expect_response(lambda response: response.status == status):
        view.page.get_by_role("button", name="Use it").click()
    view.see("no token that may read", ".banner")
    field.fill("right")
    view.page.keyboard.press("Enter")
    view.wait_state("live")
    assert sent[:2] == [None, "Bearer wrong"]
    assert view.page.evaluate("localStorage.getItem('ringwise-token')") is None
    view.until(lambda: view.page.get_by_label("Token").count() == 0)


def test_a_standby_says_who_leads(lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(lab.url)
    leader = {"leader": "scheduler-1 <b>", "address": "https://other.example/"}
    view.page.route(
        "**/api/v1/snapshot",
        lambda route: route.fulfill(
            status=503, json={"error": {"code": "not-leading", "message": "standby", **leader}}
        ),
    )
    view.page.goto(view.url)
    view.wait_state("standby")
    view.see("scheduler-1 <b>", ".banner")
    assert view.page.get_by_role("link", name="Open its page").get_attribute("href") == leader["address"]


def test_a_document_that_a_standby_refuses_is_asked_for_again(lab: DashboardLab, open_page: Opener) -> None:
    """Behind a Service another connection may reach the leader, from which the stream comes all the time."""
    view = open_page(lab.url).open("jobs")
    view.wait_state("live")
    refused: list[str] = []

    def answer(route: Any) -> None:
        if len(refused) < 2:
            refused.append(route.request.url)
            route.fulfill(status=503, json={"error": {"code": "not-leading", "message": "standby"}})
        else:
            route.continue_()

    view.page.route("**/api/v1/series", answer)
    asked = """async () => {
      const { connection } = await import("/page/main.js");
      const series = await connection.document("series");
      return [series.schema, connection.status.state];
    }"""
    assert view.page.evaluate(asked) == ["ringwise.io/series/v1", "live"]
    assert len(refused) == 2


def test_the_address_of_a_leader_is_a_link_only_if_it_is_one(lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(lab.url)
    event = f"event: leader\ndata: {json.dumps({'leader': 'x', 'address': 'javascript:alert(1)'})}\n\n"
    view.page.route(
        "**/api/v1/stream**", lambda route: route.fulfill(content_type="text/event-stream", body=event)
    )
    view.page.goto(view.url)
    view.wait_state("standby")
    assert view.page.get_by_role("link", name="Open its page").count() == 0

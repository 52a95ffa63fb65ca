"""What-if: where a manifest would go, changing nothing."""

from __future__ import annotations

import pytest

from tests.lab.rig import job
from tests.web.browser.conftest import Opener
from tests.web.browser.rig import DashboardLab

pytestmark = pytest.mark.browser


def test_a_manifest_is_placed_and_shown_on_the_map_and_nothing_changes(
    lab: DashboardLab, open_page: Opener
) -> None:
    view = open_page(lab.url).open("what-if")
    view.page.get_by_label("Manifest").fill(job("asked", 2, 8))
    view.page.get_by_role("button", name="Where would it go?").click()
    view.see("1 job: 1 scheduled.")
    pods = view.page.get_by_role("table", name="Pods of asked")
    view.until(lambda: pods.get_by_role("row").count() == 3)
    view.until(lambda: "0-7" in pods.inner_text())
    assert lab.terminal.json("get jobs")["jobs"] == []
    view.page.get_by_role("link", name="Show on the map").click()
    view.see("Highlighted: the chips that the what-if would take.")
    view.page.get_by_role("link", name="What-if").click()
    view.see("1 job: 1 scheduled.")


def test_a_job_that_would_wait_says_what_would_start_it(lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(lab.url).open("what-if")
    view.page.get_by_label("Manifest").fill(job("large", 7, 8))
    view.page.keyboard.press("Control+Enter")
    view.see("1 job: 1 pending.")
    assert view.page.get_by_role("region", name="lab/large").locator("code").first.inner_text()


def test_a_bad_manifest_is_answered_with_the_error(lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(lab.url).open("what-if")
    view.page.get_by_role("button", name="Where would it go?").click()
    view.see("There is no manifest")
    view.page.get_by_label("Manifest").fill("kind: [unfinished")
    view.page.get_by_role("button", name="Where would it go?").click()
    view.page.locator("pre.problem").get_by_text("manifest").wait_for()


def test_a_file_can_be_dropped_or_opened(lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(lab.url).open("what-if")
    transfer = view.page.evaluate_handle(
        """(text) => {
          const transfer = new DataTransfer();
          transfer.items.add(new File([text], "job.yaml"));
          return transfer;
        }""",
        job("dropped", 1, 4),
    )
    view.page.dispatch_event("form.what-if", "drop", {"dataTransfer": transfer})
    view.page.get_by_role("table", name="Pods of dropped").wait_for()
    view.page.get_by_label("Open a file").set_input_files(
        {"name": "job.yaml", "mimeType": "text/plain", "buffer": job("opened", 1, 4).encode()}
    )
    view.page.get_by_role("table", name="Pods of opened").wait_for()

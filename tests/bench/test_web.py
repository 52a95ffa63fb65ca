"""The benchmark of the dashboard measures what it says, and says what it does not measure."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ringwise_bench.page import BROWSER_VARIABLE, PageFigures
from ringwise_bench.report import Figure
from ringwise_bench.web import measure, page_rows


def rows() -> dict[str, Figure]:
    measured = asyncio.run(measure(1, nodes=40, jobs=20, window=0.5, changes=80, page_seconds=0.1))
    found = {row.name: row for row in measured}
    assert len(found) == len(measured)
    return found


@pytest.mark.full
def test_documents_and_events_are_measured_and_a_missing_browser_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(BROWSER_VARIABLE, str(tmp_path / "none"))
    found = rows()
    title = "40 nodes, 320 chips, 20 jobs: first document"
    assert found[f"{title}, gzip"].holds
    assert 0 < found[f"{title}, gzip"].value < found[f"{title}, plain"].value
    assert found["80 changes a second: events that each client got"].value > 0
    assert found["80 changes a second: processor time without clients"].value > 0
    (page,) = [row for name, row in found.items() if name.startswith("pages measured")]
    assert (page.value, page.holds) == (0, None)
    assert f"no Chromium is found, {BROWSER_VARIABLE} can name one" in page.name


@pytest.mark.full
def test_a_browser_that_does_not_work_spoils_no_other_figure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\necho cannot start >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv(BROWSER_VARIABLE, str(broken))
    found = rows()
    assert "pages measured in a browser: the browser ended at once" in found
    assert len(found) == 8


def test_the_figures_of_a_page_have_their_units() -> None:
    made = page_rows(PageFigures(42.0, 483.0, 9.6, 40, 850.0, 4.0), 10.0, 1_000, quiet=True)
    assert [(row.name.rpartition(": ")[2], row.value, row.unit, row.goal) for row in made] == [
        ("map drawn after the document", 0.85, "s", "<= 2"),
        ("frames a second while it zooms", 42.0, "1/s", ">= 50"),
        ("work of its thread for a frame", 4.0, "ms", "<= 20"),
        ("longest frame", 483.0, "ms", None),
        ("memory of the page", 9.6, "MB", None),
        ("events it applied", 4.0, "1/s", None),
    ]

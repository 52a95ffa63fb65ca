"""Pictures of the dashboard for the README and the docs, made from a lab: `make pictures`.

python -m tests.web.browser.pictures docs/pictures
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from ringwise_bench.page import find_browser
from tests.lab.rig import job, queue
from tests.web.browser.rig import DashboardLab, View, dashboard_lab

#: File -> theme, width, path, settings.
PICTURES: dict[str, tuple[str, int, tuple[str, ...], str]] = {
    "map": ("light", 1280, ("map",), ""),
    "map-dark": ("dark", 1280, ("map",), "colour=fragmentation"),
    "job": ("light", 1280, ("jobs", "lab", "llama-70b"), ""),
}
_NODES = 96


def fill(lab: DashboardLab) -> None:
    """Jobs of several sizes and queues, one that waits, and some faults."""
    jobs = [queue("research", 2), queue("production", 3)]
    for number, (name, pods) in enumerate(
        [("llama-65b", 24), ("vision", 12), ("speech", 8), ("ranking", 6), ("search", 5), ("ocr", 4)]
    ):
        jobs.append(job(name, pods, 8, queue=("research", "production")[number % 2], minutes=90))
    jobs += [job(f"notebook-{i}", 1, (1, 2, 4)[i % 3]) for i in range(22)]
    jobs += [job(f"eval-{i}", 1, 4, queue="research") for i in range(6)]
    lab.terminal.submit(*jobs)
    lab.terminal.ok("advance 20m")
    for chip in ("node-40 3", "node-71 0", "node-90 5"):
        lab.terminal.ok(f"fault inject chip {chip}")
    lab.terminal.ok("cordon node-88")
    lab.terminal.submit(job("llama-70b", 40, 8, queue="production"))
    lab.terminal.ok("advance 5m")


def main(folder: str) -> None:
    browser = find_browser()
    if browser is None:
        sys.exit("no Chromium is found")
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as data,
        dashboard_lab(Path(data) / "lab", "--nodes", str(_NODES), "--leaf-size", "16") as lab,
        sync_playwright() as driver,
    ):
        fill(lab)
        chromium = driver.chromium.launch(executable_path=str(browser))
        for name, (theme, width, path, settings) in PICTURES.items():
            take(chromium, lab, theme, width, path, settings).screenshot(path=target / f"{name}.png")
            print(target / f"{name}.png")
        chromium.close()


def take(
    chromium: Any, lab: DashboardLab, theme: str, width: int, path: tuple[str, ...], settings: str
) -> Any:
    size = {"width": width, "height": 800}
    context = chromium.new_context(viewport=size, color_scheme=theme, reduced_motion="reduce")
    view = View(context.new_page(), lab.url).open(*path, settings=settings)
    view.complete()
    # The folder of the lab is another one each time.
    view.page.evaluate("document.querySelector('.source bdi').textContent = 'my lab'")
    return view.page


if __name__ == "__main__":
    main(*sys.argv[1:])

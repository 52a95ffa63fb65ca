"""Reference pictures of every page of the dashboard, made from a lab: `make pictures`.

Arguments are names of pages, if not all pictures are to be made. A person looks at them; the docs show some
of them. How the panels of each page are arranged is written beside them, and compared with the page by tests.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from ringwise_bench.page import find_browser
from tests.web.browser.layout import arrangement
from tests.web.browser.pages import (
    ARRANGEMENTS,
    PAGES,
    PICTURED,
    PICTURES,
    SIZES,
    Page,
    picture,
    written_arrangements,
)
from tests.web.browser.rig import DashboardLab, View, dashboard_lab
from tests.web.browser.small_png import small_png

#: Of a long page the beginning; what is behind a dialog is not of interest.
_HEIGHT = "document.querySelector('dialog[open]') ? innerHeight : Math.min(1600, document.body.scrollHeight)"

_NAME = "for (const name of document.querySelectorAll('.source bdi, footer bdi')) name.textContent = 'my lab'"


def main() -> None:
    browser = find_browser()
    if browser is None:
        sys.exit("no Chromium is found")
    PICTURES.mkdir(parents=True, exist_ok=True)
    asked = set(sys.argv[1:]) or {name for _, _, pages in PICTURED for name in pages}
    expected = {picture(name, ending) for _, _, pages in PICTURED for name in pages for ending in SIZES}
    for old in PICTURES.glob("*.png"):
        if old.name not in expected:
            old.unlink()
    arrangements = written_arrangements()
    for options, fill, pages in PICTURED:
        chosen = {name: page for name, page in pages.items() if name in asked}
        if not chosen:
            continue
        with (
            tempfile.TemporaryDirectory() as data,
            dashboard_lab(Path(data) / "lab", *options) as lab,
            sync_playwright() as driver,
        ):
            fill(lab)
            chromium = driver.chromium.launch(executable_path=str(browser))
            for ending, (width, theme) in SIZES.items():
                for name, page in chosen.items():
                    arranged = _take(chromium, lab, page, width, theme, PICTURES / picture(name, ending))
                    if pages is PAGES:
                        arrangements[f"{name}{ending}"] = arranged
            chromium.close()
    made = {f"{name}{ending}": arrangements[f"{name}{ending}"] for ending in SIZES for name in PAGES}
    ARRANGEMENTS.write_text(f"{json.dumps(made, indent=1)}\n")


def _take(
    chromium: Any, lab: DashboardLab, page: Page, width: int, theme: str, target: Path
) -> list[list[str]]:
    context = chromium.new_context(
        viewport={"width": width, "height": 800}, color_scheme=theme, reduced_motion="reduce"
    )
    view = page.open(View(context.new_page(), lab.url))
    # The folder of the lab is another one each time.
    view.page.evaluate(_NAME)
    arranged = arrangement(view)
    clip = {"x": 0, "y": 0, "width": width, "height": view.page.evaluate(_HEIGHT)}
    target.write_bytes(small_png(context.new_page(), view.page.screenshot(full_page=True, clip=clip)))
    context.close()
    print(target.name)
    return arranged


if __name__ == "__main__":
    main()

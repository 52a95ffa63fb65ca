"""Reference pictures of every page of the dashboard, made from a lab: `make pictures`.

Arguments are names of pages, if not all pictures are to be made. A person looks at them; the docs show some
of them. How the panels of each page are arranged is written beside them, and compared with the page by tests.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from ringwise_bench.page import find_browser
from tests.web.browser.layout import arrangement
from tests.web.browser.pages import (
    ARRANGEMENTS,
    LAB_OPTIONS,
    PAGES,
    PICTURES,
    SIZES,
    fill,
    picture,
    written_arrangements,
)
from tests.web.browser.rig import View, dashboard_lab
from tests.web.browser.small_png import small_png

#: Of a long page the beginning; what is behind a dialog is not of interest.
_HEIGHT = "document.querySelector('dialog[open]') ? innerHeight : Math.min(1600, document.body.scrollHeight)"


def main() -> None:
    browser = find_browser()
    if browser is None:
        sys.exit("no Chromium is found")
    chosen = {name: page for name, page in PAGES.items() if name in (sys.argv[1:] or PAGES)}
    expected = [f"{name}{ending}" for ending in SIZES for name in PAGES]
    for old in PICTURES.glob("*.png"):
        if old.stem not in expected:
            old.unlink()
    arrangements = written_arrangements()
    with (
        tempfile.TemporaryDirectory() as data,
        dashboard_lab(Path(data) / "lab", *LAB_OPTIONS) as lab,
        sync_playwright() as driver,
    ):
        fill(lab)
        chromium = driver.chromium.launch(executable_path=str(browser))
        desk = chromium.new_page()
        for ending, (width, theme) in SIZES.items():
            for name, page in chosen.items():
                context = chromium.new_context(
                    viewport={"width": width, "height": 800}, color_scheme=theme, reduced_motion="reduce"
                )
                view = page.open(View(context.new_page(), lab.url))
                # The folder of the lab is another one each time.
                view.page.evaluate("document.querySelector('.source bdi').textContent = 'my lab'")
                arrangements[f"{name}{ending}"] = arrangement(view)
                height = view.page.evaluate(_HEIGHT)
                target = PICTURES / picture(name, ending)
                clip = {"x": 0, "y": 0, "width": width, "height": height}
                target.write_bytes(small_png(desk, view.page.screenshot(full_page=True, clip=clip)))
                context.close()
                print(target.name)
        chromium.close()
    made = {name: arrangements[name] for name in expected}
    ARRANGEMENTS.write_text(f"{json.dumps(made, indent=1)}\n")


if __name__ == "__main__":
    main()

"""A browser for the histories, or a clear word why they are skipped."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ringwise_bench.page import BROWSER_VARIABLE, find_browser
from tests.web.browser.rig import DashboardLab, View, dashboard_lab

Opener = Callable[..., View]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    found = find_browser()
    if found is None:
        pytest.skip(f"no Chromium is found; Debian has it as chromium, {BROWSER_VARIABLE} names another one")
    drivers = pytest.importorskip(
        "playwright.sync_api",
        reason="no driver is installed: make test-browser installs it",
    )
    with drivers.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=str(found), chromium_sandbox=hasattr(os, "geteuid") and os.geteuid() != 0
        )
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Opener]:
    """Opens tabs; at the end of the test nothing may have gone wrong in them."""
    contexts: list[Any] = []
    views: list[View] = []

    def open_one(url: str, width: int = 1280, theme: str = "light", height: int = 800, **more: Any) -> View:
        context = chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce", **more
        )
        contexts.append(context)
        views.append(View(context.new_page(), url))
        return views[-1]

    yield open_one
    for context in contexts:
        context.close()
    assert [problem for view in views for problem in view.problems] == []


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[DashboardLab]:
    """Six nodes of eight chips under two leaf switches."""
    with dashboard_lab(tmp_path, "--nodes", "6", "--leaf-size", "3") as running:
        yield running


@pytest.fixture(scope="module")
def quiet_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DashboardLab]:
    """A lab that no test changes."""
    with dashboard_lab(tmp_path_factory.mktemp("lab"), "--nodes", "2") as running:
        yield running

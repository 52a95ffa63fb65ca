"""What is wrong with the boxes of a page, and how its panels are arranged: measured in the browser."""

from __future__ import annotations

from pathlib import Path

from tests.web.browser.rig import View

_SCRIPT = Path(__file__).with_suffix(".js").read_text()


def layout_problems(view: View) -> list[str]:
    """Panels that overlap, headings that cannot be reached, text that is cut off or covered."""
    found: list[str] = view.page.evaluate(f"() => {{ {_SCRIPT} return problems(); }}")
    return found


def arrangement(view: View) -> list[list[str]]:
    """The panels of the page from top to bottom; those of one line are side by side."""
    found: list[list[str]] = view.page.evaluate(f"() => {{ {_SCRIPT} return arrangement(); }}")
    return found

"""`make setup` shows that it works, and how long it took."""

from __future__ import annotations

import io
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "set_up.py"))
SAID = """Collecting aiohttp==3.9 (from -r requirements-dev.txt (line 1))
  Downloading aiohttp-3.9.whl.metadata (7.7 kB)
Collecting click==8.2
Installing collected packages: click, aiohttp
Successfully installed aiohttp-3.9 click-8.2
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(out: io.StringIO, text: str = SAID, code: int = 0) -> str:
    progress: Any = TOOL["Progress"](2, out)
    program = f"import sys; sys.stdout.write({text!r}); sys.exit({code})"
    TOOL["install"]([sys.executable, "-c", program], progress)
    return out.getvalue()


def test_the_packages_of_the_pinned_requirements_are_counted() -> None:
    text = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
    assert TOOL["packages_of"](ROOT / "requirements-dev.txt") == len(re.findall("^\\S+==", text, re.M)) > 20


def test_progress_is_shown_while_pip_works() -> None:
    assert re.fullmatch(r"(   .* s\n)*   installing 2 packages, \d+ s\n", shown(io.StringIO()))
    assert re.search(r"\r\x1b\[K   installing 2 packages, \d+ s.*\r\x1b\[K$", shown(Terminal()), re.DOTALL)


def test_a_failure_shows_what_pip_said() -> None:
    with pytest.raises(SystemExit) as ended:
        shown(io.StringIO(), "ERROR: No matching distribution found for click==99\n", 1)
    assert str(ended.value) == (
        "ERROR: No matching distribution found for click==99\n\n"
        "== pip failed with exit code 1; after it is mended: make setup"
    )


def test_the_readme_says_how_many_packages_are_installed() -> None:
    """How long that takes is said where it is seen; in the README it was a figure without a source."""
    said = (ROOT / "tools" / "set_up.py").read_text(encoding="utf-8")
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert "up to three minutes" in said
    run = sum(TOOL["packages_of"](ROOT / name) for name in ("requirements.txt", "requirements-build.txt"))
    developed = TOOL["packages_of"](ROOT / "requirements-dev.txt")
    assert f"installs Python packages ({run} for the demo, {developed} for the tests)" in readme

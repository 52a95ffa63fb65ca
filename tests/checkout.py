"""The files of the project, for tests that read them."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "ringwise"
SOURCES = sorted(PACKAGE.rglob("*.py"))


@cache
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

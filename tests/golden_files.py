"""Outputs that are kept as files beside the tests, so that a change of them is seen in a review."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"


#: Terminals of these widths are tried; each has a folder.
WIDTHS = (80, 120)


def same_as_golden(name: str, text: str) -> None:
    """Compare with the kept output; trailing blanks do not count.

    No line is wider than the terminal that the folder is for, except what was typed.
    """
    tidy = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
    file = FOLDER / f"{name}.txt"
    if (folder := file.parent.name).isdigit():
        width = int(folder)
        wide = [line for line in tidy.splitlines() if len(line) > width and line[:2] != "$ "]
        assert wide == [], wide
    if os.environ.get("RINGWISE_WRITE_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(tidy, encoding="utf-8")
    assert file.exists(), f"{file.name} is missing; RINGWISE_WRITE_GOLDEN=1 writes it"
    assert tidy == file.read_text(encoding="utf-8")

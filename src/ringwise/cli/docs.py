"""Write the reference pages that are made from the code: `python -m ringwise.cli.docs FOLDER`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from ringwise.apps.commands_reference import commands_page
from ringwise.apps.reasons_reference import reasons_page
from ringwise.apps.reference import boards_page
from ringwise.apps.settings_reference import settings_page
from ringwise.cli.main import cli

PAGES: Mapping[str, Callable[[], str]] = {
    "boards.md": boards_page,
    "commands.md": lambda: commands_page(cli),
    "reasons.md": reasons_page,
    "settings.md": settings_page,
}


def write_pages(folder: Path) -> None:
    for name, page in PAGES.items():
        (folder / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))

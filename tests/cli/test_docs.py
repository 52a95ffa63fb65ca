"""The reference pages say what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from ringwise_bench.docs.reasons_reference import all_kinds
from ringwise_bench.docs.write import pages, write_pages
from tests.cli.command_tree import command_paths

DOCS = Path(__file__).parents[2] / "docs"
PAGES = pages(DOCS)


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_page_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name], "run `make docs`"


def test_every_command_and_every_reason_has_its_place() -> None:
    commands = [line[4:-1] for line in PAGES["commands.md"].splitlines() if line.startswith("## `ringwise")]
    assert sorted(commands) == sorted(command_paths())
    assert [kind.code for kind in all_kinds() if f"### `{kind.code}`" not in PAGES["reasons.md"]] == []


def test_pages_are_written_where_one_says(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "switches.md").write_text("no drawings\n", encoding="utf-8")
    (folder / "migration.md").write_text("no tables\n", encoding="utf-8")
    (folder / "boards.md").write_text("old\n## A board of your own\nby hand\n", encoding="utf-8")
    write_pages(folder)
    assert {file.name for file in folder.iterdir()} == set(PAGES)
    assert (folder / "switches.md").read_text(encoding="utf-8") == "no drawings\n"
    assert (folder / "boards.md").read_text(encoding="utf-8").endswith("## A board of your own\nby hand\n")
    assert "old" not in (folder / "boards.md").read_text(encoding="utf-8").splitlines()


def test_the_board_of_the_page_is_the_example_that_its_commands_run() -> None:
    text = (DOCS.parent / "examples" / "boards" / "pair-x4.toml").read_text(encoding="utf-8")
    assert f"```toml\n{text}```" in (DOCS / "boards.md").read_text(encoding="utf-8")

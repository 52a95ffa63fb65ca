"""The reference pages say what the code says."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from ringwise_bench.docs.parts import filled
from ringwise_bench.docs.public_names import public_names, read_decided
from ringwise_bench.docs.reasons_reference import all_kinds
from ringwise_bench.docs.write import pages, write_pages
from tests.cli.command_tree import command_paths

DOCS = Path(__file__).parents[2] / "docs"


@cache
def made_pages() -> dict[str, str]:
    """Made by who runs these tests, not by every process that collects them."""
    return pages(DOCS)


def test_the_pages_are_up_to_date() -> None:
    for name, page in made_pages().items():
        assert (DOCS / name).read_text(encoding="utf-8") == page, f"{name}: run `make docs`"


def test_every_command_and_every_reason_has_its_place() -> None:
    made = made_pages()
    commands = [
        line[4:-1] for line in made["reference/commands.md"].splitlines() if line.startswith("## `ringwise")
    ]
    assert sorted(commands) == sorted(command_paths())
    assert [
        kind.code for kind in all_kinds() if f"### `{kind.code}`" not in made["reference/reasons.md"]
    ] == []


#: Options of kubectl, helm, pip, git, Huawei's programs and other tools that pages show.
FOREIGN_OPTIONS = set((Path(__file__).with_name("foreign_options.txt")).read_text(encoding="utf-8").split())


@cache
def all_pages() -> dict[str, str]:
    pages = (DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md")))
    return {
        str(page.relative_to(DOCS.parent)): page.read_text(encoding="utf-8")
        for page in pages
        if page.name != "public-names.md" and page.parent.name != "decisions"
    }


@cache
def existing_names() -> dict[str, set[str]]:
    names = public_names(read_decided())
    return {group: set().union(*scopes.values()) for group, scopes in names.items()}


@pytest.mark.parametrize(
    ("group", "pattern"),
    [
        ("metrics", r"\bringwise_(?!bench|reserved_nodes)[a-z_]+[a-z]\b(?![./])"),
        ("annotations and labels", r"(?<!//)\bringwise\.io/[a-z][a-z-]*[a-z]\b(?![/-])"),
        ("flags", r"(?<![\w-])--[a-z][a-z-]*[a-z]\b"),
    ],
)
def test_names_on_pages_exist(group: str, pattern: str) -> None:
    existing = existing_names()[group]
    unknown = {
        (name, word)
        for name, text in all_pages().items()
        for word in re.findall(pattern, text)
        if word not in existing | FOREIGN_OPTIONS and re.sub("_(bucket|sum|count)$", "", word) not in existing
    }
    assert unknown == set()


@pytest.mark.parametrize(
    ("group", "page"),
    [
        ("commands", "docs/reference/commands.md"),
        ("flags", "docs/reference/commands.md"),
        ("metrics", "docs/reference/metrics.md"),
        ("annotations and labels", "docs/reference/labels.md"),
        ("settings", "docs/reference/settings.md"),
        ("reasons of pending jobs", "docs/reference/reasons.md"),
        ("documents", "docs/reference/schemas.md"),
    ],
)
def test_names_that_exist_are_on_their_page(group: str, page: str) -> None:
    text = all_pages()[page]
    assert {name for name in existing_names()[group] if name not in text} == set()


def test_pages_are_written_where_one_says_and_what_is_written_by_hand_stays(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    made = made_pages()
    for name, page in made.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(page, encoding="utf-8")
    (folder / "concepts/switches.md").write_text("no drawings\n", encoding="utf-8")
    boards = made["reference/boards.md"]
    row = next(line for line in boards.splitlines() if line.startswith("| [910-x8]"))
    (folder / "reference/boards.md").write_text(f"by hand\n{boards.replace(row, 'old')}", encoding="utf-8")
    write_pages(folder)
    assert {str(file.relative_to(folder)) for file in folder.rglob("*.md")} == set(made)
    assert (folder / "concepts/switches.md").read_text(encoding="utf-8") == "no drawings\n"
    assert (folder / "reference/boards.md").read_text(encoding="utf-8") == f"by hand\n{boards}"


def test_a_page_that_lost_a_part_is_not_written() -> None:
    with pytest.raises(ValueError, match="the page has the parts \\[\\], and not \\['rules'\\]"):
        filled("by hand\n", {"rules": "made"})


def test_the_board_of_the_page_is_the_example_that_its_commands_run() -> None:
    text = (DOCS.parent / "examples" / "boards" / "pair-x4.toml").read_text(encoding="utf-8")
    assert f"```toml\n{text}```" in (DOCS / "reference/boards.md").read_text(encoding="utf-8")

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from ringwise.cli.query.boards import boards_command
from ringwise.manifests.settings.boards import shipped_boards

OWN = """
name = "own [board]"
resources = ["example.com/chip"]
chips_per_node = 2
ring_size = 2
[requests]
one_pod = "1,2"
[rule]
name = "free-count"
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(boards_command, list(arguments))


@pytest.mark.parametrize("arguments", [(), ("list",)])
def test_list_names_every_board(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 0
    for name in shipped_boards():
        assert name in result.stdout


@pytest.mark.parametrize("arguments", [("-o", "json"), ("list", "-o", "json"), ("-o", "json", "list")])
def test_list_as_json(arguments: tuple[str, ...]) -> None:
    answer = json.loads(run(*arguments).stdout)
    assert [board["name"] for board in answer["boards"]] == list(shipped_boards())


@pytest.mark.parametrize("name", list(shipped_boards()))
def test_every_board_can_be_shown(name: str) -> None:
    drawn = run("show", name)
    assert drawn.exit_code == 0
    assert shipped_boards()[name].title.split(",")[0] in drawn.stdout
    assert yaml.safe_load(run("show", name, "-o", "yaml").stdout) == json.loads(
        run("show", name, "-o", "json").stdout
    )


def test_show_draws_rings_requests_and_tables() -> None:
    text = run("show", "910-x8").stdout
    assert "│ 0 1 2 3 │ │ 4 5 6 7 │" in text
    assert "8 (multi-pod-requests: vendor: 1, 2, 4, 8)" in text
    answer = json.loads(run("show", "910-x8", "-o", "json").stdout)
    assert answer["tables"][0]["rows"]["2"] == [4, 0, 2, 1]
    assert answer["requests"]["multi_pod"] == [8]


def test_a_board_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(OWN)
    for arguments in (
        ("--board-file", str(file), "show", "own [board]"),
        ("show", "--board-file", str(file), "own [board]"),
    ):
        result = run(*arguments)
        assert result.exit_code == 0
        assert "own [board]" in result.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            OWN.replace("free-count", "free-cuont"),
            'rule.name: Invalid value: "free-cuont": must be one of ring-groups, free-count, ',
        ),
        (None, "cannot be read: no such file"),
        (OWN.replace("own [board]", "910-x8"), 'name: "910-x8" is already the name of a board'),
    ],
)
def test_a_wrong_profile_is_one_line_and_exit_code_2(tmp_path: Path, text: str | None, words: str) -> None:
    file = tmp_path / "own.toml"
    if text is not None:
        file.write_text(text)
    result = run("--board-file", str(file))
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_an_unknown_board_suggests_the_nearest() -> None:
    result = run("show", "910-x9")
    assert result.exit_code == 2
    assert 'did you mean "910-x8"?' in result.stderr

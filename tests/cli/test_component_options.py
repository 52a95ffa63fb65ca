"""Options of the components on a cluster: wrong values are refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from ringwise.cli.commands import cli
from tests.device.test_commands import kubeconfig


@pytest.mark.parametrize("command", ["scheduler", "admission"])
@pytest.mark.parametrize("names", [[""], [" "], ["volcano", ""]], ids=str)
def test_an_empty_scheduler_name_is_refused(command: str, names: list[str]) -> None:
    options = [f"--scheduler-name={name}" for name in names]
    result = CliRunner().invoke(cli, ["run", command, *options])
    assert result.exit_code == 2
    assert "a scheduler name must not be empty" in result.output


@pytest.mark.parametrize("command", ["scheduler", "admission"])
@pytest.mark.parametrize("wrong", ["a", "/b", "a/", "a/b/c"])
def test_the_configmap_is_named_with_its_namespace(command: str, wrong: str) -> None:
    result = CliRunner().invoke(cli, ["run", command, f"--scheduler-configmap={wrong}"])
    assert (result.exit_code, result.output) == (
        2,
        f'--scheduler-configmap: must be NAMESPACE/NAME, got "{wrong}"\n',
    )


@pytest.mark.parametrize("command", ["scheduler", "admission"])
def test_a_wrong_board_file_is_one_line_for_each_problem(command: str, tmp_path: Path) -> None:
    file = tmp_path / "board.toml"
    file.write_text("chips_per_node = 4\n", encoding="utf-8")
    config = kubeconfig(tmp_path, "http://127.0.0.1:9")
    result = CliRunner().invoke(cli, ["run", command, f"--board-file={file}", f"--kubeconfig={config}"])
    assert result.exit_code == 2
    assert result.output.splitlines()[-4:] == [
        f"{file}: name: Required value",
        f"{file}: resources: Required value",
        f"{file}: requests: Required value",
        f"{file}: rule: Required value",
    ]


@pytest.mark.parametrize("command", ["run scheduler", "run controller"])
@pytest.mark.parametrize("name", ["", "Team", "a/b", "**", "default,team"])
def test_the_namespaces_of_commands_are_names(command: str, name: str) -> None:
    result = CliRunner().invoke(cli, [*command.split(), f"--queue-command-namespace={name}"])
    assert result.exit_code == 2
    assert f'invalid namespace "{name}"' in result.output

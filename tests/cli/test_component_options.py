"""Options of the components on a cluster: what cannot be meant is refused before anything starts."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from ringwise.cli.main import cli


@pytest.mark.parametrize("command", ["scheduler", "admission"])
@pytest.mark.parametrize("names", [[""], [" "], ["volcano", ""]], ids=str)
def test_a_scheduler_without_a_name_is_refused(command: str, names: list[str]) -> None:
    options = [f"--scheduler-name={name}" for name in names]
    answer = CliRunner().invoke(cli, [command, *options])
    assert answer.exit_code == 2
    assert "a schedulerName is never empty" in answer.output

"""Shell completion in bash, zsh and fish."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from ringwise.cli.commands import LazyGroup, cli
from ringwise.cli.completion import SHELLS
from ringwise.manifests.settings.boards import shipped_boards
from tests.lab.rig import SMALL, Terminal, job, running

ROOT = Path(__file__).parents[2]
#: In each shell: define the completion, complete a line, print one value in a line.
BASH = """
eval "$(ringwise completion bash)"
complete -p ringwise >/dev/null || exit 3
COMP_WORDS=({words} "{incomplete}"); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_ringwise_completion ringwise "{incomplete}" ""
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH = """
autoload -Uz compinit && compinit -u -D
eval "$(ringwise completion zsh)"
(( $+functions[_ringwise_completion] )) || exit 3
_describe() {{ local item; for item in ${{(P)3}}; do print -r -- ${{item%%:*}}; done }}
compadd() {{ local name=$@[-1]; print -rl -- ${{(P)name}} }}
words=({words} "{incomplete}"); CURRENT=$#words
_ringwise_completion
"""
FISH = """
ringwise completion fish | source
complete -C '{words} {incomplete}' | string split -f1 \\t
true
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("completion")
    with running(folder, SMALL):
        Terminal(folder).submit(job("train", 1, 1), job("tune", 1, 1))
        yield folder


def completed(shell: str, line: str, lab: Path) -> list[str]:
    """What click answers to the script of a shell; the last word of the line is incomplete."""
    words, _, incomplete = line.rpartition(" ")
    environment = {"RINGWISE_LAB": str(lab), "_RINGWISE_COMPLETE": f"{shell}_complete"}
    environment["COMP_WORDS"] = f"{words} {incomplete}" if shell != "fish" else words
    environment["COMP_CWORD"] = str(len(words.split())) if shell != "fish" else incomplete
    said = CliRunner(env=environment).invoke(cli, [], prog_name="ringwise").stdout.splitlines()
    if shell == "bash":
        return [line.partition(",")[2] for line in said if line]
    if shell == "zsh":
        return said[1::3]
    return [line.partition(",")[2].partition("\t")[0] for line in said if "," in line]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("ringwise un", {"uncordon", "unisolate", "unreserve"}),
        ("ringwise run ", {"scheduler", "controller", "admission", "device-plugin"}),
        ("ringwise run scheduler --no-lead", {"--no-leader-elect"}),
        ("ringwise get chips --nod", {"--node"}),
        ("ringwise get chi", {"chip", "chips"}),
        ("ringwise get no", {"no", "node", "nodes"}),
        ("ringwise describe job t", {"train", "tune"}),
        ("ringwise get no node-", {"node-0", "node-1", "node-2", "node-3"}),
        ("ringwise describe job lab/tr", {"lab/train"}),
        ("ringwise delete jobs train tu", {"tune"}),
        ("ringwise reserve node-1 node-", {"node-0", "node-1", "node-2", "node-3"}),
        ("ringwise drain node-", {"node-0", "node-1", "node-2", "node-3"}),
        ("ringwise why tu", {"tune"}),
        ("ringwise boards show 910b", {"910b-x8", "910b-x16"}),
        ("ringwise top -o y", {"yaml"}),
        ("ringwise submit --dry", {"--dry-run"}),
        ("ringwise completion ", set(SHELLS)),
    ],
)
def test_values_are_completed(shell: str, line: str, values: set[str], lab: Path) -> None:
    assert set(completed(shell, line, lab)) == values


def test_without_a_lab_nothing_is_completed_and_nothing_is_said(tmp_path: Path) -> None:
    assert completed("bash", "ringwise describe job t", tmp_path) == []


def test_all_commands_are_completed(lab: Path) -> None:
    assert isinstance(cli, LazyGroup)
    assert completed("bash", "ringwise ", lab) == sorted(cli.entries)


@pytest.mark.full
@pytest.mark.process
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("words", "incomplete", "values"),
    [
        ("ringwise", "unc", {"uncordon"}),
        ("ringwise describe node", "node-", {f"node-{number}" for number in range(4)}),
        ("ringwise boards show", "310p-duo-card", {name for name in shipped_boards() if "duo-card" in name}),
    ],
)
def test_the_script_works_in_its_shell(
    shell: str, words: str, incomplete: str, values: set[str], lab: Path, tmp_path: Path
) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    command = tmp_path / "ringwise"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ringwise "$@"\n')
    command.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "RINGWISE_LAB": str(lab),
        "HOME": str(tmp_path),
    }
    script = SCRIPTS[shell].format(words=words, incomplete=incomplete)
    ran = subprocess.run(
        [program, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert set(ran.stdout.split()) == values


def test_the_page_shows_how_to_turn_it_on() -> None:
    page = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    for shell in SHELLS:
        assert f"ringwise completion {shell}" in page
        script = CliRunner().invoke(cli, ["completion", shell]).stdout
        assert "_RINGWISE_COMPLETE" in script

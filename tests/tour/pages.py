"""The command blocks of README and docs: found, run as a reader would, and compared with what the page shows.

A block that begins with `$ ` shows commands and their output. A line `...` in the output stands for lines
that the page leaves out. Times are compared by their form only: they change from run to run.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner

from ringwise.cli.commands import cli
from ringwise.records import dataclass

ROOT = Path(__file__).parents[2]
#: Fenced blocks. Those without a language have their content as group 1; the others are matched, too, so that
#: their last line does not seem to open a block.
FENCED = re.compile(r"^```(?:\w+\n.*?|\n(.*?))^```$", re.MULTILINE | re.DOTALL)
CUT = "..."
_PLAIN_CALL = re.compile(r"(\.venv/bin/)?ringwise [^|;&<>$`\\]*")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
#: The width of what the pages show: that of the narrowest terminals.
COLUMNS = 80


@dataclass(frozen=True, slots=True)
class ShownCommand:
    command: str
    output: tuple[str, ...]


def pages() -> list[Path]:
    return [
        ROOT / "README.md",
        *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "decisions"),
    ]


def shown_commands(block: str) -> Iterator[ShownCommand]:
    """The commands of a block with the lines below each. A command goes on after a backslash."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        lines = part.rstrip("\n").split("\n")
        last = next(number for number, line in enumerate(lines) if not line.endswith("\\"))
        yield ShownCommand("\n".join(lines[: last + 1]), tuple(lines[last + 1 :]))


# -- names of commands ---------------------------------------------------------------------------

#: Commands in the running text, and lines of blocks that are not output.
_INLINE = re.compile(r"`((?:kubectl )?ringwise [^`]+)`")
_BLOCK = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"^(?:\$ )?(?:\.venv/bin/)?((?:kubectl )?ringwise [a-z-].*)$", re.MULTILINE)
#: What ends a command in a shell.
_END = re.compile(r"[|;&<>#\\]|\$\(")


def named_commands(text: str) -> Iterator[str]:
    """Every `ringwise ...` and `kubectl ringwise ...` that a page names."""
    for block in _BLOCK.findall(text):
        yield from (
            line for line in _LINE.findall(block) if not block.startswith("$ ") or f"$ {line}" in block
        )
    for found in _INLINE.findall(_BLOCK.sub("", text)):
        yield " ".join(found.split())


def not_a_command(line: str) -> str | None:
    """The word of a line that no command has; None where all are known. Capitals are placeholders."""
    words = _END.split(line.partition("ringwise ")[2])[0].replace("'", " ").replace('"', " ").split()
    command: click.Command = cli
    for word in words:
        if isinstance(command, click.Group) and not word.startswith("-"):
            if not word[:1].islower():
                return None
            found = command.get_command(click.Context(command), word)
            if found is None:
                return None if command.invoke_without_command else word
            command = found
        elif word.startswith("--") and "device-plugin" not in words:
            option = word.partition("=")[0].rstrip(".,:])")
            known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
            if option not in known | {"--", "--help", "--version"}:
                return option
    return None


# -- running -------------------------------------------------------------------------------------


def make_folder(folder: Path) -> dict[str, str]:
    """A new folder with what the pages name: the examples, and `.venv` as `make demo` leaves it.

    Returns the environment of its commands.
    """
    shutil.copytree(ROOT / "examples", folder / "examples")
    for name in ("Makefile", "pyproject.toml", "requirements.txt", "requirements-build.txt"):
        shutil.copy2(ROOT / name, folder)
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, arguments in (("ringwise", "-m ringwise"), ("python", "")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
    (folder / ".venv" / ".installed").touch()
    home = folder / ".home"
    home.mkdir()
    return {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "COLUMNS": str(COLUMNS),
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
    }


def printed_by(command: str, folder: Path, environment: dict[str, str]) -> list[str]:
    """What a terminal shows; a command that fails is an error.

    A plain call of `ringwise` runs in this process, which is quicker; all else in a shell.
    """
    if _PLAIN_CALL.fullmatch(command):
        before = Path.cwd()
        os.chdir(folder)
        try:
            arguments = shlex.split(command, comments=True)[1:]
            called = CliRunner(env=environment).invoke(cli, arguments, prog_name="ringwise")
        finally:
            os.chdir(before)
        code, text = called.exit_code, called.output
    else:
        ran = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {command}"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        code, text = ran.returncode, ran.stdout
    assert code == 0, f"{command}: exit code {code}\n{text}"
    return [line.rstrip() for line in text.rstrip("\n").split("\n")]


# -- comparing -----------------------------------------------------------------------------------


def as_shown(shown: tuple[str, ...], printed: list[str]) -> list[str]:
    """The lines that the page should show: `shown` where it is still true, else anew with the same cuts."""
    parts = _parts(shown)
    if len(parts) == 1:
        return [*(shown if _same(parts[0], printed) else printed)]
    made: list[str] = []
    at = 0
    for number, part in enumerate(parts):
        if number:
            made.append(CUT)
        if not part:
            continue
        begin = next((n for n in range(at, len(printed)) if _same(part, printed[n : n + len(part)])), None)
        if begin is not None:
            made += part
            at = begin + len(part)
            continue
        begin, end = _nearest(part, printed, at)
        made += printed[begin:end]
        at = end
    return made


def _parts(shown: tuple[str, ...]) -> list[list[str]]:
    """The lines between the cuts; an output that begins or ends with a cut has an empty part there."""
    parts: list[list[str]] = [[]]
    for line in shown:
        if line == CUT:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def _nearest(part: list[str], printed: list[str], at: int) -> tuple[int, int]:
    """Where a part that has changed begins and ends: at its first and its last line, if they are there."""
    begin = next((n for n in range(at, len(printed)) if printed[n] == part[0]), at)
    ends = [n + 1 for n in range(begin, len(printed)) if printed[n] == part[-1]]
    return begin, ends[0] if ends else min(len(printed), begin + len(part))


def _same(left: list[str], right: list[str]) -> bool:
    return [_TIME.sub("TIME", line) for line in left] == [_TIME.sub("TIME", line) for line in right]

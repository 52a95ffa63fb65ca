"""One table of exit codes: no command uses another one."""

from __future__ import annotations

import ast
from pathlib import Path

import ringwise.cli
from ringwise.cli import main
from ringwise.cli.exit_codes import MEANINGS, ExitCode
from ringwise.kube.run import watchdog
from tests.checkout import BENCH, tree_of

ROOT = Path(__file__).parents[2]
SOURCES = [*sorted(Path(ringwise.cli.__path__[0]).rglob("*.py")), BENCH / "command.py"]


def exits(tree: ast.AST) -> list[ast.expr]:
    """What is given as exit code: to Exit and stop, as `code=`, as the class attribute `exit_code`."""
    found: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            found += [word.value for word in node.keywords if word.arg == "code"]
            found += node.args[:1] if name in ("Exit", "exit", "_exit") else []
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in (
            "exit_code",
            "_INTERRUPTED",
        ):
            found.append(node.value)
    return found


def test_every_exit_code_is_in_the_table() -> None:
    assert set(MEANINGS) == set(ExitCode)
    assert all(MEANINGS.values())
    numbers = []
    seen = 0
    for source in SOURCES:
        for value in exits(tree_of(source.read_text(encoding="utf-8"))):
            seen += 1
            # An if expression may have 0 for the good case.
            parts = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
            numbers += [
                (source.name, part.value)
                for part in parts
                if isinstance(part, ast.Constant) and part.value not in (0, None)
            ]
    assert seen > 15
    # Before anything is loaded, Ctrl-C has its number at hand.
    assert numbers == [("main.py", 130)]
    assert main._INTERRUPTED == ExitCode.INTERRUPTED
    assert watchdog._EXIT_CODE == ExitCode.INTERNAL_ERROR


def test_the_page_has_the_table() -> None:
    page = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    for code, meaning in MEANINGS.items():
        assert f"| {int(code)} | {meaning} |" in page

"""The lines of code of each package, as `[tool.ringwise.size]` in pyproject.toml allows them."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from tests.checkout import PACKAGE, SOURCES, nodes_in, project


def lines_of_code(source: str) -> int:
    """Count the lines that are not blank, a comment or part of a docstring."""
    lines = source.splitlines()
    code = {number for number, line in enumerate(lines, 1) if line.strip() and line.lstrip()[0] != "#"}
    for node in nodes_in(source):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                code.difference_update(range(first.lineno, (first.end_lineno or 0) + 1))
    return len(code)


def package_of(path: Path) -> str:
    """The package below `ringwise`; `ringwise` itself for its modules."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else "ringwise"


def test_no_package_exceeds_its_size() -> None:
    found: Counter[str] = Counter()
    for path in SOURCES:
        if not path.name.endswith("_pb2.py"):
            found[package_of(path)] += lines_of_code(path.read_text(encoding="utf-8"))
    allowed = project()["tool"]["ringwise"]["size"]
    larger = {name: count for name, count in found.items() if count > allowed.get(name, 0)}
    assert not larger, "remove code, or say in a decision record what the lines buy"


def test_blank_lines_comments_and_docstrings_are_not_counted() -> None:
    source = (
        '"""Module."""\n\n# Comment.\nA = """\ntext\n"""\n\n\ndef f() -> None:\n    """Doc.\n\n    More."""\n'
    )
    assert lines_of_code(source) == 4

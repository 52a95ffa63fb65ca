"""The files of the project, for tests that read them."""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "ringwise"
BENCH = ROOT / "bench" / "src" / "ringwise_bench"
SOURCES = sorted(PACKAGE.rglob("*.py"))
#: Those of the package of the benchmarks, too: what holds for whatever is written here.
ALL_SOURCES = [*SOURCES, *sorted(BENCH.rglob("*.py"))]


def source_name(path: Path) -> str:
    """A source file by its place in the packages: `ringwise/state/model.py`."""
    return path.relative_to((BENCH if BENCH in path.parents else PACKAGE).parent).as_posix()


@cache
def tree_of(source: str) -> ast.Module:
    """A source text, parsed once for all tests that look into it."""
    return ast.parse(source)


@cache
def nodes_in(source: str) -> tuple[ast.AST, ...]:
    """All of a source text, walked once for all tests, in the order of `ast.walk`, in a third of its time."""
    found: list[ast.AST] = [tree_of(source)]
    for node in found:
        for value in vars(node).values():
            if isinstance(value, ast.AST):
                found.append(value)
            elif isinstance(value, list):
                found += [item for item in value if isinstance(item, ast.AST)]
    return tuple(found)


def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All of a source file."""
    return nodes_in(path.read_text(encoding="utf-8"))


@cache
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

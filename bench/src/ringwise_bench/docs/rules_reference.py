"""`docs/develop/rules.md`: the rules of the law, with the files and the tests that name each."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ringwise_bench.docs.parts import table

RULES: dict[str, str] = tomllib.loads(Path(__file__).with_name("rules.toml").read_text(encoding="utf-8"))
ROOT = Path(__file__).parents[4]
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_RULE = re.compile(r"\b(?:[NSPRDFMV]\d{1,2}a?|K)\b")


@cache
def rule_files() -> dict[str, list[str]]:
    """Return the source files whose docstrings name each rule, from `src/ringwise`."""
    result: dict[str, list[str]] = {rule: [] for rule in RULES}
    package = ROOT / "src" / "ringwise"
    for path in sorted(package.rglob("*.py")):
        if path.name.endswith("_pb2.py"):
            continue
        source = path.read_text(encoding="utf-8")
        # To parse a source takes a hundred times as long as to search it, and few name a rule.
        if not _RULE.search(source):
            continue
        text = "\n".join(
            ast.get_docstring(node) or ""
            for node in ast.walk(ast.parse(source))
            if isinstance(node, _DOCUMENTED)
        )
        for rule in set(_named(text)) & set(RULES):
            result[rule].append(str(path.relative_to(package)))
    return result


def _named(text: str) -> Iterator[str]:
    """Yield the rules of a text; `S3 to S8` and `P2-P4` name those between, too."""
    yield from _RULE.findall(text)
    for letter, first, last in re.findall(r"\b([NSPRDFMV])(\d{1,2}) ?(?:to|-|–) ?\1(\d{1,2})\b", text):
        yield from (f"{letter}{number}" for number in range(int(first), int(last) + 1))


@cache
def rule_tests() -> dict[str, list[str]]:
    """Return the test files with a test whose name has the rule."""
    result: dict[str, list[str]] = {rule: [] for rule in RULES}
    tests = ROOT / "tests"
    for path in sorted(tests.rglob("test_*.py")):
        names = re.findall(r"def (test_\w+)\(", path.read_text(encoding="utf-8"))
        for rule in {part for name in names for part in name.split("_")} & set(RULES):
            result[rule].append(str(path.relative_to(ROOT)))
    return result


def rules_table() -> str:
    rows = (
        (rule, text, _list(rule_files()[rule]), _list(rule_tests()[rule]))
        for rule, text in RULES.items()
        if rule_files()[rule] or rule_tests()[rule]
    )
    return table(("rule", "what it says", "implemented in `src/ringwise`", "tests"), rows)


def _list(paths: list[str]) -> str:
    return ", ".join(f"`{path}`" for path in paths)

"""All templates of error messages and warnings, in one list for review: tests/golden/messages.txt."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.checkout import SOURCES, nodes_of, source_name
from tests.golden_files import same_as_golden
from tests.test_language import joined

#: Functions that print, record or return a message about an error.
REPORTERS = re.compile(
    r"(?:add_|document_)?(?:error|warning)|stop|complain|invalid|problem|exception|UsageError|BadParameter|Finding"
    r"|_?(?:fail|warn|note|notify|report|log|refuse|reject|unreadable|broken|add_problem|record_ineffective)"
    r"|[A-Z]\w*(?:Error|Refused)"
)


def _reporter(node: ast.AST) -> bool:
    if isinstance(node, ast.Raise):
        return True
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return REPORTERS.fullmatch(name) is not None


def templates(path: Path) -> Iterator[str]:
    """Return the templates in arguments of reporters, each once."""
    for reporter in filter(_reporter, nodes_of(path)):
        parts = {
            part for node in ast.walk(reporter) if isinstance(node, ast.JoinedStr) for part in node.values
        }
        for node in ast.walk(reporter):
            if isinstance(node, ast.JoinedStr):
                text = joined(node)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts:
                text = node.value
            else:
                continue
            if " " in re.sub(r"\{.*?\}", "", text).strip():
                yield text.replace("\n", "\\n")


def test_messages_are_those_of_the_list() -> None:
    """RINGWISE_WRITE_GOLDEN=1 writes the list; whoever changes a message reads it there once more."""
    parts = {source_name(path): sorted(set(templates(path))) for path in SOURCES}
    same_as_golden(
        "messages", "\n".join(line for name, lines in parts.items() if lines for line in (f"{name}:", *lines))
    )

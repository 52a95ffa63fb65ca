"""The names of fields in the records of leaders: a support bundle keeps them, whatever else is called so."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ringwise.apps.support.vocabulary import RECORD_KEYS
from tests.checkout import PACKAGE, nodes_of

#: Where records are written and read (F1, F3, F6, M1).
WRITERS = (
    *sorted((PACKAGE / "scheduler" / "faults").glob("*.py")),
    *sorted((PACKAGE / "scheduler" / "defragment").glob("*.py")),
    PACKAGE / "messages" / "move_plan.py",
)


def _keys() -> Iterator[str]:
    for path in WRITERS:
        for node in nodes_of(path):
            found: list[ast.expr | None] = []
            if isinstance(node, ast.Dict):
                found = list(node.keys)
            elif isinstance(node, ast.Subscript):
                found = [node.slice]
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "get"
            ):
                found = list(node.args[:1])
            yield from (
                one.value for one in found if isinstance(one, ast.Constant) and isinstance(one.value, str)
            )


def test_every_field_of_a_record_is_known() -> None:
    assert {key for key in _keys() if key.isidentifier()} <= RECORD_KEYS

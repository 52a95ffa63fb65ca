"""`docs/schemas.md`: the documents that commands print with `-o json`, from the table of their schemas."""

from __future__ import annotations

from ringwise.views.schemas import DOCUMENTS, PRINT_KUBERNETES_OBJECTS, find_kind, schema_text

_INTRODUCTION = """\
# JSON documents

Every document that a command prints with `-o json`, and every one that the
[dashboard's API](dashboard.md) answers with, names its schema in the field `schema`, like
`ringwise.io/place/v1`; with `-o yaml` it has the same fields. The JSON schemas (draft 2020-12) are part of
the package, and `ringwise schema NAME` prints one.

Fields may be added under the same version, so a reader must pass over fields that it does not know. To remove
or rename a field, or to change its type, needs a new version and a line in the changelog. Texts (`message`,
`sentence`, `cures`, `what`) are for people and may be worded differently in any version; programs read the
codes. This page is made from the code (`make docs`).

| name | schema | printed by, or the answer to | contains |
|---|---|---|---|
"""

_EXAMPLE = """
For example:

```
$ ringwise schema advance
{text}```
"""

_KUBERNETES = """
Commands that print Kubernetes objects add no field: `apiVersion` and `kind` say what these are. They are
{commands}.
"""


def schemas_page() -> str:
    """The whole of `docs/schemas.md`."""
    rows = [
        f"| {kind.name} | `{kind.schema}` "
        f"| {', '.join(f'`{one}`' for one in (*kind.commands, *kind.requests))} | {kind.summary} |\n"
        for kind in DOCUMENTS
    ]
    commands = " and ".join(f"`{command}`" for command in PRINT_KUBERNETES_OBJECTS)
    example = _EXAMPLE.format(text=schema_text(find_kind("advance")))
    return _INTRODUCTION + "".join(rows) + _KUBERNETES.format(commands=commands) + example

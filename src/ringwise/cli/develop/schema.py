"""`ringwise schema`: the JSON schemas of the documents that commands print with `-o json`."""

from __future__ import annotations

import click

from ringwise.cli.completion import CompletedName
from ringwise.cli.output import stdout_console, stop
from ringwise.views.schemas import DOCUMENTS, find_kind, schema_text


@click.command("schema")
@click.argument(
    "name", type=CompletedName(lambda: {kind.name: kind.summary for kind in DOCUMENTS}), required=False
)
def schema_command(name: str | None) -> None:
    """Print the JSON schema of a document, or list all schemas.

    NAME is a name in the list, or the value of the field `schema` of a document.
    """
    if name is not None:
        try:
            click.echo(schema_text(find_kind(name)), nl=False)
        except LookupError as error:
            raise stop(f"ringwise: {error}") from None
        return
    from ringwise.cli.printers.tables import Column, Table

    table = Table([Column("name"), Column("schema"), Column("printed by", wraps=True)])
    for kind in DOCUMENTS:
        table.add(kind.name, kind.schema, ", ".join(kind.commands))
    table.print(stdout_console())

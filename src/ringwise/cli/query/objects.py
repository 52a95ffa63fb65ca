"""`ringwise get`, `ringwise describe`: the objects of a cluster."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.completion import LabName
from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.kind_argument import KindArgument, kind_and_names
from ringwise.cli.options import JSONPATH, flag, option, output_choice, query_options, source_options
from ringwise.cli.output import stdout_console, values_text
from ringwise.cli.query.lists import list_options, take_listing, watch_list
from ringwise.cli.query.queries import ask, namespace_of, show
from ringwise.views.kinds import BY_PLURAL, KINDS
from ringwise.wellknown import USER

if TYPE_CHECKING:
    from ringwise.apps.sources.protocol import QuerySource


@click.command("get")
@click.argument(
    "kind",
    type=KindArgument(KINDS, several=True),
    default="jobs",
    metavar="[KIND]",
)
@click.argument("names", nargs=-1, type=LabName(), metavar="[[NAMESPACE/]NAME]...")
@option("--node", "Only chips or pods of this node.", LabName("node"))
@list_options
@flag("--no-headers", "Print no headings above the rows, for tables.")
@source_options
@output_choice("table", "wide", "name", "json", "yaml")
def get_command(kind: str, output: str, no_headers: bool = False, **options: Any) -> None:
    """List jobs, nodes, queues, pods and other objects.

    KIND is jobs (vcjobs, vcjob, vj), nodes (no), queues (q), pods (po), chips, reservations, isolations,
    moveplans (mp), usagelimits (ulim) or hypernodes (hn), and KIND/NAME is accepted, too; it defaults to
    jobs. If names are given, only these are listed; of chips, the name of a node lists its chips.
    """
    kinds = kind.split(",")
    if len(kinds) > 1:
        if output not in ("table", "wide", "name") or options["names"]:
            raise click.UsageError(f"names and -o {output} require one kind")
        for number, one in enumerate(kinds):
            if number and output != "name":
                click.echo()
            click.get_current_context().invoke(
                get_command, kind=one, output=output, no_headers=no_headers, **options
            )
        return
    shown, options["names"] = kind_and_names(kind, options["names"])
    kind, names = shown.plural, options["names"]
    if kind == "chips" and len(names) == 1 and "/" not in names[0]:
        options["node"], options["names"] = names[0], ()
    listing, watch = take_listing(kind, output, options)
    unreachable = ExitCode.FAILED if kind == "chips" else ExitCode.BAD_INPUT
    none = ""
    if listing.user is not None:
        none = f"no job has user {listing.user} (annotation {USER}, or the label of the setting user-label)"
    elif listing.selector or listing.fields or listing.queue or listing.states:
        none = f"there are no such {kind}"
    elif listing.affected:
        none = "no job is affected by a fault"
    elif listing.namespace is not None and "namespace" in BY_PLURAL[kind].key_fields:
        none = f"there are no {kind} in namespace {listing.namespace}"

    def question(source: QuerySource) -> Any:
        return source.get(kind, listing)

    def draw(
        document: Any, only: Collection[int] | None = None, heads: tuple[str, ...] = ()
    ) -> tuple[str, ...]:
        from ringwise.cli.printers.kinds import print_list

        how: dict[str, Any] = {"wide": output == "wide", "heads": heads, "headings": not no_headers}
        return print_list(stdout_console(), document, shown, only, none, **how)

    document = ask(options, question, unreachable=unreachable)
    if output == "name":
        for row in document[kind]:
            click.echo(BY_PLURAL[kind].key(row))
        return
    if output.startswith(JSONPATH) and len(listing.names) == 1:
        # As kubectl: the template is about the object. One for the document of `-o json` works, too.
        root = document if f"{{.{kind}[" in output else document[kind][0]
        click.echo(values_text(root, output), nl=False)
        return
    if watch is None:
        show(document, "table" if output == "wide" else output, lambda _console, document: draw(document))
        return
    watch_list(kind, options, question, document, draw, limit=watch)


@click.command("describe")
@click.argument(
    "kind",
    type=KindArgument(KINDS),
    metavar="KIND",
)
@click.argument("names", nargs=-1, type=LabName(), metavar="[NAMESPACE/]NAME...")
@query_options
def describe_command(kind: str, names: tuple[str, ...], output: str, **options: Any) -> None:
    """Show details of objects.

    KIND is job (vcjobs, vcjob, vj), node (no), queue (q), pod (po), moveplan (mp) or hypernode (hn), and
    KIND/NAME is accepted, too. Objects of the other kinds of get are shown as get -o wide shows them.
    """
    shown, names = kind_and_names(kind, names)
    if not shown.is_described:
        output = "wide" if output == "table" else output
        click.get_current_context().invoke(
            get_command, kind=shown.plural, names=names, output=output, **options
        )
        return
    if not names:
        raise click.UsageError(f"the name of one {shown.word} is required; get {shown.plural} lists them")
    namespace = namespace_of(options)

    def described(name: str) -> Mapping[str, Any]:
        return ask(options, lambda source: source.describe(shown.name, name, namespace))

    for number, document in enumerate(map(described, names)):
        if number and output in ("table", "yaml"):
            click.echo("---" if output == "yaml" else "")
        show(document, output, "kinds.print_object", kind=shown.name)

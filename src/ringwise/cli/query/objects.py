"""`ringwise get`, `ringwise describe`, `ringwise top`: the objects of a cluster."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.completion import LabName
from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.output import output_choice, output_option, stdout_console, until_ctrl_c
from ringwise.cli.query.lists import SECONDS, list_options, take_listing, watch_list
from ringwise.cli.query.queries import ask, asking, namespace_of, show, source_of, source_options
from ringwise.views.kinds import BY_PLURAL, BY_WORD, KINDS

if TYPE_CHECKING:
    from rich.console import Console

    from ringwise.apps.sources.protocol import QuerySource


@click.command("get")
@click.argument(
    "kind",
    type=click.Choice([*BY_WORD]),
    default="jobs",
    metavar=f"[{'|'.join(BY_PLURAL)}]",
)
@click.argument("names", nargs=-1, type=LabName(), metavar="[NAME]...")
@click.option("--node", help="With chips: only those of this node.")
@list_options
@source_options()
@output_choice("table", "wide", "name", "json", "yaml")
def get_command(kind: str, output: str, **options: Any) -> None:
    """List jobs, nodes, queues, pods or other objects.

    With names, list those only. Kinds have the short names po, no, q and hn. -o name prints names as
    other commands take them.
    """
    kind = BY_WORD[kind].plural
    listing, watch = take_listing(kind, output, options)
    unreachable = ExitCode.FAILED if kind == "chips" else ExitCode.BAD_INPUT
    none = ""
    if listing.selector or listing.queue or listing.states:
        none = f"there are no such {kind}"
    elif listing.hurt:
        none = "no job is hurt by a fault"
    elif listing.namespace is not None and "namespace" in BY_PLURAL[kind].key_fields:
        none = f"there are no {kind} in namespace {listing.namespace}"

    def question(source: QuerySource) -> Any:
        return source.get(kind, listing)

    def draw(document: Any, only: Collection[int] | None = None) -> None:
        _list(stdout_console(), kind, document, only, none, wide=output == "wide")

    document = ask(options, question, unreachable=unreachable)
    if output == "name":
        for row in document[kind]:
            click.echo(BY_PLURAL[kind].key(row))
        return
    if watch is None:
        show(document, "table" if output == "wide" else output, lambda _console: draw(document))
        return
    watch_list(kind, options, question, document, draw, limit=watch)


def _list(
    console: Console,
    kind: str,
    document: Any,
    only: Collection[int] | None = None,
    none: str = "",
    *,
    wide: bool = False,
) -> None:
    """A table of objects; where there is none, a line that says so. `none`: that line, of a part of them."""
    from ringwise.cli.printers.kinds import DRAWINGS

    rows = document[kind]
    if not rows and (none or kind != "chips"):
        console.print(none or f"there are no {kind}")
    else:
        drawing = DRAWINGS[BY_PLURAL[kind].name]
        drawing.draw(console, rows, document.get("now", 0), only, *([drawing.wide] if wide else []))
    if "more" in document:
        console.print(f"and {document['more']:,} more; --limit 0 shows all")


_DESCRIBED = [kind for kind in KINDS if kind.is_described]


@click.command("describe")
@click.argument(
    "kind",
    type=click.Choice([word for kind in _DESCRIBED for word in kind.words]),
    metavar="|".join(kind.name for kind in _DESCRIBED),
)
@click.argument("name", type=LabName(), metavar="[NAMESPACE/]NAME")
@source_options()
@output_option
def describe_command(kind: str, name: str, output: str, **options: Any) -> None:
    """Show all fields of one object."""
    kind = BY_WORD[kind].name
    namespace = namespace_of(options)
    document = ask(options, lambda source: source.describe(kind, name, namespace))

    def draw(console: Console) -> None:
        from ringwise.cli.printers.kinds import DRAWINGS

        describe = DRAWINGS[kind].describe
        assert describe is not None
        describe(console, document)

    show(document, output, draw)


@click.command("top")
@click.option("--once", is_flag=True, help="Print one frame and exit.")
@click.option(
    "--every",
    type=click.FloatRange(0.1, 3600),
    help="Seconds between frames.  [default: 1; 5 for a cluster]",
)
@source_options()
@output_option
def top_command(once: bool, every: float | None, output: str, **options: Any) -> None:
    """Show the chips of all nodes, the queues and the pending jobs, until Ctrl-C."""
    if once or options["files"] or output != "table" or not stdout_console().is_terminal:
        document = ask(options, lambda source: source.top())

        def draw(console: Console) -> None:
            from ringwise.cli.printers.cluster import draw_top

            draw_top(console, document)

        show(document, output, draw)
        return
    _show_frames(every or SECONDS[source_of(options)], options)


def _show_frames(every: float, options: dict[str, Any]) -> None:
    import io
    import time

    from rich.live import Live
    from rich.text import Text

    from ringwise.cli.printers.cluster import draw_top
    from ringwise.cli.printers.lines import PlainConsole

    console = stdout_console()
    # An error is printed when the screen of the frames is gone.
    with (
        until_ctrl_c(),
        asking(options, follows=True) as source,
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        while True:
            drawn = io.StringIO()
            frame = PlainConsole(
                file=drawn,
                width=console.width,
                force_terminal=True,
                color_system=None if console.no_color else "standard",
                highlight=False,
            )
            draw_top(frame, source().top(), console.height)
            live.update(Text.from_ansi(drawn.getvalue()), refresh=True)
            time.sleep(every)

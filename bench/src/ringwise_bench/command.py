"""`ringwise bench NAME`: measure, and check whether the goals hold."""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.options import output_option
from ringwise.cli.output import complain, print_document, stdout_console, stop
from ringwise_bench.report import InterruptedBenchError, NothingToMeasureError, run_bench

if TYPE_CHECKING:
    from ringwise_bench.report import Bench

#: Each is a module of `ringwise_bench` with a function `run`.
BENCHES = (
    "allocate",
    "answers",
    "api",
    "bounded",
    "cycle",
    "decide",
    "faults",
    "list",
    "simulate",
    "soak",
    "start",
    "superpods",
    "switches",
    "web",
)


@click.command(epilog=f"Benchmarks: {', '.join(BENCHES)}.")
@click.argument("name", metavar="BENCHMARK", type=click.Choice(BENCHES))
@output_option
@click.option("--full", is_flag=True, help="Measure longer.")
@click.option(
    "--compare",
    type=click.Choice(["kube-scheduler"]),
    help="With `api`: also run the same work with another scheduler.",
)
@click.option(
    "--traces",
    type=click.Path(path_type=Path, exists=True),
    multiple=True,
    help="With `simulate`: a trace, or a directory with traces, instead of a job mix; can be repeated.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="With `simulate`: only traces that match this pattern (`itp/cluster0*`), or `growth`; can be "
    "repeated.",
)
@click.option(
    "--days", type=click.IntRange(1), help="With `simulate`: use only the first N days of each trace."
)
def bench(
    name: str,
    output: str,
    full: bool,
    compare: str | None,
    traces: tuple[Path, ...],
    only: tuple[str, ...],
    days: int | None,
) -> None:
    """Run a benchmark.

    `simulate` prints the results of each trace when it ends. Ctrl-C prints the results so far and exits with
    code 130.
    """
    from ringwise_bench.control_plane import ControlPlaneError

    module = import_module(f"ringwise_bench.{name}")
    chosen: Bench = module.run
    if compare is not None:
        if name != "api":
            raise stop("--compare requires the benchmark api")
        chosen = module.run_beside_kube_scheduler
    if name == "simulate":
        # With other outputs stdout has the document alone.
        say = click.echo if output == "table" else complain
        chosen = partial(module.run, traces=traces, only=only, days=days, say=say)
    else:
        for option, given in (("--traces", traces), ("--only", only), ("--days", days)):
            if given:
                raise stop(f"{option} requires the benchmark simulate")
    code = ExitCode.OK
    try:
        if sys.stderr.isatty():
            # No spinner: its thread would be measured, too.
            complain(f"measuring {name}; Ctrl-C ends it")
        document = run_bench(name, chosen, full)
    except ControlPlaneError as error:
        raise stop(*str(error).splitlines()) from None
    except NothingToMeasureError as error:
        raise stop(str(error)) from None
    except InterruptedBenchError as error:
        document, code = error.document, ExitCode.INTERRUPTED
    if output == "table":
        from ringwise.cli.printers.lines import print_lines
        from ringwise.cli.printers.tables import Column, Table

        console = stdout_console()
        print_lines(console, f"bench {name}, {document.duration_seconds} s, {document.machine.cpu}")
        columns = [Column("figure", wraps=True), Column("value", right=True), Column("unit"), Column("holds")]
        table = Table(columns, note="goal")
        for row in document.results:
            holds = {True: "yes", False: "NO", None: ""}[row.goal_met]
            table.add(row.name, f"{row.value:,g}", row.unit, holds, note=row.goal or "")
        table.print(console)
    else:
        print_document(document, output)
    if code is ExitCode.OK and any(row.goal_met is False for row in document.results):
        code = ExitCode.FAILED
    if code is not ExitCode.OK:
        raise click.exceptions.Exit(code)

"""`ringwise bench NAME`: measure, and say whether the goals hold."""

from __future__ import annotations

from collections.abc import Mapping

import click
from rich import box
from rich.table import Table

from ringwise.apps.bench import api as bench_api
from ringwise.apps.bench import cycle as bench_cycle
from ringwise.apps.bench import decide as bench_decide
from ringwise.apps.bench import list as bench_list
from ringwise.apps.bench import superpods as bench_superpods
from ringwise.apps.bench import switches as bench_switches
from ringwise.apps.bench.control_plane import ControlPlaneError
from ringwise.apps.bench.report import Bench, run_bench
from ringwise.cli.output import output_option, print_document, stdout_console, stop

BENCHES: Mapping[str, Bench] = {
    "api": bench_api.run,
    "cycle": bench_cycle.run,
    "decide": bench_decide.run,
    "list": bench_list.run,
    "switches": bench_switches.run,
    "superpods": bench_superpods.run,
}


@click.command()
@click.argument("name", type=click.Choice(sorted(BENCHES)))
@output_option
@click.option("--full", is_flag=True, help="Measure longer.")
@click.option(
    "--beside",
    type=click.Choice(["kube-scheduler"]),
    help="With `api`: the same work by another scheduler in the same run.",
)
def bench(name: str, output: str, full: bool, beside: str | None) -> None:
    """Run a benchmark; exit code 1 when a goal does not hold."""
    chosen = BENCHES[name]
    if beside is not None:
        if name != "api":
            raise stop("--beside goes with the benchmark api only")
        chosen = bench_api.run_beside_kube_scheduler
    try:
        document = run_bench(name, chosen, full)
    except ControlPlaneError as error:
        raise stop(*str(error).splitlines()) from None
    if output == "table":
        table = Table(
            box=box.SIMPLE, title=f"bench {name}, {document['seconds']} s, {document['machine']['cpu']}"
        )
        for column in ("figure", "value", "unit", "goal", "holds"):
            table.add_column(column, justify="right" if column == "value" else "left")
        for row in document["results"]:
            holds = {True: "yes", False: "NO", None: ""}[row["holds"]]
            table.add_row(row["name"], f"{row['value']:,g}", row["unit"], row["goal"] or "", holds)
        stdout_console().print(table)
    else:
        print_document(document, output)
    if any(row["holds"] is False for row in document["results"]):
        raise click.exceptions.Exit(1)

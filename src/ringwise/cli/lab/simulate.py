"""`ringwise simulate`: how long jobs would wait, under several configurations, in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.inputs import load_configuration
from ringwise.cli.options import FILE, configuration_option, flag, option, output_option
from ringwise.cli.output import progress_bars, stop
from ringwise.cli.query.queries import show
from ringwise.grammar import quoted

if TYPE_CHECKING:
    from ringwise.apps.simulate.comparison import Plan
    from ringwise.apps.simulate.hardware import FaultRates, Hardware
    from ringwise.framework.configuration import Configuration
    from ringwise.views.documents.simulation import SimulationDocument

#: Options that describe what a drill file describes itself.
_OF_TRACES = (
    "nodes", "board", "leaf_size", "superpod_size", "load", "format", "column", "only", "jobs",
    "set", "compare", "tor_affinity", "known_durations", "fault"
)  # fmt: skip


@click.command("simulate")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@option("--nodes", "Number of nodes.  [default: from --load]", click.IntRange(1))
@option("--board", "Board of the nodes (see `ringwise boards`).  [default: 910-x8]")
@option("--leaf-size", "Nodes per leaf switch.", click.IntRange(1))
@option("--superpod-size", "Nodes per SuperPoD.", click.IntRange(1))
@option(
    "--load", "Average ratio of allocated chips.  [default: 0.85]", click.FloatRange(0, 10, min_open=True)
)
@option("--format", "Format of the trace.", click.Choice(["itp", "philly", "openb", "swf"]))
@option(
    "--column",
    "Column of the trace that contains a field (submitted, duration or chips); can be repeated.",
    multiple=True,
    metavar="FIELD=COLUMN",
)
@option("--only", "Only rows with this value in this column.", multiple=True, metavar="NAME=VALUE")
@option("--jobs", "Use only this number of jobs.", click.IntRange(1))
@option(
    "--tor-affinity", "Label tor-affinity of gangs.", click.Choice(["normal-schema", "large-model-schema"])
)
@flag("--known-durations", "Jobs have an expected duration.  [default: they do not]")
@option(
    "--fault",
    "Mean time between failures and to repair of each chip, node or switch, such as node=300d/6h.",
    multiple=True,
    metavar="KIND=MTBF/MTTR",
)
@configuration_option
@option("--set", "Setting of the configuration; can be repeated.", multiple=True, metavar="NAME=VALUE")
@option(
    "--compare",
    "Compare with first-fit, random, or other settings; can be repeated.",
    multiple=True,
    metavar="POLICY|NAME=VALUE,...",
)
@option("--seed", "Seed of the random numbers.  [default: 0]")
@option("--html-file", "Write an HTML page with plots.", FILE)
@output_option
def simulate_command(file: Path, html_file: Path | None, output: str, **options: Any) -> None:
    """Simulate the jobs of a file and show their pending times.

    FILE is a drill file with a workload, or a trace: a CSV file in the format of ITP, Philly or OpenB, or a
    file in the Standard Workload Format (SWF). The real scheduler makes the decisions, in a separate run for
    each configuration that is compared. The results also show the counting bound: a cluster in which only the
    number of free chips counts.

    Ctrl-C stops the simulation, prints the results so far, and exits with code 130.
    """
    from ringwise.apps.simulate.comparison import (
        Comparison,
        ImpossibleClusterError,
        ImpossibleSimulationError,
    )
    from ringwise.apps.simulate.document import simulation_document

    plan = _plan(file, options)
    try:
        comparison = Comparison(plan)
    except ImpossibleSimulationError as error:
        # A trace says nothing of the cluster: options do.
        where = "ringwise" if isinstance(error, ImpossibleClusterError) and not _is_drill(file) else file
        raise stop(f"{where}: {error}") from None
    if html_file is not None and not html_file.parent.is_dir():
        raise stop(f"{html_file}: cannot be written: no such directory")
    code = ExitCode.OK
    try:
        with progress_bars() as progress:
            comparison.run(progress)
    except KeyboardInterrupt:
        if not comparison.outcomes:
            raise
        code = ExitCode.INTERRUPTED
    document = simulation_document(comparison)
    show(document, output, "simulation.print_simulation")
    # After the tables: what took minutes is not lost to a page that cannot be written.
    if html_file is not None:
        _write_page(html_file, document)
    if code:
        raise click.exceptions.Exit(code)


def _write_page(path: Path, document: SimulationDocument) -> None:
    from ringwise.apps.simulate.page import page_text

    try:
        path.write_text(page_text(document), encoding="utf-8")
    except OSError as error:
        raise stop(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}") from None


def _plan(file: Path, options: dict[str, Any]) -> Plan:
    from ringwise.apps.simulate.file import read_plan
    from ringwise.manifests.text.errors import DocumentError

    configuration = load_configuration(options["config"])
    if not _is_drill(file):
        return _plan_of_trace(file, configuration, options)
    flags = [name for name in _OF_TRACES if options[name]]
    if flags:
        written = ", ".join(f"--{name.replace('_', '-')}" for name in flags)
        raise stop(f"ringwise: {written}: requires a trace; a drill file defines it")
    try:
        return read_plan(file, configuration, options["seed"])
    except DocumentError as error:
        raise stop(*error.errors) from None


def _is_drill(file: Path) -> bool:
    return file.suffix in (".yaml", ".yml")


def _plan_of_trace(file: Path, configuration: Configuration, options: dict[str, Any]) -> Plan:
    from dataclasses import replace

    from ringwise.apps.simulate.comparison import Cluster, Plan, Variant
    from ringwise.apps.simulate.file import BASE_VARIANT, named_apart, variant_from_text
    from ringwise.apps.simulate.traces import TraceError, read_trace
    from ringwise.framework.arguments import InvalidArgument
    from ringwise.framework.configuration import with_settings

    try:
        changed = with_settings(configuration.settings, _pairs("--set", options["set"]))
    except InvalidArgument as error:
        raise stop(f"ringwise: --set: {error}") from None
    base = replace(configuration, settings=changed)
    variants = [Variant(BASE_VARIANT, base)]
    for text in options["compare"]:
        try:
            variants.append(variant_from_text(base, text))
        except ValueError as error:
            raise stop(f"ringwise: --compare: {error}") from None
    columns, only = _pairs("--column", options["column"]), _pairs("--only", options["only"])
    try:
        trace = read_trace(file, options["format"], columns, only)
    except TraceError as error:
        raise stop(error) from None
    cluster = Cluster(
        options["board"] or "910-x8", options["nodes"], options["leaf_size"], options["superpod_size"]
    )
    return Plan(
        file.name,
        cluster,
        named_apart(variants),
        trace=tuple(trace.jobs[: options["jobs"]]),
        omitted=dict(trace.omitted),
        load=options["load"] or 0.85,
        seed=options["seed"] or "0",
        tor_affinity=options["tor_affinity"],
        known_durations=options["known_durations"],
        rates=_rates(options["fault"]),
    )


def _rates(texts: tuple[str, ...]) -> dict[Hardware, FaultRates]:
    from ringwise.apps.simulate.file import rate_from_text

    try:
        return dict(map(rate_from_text, texts))
    except ValueError as error:
        raise stop(f"ringwise: --fault: {error}") from None


def _pairs(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    result = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise stop(f"ringwise: {option}: invalid value {quoted(text)}: expected NAME=VALUE")
        result[name.strip()] = value.strip()
    return result

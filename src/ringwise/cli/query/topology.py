"""`ringwise topology`: write the ConfigMap of the leaf switches, draw switches and SuperPoDs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from ringwise.cli.options import option, query_options
from ringwise.cli.output import complain, stop
from ringwise.cli.query.queries import ask, show
from ringwise.manifests.config_maps.switch_lists import render_tor_configmap, topology_from_list
from ringwise.manifests.config_maps.switches import DOUBLE_LAYER, SINGLE_LAYER, tor_config_map
from ringwise.manifests.text.errors import DocumentError, ManifestError, document_error, one_line
from ringwise.manifests.text.sources import read_file

_SHOWN_PROBLEMS = 8


@click.group()
def topology_command() -> None:
    """Show or import leaf switches and SuperPoDs."""


@topology_command.command("import")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@option(
    "--leaf-size nodes_per_switch",
    "Nodes per leaf switch (tor_count).  [default: size of the largest switch]",
    click.IntRange(min=1),
)
@option(
    "--level",
    "Network level; with single_layer, a job uses at most one leaf switch.",
    click.Choice([DOUBLE_LAYER, SINGLE_LAYER]),
    DOUBLE_LAYER,
)
@option("-o --output", "Output format.", click.Choice(["yaml", "json"]), "yaml")
def import_list(file: str, nodes_per_switch: int | None, level: str, output: str) -> None:
    """Create the ConfigMap basic-tor-node-cm from a list of switches.

    A CSV file has `switch,server` per line, with or without a header. A YAML file is either a map of switches
    to lists of servers, or a list of rows with switch and server.
    """
    try:
        made = topology_from_list(
            _text_of(file),
            "stdin" if file == "-" else file,
            nodes_per_switch,
            single_layer=level == SINGLE_LAYER,
        )
    except (DocumentError, ManifestError) as error:
        raise stop(error) from None
    if made.problems:
        raise stop(*(one_line(problem.message) for problem in made.problems))
    if output == "json":
        click.echo(json.dumps(tor_config_map(made), indent=2, ensure_ascii=False))
    else:
        click.echo(render_tor_configmap(made), nl=False)


def _text_of(file: str) -> str:
    data = sys.stdin.buffer.read() if file == "-" else read_file(Path(file))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise document_error(file, f"is not UTF-8 text: {problem.reason}") from None


@topology_command.command("show")
@query_options
def show_command(output: str, **options: Any) -> None:
    """Show leaf switches and SuperPoDs with their nodes and jobs."""
    document = ask(options, lambda source: source.topology())
    problems = document.problems
    notes = [f"problem: {one_line(problem['message'])}" for problem in problems[:_SHOWN_PROBLEMS]]
    if len(problems) > _SHOWN_PROBLEMS:
        notes.append(f"{len(problems) - _SHOWN_PROBLEMS} more problems; ringwise doctor lists them")
    if output == "table" and document.switches is None and not document.superpods:
        words = "no valid ConfigMap kube-system/basic-tor-node-cm and no SuperPoD IDs"
        raise stop(f"ringwise: {'; '.join([words, *notes])}")
    complain(*notes)
    show(document, output, "topology.print_topology")

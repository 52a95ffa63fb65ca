"""`ringwise topology`: make the leaf-switch ConfigMap, and draw what there is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from ringwise.cli.output import stop
from ringwise.cli.topology_show import show_command
from ringwise.manifests.errors import ManifestError, one_line
from ringwise.manifests.switch_lists import topology_from_list
from ringwise.manifests.switches import DOUBLE_LAYER, SINGLE_LAYER, render_tor_configmap, tor_config_map


@click.group()
def topology() -> None:
    """Leaf switches and SuperPoDs: make the switches' ConfigMap, see what runs where."""


@topology.command("import")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "--num",
    "nodes_per_switch",
    type=click.IntRange(min=1),
    help="Nodes per leaf switch (tor_count). Default: as many as the largest switch lists.",
)
@click.option(
    "--level",
    type=click.Choice([DOUBLE_LAYER, SINGLE_LAYER]),
    default=DOUBLE_LAYER,
    show_default=True,
    help="Whether jobs may cross leaf switches at all.",
)
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def import_list(file: str, nodes_per_switch: int | None, level: str, output: str) -> None:
    """Write ConfigMap basic-tor-node-cm from FILE, a CSV or YAML list of switches and their servers.

    CSV has `switch,server` per line, with or without a heading. YAML is either a
    map of switches to lists of servers, or a list of rows with switch and server.
    """
    try:
        made = topology_from_list(
            _text_of(file),
            "stdin" if file == "-" else file,
            nodes_per_switch,
            single_layer=level == SINGLE_LAYER,
        )
    except ManifestError as error:
        raise stop(error) from None
    if made.problems:
        raise stop(*(one_line(problem.message) for problem in made.problems))
    if output == "json":
        click.echo(json.dumps(tor_config_map(made), indent=2, ensure_ascii=False))
    else:
        click.echo(render_tor_configmap(made), nl=False)


def _text_of(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise ManifestError(file, "", f"is not UTF-8 text: {problem.reason}") from None
    except OSError as problem:
        cause = (problem.strerror or str(problem)).lower()
        raise ManifestError(file, "", f"cannot be read: {cause}") from None


topology.add_command(show_command)

"""`ringwise topology`: make the leaf-switch ConfigMap, and draw switches."""

from __future__ import annotations

import json
import string
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ringwise.apps.switch_views import switches_now
from ringwise.cli.output import BAD_INPUT, complain, output_option, print_document, stop
from ringwise.cli.place import load_bundle, load_catalog, load_configuration
from ringwise.manifests.errors import ManifestError, one_line
from ringwise.manifests.switch_lists import topology_from_list
from ringwise.manifests.switches import DOUBLE_LAYER, SINGLE_LAYER, render_tor_configmap, tor_config_map
from ringwise.placement.switches import State, SwitchState
from ringwise.topology.switches import ResolvedTopology


@click.group()
def topology() -> None:
    """Leaf switches: make their ConfigMap, see their states."""


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


@topology.command("show")
@click.option("-f", "--file", "files", multiple=True, required=True, help="File, folder, or - for stdin.")
@output_option
@click.option("--config", "config", type=click.Path(path_type=Path), help="A volcano-scheduler.conf.")
@click.option("--keep-going", is_flag=True, help="Skip bad documents; exit code 2.")
def show(files: tuple[str, ...], output: str, config: Path | None, keep_going: bool) -> None:
    """Draw switches, their nodes and states, from manifests of the cluster."""
    configuration = load_configuration(config)
    bundle = load_bundle(files, keep_going)
    now = switches_now(bundle, configuration, load_catalog(()))
    if now is None:
        raise stop("the input has no ConfigMap kube-system/basic-tor-node-cm")
    complain(*(f"problem: {one_line(problem.message)}" for problem in now.resolved.problems))
    if output == "table":
        click.echo(draw_switches(now.resolved, now.states, now.free_nodes, now.jobs_of_node), nl=False)
    else:
        rows = switch_rows(now.resolved, now.states, now.free_nodes, now.jobs_of_node)
        print_document({"switches": rows}, output)
    if bundle.errors:
        raise click.exceptions.Exit(BAD_INPUT)


def switch_rows(
    resolved: ResolvedTopology,
    states: Sequence[SwitchState],
    free_nodes: Collection[str],
    jobs_of_node: Mapping[str, Sequence[str]],
) -> list[dict[str, Any]]:
    """Every switch with its state and nodes, for -o json and yaml."""
    return [
        {
            "ip": switch.ip,
            "state": facts.state.word,
            "healthy": facts.healthy,
            "free_nodes": sum(1 for seat in seats if seat.node in free_nodes),
            "nodes": [
                {
                    "node": seat.node,
                    "position": seat.index,
                    "free": seat.node in free_nodes,
                    "jobs": list(jobs_of_node.get(seat.node, ())),
                }
                for seat in seats
            ],
        }
        for switch, seats, facts in zip(resolved.topology.switches, resolved.nodes, states, strict=True)
    ]


def draw_switches(
    resolved: ResolvedTopology,
    states: Sequence[SwitchState],
    free_nodes: Collection[str],
    jobs_of_node: Mapping[str, Sequence[str]],
) -> str:
    """One line per switch, one sign per server in array order, and what the signs mean."""
    letters: dict[str, str] = {}
    lines: list[tuple[str, str, str, str]] = []
    for switch, seats, facts in zip(resolved.topology.switches, resolved.nodes, states, strict=True):
        places = {seat.index: seat.node for seat in seats}
        width = max((server.index + 1 for server in switch.servers), default=0)
        signs = [
            _sign(places[place], free_nodes, jobs_of_node, letters) if place in places else "-"
            for place in range(width)
        ]
        free = sum(1 for seat in seats if seat.node in free_nodes)
        lines.append((switch.ip, _words(facts), " ".join(signs), f"{free} of {len(seats)} free"))
    widths = [max((len(line[column]) for line in lines), default=0) for column in range(3)]
    drawn = ["  ".join([*(line[i].ljust(widths[i]) for i in range(3)), line[3]]) for line in lines]
    meaning = [f"{letter} {job}" for job, letter in letters.items()]
    meaning += [". free", "x not free"]
    if any("-" in line[2].split() for line in lines):
        meaning.append("- no node of the cluster")
    return "\n".join([*drawn, "", ", ".join(meaning)]) + "\n"


def _sign(
    node: str, free_nodes: Collection[str], jobs_of_node: Mapping[str, Sequence[str]], letters: dict[str, str]
) -> str:
    jobs = jobs_of_node.get(node, ())
    if not jobs:
        return "." if node in free_nodes else "x"
    return letters.setdefault(jobs[0], _letter(len(letters)))


def _letter(number: int) -> str:
    """A to Z, then A1 to Z1, and so on."""
    turn, place = divmod(number, len(string.ascii_uppercase))
    return string.ascii_uppercase[place] + (str(turn) if turn else "")


def _words(facts: SwitchState) -> str:
    if facts.state is State.SHARED:
        return "shared, healthy" if facts.healthy else "shared, unhealthy"
    return facts.state.word

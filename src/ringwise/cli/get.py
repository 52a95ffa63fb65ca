"""`ringwise get` and `ringwise describe`: what the running lab holds."""

from __future__ import annotations

from pathlib import Path

import click

from ringwise.cli.output import output_option
from ringwise.cli.queries import ask_lab, lab_option

_PLURALS = {"node": "nodes", "job": "jobs", "queue": "queues", "pod": "pods"}
_NAMESPACE = click.option("-n", "--namespace", help="Only this namespace.  [default: all]")


@click.command("get")
@click.argument("kind", type=click.Choice([*_PLURALS.values(), *_PLURALS]), metavar="nodes|jobs|queues|pods")
@_NAMESPACE
@lab_option
@output_option
def get_command(kind: str, namespace: str | None, lab: Path | None, output: str) -> None:
    """List the lab's nodes, jobs, queues or pods."""
    ask_lab(lab, "get", output, kind=_PLURALS.get(kind, kind), namespace=namespace)


@click.command("describe")
@click.argument("kind", type=click.Choice([*_PLURALS]), metavar="node|job|queue|pod")
@click.argument("name", metavar="[NAMESPACE/]NAME")
@_NAMESPACE
@lab_option
@output_option
def describe_command(kind: str, name: str, namespace: str | None, lab: Path | None, output: str) -> None:
    """Tell all about one object of the lab."""
    ask_lab(lab, "describe", output, kind=kind, name=name, namespace=namespace)

"""`ringwise fault inject|clear|list`: simulated hardware of a lab, and the faults of a cluster."""

from __future__ import annotations

from typing import Any

import click

from ringwise.cli.change.targets import LabTarget
from ringwise.cli.completion import LabName
from ringwise.cli.options import (
    change_options,
    flag,
    option,
    query_options,
)
from ringwise.cli.output import stop
from ringwise.cli.query.queries import ask, only_lab, show
from ringwise.grammar import quoted
from ringwise.views.documents.maintenance import FaultChangeDocument

_KINDS = click.Choice(["chip", "network", "node", "switch", "superpod"])
_TARGET = click.argument("target", type=LabName("node"), metavar="TARGET")
_CHIPS = click.argument("chips", nargs=-1, metavar="[CHIP...]")


@click.group()
def fault_command() -> None:
    """List, inject and clear hardware faults."""


@fault_command.command("inject")
@click.argument("kind", type=_KINDS, metavar="chip|network|node|switch|superpod")
@_TARGET
@_CHIPS
@option("--level", "Level of a chip fault, such as RestartNPU.  [default: the level of --code]")
@option("--code", "Fault code, such as 80E01801.  [default: a code of --level]")
@option("--status", "Status to set: not-ready (nodes only), UnHealthy, PreSeparate or SubHealthy.")
@change_options
def inject_command(kind: str, target: str, chips: tuple[str, ...], output: str, **options: Any) -> None:
    """Inject a fault into the lab.

    \b
    chip NODE CHIP...      chips (3, 0-3 or 0,2,5), with a level and a code
    network NODE [CHIP...] network ports of these chips, or of all chips
    node NODE              a node: not Ready, or a status of NodeD (--status)
    switch NODE|ADDRESS    switches of a node, or of all nodes of a leaf switch
    superpod ID            all nodes of a SuperPoD, as with node
    """
    described = {name: options.pop(name) for name in ("level", "code", "status")}
    _change(options, output, "inject", kind=kind, target=target, chips=_numbers(chips), **described)


@fault_command.command("clear")
@click.argument("kind", type=_KINDS, required=False, metavar="[chip|network|node|switch|superpod]")
@click.argument("target", type=LabName("node"), required=False, metavar="[TARGET]")
@_CHIPS
@option("--code", "Only chip faults with this code.")
@flag("--all everything", "Clear all faults of the lab.")
@change_options
def clear_command(
    kind: str | None,
    target: str | None,
    chips: tuple[str, ...],
    code: str | None,
    everything: bool,
    output: str,
    **options: Any,
) -> None:
    """Clear faults of the lab.

    TARGET and CHIP are the same as for `fault inject`. Without CHIP, all faults of the target are cleared.
    """
    if everything and (kind is not None or code is not None):
        raise stop("ringwise: --all cannot be combined with a kind, a target or --code")
    if not everything and (kind is None or target is None):
        raise stop("ringwise: a kind and a target, such as chip node-3, or --all is required")
    _change(options, output, "clear", kind=kind, target=target or "", chips=_numbers(chips), code=code)


@fault_command.command("list")
@query_options
def list_command(output: str, **options: Any) -> None:
    """List the faults that nodes report, and the affected jobs."""
    document = ask(options, lambda source: source.faults())
    show(document, output, "faults.print_faults")


def _change(options: dict[str, Any], output: str, action: str, **request: Any) -> None:
    from ringwise.apps.lab.requests import FaultRequest

    only_lab(options, "its hardware is simulated")
    target = LabTarget(options["lab"])
    answer = target.change(action, FaultRequest(**request), "changing the lab", FaultChangeDocument)
    show(answer, output, "faults.print_changes")


def _numbers(chips: tuple[str, ...]) -> list[int]:
    return [chip for text in chips for chip in chips_argument(text)]


def chips_argument(text: str) -> list[int]:
    result: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(part) > 9:
            raise stop(f"ringwise: invalid chip list {quoted(text)}: expected 3, 0-3 or 0,2,5")
        result += range(int(first), int(last or first) + 1)
    return result

"""`ringwise chips list`, `ringwise isolate`, `ringwise release`: the chips of a cluster."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.output import complain, output_option, print_document, stdout_console, stop
from ringwise.cli.queries import lab_client

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group()
def chips() -> None:
    """The chips of a cluster, as their nodes report them."""


@chips.command("list")
@click.option("--node", help="Only the chips of this node.")
@click.option("--kubeconfig", help="Default: $KUBECONFIG, the pod's account, ~/.kube/config.")
@click.option("--context", help="A context of the kubeconfig.")
@output_option
def list_command(node: str | None, kubeconfig: str | None, context: str | None, output: str) -> None:
    """Every chip with its state, its pod and its faults."""
    from ringwise.apps.chips import ChipsError, chips_document, list_chips
    from ringwise.kubeclient.client import ApiError, UnreachableError
    from ringwise.kubeclient.config import find_access
    from ringwise.kubeclient.credentials import KubeConfigError

    try:
        found = list_chips(find_access(kubeconfig, context), node)
    except (ChipsError, KubeConfigError) as problem:
        raise stop(problem) from None
    except (ApiError, UnreachableError) as problem:
        raise stop(f"the API server cannot be asked: {problem}", code=ExitCode.FAILED) from None
    for unread in found.problems:
        complain(f"warning: {unread}")
    if output != "table":
        print_document(chips_document(found.rows), output)
        return
    from ringwise.cli.drawing.tables import Column, Table

    columns = [Column("node"), Column("chip"), Column("state"), Column("network"), Column("pod", moves=True)]
    table = Table([*columns, Column("faults", moves=True)], note="note")
    for row in found.rows:
        network = "ok" if row.network else "unhealthy"
        table.add(row.node, row.chip, row.state, network, row.pod, row.faults, note=row.note)
    table.print(stdout_console())


def _options(command: Command) -> Command:
    for option in reversed(
        (
            click.argument("node"),
            click.argument("chip", required=False, default=""),
            click.option("--reason", required=True, help="Why; it is kept and shown."),
            click.option("--by", default=getpass.getuser, show_default="you", help="Who does it."),
            click.option("--kubeconfig", help="Default: $KUBECONFIG, the pod's account, ~/.kube/config."),
            click.option("--context", help="A context of the kubeconfig."),
            click.option(
                "--lab",
                type=click.Path(path_type=Path, file_okay=False),
                help="Folder of a lab: do it there, not in a cluster.",
            ),
        )
    ):
        command = option(command)
    return command


@click.command("isolate")
@_options
def isolate_command(
    node: str, chip: str, reason: str, by: str, lab: Path | None, **access: str | None
) -> None:
    """Take CHIP (like Ascend910-3) of NODE out of use, or all chips of NODE.

    Pods that use it keep it; no new pod gets it.
    """
    from ringwise.apps.chips import isolate

    what = _what(node, chip)
    changed = (
        _carried_out(access, lambda way: isolate(way, node, chip, by=by, at=_now(), reason=reason))
        if lab is None
        else _done_in_lab(lab, access, "isolate", node=node, chip=chip, by=by, reason=reason)
    )
    click.echo(f"{what} isolated" if changed else f"{what} is isolated already")


@click.command("release")
@_options
def release_command(
    node: str, chip: str, reason: str, by: str, lab: Path | None, **access: str | None
) -> None:
    """Give CHIP of NODE back, or NODE, that was isolated."""
    from ringwise.apps.chips import release

    what = _what(node, chip)
    changed = (
        _carried_out(access, lambda way: release(way, node, chip, by=by, at=_now(), reason=reason))
        if lab is None
        else _done_in_lab(lab, access, "release", node=node, chip=chip, by=by, reason=reason)
    )
    click.echo(f"{what} released" if changed else f"{what} is not isolated")


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _what(node: str, chip: str) -> str:
    from ringwise.manifests.chips import chip_of

    if chip and chip_of(chip) is None:
        raise click.UsageError(f"CHIP: must be a chip's name like Ascend910-3, got {chip!r}")
    return f"chip {chip} of node {node}" if chip else f"node {node}"


def _done_in_lab(lab: Path, access: Mapping[str, str | None], action: str, **parameters: str) -> bool:
    given = [f"--{name}" for name, value in access.items() if value is not None]
    if given:
        raise click.UsageError(f"--lab changes a lab and {given[0]} names a cluster: give one of them")
    with lab_client(lab, "asking the lab") as client:
        return bool(client.do(action, **parameters)["changed"])


def _carried_out(access: Mapping[str, str | None], action: Callable[[Any], bool]) -> bool:
    from ringwise.apps.chips import ChipsError
    from ringwise.kubeclient.client import ApiError, UnreachableError
    from ringwise.kubeclient.config import find_access
    from ringwise.kubeclient.credentials import KubeConfigError

    try:
        return action(find_access(access["kubeconfig"], access["context"]))
    except (ChipsError, KubeConfigError) as problem:
        raise stop(problem) from None
    except (ApiError, UnreachableError) as problem:
        raise stop(f"the API server cannot be asked: {problem}", code=ExitCode.FAILED) from None

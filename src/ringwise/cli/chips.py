"""`ringwise chips list`, `ringwise isolate`, `ringwise release`: the chips of a cluster."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.output import output_option, print_document, stdout_console, stop

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
    from ringwise.apps.chips import ChipsError, chip_rows, chips_document
    from ringwise.kubeclient.client import ApiError, UnreachableError
    from ringwise.kubeclient.config import find_access
    from ringwise.kubeclient.credentials import KubeConfigError

    try:
        rows = chip_rows(find_access(kubeconfig, context), node)
    except (ChipsError, KubeConfigError) as problem:
        raise stop(problem) from None
    except (ApiError, UnreachableError) as problem:
        raise stop(f"the API server cannot be asked: {problem}", code=ExitCode.FAILED) from None
    if output != "table":
        print_document(chips_document(rows), output)
        return
    from ringwise.cli.drawing.tables import Column, Table

    columns = [Column("node"), Column("chip"), Column("state"), Column("network"), Column("pod", moves=True)]
    table = Table([*columns, Column("faults", moves=True)], note="note")
    for row in rows:
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
        )
    ):
        command = option(command)
    return command


@click.command("isolate")
@_options
def isolate_command(
    node: str, chip: str, reason: str, by: str, kubeconfig: str | None, context: str | None
) -> None:
    """Take CHIP (like Ascend910-3) of NODE out of use, or all chips of NODE.

    Pods that use it keep it; no new pod gets it.
    """
    from ringwise.apps.chips import isolate

    what = _what(node, chip)
    changed = _carried_out(
        kubeconfig, context, lambda access: isolate(access, node, chip, by=by, at=_now(), reason=reason)
    )
    click.echo(f"{what} isolated" if changed else f"{what} is isolated already")


@click.command("release")
@_options
def release_command(
    node: str, chip: str, reason: str, by: str, kubeconfig: str | None, context: str | None
) -> None:
    """Give CHIP of NODE back, or NODE, that was isolated."""
    from ringwise.apps.chips import release

    what = _what(node, chip)
    changed = _carried_out(
        kubeconfig, context, lambda access: release(access, node, chip, by=by, at=_now(), reason=reason)
    )
    click.echo(f"{what} released" if changed else f"{what} is not isolated")


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _what(node: str, chip: str) -> str:
    from ringwise.manifests.chips import chip_of

    if chip and chip_of(chip) is None:
        raise click.UsageError(f"CHIP: must be a chip's name like Ascend910-3, got {chip!r}")
    return f"chip {chip} of node {node}" if chip else f"node {node}"


def _carried_out(kubeconfig: str | None, context: str | None, action: Callable[[Any], bool]) -> bool:
    from ringwise.apps.chips import ChipsError
    from ringwise.kubeclient.client import ApiError, UnreachableError
    from ringwise.kubeclient.config import find_access
    from ringwise.kubeclient.credentials import KubeConfigError

    try:
        return action(find_access(kubeconfig, context))
    except (ChipsError, KubeConfigError) as problem:
        raise stop(problem) from None
    except (ApiError, UnreachableError) as problem:
        raise stop(f"the API server cannot be asked: {problem}", code=ExitCode.FAILED) from None

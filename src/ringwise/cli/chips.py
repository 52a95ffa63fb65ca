"""`ringwise chips list`: the chips of a cluster, who has them, and what is wrong with them."""

from __future__ import annotations

import click
from rich.table import Table

from ringwise.cli.output import output_option, print_document, stdout_console, stop


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
    from ringwise.apps.chips import ChipsError, chip_rows
    from ringwise.kubeclient.client import ApiError, UnreachableError
    from ringwise.kubeclient.config import find_access
    from ringwise.kubeclient.credentials import KubeConfigError

    try:
        rows = chip_rows(find_access(kubeconfig, context), node)
    except (ChipsError, KubeConfigError) as problem:
        raise stop(problem) from None
    except (ApiError, UnreachableError) as problem:
        raise stop(f"the API server cannot be asked: {problem}", code=1) from None
    if output != "table":
        print_document({"chips": [row.as_json() for row in rows]}, output)
        return
    table = Table("NODE", "CHIP", "STATE", "POD", "NETWORK", "FAULTS", "NOTE", box=None, pad_edge=False)
    for row in rows:
        network = "ok" if row.network else "unhealthy"
        table.add_row(row.node, row.chip, row.state, row.pod, network, row.faults, row.note)
    stdout_console().print(table)

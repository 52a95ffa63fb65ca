"""`ringwise chips list`, `ringwise isolate`, `ringwise release`: the chips of a cluster."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.output import complain, output_option, print_document, stdout_console, stop
from ringwise.cli.queries import lab_client

if TYPE_CHECKING:
    from ringwise.views.documents.cluster import ChipsDocument

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group()
def chips() -> None:
    """The chips of a cluster, as their nodes report them."""


_LAB = click.option(
    "--lab",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of a lab: do it there, not in a cluster.",
)


@chips.command("list")
@click.option("--node", help="Only the chips of this node.")
@click.option("--kubeconfig", help="Default: $KUBECONFIG, the pod's account, ~/.kube/config.")
@click.option("--context", help="A context of the kubeconfig.")
@_LAB
@output_option
def list_command(node: str | None, lab: Path | None, output: str, **access: str | None) -> None:
    """Every chip with its state, its pod and its faults."""
    document = _listed_in_lab(lab, access, node) if lab is not None else _listed(access, node)
    if output != "table":
        print_document(document, output)
        return
    from ringwise.cli.drawing.tables import Column, Table

    columns = [Column("node"), Column("chip"), Column("state"), Column("network"), Column("pod", moves=True)]
    table = Table([*columns, Column("faults", moves=True)], note="note")
    for row in document["chips"]:
        network = "ok" if row["network_healthy"] else "unhealthy"
        shown = (row["node"], row["chip"], row["state"], network, row["pod"] or "", row["faults"] or "")
        table.add(*shown, note=row["note"] or "")
    table.print(stdout_console())


def _listed(access: Mapping[str, str | None], node: str | None) -> ChipsDocument:
    from ringwise.apps.chips import ChipsError, list_chips
    from ringwise.kubeclient.client import ApiError, UnreachableError
    from ringwise.kubeclient.config import find_access
    from ringwise.kubeclient.credentials import KubeConfigError
    from ringwise.views.chips import chips_document

    try:
        found = list_chips(find_access(access["kubeconfig"], access["context"]), node)
    except (ChipsError, KubeConfigError) as problem:
        raise stop(problem) from None
    except (ApiError, UnreachableError) as problem:
        raise stop(f"the API server cannot be asked: {problem}", code=ExitCode.FAILED) from None
    for unread in found.problems:
        complain(f"warning: {unread}")
    return chips_document(row.as_json() for row in found.rows)


def _listed_in_lab(lab: Path, access: Mapping[str, str | None], node: str | None) -> ChipsDocument:
    _check_no_cluster(access)
    with lab_client(lab, "asking the lab") as client:
        document: ChipsDocument = client.ask("chips", node=node)
    return document


def _options(command: Command) -> Command:
    for option in reversed(
        (
            click.argument("target", metavar="NODE|switch/ADDRESS|superpod/ID"),
            click.argument("chip", required=False, default=""),
            click.option("--reason", required=True, help="Why; it is kept and shown."),
            click.option("--by", default=getpass.getuser, show_default="you", help="Who does it."),
            click.option("--kubeconfig", help="Default: $KUBECONFIG, the pod's account, ~/.kube/config."),
            click.option("--context", help="A context of the kubeconfig."),
            _LAB,
        )
    ):
        command = option(command)
    return command


@click.command("isolate")
@_options
def isolate_command(
    target: str, chip: str, reason: str, by: str, lab: Path | None, **access: str | None
) -> None:
    """Take CHIP (like Ascend910-3) of NODE out of use, or NODE, a leaf switch or a SuperPoD.

    Pods that use it keep it; no new pod gets it.
    """
    changed = _change("isolate", target, chip, by, reason, lab, access)
    what = _what(target, chip)
    click.echo(f"{what} isolated" if changed else f"{what} is isolated already")


@click.command("release")
@_options
def release_command(
    target: str, chip: str, reason: str, by: str, lab: Path | None, **access: str | None
) -> None:
    """Give back what was isolated: CHIP of NODE, NODE, a leaf switch or a SuperPoD."""
    changed = _change("release", target, chip, by, reason, lab, access)
    what = _what(target, chip)
    click.echo(f"{what} released" if changed else f"{what} is not isolated")


def _change(
    action: str,
    target: str,
    chip: str,
    by: str,
    reason: str,
    lab: Path | None,
    access: Mapping[str, str | None],
) -> bool:
    from ringwise.apps.chips import isolate, release
    from ringwise.apps.targets import isolation_of, named

    _what(target, chip)
    if lab is not None:
        return _done_in_lab(lab, access, action, target=target, chip=chip, by=by, reason=reason)
    wanted = isolation_of(*named(target), chip, by=by, at=_now(), reason=reason)
    change = isolate if action == "isolate" else release
    return _carried_out(access, lambda way: change(way, wanted))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _what(target: str, chip: str) -> str:
    from ringwise.apps.targets import NODE, Target, named
    from ringwise.manifests.chips import chip_of

    kind, name = named(target)
    if chip and kind != NODE:
        raise click.UsageError(f"CHIP: goes with a node, and {target} is a {kind}")
    if chip and chip_of(chip) is None:
        raise click.UsageError(f"CHIP: must be a chip's name like Ascend910-3, got {chip!r}")
    return f"chip {chip} of node {name}" if chip else str(Target(kind, name, ()))


def _done_in_lab(lab: Path, access: Mapping[str, str | None], action: str, **parameters: str) -> bool:
    _check_no_cluster(access)
    with lab_client(lab, "asking the lab") as client:
        return bool(client.do(action, **parameters)["changed"])


def _check_no_cluster(access: Mapping[str, str | None]) -> None:
    given = [f"--{name}" for name, value in access.items() if value is not None]
    if given:
        raise click.UsageError(f"--lab names a lab and {given[0]} a cluster: give one of them")


def _carried_out(access: Mapping[str, str | None], action: Callable[[Any], bool]) -> bool:
    from ringwise.apps.chips import ChipsError
    from ringwise.kubeclient.client import ApiError, UnreachableError
    from ringwise.kubeclient.config import find_access
    from ringwise.kubeclient.credentials import KubeConfigError

    try:
        return action(find_access(access["kubeconfig"], access["context"]))
    except KubeConfigError as problem:
        named = access["kubeconfig"] or access["context"]
        raise stop(problem if named else f"{problem}; --lab FOLDER does it in a lab") from None
    except ChipsError as problem:
        raise stop(problem) from None
    except (ApiError, UnreachableError) as problem:
        raise stop(f"the API server cannot be asked: {problem}", code=ExitCode.FAILED) from None

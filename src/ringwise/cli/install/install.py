"""`ringwise install` and `ringwise uninstall`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import click

from ringwise.apps.install.dashboard import Dashboard, is_dns_name
from ringwise.apps.install.deployment import (
    ALL_NODES,
    CREATING_ACCOUNTS,
    IMAGE,
    LABELLED_NODES,
    VENDOR_ACCOUNTS,
    Boards,
    Choices,
    definitions,
    is_image_reference,
    objects,
)
from ringwise.apps.install.steps import InstallError, Step, install, printed, steps_document, uninstall
from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.output import (
    Command,
    api_server_options,
    complain,
    output_option,
    print_document,
    stop,
    with_options,
)
from ringwise.cli.run.components import queue_command_option
from ringwise.kubeclient.client import ApiError, Client, UnreachableError
from ringwise.kubeclient.config import find_access
from ringwise.kubeclient.credentials import KubeConfigError
from ringwise.topology.board import BoardError
from ringwise.topology.board_files import load_board
from ringwise.topology.boards import shipped_catalog
from ringwise.wellknown import VOLCANO_SYSTEM

_where = with_options(
    (
        *api_server_options,
        click.option("--namespace", default=VOLCANO_SYSTEM, show_default=True, help="Namespace of Ringwise."),
        click.option("--with-admission", is_flag=True, help="Also the webhook that refuses impossible jobs."),
    )
)


def _part(names: str, help: str, default: bool = True) -> Callable[[Command], Command]:
    return click.option(names, default=default, show_default=True, help=help)


@click.command("install")
@_where
@click.option("--image", default=IMAGE, show_default=True, help="The image of all components.")
@_part("--with-controller/--no-controller", "Run the vcjob controller; not where Volcano's own runs.")
@_part("--with-device-plugin/--no-device-plugin", "Run the device plugin; not where Huawei's own stays.")
@click.option(
    "--device-plugin-nodes",
    type=click.Choice([ALL_NODES, LABELLED_NODES]),
    default=ALL_NODES,
    show_default=True,
    help="Run it on all nodes with NPUs, or on those with the label ringwise.io/device-plugin=ringwise.",
)
@_part(
    "--with-annotation-policy/--no-annotation-policy",
    "Let only scheduler and device plugin write the annotations with a pod's chips. This and the other "
    "policies are made where the API server has admission policies (Kubernetes 1.30).",
)
@click.option(
    "--annotation-account",
    "annotation_accounts",
    multiple=True,
    default=VENDOR_ACCOUNTS,
    show_default="the usual accounts of a vendor's scheduler and device plugin",
    help="With that policy: another user name that may write them; may be repeated.",
)
@_part(
    "--with-device-plugin-policy/--no-device-plugin-policy",
    "Let the device plugin of a node write only what belongs to that node.",
)
@_part(
    "--with-controller-policy/--no-controller-policy",
    "Limit the controller to ConfigMaps, Secrets, Services and NetworkPolicies that belong to a vcjob, "
    "outside of system namespaces.",
)
@_part(
    "--with-queue-command-policy/--no-queue-command-policy",
    "Let only those who may update a queue create Commands for it (`vcctl queue operate`), and obey "
    "them in every namespace. Without it those of --queue-command-namespace are obeyed.",
)
@queue_command_option
@_part(
    "--with-user-policy/--no-user-policy",
    "With --with-admission: write who creates a job on it (ringwise.io/user), and let nobody name another.",
)
@click.option(
    "--user-account",
    "user_accounts",
    multiple=True,
    default=CREATING_ACCOUNTS,
    show_default="those of Kubernetes' and Volcano's controllers and of the AscendJob operator",
    help="With that policy: a user name that creates pods for others; may be repeated.",
)
@_part(
    "--with-reset-config/--no-reset-config",
    "Let the scheduler tell processes in reset-config-<job> that their job is rescheduled. It then may "
    "read and change every ConfigMap.",
    default=False,
)
@_part(
    "--with-pod-groups/--no-pod-groups",
    "Create PodGroups for Deployments, StatefulSets, Jobs of Kubernetes and pods on their own; else "
    "each pod is scheduled by itself. Without our controller, Volcano's creates them.",
)
@_part(
    "--with-discovery/--no-discovery",
    "Let the controller make HyperNodes from labels of nodes, as the ConfigMap volcano-controller-configmap "
    "says (networkTopologyDiscovery); not where Volcano's controller makes them.",
    default=False,
)
@click.option(
    "--shadow", is_flag=True, help="Only a scheduler that decides, writes nothing and logs the differences."
)
@click.option(
    "--boards",
    "boards",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A board profile of your own for scheduler and webhook; may be repeated. Every run names all.",
)
@click.option(
    "--web-tls-secret",
    default="",
    metavar="NAME",
    help="Serve the dashboard behind the Service ringwise-web, with the certificate of this Secret of type "
    "kubernetes.io/tls in the namespace of Ringwise.",
)
@click.option(
    "--web-host",
    "web_hosts",
    multiple=True,
    metavar="NAME",
    help="With --web-tls-secret: another name that the dashboard is reached by; may be repeated.",
)
@click.option("--print", "only_print", is_flag=True, help="Print the objects and change nothing.")
@output_option
def install_command(
    kubeconfig: str | None,
    context: str | None,
    boards: tuple[Path, ...],
    web_tls_secret: str,
    web_hosts: tuple[str, ...],
    only_print: bool,
    output: str,
    **options: Any,
) -> None:
    """Install Ringwise on a cluster. A second run changes only what differs.

    Volcano's definitions and configuration are used where they exist, and left as they are.
    """
    for option in ("annotation", "user"):
        for account in options[f"{option}_accounts"]:
            if not re.fullmatch(r"[A-Za-z0-9@._:/-]+", account):
                raise stop(f"ringwise: --{option}-account: no user name of Kubernetes: {account!r}")
    if not is_image_reference(image := options["image"]):
        raise stop(
            f"ringwise: --image: no reference of an image: {image!r}; like registry.example/ringwise:1.0"
        )
    profiles, dashboard = _read_boards(boards), _dashboard(web_tls_secret, web_hosts)
    choices = Choices(**options, boards=profiles, dashboard=dashboard)
    if only_print:
        if output == "json":
            items = [*definitions(), *objects(choices)]
            print_document({"apiVersion": "v1", "kind": "List", "items": items}, output)
        else:
            click.echo(printed(choices), nl=False)
        return
    _carry_out(kubeconfig, context, output, lambda client: install(client, choices))
    complain(f"check it with: kubectl -n {choices.namespace} get pods; then: kubectl ringwise doctor")


def _read_boards(files: tuple[Path, ...]) -> Boards:
    """Name and text of each board, by name. What the scheduler would refuse is refused here."""
    try:
        shipped_catalog(files)
    except BoardError as error:
        raise stop(*(f"ringwise: --boards: {line}" for line in str(error).splitlines())) from None
    texts = {load_board(file).name: file.read_text(encoding="utf-8") for file in files}
    for name in texts:
        if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", name):
            raise stop(f"ringwise: --boards: {name!r} cannot be a key of a ConfigMap: letters, digits, - . _")
    return tuple(sorted(texts.items()))


def _dashboard(tls_secret: str, hosts: tuple[str, ...]) -> Dashboard | None:
    for option, names in (("--web-tls-secret", (tls_secret,) if tls_secret else ()), ("--web-host", hosts)):
        for name in names:
            if not is_dns_name(name):
                raise stop(f"ringwise: {option}: no name: {name!r}; small letters, digits, - and .")
    if hosts and not tls_secret:
        raise stop("ringwise: --web-host goes with --web-tls-secret: the dashboard needs a certificate")
    return Dashboard(tls_secret, hosts) if tls_secret else None


@click.command("uninstall")
@_where
@output_option
def uninstall_command(
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    with_admission: bool,
    output: str,
) -> None:
    """Remove Ringwise from a cluster. Jobs, definitions and the configuration stay."""
    choices = Choices(
        namespace,
        with_admission=with_admission,
        with_annotation_policy=True,
        with_device_plugin_policy=True,
        with_controller_policy=True,
        with_queue_command_policy=True,
        with_user_policy=True,
        with_reset_config=True,
        with_discovery=True,
        # Its Secret is not ours and stays, whatever it is called.
        dashboard=Dashboard("any"),
    )
    _carry_out(kubeconfig, context, output, lambda client: uninstall(client, choices))


def _carry_out(
    kubeconfig: str | None,
    context: str | None,
    output: str,
    work: Callable[[Client], AsyncIterator[Step]],
) -> None:
    try:
        steps = asyncio.run(_steps(kubeconfig, context, output == "table", work))
    except (InstallError, KubeConfigError, UnreachableError) as error:
        raise stop(f"ringwise: {error}") from None
    except ApiError as error:
        cure = "; use an account that may do this (cluster-admin)" if error.status == 403 else ""
        raise stop(f"ringwise: the API server refused: {error}{cure}", code=ExitCode.FAILED) from None
    if output != "table":
        print_document(steps_document(steps), output)


async def _steps(
    kubeconfig: str | None, context: str | None, show: bool, work: Callable[[Client], AsyncIterator[Step]]
) -> list[Step]:
    done: list[Step] = []
    async with Client(find_access(kubeconfig, context), component="install") as client:
        async for step in work(client):
            done.append(step)
            if show:
                click.echo(str(step))
    return done

"""The components on a Kubernetes cluster: `ringwise run scheduler`, `run controller`, `run admission`.

Each imports its component when it is called.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.listening import default_address, shown_default
from ringwise.cli.output import Command, api_server_options, board_option, stop, with_options
from ringwise.cli.query.web_options import WEB, take_web
from ringwise.grammar import quoted
from ringwise.log import configure
from ringwise.state.queue_rules import ANY_NAMESPACE, QUEUE_COMMAND_NAMESPACES
from ringwise.wellknown import (
    CONTROLLER_CONFIG_MAP,
    CONTROLLER_LEASE,
    SCHEDULER_CONFIG_MAP,
    SCHEDULER_LEASE,
    SCHEDULER_NAMES,
    VOLCANO_SYSTEM,
)

if TYPE_CHECKING:
    from ringwise.apps.kube_scheduler import ComponentOptions

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


# -- options, under the names of `ComponentOptions` and of the webhook's `Options` -------------------


def _not_empty(_context: click.Context, _option: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    if not all(name.strip() for name in names):
        raise click.BadParameter("a scheduler name must not be empty; omit the option to use the defaults")
    return names


def _namespaced_name(_context: click.Context, option: click.Parameter, text: str) -> tuple[str, str] | None:
    """`NAMESPACE/NAME` in two parts; None for an empty text."""
    if not text:
        return None
    namespace, _, name = text.partition("/")
    if not (namespace and name) or "/" in name:
        raise stop(f"{option.opts[0]}: must be NAMESPACE/NAME, got {quoted(text)}")
    return namespace, name


def _namespaces(_context: click.Context, _option: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name != ANY_NAMESPACE and not _NAMESPACE.fullmatch(name):
            raise click.BadParameter(f"invalid namespace {quoted(name)}; use {ANY_NAMESPACE} for all")
    return names


def _own_namespace() -> str:
    """The namespace the pod runs in, as the chart passes it."""
    return os.environ.get("POD_NAMESPACE") or VOLCANO_SYSTEM


def _seconds(name: str, usual: int, what: str) -> Callable[[Command], Command]:
    return click.option(name, type=click.IntRange(1, 3600), default=usual, show_default=True, help=what)


def _lease_name(usual: str) -> Callable[[Command], Command]:
    return click.option(
        "--leader-elect-resource-name", default=usual, show_default=True, help="Name of the Lease."
    )


def _scheduler_names(what: str) -> Callable[[Command], Command]:
    return click.option(
        "--scheduler-name",
        "scheduler_names",
        multiple=True,
        default=SCHEDULER_NAMES,
        show_default=True,
        callback=_not_empty,
        help=what,
    )


def _configuration_map(what: str) -> Callable[[Command], Command]:
    return click.option(
        "--scheduler-configmap",
        "configuration_map",
        default=f"{VOLCANO_SYSTEM}/{SCHEDULER_CONFIG_MAP}",
        show_default=True,
        callback=_namespaced_name,
        help=what,
    )


_CONTROLLER_MAP = click.option(
    "--controller-configmap",
    "controller_map",
    default="",
    metavar="NAMESPACE/NAME",
    callback=_namespaced_name,
    help=f"ConfigMap with networkTopologyDiscovery, usually {VOLCANO_SYSTEM}/{CONTROLLER_CONFIG_MAP}: "
    "the controller creates HyperNodes from node labels. Empty to disable it.",
)
_HEALTH = click.option(
    "--healthz-address",
    "health_address",
    default=default_address(11251),
    show_default=shown_default(11251),
    help="Listen address of /healthz and /readyz, `:PORT` for all addresses; empty to disable it.",
)
_POD_GROUPS = click.option(
    "--pod-groups/--no-pod-groups",
    default=True,
    show_default=True,
    help="Create PodGroups for Deployments, StatefulSets, Kubernetes Jobs and single pods. Must be the "
    "same for scheduler and controller. A scheduler without a controller requires --no-pod-groups.",
)
_QUEUE_COMMANDS = click.option(
    "--queue-command-namespace",
    "queue_command_namespaces",
    multiple=True,
    default=QUEUE_COMMAND_NAMESPACES,
    show_default=", ".join(QUEUE_COMMAND_NAMESPACES),
    metavar="NAMESPACE",
    callback=_namespaces,
    help="Namespace whose Commands for queues (`vcctl queue operate`) the controller executes; can be "
    "repeated. Use '*' (all namespaces) only if an admission policy checks that the user can update "
    "the queue.",
)
_cluster_options = with_options(
    (
        *api_server_options,
        click.option(
            "--leader-elect/--no-leader-elect",
            default=True,
            show_default=True,
            help="Elect a leader among several replicas.",
        ),
        click.option(
            "--leader-elect-resource-namespace",
            default=_own_namespace,
            show_default="$POD_NAMESPACE or volcano-system",
            help="Namespace of the Lease.",
        ),
        _seconds("--leader-elect-lease-duration", 15, "Seconds until a Lease that is not renewed expires."),
        _seconds("--leader-elect-renew-deadline", 10, "Seconds without renewal until a leader steps down."),
        _seconds("--leader-elect-retry-period", 2, "Seconds between attempts to acquire or renew the Lease."),
        _seconds(
            "--core-stall-timeout",
            15,
            "Seconds without progress of the scheduling thread after which /healthz fails and the Lease is "
            "released; after twice this time the process exits.",
        ),
        click.option(
            "--metrics-address",
            default=default_address(8080),
            show_default=shown_default(8080),
            help="Listen address of /metrics, `:PORT` for all addresses; empty to disable it.",
        ),
        click.option(
            "--volcano-metrics",
            is_flag=True,
            help="Also export metrics under Volcano's names.",
        ),
        _HEALTH,
        click.option(
            "--kube-api-qps",
            "requests_per_second",
            type=click.FloatRange(0, 100_000),
            default=0.0,
            show_default=True,
            help="Queries per second to the API server; 0 for no limit.",
        ),
        click.option(
            "--kube-api-burst",
            "burst",
            type=click.IntRange(0, 100_000),
            default=0,
            show_default=True,
            help="Burst of queries to the API server; 0 for the number of --kube-api-qps.",
        ),
    )
)


# -- commands ------------------------------------------------------------------------------------


@click.command()
@_cluster_options
@_lease_name(SCHEDULER_LEASE)
@_scheduler_names("Schedule pods with this schedulerName; can be repeated.")
@click.option(
    "--scheduler-conf",
    type=click.Path(path_type=Path),
    help="Scheduler configuration (volcano-scheduler.conf). It is reloaded when it changes; an invalid "
    "one is logged and not used.",
)
@_configuration_map("Without --scheduler-conf: NAMESPACE/NAME of the ConfigMap; empty for the defaults.")
@board_option
@click.option(
    "--with-controller/--no-controller",
    default=True,
    show_default=True,
    help="Also run the vcjob controller. Disable it if Volcano's controller runs.",
)
@_POD_GROUPS
@_CONTROLLER_MAP
@_QUEUE_COMMANDS
@click.option("--shadow", is_flag=True, help="Do not bind pods; log where they would be scheduled, and why.")
@click.option(
    "--max-binds-inflight",
    "in_flight",
    type=click.IntRange(1, 1000),
    default=64,
    show_default=True,
    help="Maximum number of concurrent Binding requests.",
)
@click.option(
    "--journal",
    type=click.Path(path_type=Path),
    help="Record all events and decisions in this file, for `ringwise replay` and `ringwise why --history`.",
)
@click.option(
    "--journal-size",
    type=click.IntRange(1, 1 << 20),
    default=64,
    show_default=True,
    metavar="MEGABYTES",
    help="Size in megabytes at which the journal is rotated to FILE.1.",
)
@click.option(
    "--journal-files",
    type=click.IntRange(1, 1000),
    default=8,
    show_default=True,
    help="Number of journal files to keep.",
)
@click.option(
    "--accounting-dir",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIRECTORY",
    help="Store the accounting documents in this directory instead of ConfigMaps.",
)
@with_options(WEB)
def scheduler_command(journal_size: int, **options: Any) -> None:
    """Run the scheduler on a Kubernetes cluster."""
    from ringwise.apps.kube_scheduler import ComponentOptions

    web = take_web(options)
    _run_component(ComponentOptions(**options, web=web, journal_bytes=journal_size << 20))


@click.command()
@_cluster_options
@_lease_name(CONTROLLER_LEASE)
@_scheduler_names("Create PodGroups for pods with this schedulerName; can be repeated.")
@_POD_GROUPS
@_CONTROLLER_MAP
@_QUEUE_COMMANDS
def controller_command(**options: Any) -> None:
    """Run the vcjob controller on a Kubernetes cluster.

    It creates the PodGroups and pods of vcjobs, and applies their policies. It also creates PodGroups for
    pods whose owner does not create them and, with --controller-configmap, HyperNodes from node labels.
    """
    from ringwise.apps.kube_scheduler import ComponentOptions

    _run_component(ComponentOptions(**options, with_scheduler=False))


def _run_component(options: ComponentOptions) -> None:
    """Run until a signal; what is wrong with the options is one line and exit code 2."""
    from ringwise.apps.journal.format import JournalError
    from ringwise.apps.kube_scheduler import run
    from ringwise.kube.run.leader_election import LeaseSettingsError
    from ringwise.kube.run.runner import CoreFailedError
    from ringwise.kubeclient.credentials import KubeConfigError
    from ringwise.manifests.text.errors import DocumentError
    from ringwise.metrics.endpoints import AddressError, parse_address

    configure()
    try:
        for address in filter(None, (options.metrics_address, options.health_address)):
            parse_address(address)
        if options.web is not None:
            options.web.check()
        run(options)
    except (
        KubeConfigError,
        LeaseSettingsError,
        DocumentError,
        AddressError,
        JournalError,
    ) as error:
        raise stop(*str(error).splitlines()) from None
    except OSError as error:
        raise stop(f"{error.filename}: {error.strerror}" if error.filename else str(error)) from None
    except CoreFailedError as error:
        raise stop(f"the scheduler failed: {error}", code=ExitCode.INTERNAL_ERROR) from None


@click.command("admission")
@with_options(api_server_options)
@click.option(
    "--namespace",
    default=_own_namespace,
    show_default="$POD_NAMESPACE or volcano-system",
    help="Namespace of the Service and of the Secret with the certificates.",
)
@_configuration_map("NAMESPACE/NAME of the scheduler's configuration; empty for the defaults.")
@_scheduler_names("Check jobs and pods with this schedulerName; can be repeated.")
@click.option(
    "--address",
    default=default_address(9443),
    show_default=shown_default(9443),
    help="Listen address for the API server, `:PORT` for all addresses.",
)
@_HEALTH
@click.option(
    "--host",
    "hosts",
    multiple=True,
    help="Additional host name of the self-signed certificate; can be repeated.",
)
@click.option(
    "--tls-cert-file",
    "certificate",
    type=click.Path(path_type=Path),
    help="Certificate of the webhook (PEM); reloaded when it changes.  [default: created and renewed by "
    "the webhook]",
)
@click.option(
    "--tls-private-key-file",
    "key",
    type=click.Path(path_type=Path),
    help="Private key of the certificate (PEM).",
)
@board_option
@click.option(
    "--enable-queue-allocated-pods-check",
    "protect_used_queues",
    is_flag=True,
    help="Reject the deletion of a queue that has pods, even if it is Closed.",
)
def admission_command(**options: Any) -> None:
    """Run the webhook that rejects jobs that can never run.

    Without --tls-cert-file the webhook creates and renews its own certificate, which its replicas share in a
    Secret.
    """
    from ringwise.apps.admission.webhook import Options, run
    from ringwise.kubeclient.credentials import KubeConfigError
    from ringwise.manifests.text.errors import DocumentError
    from ringwise.metrics.endpoints import AddressError, parse_address

    if (options["certificate"] is None) != (options["key"] is None):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file must be set together")
    configure()
    try:
        chosen = Options(**options)
        for address in filter(None, (chosen.address, chosen.health_address)):
            parse_address(address)
        run(chosen)
    except (KubeConfigError, AddressError, DocumentError) as error:
        raise stop(*str(error).splitlines()) from None
    except OSError as error:
        raise stop(error.strerror or str(error)) from None

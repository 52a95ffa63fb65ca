"""The components on a Kubernetes cluster: `ringwise run scheduler`, `run controller`, `run admission`.

Each imports its component when it is called.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.options import (
    DIRECTORY,
    PATH,
    WEB,
    Decorator,
    address_option,
    api_server_options,
    board_option,
    flag,
    metrics_option,
    option,
    take_web,
    with_options,
)
from ringwise.cli.output import running_component, stop
from ringwise.grammar import quoted
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


def _seconds(name: str, usual: int, what: str) -> Decorator:
    return option(name, what, click.IntRange(1, 3600), usual)


def _lease_name(usual: str) -> Decorator:
    return option("--leader-elect-resource-name", "Name of the Lease.", default=usual)


def _scheduler_names(what: str) -> Decorator:
    return option(
        "--scheduler-name scheduler_names", what, multiple=True, default=SCHEDULER_NAMES, callback=_not_empty
    )


def _configuration_map(what: str) -> Decorator:
    return option(
        "--scheduler-configmap configuration_map",
        what,
        default=f"{VOLCANO_SYSTEM}/{SCHEDULER_CONFIG_MAP}",
        callback=_namespaced_name,
    )


_CONTROLLER_MAP = option(
    "--controller-configmap controller_map",
    f"ConfigMap with networkTopologyDiscovery, usually {VOLCANO_SYSTEM}/{CONTROLLER_CONFIG_MAP}: "
    "the controller creates HyperNodes from node labels. Empty to disable it.",
    default="",
    metavar="NAMESPACE/NAME",
    callback=_namespaced_name,
)
_HEALTH = address_option(
    "--healthz-address health_address",
    11251,
    "Listen address of /healthz and /readyz, `:PORT` for all addresses; empty to disable it.",
)
_POD_GROUPS = flag(
    "--pod-groups/--no-pod-groups",
    "Create PodGroups for Deployments, StatefulSets, Kubernetes Jobs and single pods. Must be the "
    "same for scheduler and controller. A scheduler without a controller requires --no-pod-groups.",
    default=True,
)
_QUEUE_COMMANDS = option(
    "--queue-command-namespace queue_command_namespaces",
    "Namespace whose Commands for queues (`vcctl queue operate`) the controller executes; can be "
    "repeated. Use '*' (all namespaces) only if an admission policy checks that the user can update "
    "the queue.",
    multiple=True,
    default=QUEUE_COMMAND_NAMESPACES,
    show_default=", ".join(QUEUE_COMMAND_NAMESPACES),
    metavar="NAMESPACE",
    callback=_namespaces,
)
_cluster_options = with_options(
    api_server_options,
    flag("--leader-elect/--no-leader-elect", "Elect a leader among several replicas.", default=True),
    option(
        "--leader-elect-resource-namespace",
        "Namespace of the Lease.",
        default=_own_namespace,
        show_default="$POD_NAMESPACE or volcano-system",
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
    metrics_option(8080),
    flag("--volcano-metrics", "Also export metrics under Volcano's names."),
    _HEALTH,
    option(
        "--kube-api-qps requests_per_second",
        "Queries per second to the API server; 0 for no limit.",
        click.FloatRange(0, 100_000),
        0.0,
        show_default=True,
    ),
    option(
        "--kube-api-burst burst",
        "Burst of queries to the API server; 0 for the number of --kube-api-qps.",
        click.IntRange(0, 100_000),
        0,
        show_default=True,
    ),
)


# -- commands ------------------------------------------------------------------------------------


@click.command()
@_cluster_options
@_lease_name(SCHEDULER_LEASE)
@_scheduler_names("Schedule pods with this schedulerName; can be repeated.")
@option(
    "--scheduler-conf",
    "Scheduler configuration (volcano-scheduler.conf). It is reloaded when it changes; an invalid "
    "one is logged and not used.",
    PATH,
)
@_configuration_map("Without --scheduler-conf: NAMESPACE/NAME of the ConfigMap; empty for the defaults.")
@board_option
@flag(
    "--with-controller/--no-controller",
    "Also run the vcjob controller. Disable it if Volcano's controller runs.",
    default=True,
)
@_POD_GROUPS
@_CONTROLLER_MAP
@_QUEUE_COMMANDS
@flag("--shadow", "Do not bind pods; log where they would be scheduled, and why.")
@option(
    "--max-binds-inflight in_flight",
    "Maximum number of concurrent Binding requests.",
    click.IntRange(1, 1000),
    64,
)
@option(
    "--journal",
    "Record all events and decisions in this file, for `ringwise replay` and `ringwise why --history`.",
    PATH,
)
@option(
    "--journal-size",
    "Size in megabytes at which the journal is rotated to FILE.1.",
    click.IntRange(1, 1 << 20),
    64,
    metavar="MEGABYTES",
)
@option("--journal-files", "Number of journal files to keep.", click.IntRange(1, 1000), 8)
@option(
    "--accounting-dir",
    "Store the accounting documents in this directory instead of ConfigMaps.",
    DIRECTORY,
    metavar="DIRECTORY",
)
@WEB
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
    from ringwise.apps.kube_scheduler import run
    from ringwise.metrics.endpoints import parse_address

    with running_component("scheduler"):
        for address in filter(None, (options.metrics_address, options.health_address)):
            parse_address(address)
        if options.web is not None:
            options.web.check()
        run(options)


@click.command("admission")
@api_server_options
@option(
    "--namespace",
    "Namespace of the Service and of the Secret with the certificates.",
    default=_own_namespace,
    show_default="$POD_NAMESPACE or volcano-system",
)
@_configuration_map("NAMESPACE/NAME of the scheduler's configuration; empty for the defaults.")
@_scheduler_names("Check jobs and pods with this schedulerName; can be repeated.")
@address_option("--address", 9443, "Listen address for the API server, `:PORT` for all addresses.")
@_HEALTH
@option(
    "--host hosts", "Additional host name of the self-signed certificate; can be repeated.", multiple=True
)
@option(
    "--tls-cert-file certificate",
    "Certificate of the webhook (PEM); reloaded when it changes.  [default: created and renewed by "
    "the webhook]",
    PATH,
)
@option("--tls-private-key-file key", "Private key of the certificate (PEM).", PATH)
@board_option
@flag(
    "--enable-queue-allocated-pods-check protect_used_queues",
    "Reject the deletion of a queue that has pods, even if it is Closed.",
)
def admission_command(**options: Any) -> None:
    """Run the webhook that rejects jobs that can never run.

    Without --tls-cert-file the webhook creates and renews its own certificate, which its replicas share in a
    Secret.
    """
    from ringwise.apps.admission.webhook import Options, run
    from ringwise.metrics.endpoints import parse_address

    if (options["certificate"] is None) != (options["key"] is None):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file must be set together")
    with running_component("webhook"):
        chosen = Options(**options)
        for address in filter(None, (chosen.address, chosen.health_address)):
            parse_address(address)
        run(chosen)

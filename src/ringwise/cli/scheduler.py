"""`ringwise scheduler`: the scheduler on a Kubernetes cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ringwise.apps.kube_scheduler import (
    ComponentOptions,
    default_lease_namespace,
    in_namespace,
    log_as_json,
    run,
)
from ringwise.cli.output import stop
from ringwise.kube.run.leader_election import LeaseSettingsError
from ringwise.kube.run.runner import CoreFailedError
from ringwise.kubeclient.credentials import KubeConfigError
from ringwise.manifests.configuration import ConfigurationError
from ringwise.metrics.endpoints import AddressError, parse_address
from ringwise.topology.board import BoardError
from ringwise.wellknown import SCHEDULER_CONFIG_MAP, SCHEDULER_LEASE, SCHEDULER_NAMES, VOLCANO_SYSTEM

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_CONFIGURATION = f"{VOLCANO_SYSTEM}/{SCHEDULER_CONFIG_MAP}"


def _none_empty(_context: click.Context, _option: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    if not all(name.strip() for name in names):
        raise click.BadParameter("a schedulerName is never empty; leave the option out for the usual ones")
    return names


def scheduler_names(what: str) -> Callable[[Command], Command]:
    return click.option(
        "--scheduler-name",
        "names",
        multiple=True,
        default=SCHEDULER_NAMES,
        show_default=True,
        callback=_none_empty,
        help=what,
    )


def _seconds(name: str, usual: int, what: str) -> Callable[[Command], Command]:
    return click.option(
        name,
        type=click.IntRange(1, 3600),
        default=usual,
        show_default=True,
        help=what,
    )


def cluster_options(command: Command) -> Command:
    """What every component on a cluster can be told."""
    for option in reversed(
        (
            click.option("--kubeconfig", help="Default: $KUBECONFIG, the pod's account, ~/.kube/config."),
            click.option("--context", help="A context of the kubeconfig."),
            click.option(
                "--leader-elect/--no-leader-elect",
                default=True,
                show_default=True,
                help="Of several replicas one decides.",
            ),
            click.option(
                "--lease-namespace",
                default=default_lease_namespace,
                show_default="$POD_NAMESPACE or volcano-system",
                help="Namespace of the Lease.",
            ),
            _seconds("--lease-duration", 15, "Seconds that others wait after a leader's last sign of life."),
            _seconds(
                "--renew-deadline",
                10,
                "Seconds after which a leader that cannot renew its Lease binds nothing.",
            ),
            _seconds("--retry-period", 2, "Seconds between two attempts to take or renew the Lease."),
            click.option(
                "--metrics-address", default=":8080", show_default=True, help="For /metrics; empty for none."
            ),
            click.option(
                "--healthz-address",
                default=":11251",
                show_default=True,
                help="For /healthz and /readyz; empty for none.",
            ),
            click.option(
                "--kube-api-qps",
                type=click.FloatRange(0, 100_000),
                default=0.0,
                show_default=True,
                help="Most requests to the API server a second, on average; 0 for no limit.",
            ),
            click.option(
                "--kube-api-burst",
                type=click.IntRange(0, 100_000),
                default=0,
                show_default=True,
                help="Most requests at once where they are limited; 0 for as many as in one second.",
            ),
        )
    ):
        command = option(command)
    return command


@click.command()
@cluster_options
@click.option("--lease-name", default=SCHEDULER_LEASE, show_default=True, help="Name of the Lease.")
@scheduler_names("Pods with this schedulerName are ours; may be given several times.")
@click.option(
    "--scheduler-conf",
    type=click.Path(path_type=Path),
    help="A volcano-scheduler.conf. It is read again when it changes; a wrong one is told and not used.",
)
@click.option(
    "--scheduler-configmap",
    default=DEFAULT_CONFIGURATION,
    show_default=True,
    help="Where there is no file: NAMESPACE/NAME of the ConfigMap; empty for the defaults.",
)
@click.option(
    "--board-file", "boards", multiple=True, type=click.Path(path_type=Path), help="A board of your own."
)
@click.option(
    "--with-controller/--no-controller",
    default=True,
    show_default=True,
    help="Run the vcjob controller, too; not where Volcano's own runs.",
)
@click.option(
    "--shadow", is_flag=True, help="Bind nothing; tell where pods would have gone instead, and why."
)
@click.option(
    "--binds-in-flight",
    type=click.IntRange(1, 1000),
    default=64,
    show_default=True,
    help="Binding requests under way at once.",
)
def scheduler(
    kubeconfig: str | None,
    context: str | None,
    leader_elect: bool,
    lease_namespace: str,
    lease_duration: int,
    renew_deadline: int,
    retry_period: int,
    metrics_address: str,
    healthz_address: str,
    kube_api_qps: float,
    kube_api_burst: int,
    lease_name: str,
    names: tuple[str, ...],
    scheduler_conf: Path | None,
    scheduler_configmap: str,
    boards: tuple[Path, ...],
    with_controller: bool,
    shadow: bool,
    binds_in_flight: int,
) -> None:
    """Schedule the jobs of a Kubernetes cluster."""
    try:
        configuration = in_namespace(scheduler_configmap) if scheduler_configmap else None
    except ValueError as error:
        raise stop(f"--scheduler-configmap: {error}") from None
    run_component(
        ComponentOptions(
            kubeconfig=kubeconfig,
            context=context,
            scheduler_names=names,
            scheduler_conf=scheduler_conf,
            configuration_map=configuration,
            boards=boards,
            leader_elect=leader_elect,
            lease_namespace=lease_namespace,
            lease_name=lease_name,
            lease_duration=lease_duration,
            renew_deadline=renew_deadline,
            retry_period=retry_period,
            metrics_address=metrics_address,
            health_address=healthz_address,
            with_controller=with_controller,
            shadow=shadow,
            in_flight=binds_in_flight,
            requests_per_second=kube_api_qps,
            burst=kube_api_burst,
        )
    )


def run_component(options: ComponentOptions) -> None:
    """Run until a signal; what is wrong from the beginning is one line and exit code 2."""
    log_as_json()
    try:
        for address in filter(None, (options.metrics_address, options.health_address)):
            parse_address(address)
        run(options)
    except (KubeConfigError, LeaseSettingsError, ConfigurationError, BoardError, AddressError) as error:
        raise stop(*str(error).splitlines()) from None
    except OSError as error:
        raise stop(f"{error.filename}: {error.strerror}" if error.filename else str(error)) from None
    except CoreFailedError as error:
        raise stop(f"the scheduler failed: {error}", code=70) from None

"""`ringwise admission`: the webhook that refuses impossible jobs at submit."""

from __future__ import annotations

import click

from ringwise.apps.admission.webhook import Options, run
from ringwise.apps.kube_scheduler import default_lease_namespace, in_namespace, log_as_json
from ringwise.cli.output import stop
from ringwise.cli.scheduler import DEFAULT_CONFIGURATION, scheduler_names
from ringwise.kubeclient.credentials import KubeConfigError
from ringwise.metrics.endpoints import AddressError, parse_address


@click.command("admission")
@click.option("--kubeconfig", help="Default: $KUBECONFIG, the pod's account, ~/.kube/config.")
@click.option("--context", help="A context of the kubeconfig.")
@click.option(
    "--namespace",
    default=default_lease_namespace,
    show_default="$POD_NAMESPACE or volcano-system",
    help="Namespace of the Service and of the Secret with the certificates.",
)
@click.option(
    "--scheduler-configmap",
    default=DEFAULT_CONFIGURATION,
    show_default=True,
    help="NAMESPACE/NAME of the scheduler's configuration; empty for the defaults.",
)
@scheduler_names("Jobs and pods with this schedulerName are looked at; may be given several times.")
@click.option("--address", default=":9443", show_default=True, help="For the API server.")
@click.option(
    "--healthz-address",
    default=":11251",
    show_default=True,
    help="For /healthz and /readyz; empty for none.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    help="Another name for the certificate, where the API server reaches it by an address of its own.",
)
def admission_command(
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    scheduler_configmap: str,
    names: tuple[str, ...],
    address: str,
    healthz_address: str,
    hosts: tuple[str, ...],
) -> None:
    """Refuse impossible jobs at submit, with the reason and what helps.

    Certificates are made and renewed by the webhook itself; replicas share them.
    """
    log_as_json()
    try:
        configuration = in_namespace(scheduler_configmap) if scheduler_configmap else None
        for given in filter(None, (address, healthz_address)):
            parse_address(given)
        run(Options(kubeconfig, context, namespace, configuration, address, healthz_address, hosts, names))
    except ValueError as error:
        raise stop(f"--scheduler-configmap: {error}") from None
    except (KubeConfigError, AddressError) as error:
        raise stop(str(error)) from None
    except OSError as error:
        raise stop(error.strerror or str(error)) from None

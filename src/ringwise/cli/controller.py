"""`ringwise controller`: the vcjob controller on a Kubernetes cluster, without the scheduler."""

from __future__ import annotations

import click

from ringwise.apps.kube_scheduler import ComponentOptions
from ringwise.cli.scheduler import cluster_options, run_component
from ringwise.wellknown import CONTROLLER_LEASE


@click.command()
@cluster_options
@click.option("--lease-name", default=CONTROLLER_LEASE, show_default=True, help="Name of the Lease.")
def controller(
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
) -> None:
    """Turn vcjobs into PodGroups and pods, and follow them to their end."""
    run_component(
        ComponentOptions(
            kubeconfig=kubeconfig,
            context=context,
            leader_elect=leader_elect,
            lease_namespace=lease_namespace,
            lease_name=lease_name,
            lease_duration=lease_duration,
            renew_deadline=renew_deadline,
            retry_period=retry_period,
            metrics_address=metrics_address,
            health_address=healthz_address,
            with_scheduler=False,
            requests_per_second=kube_api_qps,
            burst=kube_api_burst,
        )
    )

"""`ringwise suspend`, `resume` and `requeue`: of a lab and of a cluster."""

from __future__ import annotations

import getpass
from typing import Any

import click

from ringwise.cli.change.targets import change_target
from ringwise.cli.completion import LabName
from ringwise.cli.options import (
    duration_option,
    flag,
    option,
    output_option,
    target_options,
    with_options,
)
from ringwise.cli.output import stop
from ringwise.cli.query.queries import show_text

_about_a_job = with_options(
    click.argument("job", type=LabName("job"), metavar="[NAMESPACE/]JOB"),
    option("--reason", "Reason to record in the job's status."),
    option("--by", "User to record.", default=getpass.getuser, show_default="current user"),
    option(
        "-n --namespace",
        "Namespace of the job.  [default: on a cluster, that of the kubeconfig context]",
        advanced=True,
    ),
    flag("-A --all-namespaces", "Search all namespaces.", advanced=True),
    duration_option("--timeout", "How long to wait for the controller of the job (cluster only).", "30s"),
    target_options,
    output_option,
)


@click.command("suspend")
@_about_a_job
def suspend_command(job: str, output: str, **options: Any) -> None:
    """Suspend a job and release its chips.

    JOB is a vcjob, a Kubernetes Job or an AscendJob. Its pods are deleted with their termination grace
    period. Suspending does not count as a retry.
    """
    _change("suspend", job, output, options)


@click.command("resume")
@_about_a_job
def resume_command(job: str, output: str, **options: Any) -> None:
    """Resume a suspended job, on its previous nodes if they are free.

    Resuming does not count as a retry.
    """
    _change("resume", job, output, options)


@click.command("requeue")
@option("--queue", "Move a suspended or pending job to this queue, without restarting it.")
@option("--priority", "Change the priority class, without restarting the job.")
@_about_a_job
def requeue_command(job: str, output: str, **options: Any) -> None:
    """Requeue a running job, or change its queue or priority.

    Requeueing does not count as a retry. --queue and --priority require a vcjob.
    """
    _change("requeue", job, output, options)


def _change(action: str, job: str, output: str, options: dict[str, Any]) -> None:
    from ringwise.apps.lab.requests import JobRequest
    from ringwise.views.documents.changes import JobChangeDocument

    queue, priority = options.get("queue"), options.get("priority")
    if "" in (queue, priority, job):
        raise stop("ringwise: the name of a job, queue or priority class must not be empty")
    names = ("namespace", "all_namespaces", "by", "reason", "timeout")
    request = JobRequest(job, queue=queue, priority=priority, **{name: options[name] for name in names})
    document = change_target(options).change(action, request, document=JobChangeDocument)
    show_text(document, output, document.message)

"""`ringwise suspend`, `resume` and `requeue`: of a lab and of a cluster."""

from __future__ import annotations

import getpass
from typing import Any

import click

from ringwise.cli.change.targets import change_target
from ringwise.cli.completion import LabName
from ringwise.cli.options import (
    change_options,
    duration_option,
    flag,
    option,
    with_options,
)
from ringwise.cli.output import stop
from ringwise.cli.query.queries import show_text
from ringwise.views.kinds import BY_NAME

_about_a_job = with_options(
    click.argument("jobs", nargs=-1, required=True, type=LabName("job"), metavar="[NAMESPACE/]JOB..."),
    option("--reason", "Reason to record in the job's status."),
    option("--by", "User to record.", default=getpass.getuser, show_default="current user"),
    option(
        "-n --namespace",
        "Namespace of the job.  [default: on a cluster, that of the kubeconfig context]",
        advanced=True,
    ),
    flag("-A --all-namespaces", "Search all namespaces.", advanced=True),
    duration_option("--timeout", "How long to wait for the controller of the job (cluster only).", "30s"),
    change_options,
)


@click.command("suspend")
@_about_a_job
def suspend_command(jobs: tuple[str, ...], output: str, **options: Any) -> None:
    """Suspend jobs and release their chips.

    JOB is a vcjob, a Kubernetes Job or an AscendJob. Its pods are deleted with their termination grace
    period. Suspending does not count as a retry.
    """
    _change("suspend", jobs, output, options)


@click.command("resume")
@_about_a_job
def resume_command(jobs: tuple[str, ...], output: str, **options: Any) -> None:
    """Resume suspended jobs, on their previous nodes if they are free.

    Resuming does not count as a retry.
    """
    _change("resume", jobs, output, options)


@click.command("requeue")
@option("--queue", "Move a suspended or pending job to this queue, without restarting it.")
@option("--priority", "Change the priority class, without restarting the job.")
@_about_a_job
def requeue_command(jobs: tuple[str, ...], output: str, **options: Any) -> None:
    """Requeue running jobs, or change their queue or priority.

    Requeueing does not count as a retry. --queue and --priority require a vcjob.
    """
    _change("requeue", jobs, output, options)


def _change(action: str, jobs: tuple[str, ...], output: str, options: dict[str, Any]) -> None:
    from ringwise.apps.lab.requests import JobRequest
    from ringwise.views.documents.changes import JobChangeDocument

    if len(jobs) > 1 and jobs[0].lower() in BY_NAME["job"].words:
        # As in `delete job NAME`.
        jobs = jobs[1:]
    queue, priority = options.get("queue"), options.get("priority")
    if "" in (queue, priority, *jobs):
        raise stop("ringwise: the name of a job, queue or priority class must not be empty")
    names = ("namespace", "all_namespaces", "by", "reason", "timeout")
    target = change_target(options)
    for number, job in enumerate(jobs):
        request = JobRequest(job, queue=queue, priority=priority, **{name: options[name] for name in names})
        document = target.change(action, request, document=JobChangeDocument)
        if number and output == "yaml":
            click.echo("---")
        show_text(document, output, document.message)

"""`ringwise suspend`, `resume` and `requeue`: of a lab and of a cluster."""

from __future__ import annotations

import getpass
from typing import Any

import click

from ringwise.cli.change.targets import change_target
from ringwise.cli.completion import LabName
from ringwise.cli.durations import duration_argument
from ringwise.cli.output import output_option, stop, with_options
from ringwise.cli.query.queries import show_text, target_options

_about_a_job = with_options(
    (
        click.argument("job", type=LabName("job"), metavar="[NAMESPACE/]JOB"),
        click.option("--reason", help="Why; it is told in the status of a vcjob."),
        click.option("--by", default=getpass.getuser, show_default="you", help="Who does it."),
        click.option(
            "-n",
            "--namespace",
            help="Its namespace.  [default: on a cluster, that of the kubeconfig's context]",
        ),
        click.option("-A", "--all-namespaces", is_flag=True, help="Look for it in all namespaces."),
        click.option(
            "--timeout",
            type=duration_argument,
            metavar="DURATION",
            default="30s",
            show_default=True,
            help="On a cluster: how long to wait for the controller of the job.",
        ),
        target_options,
        output_option,
    )
)


@click.command("suspend")
@_about_a_job
def suspend_command(job: str, output: str, **options: Any) -> None:
    """Let JOB give its chips back; it stays, and can be resumed.

    A vcjob, a Job of Kubernetes or an AscendJob. Its pods are deleted with their grace; no retry is used.
    """
    _change("suspend", job, output, options)


@click.command("resume")
@_about_a_job
def resume_command(job: str, output: str, **options: Any) -> None:
    """Let the suspended JOB go on, on its old nodes where they are free.

    No retry is used, however often a job is suspended and resumed.
    """
    _change("resume", job, output, options)


@click.command("requeue")
@click.option("--queue", help="Another queue, for a job that is suspended or waits; nothing else happens.")
@click.option("--priority", help="Another priority class, in place; nothing else happens.")
@_about_a_job
def requeue_command(job: str, output: str, **options: Any) -> None:
    """Let the running JOB start over from its queue, or change the queue or priority of JOB.

    No retry is used. --queue and --priority are for vcjobs.
    """
    _change("requeue", job, output, options)


def _change(action: str, job: str, output: str, options: dict[str, Any]) -> None:
    from ringwise.apps.lab.requests import JobRequest

    queue, priority = options.get("queue"), options.get("priority")
    if "" in (queue, priority, job):
        raise stop("ringwise: names of jobs, queues and priority classes are not empty")
    given = ("namespace", "all_namespaces", "by", "reason", "timeout")
    request = JobRequest(job, queue=queue, priority=priority, **{name: options[name] for name in given})
    document = change_target(options).change(action, request)
    show_text(document, output, document["text"])

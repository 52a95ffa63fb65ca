"""The host names of a job's pods."""

from __future__ import annotations

from ringwise.state.vcjob import Task, VcJob


def short_names_of(job: VcJob, task: Task) -> list[str]:
    """The host names of a task's pods. A template with a host name gives the same one to all of them."""
    if task.template.hostname:
        return [task.template.hostname]
    return [f"{job.name}-{task.name}-{index}" for index in range(task.replicas)]


def hosts_of(job: VcJob, task: Task) -> list[str]:
    """The names by which the pods of a task reach each other."""
    domain = task.template.subdomain or job.name
    return [f"{name}.{domain}" for name in short_names_of(job, task)]


def host_variables(task: Task) -> tuple[str, str]:
    """The variables with the hosts of a task and with their number."""
    word = task.name.replace("-", "_").upper()
    return f"VC_{word}_HOSTS", f"VC_{word}_NUM"

"""Who a job belongs to: for accounting and for limits per user.

The annotation `ringwise.io/user` counts only where admission writes it and a policy guards it (setting
`user-annotation: guarded`); then every object that carries it names who created the job. Otherwise any user
could write it, so reports use the label that the setting `user-label` names.
"""

from __future__ import annotations

from typing import NamedTuple

from ringwise.framework.configuration import Settings
from ringwise.framework.job import Job
from ringwise.state.model import Pod
from ringwise.wellknown import USER


def unknown_user(namespace: str) -> str:
    """Return the user for limits of jobs of this namespace whose user is not verified."""
    return f"unknown (namespace {namespace})"


class JobUser(NamedTuple):
    """A verified user and an unverified one of the same name are two users."""

    #: Empty: the user is unknown.
    name: str = ""
    #: The API server's word. False: whoever wrote the job's labels says so.
    verified: bool = False


NO_USER = JobUser()


def user_of(job: Job, settings: Settings) -> JobUser:
    """The user of a job: its PodGroup names the one of its owner, else its pods do.

    A limit must count verified users alone: what a job says of itself in a label costs its author nothing.
    """
    if settings.user_annotation == "guarded" and job.annotations.get(USER):
        return JobUser(job.annotations[USER], True)
    name = job.labels.get(settings.user_label, "") if settings.user_label else ""
    return JobUser(name) if name else NO_USER


def user_of_pod(pod: Pod, job: Job, settings: Settings) -> JobUser:
    """Return the user of what a pod holds: its verified creator, even in the job of another user."""
    if settings.user_annotation == "guarded" and pod.annotations.get(USER):
        return JobUser(pod.annotations[USER], True)
    return user_of(job, settings)

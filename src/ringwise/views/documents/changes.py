"""The documents of commands that change something: what became of it."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from ringwise.views.documents.cluster import JobFields
from ringwise.views.documents.common import Nanoseconds


class SubmittedFields(TypedDict):
    """The result for one object."""

    kind: str
    name: str
    action: str


class SubmitDocument(TypedDict):
    """The result for each job that was submitted to the lab."""

    schema: Literal["ringwise.io/submit/v1"]
    dry_run: bool
    objects: list[SubmittedFields]
    jobs: list[JobFields]


class DeletedFields(TypedDict):
    """An object that was deleted."""

    kind: str
    name: str


class DeleteDocument(TypedDict):
    """The objects that were deleted from the lab."""

    schema: Literal["ringwise.io/delete/v1"]
    deleted: list[DeletedFields]


class NodeChangeDocument(TypedDict):
    """The change of a node of the lab, or of a node, leaf switch or SuperPoD of a cluster."""

    schema: Literal["ringwise.io/node-change/v1"]
    node: str
    action: Annotated[str, Meta(description="cordon, uncordon or drain.")]
    evicted_pods: Annotated[list[str], Meta(description="Pods that are evicted.")]
    start: Annotated[str | None, Meta(description="Start of a scheduled drain; null: now.")]


class JobChangeDocument(TypedDict):
    """The change of a job of the lab or of a cluster."""

    schema: Literal["ringwise.io/job-change/v1"]
    namespace: str
    name: str
    kind: Annotated[str, Meta(description="vcjob, Job or AscendJob.")]
    action: Annotated[str, Meta(description="suspend, resume or requeue.")]
    queue: Annotated[str | None, Meta(description="Its new queue; null if it was not changed.")]
    priority_class: Annotated[
        str | None, Meta(description="Its new priority class; null if it was not changed.")
    ]
    message: Annotated[str, Meta(description="Human-readable result.")]


class AppliedPlanFields(TypedDict):
    """The result of a MovePlan."""

    id: str
    job: Annotated[str, Meta(description="The pending job.")]
    moved: Annotated[list[str], Meta(description="The jobs to move.")]
    state: Annotated[str, Meta(description="done, failed or rejected; running if the command did not wait.")]
    message: Annotated[str, Meta(description="Why it failed or was rejected.")]


class MovesDocument(TypedDict):
    """The results of the MovePlans that were executed."""

    schema: Literal["ringwise.io/moves/v1"]
    plans: list[AppliedPlanFields]
    skipped_plans: Annotated[int, Meta(description="Plans after a failed one, not started.")]


class AdvanceDocument(TypedDict):
    """The time of the lab after it was advanced."""

    schema: Literal["ringwise.io/advance/v1"]
    now: Nanoseconds

"""The documents of commands that change something: what became of it."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from ringwise.views.documents.cluster import JobFields
from ringwise.views.documents.common import Document, Fields, Nanoseconds, doc


class SubmittedFields(Fields):
    """The result for one object."""

    kind: str
    name: str
    action: str


class SubmitDocument(Document, tag="ringwise.io/submit/v1"):
    """The result for each job that was submitted to the lab."""

    dry_run: bool
    objects: list[SubmittedFields]
    jobs: list[JobFields]
    notes: Annotated[list[str], doc("What has no effect. Commands print it to stderr instead.")] = field(
        default_factory=list
    )


class DeletedFields(Fields):
    """An object that was deleted."""

    kind: str
    name: str


class DeleteDocument(Document, tag="ringwise.io/delete/v1"):
    """The objects that were deleted from the lab."""

    deleted: list[DeletedFields]


class NodeChangeDocument(Document, tag="ringwise.io/node-change/v1"):
    """The change of a node of the lab, or of a node, leaf switch or SuperPoD of a cluster."""

    node: str
    action: Annotated[str, doc("cordon, uncordon or drain.")]
    evicted_pods: Annotated[list[str], doc("Pods that are evicted.")]
    start: Annotated[str | None, doc("Start of a scheduled drain; null: now.")]
    changed: Annotated[bool, doc("False if a node was cordoned or uncordoned already; otherwise absent.")] = (
        True
    )
    withheld: Annotated[
        str, doc("Why an uncordoned node still accepts no jobs, or only some; or absent.")
    ] = ""


class JobChangeDocument(Document, tag="ringwise.io/job-change/v1"):
    """The change of a job of the lab or of a cluster."""

    namespace: str
    name: str
    kind: Annotated[str, doc("vcjob, Job or AscendJob.")]
    action: Annotated[str, doc("suspend, resume or requeue.")]
    queue: Annotated[str | None, doc("Its new queue; null if it was not changed.")]
    priority_class: Annotated[str | None, doc("Its new priority class; null if it was not changed.")]
    message: Annotated[str, doc("Human-readable result.")]


class AppliedPlanFields(Fields):
    """The result of a MovePlan."""

    id: str
    job: Annotated[str, doc("The pending job.")]
    moved: Annotated[list[str], doc("The jobs to move.")]
    state: Annotated[str, doc("done, failed or rejected; running if the command did not wait.")]
    message: Annotated[str, doc("Why it failed or was rejected.")]


class MovesDocument(Document, tag="ringwise.io/moves/v1"):
    """The results of the MovePlans that were executed."""

    plans: list[AppliedPlanFields]
    skipped_plans: Annotated[int, doc("Plans after a failed one, not started.")]


class AdvanceDocument(Document, tag="ringwise.io/advance/v1"):
    """The time of the lab after it was advanced."""

    now: Nanoseconds

"""`docs/object-limits.md`: the largest objects, from the limits that the readers check."""

from __future__ import annotations

from ringwise.framework.budget import JOB_STEPS, NAMESPACE_STEPS, NAMESPACE_STEPS_A_SECOND, POD_STEPS
from ringwise.manifests.text.limits import LIMITS
from ringwise.scheduler.core.job_backoff import MAX_AFTER_COST

_INTRODUCTION = """\
# Limits of objects

Whoever may create pods and jobs may also create very large ones. No object may hold up the decisions about
others: what is larger than any real job is refused, and what costs too much to place is set aside. This page
is made from the limits in the code (`make docs`).

## Sizes

| objects | what is counted | at most |
|---|---|---|
"""

_SIZES = """
An object that exceeds one of them is refused with a line that names the field, the number and the limit: by
`ringwise place` and `submit`, by the [webhook](admission.md), and, where no webhook is installed, by the
scheduler and the controller. Those report the event `Malformed` on it and count and list it
(`ringwise_malformed_objects`, `ringwise doctor`), drop the field, and place nothing of its job: the reason
[`malformed-job`](reasons.md) with that line is in the pod's condition `PodScheduled`, in the condition of the
PodGroup or the status of the vcjob, and in `why` and `get jobs`. A vcjob that runs already stays as it was.

At `apply` the webhook checks them when an object is created, and of an existing object only where that field
changes: one that exceeds a limit already can be scaled and labelled, and its finalizers removed. Status,
subresources and objects that are being deleted are never checked. Of Deployments, Jobs of Kubernetes and jobs
of operators the pod template is checked. Changes of pods and PodGroups are checked with Kubernetes 1.28 and
newer.

A pod that is bound is never refused: its chips are counted and its node stays open. Only the field that is
too large is ignored.
"""


def object_limits_page() -> str:
    """The whole of `docs/object-limits.md`."""
    rows = [f"| {limit.object} | {limit.counted} | {limit.most:,} |\n" for limit in LIMITS]
    return "".join((_INTRODUCTION, *rows, _SIZES, _work()))


def _work() -> str:
    return f"""
## Work

Work is counted in steps: a node looked at, a pod matched, a term compared. Only work that grows with the
cluster or with the job's own specification counts; most jobs take less than a hundred steps. Seconds do not
count, so the same input has the same answer on every machine.

| whose work | steps |
|---|---|
| a job in one cycle | {JOB_STEPS:,}, and {POD_STEPS:,} more for each of its pods |
| all jobs of one namespace | {NAMESPACE_STEPS:,}; {NAMESPACE_STEPS_A_SECOND:,} come back every second |

A job that takes more gets the reason [`too-costly`](reasons.md), with both numbers. It is tried again after
2, 4, 8 ... seconds, at most {MAX_AFTER_COST}, also where nodes changed meanwhile; at once when the job
itself or the settings change. Jobs of a namespace that has used up its steps get the reason
`namespace-too-costly`, which says when they are tried again; jobs of other namespaces go on. Both are the
event `TooCostly` on the PodGroup (on the pod of a job without one), each time a job is set aside, and once
until they are tried for jobs of such a namespace. `ringwise_pending_jobs` counts the jobs that are set aside
now, by reason, `ringwise_jobs_set_aside_total` how often jobs were ([metrics](metrics.md)).
"""

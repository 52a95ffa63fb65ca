"""Reasons of the scheduler itself: a job is pending for something other than capacity."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, ReasonKind, Stage, Trigger

POD_GROUP_MISSING = ReasonKind(
    "pod-group-missing",
    Stage.GANG,
    'PodGroup "{group}" not found',
    (
        "create PodGroup {group}",
        "remove the annotation scheduling.k8s.io/group-name from the pods",
    ),
    frozenset({Trigger.JOB_CHANGED}),
)
POD_GROUP_AWAITED = ReasonKind(
    "pod-group-not-created",
    Stage.GANG,
    "the PodGroup of the pod is not created yet",
    (
        "check that `ringwise run controller` or Volcano's controller is running and serves the "
        "schedulerName of the pod",
        "without such a controller, run the scheduler with --no-pod-groups",
    ),
    frozenset({Trigger.JOB_CHANGED}),
)
PODS_NEVER_CREATED = ReasonKind(
    "pods-never-created",
    Stage.ENQUEUE,
    "none of its {needed:pod} exists {seconds:~} after admission; its admitted resources are released",
    (
        "check why the owner of the PodGroup does not create pods",
        "no action required: the job is admitted again after {seconds:~}, or when its pods exist",
    ),
    frozenset({Trigger.JOB_CHANGED, Trigger.TIME_PASSED}),
)
PODS_NOT_CREATED = ReasonKind(
    "pods-not-created",
    Stage.ENQUEUE,
    "pods not created: {why}",
    ("correct what the API server rejects; see the events of the job",),
    frozenset({Trigger.JOB_CHANGED}),
)
BIND_FAILED = ReasonKind(
    "bind-failed",
    Stage.GANG,
    "binding {pod} to {node} failed: {why}; next attempt in {seconds:~}",
    ("check the response of the API server",),
    CAPACITY | {Trigger.JOB_CHANGED, Trigger.TIME_PASSED},
)

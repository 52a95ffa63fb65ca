"""Reasons of the scheduler itself: a job is pending for something other than capacity."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, ReasonFamily, Stage, Trigger

_JOB_CHANGED = frozenset({Trigger.JOB_CHANGED})
_of_gang = ReasonFamily(Stage.GANG, _JOB_CHANGED)

POD_GROUP_MISSING = _of_gang(
    "pod-group-missing",
    'PodGroup "{group}" not found',
    "create PodGroup {group}",
    "remove the annotation scheduling.k8s.io/group-name from the pods",
)
POD_GROUP_AWAITED = _of_gang(
    "pod-group-not-created",
    "the PodGroup of the pod is not created yet",
    "check that `ringwise run controller` or Volcano's controller is running and serves the "
    "schedulerName of the pod",
    "without such a controller, run the scheduler with --no-pod-groups",
)

_not_created = ReasonFamily(Stage.ENQUEUE, {Trigger.JOB_CHANGED, Trigger.TIME_PASSED})

PODS_NEVER_CREATED = _not_created(
    "pods-never-created",
    "none of its {needed:pod} exists {seconds:~} after admission; its admitted resources are released",
    "check why the owner of the PodGroup does not create pods",
    "no action required: the job is admitted again after {seconds:~}, or when its pods exist",
)
PODS_NOT_CREATED = ReasonFamily(Stage.ENQUEUE, _JOB_CHANGED)(
    "pods-not-created",
    "pods not created: {why}",
    "correct what the API server rejects; see the events of the job",
)

_not_bound = ReasonFamily(Stage.GANG, CAPACITY | _JOB_CHANGED | {Trigger.TIME_PASSED})

BIND_FAILED = _not_bound(
    "bind-failed",
    "binding {pod} to {node} failed: {why}; next attempt in {seconds:~}",
    "check the response of the API server",
)

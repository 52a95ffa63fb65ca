"""Reasons of the scheduler itself: a job is pending for something other than capacity."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, ReasonKind, Stage, Trigger

POD_GROUP_MISSING = ReasonKind(
    "pod-group-missing",
    Stage.GANG,
    "the pods belong to PodGroup {group}, which does not exist",
    ("create PodGroup {group}", "remove the annotation scheduling.k8s.io/group-name from the pods"),
    frozenset({Trigger.JOB_CHANGED}),
)
POD_GROUP_AWAITED = ReasonKind(
    "pod-group-not-created",
    Stage.GANG,
    "the pod has no PodGroup yet, and is not scheduled before a controller has created it",
    (
        "see whether `ringwise run controller`, or Volcano's, runs and serves the schedulerName of the pod",
        "without such a controller run the scheduler with --no-pod-groups",
    ),
    frozenset({Trigger.JOB_CHANGED}),
)
PODS_NEVER_CREATED = ReasonKind(
    "pods-never-created",
    Stage.ENQUEUE,
    "it was admitted and after {seconds:~} none of its {needed:pod} exists; "
    "what it was promised is free again",
    (
        "see why the owner of the PodGroup creates no pods",
        "it is admitted again after another {seconds:~}, or once it has pods",
    ),
    frozenset({Trigger.JOB_CHANGED, Trigger.TIME_PASSED}),
)
PODS_NOT_CREATED = ReasonKind(
    "pods-not-created",
    Stage.ENQUEUE,
    "pods not created: {why}",
    ("correct what the API server refuses, see the events of the job; its controller tries again",),
    frozenset({Trigger.JOB_CHANGED}),
)
BIND_FAILED = ReasonKind(
    "bind-failed",
    Stage.GANG,
    "the API server refused to bind {pod} to {node}: {why}; it is tried again after {seconds:~}",
    ("see in the API server's answer who refuses it, and why",),
    CAPACITY | {Trigger.JOB_CHANGED, Trigger.TIME_PASSED},
)

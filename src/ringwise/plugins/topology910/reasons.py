"""Why the chip plugin refuses a job, or lets it wait."""

from __future__ import annotations

from ringwise.reasons import MENDED, ROOM, Event, ReasonKind, Stage

MIXED_RESOURCES = ReasonKind(
    "mixed-resources",
    Stage.VALIDATE,
    "the pods of one job ask for different chip resources: {resources}",
    ("make a job of its own for each resource",),
    MENDED,
)
TOO_FEW_FREE_CHIPS = ReasonKind(
    "too-few-free-chips",
    Stage.ENQUEUE,
    "the job needs {needed} chips of {resource} at once and the cluster has {free} free",
    ("wait until {needed} chips are free", "ask for fewer chips"),
    ROOM,
)
CLUSTER_TOO_SMALL = ReasonKind(
    "cluster-too-small",
    Stage.ENQUEUE,
    "the job needs {needed} chips of {resource} at once and the whole cluster has {all}",
    ("add nodes for {missing} more chips", "ask for at most {all} chips"),
    frozenset({Event.NODE_ADDED, Event.NODE_CHANGED, Event.HEALTH_CHANGED, Event.JOB_CHANGED}),
)
PODS_MISSING = ReasonKind(
    "pods-missing",
    Stage.PLAN,
    "{pods} of {all} pods exist; the job is placed as a whole once all are there",
    ("create the missing pods",),
    frozenset({Event.JOB_CHANGED}) | ROOM,
)

"""Why the chip plugin refuses a job, or lets it wait."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, SPECIFICATION, ReasonKind, Stage, Trigger

MIXED_RESOURCES = ReasonKind(
    "mixed-resources",
    Stage.VALIDATE,
    "the pods of one job ask for different chip resources: {resources}",
    ("make a job of its own for each resource",),
    SPECIFICATION,
)
MIXED_BOARDS = ReasonKind(
    "mixed-boards",
    Stage.VALIDATE,
    "the pods of one job select different boards: {boards}",
    ("select one accelerator-type in all pods of the job", "make a job of its own for each board"),
    SPECIFICATION,
)
CONFLICTING_VALUES = ReasonKind(
    "conflicting-values",
    Stage.VALIDATE,
    "the {what} {key} has different values in one job: {values}",
    ("write the same {key} wherever the job carries it, or only in one place",),
    SPECIFICATION,
)
NODE_SUB_HEALTHY = ReasonKind(
    "node-sub-healthy",
    Stage.PREDICATE,
    "{what} is sub-healthy, and the job's label subHealthyStrategy is {strategy}",
    ("repair the node", "write subHealthyStrategy: ignore to use sub-healthy nodes"),
    frozenset({Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED, Trigger.JOB_CHANGED}),
)
TOO_FEW_FREE_CHIPS = ReasonKind(
    "too-few-free-chips",
    Stage.ENQUEUE,
    "the job needs {needed:chip} of {resource} at once and the cluster has {free} free, "
    "counting cordoned and draining nodes",
    ("ask for fewer chips",),
    CAPACITY,
)
CLUSTER_TOO_SMALL = ReasonKind(
    "cluster-too-small",
    Stage.ENQUEUE,
    "the job needs {needed:chip} of {resource} at once and the whole cluster has {all}",
    ("add nodes for {missing:more chip}", "ask for at most {all:chip}"),
    frozenset({Trigger.NODE_ADDED, Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED, Trigger.JOB_CHANGED}),
)
PODS_DIFFER = ReasonKind(
    "pods-need-different-nodes",
    Stage.PLAN,
    "{needed:pod} {needed:=needs|need} a node each and {held} can have one: {listing}",
    ("free nodes that {short} can take", "change the node selectors or the requests of {short}"),
    CAPACITY | SPECIFICATION | {Trigger.TOPOLOGY_CHANGED},
)
BACKUP_WAITS = ReasonKind(
    "backup-pod-waits",
    Stage.PLAN,
    "no free node of {where} can take {pod}, which is to replace {source} there",
    ("free a node of {where}",),
    CAPACITY | {Trigger.TOPOLOGY_CHANGED},
)
PODS_MISSING = ReasonKind(
    "pods-missing",
    Stage.PLAN,
    "{pods} of {all:pod} {pods:=exists|exist}; the job is placed as a whole once all are there",
    ("create the missing pods",),
    frozenset({Trigger.JOB_CHANGED}) | CAPACITY,
)

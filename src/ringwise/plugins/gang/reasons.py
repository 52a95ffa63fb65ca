"""Why gang refuses a job or lets it wait."""

from __future__ import annotations

from ringwise.reasons import SPECIFICATION, ReasonKind, Stage

NOT_ENOUGH_PODS = ReasonKind(
    "not-enough-pods",
    Stage.VALIDATE,
    "{valid} of {needed:required pod} of {job} {valid:=is|are} valid (minAvailable)",
    ("create {missing:more pod}", "lower minAvailable to {valid:#}"),
    SPECIFICATION,
)
NOT_ENOUGH_PODS_OF_TASK = ReasonKind(
    "not-enough-pods-of-task",
    Stage.VALIDATE,
    "{valid} of {needed:required pod} of task {task} of {job} {valid:=is|are} valid",
    ("create {missing:more pod} of task {task}", "lower the task's minAvailable to {valid:#}"),
    SPECIFICATION,
)
NOT_ENOUGH_SUB_GROUPS = ReasonKind(
    "not-enough-sub-groups",
    Stage.VALIDATE,
    "{valid} of {needed:sub-group} of policy {policy} of {job} {valid:=has|have} the required {size:pod}",
    (
        "create the pods of {missing:more sub-group}",
        "set the labels of labelSelector and matchLabelKeys of the policy on its pods",
        "lower minSubGroups of the policy (minPartitions of the task) to {valid:#}",
    ),
    SPECIFICATION,
)
SUB_GROUPS_NOT_COMPLETE = ReasonKind(
    "sub-groups-incomplete",
    Stage.GANG,
    "{complete} of {needed:sub-group} of policy {policy} of {job} {complete:=is|are} complete",
    ("lower minSubGroups of the policy (minPartitions of the task) to {complete:#}",),
)
GANG_NOT_COMPLETE = ReasonKind(
    "partial-gang",
    Stage.GANG,
    "{started} of {needed:pod} of {job} {started:=has|have} a node; they must start together",
    ("lower minAvailable to {started:#}",),
)
TASKS_NOT_COMPLETE = ReasonKind(
    "tasks-incomplete",
    Stage.GANG,
    "{short} of {tasks:task} of {job} {short:=lacks|lack} pods that must start together",
    ("lower the minAvailable of {short:=that task|those tasks}",),
)

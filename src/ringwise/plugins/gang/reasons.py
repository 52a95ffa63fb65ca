"""Why gang refuses a job or lets it wait."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, SPECIFICATION, ReasonKind, Stage

NOT_ENOUGH_PODS = ReasonKind(
    "not-enough-pods",
    Stage.VALIDATE,
    "{valid:pod} of {job} can take part; {needed} must start together",
    ("create {missing:more pod}", "lower minAvailable to {valid:#}"),
    SPECIFICATION,
)
NOT_ENOUGH_PODS_OF_TASK = ReasonKind(
    "not-enough-pods-of-task",
    Stage.VALIDATE,
    "task {task} of {job} has {valid:pod} that can take part; {needed} must start together",
    ("create {missing:more pod} of task {task}", "lower the task's minAvailable to {valid:#}"),
    SPECIFICATION,
)
NOT_ENOUGH_SUB_GROUPS = ReasonKind(
    "not-enough-sub-groups",
    Stage.VALIDATE,
    "{valid:sub-group} of policy {policy} of {job} {valid:=has|have} the {size:pod} that a sub-group needs; "
    "{needed} must run",
    (
        "create the pods of {missing:more sub-group}",
        "give its pods the labels of the policy's labelSelector and matchLabelKeys",
        "lower minSubGroups of the policy (minPartitions of the task) to {valid:#}",
    ),
    SPECIFICATION,
)
SUB_GROUPS_NOT_COMPLETE = ReasonKind(
    "sub-groups-incomplete",
    Stage.GANG,
    "{complete} of the {needed:sub-group} of policy {policy} of {job} that must run "
    "{complete:=has all its|have all their} pods",
    ("lower minSubGroups of the policy (minPartitions of the task) to {complete:#}",),
    CAPACITY,
)
GANG_NOT_COMPLETE = ReasonKind(
    "partial-gang",
    Stage.GANG,
    "{started} of the {needed:pod} of {job} that must start together {started:=has|have} a node",
    ("lower minAvailable to {started:#}",),
    CAPACITY,
)
TASKS_NOT_COMPLETE = ReasonKind(
    "tasks-incomplete",
    Stage.GANG,
    "{short} of the {tasks:task} of {job} {short:=lacks|lack} pods that must start together",
    ("lower the minAvailable of {short:=that task|those tasks}",),
    CAPACITY,
)

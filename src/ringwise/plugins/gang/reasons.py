"""Why gang refuses a job or lets it wait."""

from __future__ import annotations

from ringwise.reasons import SPECIFICATION, ReasonFamily, Stage

_invalid = ReasonFamily(Stage.VALIDATE, SPECIFICATION)

NOT_ENOUGH_PODS = _invalid(
    "not-enough-pods",
    "{valid} of {needed:required pod} of {job} {valid:=is|are} valid (minAvailable)",
    "create {missing:more pod}",
    "lower minAvailable to {valid:#}",
)
NOT_ENOUGH_PODS_OF_TASK = _invalid(
    "not-enough-pods-of-task",
    "{valid} of {needed:required pod} of task {task} of {job} {valid:=is|are} valid",
    "create {missing:more pod} of task {task}",
    "lower the task's minAvailable to {valid:#}",
)
NOT_ENOUGH_SUB_GROUPS = _invalid(
    "not-enough-sub-groups",
    "{valid} of {needed:sub-group} of policy {policy} of {job} {valid:=has|have} the required {size:pod}",
    "create the pods of {missing:more sub-group}",
    "set the labels of labelSelector and matchLabelKeys of the policy on its pods",
    "lower minSubGroups of the policy (minPartitions of the task) to {valid:#}",
)

_incomplete = ReasonFamily(Stage.GANG)

SUB_GROUPS_NOT_COMPLETE = _incomplete(
    "sub-groups-incomplete",
    "{complete} of {needed:sub-group} of policy {policy} of {job} {complete:=is|are} complete",
    "lower minSubGroups of the policy (minPartitions of the task) to {complete:#}",
)
GANG_NOT_COMPLETE = _incomplete(
    "partial-gang",
    "{started} of {needed:pod} of {job} {started:=has|have} a node; they must start together",
    "lower minAvailable to {started:#}",
)
TASKS_NOT_COMPLETE = _incomplete(
    "tasks-incomplete",
    "{short} of {tasks:task} of {job} {short:=lacks|lack} pods that must start together",
    "lower the minAvailable of {short:=that task|those tasks}",
)

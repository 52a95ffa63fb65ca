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
GANG_NOT_COMPLETE = ReasonKind(
    "gang-not-complete",
    Stage.GANG,
    "{started} of the {needed:pod} of {job} that must start together {started:=has|have} a node",
    ("lower minAvailable to {started:#}",),
    CAPACITY,
)
TASKS_NOT_COMPLETE = ReasonKind(
    "tasks-not-complete",
    Stage.GANG,
    "{short} of the {tasks:task} of {job} {short:=lacks|lack} pods that must start together",
    ("lower the minAvailable of {short:=that task|those tasks}",),
    CAPACITY,
)

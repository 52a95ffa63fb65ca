"""Why no board serves a job."""

from __future__ import annotations

from ringwise.reasons import MENDED, ReasonKind, Stage

UNKNOWN_RESOURCE = ReasonKind(
    "unknown-chip-resource",
    Stage.VALIDATE,
    "no board serves the resource {resource}; known are {allowed}",
    cures=("ask for one of {allowed}", "add a board profile that serves {resource}"),
    cured_by=MENDED,
)
VIRTUAL_CHIPS = ReasonKind(
    "virtual-chips-not-supported",
    Stage.VALIDATE,
    "{resource} asks for a part of a chip; virtual chips (vNPU) are not supported yet",
    cures=("ask for whole chips: {allowed}",),
    cured_by=MENDED,
)
POLICY_NOT_SUPPORTED = ReasonKind(
    "policy-not-supported",
    Stage.VALIDATE,
    "the schedule_policy {policy} ({what}) is not supported yet",
    cures=("use one of {allowed}",),
    cured_by=MENDED,
)
UNKNOWN_POLICY = ReasonKind(
    "unknown-schedule-policy",
    Stage.VALIDATE,
    "the annotation huawei.com/schedule_policy is '{policy}', which names no board of {resource}",
    cures=("use one of {allowed}",),
    cured_by=MENDED,
)
UNKNOWN_ACCELERATOR_TYPE = ReasonKind(
    "unknown-accelerator-type",
    Stage.VALIDATE,
    "the nodeSelector accelerator-type is '{type}', which names no board of {resource}",
    cures=(
        "use one of {allowed}",
        "choose the board with the annotation huawei.com/schedule_policy ({policies})",
    ),
    cured_by=MENDED,
)
POLICY_NEEDED = ReasonKind(
    "schedule-policy-needed",
    Stage.VALIDATE,
    "jobs that ask for {resource} must name their board in the annotation huawei.com/schedule_policy",
    cures=("set huawei.com/schedule_policy to one of {allowed}",),
    cured_by=MENDED,
)
UNKNOWN_STRATEGY = ReasonKind(
    "unknown-strategy-label",
    Stage.VALIDATE,
    "the labels {labels} choose no board of {resource}",
    cures=("use {allowed}", "remove the labels to get the board {default}"),
    cured_by=MENDED,
)

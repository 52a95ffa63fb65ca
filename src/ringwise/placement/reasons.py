"""Why a request is not allowed on a board, and why a node's chips do not fit it."""

from __future__ import annotations

from ringwise.reasons import MENDED, ReasonKind, Stage, Trigger

_CHIPS_CHANGE = frozenset(
    {Trigger.CHIPS_FREED, Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED, Trigger.JOB_ENDED}
)
_NODE_MENDED = frozenset({Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED})

# --- the job as a whole -------------------------------------------------------

REQUEST_NOT_ALLOWED = ReasonKind(
    "request-not-allowed",
    Stage.VALIDATE,
    "a pod asks for {request} chips; {board} allows {allowed} per pod in a job of {pods}",
    cures=("ask for one of {allowed} chips in each pod",),
    cured_by=MENDED,
)
MULTI_POD_REQUEST_NOT_ALLOWED = ReasonKind(
    "multi-pod-request-not-allowed",
    Stage.VALIDATE,
    "{pods} pods ask for {requests} chips; on {board} each pod of a multi-pod job must ask for {allowed}",
    cures=(
        "ask for {allowed} chips in each pod",
        "put the chips into one pod, which may ask for {one_pod}",
        "set multi-pod-requests: field to allow {field} chips in each pod",
    ),
    cured_by=MENDED,
)
ONE_POD_ONLY = ReasonKind(
    "one-pod-only",
    Stage.VALIDATE,
    "{pods} pods ask for chips; on {board} at most one pod of a job may",
    cures=("put all chips into one pod, which may ask for {one_pod}", "split the job into one-pod jobs"),
    cured_by=MENDED,
)
NO_CHIPS_ASKED = ReasonKind(
    "no-chips-asked",
    Stage.VALIDATE,
    "no pod of the job asks for a chip, but it is meant for {board}, where a pod asks for {allowed}",
    cures=("ask for {allowed} chips", "remove the chip resource from the job"),
    cured_by=MENDED,
)
POD_WITHOUT_CHIPS = ReasonKind(
    "pod-without-chips",
    Stage.VALIDATE,
    "{without} of {pods} pods ask for no chip, which on {board} only excused pods may",
    cures=(
        "annotate those pods with volcano.sh/task-spec: scheduler or huawei.com/skip-ascend-plugin: enabled",
        "ask for {allowed} chips in each pod",
    ),
    cured_by=MENDED,
)
TOTAL_NOT_ALLOWED = ReasonKind(
    "total-not-allowed",
    Stage.VALIDATE,
    "the job asks for {total} chips in all; on {board} that must be 1 or a multiple of {multiple}",
    cures=("ask for {lower} or {higher} chips in all",),
    cured_by=MENDED,
)
AVERAGE_TOO_LARGE = ReasonKind(
    "average-too-large",
    Stage.VALIDATE,
    "the job asks for {total} chips for {pods} pods, on average {average} each; {board} has {chips} per node",
    cures=("ask for at most {most} chips in all, or spread them over more pods",),
    cured_by=MENDED,
)

# --- one node -----------------------------------------------------------------

NOT_ENOUGH_FREE_CHIPS = ReasonKind(
    "not-enough-free-chips",
    Stage.PREDICATE,
    "{request} chips are asked for and {free} are free",
    cures=("{missing} more chips must become free on the node",),
    cured_by=_CHIPS_CHANGE,
)
NO_RING_HOLDS_REQUEST = ReasonKind(
    "no-ring-holds-request",
    Stage.PREDICATE,
    "{request} chips must come from one {ring}; free per {ring}: {rings}; the best lacks {missing}",
    cures=("{missing} more chips must become free in one {ring}",),
    cured_by=_CHIPS_CHANGE,
)
RING_TOO_SMALL = ReasonKind(
    "request-larger-than-ring",
    Stage.PREDICATE,
    "{request} chips must come from one {ring}, and a {ring} of {board} has {size}",
    cures=("ask for at most {size} chips in each pod", "use a board that lets a pod cross {ring}s"),
    cured_by=MENDED,
)
REQUEST_HAS_NO_PLACE = ReasonKind(
    "request-has-no-place",
    Stage.PREDICATE,
    "no node of {board} can give {request} chips to one pod; a pod may ask for {allowed}",
    cures=("ask for one of {allowed} chips",),
    cured_by=MENDED,
)
NODE_NOT_WHOLLY_FREE = ReasonKind(
    "node-not-wholly-free",
    Stage.PREDICATE,
    "all {request} chips of the node are asked for and {free} are free",
    cures=("{missing} more chips must become free on the node",),
    cured_by=_CHIPS_CHANGE,
)
NOT_ENOUGH_WHOLE_RINGS = ReasonKind(
    "not-enough-whole-rings",
    Stage.PREDICATE,
    "{request} chips need {needed} completely free {ring}s and {whole} are; {free} chips are free in all",
    cures=("{missing} more {ring}s must become completely free",),
    cured_by=_CHIPS_CHANGE,
)
NOT_ENOUGH_PAIRS = ReasonKind(
    "not-enough-pairs-across-rings",
    Stage.PREDICATE,
    "{request} chips need {needed} pairs, one chip of each ring ({positions}); "
    "there are {pairs}; free per ring: {rings}",
    cures=("{missing} more pairs must become free",),
    cured_by=_CHIPS_CHANGE,
)
MORE_CHIPS_THAN_BOARD = ReasonKind(
    "more-chips-than-board",
    Stage.PREDICATE,
    "the node lists {free} free chips, more than the {chips} a node of {board} has",
    cures=(
        "choose the board that this node has (huawei.com/schedule_policy or accelerator-type)",
        "check the node's chip list",
    ),
    cured_by=_NODE_MENDED | MENDED,
)
NETWORK_KEY_MISSING = ReasonKind(
    "network-health-unknown",
    Stage.PREDICATE,
    "the node does not publish the network health of its chips, which a job of several pods needs",
    cures=("publish the NetworkUnhealthy key in the node's device-info ConfigMap; an empty list is enough",),
    cured_by=_NODE_MENDED,
)
NODE_LABEL_MISSING = ReasonKind(
    "node-label-missing",
    Stage.PREDICATE,
    "{board} needs the node label {label}={value}; the node has {found}",
    cures=("label the node {label}={value} if it has these cards",),
    cured_by=frozenset({Trigger.NODE_CHANGED}),
)

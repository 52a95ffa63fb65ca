"""Why the chip plugin refuses a job, or lets it wait."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, SPECIFICATION, ReasonKind, Stage, Trigger

MIXED_RESOURCES = ReasonKind(
    "mixed-resources",
    Stage.VALIDATE,
    "the pods request different chip resources: {resources}",
    ("create one job for each resource",),
    SPECIFICATION,
)
MIXED_BOARDS = ReasonKind(
    "mixed-boards",
    Stage.VALIDATE,
    "the pods select different boards: {boards}",
    (
        "use the same accelerator-type in all pods of the job",
        "create one job for each board",
    ),
    SPECIFICATION,
)
CONFLICTING_VALUES = ReasonKind(
    "conflicting-values",
    Stage.VALIDATE,
    "the {what} {key} has different values in one job: {values}",
    ("set {key} to the same value everywhere in the job, or only in one place",),
    SPECIFICATION,
)
NODE_SUB_HEALTHY = ReasonKind(
    "node-sub-healthy",
    Stage.PREDICATE,
    "{what} is sub-healthy, and subHealthyStrategy of the job is {strategy}",
    (
        "repair the node",
        "set the label subHealthyStrategy: ignore to use sub-healthy nodes",
    ),
    frozenset({Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED, Trigger.JOB_CHANGED}),
)
TOO_FEW_FREE_CHIPS = ReasonKind(
    "too-few-free-chips",
    Stage.ENQUEUE,
    "{needed:chip} of {resource} requested; {free} {free:=is|are} free",
    ("request fewer chips",),
)
CLUSTER_TOO_SMALL = ReasonKind(
    "cluster-too-small",
    Stage.ENQUEUE,
    "{needed:chip} of {resource} requested; the cluster has {all} in total",
    (
        "add nodes for {missing:more chip}",
        "request at most {all:chip}",
    ),
    frozenset({Trigger.NODE_ADDED, Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED, Trigger.JOB_CHANGED}),
)
PODS_DIFFER = ReasonKind(
    "pods-need-different-nodes",
    Stage.PLAN,
    "{needed:pod} {needed:=needs|need} different nodes; only {held} fit: {listing}",
    (
        "free nodes on which {short} can run",
        "change the node selectors or the requests of {short}",
    ),
    CAPACITY | SPECIFICATION | {Trigger.TOPOLOGY_CHANGED},
)
BACKUP_WAITS = ReasonKind(
    "backup-pod-pending",
    Stage.PLAN,
    "no free node of {where} fits backup pod {pod}, which replaces {source}",
    ("free a node of {where}",),
    CAPACITY | {Trigger.TOPOLOGY_CHANGED},
)
PODS_MISSING = ReasonKind(
    "pods-missing",
    Stage.PLAN,
    "{pods} of {all:pod} {pods:=exists|exist}; the job is scheduled as a whole",
    ("create the missing pods",),
    frozenset({Trigger.JOB_CHANGED}) | CAPACITY,
)

# --- Soft shares and vNPUs --------------------------------------------------------

SEVERAL_CHIP_RESOURCES = ReasonKind(
    "several-chip-resources",
    Stage.VALIDATE,
    "pod {pod} requests {resources}; a pod can request only one of chips, shares and vNPUs",
    ("request one resource in each pod",),
    SPECIFICATION,
)
POLICY_AND_RESOURCE_DIFFER = ReasonKind(
    "policy-and-resource-differ",
    Stage.VALIDATE,
    "schedule_policy {policy} requires a chip resource, and the job requests {resource}",
    ("remove the annotation", "request a percentage of a chip, for example huawei.com/Ascend910: 50"),
    SPECIFICATION,
)
NETWORK_AFFINITY_WITH_PARTS = ReasonKind(
    "network-affinity-with-parts",
    Stage.VALIDATE,
    "{what} cannot be combined with shares of chips and vNPUs",
    ("remove {what}",),
    SPECIFICATION,
)
SHARE_LABEL_MISSING = ReasonKind(
    "soft-sharing-label-missing",
    Stage.VALIDATE,
    "the label {label} is required for a soft share of a chip",
    ("set the label {label}",),
    SPECIFICATION,
)
QUOTA_NOT_A_NUMBER = ReasonKind(
    "quota-not-a-number",
    Stage.VALIDATE,
    'invalid label {label} "{value}": must be a number with 1 to 9 digits',
    ("set the label {label} to a whole number",),
    SPECIFICATION,
)
AICORE_QUOTA_RANGE = ReasonKind(
    "aicore-quota-range",
    Stage.VALIDATE,
    "invalid label {label} {value}: must be 1 to 100",
    ("set the label {label} to a percentage from 1 to 100",),
    SPECIFICATION,
)
HBM_QUOTA_RANGE = ReasonKind(
    "hbm-quota-range",
    Stage.VALIDATE,
    "invalid label {label} {value}: must be at least 1",
    ("set the label {label} to the memory of the share in MB",),
    SPECIFICATION,
)
SHARE_POLICY_UNKNOWN = ReasonKind(
    "share-policy-unknown",
    Stage.VALIDATE,
    'invalid label {label} "{value}": must be one of {allowed}',
    ("use one of {allowed}",),
    SPECIFICATION,
)
REQUEST_DIFFERS_FROM_QUOTA = ReasonKind(
    "request-differs-from-quota",
    Stage.VALIDATE,
    "the pods request {count} of {resource}, but their label aicoreQuota is {percent}; they must be equal",
    (
        "request {percent} of {resource}",
        "set the label aicoreQuota to {count}",
    ),
    SPECIFICATION,
)
SHARE_LABELS_DIFFER = ReasonKind(
    "share-labels-differ",
    Stage.VALIDATE,
    "the pods of the job have different values of the labels {labels}",
    ("set the same labels on all pods of the job",),
    SPECIFICATION,
)
MORE_THAN_ONE_PART = ReasonKind(
    "more-than-one-part",
    Stage.VALIDATE,
    "pod {pod} requests {count} static vNPUs; a pod can request only one",
    ("request one static vNPU in each pod",),
    SPECIFICATION,
)
STATIC_VNPUS_ONLY = ReasonKind(
    "static-vnpus-only",
    Stage.VALIDATE,
    "the job requests {count:core}, but presetVirtualDevice: true allows only static vNPUs",
    ("set presetVirtualDevice to false in init-params of the scheduler",),
    SPECIFICATION,
)
RING_LABEL_UNKNOWN = ReasonKind(
    "ring-label-unknown",
    Stage.VALIDATE,
    'invalid label ring-controller.atlas "{value}": must be one of {allowed} for dynamic vNPUs',
    ("use one of {allowed}",),
    SPECIFICATION,
)
UNKNOWN_DVPP = ReasonKind(
    "dvpp-label-unknown",
    Stage.VALIDATE,
    'invalid label {label} "{value}": must be one of {allowed}',
    ("use one of {allowed}",),
    SPECIFICATION,
)
COUNT_NOT_ALLOWED = ReasonKind(
    "core-count-not-allowed",
    Stage.VALIDATE,
    "{count:core} of an Ascend {family} chip {count:=matches|match} neither a vNPU template nor whole chips",
    ("request the cores of a vNPU template, or of whole chips",),
    SPECIFICATION | frozenset({Trigger.NODE_ADDED, Trigger.NODE_CHANGED}),
)
DVPP_NOT_ALLOWED = ReasonKind(
    "dvpp-not-allowed",
    Stage.VALIDATE,
    'the label {label}="{value}" cannot be combined with {count:core}',
    ('set the label {label} to "null"',),
    SPECIFICATION | frozenset({Trigger.NODE_ADDED, Trigger.NODE_CHANGED}),
)
LEVEL_NOT_ALLOWED = ReasonKind(
    "level-not-allowed",
    Stage.VALIDATE,
    'the label {label}="{value}" cannot be combined with {count:core} of these chips',
    ("set the label {label} to low",),
    SPECIFICATION | frozenset({Trigger.NODE_ADDED, Trigger.NODE_CHANGED}),
)

"""Why the chip plugin refuses a job, or lets it wait."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, SPECIFICATION, ReasonFamily, Stage, Trigger

_invalid = ReasonFamily(Stage.VALIDATE, SPECIFICATION)

MIXED_RESOURCES = _invalid(
    "mixed-resources",
    "the pods request different chip resources: {resources}",
    "create one job for each resource",
)
MIXED_BOARDS = _invalid(
    "mixed-boards",
    "the pods select different boards: {boards}",
    "use the same accelerator-type in all pods of the job",
    "create one job for each board",
)
CONFLICTING_VALUES = _invalid(
    "conflicting-values",
    "the {what} {key} has different values in one job: {values}",
    "set {key} to the same value everywhere in the job, or only in one place",
)

_unhealthy = ReasonFamily(
    Stage.PREDICATE, {Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED, Trigger.JOB_CHANGED}
)

NODE_SUB_HEALTHY = _unhealthy(
    "node-sub-healthy",
    "{what} is sub-healthy, and subHealthyStrategy of the job is {strategy}",
    "repair the node",
    "set the label subHealthyStrategy: ignore to use sub-healthy nodes",
)

_no_free_chips = ReasonFamily(Stage.ENQUEUE)

TOO_FEW_FREE_CHIPS = _no_free_chips(
    "too-few-free-chips",
    "{needed:chip} of {resource} requested; {free} {free:=is|are} free",
    "request fewer chips",
)

_too_small = ReasonFamily(
    Stage.ENQUEUE, {Trigger.NODE_ADDED, Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED, Trigger.JOB_CHANGED}
)

CLUSTER_TOO_SMALL = _too_small(
    "cluster-too-small",
    "{needed:chip} of {resource} requested; the cluster has {all} in total",
    "add nodes for {missing:more chip}",
    "request at most {all:chip}",
)

_pods_differ = ReasonFamily(Stage.PLAN, CAPACITY | SPECIFICATION | {Trigger.TOPOLOGY_CHANGED})

PODS_DIFFER = _pods_differ(
    "pods-need-different-nodes",
    "{needed:pod} {needed:=needs|need} different nodes; only {held} fit: {listing}",
    "free nodes on which {short} can run",
    "change the node selectors or the requests of {short}",
)

_no_place = ReasonFamily(Stage.PLAN, CAPACITY | {Trigger.TOPOLOGY_CHANGED})

BACKUP_WAITS = _no_place(
    "backup-pod-pending",
    "no free node of {where} fits backup pod {pod}, which replaces {source}",
    "free a node of {where}",
)

_incomplete = ReasonFamily(Stage.PLAN, {Trigger.JOB_CHANGED} | CAPACITY)

PODS_MISSING = _incomplete(
    "pods-missing",
    "{pods} of {all:pod} {pods:=exists|exist}; the job is scheduled as a whole",
    "create the missing pods",
)

# --- Soft shares and vNPUs --------------------------------------------------------

SEVERAL_CHIP_RESOURCES = _invalid(
    "several-chip-resources",
    "pod {pod} requests {resources}; a pod can request only one of chips, shares and vNPUs",
    "request one resource in each pod",
)
POLICY_AND_RESOURCE_DIFFER = _invalid(
    "policy-and-resource-differ",
    "schedule_policy {policy} requires a chip resource, and the job requests {resource}",
    "remove the annotation",
    "request a percentage of a chip, for example huawei.com/Ascend910: 50",
)
NETWORK_AFFINITY_WITH_PARTS = _invalid(
    "network-affinity-with-parts",
    "{what} cannot be combined with shares of chips and vNPUs",
    "remove {what}",
)
SHARE_LABEL_MISSING = _invalid(
    "soft-sharing-label-missing",
    "the label {label} is required for a soft share of a chip",
    "set the label {label}",
)
QUOTA_NOT_A_NUMBER = _invalid(
    "quota-not-a-number",
    'invalid label {label} "{value}": must be a number with 1 to 9 digits',
    "set the label {label} to a whole number",
)
AICORE_QUOTA_RANGE = _invalid(
    "aicore-quota-range",
    "invalid label {label} {value}: must be 1 to 100",
    "set the label {label} to a percentage from 1 to 100",
)
HBM_QUOTA_RANGE = _invalid(
    "hbm-quota-range",
    "invalid label {label} {value}: must be at least 1",
    "set the label {label} to the memory of the share in MB",
)
SHARE_POLICY_UNKNOWN = _invalid(
    "share-policy-unknown",
    'invalid label {label} "{value}": must be one of {allowed}',
    "use one of {allowed}",
)
REQUEST_DIFFERS_FROM_QUOTA = _invalid(
    "request-differs-from-quota",
    "the pods request {count} of {resource}, but their label aicoreQuota is {percent}; they must be equal",
    "request {percent} of {resource}",
    "set the label aicoreQuota to {count}",
)
SHARE_LABELS_DIFFER = _invalid(
    "share-labels-differ",
    "the pods of the job have different values of the labels {labels}",
    "set the same labels on all pods of the job",
)
MORE_THAN_ONE_PART = _invalid(
    "more-than-one-part",
    "pod {pod} requests {count} static vNPUs; a pod can request only one",
    "request one static vNPU in each pod",
)
STATIC_VNPUS_ONLY = _invalid(
    "static-vnpus-only",
    "the job requests {count:core}, but presetVirtualDevice: true allows only static vNPUs",
    "set presetVirtualDevice to false in init-params of the scheduler",
)
RING_LABEL_UNKNOWN = _invalid(
    "ring-label-unknown",
    'invalid label ring-controller.atlas "{value}": must be one of {allowed} for dynamic vNPUs',
    "use one of {allowed}",
)
UNKNOWN_DVPP = _invalid(
    "dvpp-label-unknown",
    'invalid label {label} "{value}": must be one of {allowed}',
    "use one of {allowed}",
)
_no_such_chip = ReasonFamily(Stage.VALIDATE, SPECIFICATION | {Trigger.NODE_ADDED, Trigger.NODE_CHANGED})
COUNT_NOT_ALLOWED = _no_such_chip(
    "core-count-not-allowed",
    "{count:core} of an Ascend {family} chip {count:=matches|match} neither a vNPU template nor whole chips",
    "request the cores of a vNPU template, or of whole chips",
)
DVPP_NOT_ALLOWED = _no_such_chip(
    "dvpp-not-allowed",
    'the label {label}="{value}" cannot be combined with {count:core}',
    'set the label {label} to "null"',
)
LEVEL_NOT_ALLOWED = _no_such_chip(
    "level-not-allowed",
    'the label {label}="{value}" cannot be combined with {count:core} of these chips',
    "set the label {label} to low",
)

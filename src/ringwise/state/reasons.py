"""Why a node takes no pod of a resource, whatever its free chips (rule N7)."""

from __future__ import annotations

from ringwise.reasons import ReasonKind, Stage, Trigger

UNKNOWN_HOLDER = ReasonKind(
    "unknown-holder",
    Stage.PREDICATE,
    "{node} is rejected for NPU pods: pod {pod} uses unknown chips ({chips} of {resource})",
    (
        "wait until the device plugin has set huawei.com/AscendReal on {pod}",
        "delete or move {pod}",
    ),
)
NODE_ISOLATED = ReasonKind(
    "node-isolated",
    Stage.PREDICATE,
    "{node} is isolated{group}{by}{why}",
    ("run `ringwise unisolate {target}`",),
    frozenset({Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED}),
)
NODE_DRAINS = ReasonKind(
    "node-draining",
    Stage.PREDICATE,
    "{node} is drained{group} {when} {time}{by}{why}, and the job {length}",
    (
        "set ringwise.io/expected-duration or runningEstimate so that the job ends before the drain",
        "run `ringwise unisolate {target}`",
    ),
    frozenset({Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED, Trigger.JOB_CHANGED}),
)
NODE_RESERVED = ReasonKind(
    "node-reserved",
    Stage.PREDICATE,
    "{node} is reserved for {holder} from {start} to {end} ({name}{by}), and the job {length}",
    (
        "set ringwise.io/expected-duration or runningEstimate so that the job ends before the start",
        "wait until the reservation ends: {end}",
        "run `ringwise unreserve {name}`",
    ),
    frozenset({Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED, Trigger.JOB_CHANGED}),
)
NODE_UNHEALTHY = ReasonKind(
    "node-unhealthy",
    Stage.PREDICATE,
    "{node} is reported as unhealthy",
    (
        "repair {node}: see ConfigMap mindx-dl-nodeinfo-{node}, or SwitchInfoCfg in "
        "mindx-dl-deviceinfo-{node}",
    ),
    frozenset({Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED}),
)
NODE_PRE_SEPARATED = ReasonKind(
    "node-pre-separated",
    Stage.PREDICATE,
    "{node} has a fault (PreSeparate): its pods continue, but it accepts no new NPU pods",
    ("repair {node} when its pods have finished: see ConfigMap mindx-dl-nodeinfo-{node}",),
    frozenset({Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED}),
)
UNREADABLE_POD = ReasonKind(
    "invalid-pod",
    Stage.PREDICATE,
    "{node} is rejected for NPU pods: pod {pod} is invalid and may use chips",
    (
        "correct {pod}: see `ringwise doctor`",
        "delete {pod}",
    ),
)
MODES_MIXED = ReasonKind(
    "allocation-modes-mixed",
    Stage.PREDICATE,
    "{node} is rejected for NPU pods: it has labels and resources of more than one allocation mode",
    ("configure one allocation mode on {node}: whole chips, soft shares, static vNPUs or dynamic vNPUs",),
    frozenset({Trigger.NODE_CHANGED}),
)
NODE_LABEL_NOT_SET = ReasonKind(
    "chip-label-missing",
    Stage.PREDICATE,
    "{node} is rejected for NPU pods: it offers npu-core, but its label {label} is not {allowed}",
    ("set the label {label} of {node}",),
    frozenset({Trigger.NODE_CHANGED}),
)
NO_TEMPLATES = ReasonKind(
    "no-vnpu-templates",
    Stage.PREDICATE,
    "{node} is rejected for NPU pods: no vNPU templates exist for its chips ({kind})",
    ("correct the labels servertype and node.kubernetes.io/npu.chip.name of {node}",),
    frozenset({Trigger.NODE_CHANGED}),
)
CORES_NOT_WHOLE_CHIPS = ReasonKind(
    "cores-not-a-multiple-of-chip",
    Stage.PREDICATE,
    "{node} is rejected for NPU pods: {cores:core} is not a multiple of the {of_chip} of a chip",
    ("correct the label servertype of {node}", "restart the device plugin of {node}"),
    frozenset({Trigger.NODE_CHANGED}),
)
SOFT_CAPACITY_DIFFERS = ReasonKind(
    "soft-capacity-differs",
    Stage.PREDICATE,
    "{node} is rejected for NPU pods: it is labeled for soft shares, but its capacity is {capacity}, "
    "not {expected} (100 per chip)",
    (
        "set shareDevCount=100 in the device plugin of {node}",
        "remove the label huawei.com/scheduler.chip1softsharedev.enable from {node}",
    ),
    frozenset({Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED}),
)
CHIP_MEMORY_MISSING = ReasonKind(
    "chip-memory-missing",
    Stage.PREDICATE,
    "{node} is rejected for NPU pods: it shares chips but does not have the label "
    "mind-cluster/npu-chip-memory",
    ("set the label mind-cluster/npu-chip-memory of {node}, for example to 64G",),
    frozenset({Trigger.NODE_CHANGED}),
)
CHIP_MEMORY_UNREADABLE = ReasonKind(
    "chip-memory-label-unreadable",
    Stage.PREDICATE,
    '{node} is rejected for NPU pods: invalid label mind-cluster/npu-chip-memory "{value}": must be '
    "a number such as 64G",
    ("set the label mind-cluster/npu-chip-memory of {node}, for example to 64G",),
    frozenset({Trigger.NODE_CHANGED}),
)
NODE_OFFERS_NO_CHIPS = ReasonKind(
    "node-offers-no-chips",
    Stage.PREDICATE,
    "{node} does not offer chips",
    ("check that the device plugin runs on {node}",),
    frozenset({Trigger.NODE_CHANGED}),
)
OTHER_MODE = ReasonKind(
    "other-allocation-mode",
    Stage.PREDICATE,
    "{node} has the allocation mode {mode}, but the pod requests {requested}",
    ("add a node with the allocation mode {requested}",),
    frozenset({Trigger.NODE_ADDED, Trigger.NODE_CHANGED}),
)
UNKNOWN_PART = ReasonKind(
    "unknown-part-on-node",
    Stage.PREDICATE,
    "{node} is rejected for NPU pods: it is unknown which part of a chip pod {pod} uses",
    ("delete or move {pod}",),
)
SHARES_WITHOUT_SOFT_LABEL = ReasonKind(
    "shares-without-soft-label",
    Stage.PREDICATE,
    "{node} is rejected for NPU pods: {capacity} of {resource} on {chips} are shares without limits",
    ("configure the device plugin of {node} to report each chip once (shareDevCount=1)",),
    frozenset({Trigger.NODE_CHANGED}),
)
UNSTABLE_NODE = ReasonKind(
    "unstable-node",
    Stage.PREDICATE,
    "{node} lists {listed:free chip} of {resource}, but Kubernetes counts {idle} idle of {allocatable}",
    (
        "check the device plugin of {node}: its chip list and the allocatable chips of the node must agree",
        "see which chips differ: `ringwise doctor`",
    ),
)
IDLE_ABOVE_CAPACITY = ReasonKind(
    "idle-above-capacity",
    Stage.PREDICATE,
    "Kubernetes counts {idle:idle chip} of {resource} on {node}, which has {capacity}",
    ("check the device plugin of {node}: its allocatable chips must not exceed its capacity",),
    frozenset({Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED}),
)
NODE_NOT_READY = ReasonKind(
    "node-not-ready",
    Stage.PREDICATE,
    "{node} is not Ready",
    ("check the kubelet of {node}",),
    frozenset({Trigger.NODE_ADDED, Trigger.NODE_CHANGED}),
)

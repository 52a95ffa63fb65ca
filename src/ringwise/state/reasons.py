"""Why a node takes no pod of a resource, whatever its free chips (rule N7)."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, ReasonKind, Stage, Trigger

UNKNOWN_HOLDER = ReasonKind(
    "unknown-holder",
    Stage.PREDICATE,
    "pod {pod} on {node} uses {chips:chip} of {resource} that it does not name, "
    "so {node} takes no new NPU pod until {chips:=it is|they are} known",
    (
        "wait until the device plugin has written huawei.com/AscendReal on {pod}",
        "delete or move {pod}",
    ),
    CAPACITY,
)
NODE_ISOLATED = ReasonKind(
    "node-isolated",
    Stage.PREDICATE,
    "{node} is isolated{group}{by}{why}",
    ("ringwise unisolate {target}",),
    frozenset({Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED}),
)
NODE_DRAINS = ReasonKind(
    "node-draining",
    Stage.PREDICATE,
    "{node} is drained{group} {when} {time}{by}{why}, and the job {length}",
    (
        "state how long the job runs (ringwise.io/expected-duration, runningEstimate): it must end before",
        "ringwise unisolate {target}",
    ),
    frozenset({Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED, Trigger.JOB_CHANGED}),
)
NODE_RESERVED = ReasonKind(
    "node-reserved",
    Stage.PREDICATE,
    "{node} is reserved for {holder} from {start} to {end} ({name}{by}), and the job {length}",
    (
        "state how long the job runs (ringwise.io/expected-duration, runningEstimate): it must end before",
        "wait until the reservation ends: {end}",
        "ringwise unreserve {name}",
    ),
    frozenset({Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED, Trigger.JOB_CHANGED}),
)
NODE_UNHEALTHY = ReasonKind(
    "node-unhealthy",
    Stage.PREDICATE,
    "{node} is reported as unhealthy",
    (
        "repair {node}: ConfigMap mindx-dl-nodeinfo-{node}, or SwitchInfoCfg in mindx-dl-deviceinfo-{node}, "
        "says what is wrong",
    ),
    frozenset({Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED}),
)
NODE_PRE_SEPARATED = ReasonKind(
    "node-pre-separated",
    Stage.PREDICATE,
    "{node} has a fault: its pods stay, and it takes no new NPU pod",
    ("repair {node} when its pods have ended: mindx-dl-nodeinfo-{node} says what is wrong",),
    frozenset({Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED}),
)
UNREADABLE_POD = ReasonKind(
    "invalid-pod",
    Stage.PREDICATE,
    "pod {pod} on {node} cannot be read and may use chips, so {node} takes no new NPU pod until it is "
    "corrected or gone",
    ("ringwise doctor says what is wrong with {pod}: correct it", "delete {pod}"),
    CAPACITY,
)
MODES_MIXED = ReasonKind(
    "allocation-modes-mixed",
    Stage.PREDICATE,
    "{node} has labels and resources of more than one allocation mode, so it takes no NPU pod",
    ("configure one of whole chips, soft shares, static vNPUs and dynamic vNPUs on {node}",),
    frozenset({Trigger.NODE_CHANGED}),
)
NODE_LABEL_NOT_SET = ReasonKind(
    "chip-label-missing",
    Stage.PREDICATE,
    "{node} offers huawei.com/npu-core and its label {label} is not {allowed}, so it takes no NPU pod",
    ("set the label {label} of {node}",),
    frozenset({Trigger.NODE_CHANGED}),
)
NO_TEMPLATES = ReasonKind(
    "no-vnpu-templates",
    Stage.PREDICATE,
    "no vNPU templates are known for the chips of {node} ({kind}), so it takes no NPU pod",
    ("correct the labels servertype and node.kubernetes.io/npu.chip.name of {node}",),
    frozenset({Trigger.NODE_CHANGED}),
)
CORES_NOT_WHOLE_CHIPS = ReasonKind(
    "cores-not-a-multiple-of-chip",
    Stage.PREDICATE,
    "{node} offers {cores:core}, which is not a multiple of the {of_chip} of a chip, so it takes no NPU pod",
    ("correct the label servertype of {node}", "restart the device plugin of {node}"),
    frozenset({Trigger.NODE_CHANGED}),
)
SOFT_CAPACITY_DIFFERS = ReasonKind(
    "soft-capacity-differs",
    Stage.PREDICATE,
    "{node} has the label huawei.com/scheduler.chip1softsharedev.enable and a capacity of {capacity}; "
    "100 for each chip are {expected}, so it takes no NPU pod",
    ("set shareDevCount=100 in the device plugin of {node}", "remove the label from {node}"),
    frozenset({Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED}),
)
CHIP_MEMORY_MISSING = ReasonKind(
    "chip-memory-missing",
    Stage.PREDICATE,
    "{node} shares its chips and has no label mind-cluster/npu-chip-memory, so it takes no NPU pod",
    ("set the label mind-cluster/npu-chip-memory of {node}, for example to 64G",),
    frozenset({Trigger.NODE_CHANGED}),
)
CHIP_MEMORY_UNREADABLE = ReasonKind(
    "chip-memory-label-unreadable",
    Stage.PREDICATE,
    "{node} has the label mind-cluster/npu-chip-memory: {value}, which must be a number such as 64G, "
    "so it takes no NPU pod",
    ("set the label mind-cluster/npu-chip-memory of {node}, for example to 64G",),
    frozenset({Trigger.NODE_CHANGED}),
)
NODE_OFFERS_NO_CHIPS = ReasonKind(
    "node-offers-no-chips",
    Stage.PREDICATE,
    "{node} offers no chips",
    ("check that the device plugin runs on {node}",),
    frozenset({Trigger.NODE_CHANGED}),
)
OTHER_MODE = ReasonKind(
    "other-allocation-mode",
    Stage.PREDICATE,
    "{node} has the allocation mode {mode}, and the pod requests {requested}",
    ("add a node with the allocation mode {requested}",),
    frozenset({Trigger.NODE_ADDED, Trigger.NODE_CHANGED}),
)
UNKNOWN_PART = ReasonKind(
    "unknown-part-on-node",
    Stage.PREDICATE,
    "{node} takes no new NPU pod: it is not known which part of which chip pod {pod} uses",
    ("delete or move {pod}",),
    CAPACITY,
)
SHARES_WITHOUT_SOFT_LABEL = ReasonKind(
    "shares-without-soft-label",
    Stage.PREDICATE,
    "{node} offers {capacity} of {resource} and has {chips}: these are shares of chips, which nothing "
    "limits, so {node} takes no NPU pod",
    ("configure the device plugin of {node} to report each chip once (shareDevCount=1)",),
    frozenset({Trigger.NODE_CHANGED}),
)
UNSTABLE_NODE = ReasonKind(
    "unstable-node",
    Stage.PREDICATE,
    "{node} lists {listed:free chip} of {resource} but Kubernetes counts {idle} idle of {allocatable}",
    (
        "check the device plugin of {node}: its list and the node's allocatable must agree",
        "ringwise doctor shows which chips differ",
    ),
    CAPACITY,
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
    ("bring {node} back to Ready",),
    frozenset({Trigger.NODE_ADDED, Trigger.NODE_CHANGED}),
)

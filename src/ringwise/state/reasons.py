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
    ("ringwise release {target} --reason TEXT",),
    frozenset({Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED}),
)
NODE_DRAINS = ReasonKind(
    "node-drains",
    Stage.PREDICATE,
    "{node} is drained{group} {when} {time}{by}{why}, and the job {length}",
    (
        "state how long the job runs (ringwise.io/expected-duration, runningEstimate): it must end before",
        "ringwise release {target} --reason TEXT",
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
    "unreadable-pod",
    Stage.PREDICATE,
    "pod {pod} on {node} cannot be read and may use chips, so {node} takes no new NPU pod until it is "
    "corrected or gone",
    ("ringwise doctor says what is wrong with {pod}: correct it", "delete {pod}"),
    CAPACITY,
)
SOFT_SHARING_NODE = ReasonKind(
    "soft-sharing-node",
    Stage.PREDICATE,
    "{node} has the label huawei.com/scheduler.chip1softsharedev.enable: pods share its chips, which is not "
    "supported yet, so it takes no NPU pod",
    ("turn off soft sharing in the device plugin of {node} and remove the label",),
    frozenset({Trigger.NODE_CHANGED}),
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

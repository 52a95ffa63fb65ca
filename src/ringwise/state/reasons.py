"""Why a node takes no pod of a resource, whatever its free chips (rule N7)."""

from __future__ import annotations

from ringwise.reasons import ReasonFamily, Stage, Trigger

_unstable = ReasonFamily(Stage.PREDICATE)

UNKNOWN_HOLDER = _unstable(
    "unknown-holder",
    "{node} is rejected for NPU pods: pod {pod} uses unknown chips ({chips} of {resource})",
    "wait until the device plugin has set huawei.com/AscendReal on {pod}",
    "delete or move {pod}",
)

_unhealthy = ReasonFamily(Stage.PREDICATE, {Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED})

NODE_ISOLATED = _unhealthy(
    "node-isolated",
    "{node} is isolated{group}{by}{why}",
    "run `ringwise unisolate {target}`",
)
_withheld = ReasonFamily(Stage.PREDICATE, {Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED, Trigger.JOB_CHANGED})
NODE_DRAINS = _withheld(
    "node-draining",
    "{node} is drained{group} {when} {time}{by}{why}, and the job {length}",
    "set ringwise.io/expected-duration or runningEstimate so that the job ends before the drain",
    "run `ringwise unisolate {target}`",
)
NODE_RESERVED = _withheld(
    "node-reserved",
    "{node} is reserved for {holder} from {start} to {end} ({name}{by}), and the job {length}",
    "set ringwise.io/expected-duration or runningEstimate so that the job ends before the start",
    "wait until the reservation ends: {end}",
    "run `ringwise unreserve {name}`",
)
NODE_UNHEALTHY = _unhealthy(
    "node-unhealthy",
    "{node} is reported as unhealthy",
    "repair {node}: see ConfigMap mindx-dl-nodeinfo-{node}, or SwitchInfoCfg in mindx-dl-deviceinfo-{node}",
)
NODE_PRE_SEPARATED = _unhealthy(
    "node-pre-separated",
    "{node} has a fault (PreSeparate): its pods continue, but it accepts no new NPU pods",
    "repair {node} when its pods have finished: see ConfigMap mindx-dl-nodeinfo-{node}",
)
UNREADABLE_POD = _unstable(
    "invalid-pod",
    "{node} is rejected for NPU pods: pod {pod} is invalid and may use chips",
    "correct {pod}: see `ringwise doctor`",
    "delete {pod}",
)

_misconfigured = ReasonFamily(Stage.PREDICATE, {Trigger.NODE_CHANGED})

MODES_MIXED = _misconfigured(
    "allocation-modes-mixed",
    "{node} is rejected for NPU pods: it has labels and resources of more than one allocation mode",
    "configure one allocation mode on {node}: whole chips, soft shares, static vNPUs or dynamic vNPUs",
)
NODE_LABEL_NOT_SET = _misconfigured(
    "chip-label-missing",
    "{node} is rejected for NPU pods: it offers npu-core, but its label {label} is not {allowed}",
    "set the label {label} of {node}",
)
NO_TEMPLATES = _misconfigured(
    "no-vnpu-templates",
    "{node} is rejected for NPU pods: no vNPU templates exist for its chips ({kind})",
    "correct the labels servertype and node.kubernetes.io/npu.chip.name of {node}",
)
CORES_NOT_WHOLE_CHIPS = _misconfigured(
    "cores-not-a-multiple-of-chip",
    "{node} is rejected for NPU pods: {cores:core} is not a multiple of the {of_chip} of a chip",
    "correct the label servertype of {node}",
    "restart the device plugin of {node}",
)
SOFT_CAPACITY_DIFFERS = _unhealthy(
    "soft-capacity-differs",
    "{node} is rejected for NPU pods: it is labeled for soft shares, but its capacity is {capacity}, "
    "not {expected} (100 per chip)",
    "set shareDevCount=100 in the device plugin of {node}",
    "remove the label huawei.com/scheduler.chip1softsharedev.enable from {node}",
)
CHIP_MEMORY_MISSING = _misconfigured(
    "chip-memory-missing",
    "{node} is rejected for NPU pods: it shares chips but does not have the label "
    "mind-cluster/npu-chip-memory",
    "set the label mind-cluster/npu-chip-memory of {node}, for example to 64G",
)
CHIP_MEMORY_UNREADABLE = _misconfigured(
    "chip-memory-label-unreadable",
    '{node} is rejected for NPU pods: invalid label mind-cluster/npu-chip-memory "{value}": must be '
    "a number such as 64G",
    "set the label mind-cluster/npu-chip-memory of {node}, for example to 64G",
)
NODE_OFFERS_NO_CHIPS = _misconfigured(
    "node-offers-no-chips",
    "{node} does not offer chips",
    "check that the device plugin runs on {node}",
)

_no_such_node = ReasonFamily(Stage.PREDICATE, {Trigger.NODE_ADDED, Trigger.NODE_CHANGED})

OTHER_MODE = _no_such_node(
    "other-allocation-mode",
    "{node} has the allocation mode {mode}, but the pod requests {requested}",
    "add a node with the allocation mode {requested}",
)
UNKNOWN_PART = _unstable(
    "unknown-part-on-node",
    "{node} is rejected for NPU pods: it is unknown which part of a chip pod {pod} uses",
    "delete or move {pod}",
)
SHARES_WITHOUT_SOFT_LABEL = _misconfigured(
    "shares-without-soft-label",
    "{node} is rejected for NPU pods: {capacity} of {resource} on {chips} are shares without limits",
    "configure the device plugin of {node} to report each chip once (shareDevCount=1)",
)
UNSTABLE_NODE = _unstable(
    "unstable-node",
    "{node} lists {listed:free chip} of {resource}, but Kubernetes counts {idle} idle of {allocatable}",
    "check the device plugin of {node}: its chip list and the allocatable chips of the node must agree",
    "see which chips differ: `ringwise doctor`",
)
IDLE_ABOVE_CAPACITY = _unhealthy(
    "idle-above-capacity",
    "Kubernetes counts {idle:idle chip} of {resource} on {node}, which has {capacity}",
    "check the device plugin of {node}: its allocatable chips must not exceed its capacity",
)
NODE_NOT_READY = _no_such_node(
    "node-not-ready",
    "{node} is not Ready",
    "check the kubelet of {node}",
)

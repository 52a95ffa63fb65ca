"""Why a job waits, or is refused, whatever plugins are configured."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, SPECIFICATION, Reason, ReasonFamily, ReasonKind, Stage, Trigger

NO_NODE_FITS = ReasonKind(
    "no-node-fits",
    Stage.PREDICATE,
    "0 of {nodes:node} can run {pod} ({asks}): {refusals}",
    # What helps depends on the nodes: `why` tries it.
)

_incomplete = ReasonFamily(Stage.GANG)

GANG_INCOMPLETE = _incomplete(
    "gang-incomplete",
    "{fit} of {needed:pod} {fit:=fits|fit}; {pod} ({asks}) does not: {refusals}",
)
SUB_GROUP_CUT = _incomplete(
    "sub-group-incomplete",
    "{fit} of {needed:pod} of sub-group {group} of {job} {fit:=fits|fit}; all must start together",
    "choose the block size so that each block contains whole sub-groups",
    "raise minAvailable to all pods of the job",
)

_awaits_nodes = ReasonFamily(Stage.GANG, {Trigger.JOB_CHANGED, Trigger.CHIPS_FREED, Trigger.TIME_PASSED})

WAIT_FOR_PREVIOUS_NODES = _awaits_nodes(
    "wait-for-previous-nodes",
    "{waiting:pod} {waiting:=waits|wait} up to {limit:~} ({seconds:~} elapsed) for {nodes:node} on "
    "which its old pods are terminating: {listing}",
    "no action required: after {limit:~} other nodes are used",
)

_awaits_places = ReasonFamily(
    Stage.GANG, {Trigger.JOB_CHANGED, Trigger.CHIPS_FREED, Trigger.NODE_CHANGED, Trigger.TIME_PASSED}
)

WAIT_FOR_PLANNED_PLACES = _awaits_places(
    "wait-for-planned-places",
    "the job is being moved: {waiting:pod} {waiting:=waits|wait} for {nodes:reserved node}: {listing}",
    "no action required: when the plan expires, the job is scheduled like any other",
)

_pods_missing = ReasonFamily(Stage.GANG, {Trigger.JOB_CHANGED})

NO_PODS_YET = _pods_missing(
    "no-pods-yet",
    "{pods} of {needed:required pod} {pods:=exists|exist} (minMember)",
    "create the missing pods",
    "lower minMember to {pods:#}",
)

_misconfigured = ReasonFamily(Stage.ENQUEUE, SPECIFICATION)

NO_CHIP_PLUGIN = _misconfigured(
    "no-chip-plugin",
    "the job requests {resource}, but no configured plugin assigns chips: {line} is missing",
    "add {line} to the plugins of a tier in volcano-scheduler.conf",
)

_invalid = ReasonFamily(Stage.VALIDATE, SPECIFICATION)

TOPOLOGY_COMBINED = _invalid(
    "topology-combined",
    "networkTopology cannot be combined with {key} {value}: both select the nodes",
    "remove {key} from the job",
    "remove networkTopology from the job",
)

_costly = ReasonFamily(
    Stage.PREDICATE,
    SPECIFICATION | {Trigger.NODE_ADDED, Trigger.NODE_CHANGED, Trigger.TOPOLOGY_CHANGED, Trigger.TIME_PASSED},
)

TOO_COSTLY = _costly(
    "search-limit-reached",
    "search limit reached: one attempt took {steps:step}, the limit is {limit}; the job is backed off",
    "use fewer and shorter selectors and affinity terms",
    "use the same template for more pods of the job",
)

_costly_now = ReasonFamily(Stage.PREDICATE, {Trigger.TIME_PASSED})

NAMESPACE_TOO_COSTLY = _costly_now(
    "namespace-search-limit-reached",
    "search limit of namespace {namespace} reached: {steps:step} of {limit}; next attempt in {seconds:~}",
    "no action required: next attempt in {seconds:~}",
    "use fewer selectors in the jobs of the namespace",
)

_not_offered = ReasonFamily(Stage.PREDICATE, {Trigger.NODE_ADDED, Trigger.NODE_CHANGED})

RESOURCE_NOT_OFFERED = _not_offered(
    "resource-not-offered",
    "{node} does not offer {resource}",
    "start the device plugin on {node}",
)

_unknown = ReasonFamily(Stage.VALIDATE, {Trigger.QUEUE_CHANGED, Trigger.JOB_CHANGED})

UNKNOWN_QUEUE = _unknown(
    "unknown-queue",
    'queue "{queue}" not found; existing queues: {known}',
    "create queue {queue}",
    "use queue {nearest}",
)

_queue_refuses = ReasonFamily(Stage.ENQUEUE, {Trigger.QUEUE_CHANGED, Trigger.JOB_CHANGED})

QUEUE_NOT_OPEN = _queue_refuses(
    "queue-not-open",
    "queue {queue} is {state} and does not accept jobs",
    "open queue {queue}",
    "use another queue",
)
QUEUE_NOT_A_LEAF = _queue_refuses(
    "queue-not-a-leaf",
    "queue {queue} has child queues ({children}); jobs run only in leaf queues",
    "use one of the queues {leaves}",
)

_queue_overused = ReasonFamily(Stage.ENQUEUE, CAPACITY | {Trigger.QUEUE_CHANGED, Trigger.CLAIM_FELL})

QUEUE_OVERUSED = _queue_overused(
    "queue-overused",
    "queue {queue} is over its fair share",
    "raise the weight of {queue}",
)

_behind = ReasonFamily(Stage.ENQUEUE, {Trigger.QUEUE_MOVED, Trigger.QUEUE_CHANGED, Trigger.JOB_CHANGED})

WAITS_BEHIND = _behind(
    "blocked-by-head-of-queue",
    "blocked by jobs ahead of it in queue {queue} that request {resource} (queue-discipline: strict)",
    "no action required: it is tried when the jobs ahead of it have started",
    "use another queue",
    "set queue-discipline: best-effort in init-params, so that jobs that fit start out of order",
)

_invalid_queue = ReasonFamily(Stage.VALIDATE, {Trigger.QUEUE_CHANGED})

MALFORMED_QUEUE = _invalid_queue(
    "invalid-queue",
    "queue {queue}: {problem}",
    "correct the Queue and apply it again",
)
MALFORMED_HYPER_NODE = _invalid(
    "invalid-hyper-node",
    "HyperNode {hyper_node}: {problem}",
    "correct the HyperNode and apply it again",
)
QUEUE_PROTECTED = _invalid_queue(
    "queue-protected",
    "{problem}",
    "to stop accepting jobs, close the queue; delete it when its jobs have finished",
)
PODS_GATED = _pods_missing(
    "pods-gated",
    "{gated:pod is|pods are} gated (schedulingGates); {pods} of {needed:required pod} {pods:=is|are} ready",
    "wait for the controller that gated {gated:=the pod|the pods}, or remove the schedulingGates",
)

_not_ours = ReasonFamily(Stage.VALIDATE, {Trigger.JOB_CHANGED})

OTHER_SCHEDULER = _not_ours(
    "other-scheduler",
    "schedulerName is {scheduler}; this scheduler serves {served}",
    "set schedulerName to {nearest}",
)
MALFORMED_JOB = _invalid(
    "invalid-job",
    "{problem}",
    "correct the job's manifest and submit it again",
)
TOO_MANY_CHIP_CONTAINERS = _invalid(
    "too-many-chip-containers",
    "{containers:container} of pod {pod} {containers:=requests|request} chips; only one container of "
    "a pod can",
    "request all {chips:chip} in one container",
    "create a pod for each of the containers",
)
CHIPS_OF_INIT_CONTAINER = _invalid(
    "chips-of-init-container",
    "only an init container of pod {pod} requests chips, and it ends before the containers start",
    "request the chips in the container that uses them",
    "set restartPolicy: Always on the init container, which makes it a sidecar",
)
VISIBLE_DEVICES_SET = _invalid(
    "visible-devices-set",
    "container {container} of pod {pod}: {field} sets ASCEND_VISIBLE_DEVICES from {source}, not from "
    "the assigned chips",
    "remove {field}: the device plugin sets the variable",
    "set it with valueFrom.fieldRef.fieldPath: metadata.annotations['huawei.com/Ascend910'], "
    "with the resource that the pod requests",
    'set it to "void" in a container that must not see chips',
    "set visible-devices: allowed in init-params to let pods choose their chips",
)
VISIBLE_DEVICES_HIDDEN = _invalid(
    "visible-devices-hidden",
    "container {container} of pod {pod}: {field} imports {source}, which can set "
    "ASCEND_VISIBLE_DEVICES (visible-devices: strict)",
    'set ASCEND_VISIBLE_DEVICES also in env of the container, to "void" or with '
    "valueFrom.fieldRef.fieldPath: metadata.annotations['huawei.com/Ascend910'], with the "
    "resource that the pod requests",
    "set a prefix for {field}",
    "set visible-devices: refused in init-params",
)

_failed = ReasonFamily(Stage.PLAN, CAPACITY | SPECIFICATION)

INTERNAL_ERROR = _failed(
    "internal-error",
    "internal error in {where}: {error}",
    "report this error with the journal",
    "if {where} is your own plugin, remove it from the configuration",
)

_evicting = ReasonFamily(Stage.GANG, CAPACITY | {Trigger.TIME_PASSED})

WAITING_FOR_EVICTIONS = _evicting(
    "evictions-in-progress",
    "{victims:pod is|pods are} being evicted for it ({why}); nodes reserved: {nodes}; next attempt "
    "in {seconds:~} at the latest",
)

#: What helps a job whose claims get no volumes. Chips that become free do not, so no job waits behind it.
_volumes_missing = ReasonFamily(
    Stage.GANG, {Trigger.JOB_CHANGED, Trigger.VOLUME_CHANGED, Trigger.TIME_PASSED}
)

VOLUMES_AWAITED = _volumes_missing(
    "volumes-pending",
    "{pods:pod has its node|pods have their nodes}; {claims:claim is|claims are} not bound: {claim} "
    "on {node} waits up to {seconds:~}",
    "check the events of PersistentVolumeClaim {claim}, and that its provisioner is running",
    "no action required: after {seconds:~} its nodes are released",
)
VOLUMES_TIMED_OUT = _volumes_missing(
    "volumes-timed-out",
    "{waiting} of {claims:claim} had no volume after {limit:~}, first {claim} on {node}; next "
    "attempt in {seconds:~}",
    "check the events of PersistentVolumeClaim {claim}, and that its provisioner is running",
    "raise volumebinding.bindTimeoutSeconds of the plugin predicates above {limit:~}",
)
VOLUME_BINDING_FAILED = _volumes_missing(
    "volume-binding-failed",
    "volume binding failed: {why}; nodes released, next attempt in {seconds:~}",
    "no action required: next attempt in {seconds:~}",
)

#: What such a job gave back is for others first: nothing is kept for it.
_GAVE_BACK = frozenset({VOLUMES_TIMED_OUT.code, VOLUME_BINDING_FAILED.code})


def gave_nodes_back(reason: Reason | None) -> bool:
    """Whether the job had its nodes, and its claims were not bound."""
    return reason is not None and reason.code in _GAVE_BACK


#: Triggers that can give a queue room.
QUEUE_ROOM = CAPACITY | {Trigger.QUEUE_CHANGED, Trigger.JOB_CHANGED, Trigger.CLAIM_FELL}


_no_room_in_queue = ReasonFamily(Stage.GANG, QUEUE_ROOM)

QUEUE_CAPABILITY_REACHED = _no_room_in_queue(
    "queue-capability-reached",
    "queue {queue} uses {used} of {resource} and the pod requests {asked}; the queue's capability is {limit}",
    "raise capability {resource} of {queue} to {needed}",
)

_queue_full = ReasonFamily(Stage.ENQUEUE, QUEUE_ROOM)

QUEUE_QUOTA_INSUFFICIENT = _queue_full(
    "queue-quota-insufficient",
    "queue resource quota insufficient: queue {queue} has allocated {taken} of {limit} of "
    "{resource}, and the job requests {asked}",
    "use a queue with {asked} of {resource} free",
)
QUEUE_SHARE_KEPT = _queue_full(
    "queue-quota-reserved",
    "queue {queue}: {used} of {resource} used, {kept} reserved for {jobs} being rescheduled, {asked} "
    "requested, limit {limit}",
    "no action required: the reserved quota is released {seconds:~} after the last pod was lost",
    "delete {first} if it is no longer needed",
)

#: What helps a job that waits for a limit: another job that counts for it ends, or the limit is changed.
#: Chips that become free elsewhere do not.
LIMIT_FREED = frozenset({Trigger.LIMIT_FREED})

_limited = ReasonFamily(Stage.ENQUEUE, LIMIT_FREED)

CHIP_LIMIT_REACHED = _limited(
    "chip-limit-reached",
    "{scope} uses {used} of {hard} {resource} and the job requests {asked} more ({setting})",
    "raise {setting} to {total}",
)
LARGER_THAN_LIMIT = _limited(
    "larger-than-limit",
    "the job requests {asked} {resource} at once; the limit of {scope} is {hard} ({setting})",
    "request at most {hard:#} {resource}",
    "raise {setting} to {asked} or more",
)
RUNNING_LIMIT_REACHED = _limited(
    "running-jobs-limit-reached",
    "{jobs:job|jobs} of {scope} {jobs:=is|are} running; the limit is {most} ({setting})",
    "raise {setting}",
)
WAITING_LIMIT_REACHED = _limited(
    "pending-jobs-limit-reached",
    "{jobs:job|jobs} of {scope} {jobs:=is|are} pending; the limit is {most} ({setting})",
    "raise {setting}",
)

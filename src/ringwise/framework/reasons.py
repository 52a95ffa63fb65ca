"""Why a job waits, or is refused, whatever plugins are configured."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, SPECIFICATION, Reason, ReasonKind, Stage, Trigger

NO_NODE_FITS = ReasonKind(
    "no-node-fits",
    Stage.PREDICATE,
    "no node of {nodes} can take {pod} ({asks}): {refusals}",
    # What helps depends on the nodes: `why` tries it.
    (),
    CAPACITY,
)
GANG_INCOMPLETE = ReasonKind(
    "gang-incomplete",
    Stage.GANG,
    "{fit} of the {needed:pod} that must start together {fit:=fits|fit}; {pod} does not ({asks}): {refusals}",
    (),
    CAPACITY,
)
SUB_GROUP_CUT = ReasonKind(
    "sub-group-incomplete",
    Stage.GANG,
    "{fit} of the {needed:pod} of sub-group {group} of {job} that must start together {fit:=fits|fit}",
    ("let each block of the job hold whole sub-groups", "raise minAvailable to all pods of the job"),
    CAPACITY,
)
WAIT_FOR_PREVIOUS_NODES = ReasonKind(
    "wait-for-previous-nodes",
    Stage.GANG,
    "{waiting:pod} {waiting:=waits|wait} for at most {limit:~} until the {nodes:=node|nodes} of the job's "
    "healthy pods that still terminate {nodes:=is|are} free, {seconds:~} passed: "
    "{listing}",
    ("nothing to do: other nodes are taken after {limit:~}",),
    frozenset({Trigger.JOB_CHANGED, Trigger.CHIPS_FREED, Trigger.TIME_PASSED}),
)
WAIT_FOR_PLANNED_PLACES = ReasonKind(
    "wait-for-planned-places",
    Stage.GANG,
    "the job is moved: {waiting:pod} {waiting:=waits|wait} for the {nodes:=place|places} that "
    "{nodes:=is|are} kept for {waiting:=it|them}: {listing}",
    ("nothing to do: the plan ends when its time is over, and the job is placed like any other",),
    frozenset({Trigger.JOB_CHANGED, Trigger.CHIPS_FREED, Trigger.NODE_CHANGED, Trigger.TIME_PASSED}),
)
NO_PODS_YET = ReasonKind(
    "no-pods-yet",
    Stage.GANG,
    "{pods} of the {needed:pod} that must start together {pods:=exists|exist}",
    ("create the missing pods", "lower minMember to {pods:#}"),
    frozenset({Trigger.JOB_CHANGED}),
)
NO_CHIP_PLUGIN = ReasonKind(
    "no-chip-plugin",
    Stage.ENQUEUE,
    "the job asks for {resource}, and no plugin of the configuration gives chips: the line {line} is missing",
    ("add the line {line} to the plugins of a tier in volcano-scheduler.conf",),
    SPECIFICATION,
)
TOPOLOGY_COMBINED = ReasonKind(
    "topology-combined",
    Stage.VALIDATE,
    "the job has a networkTopology and {key} {value}: both choose the nodes",
    ("remove {key} from the job", "remove networkTopology from the job"),
    SPECIFICATION,
)
TOO_COSTLY = ReasonKind(
    "search-limit-reached",
    Stage.PREDICATE,
    "the job is set aside for a while: to find nodes for it took {steps:step} in one cycle, at most {limit} "
    "{limit:=is|are} allowed",
    ("use fewer and shorter selectors and affinity terms", "let the pods of the job differ less"),
    frozenset(
        {
            Trigger.JOB_CHANGED,
            Trigger.NODE_ADDED,
            Trigger.NODE_CHANGED,
            Trigger.TOPOLOGY_CHANGED,
            Trigger.CONFIGURATION_CHANGED,
            Trigger.TIME_PASSED,
        }
    ),
)
NAMESPACE_TOO_COSTLY = ReasonKind(
    "namespace-search-limit-reached",
    Stage.PREDICATE,
    "to find nodes for jobs of the namespace {namespace} took {steps:step} lately, at most {limit} "
    "{limit:=is|are} allowed: this one is tried in {seconds:~}",
    ("nothing to do: it is tried again in {seconds:~}", "use fewer selectors in the jobs of the namespace"),
    frozenset({Trigger.TIME_PASSED}),
)
RESOURCE_NOT_OFFERED = ReasonKind(
    "resource-not-offered",
    Stage.PREDICATE,
    "{node} offers no {resource}",
    ("start the device plugin on {node}",),
    frozenset({Trigger.NODE_ADDED, Trigger.NODE_CHANGED}),
)
UNKNOWN_QUEUE = ReasonKind(
    "unknown-queue",
    Stage.VALIDATE,
    "there is no queue {queue}; known are {known}",
    ("create the queue {queue}", "use the queue {nearest}"),
    frozenset({Trigger.QUEUE_CHANGED, Trigger.JOB_CHANGED}),
)
QUEUE_NOT_OPEN = ReasonKind(
    "queue-not-open",
    Stage.ENQUEUE,
    "queue {queue} is {state} and takes no jobs",
    ("open the queue {queue}", "use another queue"),
    frozenset({Trigger.QUEUE_CHANGED, Trigger.JOB_CHANGED}),
)
QUEUE_NOT_A_LEAF = ReasonKind(
    "queue-not-a-leaf",
    Stage.ENQUEUE,
    "queue {queue} has the queues {children} below it; jobs run only in queues without such",
    ("use one of the queues {leaves}",),
    frozenset({Trigger.QUEUE_CHANGED, Trigger.JOB_CHANGED}),
)
QUEUE_OVERUSED = ReasonKind(
    "queue-overused",
    Stage.ENQUEUE,
    "queue {queue} uses all it deserves",
    ("raise the weight of {queue}",),
    CAPACITY | {Trigger.QUEUE_CHANGED, Trigger.CLAIM_FELL},
)
WAITS_BEHIND = ReasonKind(
    "blocked-by-head-of-queue",
    Stage.ENQUEUE,
    "jobs ahead of it in queue {queue} that ask for {resource} do not fit yet (queue-discipline: strict)",
    (
        "nothing to do: it is tried when the jobs ahead of it have started",
        "use another queue",
        "write queue-discipline: best-effort into init-params, if jobs that fit may pass those that do not",
    ),
    frozenset({Trigger.QUEUE_MOVED, Trigger.QUEUE_CHANGED, Trigger.JOB_CHANGED}),
)
MALFORMED_QUEUE = ReasonKind(
    "invalid-queue",
    Stage.VALIDATE,
    "queue {queue}: {problem}",
    ("correct the Queue and apply it again",),
    frozenset({Trigger.QUEUE_CHANGED}),
)
MALFORMED_HYPER_NODE = ReasonKind(
    "invalid-hyper-node",
    Stage.VALIDATE,
    "HyperNode {hyper_node}: {problem}",
    ("correct the HyperNode and apply it again",),
    SPECIFICATION,
)
QUEUE_PROTECTED = ReasonKind(
    "queue-protected",
    Stage.VALIDATE,
    "{problem}",
    ("close the queue instead, if it is to take no more jobs, and delete it when its jobs have ended",),
    frozenset({Trigger.QUEUE_CHANGED}),
)
PODS_GATED = ReasonKind(
    "pods-gated",
    Stage.GANG,
    "{gated:pod is|pods are} gated (schedulingGates); the job starts with {needed:pod}, and {pods} "
    "{pods:=is|are} not gated",
    ("remove the schedulingGates of {gated:=that pod|those pods}: whoever added them does it",),
    frozenset({Trigger.JOB_CHANGED}),
)
OTHER_SCHEDULER = ReasonKind(
    "other-scheduler",
    Stage.VALIDATE,
    "not ours: its schedulerName is {scheduler}; served are {served}",
    ("set schedulerName to {nearest}",),
    frozenset({Trigger.JOB_CHANGED}),
)
MALFORMED_JOB = ReasonKind(
    "invalid-job",
    Stage.VALIDATE,
    "{problem}",
    ("correct the job's manifest and submit it again",),
    SPECIFICATION,
)
TOO_MANY_CHIP_CONTAINERS = ReasonKind(
    "too-many-chip-containers",
    Stage.VALIDATE,
    "{containers:container} of pod {pod} {containers:=requests|request} chips; only one may",
    ("give all {chips:chip} to one container", "make a pod of each container"),
    SPECIFICATION,
)
CHIPS_OF_INIT_CONTAINER = ReasonKind(
    "chips-of-init-container",
    Stage.VALIDATE,
    "only an init container of pod {pod} requests chips; it ends before the containers start",
    (
        "request the chips in the container that uses them",
        "set restartPolicy of the init container to Always, which makes it a sidecar",
    ),
    SPECIFICATION,
)
VISIBLE_DEVICES_SET = ReasonKind(
    "visible-devices-set",
    Stage.VALIDATE,
    "container {container} of pod {pod} chooses the chips that it sees: {field} sets ASCEND_VISIBLE_DEVICES "
    "from {source}, and not from the chips that the pod is given",
    (
        "remove {field}: the device plugin sets the variable",
        "set it with valueFrom.fieldRef.fieldPath: metadata.annotations['huawei.com/Ascend910'], with the "
        "resource that the pod asks for",
        'set it to "void" in a container that is to see no chips',
        "write visible-devices: allowed into init-params, if pods may choose their chips",
    ),
    SPECIFICATION,
)
VISIBLE_DEVICES_HIDDEN = ReasonKind(
    "visible-devices-hidden",
    Stage.VALIDATE,
    "container {container} of pod {pod} may choose the chips that it sees: {field} reads all variables of "
    "{source}, and ASCEND_VISIBLE_DEVICES can be one of them (visible-devices: strict)",
    (
        'set ASCEND_VISIBLE_DEVICES in env of the container, too: to "void", or with '
        "valueFrom.fieldRef.fieldPath: metadata.annotations['huawei.com/Ascend910'], with the resource that "
        "the pod asks for",
        "give {field} a prefix",
        "write visible-devices: refused into init-params",
    ),
    SPECIFICATION,
)
INTERNAL_ERROR = ReasonKind(
    "internal-error",
    Stage.PLAN,
    "{where} failed on this job: {error}",
    ("report this with the journal", "remove {where} from the configuration if it is your own"),
    CAPACITY | SPECIFICATION,
)
WAITING_FOR_EVICTIONS = ReasonKind(
    "evictions-in-progress",
    Stage.GANG,
    "{victims:pod is|pods are} evicted for it ({why}); what it needs on {nodes} is reserved for it; "
    "it is tried again if {victims:=that pod is|they are} not gone after {seconds:~}",
    (),
    CAPACITY | {Trigger.TIME_PASSED},
)

#: What helps a job whose claims get no volumes. Chips that become free do not: nobody waits behind it.
_CLAIMS_OR_TIME = frozenset({Trigger.JOB_CHANGED, Trigger.VOLUME_CHANGED, Trigger.TIME_PASSED})

VOLUMES_AWAITED = ReasonKind(
    "volumes-pending",
    Stage.GANG,
    "{pods:pod has its node|pods have their nodes} and {pods:=is|are} bound when {claims:claim has its "
    "volume|claims have their volumes}; the claim {claim} waits for its volume on {node}, for at most "
    "{seconds:~}",
    (
        "see what the events of the PersistentVolumeClaim {claim} say, and whether its provisioner runs",
        "nothing to do: what it has is free for others after {seconds:~}",
    ),
    _CLAIMS_OR_TIME,
)
VOLUMES_TIMED_OUT = ReasonKind(
    "volumes-timed-out",
    Stage.GANG,
    "{waiting} of {claims:claim} had no volume after {limit:~}, the first is {claim} on {node}; what the job "
    "had is free for others, and it is tried again after {seconds:~}, or when one of its claims changes",
    (
        "see what the events of the PersistentVolumeClaim {claim} say, and whether its provisioner runs",
        "raise volumebinding.bindTimeoutSeconds of the plugin predicates above {limit:~}",
    ),
    _CLAIMS_OR_TIME,
)
VOLUME_BINDING_FAILED = ReasonKind(
    "volume-binding-failed",
    Stage.GANG,
    "the job gave its nodes back while its claims were bound: {why}; it is tried again after {seconds:~}, or "
    "when one of its claims changes",
    ("nothing to do: it is tried again after {seconds:~}",),
    _CLAIMS_OR_TIME,
)

#: What such a job gave back is for others first: nothing is kept for it.
_GAVE_BACK = frozenset({VOLUMES_TIMED_OUT.code, VOLUME_BINDING_FAILED.code})


def gave_nodes_back(reason: Reason | None) -> bool:
    """Whether the job had its nodes, and its claims were not bound."""
    return reason is not None and reason.code in _GAVE_BACK


#: Triggers that can give a queue room.
QUEUE_ROOM = CAPACITY | {Trigger.QUEUE_CHANGED, Trigger.JOB_CHANGED, Trigger.CLAIM_FELL}

QUEUE_CAPABILITY_REACHED = ReasonKind(
    "queue-capability-reached",
    Stage.GANG,
    "queue {queue} uses {used} of {resource} and the pod asks for {asked}; it may use {limit}",
    ("raise capability {resource} of {queue} to {needed}",),
    QUEUE_ROOM,
)
QUEUE_QUOTA_INSUFFICIENT = ReasonKind(
    "queue-quota-insufficient",
    Stage.ENQUEUE,
    "queue resource quota insufficient: queue {queue} has given away {taken} of the {limit} of {resource} "
    "it may use, and the job needs {asked}",
    ("use a queue with {asked} of {resource} to spare",),
    QUEUE_ROOM,
)
QUEUE_SHARE_KEPT = ReasonKind(
    "queue-quota-reserved",
    Stage.ENQUEUE,
    "queue {queue} uses {used} of {resource}, {kept} more {kept:=is|are} kept for {jobs}, which lost pods "
    "and {count:=is|are} being rescheduled, and {asked} {asked:=is|are} asked for; the queue may use {limit}",
    (
        "nothing to do: {count:=that job uses|those jobs use} it again when complete, or it is free "
        "{seconds:~} after a pod was last lost",
        "delete {first}, if it is not to come back",
    ),
    QUEUE_ROOM,
)

#: What helps a job that waits for a limit: somebody it counts with ends, or the limit is changed. Chips that
#: become free elsewhere do not.
LIMIT_FREED = frozenset({Trigger.LIMIT_FREED})

CHIP_LIMIT_REACHED = ReasonKind(
    "chip-limit-reached",
    Stage.ENQUEUE,
    "{scope} uses {used} of at most {hard} {resource} and the job requests {asked} more; it waits for this "
    "limit ({setting}) and keeps nobody else waiting",
    ("raise {setting} to {total}",),
    LIMIT_FREED,
)
LARGER_THAN_LIMIT = ReasonKind(
    "larger-than-limit",
    Stage.ENQUEUE,
    "the job needs {asked} {resource} at once and {scope} may use {hard} in all ({setting})",
    ("request at most {hard} {resource}", "raise {setting} to {asked} or more"),
    LIMIT_FREED,
)
RUNNING_LIMIT_REACHED = ReasonKind(
    "running-jobs-limit-reached",
    Stage.ENQUEUE,
    "{jobs:job of|jobs of} {scope} {jobs:=runs|run} and at most {most} may ({setting}); the job waits for "
    "this limit and keeps nobody else waiting",
    ("raise {setting}",),
    LIMIT_FREED,
)
WAITING_LIMIT_REACHED = ReasonKind(
    "pending-jobs-limit-reached",
    Stage.ENQUEUE,
    "{jobs:job of|jobs of} {scope} {jobs:=waits|wait} and at most {most} may ({setting}); the job is not "
    "tried before one of them starts or is gone",
    ("raise {setting}",),
    LIMIT_FREED,
)

"""Why plugins refuse a job, a pod or a node."""

from __future__ import annotations

from ringwise.reasons import MENDED, ROOM, ReasonKind, Stage, Trigger

_NODE_OR_JOB = frozenset({Trigger.NODE_ADDED, Trigger.NODE_CHANGED, Trigger.JOB_CHANGED})
_QUEUE_ROOM = ROOM | {Trigger.QUEUE_CHANGED, Trigger.JOB_CHANGED}

# --- gang ---------------------------------------------------------------------

NOT_ENOUGH_PODS = ReasonKind(
    "not-enough-pods",
    Stage.VALIDATE,
    "{valid} pod(s) of {job} can take part; {needed} must start together",
    ("create {missing} more pod(s)", "lower minAvailable to {valid}"),
    MENDED,
)
NOT_ENOUGH_PODS_OF_TASK = ReasonKind(
    "not-enough-pods-of-task",
    Stage.VALIDATE,
    "task {task} of {job} has {valid} pod(s) that can take part; {needed} must start together",
    ("create {missing} more pod(s) of task {task}", "lower the task's minAvailable to {valid}"),
    MENDED,
)
GANG_NOT_COMPLETE = ReasonKind(
    "gang-not-complete",
    Stage.GANG,
    "{started} of the {needed} pods of {job} that must start together have a place",
    ("wait until room for {missing} more pod(s) is free", "lower minAvailable to {started}"),
    ROOM,
)
TASKS_NOT_COMPLETE = ReasonKind(
    "tasks-not-complete",
    Stage.GANG,
    "{short} of the {tasks} tasks of {job} lack pods that must start together",
    ("wait until room for their pods is free", "lower the minAvailable of those {short} task(s)"),
    ROOM,
)

# --- predicates: what a class of nodes can tell ------------------------------------

NODE_CORDONED = ReasonKind(
    "node-cordoned",
    Stage.PREDICATE,
    "the node is cordoned and the pod tolerates no {taint}",
    ("uncordon the node", "tolerate {taint}"),
    _NODE_OR_JOB,
)
SELECTOR_MISMATCH = ReasonKind(
    "node-selector-mismatch",
    Stage.PREDICATE,
    "the pod selects nodes with {key}={wanted}; here it is {found}",
    ("label nodes with {key}={wanted}", "remove {key} from the pod's nodeSelector"),
    _NODE_OR_JOB,
)
AFFINITY_MISMATCH = ReasonKind(
    "node-affinity-mismatch",
    Stage.PREDICATE,
    "none of the pod's {terms} required node affinity term(s) holds here: {wanted}",
    ("label nodes so that one term holds", "relax the pod's required node affinity"),
    _NODE_OR_JOB,
)
UNTOLERATED_TAINT = ReasonKind(
    "untolerated-taint",
    Stage.PREDICATE,
    "the node has the taint {taint}, which the pod does not tolerate",
    ("tolerate {taint} in the pod", "remove the taint from the node"),
    _NODE_OR_JOB,
)
TOO_MANY_PODS = ReasonKind(
    "too-many-pods",
    Stage.PREDICATE,
    "the node runs {pods} pods and takes at most {limit}",
    ("wait until a pod of the node ends", "raise the node's pod limit of {limit}"),
    ROOM,
)
INSUFFICIENT_RESOURCE = ReasonKind(
    "insufficient-resource",
    Stage.PREDICATE,
    "the pod asks for {asked} of {resource}; {free} of {allocatable} are free here",
    ("wait until {missing} more of {resource} are free on a node", "ask for at most {free} of {resource}"),
    ROOM,
)

# --- predicates: what only a single node can tell -------------------------------------

PORT_TAKEN = ReasonKind(
    "host-port-taken",
    Stage.PREDICATE,
    "port {port}/{protocol} of {node} is used by {pod}",
    ("wait until {pod} ends", "use another host port than {port}"),
    ROOM,
)
NO_NEIGHBOUR = ReasonKind(
    "pod-affinity-unmet",
    Stage.PREDICATE,
    "0 pods in the {key} of {node} match the pod's required affinity: {wanted}",
    ("start a pod that matches it in the {key} of {node}", "relax the pod's required affinity"),
    ROOM | MENDED,
)
UNWANTED_NEIGHBOUR = ReasonKind(
    "pod-anti-affinity",
    Stage.PREDICATE,
    "{pods} pod(s) in the {key} of {node} match the pod's required anti-affinity: {wanted}",
    ("wait until those {pods} pod(s) end", "relax the pod's required anti-affinity"),
    ROOM | MENDED,
)
UNWANTED_BY_NEIGHBOUR = ReasonKind(
    "unwanted-by-neighbour",
    Stage.PREDICATE,
    "{pods} pod(s) in the {key} of {node} have an anti-affinity to this pod: {wanted}",
    ("wait until those {pods} pod(s) end", "change the pod's labels so that they do not match {wanted}"),
    ROOM | MENDED,
)

# --- proportion --------------------------------------------------------------------------

QUEUE_SHARE_USED = ReasonKind(
    "queue-share-used",
    Stage.GANG,
    "queue {queue} uses {used} of {resource} and the pod asks for {asked}; "
    "its share is {deserved} while other queues want theirs",
    (
        "wait until jobs of {queue} end or other queues want less",
        "raise the weight of {queue}, which is {weight}",
    ),
    _QUEUE_ROOM,
)
QUEUE_CAPABILITY_REACHED = ReasonKind(
    "queue-capability-reached",
    Stage.GANG,
    "queue {queue} uses {used} of {resource} and the pod asks for {asked}; it may use {limit}",
    ("wait until jobs of {queue} end", "raise capability {resource} of {queue} to {needed}"),
    _QUEUE_ROOM,
)
QUEUE_QUOTA_INSUFFICIENT = ReasonKind(
    "queue-quota-insufficient",
    Stage.ENQUEUE,
    "queue resource quota insufficient: queue {queue} has given away {taken} of the {limit} of {resource} "
    "it may use, and the job needs {asked}",
    ("wait until jobs of {queue} end", "use a queue with {asked} of {resource} to spare"),
    _QUEUE_ROOM,
)

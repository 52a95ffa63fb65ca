"""Why predicates refuses a node for a pod."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, SPECIFICATION, ReasonKind, Stage, Trigger

_NODE_OR_JOB = frozenset({Trigger.NODE_ADDED, Trigger.NODE_CHANGED, Trigger.JOB_CHANGED})

# -- by class of nodes

NODE_CORDONED = ReasonKind(
    "node-cordoned",
    Stage.PREDICATE,
    "the node is cordoned, and the pod does not tolerate {taint}",
    (
        "uncordon the node",
        "add a toleration for {taint} to the pod",
    ),
    _NODE_OR_JOB,
)
SELECTOR_MISMATCH = ReasonKind(
    "node-selector-mismatch",
    Stage.PREDICATE,
    "the nodeSelector requires {key}={wanted}; the node has {found}",
    ("label nodes with {key}={wanted}", "remove {key} from the pod's nodeSelector"),
    _NODE_OR_JOB,
)
AFFINITY_MISMATCH = ReasonKind(
    "node-affinity-mismatch",
    Stage.PREDICATE,
    "the node matches none of {terms:required node affinity term}: {wanted}",
    (
        "label nodes so that they match one term",
        "relax the required node affinity of the pod",
    ),
    _NODE_OR_JOB,
)
UNTOLERATED_TAINT = ReasonKind(
    "untolerated-taint",
    Stage.PREDICATE,
    "the node has the taint {taint}, which the pod does not tolerate",
    (
        "add a toleration for {taint} to the pod",
        "remove the taint from the node",
    ),
    _NODE_OR_JOB,
)
TOO_MANY_PODS = ReasonKind(
    "too-many-pods",
    Stage.PREDICATE,
    "the node runs {pods} of {limit:pod}",
    ("raise the pod limit of the node",),
)
INSUFFICIENT_RESOURCE = ReasonKind(
    "insufficient-resource",
    Stage.PREDICATE,
    "{asked} of {resource} requested, {free} of {allocatable} free",
    ("request at most {free:#} of {resource}",),
)

RESOURCE_CLAIMS = ReasonKind(
    "resource-claims-unsupported",
    Stage.PREDICATE,
    "resourceClaims ({claims}): dynamic resource allocation is not supported",
    ("request the devices in resources.limits, and remove resourceClaims",),
    SPECIFICATION,
)

# -- by node

PORT_TAKEN = ReasonKind(
    "host-port-taken",
    Stage.PREDICATE,
    "port {port}/{protocol} of {node} is used by {pod}",
    ("use a host port other than {port}",),
)
POD_AFFINITY_UNMET = ReasonKind(
    "pod-affinity-unmet",
    Stage.PREDICATE,
    "0 pods in the {key} of {node} match the required affinity of the pod: {wanted}",
    (
        "start a pod that matches it in the {key} of {node}",
        "relax the required affinity of the pod",
    ),
    CAPACITY | SPECIFICATION,
)
POD_ANTI_AFFINITY = ReasonKind(
    "pod-anti-affinity",
    Stage.PREDICATE,
    "{pods:pod} in the {key} of {node} {pods:=matches|match} the required anti-affinity of the pod: {wanted}",
    ("relax the required anti-affinity of the pod",),
    CAPACITY | SPECIFICATION,
)
ANTI_AFFINITY_OF_OTHERS = ReasonKind(
    "existing-pods-anti-affinity",
    Stage.PREDICATE,
    "{pods:pod} in the {key} of {node} {pods:=has|have} anti-affinity to this pod: {wanted}",
    ("change the labels of the pod so that they do not match {wanted}",),
    CAPACITY | SPECIFICATION,
)
TOPOLOGY_SPREAD = ReasonKind(
    "topology-spread",
    Stage.PREDICATE,
    "{key} of {node} would have {pods:pod} matching {wanted}; the minimum is {fewest}, maxSkew is {most}",
    (
        "start such pods, or free capacity for them, in the {key} with the fewest",
        "raise maxSkew to {needed}, or set whenUnsatisfiable: ScheduleAnyway",
    ),
    CAPACITY | SPECIFICATION,
)
SPREAD_KEY_MISSING = ReasonKind(
    "spread-key-missing",
    Stage.PREDICATE,
    "{node} does not have the label {key}, which topologySpreadConstraints require",
    (
        "label {node} with {key}",
        "use another topologyKey in topologySpreadConstraints",
    ),
    _NODE_OR_JOB,
)

# -- by claim: whatever nodes are free, so that nobody waits behind such a job

_CLAIM = frozenset({Trigger.VOLUME_CHANGED, Trigger.JOB_CHANGED})
#: A node on which a volume can be used, or for which one can be made.
_NODES = frozenset({Trigger.NODE_ADDED, Trigger.NODE_CHANGED})

CLAIM_MISSING = ReasonKind(
    "claim-missing",
    Stage.PREDICATE,
    'PersistentVolumeClaim "{claim}" of pod {pod} not found',
    (
        "create PersistentVolumeClaim {claim}",
        "correct claimName in the volumes of the pod (volumeClaimName in a vcjob)",
    ),
    _CLAIM,
)
EPHEMERAL_CLAIM_AWAITED = ReasonKind(
    "ephemeral-claim-not-created",
    Stage.PREDICATE,
    "PersistentVolumeClaim {claim} of an ephemeral volume of pod {pod} is not created yet",
    ("check that kube-controller-manager is running, and check the events of pod {pod}",),
    _CLAIM,
)
CLAIM_OF_ANOTHER_POD = ReasonKind(
    "claim-of-another-pod",
    Stage.PREDICATE,
    "PersistentVolumeClaim {claim} was not created for pod {pod}, but has the name of its ephemeral volume",
    ("delete PersistentVolumeClaim {claim}, so that the pod gets its own",),
    _CLAIM,
)
CLAIM_DELETED = ReasonKind(
    "claim-deleted",
    Stage.PREDICATE,
    "PersistentVolumeClaim {claim} of pod {pod} is being deleted",
    ("create PersistentVolumeClaim {claim} again after it is deleted",),
    _CLAIM,
)
CLAIM_LOST = ReasonKind(
    "claim-lost",
    Stage.PREDICATE,
    "PersistentVolumeClaim {claim} of pod {pod} lost its volume {volume}, which does not exist",
    (
        "restore PersistentVolume {volume}",
        "delete PersistentVolumeClaim {claim} and create it again",
    ),
    _CLAIM,
)
CLAIM_IN_USE = ReasonKind(
    "claim-in-use",
    Stage.PREDICATE,
    "PersistentVolumeClaim {claim} is used by {user} and has the access mode ReadWriteOncePod",
    (
        "no action required: the pod starts when {user} has finished",
        "use the access mode ReadWriteOnce or ReadWriteMany",
    ),
    _CLAIM,
)
CLAIM_SHARED = ReasonKind(
    "claim-shared",
    Stage.PREDICATE,
    "{user} and {pod} must start together, but both use PersistentVolumeClaim {claim} (ReadWriteOncePod)",
    (
        "use a separate claim for each pod",
        "use the access mode ReadWriteMany",
    ),
    _CLAIM,
)
CLAIM_NOT_BOUND = ReasonKind(
    "claim-not-bound",
    Stage.PREDICATE,
    "PersistentVolumeClaim {claim} of pod {pod} is not bound yet{classed}",
    (
        "check the events of PersistentVolumeClaim {claim}",
        "create a PersistentVolume that fits PersistentVolumeClaim {claim}",
    ),
    _CLAIM,
)
STORAGE_CLASS_MISSING = ReasonKind(
    "storage-class-missing",
    Stage.PREDICATE,
    'StorageClass "{class_name}" of PersistentVolumeClaim {claim} of pod {pod} not found',
    (
        "create StorageClass {class_name}",
        "create PersistentVolumeClaim {claim} with an existing StorageClass",
    ),
    _CLAIM,
)
NO_VOLUME = ReasonKind(
    "no-matching-volume",
    Stage.PREDICATE,
    "no free PersistentVolume of class {class_name} fits claim {claim} of pod {pod} ({size}, {modes}); "
    "no provisioner",
    (
        "create a PersistentVolume of {size} or more in {class_name}",
        "use a StorageClass with a provisioner",
    ),
    _CLAIM | _NODES,
)
NO_STORAGE = ReasonKind(
    "insufficient-storage",
    Stage.PREDICATE,
    "claim {claim} of {pod} requests {size} of StorageClass {class_name}; largest capacity: "
    "{largest} (CSIStorageCapacity)",
    (
        "free or add storage of StorageClass {class_name}",
        "create PersistentVolumeClaim {claim} with a smaller request or another StorageClass",
    ),
    _CLAIM | _NODES,
)

# -- by volume and node

_ELSEWHERE = CAPACITY | _CLAIM

VOLUME_ELSEWHERE = ReasonKind(
    "volume-node-affinity-conflict",
    Stage.PREDICATE,
    "{what} cannot be used on {node}: its node affinity is {wanted}",
    ("free chips on nodes on which {what} can be used",),
    _ELSEWHERE,
)
VOLUME_IN_ANOTHER_ZONE = ReasonKind(
    "volume-in-another-zone",
    Stage.PREDICATE,
    "{what} is not in the zone of {node}: it has {places}",
    ("free chips on nodes with {places}",),
    _ELSEWHERE,
)
VOLUME_FOR_ANOTHER_NODE = ReasonKind(
    "volume-for-another-node",
    Stage.PREDICATE,
    "the volume of PersistentVolumeClaim {claim} is being provisioned for {selected}",
    (
        "no action required: the pod is tried again when the volume exists",
        "if it is not being provisioned, remove the annotation volume.kubernetes.io/selected-node of "
        "the claim {claim}",
    ),
    _ELSEWHERE,
)
NO_VOLUME_HERE = ReasonKind(
    "no-matching-volume-on-node",
    Stage.PREDICATE,
    "no free PersistentVolume of StorageClass {class_name} with {size} can be used on {node}{why}",
    ("create a PersistentVolume of {size} or more in {class_name} that {node} can use",),
    _ELSEWHERE,
)
NO_STORAGE_HERE = ReasonKind(
    "insufficient-storage-on-node",
    Stage.PREDICATE,
    "{what} requests {size} of StorageClass {class_name}; the largest capacity for {node} is "
    "{largest} (CSIStorageCapacity)",
    (
        "free or add storage of StorageClass {class_name} for {node}",
        "free chips on nodes with sufficient storage capacity",
    ),
    _ELSEWHERE,
)
TOO_MANY_VOLUMES = ReasonKind(
    "too-many-volumes",
    Stage.PREDICATE,
    "{node} has {used} of {limit:volume} of driver {driver}; the pod needs {more} more",
    ("use fewer volumes of {driver} in a pod",),
    _ELSEWHERE,
)

#: Codes: a claim keeps the job from every node. No chips, nodes or moves help.
OF_CLAIMS = frozenset(
    kind.code
    for kind in (
        CLAIM_MISSING,
        EPHEMERAL_CLAIM_AWAITED,
        CLAIM_OF_ANOTHER_POD,
        CLAIM_DELETED,
        CLAIM_LOST,
        CLAIM_IN_USE,
        CLAIM_SHARED,
        CLAIM_NOT_BOUND,
        STORAGE_CLASS_MISSING,
        NO_VOLUME,
        NO_STORAGE,
    )
)

#: Codes: volumes keep the job from one node.
OF_VOLUMES = frozenset(
    kind.code
    for kind in (
        VOLUME_ELSEWHERE,
        VOLUME_IN_ANOTHER_ZONE,
        VOLUME_FOR_ANOTHER_NODE,
        NO_VOLUME_HERE,
        NO_STORAGE_HERE,
        TOO_MANY_VOLUMES,
    )
)

"""Why predicates refuses a node for a pod."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, SPECIFICATION, ReasonKind, Stage, Trigger

_NODE_OR_JOB = frozenset({Trigger.NODE_ADDED, Trigger.NODE_CHANGED, Trigger.JOB_CHANGED})

# -- by class of nodes

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
    "none of the pod's {terms:required node affinity term} holds here: {wanted}",
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
    "the node runs {pods:pod} and takes at most {limit}",
    ("raise the node's pod limit of {limit}",),
    CAPACITY,
)
INSUFFICIENT_RESOURCE = ReasonKind(
    "insufficient-resource",
    Stage.PREDICATE,
    "the pod asks for {asked} of {resource}; {free} of {allocatable} {free:=is|are} free here",
    ("ask for at most {free:#} of {resource}",),
    CAPACITY,
)

RESOURCE_CLAIMS = ReasonKind(
    "resource-claims-unsupported",
    Stage.PREDICATE,
    "the pod has resourceClaims ({claims}), dynamic resource allocation, which is not done here",
    ("ask for the devices in resources.limits, and remove resourceClaims",),
    SPECIFICATION,
)

# -- by node

PORT_TAKEN = ReasonKind(
    "host-port-taken",
    Stage.PREDICATE,
    "port {port}/{protocol} of {node} is used by {pod}",
    ("use another host port than {port}",),
    CAPACITY,
)
POD_AFFINITY_UNMET = ReasonKind(
    "pod-affinity-unmet",
    Stage.PREDICATE,
    "0 pods in the {key} of {node} match the pod's required affinity: {wanted}",
    ("start a pod that matches it in the {key} of {node}", "relax the pod's required affinity"),
    CAPACITY | SPECIFICATION,
)
POD_ANTI_AFFINITY = ReasonKind(
    "pod-anti-affinity",
    Stage.PREDICATE,
    "{pods:pod} in the {key} of {node} {pods:=matches|match} the pod's required anti-affinity: {wanted}",
    ("relax the pod's required anti-affinity",),
    CAPACITY | SPECIFICATION,
)
ANTI_AFFINITY_OF_OTHERS = ReasonKind(
    "existing-pods-anti-affinity",
    Stage.PREDICATE,
    "{pods:pod} in the {key} of {node} {pods:=has|have} an anti-affinity to this pod: {wanted}",
    ("change the pod's labels so that they do not match {wanted}",),
    CAPACITY | SPECIFICATION,
)
TOPOLOGY_SPREAD = ReasonKind(
    "topology-spread",
    Stage.PREDICATE,
    "with this pod the {key} of {node} would have {pods:pod} of those to be spread ({wanted}), the emptiest"
    " {key} has {fewest}, and they may differ by at most {most} (maxSkew)",
    (
        "start such pods, or free room for them, where {key} has the fewest",
        "raise maxSkew to {needed}, or set whenUnsatisfiable: ScheduleAnyway",
    ),
    CAPACITY | SPECIFICATION,
)
SPREAD_KEY_MISSING = ReasonKind(
    "spread-key-missing",
    Stage.PREDICATE,
    "{node} has no label {key}, over which the pod is to be spread",
    ("label {node} with {key}", "spread the pod over another topologyKey"),
    _NODE_OR_JOB,
)

# -- by claim: whatever nodes are free, so that nobody waits behind such a job

_CLAIM = frozenset({Trigger.VOLUME_CHANGED, Trigger.JOB_CHANGED})
#: A node on which a volume can be used, or for which one can be made.
_NODES = frozenset({Trigger.NODE_ADDED, Trigger.NODE_CHANGED})

CLAIM_MISSING = ReasonKind(
    "claim-missing",
    Stage.PREDICATE,
    "pod {pod} uses the claim {claim}, which does not exist",
    (
        "create the PersistentVolumeClaim {claim}",
        "correct claimName in the volumes of the pod (of a vcjob: volumeClaimName)",
    ),
    _CLAIM,
)
EPHEMERAL_CLAIM_AWAITED = ReasonKind(
    "ephemeral-claim-not-created",
    Stage.PREDICATE,
    "the claim {claim} of an ephemeral volume of pod {pod} does not exist yet; kube-controller-manager makes "
    "it",
    ("see whether kube-controller-manager runs, and what the events of pod {pod} say",),
    _CLAIM,
)
CLAIM_OF_ANOTHER_POD = ReasonKind(
    "claim-of-another-pod",
    Stage.PREDICATE,
    "the claim {claim} has the name that the ephemeral volume of pod {pod} needs, and was not made for it",
    ("delete or rename the PersistentVolumeClaim {claim}: the pod gets its own then",),
    _CLAIM,
)
CLAIM_DELETED = ReasonKind(
    "claim-deleted",
    Stage.PREDICATE,
    "the claim {claim} of pod {pod} is being deleted",
    ("create the PersistentVolumeClaim {claim} again when it is gone",),
    _CLAIM,
)
CLAIM_LOST = ReasonKind(
    "claim-lost",
    Stage.PREDICATE,
    "the claim {claim} of pod {pod} has lost its volume {volume}, which does not exist",
    ("restore the PersistentVolume {volume}", "delete the claim {claim} and create it again"),
    _CLAIM,
)
CLAIM_IN_USE = ReasonKind(
    "claim-in-use",
    Stage.PREDICATE,
    "pod {user} uses the claim {claim}, which one pod alone may use (ReadWriteOncePod)",
    ("nothing to do: it starts when {user} has ended", "use the access mode ReadWriteOnce or ReadWriteMany"),
    _CLAIM,
)
CLAIM_SHARED = ReasonKind(
    "claim-shared",
    Stage.PREDICATE,
    "the pods {user} and {pod} must start together and use the claim {claim}, which one pod alone may use "
    "(ReadWriteOncePod)",
    ("give each pod a claim of its own", "use the access mode ReadWriteMany"),
    _CLAIM,
)
CLAIM_NOT_BOUND = ReasonKind(
    "claim-not-bound",
    Stage.PREDICATE,
    "the claim {claim} of pod {pod} has no volume yet; it waits for the volume controller{classed}",
    (
        "see what the events of the PersistentVolumeClaim {claim} say",
        "create a PersistentVolume that fits the claim {claim}",
    ),
    _CLAIM,
)
STORAGE_CLASS_MISSING = ReasonKind(
    "storage-class-missing",
    Stage.PREDICATE,
    "the claim {claim} of pod {pod} names the StorageClass {class_name}, which does not exist",
    ("create the StorageClass {class_name}", "create the claim {claim} with a StorageClass that exists"),
    _CLAIM,
)
NO_VOLUME = ReasonKind(
    "no-matching-volume",
    Stage.PREDICATE,
    "no free volume of the StorageClass {class_name} fits the claim {claim} of pod {pod}, which asks for "
    "{size} ({modes}), and the class makes none",
    ("create a PersistentVolume of {size} or more in {class_name}", "use a StorageClass with a provisioner"),
    _CLAIM | _NODES,
)
NO_STORAGE = ReasonKind(
    "insufficient-storage",
    Stage.PREDICATE,
    "the claim {claim} of pod {pod} asks for {size} of the StorageClass {class_name}, and its driver has "
    "room for {largest} at most (CSIStorageCapacity)",
    (
        "free or add storage of the StorageClass {class_name}: it is tried again when the driver tells of it",
        "create the claim {claim} with less, or with another StorageClass",
    ),
    _CLAIM | _NODES,
)

# -- by volume and node

_ELSEWHERE = CAPACITY | _CLAIM

VOLUME_ELSEWHERE = ReasonKind(
    "volume-node-affinity-conflict",
    Stage.PREDICATE,
    "{what} cannot be used on {node}: its node affinity is {wanted}",
    ("free chips on nodes that {what} can be used on",),
    _ELSEWHERE,
)
VOLUME_IN_ANOTHER_ZONE = ReasonKind(
    "volume-in-another-zone",
    Stage.PREDICATE,
    "{what} is in another zone than {node}: it has {places}",
    ("free chips on nodes with {places}",),
    _ELSEWHERE,
)
VOLUME_FOR_ANOTHER_NODE = ReasonKind(
    "volume-for-another-node",
    Stage.PREDICATE,
    "the volume of claim {claim} is being made for {selected}",
    (
        "nothing to do: it is tried again when the volume is there",
        "remove the annotation volume.kubernetes.io/selected-node of the claim {claim}, if nobody makes it",
    ),
    _ELSEWHERE,
)
NO_VOLUME_HERE = ReasonKind(
    "no-matching-volume-on-node",
    Stage.PREDICATE,
    "{node} can use no free volume of the StorageClass {class_name} with {size}, and none is made for "
    "it{why}",
    ("create a PersistentVolume of {size} or more in {class_name} that {node} can use",),
    _ELSEWHERE,
)
NO_STORAGE_HERE = ReasonKind(
    "insufficient-storage-on-node",
    Stage.PREDICATE,
    "{what} asks for {size} of the StorageClass {class_name}, and its driver has room for {largest} at most "
    "for {node} (CSIStorageCapacity)",
    (
        "free or add storage of the StorageClass {class_name} for {node}: it is tried again when the driver "
        "tells of it",
        "free chips on nodes for which it has room",
    ),
    _ELSEWHERE,
)
TOO_MANY_VOLUMES = ReasonKind(
    "too-many-volumes",
    Stage.PREDICATE,
    "{node} has {used:volume} of the driver {driver} and attaches at most {limit}; the pod needs {more} more",
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

"""Why predicates refuses a node for a pod."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, SPECIFICATION, ReasonFamily, Stage, Trigger, kinds_in

# -- by class of nodes

_mismatch = ReasonFamily(Stage.PREDICATE, {Trigger.NODE_ADDED, Trigger.NODE_CHANGED, Trigger.JOB_CHANGED})

NODE_CORDONED = _mismatch(
    "node-cordoned",
    "the node is cordoned, and the pod does not tolerate {taint}",
    "uncordon the node",
    "add a toleration for {taint} to the pod",
)
SELECTOR_MISMATCH = _mismatch(
    "node-selector-mismatch",
    "the nodeSelector requires {key}={wanted}; the node has {found}",
    "label nodes with {key}={wanted}",
    "remove {key} from the pod's nodeSelector",
)
AFFINITY_MISMATCH = _mismatch(
    "node-affinity-mismatch",
    "the node matches none of {terms:required node affinity term}: {wanted}",
    "label nodes so that they match one term",
    "relax the required node affinity of the pod",
)
UNTOLERATED_TAINT = _mismatch(
    "untolerated-taint",
    "the node has the taint {taint}, which the pod does not tolerate",
    "add a toleration for {taint} to the pod",
    "remove the taint from the node",
)

_node_full = ReasonFamily(Stage.PREDICATE)

TOO_MANY_PODS = _node_full(
    "too-many-pods",
    "the node runs {pods} of {limit:pod}",
    "raise the pod limit of the node",
)
INSUFFICIENT_RESOURCE = _node_full(
    "insufficient-resource",
    "{asked} of {resource} requested, {free} of {allocatable} free",
    "request at most {free:#} of {resource}",
)


_unsupported = ReasonFamily(Stage.PREDICATE, SPECIFICATION)

RESOURCE_CLAIMS = _unsupported(
    "resource-claims-unsupported",
    "resourceClaims ({claims}): dynamic resource allocation is not supported",
    "request the devices in resources.limits, and remove resourceClaims",
)

# -- by node

PORT_TAKEN = _node_full(
    "host-port-taken",
    "port {port}/{protocol} of {node} is used by {pod}",
    "use a host port other than {port}",
)

_pods_nearby = ReasonFamily(Stage.PREDICATE, CAPACITY | SPECIFICATION)

POD_AFFINITY_UNMET = _pods_nearby(
    "pod-affinity-unmet",
    "0 pods in the {key} of {node} match the required affinity of the pod: {wanted}",
    "start a pod that matches it in the {key} of {node}",
    "relax the required affinity of the pod",
)
POD_ANTI_AFFINITY = _pods_nearby(
    "pod-anti-affinity",
    "{pods:pod} in the {key} of {node} {pods:=matches|match} the required anti-affinity of the pod: {wanted}",
    "relax the required anti-affinity of the pod",
)
ANTI_AFFINITY_OF_OTHERS = _pods_nearby(
    "existing-pods-anti-affinity",
    "{pods:pod} in the {key} of {node} {pods:=has|have} anti-affinity to this pod: {wanted}",
    "change the labels of the pod so that they do not match {wanted}",
)
TOPOLOGY_SPREAD = _pods_nearby(
    "topology-spread",
    "{key} of {node} would have {pods:pod} matching {wanted}; the minimum is {fewest}, maxSkew is {most}",
    "start such pods, or free capacity for them, in the {key} with the fewest",
    "raise maxSkew to {needed}, or set whenUnsatisfiable: ScheduleAnyway",
)
SPREAD_KEY_MISSING = _mismatch(
    "spread-key-missing",
    "{node} does not have the label {key}, which topologySpreadConstraints require",
    "label {node} with {key}",
    "use another topologyKey in topologySpreadConstraints",
)

# -- by claim: free nodes do not help, so no job waits behind such a job

_CLAIM = frozenset({Trigger.VOLUME_CHANGED, Trigger.JOB_CHANGED})
#: A node on which a volume can be used, or for which one can be made.
_NODES = frozenset({Trigger.NODE_ADDED, Trigger.NODE_CHANGED})

_claim_unusable = ReasonFamily(Stage.PREDICATE, _CLAIM)

CLAIM_MISSING = _claim_unusable(
    "claim-missing",
    'PersistentVolumeClaim "{claim}" of pod {pod} not found',
    "create PersistentVolumeClaim {claim}",
    "correct claimName in the volumes of the pod (volumeClaimName in a vcjob)",
)
EPHEMERAL_CLAIM_AWAITED = _claim_unusable(
    "ephemeral-claim-not-created",
    "PersistentVolumeClaim {claim} of an ephemeral volume of pod {pod} is not created yet",
    "check that kube-controller-manager is running, and check the events of pod {pod}",
)
CLAIM_OF_ANOTHER_POD = _claim_unusable(
    "claim-of-another-pod",
    "PersistentVolumeClaim {claim} was not created for pod {pod}, but has the name of its ephemeral volume",
    "delete PersistentVolumeClaim {claim}, so that the pod gets its own",
)
CLAIM_DELETED = _claim_unusable(
    "claim-deleted",
    "PersistentVolumeClaim {claim} of pod {pod} is being deleted",
    "create PersistentVolumeClaim {claim} again after it is deleted",
)
CLAIM_LOST = _claim_unusable(
    "claim-lost",
    "PersistentVolumeClaim {claim} of pod {pod} lost its volume {volume}, which does not exist",
    "restore PersistentVolume {volume}",
    "delete PersistentVolumeClaim {claim} and create it again",
)
CLAIM_IN_USE = _claim_unusable(
    "claim-in-use",
    "PersistentVolumeClaim {claim} is used by {user} and has the access mode ReadWriteOncePod",
    "no action required: the pod starts when {user} has finished",
    "use the access mode ReadWriteOnce or ReadWriteMany",
)
CLAIM_SHARED = _claim_unusable(
    "claim-shared",
    "{user} and {pod} must start together, but both use PersistentVolumeClaim {claim} (ReadWriteOncePod)",
    "use a separate claim for each pod",
    "use the access mode ReadWriteMany",
)
CLAIM_NOT_BOUND = _claim_unusable(
    "claim-not-bound",
    "PersistentVolumeClaim {claim} of pod {pod} is not bound yet{classed}",
    "check the events of PersistentVolumeClaim {claim}",
    "create a PersistentVolume that fits PersistentVolumeClaim {claim}",
)
STORAGE_CLASS_MISSING = _claim_unusable(
    "storage-class-missing",
    'StorageClass "{class_name}" of PersistentVolumeClaim {claim} of pod {pod} not found',
    "create StorageClass {class_name}",
    "create PersistentVolumeClaim {claim} with an existing StorageClass",
)

_no_volume = ReasonFamily(Stage.PREDICATE, _CLAIM | _NODES)

NO_VOLUME = _no_volume(
    "no-matching-volume",
    "no free PersistentVolume of class {class_name} fits claim {claim} of pod {pod} ({size}, {modes}); "
    "no provisioner",
    "create a PersistentVolume of {size} or more in {class_name}",
    "use a StorageClass with a provisioner",
)
NO_STORAGE = _no_volume(
    "insufficient-storage",
    "claim {claim} of {pod} requests {size} of StorageClass {class_name}; largest capacity: "
    "{largest} (CSIStorageCapacity)",
    "free or add storage of StorageClass {class_name}",
    "create PersistentVolumeClaim {claim} with a smaller request or another StorageClass",
)

# -- by volume and node

_ELSEWHERE = CAPACITY | _CLAIM

_volume_elsewhere = ReasonFamily(Stage.PREDICATE, _ELSEWHERE)

VOLUME_ELSEWHERE = _volume_elsewhere(
    "volume-node-affinity-conflict",
    "{what} cannot be used on {node}: its node affinity is {wanted}",
    "free chips on nodes on which {what} can be used",
)
VOLUME_IN_ANOTHER_ZONE = _volume_elsewhere(
    "volume-in-another-zone",
    "{what} is not in the zone of {node}: it has {places}",
    "free chips on nodes with {places}",
)
VOLUME_FOR_ANOTHER_NODE = _volume_elsewhere(
    "volume-for-another-node",
    "the volume of PersistentVolumeClaim {claim} is being provisioned for {selected}",
    "no action required: the pod is tried again when the volume exists",
    "if it is not being provisioned, remove the annotation volume.kubernetes.io/selected-node of "
    "the claim {claim}",
)
NO_VOLUME_HERE = _volume_elsewhere(
    "no-matching-volume-on-node",
    "no free PersistentVolume of StorageClass {class_name} with {size} can be used on {node}{why}",
    "create a PersistentVolume of {size} or more in {class_name} that {node} can use",
)
NO_STORAGE_HERE = _volume_elsewhere(
    "insufficient-storage-on-node",
    "{what} requests {size} of StorageClass {class_name}; the largest capacity for {node} is "
    "{largest} (CSIStorageCapacity)",
    "free or add storage of StorageClass {class_name} for {node}",
    "free chips on nodes with sufficient storage capacity",
)
TOO_MANY_VOLUMES = _volume_elsewhere(
    "too-many-volumes",
    "{node} has {used} of {limit:volume} of driver {driver}; the pod needs {more} more",
    "use fewer volumes of {driver} in a pod",
)

#: Codes: a claim keeps the job from every node. No chips, nodes or moves help.
OF_CLAIMS = frozenset(
    kind.code for kind in kinds_in(globals()) if kind.resolved_by in (_CLAIM, _CLAIM | _NODES)
)

#: Codes: volumes keep the job from one node.
OF_VOLUMES = frozenset(kind.code for kind in kinds_in(globals()) if kind.resolved_by == _ELSEWHERE)

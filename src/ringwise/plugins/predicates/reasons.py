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
    "the pod has resourceClaims ({claims}), dynamic resource allocation that nobody does here",
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
    "unwanted-by-neighbour",
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

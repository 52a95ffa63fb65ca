"""Why the pods of a job find no place near each other."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, ReasonKind, Stage, Trigger

_DOMAINS = frozenset({Trigger.HYPER_NODES_CHANGED, Trigger.JOB_CHANGED, Trigger.CONFIGURATION_CHANGED})

NO_HYPER_NODE_FITS = ReasonKind(
    "no-hyper-node-fits",
    Stage.GANG,
    "no HyperNode {limit} takes {needed:pod} of the job together: of {hyper_nodes:HyperNode} the nearest is "
    "{best} (tier {tier}), where {fit} {fit:=fits|fit}",
    (
        "wait until more of {best} is free",
        "set networkTopology.mode to soft: the job then takes the lowest tier that fits",
    ),
    CAPACITY | _DOMAINS,
)
HYPER_NODES_TOO_SMALL = ReasonKind(
    "hyper-nodes-too-small",
    Stage.GANG,
    "no HyperNode {limit} would hold {needed:pod} of the job together, were it empty: the largest is "
    "{largest} with {nodes:node}",
    (
        "raise networkTopology.highestTierAllowed",
        "set networkTopology.mode to soft: the job then takes the lowest tier that fits",
    ),
    _DOMAINS | {Trigger.NODE_ADDED, Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED},
)
NO_HYPER_NODE = ReasonKind(
    "no-hyper-node",
    Stage.GANG,
    "the job must run inside a HyperNode {limit}, and none with nodes exists",
    (
        "create HyperNodes of that tier (`ringwise get hypernodes` shows those that exist)",
        "set networkTopology.mode to soft: the job then takes the lowest tier that fits",
    ),
    _DOMAINS | {Trigger.NODE_ADDED, Trigger.NODE_CHANGED},
)
HYPER_NODE_LEFT = ReasonKind(
    "hyper-node-changed",
    Stage.GANG,
    "pods of the job run on nodes that no HyperNode {limit} holds together: {listing}",
    (
        "set networkTopology.highestTierAllowed to {holding:#}",
        "requeue the job: it starts anew inside one HyperNode",
        "put these nodes into one HyperNode",
    ),
    _DOMAINS | {Trigger.NODE_ADDED, Trigger.NODE_CHANGED, Trigger.JOB_ENDED},
)

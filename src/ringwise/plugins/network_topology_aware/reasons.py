"""Why the pods of a job find no place near each other."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, ReasonKind, Stage, Trigger

_DOMAINS = frozenset({Trigger.HYPER_NODES_CHANGED, Trigger.JOB_CHANGED, Trigger.CONFIGURATION_CHANGED})

NO_HYPER_NODE_FITS = ReasonKind(
    "no-hyper-node-fits",
    Stage.GANG,
    "no HyperNode {limit} fits {needed:pod}: of {hyper_nodes:HyperNode} the closest is {best} (tier "
    "{tier}) with {fit}",
    (
        "wait until more of {best} is free",
        "set networkTopology.mode to soft: the job then uses the lowest tier that fits",
    ),
    CAPACITY | _DOMAINS,
)
HYPER_NODES_TOO_SMALL = ReasonKind(
    "hyper-nodes-too-small",
    Stage.GANG,
    "no HyperNode {limit} is large enough for {needed:pod}: the largest is {largest} with {nodes:node}",
    (
        "raise networkTopology.highestTierAllowed",
        "set networkTopology.mode to soft: the job then uses the lowest tier that fits",
    ),
    _DOMAINS | {Trigger.NODE_ADDED, Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED},
)
NO_HYPER_NODE = ReasonKind(
    "no-hyper-node",
    Stage.GANG,
    "the job must run in a HyperNode {limit}, but none with nodes exists",
    (
        "create HyperNodes of that tier (see `ringwise get hypernodes`)",
        "set networkTopology.mode to soft: the job then uses the lowest tier that fits",
    ),
    _DOMAINS | {Trigger.NODE_ADDED, Trigger.NODE_CHANGED},
)
HYPER_NODE_LEFT = ReasonKind(
    "hyper-node-changed",
    Stage.GANG,
    "the running pods are no longer in one HyperNode {limit}: {listing}",
    (
        "set networkTopology.highestTierAllowed to {holding:#}",
        "requeue the job, so that it starts in one HyperNode",
        "put these nodes into one HyperNode",
    ),
    _DOMAINS | {Trigger.NODE_ADDED, Trigger.NODE_CHANGED, Trigger.JOB_ENDED},
)

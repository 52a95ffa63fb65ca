"""Why the pods of a job find no place near each other."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, ReasonFamily, Stage, Trigger

_DOMAINS = frozenset({Trigger.HYPER_NODES_CHANGED, Trigger.JOB_CHANGED, Trigger.CONFIGURATION_CHANGED})


_full = ReasonFamily(Stage.GANG, CAPACITY | _DOMAINS)

NO_HYPER_NODE_FITS = _full(
    "no-hyper-node-fits",
    "no HyperNode {limit} fits {needed:pod}: of {hyper_nodes:HyperNode} the closest is {best} (tier "
    "{tier}) with {fit}",
    "wait until more of {best} is free",
    "set networkTopology.mode to soft: the job then uses the lowest tier that fits",
)

_too_small = ReasonFamily(
    Stage.GANG, _DOMAINS | {Trigger.NODE_ADDED, Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED}
)

HYPER_NODES_TOO_SMALL = _too_small(
    "hyper-nodes-too-small",
    "no HyperNode {limit} is large enough for {needed:pod}: the largest is {largest} with {nodes:node}",
    "raise networkTopology.highestTierAllowed",
    "set networkTopology.mode to soft: the job then uses the lowest tier that fits",
)

_no_domain = ReasonFamily(Stage.GANG, _DOMAINS | {Trigger.NODE_ADDED, Trigger.NODE_CHANGED})

NO_HYPER_NODE = _no_domain(
    "no-hyper-node",
    "the job must run in a HyperNode {limit}, but none with nodes exists",
    "create HyperNodes of that tier (see `ringwise get hypernodes`)",
    "set networkTopology.mode to soft: the job then uses the lowest tier that fits",
)

_left = ReasonFamily(Stage.GANG, _DOMAINS | {Trigger.NODE_ADDED, Trigger.NODE_CHANGED, Trigger.JOB_ENDED})

HYPER_NODE_LEFT = _left(
    "hyper-node-changed",
    "the running pods are no longer in one HyperNode {limit}: {listing}",
    "set networkTopology.highestTierAllowed to {holding:#}",
    "requeue the job, so that it starts in one HyperNode",
    "put these nodes into one HyperNode",
)

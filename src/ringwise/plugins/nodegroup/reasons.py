"""Why a queue may not use a node."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, ReasonKind, Stage, Trigger

_RULES = frozenset({Trigger.NODE_ADDED, Trigger.NODE_CHANGED, Trigger.QUEUE_CHANGED, Trigger.JOB_CHANGED})

NODE_GROUP_MISSING = ReasonKind(
    "node-group-missing",
    Stage.PREDICATE,
    "node group label not found: {node} does not have the label {label}, which queue {queue} requires",
    (
        "label {node} with {label}",
        "set the argument strict of nodegroup to false",
    ),
    _RULES,
)
NODE_GROUP_NOT_SPECIFIED = ReasonKind(
    "node-group-not-specified",
    Stage.PREDICATE,
    "node group affinity not specified: {node} is in node group {group}, and queue {queue} has no affinity",
    (
        "add {group} to nodeGroupAffinity of queue {queue}",
        "use a queue with {group} in its nodeGroupAffinity",
    ),
    _RULES,
)
NODE_GROUP_MISMATCH = ReasonKind(
    "node-group-mismatch",
    Stage.PREDICATE,
    "node does not satisfy the node group affinity: {node} is in node group {group}, which queue "
    "{queue} cannot use",
    (
        "add {group} to nodeGroupAffinity of queue {queue}",
        "use a queue that can use {group}",
    ),
    _RULES,
)
NODE_GROUP_LIMIT = ReasonKind(
    "node-group-limit",
    Stage.PREDICATE,
    "node group resource limit exceeded: queue {queue} uses {used} of {limit} of {resource} in node "
    "group {group}, the pod requests {asked}",
    ("raise the limit of {resource} for {group} of queue {queue}",),
    CAPACITY | _RULES,
)
NODE_GROUP_LIMITS_INVALID = ReasonKind(
    "node-group-limits-invalid",
    Stage.PREDICATE,
    "node group resource limits annotation invalid: queue {queue}: {problem}",
    ("correct the annotation {annotation} of queue {queue}",),
    _RULES,
)

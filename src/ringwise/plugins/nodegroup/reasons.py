"""Why a queue may not use a node."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, ReasonFamily, Stage, Trigger

_RULES = frozenset({Trigger.NODE_ADDED, Trigger.NODE_CHANGED, Trigger.QUEUE_CHANGED, Trigger.JOB_CHANGED})

_node_refuses = ReasonFamily(Stage.PREDICATE, _RULES)

NODE_GROUP_MISSING = _node_refuses(
    "node-group-missing",
    "node group label not found: {node} does not have the label {label}, which queue {queue} requires",
    "label {node} with {label}",
    "set the argument strict of nodegroup to false",
)
NODE_GROUP_NOT_SPECIFIED = _node_refuses(
    "node-group-not-specified",
    "node group affinity not specified: {node} is in node group {group}, and queue {queue} has no affinity",
    "add {group} to nodeGroupAffinity of queue {queue}",
    "use a queue with {group} in its nodeGroupAffinity",
)
NODE_GROUP_MISMATCH = _node_refuses(
    "node-group-mismatch",
    "node does not satisfy the node group affinity: {node} is in node group {group}, which queue "
    "{queue} cannot use",
    "add {group} to nodeGroupAffinity of queue {queue}",
    "use a queue that can use {group}",
)

_limited = ReasonFamily(Stage.PREDICATE, CAPACITY | _RULES)

NODE_GROUP_LIMIT = _limited(
    "node-group-limit",
    "node group resource limit exceeded: queue {queue} uses {used} of {limit} of {resource} in node "
    "group {group}, the pod requests {asked}",
    "raise the limit of {resource} for {group} of queue {queue}",
)
NODE_GROUP_LIMITS_INVALID = _node_refuses(
    "node-group-limits-invalid",
    "node group resource limits annotation invalid: queue {queue}: {problem}",
    "correct the annotation {annotation} of queue {queue}",
)

"""Why capacity lets a job wait."""

from __future__ import annotations

from ringwise.reasons import ReasonKind, Stage, Trigger

_TREE = frozenset({Trigger.QUEUE_CHANGED, Trigger.JOB_CHANGED})

QUEUE_TREE_BROKEN = ReasonKind(
    "queue-tree-broken",
    Stage.ENQUEUE,
    "queue {queue} is not in the queue tree: {problem}",
    (
        "correct spec.parent of the queue",
        "use another queue",
    ),
    _TREE,
)

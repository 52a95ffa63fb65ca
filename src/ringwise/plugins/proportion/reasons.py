"""Why proportion lets a job or a pod wait."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, ReasonKind, Stage, Trigger

_QUEUE_ROOM = CAPACITY | {Trigger.QUEUE_CHANGED, Trigger.JOB_CHANGED}

QUEUE_SHARE_USED = ReasonKind(
    "queue-share-used",
    Stage.GANG,
    "queue {queue} uses {used} of {resource} and the pod asks for {asked}; "
    "its share is {deserved} while other queues want theirs",
    (
        "wait until jobs of {queue} end or other queues want less",
        "raise the weight of {queue}, which is {weight}",
    ),
    _QUEUE_ROOM,
)
QUEUE_CAPABILITY_REACHED = ReasonKind(
    "queue-capability-reached",
    Stage.GANG,
    "queue {queue} uses {used} of {resource} and the pod asks for {asked}; it may use {limit}",
    ("wait until jobs of {queue} end", "raise capability {resource} of {queue} to {needed}"),
    _QUEUE_ROOM,
)
QUEUE_QUOTA_INSUFFICIENT = ReasonKind(
    "queue-quota-insufficient",
    Stage.ENQUEUE,
    "queue resource quota insufficient: queue {queue} has given away {taken} of the {limit} of {resource} "
    "it may use, and the job needs {asked}",
    ("wait until jobs of {queue} end", "use a queue with {asked} of {resource} to spare"),
    _QUEUE_ROOM,
)

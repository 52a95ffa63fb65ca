"""Why proportion lets a job or a pod wait."""

from __future__ import annotations

from ringwise.framework.reasons import QUEUE_ROOM
from ringwise.reasons import ReasonKind, Stage

QUEUE_SHARE_USED = ReasonKind(
    "queue-over-fair-share",
    Stage.GANG,
    "queue {queue} uses {used} of {resource} and the pod asks for {asked}; "
    "its share is {deserved} while other queues want theirs",
    ("raise the weight of {queue}, which is {weight}",),
    QUEUE_ROOM,
)

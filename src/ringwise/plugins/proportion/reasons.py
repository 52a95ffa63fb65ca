"""Why proportion lets a job or a pod wait."""

from __future__ import annotations

from ringwise.framework.reasons import QUEUE_ROOM
from ringwise.reasons import ReasonKind, Stage

QUEUE_SHARE_USED = ReasonKind(
    "queue-over-fair-share",
    Stage.GANG,
    "queue {queue} is over its fair share of {resource}: {used} used, {asked} requested, fair share "
    "{deserved}",
    ("raise the weight of queue {queue}, which is {weight}",),
    QUEUE_ROOM,
)

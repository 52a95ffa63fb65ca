"""reclaim: a queue takes back what other queues use beyond their share."""

from __future__ import annotations

from ringwise.framework.evictions.eviction import evict_for_starving
from ringwise.framework.evictions.reclaiming import reclaim_choices
from ringwise.framework.registry import PREDICATE_ERROR_CACHE, ActionSpec
from ringwise.framework.session import Session

NAME = "reclaim"


def reclaim(session: Session) -> None:
    evict_for_starving(session, NAME, reclaim_choices)


SPEC = ActionSpec(
    NAME,
    "evicts pods of queues that exceed their fair share",
    reclaim,
    arguments=(PREDICATE_ERROR_CACHE,),
)

"""reclaim: a queue takes back what other queues use beyond their share."""

from __future__ import annotations

from ringwise.framework.evictions.eviction import evict_for, starving_jobs
from ringwise.framework.evictions.nominated_shares import nominated_shares
from ringwise.framework.evictions.reclaiming import reclaim_choices
from ringwise.framework.registry import PREDICATE_ERROR_CACHE, ActionSpec
from ringwise.framework.session import Session

NAME = "reclaim"


def reclaim(session: Session) -> None:
    with nominated_shares(session):
        for _, job in starving_jobs(session):
            for choice in reclaim_choices(session, job):
                if evict_for(session, job, choice, NAME):
                    break


SPEC = ActionSpec(
    NAME,
    "evicts pods of queues that exceed their fair share",
    reclaim,
    arguments=(PREDICATE_ERROR_CACHE,),
)

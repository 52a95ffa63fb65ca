"""gangreclaim: a gang gets back what other queues use beyond their share, in bundles, all or nothing."""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.framework.evictions.bundles import ARGUMENTS, bundles_of
from ringwise.framework.evictions.eviction import evicting_action
from ringwise.framework.evictions.reclaiming import reclaim_choices
from ringwise.framework.evictions.victim_search import VictimChoice
from ringwise.framework.job import Job
from ringwise.framework.session import Session

NAME = "gangreclaim"


def choices_for(session: Session, job: Job) -> Iterator[VictimChoice]:
    return reclaim_choices(session, job, bundles_of(session, NAME))


SPEC = evicting_action(
    NAME,
    "evicts bundles of pods of queues that exceed their fair share, so that a gang can start",
    choices_for,
    ARGUMENTS,
)

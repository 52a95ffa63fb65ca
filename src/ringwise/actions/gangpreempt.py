"""gangpreempt: a gang evicts bundles of less important jobs of its queue, all it needs at once or nothing.

First what all of those jobs can spare without ending, then whole jobs. A job with a network topology gets the
room inside one domain.
"""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.framework.evictions.bundles import ARGUMENTS, bundles_of
from ringwise.framework.evictions.candidates import preemptable_pods
from ringwise.framework.evictions.eviction import evicting_action
from ringwise.framework.evictions.victim_search import VictimChoice
from ringwise.framework.job import Job
from ringwise.framework.session import Session

NAME = "gangpreempt"


def choices_for(session: Session, job: Job) -> Iterator[VictimChoice]:
    """Flagged pods of jobs of its queue that have a lower priority, whatever plugins are configured."""
    there = session.shared(preemptable_pods).queues().get(job.queue)
    lower = () if there is None or there.lowest_priority >= job.priority else (there.below(job.priority),)
    yield VictimChoice(lower, session.preemptable, session.none_preemptable, bundles_of(session, NAME))


SPEC = evicting_action(
    NAME, "evicts bundles of pods of the same queue to start a gang", choices_for, ARGUMENTS
)

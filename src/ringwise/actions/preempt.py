"""preempt: evicts pods of less important jobs inside a queue.

Candidates are bound or running pods that are flagged preemptable; plugins decide which of
them the job may evict. First the pods of other jobs in the queue are candidates, then, for
a job that still lacks pods, less important pods of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.framework.arguments import Argument, boolean, integer
from ringwise.framework.evictions.candidates import preemptable_pods
from ringwise.framework.evictions.eviction import evicting_action
from ringwise.framework.evictions.victim_search import VictimChoice
from ringwise.framework.gangs.domain_placement import obeys_topology
from ringwise.framework.job import Job
from ringwise.framework.registry import PREDICATE_ERROR_CACHE
from ringwise.framework.session import Session

NAME = "preempt"


def choices_for(session: Session, job: Job) -> Iterator[VictimChoice]:
    """Flagged pods of other jobs of its queue, then, where it has any, its own."""
    if obeys_topology(session, job):
        # As in Volcano: for a job with a network topology only gangpreempt evicts pods.
        return
    there = session.shared(preemptable_pods).queues().get(job.queue)
    if there is None:
        yield VictimChoice((), session.preemptable)
    elif job.key not in there.jobs:
        yield VictimChoice((there,), session.preemptable, session.none_preemptable)
    else:
        others, own = there.divided(job)
        yield VictimChoice((others,) if others.jobs else (), session.preemptable, session.none_preemptable)
        yield VictimChoice((own,), session.preemptable)


def _unused_number(name: str, default: int, meaning: str, maximum: int = 1_000_000) -> Argument[int]:
    return integer(name, default, meaning, maximum=maximum, has_effect=False)


SPEC = evicting_action(
    NAME,
    "evicts pods of the same queue so that a job can start",
    choices_for,
    (
        PREDICATE_ERROR_CACHE,
        boolean(
            "enableTopologyAwarePreemption", False, "the topology is always considered", has_effect=False
        ),
        _unused_number("topologyAwarePreemptWorkerNum", 16, "threads of the search"),
        _unused_number("minCandidateNodesPercentage", 10, "percentage of nodes searched", maximum=100),
        _unused_number("minCandidateNodesAbsolute", 1, "minimum number of nodes searched"),
        _unused_number("maxCandidateNodesAbsolute", 100, "maximum number of nodes searched"),
    ),
)

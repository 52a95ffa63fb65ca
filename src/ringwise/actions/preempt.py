"""preempt: evicts pods of less important jobs inside a queue.

Candidates are bound or running pods that are flagged preemptable; plugins decide which of
them the job may evict. First the pods of other jobs in the queue are candidates, then, for
a job that still lacks pods, less important pods of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.framework.arguments import Argument, boolean, integer
from ringwise.framework.evictions.candidates import preemptable_pods
from ringwise.framework.evictions.eviction import evict_for, starving_jobs
from ringwise.framework.evictions.nominated_shares import nominated_shares
from ringwise.framework.evictions.victim_search import VictimChoice
from ringwise.framework.gangs.domain_placement import obeys_topology
from ringwise.framework.job import Job
from ringwise.framework.registry import PREDICATE_ERROR_CACHE, ActionSpec
from ringwise.framework.session import Session

NAME = "preempt"


def preempt(session: Session) -> None:
    with nominated_shares(session):
        for _, job in starving_jobs(session):
            for choice in choices_for(session, job):
                if evict_for(session, job, choice, NAME):
                    break


def left_to_gangs(session: Session, job: Job) -> bool:
    """As in Volcano: for a job with a network topology only gangpreempt evicts pods."""
    return obeys_topology(session, job)


def choices_for(session: Session, job: Job) -> Iterator[VictimChoice]:
    """Flagged pods of other jobs of its queue, then, where it has any, its own."""
    if left_to_gangs(session, job):
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


SPEC = ActionSpec(
    NAME,
    "evicts pods of the same queue so that a job can start",
    preempt,
    arguments=(
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

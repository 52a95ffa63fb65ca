"""Whether a queue has room for a pod or a job: below its limit, and beside what is kept for others (F6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ringwise.framework.amounts import Amount, Amounts, add, lacking
from ringwise.framework.job import Job
from ringwise.framework.reasons import QUEUE_CAPABILITY_REACHED, QUEUE_SHARE_KEPT
from ringwise.framework.session import Session
from ringwise.grammar import counted
from ringwise.reasons import Reason

#: Jobs that one reason names.
_NAMED = 3


def beyond_capability(
    queue: str, requests: Mapping[str, Amount], used: Mapping[str, Amount], limit: Mapping[str, Amount]
) -> Reason | None:
    """Return the reason if what the queue uses and what a pod requests together exceed the limit."""
    over = lacking(requests, used, limit)
    if not over:
        return None
    name = over[0]
    return QUEUE_CAPABILITY_REACHED(
        queue=queue,
        resource=name,
        used=used.get(name, 0),
        asked=requests[name],
        limit=limit[name],
        needed=used.get(name, 0) + requests[name],
    )


def reserved_against(session: Session, queues: Sequence[str], job: str) -> Amounts:
    """What is kept in these queues for other jobs."""
    reserved = session.usage.reserved
    if not len(reserved):
        return {}
    total: Amounts = {}
    for name in queues:
        add(total, reserved.against(name, job))
    return total


def no_room_beside(
    session: Session,
    queues: Sequence[str],
    job: str,
    reserved: Mapping[str, Amount],
    requests: Mapping[str, Amount],
    used: Mapping[str, Amount],
    limit: Mapping[str, Amount],
) -> Reason | None:
    """Return the reason if the requests fit into the limit of the first queue, but not beside what is kept.

    The others are the queues below it, which count for it.
    """
    if not reserved:
        return None
    total = dict(used)
    add(total, reserved)
    over = lacking(requests, total, limit)
    if not over:
        return None
    name = over[0]
    keys = [key for queue in queues for key in session.usage.reserved.jobs_in(queue, name) if key != job]
    # The reason becomes a condition of the job: it names jobs of its own namespace, and counts the others.
    own = f"{job.partition('/')[0]}/"
    named = [_named(session.jobs.get(key), key) for key in keys if key.startswith(own)][:_NAMED]
    more = f" and {len(keys) - len(named)} more" if len(keys) > len(named) else ""
    return QUEUE_SHARE_KEPT(
        queue=queues[0],
        resource=name,
        used=used.get(name, 0),
        kept=reserved.get(name, 0),
        asked=requests[name],
        limit=limit[name],
        jobs=", ".join(named) + more
        if named
        else counted(keys, "job of another namespace", "jobs of other namespaces"),
        first=named[0] if named else "such a job",
        count=len(keys),
        seconds=session.settings.hold_healthy_nodes,
    )


def _named(job: Job | None, key: str) -> str:
    return key if job is None else job.full_name

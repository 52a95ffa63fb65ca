"""Kept chips, and who may use them all the same: their owner, and whoever is gone before it starts."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext

from ringwise.framework.job import Job
from ringwise.framework.session import Session


def lenders(session: Session, job: Job) -> list[str]:
    """Jobs that wait for a known time: who says it ends before that may use their kept chips until then."""
    if job.expected is None or job.policy is None or job.started is not None:
        return []
    end = session.now + job.expected
    return [
        kept.owner
        for kept in session.reservations
        if kept.owner != job.key
        and kept.resource == job.policy.resource
        and kept.starts is not None
        and end <= kept.starts
    ]


def kept_chips_open(session: Session, job: Job, owners: Iterable[str] = ()) -> AbstractContextManager[object]:
    """Inside, the chips kept for the job, and for `owners`, are free. They stay kept afterwards."""
    if not len(session.reservations):
        return _NOTHING_KEPT
    opened = ExitStack()
    for owner in (job.key, *owners):
        opened.enter_context(session.reservations.open_to(owner))
    return opened


_NOTHING_KEPT = nullcontext()

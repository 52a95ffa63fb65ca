"""Who may use what is reserved: its owner, and jobs that end before the owner can start."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext

from ringwise.framework.job import Job
from ringwise.framework.session import Session


def lending_owners(session: Session, job: Job) -> list[str]:
    """Owners of reservations that start only after this job has ended, by its own estimate."""
    if job.expected is None or job.started is not None:
        return []
    end = session.now + job.expected
    return [
        reservation.owner
        for reservation in session.reservations
        if reservation.owner != job.key and reservation.starts is not None and end <= reservation.starts
    ]


def reserved_free(session: Session, job: Job, owners: Iterable[str] = ()) -> AbstractContextManager[object]:
    """Inside, what is reserved for the job and for `owners` counts as free. It stays reserved."""
    if not len(session.reservations):
        return _NO_RESERVATIONS
    opened = ExitStack()
    for owner in (job.key, *owners):
        opened.enter_context(session.reservations.open_to(owner))
    return opened


_NO_RESERVATIONS = nullcontext()

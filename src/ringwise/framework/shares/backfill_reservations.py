"""Who may use what is reserved: its owner, and jobs that end before the owner can start."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext

from ringwise.framework.job import Job, job_key
from ringwise.framework.session import Session
from ringwise.framework.statement import Allocation
from ringwise.state.reservations import Borrowed


def lending_owners(session: Session, job: Job) -> list[str]:
    """Owners of reservations that start only after this job has ended, by its own estimate.

    Empty while another job of its namespace exceeds its expected duration on reserved chips.
    """
    if job.expected is None or job.started is not None:
        return []
    if session.reservations.borrowed and job.namespace in session.shared(overrun_namespaces):
        return []
    end = session.now + job.expected
    return [
        reservation.owner
        for reservation in session.reservations
        if reservation.owner != job.key and reservation.starts is not None and end <= reservation.starts
    ]


def overrun_namespaces(session: Session) -> dict[str, str]:
    """For `Session.shared`: namespaces with a pod that should have ended, on what is reserved for others.

    Each with the key of a job of such a pod.
    """
    result: dict[str, str] = {}
    for uid, borrowed in session.reservations.borrowed.items():
        record = session.state.pods.get(uid)
        if borrowed.until < session.now and record is not None and record.node >= 0:
            result.setdefault(record.pod.namespace, job_key(record.pod))
    return result


def borrow(session: Session, job: Job, allocations: Iterable[Allocation]) -> None:
    """Record that the pods were placed on what is reserved for others."""
    if job.expected is not None:
        end = session.now + job.expected
        for one in allocations:
            session.reservations.borrowed[one.pod.uid] = Borrowed(session.now, end)


def reserved_free(session: Session, job: Job, owners: Iterable[str] = ()) -> AbstractContextManager[object]:
    """Inside, what is reserved for the job and for `owners` counts as free. It stays reserved."""
    if not len(session.reservations):
        return _NO_RESERVATIONS
    opened = ExitStack()
    for owner in (job.key, *owners):
        opened.enter_context(session.reservations.open_to(owner))
    return opened


_NO_RESERVATIONS = nullcontext()

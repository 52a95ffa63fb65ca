"""What jobs will use for which others are evicted: it counts against the other jobs of their queues.

Otherwise, if a queue deserves one more job, two of its jobs would each evict pods, and only one could start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.state.model import Pod


class NominatedShares:
    """For `Session.shared`: counted while an action searches victims, and at no other time."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._counted: dict[str, tuple[Job, list[Pod]]] = {}

    def add(self, job: Job, pods: Iterable[Pod]) -> None:
        self.remove(job.key)
        self._counted[job.key] = job, list(pods)
        for pod in self._counted[job.key][1]:
            self._session.usage.add_pod(job.key, job.queue, pod.cls)

    def remove(self, key: str) -> None:
        """It is searched for again: it does not count against itself."""
        if key in self._counted:
            job, pods = self._counted.pop(key)
            for pod in pods:
                self._session.usage.remove_pod(job.key, job.queue, pod.cls)

    def add_all(self) -> None:
        """Of jobs for which pods were evicted in earlier cycles."""
        placements = self._session.state.pods
        for reservation in self._session.reservations:
            job = self._session.jobs.get(reservation.owner) if reservation.evicting else None
            if job is not None:
                waiting = [
                    uid for uid in reservation.nominated if uid in job.pods and placements[uid].node < 0
                ]
                self.add(job, [job.pods[uid] for uid in waiting])

    def remove_all(self) -> None:
        for key in list(self._counted):
            self.remove(key)


@contextmanager
def nominated_shares(session: Session) -> Iterator[None]:
    """Inside, victims are searched."""
    shares = session.shared(NominatedShares)
    try:
        shares.add_all()
        yield
    finally:
        shares.remove_all()

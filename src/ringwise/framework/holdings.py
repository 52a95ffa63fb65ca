"""Chips in use and jobs that run, by what limits are set for: namespaces, queues, and users of a queue.

Kept as pods come and go, like all of `ResourceUsage`, also inside statements: no cycle counts again. The user
of a job is empty where nobody vouches for it; then it is counted for no user.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ringwise.framework.amounts import Amount, simplified

NAMESPACE, QUEUE, USER = "namespace", "queue", "user"


class Scope(NamedTuple):
    """What a limit holds for."""

    kind: str
    #: Of the namespace, or of the queue.
    name: str
    user: str = ""

    def __str__(self) -> str:
        return f"user {self.user} in queue {self.name}" if self.kind == USER else f"{self.kind} {self.name}"


def namespace_of(job: str) -> str:
    """From the key of a job."""
    return job.partition("/")[0]


class Holdings:
    __slots__ = ("_pods", "chips", "held", "jobs", "users")

    def __init__(self) -> None:
        #: Verified users of jobs, by the jobs' keys.
        self.users: dict[str, str] = {}
        #: By job and queue: pods with a node, and their chips. A job that was moved may count for several.
        self.held: dict[tuple[str, str], tuple[int, Amount]] = {}
        #: By job: pods with a node.
        self._pods: dict[str, int] = {}
        self.chips: dict[Scope, Amount] = {}
        #: Jobs with a pod that has a node.
        self.jobs: dict[Scope, int] = {}

    def add(self, job: str, queue: str, chips: Amount, times: int) -> None:
        if not job:
            return
        before = self.held.get((job, queue), (0, 0))
        after = before[0] + times, before[1] + chips * times
        if after[0]:
            self.held[job, queue] = after
        else:
            self.held.pop((job, queue), None)
        pods = self._pods.get(job, 0)
        _change(self._pods, job, times)
        space, queue_scope = Scope(NAMESPACE, namespace_of(job)), Scope(QUEUE, queue)
        user = self.users.get(job)
        begins = bool(after[0]) - bool(before[0])
        _change(self.chips, space, chips * times)
        _change(self.jobs, space, bool(pods + times) - bool(pods))
        _change(self.chips, queue_scope, chips * times)
        _change(self.jobs, queue_scope, begins)
        if user:
            scope = Scope(USER, queue, user)
            _change(self.chips, scope, chips * times)
            _change(self.jobs, scope, begins)

    def set_user(self, job: str, queues: Iterable[str], user: str) -> None:
        """The user of a job whose pods count for these queues; empty: not verified."""
        before = self.users.get(job, "")
        for queue in queues:
            pods, chips = self.held.get((job, queue), (0, 0))
            for one, sign in ((before, -1), (user, 1)):
                if one and pods:
                    _change(self.chips, Scope(USER, queue, one), sign * chips)
                    _change(self.jobs, Scope(USER, queue, one), sign)
        if user:
            self.users[job] = user
        else:
            self.users.pop(job, None)

    def runs(self, job: str) -> bool:
        """Whether one of its pods has a node."""
        return job in self._pods

    def runs_in(self, job: str, scope: Scope) -> bool:
        """Whether the job is counted for a scope that holds for it."""
        return job in self._pods if scope.kind == NAMESPACE else (job, scope.name) in self.held

    def pods_of(self, job: str) -> int:
        """How many of its pods have a node."""
        return self._pods.get(job, 0)

    def copy(self) -> tuple[dict[Any, Any], ...]:
        return tuple(dict(table) for table in self._tables)

    def restore(self, copies: tuple[dict[Any, Any], ...]) -> None:
        for table, kept in zip(self._tables, copies, strict=True):
            table.clear()
            table.update(kept)

    def clear(self) -> None:
        """What pods hold; users stay."""
        for table in self._tables:
            table.clear()

    @property
    def _tables(self) -> tuple[dict[Any, Any], ...]:
        return self.held, self._pods, self.chips, self.jobs


def _change(table: dict[Any, Any], key: object, by: Amount) -> None:
    if by:
        value = table.get(key, 0) + by
        if value:
            table[key] = value if type(value) is int else simplified(value)
        else:
            del table[key]

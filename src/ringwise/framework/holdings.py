"""Usage of what limits are set for: namespaces, queues, users, and combinations of these.

It is updated as pods come and go, like all of `ResourceUsage`, also inside statements, so that no cycle has
to count again. The user of a job is empty if it is not verified; then the job is not counted for a user.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ringwise.framework.amounts import Amount, added
from ringwise.state.limits import RUNNING_JOBS
from ringwise.state.model import EMPTY


class Scope(NamedTuple):
    """What a limit holds for: the jobs of a namespace, in a queue, of a user; an empty part says nothing."""

    namespace: str = ""
    queue: str = ""
    user: str = ""

    def __str__(self) -> str:
        parts = (("user", self.user), ("namespace", self.namespace), ("queue", self.queue))
        return " in ".join(f"{kind} {name}" for kind, name in parts if name)

    @property
    def shape(self) -> Shape:
        return Shape(bool(self.namespace), bool(self.queue), bool(self.user))


class Shape(NamedTuple):
    """Which parts a scope has."""

    namespace: bool
    queue: bool
    user: bool

    def of(self, namespace: str, queue: str, user: str) -> Scope | None:
        """Return the scope of this shape for such a job; None if its user is not known."""
        if self.user and not user:
            return None
        return Scope(
            namespace if self.namespace else "", queue if self.queue else "", user if self.user else ""
        )


def namespace_of(job: str) -> str:
    """From the key of a job."""
    return job.partition("/")[0]


class Holdings:
    __slots__ = ("_pods", "held", "shapes", "used", "users")

    def __init__(self) -> None:
        #: Verified users of jobs, by the jobs' keys.
        self.users: dict[str, str] = {}
        #: Those that are counted: limits have them.
        self.shapes: tuple[Shape, ...] = ()
        #: By job and queue: pods with a node, and what they request. A job that was moved may count for
        #: several.
        self.held: dict[tuple[str, str], tuple[int, Mapping[str, Amount]]] = {}
        #: By job: pods with a node.
        self._pods: dict[str, int] = {}
        #: Amounts of resources, and `runningJobs`: jobs with a pod that has a node.
        self.used: dict[Scope, Mapping[str, Amount]] = {}

    def add(self, job: str, queue: str, amounts: Mapping[str, Amount], times: int) -> None:
        if not job:
            return
        pods, held = self.held.get((job, queue), (0, EMPTY))
        if pods + times:
            self.held[job, queue] = pods + times, added(held, amounts, times)
        else:
            self.held.pop((job, queue), None)
        before = self._pods.get(job, 0)
        if before + times:
            self._pods[job] = before + times
        else:
            self._pods.pop(job, None)
        if self.shapes:
            begins = bool(before + times) - bool(before)
            self._count(job, queue, amounts, times, begins, bool(pods + times) - bool(pods))

    def _count(
        self, job: str, queue: str, amounts: Mapping[str, Amount], times: int, begins: int, begins_here: int
    ) -> None:
        """`begins`: 1 if the job did not run before, -1 if it runs no more; `begins_here`: in this queue."""
        for scope in self.scopes(job, queue):
            jobs = begins_here if scope.queue else begins
            used = added(added(self.used.get(scope, EMPTY), amounts, times), {RUNNING_JOBS: jobs})
            if used:
                self.used[scope] = used
            else:
                self.used.pop(scope, None)

    def scopes(self, job: str, queue: str) -> Iterator[Scope]:
        """Yield those for which a job counts with what it has in a queue."""
        namespace, user = namespace_of(job), self.users.get(job, "")
        for shape in self.shapes:
            scope = shape.of(namespace, queue, user)
            if scope is not None:
                yield scope

    def count_by(self, shapes: Iterable[Shape]) -> None:
        """Count by these shapes from now on."""
        self.shapes = tuple(sorted(shapes))
        self.used.clear()
        counted = set[str]()
        for (job, queue), (_, amounts) in self.held.items():
            self._count(job, queue, amounts, 1, job not in counted, 1)
            counted.add(job)

    def set_user(self, job: str, queues: Iterable[str], user: str) -> None:
        """The user of a job whose pods count for these queues; empty: not verified."""
        own = [(queue, self.held[job, queue][1]) for queue in queues if (job, queue) in self.held]
        for sign in (-1, 1):
            for position, (queue, amounts) in enumerate(own):
                self._count(job, queue, amounts, sign, sign * (not position), sign)
            if user:
                self.users[job] = user
            else:
                self.users.pop(job, None)

    def runs(self, job: str) -> bool:
        """Whether one of its pods has a node."""
        return job in self._pods

    def runs_in(self, job: str, scope: Scope) -> bool:
        """Whether the job is counted for a scope that holds for it."""
        return (job, scope.queue) in self.held if scope.queue else job in self._pods

    def pods_of(self, job: str) -> int:
        """How many of its pods have a node."""
        return self._pods.get(job, 0)

    def clear(self) -> None:
        """What pods hold; users stay."""
        for table in self.tables:
            table.clear()

    @property
    def tables(self) -> tuple[dict[Any, Any], ...]:
        """What follows from the pods that have nodes."""
        return self.held, self._pods, self.used

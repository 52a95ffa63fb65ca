"""UsageLimits: what a namespace, a queue or a user may use at once, and how long its jobs may run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ringwise.records import dataclass

#: In a subject: each of them separately.
EACH = "*"
TERMINATE, REQUEUE = "Terminate", "Requeue"
#: What is limited beside resources: jobs that run, and jobs that were tried and wait.
RUNNING_JOBS, PENDING_JOBS = JOB_COUNTS = "runningJobs", "pendingJobs"

#: What users see of the limits of their namespace.
SHOWN_FIELDS = ("name", "namespace", "queue", "user", "hard", "borrowing", "max_run_time", "on_timeout")


@dataclass(frozen=True, slots=True)
class UsageLimit:
    name: str
    #: The subject: a name or `*`; an empty part says nothing. At least one part says something.
    namespace: str = ""
    queue: str = ""
    user: str = ""
    #: By resource, in its unit (cpu in milli), and by `runningJobs` and `pendingJobs`.
    hard: Mapping[str, int] = field(default_factory=dict, hash=False)
    #: What may be used beyond it while no other job can use it.
    borrowing: Mapping[str, int] = field(default_factory=dict, hash=False)
    #: Nanoseconds, and what becomes of a job then.
    max_run_time: int | None = None
    on_timeout: str = TERMINATE
    created: int = 0
    generation: int = 0

    @property
    def subject(self) -> tuple[str, str, str]:
        return self.namespace, self.queue, self.user

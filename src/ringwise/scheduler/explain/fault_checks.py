"""What is wrong with jobs that a fault hit, and with what jobs ask to be done after one."""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.framework.job import Job
from ringwise.scheduler.explain.findings import NOTE, WARNING, Finding
from ringwise.scheduler.faults.policy import read_fault_policy
from ringwise.scheduler.faults.states import State
from ringwise.scheduler.view import SchedulerView
from ringwise.wellknown import FAULT_SCHEDULING


def _where(job: Job) -> str:
    """By the name that `why` takes: the PodGroup of a vcjob has a longer one."""
    return f"job {job.namespace}/{job.name}"


def fault_findings(view: SchedulerView) -> Iterator[Finding]:
    for job in view.jobs.values():
        if FAULT_SCHEDULING in job.labels:
            for note in read_fault_policy(job.labels, job.annotations).notes:
                yield Finding(
                    NOTE, "fault-policy", _where(job), note, "correct the value, see docs/faults.md"
                )
    for key, handled in view.fault_jobs.items():
        found = view.jobs.get(key)
        where = f"job {key}" if found is None else _where(found)
        if handled.state is State.BLOCKED:
            yield Finding(
                WARNING,
                "rescheduling-blocked",
                where,
                f"a fault hit it, and no pod is restarted: {handled.blocked}",
                "delete its faulty pods or the job, or change what forbids it",
            )
        going = handled.deletions.values() if handled.state is State.DELETING and not handled.external else ()
        for name in (*handled.given_up.values(), *(one.name for one in going if one.forced)):
            yield Finding(
                WARNING,
                "pod-does-not-end",
                where,
                f"pod {name} was deleted by force because of a fault and is still there; "
                "it keeps its chips until it is gone",
                "remove what keeps it: a finalizer, or an API server that refuses the deletion",
            )

"""The faults of nodes and the jobs that they affect, as documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringwise.scheduler.affected_jobs import AffectedJobs, JobFault
from ringwise.scheduler.view import SchedulerView
from ringwise.views.documents.maintenance import FaultsDocument

if TYPE_CHECKING:
    from ringwise.views.documents.cluster import JobFaultFields


def job_fault_fields(job_fault: JobFault) -> JobFaultFields:
    fault = job_fault.fault
    return {
        "node": fault.node,
        "kind": fault.kind,
        "chip": fault.chip or None,
        "level": fault.level,
        "code": fault.code or None,
        "since": job_fault.since,
        "message": fault.text,
    }


def faults_document(view: SchedulerView, now: int) -> FaultsDocument:
    """What `ringwise fault list -o json` prints."""
    faults = AffectedJobs(view).all()
    return FaultsDocument(
        now=now, faults=[{**job_fault_fields(job_fault), "affected_jobs": jobs} for job_fault, jobs in faults]
    )

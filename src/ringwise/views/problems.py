"""What is broken or blocked in a cluster: findings of `doctor`, faults, and jobs pending for long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ringwise.durations import SECOND
from ringwise.scheduler.affected_jobs import AffectedJobs, JobFault
from ringwise.scheduler.explain.doctor import diagnose
from ringwise.scheduler.explain.findings import ERROR, NOTE, WARNING, Finding, named
from ringwise.scheduler.node_faults import CHIP, NETWORK, NOT_READY
from ringwise.scheduler.view import SchedulerView
from ringwise.topology.natural import natural_key
from ringwise.views.cluster import JobView, shortened, shown_jobs
from ringwise.views.written_reasons import WrittenReasons

if TYPE_CHECKING:
    from ringwise.views.documents.dashboard import DashboardProblem, DashboardProblemsDocument

MAX_PROBLEMS = 200
#: Jobs that a problem names.
MAX_JOBS = 5
#: A job that has been pending for so long is a problem.
LONG = 600 * SECOND
#: Faults of one problem whose text is shown.
MAX_TEXTS = 3
_FAULT_FIX = "repair it, see docs/guides/faults.md; the scheduler avoids it as long as it is reported"
_NODE_NOT_READY, _NODE_UNHEALTHY, _CHIP_IN_USE = "node-not-ready", "node-unhealthy", "faulty-chip-in-use"
#: Findings that are shown as faults, with their times and the jobs that they affect.
_SHOWN_AS_FAULTS = (_NODE_NOT_READY, _NODE_UNHEALTHY, _CHIP_IN_USE)


def problems_document(
    view: SchedulerView,
    now: int,
    reported: Iterable[Finding] = (),
    written: WrittenReasons | None = None,
    *,
    renews_reports: bool = True,
) -> DashboardProblemsDocument:
    """Errors first. Notes of `doctor` are not problems.

    `reported` and `renews_reports` are those of `diagnose`. `written` are the reasons in conditions of the
    cluster, if the scheduler of `view` decides nothing.
    """
    findings = diagnose(view, reported, renews_reports=renews_reports).findings
    problems = [*_faults(view, findings), *_findings(view, findings), *_pending(view, now, written)]
    problems.sort(key=lambda one: one["severity"] != ERROR)
    document: DashboardProblemsDocument = {
        "schema": "ringwise.io/dashboard-problems/v1",
        "now": now,
        "problems": problems[:MAX_PROBLEMS],
    }
    if len(problems) > MAX_PROBLEMS:
        document["remaining_item_count"] = len(problems) - MAX_PROBLEMS
    return document


def _problem(finding: Finding, since: int | None, jobs: Sequence[str]) -> DashboardProblem:
    return {
        "severity": finding.severity,
        "code": finding.code,
        "object": shortened(finding.object),
        "message": shortened(finding.message),
        "fix": shortened(finding.fix),
        "since": since,
        "jobs": list(jobs[:MAX_JOBS]),
        "more_jobs": max(0, len(jobs) - MAX_JOBS),
    }


def _faults(view: SchedulerView, findings: Sequence[Finding]) -> Iterator[DashboardProblem]:
    """Faults that are alike are one problem."""
    fixes = {finding.code: finding.fix for finding in findings}
    alike: dict[tuple[str, str], list[tuple[JobFault, list[str]]]] = {}
    for job_fault, jobs in AffectedJobs(view).all():
        kind, level = job_fault.fault.kind, job_fault.fault.level
        code = _NODE_NOT_READY if level == NOT_READY else _NODE_UNHEALTHY
        if kind in (CHIP, NETWORK):
            code = _CHIP_IN_USE if kind == CHIP and jobs else f"{kind}-fault"
        alike.setdefault((code, f"{level} {job_fault.fault.code}"), []).append((job_fault, jobs))
    for (code, _), group in alike.items():
        names = sorted({job for _, jobs in group for job in jobs}, key=natural_key)
        where = named(list(dict.fromkeys(job_fault.fault.node for job_fault, _ in group)), "node")
        what = "; ".join(job_fault.fault.text for job_fault, _ in group[:MAX_TEXTS])
        finding = Finding(ERROR if names else WARNING, code, where, what, fixes.get(code, _FAULT_FIX))
        yield _problem(finding, _first(job_fault.since for job_fault, _ in group), names)


def _findings(view: SchedulerView, findings: Iterable[Finding]) -> Iterator[DashboardProblem]:
    created = {job.full_name: job.created for job in view.jobs.values()}
    for finding in findings:
        if finding.severity != NOTE and finding.code not in _SHOWN_AS_FAULTS:
            kind, _, name = finding.object.partition(" ")
            jobs = [name] if kind == "job" and name in created else []
            yield _problem(finding, _first(map(created.get, jobs)), jobs)


def _pending(view: SchedulerView, now: int, written: WrittenReasons | None) -> Iterator[DashboardProblem]:
    """Jobs that are pending for long, by the reason; refused ones are findings."""
    alike: dict[str, list[JobView]] = {}
    for job in shown_jobs(view):
        if written is not None and job.job is not None:
            job.written = written.of(job.job.key)
        if now - job.created >= LONG and job.outcome == "pending":
            alike.setdefault(job.row()["reason_code"], []).append(job)
    for code, jobs in alike.items():
        jobs.sort(key=lambda job: (job.created, natural_key(job.key)))
        first, names = jobs[0], [job.key for job in jobs]
        fixes = () if first.reason is None else first.reason.fixes
        what = first.row()["reason_message"]
        finding = Finding(WARNING, code or "pending", named(names, "job"), what, fixes[0] if fixes else "")
        yield _problem(finding, first.created, names)


def _first(times: Iterable[int | None]) -> int | None:
    return min((time for time in times if time is not None), default=None)

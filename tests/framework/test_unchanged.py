"""What a question touched is put back, and only that was copied."""

from __future__ import annotations

from ringwise.framework.job import Job, job_unchanged, jobs_unchanged
from ringwise.framework.usage import ResourceUsage
from tests.builders.values import pod, pod_class


def _job(name: str) -> Job:
    pods = {f"{name}-{n}": pod(f"{name}-{n}", 1) for n in range(2)}
    return Job(f"default/{name}", "default", name, pods)


def _caches(job: Job) -> tuple[object, ...]:
    return job.ordered, job.ranks, job.sources, job.requested_total, job._seniority


def test_what_was_computed_about_a_job_is_put_back() -> None:
    job = _job("a")
    before = _caches(job)
    with jobs_unchanged({job.key: job}):
        assert job.rank_table
        assert job.requested()
        assert job.seniority
        assert _caches(job) != before
    assert _caches(job) == before
    computed = job.rank_table
    with jobs_unchanged({job.key: job}):
        job.changed()
        assert job.ranks is None
    assert job.ranks is computed


def test_what_is_first_computed_inside_a_supposition_does_not_hide_what_was_before() -> None:
    job = _job("a")
    pods = job.pods
    with jobs_unchanged({job.key: job}):
        with job_unchanged(job):
            job.pods = {}
            assert job.requested() == {}
        assert job.pods is pods
        assert job.requested_total is None
    assert job.pods is pods
    assert job.requested_total is None


def test_a_question_inside_another_one() -> None:
    job = _job("a")
    jobs = {job.key: job}
    with jobs_unchanged(jobs):
        assert job.requested()
        with jobs_unchanged(jobs):
            assert job.seniority
        assert job._seniority == ()
        assert job.requested_total is not None
    assert job.requested_total is None


def test_jobs_of_others_keep_what_they_computed_meanwhile() -> None:
    job, other = _job("a"), _job("a")
    with jobs_unchanged({job.key: job}):
        assert other.requested()
    assert other.requested_total is not None


def test_what_jobs_use_is_put_back_in_its_order() -> None:
    usage, cls = ResourceUsage(), pod_class(2, cpu_milli=500)
    for name in ("a", "b", "c"):
        usage.add_pod(name, "q", cls)
    before = [(name, list(amounts.items())) for name, amounts in usage.by_job.items()]
    with usage.unchanged():
        usage.remove_pod("a", "q", cls)
        usage.add_pod("b", "q", cls)
        # One that used nothing, touched twice.
        usage.add_pod("new", "q", cls)
        usage.add_pod("new", "q", cls)
        with usage.unchanged():
            usage.add_pod("a", "q", cls, 3)
            usage.remove_pod("b", "q", cls)
        assert "a" not in usage.by_job
        assert usage.by_job["b"] == {name: 2 * amount for name, amount in usage.by_job["c"].items()}
    assert [(name, list(amounts.items())) for name, amounts in usage.by_job.items()] == before

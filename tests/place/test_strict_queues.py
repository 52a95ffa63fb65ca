"""`queue-discipline: strict` on files: a job blocks those behind it only if time can help it."""

from __future__ import annotations

from tests.builders.objects import filler, node, pod_spec, vcjob
from tests.place.asking import Plain, ask, job_of

STRICT = {"queue-discipline": "strict"}


def outcomes(*objects: Plain) -> dict[str, str]:
    answer = ask(objects, STRICT, scores=False)
    return {job["name"]: job_of(answer, job["name"])["state"] for job in answer["jobs"]}


def job(name: str, chips: int = 8, at: int = 0, selector: dict[str, str] | None = None) -> Plain:
    made = vcjob(name, [("worker", 1, pod_spec(chips, selector=selector))])
    made["metadata"]["creationTimestamp"] = f"2025-11-15T00:00:{at:02}Z"
    return made


def never(number: int) -> Plain:
    """No node has its label."""
    return job(f"never-{number}", at=number, selector={"zone": str(number)})


def test_jobs_that_fit_into_no_empty_cluster_block_no_others() -> None:
    """Some jobs are tried in each cycle; all are reached."""
    small = [job(f"small-{number}", 1, at=10 + number) for number in range(16)]
    found = outcomes(node("n-0"), node("n-1"), *map(never, range(3)), *small)
    assert {found[f"never-{number}"] for number in range(3)} == {"pending"}
    assert {found[f"small-{number}"] for number in range(16)} == {"scheduled"}


def test_a_job_that_fits_when_others_end_blocks_those_behind_it() -> None:
    held = filler("old", "n-0", [0])
    found = outcomes(node("n-0"), held, never(0), job("next", at=2), job("small", 1, at=3))
    assert (found["never-0"], found["next"], found["small"]) == ("pending", "pending", "pending")

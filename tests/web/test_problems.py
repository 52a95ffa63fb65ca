"""The document of problems: what is broken or blocked, jobs that are affected, since when, what to do."""

from __future__ import annotations

import pytest

from ringwise.scheduler.explain.findings import Finding
from ringwise.views import problems
from ringwise.views.documents.dashboard import DashboardProblem
from ringwise.views.problems import LONG, MAX_JOBS, problems_document
from ringwise.views.written_reasons import WrittenReason, WrittenReasons
from ringwise.wellknown import HOST_ARCH, HOST_ARCH_ARM
from tests.builders.values import SECOND, gang, group, node, pod, report, seen
from tests.kube.harness import NODES, server
from tests.scheduler.rig import NOW, scheduler_told, told
from tests.tools.schemas import check_document
from tests.web.rig import TestCore, dashboard
from tests.web.test_kube import beside, with_nodes

ARM = {HOST_ARCH: HOST_ARCH_ARM}
OLD = NOW - LONG


def of(*known: object, written: WrittenReasons | None = None) -> list[DashboardProblem]:
    return problems_document(told(*known), NOW, written=written)["problems"]


def in_short(found: list[DashboardProblem]) -> list[tuple[str, str, str, list[str]]]:
    return [(one["severity"], one["code"], one["object"], one["jobs"]) for one in found]


def broken(name: str) -> list[object]:
    """A node of which chip 0 is faulty."""
    return [node(name, faulty=1, labels=ARM), report(name, range(1, 8), unhealthy=1)]


CASES: dict[str, tuple[list[object], list[tuple[str, str, str, list[str]]]]] = {
    "none": ([node("n", labels=ARM)], []),
    "notes are not problems": ([node("n")], []),
    "no nodes": ([], [("error", "no-nodes", "cluster", [])]),
    "a free chip": (broken("n"), [("warning", "chip-fault", "node n", [])]),
    "a chip in use": (
        [*broken("n"), pod("a", 1, on="n", holds=[0])],
        [("error", "faulty-chip-in-use", "node n", ["default/a"])],
    ),
    "equal faults are one problem, errors are first": (
        [*broken("n1"), *broken("n2"), *broken("n3"), pod("a", 1, on="n2", holds=[0])],
        [
            ("error", "faulty-chip-in-use", "node n2", ["default/a"]),
            ("warning", "chip-fault", "2 nodes (n1, n3)", []),
        ],
    ),
    "a node that is not ready": (
        [node("n", labels=ARM, ready=False), pod("a", 1, on="n", holds=[0])],
        [("error", "node-not-ready", "node n", ["default/a"])],
    ),
    "a refused job": (
        [node("n", labels=ARM), *gang("odd", 1, 3)],
        [("warning", "request-not-allowed", "job default/odd", ["default/odd"])],
    ),
    "a job that is pending since a moment": (
        [node("n", labels=ARM), *gang("waits", 2, 8, created=OLD + 1)],
        [],
    ),
    "a job that has been pending for long": (
        [node("n", labels=ARM), *gang("waits", 2, 8, created=OLD)],
        [("warning", "cluster-too-small", "job default/waits", ["default/waits"])],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_broken_or_blocked_is_listed_with_the_jobs_that_it_affects(case: str) -> None:
    known, expected = CASES[case]
    assert in_short(of(*known)) == expected


def test_a_problem_says_since_when_and_what_to_do() -> None:
    (waits,) = of(node("n", labels=ARM), *gang("b", 2, 8, created=OLD - 5))
    assert waits["since"] == OLD - 5
    assert waits["fix"]
    scheduler = scheduler_told(node("n", labels=ARM), pod("a", 1, on="n", holds=[0]))
    scheduler.handle(seen(*broken("n")), NOW + SECOND)
    (fault,) = problems_document(scheduler.view, NOW + 2 * SECOND)["problems"]
    assert (fault["since"], fault["fix"]) == (
        NOW + SECOND,
        "wait until the job is rescheduled, or delete its pod",
    )


def test_the_list_and_the_jobs_of_a_problem_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [one for at in range(MAX_JOBS + 2) for one in gang(f"j{at}", 2, 8, created=OLD - at)]
    (waits,) = of(node("n", labels=ARM), *jobs)
    assert (waits["jobs"][0], len(waits["jobs"]), waits["more_jobs"]) == ("default/j6", MAX_JOBS, 2)
    monkeypatch.setattr(problems, "MAX_PROBLEMS", 1)
    document = problems_document(told(*broken("n1"), node("n2", labels=ARM, ready=False)), NOW)
    assert (len(document["problems"]), document["remaining_item_count"]) == (1, 1)


def test_a_scheduler_that_decides_nothing_repeats_the_conditions_of_the_cluster() -> None:
    written = WrittenReasons()
    told_by = WrittenReason("PodGroup", "NotEnoughResources", "3 of 8 nodes fit")
    # Placed by no one, and without a reason of the scheduler here: its queue is closed to it.
    known = [group("g", 2, created=OLD), *(pod(f"g-{at}", 8, group="g", created=OLD) for at in range(2))]
    written.put("group g", "default/g", told_by)
    view = told(*known)
    for job in view.jobs.values():
        job.reason = None
    found = [one for one in problems_document(view, NOW, written=written)["problems"] if one["jobs"]]
    assert [(one["code"], one["message"]) for one in found] == [(told_by.reason, told_by.message)]


def test_findings_of_readers_are_problems() -> None:
    reported = [Finding("error", "unreadable-object", "Node x", "bad", "correct it")]
    found = problems_document(told(node("n", labels=ARM)), NOW, reported)["problems"]
    assert in_short(found) == [("error", "unreadable-object", "Node x", [])]


async def test_the_document_is_made_once_for_all_who_ask() -> None:
    core = TestCore(node("n", labels=ARM))
    async with dashboard(core) as at:
        status, document = await at.get("api/v1/problems")
        assert (status, document["problems"]) == (200, [])
        assert check_document(document) == "ringwise.io/dashboard-problems/v1"
        calls = core.calls
        core.tell(*broken("m"))
        assert (await at.get("api/v1/problems"))[1] == document
        assert core.calls == calls


async def test_beside_a_cluster_without_a_scheduler_that_is_a_problem() -> None:
    async with server() as (api, client):
        with_nodes(api)
        api.put(NODES, {"metadata": {"name": "bad"}, "status": {"capacity": {"cpu": "many"}}})
        async with beside(client) as page:
            await page.snapshot()
            _, document = await page.get("api/v1/problems")
    codes = [one["code"] for one in document["problems"]]
    assert "no-scheduler" in codes
    assert "unreadable-object" in codes

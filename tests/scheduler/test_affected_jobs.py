"""Which job is affected by which fault: one answer for documents of jobs, of faults, and of the dashboard."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.messages import events as ev
from ringwise.scheduler.affected_jobs import AffectedJobs
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.view import SchedulerView
from ringwise.state.changes import Changes
from ringwise.state.model import DeviceReport, Isolation, NodeReport, PodClass, ReportedFault
from ringwise.views.cluster import MAX_FAULTS, ClusterObjects, job_views
from ringwise.views.dashboard import DashboardRows
from ringwise.views.documents.cluster import JobFields
from ringwise.views.faults import faults_document
from tests.builders.values import SECOND, isolated, node, pod, report, seen
from tests.scheduler.rig import NOW, scheduler_told, told
from tests.tools.schemas import check_document


def objects(view: SchedulerView) -> ClusterObjects:
    nodes = [one for one in view.cluster.nodes if one is not None]
    pods = [record.pod for record in view.cluster.pods.values()]
    return ClusterObjects(view, view.history.now, nodes, pods, (), tuple(view.queues.values()), ())


def hurt(view: SchedulerView) -> dict[str, list[str]]:
    """The texts of the faults of each job, the same in all documents."""
    found = {one["name"]: [fault["message"] for fault in one["faults"]] for one in documents(view)}
    document = faults_document(view, NOW)
    assert check_document(document) == "ringwise.io/faults/v1"
    listed: dict[str, set[str]] = {}
    for fault in document.faults:
        for job in fault["affected_jobs"]:
            listed.setdefault(job.removeprefix("default/"), set()).add(fault["message"])
    gone = " deleted"
    of_nodes = {name: {text for text in texts if not text.endswith(gone)} for name, texts in found.items()}
    assert {name: texts for name, texts in of_nodes.items() if texts} == listed
    rows = DashboardRows(view, Changes())
    while not rows.fill(100):
        pass
    for row in rows.jobs():
        assert row["affected_by"][:MAX_FAULTS] == found[row["name"]][:MAX_FAULTS]
    return {name: texts for name, texts in found.items() if texts}


def documents(view: SchedulerView) -> list[JobFields]:
    return [one.document() for one in job_views(objects(view))]


def two_jobs(*events: object) -> SchedulerView:
    """a has the chips 0 and 1 of n1, b the chips 4 to 7 of it and c, without chips, is there; d is on n2."""
    return told(
        node("n1"),
        node("n2"),
        report("n1", (2, 3)),
        report("n2", range(4, 8)),
        pod("a", 2, on="n1", holds=(0, 1)),
        pod("b", 4, on="n1", holds=(4, 5, 6, 7)),
        pod("c", 0, on="n1", cls=PodClass(cpu_milli=100)),
        pod("d", 4, on="n2", holds=(0, 1, 2, 3)),
        *events,
    )


def broken(chip: int, code: str, level: str = "SeparateNPU", *, network: bool = False) -> DeviceReport:
    fault = ReportedFault(chip, code, level, network)
    bad = 1 << chip
    masks: dict[str, Any] = {"network_unhealthy" if network else "unhealthy": bad}
    return report("n1", faults=(fault,), **masks)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], {}),
        (
            [broken(1, "80E01801")],
            {"a": ["Ascend910-1 of n1: SeparateNPU, code 80E01801"]},
        ),
        # No pod holds it.
        ([broken(2, "80E01801")], {}),
        (
            [broken(5, "81078603", network=True)],
            {"b": ["network of Ascend910-5 of n1: SeparateNPU, code 81078603"]},
        ),
        ([report("n1", (), unhealthy=1)], {"a": ["Ascend910-0 of n1: SeparateNPU"]}),
        (
            [NodeReport("n1", "switch", "UnHealthy")],
            {"a": ["switches of n1: UnHealthy"], "b": ["switches of n1: UnHealthy"]},
        ),
        (
            [NodeReport("n2", "node", "SubHealthy")],
            {"d": ["node n2: SubHealthy"]},
        ),
        (
            [node("n1", ready=False)],
            {name: ["node n1: not-ready"] for name in "abc"},
        ),
        # Its pods are still there.
        ([ev.NodeGone("n2")], {"d": ["node n2: deleted"]}),
        # Isolation is not a fault (F4).
        ([isolated(Isolation("n1"))], {}),
    ],
)
def test_faults_hurt_the_jobs_that_hold_the_chip_or_run_on_the_node(
    events: list[object], expected: dict[str, list[str]]
) -> None:
    assert hurt(two_jobs(*events)) == expected


def test_a_fault_is_known_since_it_was_seen_and_of_one_that_was_there_nobody_knows() -> None:
    scheduler = scheduler_told(
        node("n1"),
        node("n2", ready=False),
        pod("a", 1, on="n1", holds=(0,)),
        pod("d", 1, on="n2", holds=(0,)),
    )
    later = NOW + 60 * SECOND
    scheduler.handle(seen(broken(0, "80E01801")), later)
    scheduler.handle(seen(broken(0, "80E01801")), later + 60 * SECOND)
    assert since(scheduler) == {"n1": later, "n2": None}
    scheduler.handle(seen(report("n1", range(8))), later + 90 * SECOND)
    scheduler.handle(seen(broken(0, "80E01801")), later + 99 * SECOND)
    assert since(scheduler) == {"n1": later + 99 * SECOND, "n2": None}


def since(scheduler: Scheduler) -> dict[str, int | None]:
    return {one.fault.node: one.since for one, _ in AffectedJobs(scheduler.view).all()}


def test_the_dashboard_follows_a_fault_that_begins_and_ends() -> None:
    scheduler = scheduler_told(node("n1"), report("n1", range(1, 8)), pod("a", 1, on="n1", holds=(0,)))
    changes = Changes()
    scheduler.record_changes(changes)
    rows = DashboardRows(scheduler.view, changes)
    assert rows.fill(1000)
    for number, (event, expected) in enumerate(
        [(broken(0, "80E01801"), ["Ascend910-0 of n1: SeparateNPU, code 80E01801"]), (report("n1", ()), [])]
    ):
        scheduler.handle(seen(event), NOW + number + 1)
        change = rows.follow(number, NOW + number + 1)
        assert change is not None
        assert [row["affected_by"] for row in change["jobs"]] == [expected]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=6), st.integers(0, 15), st.data())
def test_jobs_and_faults_name_each_other(
    placed: list[tuple[int, int]], not_ready: int, data: st.DataObject
) -> None:
    """In all clusters the documents of jobs, of faults and of the dashboard say the same."""
    events: list[object] = []
    for number in range(4):
        bad = data.draw(st.integers(0, 255))
        events.append(node(f"n{number}", ready=not not_ready >> number & 1))
        events.append(report(f"n{number}", (), unhealthy=bad))
    free = {number: list(range(8)) for number in range(4)}
    for number, (where, chips) in enumerate(placed):
        taken, free[where] = free[where][:chips], free[where][chips:]
        if len(taken) == chips:
            events.append(pod(f"job{number}", chips, on=f"n{where}", holds=taken))
    hurt(told(*events))

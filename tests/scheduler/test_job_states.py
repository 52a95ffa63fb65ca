"""The one state of a job, from facts alone."""

from __future__ import annotations

import pytest

from ringwise.framework.job import Job
from ringwise.messages.job_expansion import group_name
from ringwise.scheduler.job_states import JobState, job_state, pods_not_created, would_be_placed
from ringwise.state.model import Owner, Pod, PodClass, PodGroup
from ringwise.state.vcjob import NOT_CREATED, PodTemplate, Task, VcJob
from ringwise.views.cluster import ClusterObjects, JobView, job_views, shown_jobs
from tests.builders.values import group, job_of, node, pod
from tests.scheduler.rig import NOW, told

RUNS, WAITS = ("node-0", "Running"), (None, "Pending")
CREATED, DONE, FAILED = ("node-0", "Pending"), ("node-0", "Succeeded"), ("node-0", "Failed")


def pods(*places: tuple[str | None, str]) -> list[Pod]:
    return [
        pod(f"p-{number}", 0, uid=f"u{number}", namespace="a", on=node, phase=phase)
        for number, (node, phase) in enumerate(places)
    ]


CASES = [
    # pods, needed, phase of the object, state, phase that is shown
    ([WAITS], 1, "Pending", JobState.PENDING, "Pending"),
    ([CREATED], 1, "Pending", JobState.STARTING, "Starting"),
    ([CREATED], 1, "Running", JobState.STARTING, "Starting"),
    ([RUNS], 1, "Inqueue", JobState.RUNNING, "Running"),
    # Of three pods two must run.
    ([RUNS, RUNS, WAITS], 2, "Running", JobState.RUNNING, "Running"),
    ([RUNS, CREATED, WAITS], 2, "Pending", JobState.STARTING, "Starting"),
    # A fault took one of them.
    ([RUNS, WAITS, WAITS], 2, "Running", JobState.PENDING, "Pending"),
    ([RUNS, DONE], 2, "Running", JobState.RUNNING, "Running"),
    ([DONE, DONE], 2, "Completed", JobState.FINISHED, "Completed"),
    ([FAILED], 1, "Failed", JobState.FINISHED, "Failed"),
    ([], 1, "Pending", JobState.PENDING, "Pending"),
    ([], 1, "Completed", JobState.FINISHED, "Completed"),
]


@pytest.mark.parametrize(("places", "needed", "phase", "state", "shown"), CASES)
def test_the_state_follows_from_the_nodes_and_phases_of_pods(
    places: list[tuple[str | None, str]], needed: int, phase: str, state: JobState, shown: str
) -> None:
    found = job_state(pods(*places), needed, phase, refused=False, suspended=False, needs_none=False)
    assert found is state
    group = PodGroup("a", "gang", "g", min_member=needed, phase=phase)
    view = JobView(
        "a",
        "gang",
        "PodGroup",
        "default",
        0,
        phase,
        pods(*places),
        2,
        needed,
        0,
        job=Job("a/gang", "a", "gang", group=group),
    )
    assert (view.state, view.shown_phase) == (state, shown)


@pytest.mark.parametrize(
    ("refused", "suspended", "needs_none", "state"),
    [
        (True, True, True, JobState.SUSPENDED),
        (True, False, True, JobState.REJECTED),
        (False, False, True, JobState.RUNNING),
    ],
)
def test_what_counts_before_the_pods(
    refused: bool, suspended: bool, needs_none: bool, state: JobState
) -> None:
    assert job_state([], 1, "Pending", refused=refused, suspended=suspended, needs_none=needs_none) is state


@pytest.mark.parametrize(
    ("phase", "reason", "has_group", "count", "text"),
    [
        ("Pending", NOT_CREATED, True, 0, "pods not created: refused"),
        ("Pending", NOT_CREATED, True, 1, "pods not created: refused"),
        ("Pending", NOT_CREATED, True, 2, None),
        ("Pending", "", True, 0, None),
        ("Pending", "", False, 0, "pods not created: its controller has not created its PodGroup yet"),
        ("Aborted", NOT_CREATED, False, 0, None),
        ("Completed", "", False, 0, None),
    ],
)
def test_pods_that_do_not_exist(
    phase: str, reason: str, has_group: bool, count: int, text: str | None
) -> None:
    task = Task("t", 2, 2, PodTemplate(PodClass()))
    vcjob = VcJob("a", "train", "u", (task,), 2, phase=phase, reason=reason, message="refused")
    found = pods_not_created(vcjob, pods(*[WAITS] * count), has_group=has_group)
    assert (None if found is None else found.message) == text


def test_a_sentence_names_some_nodes() -> None:
    assert would_be_placed(["a"], partly=False) == "would be placed on a now"
    several = would_be_placed(["a", "b", "c", "d", "e"], partly=True)
    assert several == "more pods would be placed on a, b, c and 2 more now"


@pytest.mark.parametrize("has_group", [True, False])
def test_a_vcjob_does_not_have_the_pods_of_an_earlier_one_of_its_name(has_group: bool) -> None:
    """The PodGroup of the earlier one exists until its pods are gone, or somebody wrote its owner."""
    train = job_of(name="train", uid="new")
    groups = [group(group_name(train), 2, owner=Owner("Job", "train", "new"))] * has_group
    groups.append(group("train-old", owner=Owner("Job", "train", "old"), phase="Running"))
    left = pod("train-old-0", on="n1", holds=[0], group="train-old")
    view = told(node("n1"), train, groups, left)
    listed = job_views(ClusterObjects(view, NOW, [], [left], groups, [], [train]))
    for views in (listed, list(shown_jobs(view))):
        assert sorted((one.kind, [each.name for each in one.pods]) for one in views) == [
            ("PodGroup", ["train-old-0"]),
            ("vcjob", []),
        ]


@pytest.mark.parametrize("owner", ["new", ""])
def test_a_vcjob_whose_podgroup_has_its_name_is_one_job(owner: str) -> None:
    """As older controllers of Volcano name it."""
    train = job_of(name="train", uid="new")
    groups = [group("train", 1, owner=Owner("Job", "train", owner), phase="Running")]
    worker = pod("train-0", on="n1", holds=[0], group="train")
    view = told(node("n1"), train, groups[0], worker)
    listed = job_views(ClusterObjects(view, NOW, [], [worker], groups, [], [train]))
    for views in (listed, list(shown_jobs(view))):
        assert [(one.kind, one.name, [each.name for each in one.pods]) for one in views] == [
            ("vcjob", "train", ["train-0"])
        ]

"""Sub-groups: which pods form them, when a job with them is ready, and that each starts whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.framework.gangs.gang_placement import missing_pods, pending_pods, place_gang
from ringwise.framework.sub_groups import MAX_STEPS, TooManySteps, cut
from ringwise.reasons import Reason
from ringwise.state.model import Pod, Requirement, SubGroupPolicy
from tests.builders.session_lab import Lab, cluster, option
from tests.builders.values import pod
from tests.examples import examples

PART = "volcano.sh/partition-id"
TASK = "volcano.sh/task-spec"


def policy(name: str = "work", size: int = 1, groups: int = 0, *keys: str) -> SubGroupPolicy:
    return SubGroupPolicy(name, (Requirement(TASK, "In", (name,)),), keys or (PART,), size, groups)


def labeled(name: str, **labels: str) -> Pod:
    named = {"task": TASK, "part": PART}
    return pod(name, 0, labels={named.get(key, key): one for key, one in labels.items()})


def partitioned(
    lab: Lab, parts: int, size: int, *, groups: int = 0, least: int | None = None, rest: int = 0, cpu: int = 1
) -> Lab:
    """A job `job` of partitions of equal pods, and pods of another task."""
    lab.job("job", tasks={"work": parts * size, "rest": rest}, min_available=least, cpu=cpu)
    job = lab["job"]
    assert job.group is not None
    job.group.sub_groups = (policy("work", size, groups),)
    for number in range(parts * size):
        lab.change(f"job-work-{number}", labels={TASK: "work", PART: str(number // size)})
    return lab


def placed(lab: Lab) -> Counter[str]:
    """Pods that have a node, by partition."""
    found = Counter[str]()
    for record in lab.state.pods.values():
        if record.node >= 0:
            found[record.pod.labels.get(PART, "rest")] += 1
    return found


# -- membership --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policies", "labels", "title"),
    [
        ([policy()], {"task": "work", "part": "3"}, "work/3"),
        ([policy()], {"task": "other", "part": "3"}, "(rest)"),
        ([policy()], {"task": "work"}, "(rest)"),
        ([policy()], {"task": "work", "part": ""}, "(rest)"),
        ([policy("work", 1, 0, PART, "zone")], {"task": "work", "part": "3", "zone": "b"}, "work/3-b"),
        # The first that matches.
        ([policy("a"), policy("work"), policy("work")], {"task": "work", "part": "0"}, "work/0"),
        ([SubGroupPolicy("all")], {"part": "0"}, "all"),
        ([SubGroupPolicy("all"), policy()], {"task": "work", "part": "0"}, "all"),
        ([SubGroupPolicy("", match_label_keys=(PART,))], {"part": "x"}, "x"),
    ],
)
def test_the_first_policy_that_matches_and_whose_labels_are_there(
    policies: Sequence[SubGroupPolicy], labels: Mapping[str, str], title: str
) -> None:
    (group,) = cut(policies, [labeled("p", **labels)])
    assert (group.title, group.pods) == (title, ("p",))


def test_long_names_are_cut_to_a_hash_and_numbers_order_sub_groups() -> None:
    keys = tuple(f"key{number}" for number in range(3))
    many = SubGroupPolicy("many", match_label_keys=keys)
    (group,) = cut([many], [labeled("p", **dict.fromkeys(keys, "x" * 60))])
    assert len(group.name) == 8
    pods = [labeled(f"p{part}", task="work", part=part) for part in ("b", "10", "2", "a")]
    found = sorted(cut([policy()], pods), key=lambda group: group.order)
    assert [group.name for group in found] == ["2", "10", "a", "b"]


def test_policies_that_cost_too_much_are_an_error_and_those_of_tasks_do_not() -> None:
    by_task = [policy(f"t{number}") for number in range(1_024)]
    pods = [labeled(f"p{number}", task=f"t{number % 1024}", part=str(number)) for number in range(2_000)]
    assert len(cut(by_task, pods)) == 2_000
    exists = [SubGroupPolicy(f"s{number}", (Requirement("none", "Exists"),)) for number in range(1_024)]
    with pytest.raises(TooManySteps):
        cut([*exists, policy()], pods)
    assert MAX_STEPS < 1_024 * 2_000


# -- readiness ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("running", "groups", "least", "ready"),
    [
        ((0, 1), 1, 2, True),
        ((0, 2), 1, 2, False),  # two parts
        ((0, 1), 2, 2, False),
        ((0, 1, 2), 2, 2, False),
        ((0, 1, 2, 3), 2, 2, True),
        ((0, 1), 0, 2, True),
        ((0, 1), 1, 3, False),  # minMember counts as well
        ((0, 2), 0, 2, True),
    ],
)
def test_a_job_is_ready_with_its_minimum_of_pods_and_of_complete_sub_groups(
    running: Sequence[int], groups: int, least: int, ready: bool
) -> None:
    lab = partitioned(cluster().node("n", cpu=99), 3, 2, groups=groups, least=least)
    for number in running:
        lab.change(f"job-work-{number}", phase="Running", node="n")
    session, job = lab.session("gang"), lab["job"]
    assert session.job_ready(job) is ready
    assert session.job_pipelined(job) is ready
    assert session.job_starving(job) is not ready


@pytest.mark.parametrize("off", ["sub_job_ready", "sub_job_pipelined"])
def test_the_switches_of_gang_turn_off_what_sub_groups_ask_for(off: str) -> None:
    lab = partitioned(cluster().node("n", cpu=99), 2, 2, groups=2, least=2)
    for number in (0, 2):
        lab.change(f"job-work-{number}", phase="Running", node="n")
    session, job = lab.session(option("gang", {off: False})), lab["job"]
    assert session.job_ready(job) is (off == "sub_job_ready")
    assert session.job_pipelined(job) is (off == "sub_job_pipelined")


def test_the_sub_group_with_the_highest_pod_is_placed_first_unless_priority_is_switched_off() -> None:
    lab = partitioned(cluster().nodes(2, cpu=1), 2, 2, groups=1, least=2)
    lab.change("job-work-3", priority=5)
    for flags, first in (({"sub_job_order": True}, "job-work-2"), ({"sub_job_order": False}, "job-work-0")):
        session = lab.session(option("priority", {**flags, "task_order": False}), "gang")
        assert pending_pods(session, lab["job"])[0].name == first


def test_too_few_sub_groups_that_could_ever_run_are_refused() -> None:
    lab = partitioned(cluster().node("n", cpu=99), 2, 2, groups=2, least=2)
    lab.change("job-work-3", phase="Failed")
    reason = lab.session("gang").job_valid(lab["job"])
    assert reason is not None
    assert reason.code == "not-enough-sub-groups"
    assert (reason.details["valid"], reason.details["needed"]) == (1, 2)


def test_a_pod_may_be_evicted_while_enough_sub_groups_stay_complete() -> None:
    lab = partitioned(cluster().node("n", cpu=99), 3, 2, groups=2, least=2)
    for number in range(6):
        lab.change(f"job-work-{number}", phase="Running", node="n")
    lab.job("other", cpu=1)
    session, other = lab.session("gang"), lab["other"]
    uids = [f"job-work-{number}" for number in (0, 2, 1)]
    assert session.preemptable(other, lab.pod("other-0"), uids) == ["job-work-0", "job-work-1"]


# -- placement ---------------------------------------------------------------------------------------


def place(lab: Lab, *, beyond_gang: bool = False) -> Reason | None:
    session = lab.session("priority", "gang", "predicates")
    statement = session.statement()
    reason = place_gang(session, lab["job"], statement, beyond_gang=beyond_gang)
    if reason is None:
        statement.commit()
    else:
        statement.discard()
    return reason


@pytest.mark.parametrize(
    ("groups", "least", "free", "first"),
    [
        (1, 2, 3, {"0": 2}),  # never a part of the second
        (2, 2, 5, {"0": 2, "1": 2}),
        (2, 2, 3, {}),
        (0, 3, 5, {"0": 2, "1": 2}),
        (0, 3, 3, {}),
        (3, 6, 6, {"0": 2, "1": 2, "2": 2}),
    ],
)
def test_a_gang_of_whole_sub_groups(groups: int, least: int, free: int, first: Mapping[str, int]) -> None:
    lab = partitioned(cluster().nodes(free, cpu=1), 3, 2, groups=groups, least=least)
    reason = place(lab)
    assert (reason is None, placed(lab)) == (bool(first), first)
    if reason is not None:
        assert "requires 2 pods to start" in reason.message


def test_further_sub_groups_start_whole_one_at_a_time() -> None:
    lab = partitioned(cluster().nodes(5, cpu=1), 3, 2, groups=1, least=2)
    assert place(lab) is None
    assert place(lab, beyond_gang=True) is None
    assert placed(lab) == {"0": 2, "1": 2}
    reason = place(lab, beyond_gang=True)
    assert reason is not None
    assert placed(lab) == {"0": 2, "1": 2}


def test_pods_of_no_policy_are_placed_for_their_task_and_one_by_one() -> None:
    lab = partitioned(cluster().nodes(6, cpu=1), 2, 2, groups=1, least=3, rest=2)
    lab["job"].min_per_task = {"work": 2, "rest": 1}
    assert place(lab) is None
    assert placed(lab) == {"0": 2, "rest": 1}
    assert place(lab, beyond_gang=True) is None
    assert placed(lab) == {"0": 2, "rest": 2}


def test_a_sub_group_that_lost_a_pod_is_completed_first() -> None:
    lab = partitioned(cluster().nodes(4, cpu=1), 3, 2, groups=2, least=4)
    for number, node in ((0, "n1"), (1, "n2"), (4, "n3")):
        lab.change(f"job-work-{number}", phase="Running", node=node)
    session, job = lab.session("gang"), lab["job"]
    assert (missing_pods(session, job), pending_pods(session, job)[0].name) == (1, "job-work-5")
    assert place(lab) is None
    assert placed(lab) == {"0": 2, "2": 2}


def test_a_sub_group_of_which_too_few_pods_exist_waits_for_them() -> None:
    lab = partitioned(cluster().nodes(4, cpu=1), 2, 2, groups=1, least=2)
    lab.change("job-work-1", gated=True)
    assert place(lab) is None
    assert placed(lab) == {"1": 2}
    reason = place(lab, beyond_gang=True)
    assert reason is not None
    assert reason.code == "no-pods-yet"


@settings(max_examples=examples(40))
@given(
    capacities=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    parts=st.integers(1, 4),
    size=st.integers(1, 3),
    groups=st.integers(0, 4),
    least=st.integers(0, 8),
)
def test_sub_groups_start_whole_and_as_many_as_must_or_none(
    capacities: list[int], parts: int, size: int, groups: int, least: int
) -> None:
    """Pods are equal, so what fits is the number of free places."""
    lab = cluster()
    for number, capacity in enumerate(capacities):
        lab.node(f"n{number}", cpu=capacity)
    groups, least = min(groups, parts), min(least, parts * size)
    partitioned(lab, parts, size, groups=groups, least=least)
    needed = max(groups, -(-least // size))
    reason = place(lab)
    assert (reason is None) is (needed * size <= sum(capacities))
    assert set(placed(lab).values()) <= {size}
    assert len(placed(lab)) == (needed if reason is None else 0)
    while reason is None and sum(placed(lab).values()) < parts * size:
        reason = place(lab, beyond_gang=True)
    if needed * size <= sum(capacities):
        assert len(placed(lab)) == min(parts, sum(capacities) // size)
    assert set(placed(lab).values()) <= {size}

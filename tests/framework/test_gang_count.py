"""How many pods, tasks and sub-groups a job has with some of its pods."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ringwise.framework.gangs.gang_count import GangCount, is_complete, is_complete_and_confirmed
from ringwise.framework.job import Job
from ringwise.state.model import Requirement, SubGroupPolicy
from tests.builders.session_lab import cluster

GROUP = "volcano.sh/partition-id"
TASKS = {"master": 2, "worker": 6}
MINIMUMS = {"master": 1, "worker": 3}
#: Two pods of each must be there for a sub-group to be complete, and two of the sub-groups.
SIZE = COMPLETE = 2


def job_of(least: int) -> Job:
    """Eight pods in four sub-groups of two."""
    lab = cluster().node("n1").job("job", tasks=TASKS, min_available=least, min_per_task=MINIMUMS, cpu=1)
    job = lab["job"]
    assert job.group is not None
    every = Requirement(GROUP, "Exists", ())
    job.group.sub_groups = (SubGroupPolicy("pair", (every,), (GROUP,), SIZE, COMPLETE),)
    for number, uid in enumerate(list(job.pods)):
        lab.change(uid, labels={GROUP: str(number // SIZE)})
    return job


@given(st.lists(st.integers(0, 7)), st.integers(1, 8))
def test_numbers_kept_by_changes_equal_a_recount(changes: list[int], least: int) -> None:
    job = job_of(least)
    pods = list(job.pods.values())
    counted: set[int] = set()
    gang = GangCount(job, ())
    for number in changes:
        (gang.remove if number in counted else gang.add)(pods[number])
        counted ^= {number}
        copy = gang.copy()
        copy.add(pods[0])
        assert gang.pods == len(counted)
        tasks = Counter(pods[one].task for one in counted)
        short = [task for task, needed in MINIMUMS.items() if tasks[task] < needed]
        assert gang.short_tasks == (len(short) if least >= sum(MINIMUMS.values()) else 0)
        found = gang.first_short_task()
        assert (found and found[0]) == (short[0] if gang.short_tasks else None)
        assert found is None or found[1] == tasks[found[0]]
        groups = Counter(one // SIZE for one in counted)
        complete = sum(have == SIZE for have in groups.values())
        assert gang.spare_groups == [complete - COMPLETE]
        lacking = gang.first_short_policy()
        assert (lacking and lacking[1]) == (complete if complete < COMPLETE else None)
        assert gang.is_enough is (len(counted) >= least and complete >= COMPLETE)
        for one, pod in enumerate(pods):
            assert (gang.group_broken_without(pod.uid) is not None) is (groups[one // SIZE] == SIZE)


def test_a_binding_that_is_not_confirmed_completes_the_gang_and_does_not_confirm_it() -> None:
    lab = cluster().node("n1").job("job", pods=2, min_available=2, on=["n1", "n1"])
    assert is_complete(lab.state, lab["job"])
    assert is_complete_and_confirmed(lab.state, lab["job"])
    lab.state.pods["job-0"].assumed = True
    assert is_complete(lab.state, lab["job"])
    assert not is_complete_and_confirmed(lab.state, lab["job"])

"""A statement changes the state at once, notifies the plugins, and can be undone exactly."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.framework.configuration import PluginOption
from ringwise.framework.extension_points import ALLOCATED, DEALLOCATED
from ringwise.framework.job import Job
from ringwise.framework.session import Session
from ringwise.framework.statement import Allocation, Eviction, Statement
from ringwise.state.model import Pod
from tests.builders.session_lab import Lab, cluster
from tests.builders.values import CHIP
from tests.fingerprint import fingerprint


class Diary:
    """Writes down every notice."""

    def __init__(self, option: PluginOption) -> None: ...

    entries: list[tuple[str, str, int]]

    def open(self, session: Session) -> None:
        self.entries.clear()
        session.register(ALLOCATED, lambda job, pod, node: self.entries.append(("+", pod.name, node)))
        session.register(DEALLOCATED, lambda job, pod, node: self.entries.append(("-", pod.name, node)))


def lab_of_two() -> Lab:
    return (
        cluster()
        .nodes(2, chips=8, cpu=8000)
        .job("new", pods=3, chips=2, cpu=500)
        .job("old", pods=2, chips=4, cpu=1000, on=["n1", "n2"])
    )


def open_with_diary(lab: Lab) -> tuple[Session, list[tuple[str, str, int]]]:
    entries: list[tuple[str, str, int]] = []
    diary = type("TestDiary", (Diary,), {"entries": entries})
    return lab.session("diary", plugins={"diary": diary}), entries


def snapshot(lab: Lab) -> tuple[Any, ...]:
    usage = lab.usage
    return (
        fingerprint(lab.state),
        {name: dict(used) for name, used in usage.by_job.items()},
        {name: dict(used) for name, used in usage.by_queue.items() if used},
    )


def allocation(lab: Lab, pod: str, node: int, *chips: int) -> Allocation:
    job: Job = next(job for job in lab.jobs.values() if pod in job.pods)
    return Allocation(job, job.pods[pod], node, chips)


def eviction(lab: Lab, pod: str) -> Eviction:
    job: Job = next(job for job in lab.jobs.values() if pod in job.pods)
    return Eviction(job, job.pods[pod], "preempt", lab["new"])


def test_n6_allocate_takes_chips_load_and_share_at_once_and_notifies_the_plugins() -> None:
    lab = lab_of_two()
    session, diary = open_with_diary(lab)
    session.statement().allocate(allocation(lab, "new-0", 0, 4, 5))
    assert lab.state.fleets[CHIP].held[0] == 0b0011_1111
    assert lab.usage.used_by_job("default/new") == {"cpu": 500, CHIP: 2}
    assert diary == [("+", "new-0", 0)]


def test_evict_releases_and_notifies_the_plugins() -> None:
    lab = lab_of_two()
    session, diary = open_with_diary(lab)
    session.statement().evict(eviction(lab, "old-1"))
    assert lab.state.fleets[CHIP].held[1] == 0
    assert lab.usage.used_by_job("default/old") == {"cpu": 1000, CHIP: 4}
    assert diary == [("-", "old-1", 1)]


def test_discard_walks_backwards_and_leaves_no_trace() -> None:
    lab = lab_of_two()
    session, diary = open_with_diary(lab)
    before = snapshot(lab)
    statement = session.statement()
    statement.evict(eviction(lab, "old-0"))
    statement.allocate(allocation(lab, "new-0", 0, 0, 1))
    statement.allocate(allocation(lab, "new-1", 1, 6, 7))
    assert snapshot(lab) != before
    diary.clear()
    statement.discard()
    assert snapshot(lab) == before
    assert diary == [("-", "new-1", 1), ("-", "new-0", 0), ("+", "old-0", 0)]
    assert session.bound == []


def test_commit_makes_bindings_in_the_order_of_the_decisions() -> None:
    lab = lab_of_two()
    session, _ = open_with_diary(lab)
    statement = session.statement()
    statement.allocate(allocation(lab, "new-1", 1, 4))
    statement.allocate(allocation(lab, "new-0", 0, 4))
    statement.commit()
    assert [bound.pod.name for bound in session.bound] == ["new-1", "new-0"]
    assert lab.state.pods["new-0"].node == 0


def test_a_statement_with_evictions_binds_no_pod() -> None:
    lab = lab_of_two()
    session, _ = open_with_diary(lab)
    statement = session.statement()
    statement.evict(eviction(lab, "old-0"))
    with pytest.raises(ValueError, match="nominated, not committed"):
        statement.commit()


STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 2), st.integers(0, 1)), max_size=8)


@given(STEPS)
def test_whatever_was_done_discard_undoes_it(steps: list[tuple[bool, int, int]]) -> None:
    lab = lab_of_two()
    session, diary = open_with_diary(lab)
    before = snapshot(lab)
    statement: Statement = session.statement()
    for allocate, number, node in steps:
        pod: Pod = lab.pod(f"new-{number}")
        if allocate and session.is_pending(pod):
            held = lab.state.fleets[CHIP].held[node]
            free = [chip for chip in range(8) if not held >> chip & 1][:2]
            if len(free) == 2:
                statement.allocate(allocation(lab, pod.name, node, *free))
        elif not allocate and lab.state.pods[f"old-{node}"].node >= 0:
            statement.evict(eviction(lab, f"old-{node}"))
    done = len(diary)
    assert done == len(statement.allocations) + len(statement.evictions)
    statement.discard()
    assert snapshot(lab) == before
    assert len(diary) == 2 * done

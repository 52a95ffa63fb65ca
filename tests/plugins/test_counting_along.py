"""A plugin that counts along with the placements of a cycle answers as one that counts them anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ringwise.framework.configuration import PluginOption
from ringwise.framework.extension_points import NODE_FILTER
from ringwise.framework.session import Session
from ringwise.framework.statement import Allocation, Eviction, Statement
from ringwise.state.model import NodeGroupAffinity
from tests.builders.session_lab import Lab, cluster

GROUPS = ("a", "b")
LIMITED: Mapping[str, Any] = {
    "node_groups": NodeGroupAffinity(GROUPS),
    "node_group_limits": {"a": {"cpu": 5}, "b": {"cpu": 3}},
}


def queues_with_limits() -> Lab:
    """Of the jobs that run, one was moved to another queue, and one uses more than it was promised."""
    lab = cluster()
    for group in GROUPS:
        lab.node(group, cpu=10, labels={"volcano.sh/nodegroup-name": group})
    lab.queue("root").queue("top", capability={"cpu": 9}, deserved={"cpu": 6})
    lab.queue("q", parent="top", capability={"cpu": 7}, deserved={"cpu": 3}, **LIMITED)
    lab.queue("p", parent="top", guarantee={"cpu": 2}, deserved={"cpu": 2}, **LIMITED)
    lab.job("moved", pods=2, queue="q", cpu=2, on=["a", "b"], inqueue=True, min_resources={"cpu": 4})
    elastic: dict[str, Any] = {"pods": 2, "min_available": 1, "min_resources": {"cpu": 1}}
    lab.job("elastic", queue="q", cpu=1, on="b", inqueue=True, **elastic)
    for uid in lab["moved"].pods:
        lab.usage.remove_pod("default/moved", "q", lab.pod(uid).cls)
        lab.usage.add_pod("default/moved", "p", lab.pod(uid).cls)
        lab.usage.bound_in[uid] = "p"
    for name, queue in (("first", "q"), ("second", "p")):
        lab.job(name, pods=2, queue=queue, cpu=2, inqueue=True, min_resources={"cpu": 4})
    for name, queue in (("third", "q"), ("fourth", "p")):
        lab.job(name, queue=queue, cpu=2, min_resources={"cpu": 2})
    return lab


def about_admission(lab: Lab, session: Session) -> dict[str, object]:
    """What the plugins say about jobs that are to be enqueued. That is asked before pods are placed."""
    return {key: session.job_enqueueable(job) for key, job in lab.jobs.items()}


def about_placements(lab: Lab, session: Session) -> dict[object, object]:
    """What they say about the order of jobs and queues, where pods may go, and which they may replace."""
    found: dict[object, object] = {}
    placed = [uid for uid, record in lab.state.pods.items() if record.node >= 0]
    for job in lab.jobs.values():
        for uid, pod in job.pods.items():
            found["allocatable", uid] = session.allocatable(lab.queues[job.queue], pod)
            found["victims", uid] = (
                session.preemptable(job, pod, placed),
                session.reclaimable(job, pod, placed),
            )
            for make in session.registered(NODE_FILTER):
                if (check := make(job, pod)) is not None:
                    found["node", uid] = [check(node) for node in range(len(GROUPS))]
    found["jobs"] = {key: session.job_key(job) for key, job in lab.jobs.items()}
    for name, queue in lab.queues.items():
        found["overused", name] = session.overused(queue)
    found["queues"] = {name: session.queue_key(queue) for name, queue in lab.queues.items()}
    return found


def options(*names: str, hierarchy: bool = False) -> list[PluginOption]:
    return [PluginOption.of(name, {"hierarchy": hierarchy}, {}) for name in names]


@pytest.mark.parametrize(
    "plugins",
    [
        options("capacity", "nodegroup", "overcommit"),
        options("capacity", "drf", "nodegroup", "gang", hierarchy=True),
        options("proportion", "drf"),
    ],
    ids=["flat", "tree", "by-weight"],
)
@given(
    enqueued=st.lists(st.integers(0, 1), max_size=2),
    steps=st.lists(st.tuples(st.sampled_from(["place", "evict", "undo"]), st.integers(0, 7)), max_size=5),
)
@example(enqueued=[], steps=[("place", 0), ("place", 3), ("place", 0), ("evict", 0)])
def test_what_is_counted_along_is_what_is_counted_anew(
    plugins: list[PluginOption], enqueued: list[int], steps: list[tuple[str, int]]
) -> None:
    lab = queues_with_limits()
    session = lab.session(*plugins)
    about_admission(lab, session)
    for number in enqueued:
        job = lab[("third", "fourth")[number]]
        if not job.inqueue:
            job.inqueue = True
            session.job_enqueued(job)
        assert about_admission(lab, session) == about_admission(lab, lab.session(*plugins))
    about_placements(lab, session)
    # Shares by weight are those of the pods that ran or waited at the beginning of the cycle.
    may_evict = all(one.name != "proportion" for one in plugins)
    statements: list[Statement] = []
    for step, number in steps:
        pods = [(job, pod) for job in lab.jobs.values() for pod in job.pods.values()]
        placed = [one for one in pods if one[1].node and lab.state.pods[one[1].uid].node >= 0]
        waiting = [one for one in pods if session.is_pending(one[1])]
        if step == "undo":
            if statements:
                statements.pop().discard()
        elif step == "place" and waiting:
            job, pod = waiting[number % len(waiting)]
            statements.append(session.statement())
            statements[-1].allocate(Allocation(job, pod, number % len(GROUPS), ()))
        elif step == "evict" and placed and may_evict:
            job, pod = placed[number % len(placed)]
            statements.append(session.statement())
            statements[-1].evict(Eviction(job, pod, "test"))
        assert about_placements(lab, session) == about_placements(lab, lab.session(*plugins))

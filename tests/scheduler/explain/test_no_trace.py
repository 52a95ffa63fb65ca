"""A question leaves no trace: after it everything is as before, to the order of entries and the caches."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.explain.capacity import capacity
from ringwise.scheduler.explain.why import explain
from ringwise.state.model import PodClass, PodTerm, Queue, Requirement, Taint
from tests.builders.values import CHIP, gang, node, pod, report
from tests.examples import examples
from tests.fingerprint import difference, whole_state
from tests.scheduler.rig import NOW, scheduler_told

_APART = (PodTerm("kubernetes.io/hostname", (Requirement("app", "In", ("x",)),)),)


def questions_leave_no_trace(scheduler: Scheduler) -> None:
    before = whole_state(scheduler)
    for job in list(scheduler.view.jobs.values()):
        explain(scheduler.view, job, NOW)
    assert difference(before, whole_state(scheduler)) == ""
    capacity(scheduler.view, NOW)
    assert difference(before, whole_state(scheduler)) == ""


def test_the_order_of_holders_is_the_same_after_a_tried_fix() -> None:
    """The fix "wait for job a to end" was tried by ending it; a was the last of the holders from then on."""
    scheduler = scheduler_told(
        node("node-1"),
        pod("a", 2, on="node-1", holds=[0, 1]),
        pod("b", 2, on="node-1", holds=[2, 3]),
        pod("c", 4, on="node-1", holds=[4, 5, 6, 7]),
        pod("new", 8),
    )
    view = scheduler.view
    first, second = (explain(view, view.jobs["default/pod:new"], NOW) for _ in range(2))
    assert first.misses[0].text == second.misses[0].text
    assert "held by a (2), b (2), c (4)" in second.misses[0].text
    questions_leave_no_trace(scheduler)


@st.composite
def clusters(draw: st.DrawFn) -> Scheduler:
    events: list[Any] = [Queue("small", capability={CHIP: 8, "cpu": 8_000})]
    nodes = draw(st.integers(1, 4))
    for number in range(1, nodes + 1):
        more: dict[str, Any] = {"cpu_milli": 16_000, "max_pods": 12, "extended": (("example.com/nic", 2),)}
        more["labels"] = {"kubernetes.io/hostname": f"node-{number}", "zone": draw(st.sampled_from("ab"))}
        if draw(st.integers(0, 3)) == 0:
            more["unschedulable"] = True
        if draw(st.integers(0, 4)) == 0:
            more["taints"] = (Taint("keep", "off"),)
        if draw(st.booleans()):
            more["labels"]["accelerator-type"] = draw(st.sampled_from(("module", "module-910b-8")))
        events.append(node(f"node-{number}", **more))
        if draw(st.integers(0, 2)) == 0:
            faulty = draw(st.integers(0, 255))
            events.append(report(f"node-{number}", [], unhealthy=faulty))
    for number in range(draw(st.integers(0, 6))):
        first = draw(st.integers(0, 6))
        size = draw(st.sampled_from((0, 1, 2)))
        cls = PodClass(
            CHIP if size else None,
            size,
            cpu_milli=draw(st.sampled_from((0, 1_000, 8_000))),
            pod_anti_affinity=_APART if draw(st.integers(0, 3)) == 0 else (),
        )
        # Some name chips that others hold, some name none: both happen on clusters with two schedulers.
        holds = range(first, first + size) if draw(st.integers(0, 4)) else ()
        where = f"node-{draw(st.integers(1, nodes))}"
        events.append(pod(f"run-{number}", size, on=where, holds=holds, cls=cls, labels={"app": "x"}))
    for number in range(draw(st.integers(1, 4))):
        size = draw(st.sampled_from((0, 1, 3, 4, 8, 16)))
        cls = PodClass(
            CHIP if size else None,
            size,
            cpu_milli=draw(st.sampled_from((0, 4_000, 32_000))),
            extended=draw(st.sampled_from(((), (("example.com/nic", 1),), (("example.com/no", 1),)))),
            node_selector=draw(st.sampled_from(((), (("zone", "a"),), (("zone", "z"),)))),
        )
        queue = draw(st.sampled_from(("default", "small", "none")))
        pods = draw(st.integers(1, 3))
        members = gang(f"job-{number}", pods, size, queue=queue, created=number)
        events.append(members[0])
        events += [
            pod(f"job-{number}-{index}", size, group=f"job-{number}", created=number, cls=cls)
            for index in range(pods)
        ]
    scheduler = scheduler_told(*events)
    if draw(st.booleans()):
        # Long enough for reservations.
        scheduler.handle([], NOW + 700_000_000_000)
    return scheduler


@settings(max_examples=examples(10), deadline=None)
@given(clusters())
def test_no_question_leaves_a_trace(scheduler: Scheduler) -> None:
    questions_leave_no_trace(scheduler)

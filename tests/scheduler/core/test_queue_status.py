"""The status of queues: counts of PodGroups by phase and usage, written only when it changed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.framework.amounts import Amounts, add, amounts_of
from ringwise.messages import events as ev
from ringwise.messages.commands import Command, SetQueueStatus
from ringwise.scheduler.core.status_reporter import QueueStatusReporter, StatusReporter
from ringwise.state.model import Queue
from tests.builders import values
from tests.builders.values import CHIP
from tests.examples import examples
from tests.scheduler.rig import PLAIN, Rig


def told(commands: list[Command]) -> dict[str, SetQueueStatus]:
    """The last status of each queue."""
    return {command.name: command for command in commands if isinstance(command, SetQueueStatus)}


def test_phases_are_counted_and_usage_is_summed() -> None:
    rig = Rig(1, actions=PLAIN)
    rig.queue("default")
    rig.submit("runs", chips=4, cpu_milli=500)
    rig.submit("waits", chips=8)
    rig.run()
    status = told(rig.commands)["default"]
    assert status.groups == {"Running": 1, "Inqueue": 1}
    assert status.allocated == {CHIP: 4, "cpu": 500, "pods": 1}
    rig.end("runs")
    rig.run()
    status = told(rig.commands)["default"]
    assert status.groups == {"Running": 1}
    assert status.allocated == {CHIP: 8, "pods": 1}
    rig.end("waits")
    rig.run()
    status = told(rig.commands)["default"]
    assert (status.groups, status.allocated) == ({}, {})


def test_nothing_is_written_when_nothing_changed() -> None:
    rig = Rig(1, actions=PLAIN)
    rig.queue("default")
    rig.submit("runs", chips=4)
    rig.run()
    assert told(rig.commands)
    for pod in rig.pods.values():
        rig.tell(pod)
    rig.node("n2")
    assert told(rig.step(1)) == {}


def test_a_thousand_jobs_make_one_queue_status_in_a_turn() -> None:
    rig = Rig(0, actions=PLAIN)
    for number in range(1000):
        rig.submit(f"job-{number}", chips=1)
    words = [command for command in rig.step() if isinstance(command, SetQueueStatus)]
    assert len(words) == 1
    assert words[0].groups == {"Pending": 1000}


def test_a_job_that_changes_its_queue_is_counted_in_the_other_and_its_pods_where_they_were_bound() -> None:
    rig = Rig(1, actions=PLAIN)
    rig.queue("default")
    rig.queue("other")
    rig.submit("job", chips=4)
    rig.run()
    assert told(rig.commands)["other"].groups == {}
    rig.change_group("job", queue="other")
    rig.run()
    now = told(rig.commands)
    assert (now["default"].groups, now["default"].allocated) == ({}, {CHIP: 4, "pods": 1})
    assert (now["other"].groups, now["other"].allocated) == ({"Running": 1}, {})
    rig.gone("job-0")
    rig.run()
    assert told(rig.commands)["default"].allocated == {}


def test_a_group_that_goes_before_its_pods_is_not_counted() -> None:
    rig = Rig(1, actions=PLAIN)
    rig.queue("default")
    rig.submit("job", chips=4)
    rig.run()
    rig.tell(ev.PodGroupGone("default/job"))
    del rig.groups["default/job"]
    rig.step()
    status = told(rig.commands)["default"]
    assert (status.groups, status.allocated) == ({}, {CHIP: 4, "pods": 1})


def test_a_pod_that_is_a_job_of_its_own_counts_like_a_pod_group() -> None:
    rig = Rig(1, actions=PLAIN)
    rig.queue("default")
    rig.put(values.pod("alone", 2, uid="u"))
    rig.run()
    status = told(rig.commands)["default"]
    assert (status.groups, status.allocated) == ({"Inqueue": 1}, {CHIP: 2, "pods": 1})
    rig.gone("alone")
    rig.step()
    assert told(rig.commands)["default"].allocated == {}


def test_a_new_queue_gets_the_status_of_the_jobs_in_it() -> None:
    rig = Rig(1, actions=PLAIN)
    rig.submit("job", chips=4)
    rig.run()
    rig.tell(Queue("default", uid="q"))
    assert told(rig.step())["default"].allocated == {CHIP: 4, "pods": 1}
    rig.tell(Queue("later", uid="l"))
    assert told(rig.step()) == {"later": SetQueueStatus("later", {}, {})}


def test_what_a_queue_uses_counts_for_the_queues_above_it() -> None:
    rig = Rig(3, actions=PLAIN)
    for name, parent in (("root", ""), ("dept", "root"), ("team", "dept"), ("other", "root")):
        rig.queue(name, parent=parent)
    rig.submit("job", pods=2, chips=8, queue="team")
    rig.submit("more", chips=1, queue="other")
    rig.run()
    used = {name: status.allocated for name, status in told(rig.commands).items()}
    assert used["team"] == used["dept"] == {CHIP: 16, "pods": 2}
    assert used["root"] == {CHIP: 17, "pods": 3}
    assert told(rig.commands)["dept"].groups == {}
    rig.queue("team", parent="other")
    moved = told(rig.step())
    assert (moved["dept"].allocated, moved["other"].allocated) == ({}, {CHIP: 17, "pods": 3})
    rig.end("job")
    rig.run()
    used = {name: status.allocated for name, status in told(rig.commands).items()}
    assert used["root"] == used["other"] == {CHIP: 1, "pods": 1}


def test_queues_in_a_circle_are_counted_once() -> None:
    rig = Rig(1, actions=PLAIN)
    rig.queue("a", parent="b")
    rig.submit("job", chips=2, queue="a")
    rig.run()
    rig.queue("b", parent="a")
    rig.step()
    used = told(rig.commands)
    assert used["a"].allocated == used["b"].allocated == {CHIP: 2, "pods": 1}


def test_a_job_of_an_unknown_queue_counts_in_no_queue() -> None:
    rig = Rig(1, actions=PLAIN)
    rig.submit("job", chips=4, queue="nowhere")
    rig.run()
    assert "nowhere" not in told(rig.commands)


STEPS = st.lists(
    st.tuples(st.sampled_from(["submit", "end", "fail", "move", "queue", "tree", "turn"]), st.integers(0, 3)),
    max_size=25,
)


@settings(max_examples=examples(60))
@given(STEPS)
def test_the_last_status_equals_a_full_count(steps: list[tuple[str, int]]) -> None:
    rig = Rig(2, actions=PLAIN)
    rig.queue("default")
    rig.queue("other")
    rig.queue("above")
    names = ("default", "other")
    below: dict[str, str] = {}
    for number, (what, which) in enumerate(steps):
        jobs = sorted(key.split("/")[1] for key in rig.groups)
        job = jobs[which % len(jobs)] if jobs else ""
        if what == "submit":
            rig.submit(f"job-{number}", pods=1 + which % 2, chips=2 * which, queue=names[which % 2])
        elif what == "end" and job:
            rig.end(job)
        elif what == "fail" and job:
            rig.change(f"{job}-0", phase="Failed")
        elif what == "move" and job:
            group = rig.groups[f"default/{job}"]
            rig.groups[f"default/{job}"] = replace(group, queue=names[which % 2])
            rig.tell(rig.groups[f"default/{job}"])
        elif what == "queue":
            name = names[which % 2]
            rig.queue(name, weight=1 + which, parent=below.get(name, ""))
        elif what == "tree":
            name = names[which % 2]
            below[name] = "above" if which < 2 else ""
            rig.queue(name, parent=below[name])
        elif what == "turn":
            rig.step(1)
    rig.run()
    last = told(rig.commands)
    sums: Amounts = {}
    for name in names:
        groups = Counter(group.phase or "Pending" for group in rig.groups.values() if group.queue == name)
        used: Amounts = {}
        for pod in rig.pods.values():
            if rig.groups[f"default/{pod.group}"].queue == name and pod.node is not None and pod.live:
                add(used, {**amounts_of(pod.cls), "pods": 1})
        assert last[name].groups == groups
        assert last[name].allocated == used
        add(sums, used if below.get(name) else {})
    assert last["above"].allocated == sums


def test_unknown_queues_are_forgotten_with_the_jobs_that_named_them() -> None:
    rig = Rig(1, actions=PLAIN)
    for number in range(3):
        rig.submit("lost", chips=1, queue=f"nowhere-{number}")
        rig.run()
        rig.end("lost")
        rig.run()
    assert rig.machine._components.of(StatusReporter).queues._counts == {}


class Usage:
    """What pods use, by queue."""

    def __init__(self, **used: int) -> None:
        self.used = used
        self.pods_by_queue: dict[str, int] = {}

    def used_by_queue(self, name: str) -> Amounts:
        return {CHIP: self.used[name]} if self.used.get(name) else {}


class Looked(dict[str, Queue]):
    """Counts how often a queue is looked at."""

    looks = 0

    def __getitem__(self, name: str) -> Queue:
        self.looks += 1
        return super().__getitem__(name)


def reporter_of(parents: dict[str, str], used: dict[str, int]) -> tuple[QueueStatusReporter, Looked]:
    queues = Looked({name: Queue(name, parent=parent) for name, parent in parents.items()})
    usage: Any = Usage(**used)
    reporter = QueueStatusReporter(queues, usage)
    for name in queues:
        reporter.touch(name)
    return reporter, queues


@settings(deadline=None, max_examples=examples(100))
@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from(["", "root", *"abcdefgh"])),
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 5)),
)
def test_sums_of_any_tree_are_those_of_all_queues_below(
    parents: dict[str, str], used: dict[str, int]
) -> None:
    expected = dict.fromkeys(parents, 0)
    for name in parents:
        above, passed = name, set[str]()
        while above in parents and above not in passed:
            passed.add(above)
            expected[above] += used.get(name, 0)
            above = parents[above]
    changes = list(reporter_of(parents, used)[0].changes())
    assert {one.name: one.allocated.get(CHIP, 0) for one in changes} == expected
    assert len(changes) == len(parents)


def test_very_many_queues_below_each_other_take_little_work() -> None:
    count = 2000
    parents = {f"q{number}": f"q{number - 1}" for number in range(count)}
    reporter, queues = reporter_of(parents, dict.fromkeys(parents, 1))
    assert next(reporter.changes()).allocated == {CHIP: count}
    assert queues.looks < 5 * count

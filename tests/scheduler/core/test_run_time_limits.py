"""The longest run time of a queue: a warning, then the end; never sooner than the warning time after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ringwise.durations import go_duration
from ringwise.messages import events as ev
from ringwise.messages.commands import (
    AnnotatePod,
    AskJob,
    Evict,
    EvictionCause,
)
from ringwise.scheduler.explain.forecast import estimates
from ringwise.scheduler.explain.why import explain
from ringwise.state.limits import REQUEUE, TERMINATE, UsageLimit
from ringwise.state.model import Owner, Queue
from ringwise.state.vcjob import VcJob
from tests.builders.records import record_with
from tests.builders.values import SECOND
from tests.scheduler.rig import Rig

MINUTE = 60
WARNING = 600
OWNER = Owner("Job", "train", "uid-1", api="batch.volcano.sh/v1alpha1")


def limit(made: Rig, text: str | None, at_end: str | None = None, name: str = "default") -> None:
    made.tell(Queue(name, created=1))
    length = None if text is None else go_duration(text)
    on_timeout = REQUEUE if at_end == "requeue" else TERMINATE
    made.tell(UsageLimit(f"time-{name}", queue=name, max_run_time=length, on_timeout=on_timeout))


def running(text: str | None = "1h", at_end: str | None = None, **job: Any) -> Rig:
    made = Rig(2)
    limit(made, text, at_end)
    made.submit("train", chips=8, **job)
    made.run()
    assert made.nodes_of("train")
    return made


def carry_annotations_out(made: Rig) -> None:
    for command in made.commands:
        if isinstance(command, AnnotatePod) and command.pod in made.pods:
            pod = made.pods[command.pod]
            kept = {key: value for key, value in pod.annotations.items() if key not in command.remove}
            made.change(command.pod, annotations={**kept, **command.annotations})
    made.run()


def test_a_job_is_warned_and_then_its_pods_are_evicted() -> None:
    made = running()
    made.step(50 * MINUTE - 1)
    assert made.messages("MaxRunTimeApproaching") == []
    made.step(1)
    assert made.messages("MaxRunTimeApproaching") == [
        "it is ended at 1970-01-01T01:16:40Z, in 10m: maxRunTime of UsageLimit time-default is 1h"
    ]
    carry_annotations_out(made)
    assert made.pods["train-0"].annotations["ringwise.io/max-run-time-end"] == "1970-01-01T01:16:40Z"
    made.step(10 * MINUTE - 1)
    assert made.evictions() == []
    made.step(1)
    assert made.evictions() == ["train-0"]
    assert [one.cause for one in made.commands if isinstance(one, Evict)] == [EvictionCause.LIMIT]
    assert made.messages("MaxRunTimeExceeded") == [
        "it is ended: maxRunTime of UsageLimit time-default, 1h, is over"
    ]


DEPLOYED = Owner("ReplicaSet", "serve", "uid-2", api="apps/v1")


@pytest.mark.parametrize(
    ("at_end", "owner", "then"),
    [
        ("end", None, "ended"),
        ("requeue", None, "ended"),
        ("end", DEPLOYED, "requeued (what creates its pods cannot be ended)"),
        ("requeue", DEPLOYED, "requeued"),
    ],
)
def test_the_warning_and_why_say_the_same(at_end: str, owner: Owner | None, then: str) -> None:
    made = running(at_end=at_end)
    made.change("train-0", owner=owner)
    made.step(50 * MINUTE)
    (warning,) = made.messages("MaxRunTimeApproaching")
    assert warning.startswith(f"it is {then} at ")
    notes = explain(made.machine.view, made.machine.view.jobs["default/train"], made.now).notes
    assert any(note.startswith(f"it is {then} at ") for note in notes)


@pytest.mark.parametrize(("at_end", "action"), [(None, "TerminateJob"), ("requeue", "RestartJob")])
def test_a_vcjob_is_ended_or_requeued_by_a_command(at_end: str | None, action: str) -> None:
    made = Rig(2)
    limit(made, "1h", at_end)
    made.tell(VcJob("default", "train", uid="uid-1", min_available=1))
    made.submit("train", chips=8, owner=OWNER)
    made.run()
    assert made.nodes_of("train")
    made.step(50 * MINUTE)
    made.step(10 * MINUTE)
    asked = [one for one in made.commands if isinstance(one, AskJob)]
    assert [(one.key, one.uid, one.action) for one in asked] == [("default/train", "uid-1", action)]
    assert made.evictions() == []
    # Nobody took it.
    made.step(59)
    made.step(1)
    assert len([one for one in made.commands if isinstance(one, AskJob)]) == 2
    assert len(made.messages("MaxRunTimeExceeded")) == 1


def test_a_limit_that_is_new_or_lowered_gives_running_jobs_the_warning_time() -> None:
    made = running(None)
    made.step(5 * 3600)
    limit(made, "1h")
    made.step()
    assert len(made.messages("MaxRunTimeApproaching")) == 1
    made.step(WARNING - 1)
    assert made.evictions() == []
    limit(made, "30m")
    made.step()
    assert len(made.messages("MaxRunTimeApproaching")) == 2
    made.step(WARNING - 1)
    assert made.evictions() == []
    made.step(1)
    assert made.evictions() == ["train-0"]


def test_a_limit_that_is_raised_or_removed_takes_the_warning_back() -> None:
    made = running()
    made.step(50 * MINUTE)
    carry_annotations_out(made)
    limit(made, "10h")
    made.run()
    carry_annotations_out(made)
    assert "ringwise.io/max-run-time-end" not in made.pods["train-0"].annotations
    made.step(2 * 3600)
    assert made.evictions() == []
    limit(made, None)
    made.step(20 * 3600)
    assert made.evictions() == []


def test_pods_that_joined_the_pod_group_of_a_vcjob_are_ended_with_it() -> None:
    """A PodGroup may name any vcjob of its namespace as its owner: a Command ends the pods of that alone."""
    made = Rig(2)
    limit(made, "1h")
    made.tell(VcJob("default", "train", uid="uid-1", min_available=1))
    made.submit("train", pods=2, chips=8, owner=OWNER)
    made.change("train-1", owner=None)
    made.run()
    assert len(made.nodes_of("train")) == 2
    made.step(50 * MINUTE)
    made.step(10 * MINUTE)
    assert [one.action for one in made.commands if isinstance(one, AskJob)] == ["TerminateJob"]
    assert made.evictions() == ["train-1"]


def _pod_group_created_again(made: Rig, times: int) -> None:
    group = made.groups["default/train"]
    made.tell(ev.PodGroupGone(group.key))
    made.step()
    made.put_group(replace(group, uid=f"again-{times}"))
    made.step()


def _moved_and_back(made: Rig, times: int) -> None:
    group = made.groups["default/train"]
    for queue in ("elsewhere", group.queue):
        made.put_group(replace(group, queue=queue))
        made.step()


@pytest.mark.parametrize("elsewhere", [None, "2h"])
@pytest.mark.parametrize("trick", [_pod_group_created_again, _moved_and_back])
def test_no_job_gets_a_longer_warning_by_its_pod_group(
    trick: Callable[[Rig, int], None], elsewhere: str | None
) -> None:
    made = Rig(2)
    limit(made, "1h", name="short")
    limit(made, elsewhere, name="elsewhere")
    made.submit("train", chips=8, queue="short")
    made.run()
    for times in range(16):
        made.step(4 * MINUTE)
        trick(made, times)
        carry_annotations_out(made)
    assert made.evictions() == ["train-0"]
    # Told after 52 minutes, 10 minutes before.


@pytest.mark.parametrize(
    ("times", "hops", "ends"),
    [
        # Queue -> its longest run time; minute -> the queue it is moved to; when it ends, in minutes.
        ({"short": "1h", "other": None}, {20: "other"}, 60),
        ({"short": "1h", "other": None}, {55: "other"}, 60),
        ({"short": "1h", "other": "5h"}, {20: "other"}, 60),
        ({"short": "5h", "other": "1h"}, {20: "other"}, 60),
        # Also where it was only for a moment.
        ({"short": None, "other": "1h", "third": None}, {20: "other", 25: "third"}, 60),
        # The time was over before it came: it is warned.
        ({"short": None, "other": "1h"}, {90: "other"}, 100),
        # A second queue gives no second warning.
        ({"short": "2h", "other": "1h", "third": "30m"}, {115: "other", 118: "third"}, 120),
        ({"short": "2h", "other": None}, {20: "nowhere", 30: "other"}, 120),
    ],
)
def test_the_earlier_end_of_all_queues_of_a_job_applies(
    times: dict[str, str | None], hops: dict[int, str], ends: int
) -> None:
    made = Rig(2)
    for name, text in times.items():
        limit(made, text, name=name)
    made.submit("train", chips=8, queue="short")
    made.run()
    minute = 0
    for at, queue in hops.items():
        while minute < at:
            minute += 1
            made.step(MINUTE)
        made.change_group("train", queue=queue)
        made.step()
    while minute < ends - 1:
        minute += 1
        made.step(MINUTE)
    assert made.evictions() == []
    assert made.messages("MaxRunTimeApproaching")
    made.step(MINUTE)
    assert made.evictions() == ["train-0"]


def test_a_job_that_was_moved_says_which_queue_ends_it() -> None:
    made = Rig(2)
    limit(made, "1h", "requeue", name="short")
    limit(made, "5h", "end", name="other")
    made.submit("train", chips=8, queue="short", owner=DEPLOYED)
    made.run()
    made.change_group("train", queue="other")
    made.step()
    made.step(50 * MINUTE)
    assert made.messages("MaxRunTimeApproaching") == [
        "it is requeued at 1970-01-01T01:16:40Z, in 10m: maxRunTime of UsageLimit time-short is 1h"
    ]
    (line,) = [
        line
        for line in explain(made.machine.view, made.machine.view.jobs["default/train"], made.now).notes
        if "lets jobs run" in line
    ]
    assert "UsageLimit time-short lets jobs run for 1h" in line


def test_another_leader_knows_the_queues_of_a_job_that_was_moved() -> None:
    made = Rig(2)
    limit(made, None, name="first")
    limit(made, "1h", name="short")
    limit(made, None, name="third")
    made.submit("train", chips=8, queue="first")
    made.run()
    made.change_group("train", queue="short")
    made.step()
    made.change_group("train", queue="third")
    made.step()
    made.change_leader()
    made.step()
    made.step(50 * MINUTE)
    assert len(made.messages("MaxRunTimeApproaching")) == 1
    made.step(10 * MINUTE)
    assert made.evictions() == ["train-0"]


def test_another_leader_neither_shortens_nor_forgets() -> None:
    made = running()
    made.step(40 * MINUTE)
    made.change_leader()
    made.step()
    made.step(10 * MINUTE - 1)
    assert made.messages("MaxRunTimeApproaching") == []
    made.step(1)
    assert len(made.messages("MaxRunTimeApproaching")) == 1
    made.change_leader()
    made.step()
    assert len(made.messages("MaxRunTimeApproaching")) == 1
    made.step(WARNING - 1)
    assert made.evictions() == []
    made.step(1)
    assert made.evictions() == ["train-0"]


def test_time_without_a_leader_shortens_no_warning() -> None:
    made = running()
    made.step(10 * MINUTE)
    made.now += 5 * 3600 * SECOND
    made.change_leader()
    made.step()
    assert len(made.messages("MaxRunTimeApproaching")) == 1
    assert made.evictions() == []
    made.step(WARNING)
    assert made.evictions() == ["train-0"]


def test_a_job_that_was_requeued_while_nobody_led_has_all_its_time() -> None:
    made = running()
    made.step(50 * MINUTE)
    made.now += 3600 * SECOND
    made.change("train-0", bound=made.now - 10 * SECOND)
    made.events.clear()
    made.change_leader()
    made.step()
    made.step(50 * MINUTE - 11)
    assert len(made.messages("MaxRunTimeApproaching")) == 1
    made.step(1)
    assert len(made.messages("MaxRunTimeApproaching")) == 2
    assert made.evictions() == []


@pytest.mark.parametrize(("bound_again", "warnings"), [(["train-1"], 1), (["train-0", "train-1"], 2)])
def test_a_job_of_which_a_pod_was_replaced_was_warned_and_a_requeued_job_was_not(
    bound_again: list[str], warnings: int
) -> None:
    made = running(pods=2)
    made.step(50 * MINUTE)
    made.now += MINUTE * SECOND
    for name in bound_again:
        made.change(name, bound=made.now)
    made.events.clear()
    made.change_leader()
    made.step()
    made.step(9 * MINUTE)
    assert sorted(made.evictions()) == (["train-0", "train-1"] if warnings == 1 else [])
    made.step(3600)
    assert len(made.messages("MaxRunTimeApproaching")) == warnings


def test_what_is_written_and_cannot_be_read_is_as_if_it_were_not_there() -> None:
    for entries in (7, [7], {"default/train": ["x"]}, {"default/train": {"uid": "x", "started": "y"}}):
        made = running()
        made.tell(record_with("run-times", entries))
        made.step()
        made.step(50 * MINUTE)
        assert len(made.messages("MaxRunTimeApproaching")) == 1


def test_an_estimate_is_exact_by_the_longest_run_time() -> None:
    made = Rig(1)
    limit(made, "1h")
    made.submit("train", chips=8)
    made.run()
    made.submit("next", chips=8)
    made.run()
    start = estimates(made.machine.view, made.now)["default/next"]
    assert start.latest == made.now + 3600 * SECOND


def test_a_shorter_expected_duration_counts() -> None:
    made = Rig(1)
    limit(made, "1h")
    made.submit("train", chips=8, expected="20m")
    made.run()
    made.submit("next", chips=8)
    made.run()
    start = estimates(made.machine.view, made.now)["default/next"]
    assert start.latest == made.now + 1200 * SECOND


def test_a_job_that_says_it_runs_longer_is_taken_to_end_with_its_queues_time() -> None:
    made = Rig(1)
    limit(made, "1h")
    made.submit("train", chips=8, expected="100d")
    made.run()
    made.submit("next", chips=8)
    made.run()
    start = estimates(made.machine.view, made.now)["default/next"]
    assert (start.earliest, start.latest) == (made.now + 3600 * SECOND, made.now + 3600 * SECOND)

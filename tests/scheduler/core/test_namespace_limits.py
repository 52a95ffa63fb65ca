"""The limits that hold in a namespace, in the condition of the Namespace."""

from __future__ import annotations

import json
from typing import Any

from ringwise.messages import events as ev
from ringwise.messages.commands import Command, SetNamespaceLimits
from ringwise.scheduler.core import usage_limits
from ringwise.state.limits import REQUEUE, UsageLimit
from ringwise.state.model import Namespace, Queue
from tests.builders.values import CHIP
from tests.scheduler.core.test_usage_limits import GUARDED, limit
from tests.scheduler.rig import PLAIN, Rig


def written(commands: list[Command]) -> dict[str, list[str]]:
    """By namespace: the names of the limits that are written."""
    return {
        one.namespace: [limit["name"] for limit in json.loads(one.limits or "[]")]
        for one in commands
        if isinstance(one, SetNamespaceLimits)
    }


def prepared(*limits: UsageLimit, **settings: Any) -> Rig:
    rig = Rig(2, actions=PLAIN, **{**GUARDED, **settings})
    rig.tell(Queue("q"), Queue("r"), Namespace("team-a"), Namespace("team-b"), *limits)
    return rig


def turn(rig: Rig, seconds: int = 10) -> dict[str, list[str]]:
    return written(rig.step(seconds))


def test_a_namespace_has_its_own_limits_and_those_that_hold_for_its_jobs() -> None:
    rig = prepared(
        limit("of-a", 8, namespace="team-a"),
        limit("each", 8, namespace="*"),
        limit("of-q", 8, queue="q"),
        limit("of-r", 8, queue="r"),
        limit("ann", 8, user="ann"),
        limit("a-in-q", 8, namespace="team-a", queue="q"),
    )
    assert turn(rig) == {"team-a": ["a-in-q", "of-a"], "team-b": ["each"]}
    # A queue is named where it has jobs, and a user likewise.
    rig.submit("x", namespace="team-b", queue="q", annotations={"ringwise.io/user": "ann"})
    assert turn(rig) == {"team-b": ["ann", "each", "of-q"]}
    rig.gone("x-0")
    rig.tell(ev.PodGroupGone("team-b/x"))
    assert turn(rig) == {"team-b": ["each"]}
    assert turn(rig) == {}
    for name in ("of-a", "each", "of-q", "of-r", "ann", "a-in-q"):
        rig.events.append(ev.UsageLimitGone(name))
    assert turn(rig) == {"team-a": [], "team-b": []}


def test_what_is_written_is_written_once_and_again_if_it_is_not_there() -> None:
    rig = prepared(UsageLimit("of-a", "team-a", hard={CHIP: 8}, max_run_time=60, on_timeout=REQUEUE))
    (first,) = (one for one in rig.step(10) if isinstance(one, SetNamespaceLimits))
    (fields,) = json.loads(first.limits)
    assert fields == {
        "name": "of-a",
        "namespace": "team-a",
        "hard": {CHIP: 8},
        "max_run_time": 60,
        "on_timeout": REQUEUE,
    }
    rig.tell(Namespace("team-a", limits=first.limits))
    assert turn(rig) == {}
    rig.tell(Namespace("team-a"))
    assert turn(rig) == {"team-a": ["of-a"]}
    # What a former leader wrote and no longer holds.
    rig.tell(Namespace("team-b", limits=first.limits))
    assert turn(rig) == {"team-b": []}


def test_many_limits_are_cut_and_written_at_most_every_ten_seconds() -> None:
    rig = prepared(*(limit(f"l-{number:03}", 8, namespace="team-a") for number in range(600)))
    (text,) = (one.limits for one in rig.step(10) if isinstance(one, SetNamespaceLimits))
    assert usage_limits.MAX_TEXT - 100 < len(text) <= usage_limits.MAX_TEXT
    assert json.loads(text)[0]["name"] == "l-000"
    rig.tell(limit("a", 8, namespace="team-a"))
    assert turn(rig, 1) == {}
    assert turn(rig, 9)["team-a"][0] == "a"


def test_a_cluster_without_limits_writes_nothing() -> None:
    rig = prepared()
    rig.submit("x", namespace="team-a")
    assert turn(rig) == {}

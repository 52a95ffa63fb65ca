"""UsageLimits: subjects, several limits of a job, and conditions."""

from __future__ import annotations

from typing import Any

import pytest

from ringwise.messages import events as ev
from ringwise.messages.commands import SetConditions
from ringwise.scheduler.core import usage_limits
from ringwise.state.limits import RUNNING_JOBS, UsageLimit
from ringwise.state.model import Queue
from tests.builders.values import CHIP
from tests.scheduler.rig import PLAIN, Rig

GUARDED: dict[str, Any] = {"user_annotation": "guarded"}


def limit(
    name: str, chips: int | None, *, namespace: str = "", queue: str = "", user: str = ""
) -> UsageLimit:
    return UsageLimit(name, namespace, queue, user, {} if chips is None else {CHIP: chips})


def submit(rig: Rig, name: str, user: str = "", chips: int = 4, **more: Any) -> None:
    rig.submit(name, chips=chips, annotations={"ringwise.io/user": user} if user else None, **more)


def conditions(rig: Rig) -> dict[str, list[tuple[bool, str]]]:
    """Status and reason by limit, as they were written last."""
    return {
        one.name: [(condition.status, condition.reason) for condition in one.conditions]
        for one in rig.commands
        if isinstance(one, SetConditions)
    }


@pytest.mark.parametrize(
    ("limits", "started"),
    [
        ([limit("all", 8, queue="q")], "a1 b1 other"),
        ([limit("each", 4, user="*")], "a1 b1 other"),
        ([limit("each", 4, queue="q", user="*")], "a1 b1 other"),
        ([limit("each", 4, queue="q", user="*"), limit("ann", 8, queue="q", user="ann")], "a1 a2 b1 other"),
        (
            [limit("each", 4, queue="q", user="*"), limit("ann", None, queue="q", user="ann")],
            "a1 a2 b1 other",
        ),
        ([limit("each", 8, queue="*", user="*"), limit("ann", 4, queue="*", user="ann")], "a1 b1 b2 other"),
        # Both must allow it.
        ([limit("each", 8, user="*"), limit("all", 4, queue="q")], "a1 other"),
        # Two that name as many parts.
        ([limit("q", 8, queue="q", user="*"), limit("ann", 4, queue="*", user="ann")], "a1 b1 b2 other"),
        ([limit("here", 4, namespace="default", queue="q")], "a1 other"),
        ([limit("there", 0, namespace="elsewhere")], "a1 a2 b1 b2 other"),
    ],
)
def test_subjects(limits: list[UsageLimit], started: str) -> None:
    rig = Rig(5, actions=PLAIN, **GUARDED)
    rig.tell(Queue("q", created=1), Queue("r", created=1), *limits)
    for name in ("a1", "b1", "a2", "b2"):
        submit(rig, name, {"a": "ann", "b": "bob"}[name[0]], queue="q")
    submit(rig, "other", "carl", queue="r")
    rig.run()
    names = ("a1", "a2", "b1", "b2", "other")
    assert [name for name in names if rig.nodes_of(name)] == started.split()


def test_other_resources_than_chips() -> None:
    rig = Rig(2, actions=PLAIN)
    rig.tell(UsageLimit("cpu", namespace="*", hard={"cpu": 1500}))
    rig.submit("a", chips=0, cpu_milli=1000)
    rig.run()
    rig.submit("b", chips=0, cpu_milli=1000)
    rig.run()
    found = rig.machine.view.jobs["default/b"].reason
    assert found is not None
    said = "namespace default uses 1 of 1.5 cpu and the job requests 1 more"
    assert found.message.startswith(said)


def test_conditions_follow_what_is_in_use() -> None:
    rig = Rig(2, actions=PLAIN)
    rig.tell(limit("few", 8, namespace="default"), limit("mine", 8, user="*"))
    submit(rig, "a", chips=8)
    rig.step()
    within = [(True, "Accepted"), (False, "WithinLimit")]
    refused = [(False, "UserNotVerified"), (False, "NotAccepted")]
    assert conditions(rig) == {"few": within, "mine": refused}
    assert list(rig.machine.view.limits.problems) == ["mine"]
    rig.step(60)
    rig.tell(limit("few", 4, namespace="default"))
    rig.step()
    assert conditions(rig)["few"] == [(True, "Accepted"), (True, "LimitExceeded")]
    written = [one for one in rig.commands if isinstance(one, SetConditions) and one.name == "few"]
    assert written[-1].conditions[1].message == f"namespace default uses 8 of 4 {CHIP}"
    rig.end("a")
    rig.step(60)
    assert conditions(rig)["few"] == within


def test_pods_that_are_read_after_the_limits_count() -> None:
    """As those of a leader that starts: their jobs do not change afterwards."""
    rig = Rig(2, deaf=True)
    rig.tell(limit("few", 4, namespace="default"))
    rig.step()
    submit(rig, "a", chips=8)
    rig.change("a-0", node="n1", holds=tuple(range(8)), phase="Running")
    rig.step()
    rig.step(10)
    assert conditions(rig)["few"] == [(True, "Accepted"), (True, "LimitExceeded")]


def test_users_are_limited_once_they_are_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_limits, "MAX_LIMITS", 1)
    rig = Rig(2, actions=PLAIN, **GUARDED)
    rig.tell(limit("mine", 4, user="*"), UsageLimit("late", user="*", hard={RUNNING_JOBS: 0}, created=5))
    submit(rig, "a", "ann")
    rig.step()
    assert rig.nodes_of("a")
    assert conditions(rig)["late"] == [(False, "TooManyLimits"), (False, "NotAccepted")]


def test_the_last_known_limits_stay_while_the_kind_is_not_served() -> None:
    rig = Rig(2, actions=PLAIN)
    rig.tell(limit("few", 4, namespace="default"))
    rig.step()
    rig.tell(ev.KindServed("UsageLimit", False))
    submit(rig, "a")
    submit(rig, "b")
    rig.run()
    assert [bool(rig.nodes_of(name)) for name in "ab"] == [True, False]
    rig.tell(ev.KindServed("UsageLimit", True), ev.UsageLimitGone("few"))
    rig.run()
    assert rig.nodes_of("b")

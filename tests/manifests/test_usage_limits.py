"""UsageLimits as they are written: what they say, and what is refused with the field and what is allowed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ringwise.durations import SECOND
from ringwise.manifests.objects.custom_resources import CustomResourceWire
from ringwise.manifests.objects.usage_limits import usage_limit_from_wire
from ringwise.manifests.text.errors import Findings
from ringwise.state.limits import REQUEUE, UsageLimit
from ringwise.topology.numbers import INT32
from tests.builders.values import CHIP

CHIPS = f"requests.{CHIP}"


def read(spec: object) -> tuple[UsageLimit, list[str]]:
    body = {"metadata": {"name": "few", "generation": 3}, "spec": spec}
    found = Findings("here")
    one = usage_limit_from_wire(
        msgspec.json.decode(msgspec.json.encode(body), type=CustomResourceWire), found
    )
    return one, [f"{error.field}: {error.message}" for error in found.errors]


def test_all_fields() -> None:
    found, errors = read(
        {
            "subject": {"namespace": "team", "queue": "*", "user": "ana"},
            "hard": {CHIPS: "64", "requests.cpu": 4, "cpu": "3500m", "memory": "2Gi", "runningJobs": 5},
            "borrowingLimit": {CHIPS: 16},
            "maxRunTime": "1h30m",
            "onTimeout": "Requeue",
        }
    )
    assert not errors
    hard = {CHIP: 64, "cpu": 3500, "memory": 2 * 2**30, "runningJobs": 5}
    assert found == UsageLimit(
        *("few", "team", "*", "ana", hard, {CHIP: 16}, 5400 * SECOND, REQUEUE), generation=3
    )


QUEUE: dict[str, Any] = {"subject": {"queue": "q"}}
WRONG: list[tuple[object, str]] = [
    ({}, "spec.subject: Required value"),
    ({"subject": {}}, "spec.subject: must have at least one of namespace, queue, user"),
    (
        {"subject": {"queues": "q"}},
        'spec.subject.queues: unknown field; allowed: namespace, queue, user; did you mean "queue"?',
    ),
    ({"subject": {"queue": ""}}, "spec.subject: must have at least one of namespace, queue, user"),
    ({"subject": {"queue": "q" * 254}}, "must have 1 to 253 characters, or be '*'"),
    ({"subject": {"namespace": "Team"}}, "must be the name of a namespace, or '*'"),
    ({**QUEUE, "hard": {CHIP: 8}}, "must be one of runningJobs, pendingJobs, cpu, memory, or begin with"),
    ({**QUEUE, "hard": {"limits.cpu": 8}}, "must be one of runningJobs"),
    ({**QUEUE, "hard": {CHIPS: -1}}, "must be a whole number of 0 or more"),
    ({**QUEUE, "hard": {CHIPS: 0.5}}, "must be a whole number of 0 or more"),
    ({**QUEUE, "hard": {"runningJobs": INT32 + 1}}, f"must be a whole number from 0 to {INT32}"),
    (
        {**QUEUE, "hard": {f"requests.a{n}": 1 for n in range(65)}},
        "spec.hard: Invalid value: an object: must be an object of at most 64",
    ),
    ({**QUEUE, "borrowingLimit": {CHIPS: 8}}, "must be a resource with an entry in spec.hard"),
    (
        {**QUEUE, "hard": {"runningJobs": 1}, "borrowingLimit": {"runningJobs": 1}},
        "must be a resource with an entry in spec.hard",
    ),
    ({**QUEUE, "maxRunTime": "7d"}, 'spec.maxRunTime: Invalid value: "7d": must be a duration such as'),
    ({**QUEUE, "maxRunTime": "0s"}, "must be a duration such as"),
    ({**QUEUE, "maxRunTime": "99999h"}, "must be a duration such as"),
    ({**QUEUE, "maxRunTime": 60}, "spec.maxRunTime: Invalid value: 60: must be a string"),
    ({**QUEUE, "onTimeout": "Requeue"}, "spec.onTimeout: requires spec.maxRunTime"),
    ({**QUEUE, "maxRunTime": "1h", "onTimeout": "end"}, "must be Requeue or Terminate"),
    ({**QUEUE, "scope": "all"}, "spec.scope: unknown field"),
    ([], "spec.subject: Required value"),
    ("all", "spec: Invalid value"),
]


@pytest.mark.parametrize(("spec", "said"), WRONG)
def test_what_is_wrong_is_said_with_the_field(spec: object, said: str) -> None:
    _, errors = read(spec)
    assert any(said in error for error in errors), errors

"""The exit code of a pod: any container that failed counts, also one that was started again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ringwise.kube.watch.readers import PodReader
from ringwise.manifests.objects.pods import PodClassCache
from ringwise.manifests.text.errors import Findings
from ringwise.state.model import Pod
from tests.manifests.builders import real_pod


def ended(code: int | None) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:00:00Z"}}


RUNS: dict[str, Any] = {"state": {"running": {}}}


@pytest.mark.parametrize(
    ("statuses", "code", "has_ended"),
    [
        ([], None, False),
        ([RUNS], None, False),
        ([{"state": ended(0)}], 0, True),
        ([{"state": ended(3)}, {"state": ended(0)}], 3, True),
        ([{"state": ended(0)}, {"state": ended(3)}], 3, True),
        ([RUNS, {"state": ended(0)}, {"state": ended(137)}], 137, True),
        ([{**RUNS, "lastState": ended(1)}], 1, False),
        ([{"state": ended(0)}, {**RUNS, "lastState": ended(1)}], 1, True),
        ([{"state": ended(2), "lastState": ended(1)}], 2, True),
        ([{**RUNS, "lastState": ended(0)}], None, False),
        ([{"state": ended(None)}], None, True),
        ([{"state": ended(1 << 40)}], None, True),
    ],
)
def test_any_container_that_failed_counts(
    statuses: list[dict[str, Any]], code: int | None, has_ended: bool
) -> None:
    body = {**real_pod(3, 10), "status": {"phase": "Running", "containerStatuses": statuses}}
    found = Findings("pod")
    read = PodReader(PodClassCache()).read(msgspec.Raw(msgspec.json.encode(body)), found)
    assert read is not None
    ((_, pod),) = read
    assert isinstance(pod, Pod)
    assert (pod.exit_code, bool(pod.ended)) == (code, has_ended)

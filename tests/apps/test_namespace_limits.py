"""`ringwise limits` of a user who has rights in one namespace alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.builders.values import CHIP
from tests.device.test_commands import invoke, kubeconfig
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import PODS, pod

NAMESPACE = "/api/v1/namespaces/team-a"
LIMITS = [
    {"name": "of-a", "namespace": "team-a", "hard": {CHIP: 24, "runningJobs": 2}},
    {"name": "of-q", "queue": "default", "user": "*", "hard": {CHIP: 16}, "max_run_time": 3600 * 10**9},
]


def namespace(text: str) -> dict[str, object]:
    condition = {"type": "ringwise.io/usage-limits", "status": "True", "message": text}
    return {"metadata": {"name": "team-a"}, "status": {"conditions": [condition]}}


async def asked(tmp_path: Path, text: str, allowed: Callable[[str], bool]) -> Result:
    async with FakeApiServer() as api:
        api.put("/api/v1/namespaces", namespace(text))
        api.put(PODS, pod("runs", 8, namespace="team-a", on="n-1"))
        api.put(PODS, pod("waits", 8, namespace="team-a"))
        api.put(PODS, pod("other", 8, namespace="team-b", on="n-2"))
        api.fault(lambda method, path: not allowed(path), status=403, times=10_000)
        config = f"--kubeconfig={kubeconfig(tmp_path, api.url)}"
        return await asyncio.to_thread(invoke, "limits", "-n", "team-a", "-o", "json", config)


def own(path: str) -> bool:
    return path == NAMESPACE or "/namespaces/team-a/" in path


async def test_a_tenant_sees_the_limits_of_the_namespace_and_what_its_jobs_use(tmp_path: Path) -> None:
    said = await asked(tmp_path, json.dumps(LIMITS), own)
    assert said.exit_code == 0, said.stderr
    shown = json.loads(said.stdout)
    rows = [
        (row["name"], row["user"], {one["name"]: (one["used"], one["hard"]) for one in row["use"]})
        for row in shown["limits"]
    ]
    assert rows == [("of-a", None, {CHIP: (8, 24), "runningJobs": (1, 2)})]
    assert [one["name"] for one in shown["max_run_times"]] == ["of-q"]
    assert "limits apply to namespace team-a only" in said.stderr
    assert "team-b" not in said.output


@pytest.mark.parametrize(
    ("allowed", "problem"),
    [
        (lambda path: False, "namespaces: not allowed; you need the verb get on namespaces in namespace"),
        (lambda path: path == NAMESPACE, "pods: not allowed; you need the verb list on pods in namespace"),
    ],
)
async def test_a_missing_right_is_one_error(
    tmp_path: Path, allowed: Callable[[str], bool], problem: str
) -> None:
    said = await asked(tmp_path, "[]", allowed)
    assert said.exit_code != 0
    (line,) = said.stderr.splitlines()
    assert problem in line


async def test_a_condition_that_cannot_be_read_shows_no_limits(tmp_path: Path) -> None:
    said = await asked(tmp_path, "{", own)
    assert json.loads(said.stdout)["limits"] == []

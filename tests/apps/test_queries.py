"""Queries about every job of every example change nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ringwise.apps.loading import from_bundle
from ringwise.apps.queries import explain_job
from ringwise.cli.commands import cli
from ringwise.durations import duration_text, plain_duration
from ringwise.manifests.bundle import read_bundle
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.manifests.settings.configuration import read_configuration
from ringwise.scheduler.defaults import BUILT_IN, default_configuration
from ringwise.scheduler.explain.capacity import capacity
from ringwise.scheduler.explain.doctor import diagnose
from ringwise.scheduler.explain.why import explain
from tests.builders import objects
from tests.builders.values import CHIP
from tests.examples import sample
from tests.fingerprint import fingerprint, state_of

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
VERSION_2 = read_configuration(
    (EXAMPLES / "switches/version-2.0-shared-2.conf").read_bytes(), "conf", BUILT_IN
)
INPUTS = [
    *([path] for path in sorted((EXAMPLES / "switches").glob("*.yaml"))),
    [EXAMPLES / "superpods/sequence-nodes.json", EXAMPLES / "superpods/sequence-jobs.yaml"],
    [EXAMPLES / "superpods/fragments-nodes.json", EXAMPLES / "superpods/one-job.yaml"],
    [EXAMPLES / "cluster.yaml", EXAMPLES / "jobs"],
]


@pytest.mark.parametrize("configuration", [default_configuration(), VERSION_2], ids=["1.0", "2.0"])
@pytest.mark.parametrize("paths", sample(INPUTS), ids=lambda paths: str(paths[-1].stem))
def test_queries_change_nothing(paths: list[Path], configuration: object) -> None:
    chosen = VERSION_2 if configuration is VERSION_2 else default_configuration()
    source = from_bundle(read_bundle([str(path) for path in paths]), chosen, shipped_catalog())
    view = source.view
    capacity(view, source.now)
    before = fingerprint(state_of(view))
    for job in list(view.jobs.values()):
        answer = explain(view, job, source.now)
        assert answer.sentence
        placed = any(location.node for location in answer.locations)
        assert placed or answer.reason is not None
        assert fingerprint(state_of(view)) == before, job.key
    capacity(view, source.now)
    diagnose(view)
    assert fingerprint(state_of(view)) == before
    assert view.inconsistencies() == []


PENDING = """
apiVersion: v1
kind: Node
metadata: {name: node-1}
status: {allocatable: {cpu: "4", huawei.com/Ascend910: "8"}, capacity: {cpu: "4", huawei.com/Ascend910: "8"}}
---
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec: {schedulerName: volcano, containers: [{name: main, resources: {requests: {cpu: "5"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: done}
spec: {schedulerName: volcano, nodeName: node-1, containers: [{name: main}]}
status: {phase: Succeeded}
"""


@pytest.mark.parametrize(
    ("name", "outcome", "part"),
    [
        ("plain", "pending", "5 of cpu requested, 4 of 4 free"),
        ("done", "finished", "1 of its 1 pod has ended"),
    ],
)
def test_jobs_without_chips(name: str, outcome: str, part: str, tmp_path: Path) -> None:
    file = tmp_path / "input.yaml"
    file.write_text(PENDING)
    source = from_bundle(read_bundle([str(file)]), default_configuration(), shipped_catalog())
    answer = explain_job(source.view, source.now, name)
    assert answer.outcome == outcome
    assert part in " ".join([answer.sentence, *(miss.text for miss in answer.misses)])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59, "59s"), (61, "1m1s"), (7500, "2h5m"), (90061, "1d1h"), (-5, "0s")],
)
def test_durations_have_two_units(seconds: int, text: str) -> None:
    assert duration_text(seconds * 1_000_000_000) == text


@pytest.mark.parametrize(
    ("seconds", "rounded_up", "exact"),
    [(45, "45s", "45s"), (7801, "2h11m", "2h10m1s"), (86399, "1d", "23h59m59s"), (273_600, "3d4h", "3d4h")],
)
def test_a_duration_is_rounded_up_or_complete(seconds: int, rounded_up: str, exact: str) -> None:
    assert duration_text(seconds * 1_000_000_000, up=True) == rounded_up
    assert duration_text(seconds * 1_000_000_000, units=4) == exact
    # What is printed can be written.
    assert plain_duration(exact) == seconds * 1_000_000_000


def test_the_use_of_limits_does_not_count_pods_that_would_get_a_node_now(tmp_path: Path) -> None:
    """Blocked jobs are those after a cycle, uses those before it: of files nothing is bound."""
    made = [
        objects.node("n-1"),
        objects.node("n-2"),
        objects.usage_limit("few", {"queue": "default"}, hard={f"requests.{CHIP}": 8}),
        *(objects.pod(name, objects.pod_spec(8)) for name in ("first", "second")),
    ]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": made}), encoding="utf-8")
    said = CliRunner().invoke(cli, ["limits", "-f", str(file), "-o", "json"])
    assert said.exit_code == 0, said.stderr
    (row,) = json.loads(said.stdout)["limits"]
    assert ([one["used"] for one in row["use"]], row["blocked_jobs"]) == ([0], 1)

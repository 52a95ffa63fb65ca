from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from ringwise.kube.write.executor import group_body, job_status
from ringwise.messages.commands import SetJobStatus
from ringwise.state.model import NetworkTopology, PodGroup
from ringwise_bench.checkout import definitions
from tests.deploy.schemas import misfits, not_structural

ROOT = Path(__file__).resolve().parents[2]
SIX = Path(__file__).with_name("six_jobs.yaml")


@cache
def schema_of(kind: str) -> dict[str, Any]:
    (found,) = [one for one in definitions() if one["spec"]["names"]["kind"] == kind]
    schema: dict[str, Any] = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


@pytest.mark.parametrize("kind", ["Job", "PodGroup", "Queue", "Command"])
def test_schemas_are_structural(kind: str) -> None:
    assert list(not_structural(schema_of(kind))) == []


def example_objects() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted([SIX, *(ROOT / "examples").rglob("*.yaml"), *(ROOT / "examples").rglob("*.json")]):
        text = path.read_text(encoding="utf-8")
        documents = [json.loads(text)] if path.suffix == ".json" else yaml.load_all(text, yaml.CSafeLoader)
        for document in filter(None, documents):
            for one in document.get("items", [document]):
                if "volcano.sh" in one.get("apiVersion", ""):
                    yield f"{path.name} {one['kind']} {one['metadata']['name']}", one


def test_the_examples_fit() -> None:
    objects = list(example_objects())
    seen = [f"{name}: {line}" for name, one in objects for line in misfits(one, schema_of(one["kind"]))]
    assert seen == []
    assert "Job" in {one["kind"] for _, one in objects}
    assert len(objects) >= 13


def small() -> dict[str, Any]:
    first: dict[str, Any] = next(iter(yaml.load_all(SIX.read_text(encoding="utf-8"), yaml.CSafeLoader)))
    return copy.deepcopy(first)


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("spec.minAvailable", "two", ".spec.minAvailable: not integer"),
        ("spec.minAvailable", -1, ".spec.minAvailable: -1 is out of range"),
        ("spec.minAvailable", 2**31, ".spec.minAvailable: 2147483648 is not an int32"),
        ("spec.minAvailable", True, ".spec.minAvailable: not integer"),
        ("spec.tasks", {"name": "main"}, ".spec.tasks: not array"),
        ("spec.queue", 7, ".spec.queue: not string"),
        ("spec.plugins", {"svc": "now"}, ".spec.plugins.svc: not array"),
        ("spec.replicas", 3, ".spec.replicas: unknown field"),
        ("spec", [], ".spec: not object"),
        ("status", {"state": {"phase": "Happy"}}, ".status.state.phase: Happy is not one of"),
    ],
)
def test_invalid_values_do_not_fit(path: str, value: Any, complaint: str) -> None:
    job = small()
    assert list(misfits(job, schema_of("Job"))) == []
    *way, last = path.split(".")
    target = job
    for step in way:
        target = target[step]
    target[last] = value
    (found,) = misfits(job, schema_of("Job"))
    assert found.startswith(complaint)


def test_queues_have_their_limits() -> None:
    def queue(**spec: Any) -> list[str]:
        return list(misfits({"metadata": {"name": "q"}, "spec": spec}, schema_of("Queue")))

    assert queue(weight=65535, capability={"cpu": 4, "memory": "8Gi"}, reclaimable=False) == []
    assert queue(weight=0) == [".spec.weight: 0 is out of range"]
    assert queue(capability={"cpu": 1.5}) == [".spec.capability.cpu: neither a number nor a text"]
    assert queue(guarantee={"resource": {"huawei.com/Ascend910": 8}}) == []


def test_what_we_write_fits() -> None:
    group = PodGroup(
        "team",
        "job-uid",
        "u",
        min_member=2,
        min_resources={"cpu": 1500, "memory": 10},
        topology=NetworkTopology(highest_tier=1),
    )
    assert list(misfits(group_body(group), schema_of("PodGroup"))) == []
    command = SetJobStatus(
        key="team/job", phase="Running", counts={"Running": 2}, tasks={"main": {"Running": 2}}
    )
    status = json.loads(json.dumps(job_status(command)))
    # A merge patch removes what is null; the server checks what is left.
    for task in status["taskStatusCount"].values():
        task["phase"] = {phase: count for phase, count in task["phase"].items() if count is not None}
    assert list(misfits({"status": status}, schema_of("Job"))) == []

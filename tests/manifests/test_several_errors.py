"""All errors of an input are told in one run: those of one object, and those after a broken document."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from ringwise.cli.commands import cli
from ringwise.manifests.bundle import read_text
from ringwise.manifests.reading import MAX_BROKEN

JOB = """apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: a}
spec:
  minAvailable: x
  maxRetry: -4
  tasks:
  - name: worker
    replicas: many
    template:
      spec:
        containers:
        - name: train
          resources: {limits: {huawei.com/Ascend910: 1x}}
"""
POD = """apiVersion: v1
kind: Pod
metadata: {name: %s}
spec: {priority: %s, containers: [{name: a}]}
"""


def errors(*documents: str) -> list[str]:
    return [str(error) for error in read_text("---\n".join(documents).encode(), "f").errors]


def test_values_that_cannot_be_are_told_beside_those_of_a_wrong_type() -> None:
    assert errors(JOB) == [
        'f: document 1: spec.minAvailable: Invalid value: "x": must be a whole number',
        'f: document 1: spec.tasks[0].replicas: Invalid value: "many": must be a whole number',
        "f: document 1: spec.tasks[0].template.spec.containers[0].resources.limits[huawei.com/Ascend910]: "
        'Invalid value: "1x": must be a whole number from 0 to 3600',
        "f: document 1: spec.maxRetry: Invalid value: -4: must be at least 0",
    ]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        # Without these a name or a container would be missing, and a request would have no limit.
        (
            "metadata: {name: 7}, spec: {containers: [{name: a}]}",
            "metadata.name: Invalid value: 7: must be a string; put it ",
        ),
        ("metadata: {name: a}, spec: {containers: 3}", "spec.containers: Invalid value: 3: must be a list"),
        ("metadata: 3, spec: {containers: [{name: a}]}", "metadata: Invalid value: 3: must be an object"),
        (
            "metadata: {name: a}, spec: {containers: [{name: a, resources: "
            "{limits: [1], requests: {huawei.com/Ascend910: 1}}}]}",
            "spec.containers[0].resources.limits: Invalid value: a list: must be an object",
        ),
    ],
)
def test_what_only_follows_from_a_wrong_type_is_not_told(fields: str, error: str) -> None:
    (found,) = errors(f"{{apiVersion: v1, kind: Pod, {fields}}}")
    assert found.startswith(f"f: document 1: {error}")


@pytest.mark.parametrize(
    "broken", ["foo: [\n", 'foo: "bar\n', "a: b: c\n", "a: 1\na: 2\n", "\tx: 1\n", "a: *b\n", "a: !x 1\n"]
)
def test_documents_after_a_broken_one_are_read(broken: str) -> None:
    bundle = read_text("---\n".join([POD % ("a", 1), broken, POD % ("b", "x"), POD % ("c", 1)]).encode(), "f")
    assert [pod.name for pod in bundle.pods] == ["a", "c"]
    first, second = map(str, bundle.errors)
    assert first.startswith("f: document 2: ")
    assert second == 'f: document 3: spec.priority: Invalid value: "x": must be a whole number'


def test_a_file_of_broken_documents_ends() -> None:
    found = errors(*["a: [\n"] * 10 * MAX_BROKEN)
    assert len(found) == MAX_BROKEN + 1
    assert found[-1] == f"f: has {MAX_BROKEN} invalid documents; reading stopped here"


def test_a_page_of_errors_is_printed(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("---\n".join(POD % (f"p{number}", "x") for number in range(60)))
    for command in (f"place -f {file}", f"get jobs -f {file}"):
        ran = CliRunner().invoke(cli, command.split())
        lines = ran.stderr.splitlines()
        assert (ran.exit_code, len(lines)) == (2, 51)
        assert lines[-1] == "and 10 more errors (--keep-going goes on without it)"

"""`ringwise.place`: the what-if from Python."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ringwise

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "labels": {"accelerator": "huawei-Ascend910", "accelerator-type": "module"}},
    "status": {
        "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110", "huawei.com/Ascend910": "8"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


def pod(name: str, chips: int) -> dict[str, object]:
    limits = {"huawei.com/Ascend910": str(chips)}
    containers = [{"name": "main", "resources": {"limits": limits}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": "volcano", "containers": containers},
    }


def test_objects_are_placed_and_refused() -> None:
    answer = ringwise.place([NODE, pod("fits", 4), pod("odd", 3)])
    assert isinstance(answer, ringwise.Answer)
    assert answer.job("fits")["reason"] is None
    assert answer.job("default/odd")["reason"]["code"] == "request-not-allowed"
    with pytest.raises(KeyError):
        answer.job("absent")


def test_a_configuration_may_be_given() -> None:
    answer = ringwise.place([NODE, pod("fits", 4)], "actions: enqueue, elect, allocate")
    assert answer.job("fits")["reason"] is None
    assert "Ringwise has no action elect" in answer.notes[0]


@pytest.mark.parametrize(
    ("objects", "configuration", "error"),
    [
        ("kind: [", "", "objects: "),
        ([{"apiVersion": "v1", "kind": "Pod"}], "", r"objects: document 1: items\[0\]: metadata"),
        ([NODE], "actions: dance", 'configuration: line 1: actions: Invalid value: "dance"'),
    ],
)
def test_bad_input_is_one_error(objects: object, configuration: str, error: str) -> None:
    with pytest.raises(ValueError, match=f"^{error}"):
        ringwise.place(objects, configuration)


def test_importing_ringwise_is_cheap() -> None:
    code = "import sys, ringwise; print([name for name in sys.modules if name.startswith('ringwise.')])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"

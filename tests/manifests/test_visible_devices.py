"""What a pod's environment says about the chips that its containers see."""

from __future__ import annotations

from typing import Any

import pytest

from ringwise.manifests.bundle import read_bundle
from ringwise.messages.job_expansion import pods_of
from ringwise.state.model import VisibleDevices
from tests.manifests.builders import Plain, pod, task, text_of, vcjob

NAME = "ASCEND_VISIBLE_DEVICES"
FIELD = "spec.containers[0].env[0]"


def variable(name: str = NAME, **more: Any) -> Plain:
    return {"name": name, **more}


def from_field(path: str) -> Plain:
    return variable(valueFrom={"fieldRef": {"fieldPath": path}})


def read(env: list[Plain], env_from: list[Plain] | None = None, **spec: Any) -> VisibleDevices | None:
    written = pod()
    written["spec"]["containers"][0] |= {"env": env, **({"envFrom": env_from} if env_from else {})}
    written["spec"] |= spec
    bundle = read_bundle(["-"], stdin=text_of(written))
    assert not bundle.errors
    (found,) = bundle.pods
    return found.visible_devices


@pytest.mark.parametrize(
    "env",
    [
        [],
        [variable("OTHER", value="0-7")],
        [variable(value="")],
        [variable(value="void")],
        [variable()],
        [from_field("metadata.annotations['huawei.com/Ascend910']")],
        [from_field("metadata.annotations['huawei.com/AscendReal']")],
        # They change what is mounted with a chip, and make none visible.
        [variable("ASCEND_RUNTIME_OPTIONS", value="NODRV"), variable("ASCEND_RUNTIME_MOUNTS", value="x")],
        [variable("ASCEND_VNPU_SPECS", value="vir04")],
    ],
)
def test_nothing_and_what_was_allocated_is_no_choice(env: list[Plain]) -> None:
    assert read(env) is None


@pytest.mark.parametrize(
    ("one", "field", "source"),
    [
        (variable(value="0,1"), "value", '"0,1"'),
        (variable(value="0-7"), "value", '"0-7"'),
        (variable(value="Ascend910-3"), "value", '"Ascend910-3"'),
        (variable(value=" void"), "value", '" void"'),
        # Kubelet puts the value of another variable there.
        (variable(value="$(MINE)"), "value", '"$(MINE)"'),
        (from_field("metadata.annotations['mine']"), "valueFrom", "\"metadata.annotations['mine']\""),
        (from_field("metadata.labels['huawei.com/Ascend910']"), "valueFrom", None),
        (from_field("metadata.name"), "valueFrom", '"metadata.name"'),
        # Not the chips of the container, but numbers all the same.
        (from_field("metadata.annotations['huawei.com/kltDev']"), "valueFrom", None),
        (from_field("metadata.annotations['super-pod-rank']"), "valueFrom", None),
        # The pod asks for chips of another resource, so nobody but the user writes these.
        (from_field("metadata.annotations['huawei.com/npu']"), "valueFrom", None),
        (from_field("metadata.annotations['huawei.com/Ascend910-mine']"), "valueFrom", None),
        (variable(valueFrom={"configMapKeyRef": {"name": "m", "key": "k"}}), "valueFrom", None),
        (
            variable(valueFrom={"secretKeyRef": {"name": "m", "key": "k", "optional": True}}),
            "valueFrom",
            None,
        ),
        (variable(valueFrom={"resourceFieldRef": {"resource": "limits.cpu"}}), "valueFrom", None),
    ],
)
def test_any_other_source_is_a_choice_of_the_user(one: Plain, field: str, source: str | None) -> None:
    found = read([one])
    assert found is not None
    assert (found.container, found.field, found.certain) == ("main", f"{FIELD}.{field}", True)
    assert source is None or found.source == source


@pytest.mark.parametrize("kind", ["initContainers", "ephemeralContainers"])
def test_every_kind_of_container_counts(kind: str) -> None:
    more: Any = {kind: [{"name": "a"}, {"name": "b", "env": [variable("X"), variable(value="7")]}]}
    found = read([], **more)
    assert found == VisibleDevices("b", f"spec.{kind}[1].env[1].value", '"7"')


@pytest.mark.parametrize(
    ("prefix", "env", "tells"),
    [
        (None, [], True),
        ("", [], True),
        ("ASCEND_", [], True),
        ("APP_", [], False),
        # Variables of env come after those of envFrom.
        (None, [variable(value="void")], False),
        (None, [from_field("metadata.annotations['huawei.com/Ascend910']")], False),
    ],
)
def test_all_variables_of_a_config_map_are_a_choice_that_nobody_can_see(
    prefix: str | None, env: list[Plain], tells: bool
) -> None:
    source = {"configMapRef": {"name": "m"}, **({} if prefix is None else {"prefix": prefix})}
    found = read(env, [source])
    assert (found is not None) is tells
    if found is not None:
        assert (found.field, found.certain) == ("spec.containers[0].envFrom[0]", False)


@pytest.mark.parametrize("limits", [{}, {"huawei.com/Ascend910": "0"}, {"huawei.com/Ascend910": "0m"}])
@pytest.mark.parametrize("key", ["huawei.com/Ascend910", "huawei.com/AscendReal"])
def test_the_annotation_of_a_pod_without_chips_is_a_choice_of_the_user(limits: Plain, key: str) -> None:
    """It is removed before the pod is bound, and the user may write it again before a container starts."""
    one: Plain = {"name": "main", "env": [from_field(f"metadata.annotations['{key}']")]}
    assert read([], containers=[one | {"resources": {"limits": limits}}]) is not None
    beside = {"name": "chips", "resources": {"limits": {"huawei.com/Ascend910": 2}}}
    assert read([], containers=[one, beside]) is None


def test_a_certain_choice_is_told_before_one_that_nobody_can_see() -> None:
    more = [{"name": "second", "env": [variable(value="3")]}]
    found = read([], [{"secretRef": {"name": "m"}}], initContainers=more)
    assert found is not None
    assert (found.container, found.certain) == ("second", True)


def test_a_long_value_is_cut() -> None:
    found = read([variable(value="0," * 400_000)])
    assert found is not None
    assert len(found.source) < 200


def test_the_path_in_a_job_names_its_task() -> None:
    last = task("last")
    last["template"]["spec"]["containers"][0]["env"] = [variable(value="0")]
    bundle = read_bundle(["-"], stdin=text_of(vcjob(tasks=[task("first"), last])))
    assert not bundle.errors
    (job,) = bundle.vcjobs
    choices = {one.name: one.visible_devices for one in pods_of(job)}
    assert choices["train-first-0"] is None
    found = choices["train-last-1"]
    assert found is not None
    assert found.field == "spec.tasks[1].template.spec.containers[0].env[0].value"

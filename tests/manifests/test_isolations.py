"""Isolations: what is read and written, what commands change, and the schema of the chart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
import yaml

from ringwise.manifests.objects.custom_resources import CustomResourceWire
from ringwise.manifests.objects.isolations import (
    IsolationSpec,
    isolate_changes,
    isolated_chips,
    isolation_body,
    isolation_from_wire,
    isolation_name,
    unisolate_changes,
)
from ringwise.manifests.text.errors import Findings
from ringwise.state.model import Isolation
from ringwise_bench.checkout import CHART
from tests.builders.values import SECOND

START = "2026-01-31T08:00:00Z"


def read(spec: Any, name: str = "fan", **meta: Any) -> tuple[Isolation, list[str]]:
    body = {"metadata": {"name": name, **meta}, "spec": spec}
    found = Findings("here")
    one = isolation_from_wire(msgspec.json.decode(msgspec.json.encode(body), type=CustomResourceWire), found)
    return one, [f"{error.field}: {error.message}" for error in found.errors]


WRONG: dict[str, tuple[Any, str]] = {
    "no spec": (None, "spec: must have exactly one of node, leafSwitch, superPod"),
    "a list": ([], "spec: must have exactly one of"),
    "text": ("x", "spec: "),
    "an empty node": ({"node": ""}, "spec: must have exactly one of"),
    "two targets": ({"node": "n", "superPod": 1}, "spec: must have exactly one of"),
    "chips of a switch": ({"leafSwitch": "a", "chips": ["npu-1"]}, "spec.chips: must not be empty, and"),
    "no chips": ({"node": "n", "chips": []}, "spec.chips: must not be empty, and requires node"),
    "a number": ({"node": "n", "chips": [3]}, "spec.chips[0]: "),
    "a chip twice": ({"node": "n", "chips": ["npu-1", "npu-1"]}, "spec.chips: must not name a chip twice"),
    "65 chips": (
        {"node": "n", "chips": [f"npu-{n}" for n in range(65)]},
        "spec.chips: Invalid value: a list: must be a list of at most 64",
    ),
    "no name of a chip": (
        {"node": "n", "chips": ["3"]},
        'spec.chips[0]: Invalid value: "3": must be the name of a chip like',
    ),
    "a negative id": (
        {"superPod": -1},
        "spec.superPod: Invalid value: -1: must be a whole number of 0 or more",
    ),
    "no time": ({"node": "n", "startTime": "soon"}, "spec.startTime: "),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named_with_its_field(case: str) -> None:
    spec, expected = WRONG[case]
    _, errors = read(spec)
    assert any(error.startswith(expected) for error in errors), errors


def test_what_is_written_is_what_is_read() -> None:
    for one in (
        Isolation("node-1", ("Ascend910-3", "Ascend910-4"), reason="optics", name="a"),
        Isolation(switch="fe80::1", start=5 * SECOND, name="b"),
        Isolation(superpod=0, name="c"),
    ):
        found = Findings("here")
        assert isolation_from_wire(msgspec.convert(isolation_body(one), CustomResourceWire), found) == one
        assert not found.errors


def test_a_field_of_a_newer_version_is_named_and_the_rest_holds() -> None:
    one, errors = read({"node": "n", "severity": 3}, generation=2, annotations={"ringwise.io/user": "ana"})
    assert errors == []
    assert (one.node, one.ignored, one.by, one.generation) == ("n", ("severity",), "ana", 2)


NODE, CHIP = Isolation("n"), Isolation("n", ("npu-3",))
AHEAD = Isolation("n", start=SECOND)

NAMES = {
    "n": NODE,
    "n-npu-3": CHIP,
    "switch-10.0.0.1": Isolation(switch="10.0.0.1"),
    "superpod-7": Isolation(superpod=7),
    "switch-fe80--1-dea56000": Isolation(switch="fe80::1"),
    "switch-a-42946ab6": Isolation(switch="A"),
}


@pytest.mark.parametrize("name", NAMES)
def test_names_are_valid_and_those_of_different_targets_differ(name: str) -> None:
    assert isolation_name(NAMES[name]) == name
    assert read({"node": "n"}, name)[1] == []


def named(*isolations: Isolation) -> list[Isolation]:
    return [replace(one, name=isolation_name(one) + ("-ahead" if one.start else "")) for one in isolations]


def words(changes: dict[str, Isolation | None]) -> dict[str, Any]:
    return {name: one and (one.chips, one.start) for name, one in changes.items()}


#: What exists, what is wanted, and what is written to isolate and to unisolate it.
CHANGES: dict[str, tuple[list[Isolation], Isolation, dict[str, Any], dict[str, Any]]] = {
    "nothing": ([], NODE, {"n": ((), None)}, {}),
    "the same": ([NODE], NODE, {}, {"n": None}),
    "of another node": ([Isolation("m")], NODE, {"n": ((), None)}, {}),
    "a chip of it": ([CHIP], NODE, {"n": ((), None)}, {}),
    "the node of it": ([NODE], CHIP, {"n-npu-3": (("npu-3",), None)}, {}),
    "the chip": ([CHIP], CHIP, {}, {"n-npu-3": None}),
    "one of two chips": (
        [CHIP],
        Isolation("n", ("npu-4", "npu-3")),
        {"n-npu-4": (("npu-4",), None)},
        {"n-npu-3": None},
    ),
    "both of them": (
        [Isolation("n", ("npu-3", "npu-4"))],
        CHIP,
        {},
        {"n-npu-3-npu-4": (("npu-4",), None)},
    ),
    "a drain becomes an isolation": ([AHEAD], NODE, {"n-ahead": ((), None)}, {"n-ahead": None}),
    "a drain is no less": ([NODE], AHEAD, {}, {"n": None}),
    "another time": (
        [AHEAD],
        Isolation("n", start=2 * SECOND),
        {"n-ahead": ((), 2 * SECOND)},
        {"n-ahead": None},
    ),
    "two of one": ([NODE, AHEAD], NODE, {}, {"n": None, "n-ahead": None}),
}


@pytest.mark.parametrize("case", CHANGES)
def test_what_commands_write(case: str) -> None:
    existing, wanted, isolated, unisolated = CHANGES[case]
    assert words(isolate_changes(named(*existing), wanted)) == isolated
    assert words(unisolate_changes(named(*existing), wanted)) == unisolated


def test_an_isolation_of_something_else_that_has_its_name_stays() -> None:
    """A user chose the name, or a node is called as a command calls a SuperPoD."""
    others = [
        Isolation("m", name="n"),
        Isolation("m", ("npu-1",), name="n-2"),
        Isolation("superpod-7", name="superpod-7"),
    ]
    assert words(isolate_changes(iter(others), NODE)) == {"n-3": ((), None)}
    assert words(isolate_changes(others, Isolation(superpod=7))) == {"superpod-7-2": ((), None)}


def test_only_what_is_isolated_now_counts_for_a_device_plugin() -> None:
    chips = ("npu-2", "npu-3")
    for one, expected in (
        (NODE, {"npu-2", "npu-3"}),
        (CHIP, {"npu-3"}),
        (AHEAD, set()),
        (Isolation(superpod=1), set()),
    ):
        assert isolated_chips([one], "n", chips).keys() == expected
        assert isolated_chips([one], "m", chips) == {}


def test_the_schema_of_the_chart_has_the_fields_that_are_read() -> None:
    text = (CHART / "templates" / "crd-isolations.yaml").read_text(encoding="utf-8")
    plain = "\n".join(line for line in text.splitlines() if "{{" not in line)
    schema = yaml.safe_load(plain)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    fields = {one.encode_name for one in msgspec.structs.fields(IsolationSpec)}
    assert set(schema["properties"]["spec"]["properties"]) == fields

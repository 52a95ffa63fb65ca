"""NodeReservations: what is read and written, and the schema of the chart."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml

from ringwise.manifests.objects.custom_resources import CustomResourceWire
from ringwise.manifests.objects.node_reservations import (
    HolderWire,
    NodeReservationSpec,
    node_reservation_body,
    node_reservation_from_wire,
)
from ringwise.manifests.text.errors import Findings
from ringwise.state.model import NodeReservation
from ringwise_bench.checkout import CHART

BEGIN, END = "2026-01-31T08:00:00Z", "2026-01-31T09:00:00Z"
GOOD: dict[str, Any] = {
    "nodeNames": ["a", "b"],
    "holder": {"queue": "research"},
    "startTime": BEGIN,
    "endTime": END,
}
_TARGETS = "nodeNames, nodeSelector, leafSwitch, superPod"


def read(spec: Any, **document: Any) -> tuple[NodeReservation, list[str]]:
    body = {"metadata": {"name": "night", "creationTimestamp": BEGIN}, "spec": spec, **document}
    found = Findings("here")
    one = node_reservation_from_wire(
        msgspec.json.decode(msgspec.json.encode(body), type=CustomResourceWire), found
    )
    return one, [f"{error.field}: {error.message}" for error in found.errors]


def without(*names: str, **more: Any) -> dict[str, Any]:
    return {name: value for name, value in GOOD.items() if name not in names} | more


WRONG: dict[str, tuple[Any, str]] = {
    "no spec": (None, "spec.holder: Required value"),
    "a list": ([], "spec.holder: Required value"),
    "text": ("x", "spec: "),
    "no nodes": (without("nodeNames"), f"spec: must have exactly one of {_TARGETS}, has none"),
    "two targets": (
        {**GOOD, "superPod": 1},
        f"spec: must have exactly one of {_TARGETS}, has nodeNames and superPod",
    ),
    "an empty target": ({**GOOD, "nodeNames": []}, "spec.nodeNames: must not be empty"),
    "a node twice": ({**GOOD, "nodeNames": ["a", "a"]}, "spec.nodeNames: must not name a node twice"),
    "too many nodes": (
        {**GOOD, "nodeNames": [f"n{number}" for number in range(5001)]},
        "spec.nodeNames: Invalid value: a list: must be a list of at most 5000 entries",
    ),
    "a number": ({**GOOD, "nodeNames": [3]}, "spec.nodeNames[0]: "),
    "a negative id": (
        without("nodeNames", superPod=-1),
        "spec.superPod: Invalid value: -1: must be a whole number of 0 or more",
    ),
    "no holder": (without("holder"), "spec.holder: Required value"),
    "for none": ({**GOOD, "holder": {}}, "spec.holder: must have exactly one of queue and namespace"),
    "for two": (
        {**GOOD, "holder": {"queue": "a", "namespace": "b"}},
        "spec.holder: must have exactly one of queue and namespace",
    ),
    "no end": (without("endTime"), "spec.endTime: Required value"),
    "no time": ({**GOOD, "endTime": "tomorrow"}, "spec.endTime: "),
    "backwards": ({**GOOD, "endTime": BEGIN}, "spec.endTime: must be later than startTime"),
    "before its creation": (
        without("startTime", endTime="2026-01-30T08:00:00Z"),
        "spec.endTime: must be later than startTime, or than the creation without one",
    ),
    "for years": ({**GOOD, "endTime": "2028-01-31T08:00:00Z"}, "spec.endTime: must be at most 366 days"),
    "a field of a newer version": ({**GOOD, "exclusive": True}, "spec.exclusive: "),
    "a holder of a newer version": (
        {**GOOD, "holder": {"queue": "a", "user": "b"}},
        "spec.holder.user: ",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named_with_its_field(case: str) -> None:
    spec, expected = WRONG[case]
    _, errors = read(spec)
    assert any(error.startswith(expected) for error in errors), errors


@pytest.mark.parametrize(
    ("target", "field", "value"),
    [
        ({"nodeSelector": {"rack": "7", "a": "b"}}, "selector", (("a", "b"), ("rack", "7"))),
        ({"leafSwitch": "10.0.0.1"}, "switch", "10.0.0.1"),
        ({"superPod": 0}, "superpod", 0),
    ],
)
def test_nodes_are_selected_in_other_ways(target: dict[str, Any], field: str, value: object) -> None:
    one, errors = read(without("nodeNames", **target))
    assert errors == []
    assert (one.nodes, getattr(one, field)) == ((), value)


def test_what_is_written_is_what_is_read() -> None:
    second = 10**9
    one = NodeReservation("night", ("a", "b"), 5 * second, 60 * second, namespace="team", reason="course")
    body = node_reservation_body(one)
    found = Findings("here")
    assert node_reservation_from_wire(msgspec.convert(body, CustomResourceWire), found) == one
    assert not found.errors


def test_only_the_accepted_generation_counts() -> None:
    for generation, accepted in ((2, True), (3, False)):
        condition = {"type": "Accepted", "status": "True", "observedGeneration": 2}
        meta = {"name": "night", "generation": generation, "annotations": {"ringwise.io/user": "ana"}}
        one, errors = read(GOOD, metadata=meta, status={"conditions": [condition]})
        assert errors == []
        assert (one.accepted, one.generation, one.by) == (accepted, generation, "ana")


def test_it_begins_when_it_was_created_if_it_does_not_say() -> None:
    one, errors = read(without("startTime"))
    assert errors == []
    assert one.start == one.created > 0


def test_the_schema_of_the_chart_has_the_fields_that_are_read() -> None:
    text = (CHART / "templates" / "crd-nodereservations.yaml").read_text(encoding="utf-8")
    plain = "\n".join(line for line in text.splitlines() if "{{" not in line)
    spec = yaml.safe_load(plain)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]

    def names(struct: type[msgspec.Struct]) -> tuple[set[str], set[str]]:
        fields = msgspec.structs.fields(struct)
        return {one.encode_name for one in fields}, {one.encode_name for one in fields if one.required}

    assert (set(spec["properties"]), set(spec["required"])) == names(NodeReservationSpec)
    assert set(spec["properties"]["holder"]["properties"]) == names(HolderWire)[0]

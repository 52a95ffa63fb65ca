"""Sizes that no real job has are refused where the object is read, and dropped where the pod runs already."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from ringwise.device.allocation import listed_chips
from ringwise.manifests.bundle import Bundle, read_bundle
from ringwise.manifests.objects.chips import chips_in
from ringwise.manifests.text import limits
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.limits import ObjectLimit
from ringwise.manifests.text.strings import shared
from ringwise.topology.nearest import nearest
from tests.builders.objects import hyper_node
from tests.builders.values import CHIP
from tests.manifests.builders import Plain, pod, pod_group, task, text_of, vcjob

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def labels(count: int) -> dict[str, str]:
    return {f"label-{number}": "x" for number in range(count)}


def expressions(count: int, values: int = 1) -> list[Plain]:
    wanted = [str(value) for value in range(values)]
    return [{"key": f"k{number}", "operator": "In", "values": wanted} for number in range(count)]


def node_affinity(kind: str, terms: int, size: int = 1, values: int = 1) -> Plain:
    one = {"matchExpressions": expressions(size, values)}
    if kind == REQUIRED:
        return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [one] * terms}}}
    return {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": one}] * terms}}


def pod_affinity(name: str, kind: str, terms: int, size: int = 1, values: int = 1) -> Plain:
    selector = {"matchExpressions": expressions(size, values)}
    one = {"topologyKey": "zone", "labelSelector": selector}
    return {name: {kind: [one if kind == REQUIRED else {"weight": 1, "podAffinityTerm": one}] * terms}}


SPREAD = "topologySpreadConstraints"


def spread_over(key: str, wanted: list[Plain] | None = None) -> Plain:
    return {
        "topologyKey": key,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchExpressions": wanted or []},
    }


#: A part of a pod's spec with so many of what a limit counts.
SPECS: list[tuple[str, ObjectLimit, Any]] = [
    ("nodeSelector", limits.SELECTOR, lambda most: {"nodeSelector": labels(most)}),
    ("spread constraints", limits.SPREAD, lambda most: {SPREAD: [spread_over(f"k{n}") for n in range(most)]}),
    (
        "expressions of a spread constraint",
        limits.REQUIREMENTS,
        lambda most: {SPREAD: [spread_over("zone", expressions(most))]},
    ),
    (
        "expressions of several spread constraints",
        limits.REQUIREMENTS,
        lambda most: {
            SPREAD: [spread_over("zone", expressions(most - 10)), spread_over("rack", expressions(10))]
        },
    ),
    (
        "values of spread constraints",
        limits.VALUES,
        lambda most: {SPREAD: [spread_over("zone", expressions(1, most))]},
    ),
    ("tolerations", limits.TOLERATIONS, lambda most: {"tolerations": [{"operator": "Exists"}] * most}),
    (
        "required node terms",
        limits.TERMS,
        lambda most: {"affinity": node_affinity(REQUIRED, most)},
    ),
    (
        "preferred node terms",
        limits.TERMS,
        lambda most: {"affinity": node_affinity(PREFERRED, most)},
    ),
    (
        "affinity to pods",
        limits.TERMS,
        lambda most: {"affinity": pod_affinity("podAffinity", REQUIRED, most)},
    ),
    (
        "anti-affinity to pods",
        limits.TERMS,
        lambda most: {"affinity": pod_affinity("podAntiAffinity", REQUIRED, most)},
    ),
    (
        "preferred anti-affinity",
        limits.TERMS,
        lambda most: {"affinity": pod_affinity("podAntiAffinity", PREFERRED, most)},
    ),
    ("expressions", limits.REQUIREMENTS, lambda most: {"affinity": node_affinity(REQUIRED, 1, most)}),
    (
        "expressions about pods",
        limits.REQUIREMENTS,
        lambda most: {"affinity": pod_affinity("podAffinity", REQUIRED, 1, most)},
    ),
    (
        "expressions of terms of two kinds",
        limits.REQUIREMENTS,
        lambda most: {
            "affinity": node_affinity(REQUIRED, 1, most // 2)
            | pod_affinity("podAffinity", REQUIRED, 1, most - most // 2)
        },
    ),
    ("values", limits.VALUES, lambda most: {"affinity": node_affinity(REQUIRED, 1, 1, most)}),
    (
        "resources",
        limits.RESOURCES,
        lambda most: {
            "containers": [
                {
                    "name": "main",
                    "resources": {
                        "limits": {CHIP: 1, **{f"example.com/r{number}": 1 for number in range(most - 1)}}
                    },
                }
            ]
        },
    ),
    (
        "ports of many containers",
        limits.PORTS,
        lambda most: {
            "containers": [
                {
                    "name": f"c{number}",
                    "ports": [{"hostPort": 1 + number}],
                    "resources": {} if number else {"limits": {CHIP: 1}},
                }
                for number in range(most)
            ]
        },
    ),
    (
        "ports",
        limits.PORTS,
        lambda most: {
            "containers": [
                {
                    "name": "main",
                    "resources": {"limits": {CHIP: 1}},
                    "ports": [{"hostPort": 1 + number} for number in range(most)],
                }
            ]
        },
    ),
]
NAMES = [name for name, _, _ in SPECS]


def read(*documents: Plain) -> Bundle:
    return read_bundle(["-"], stdin=text_of(*documents))


def with_spec(part: Plain, **more: Any) -> Plain:
    document = pod(**more)
    document["spec"].update(part)
    return document


@pytest.mark.parametrize(("name", "limit", "part"), SPECS, ids=NAMES)
def test_a_pod_at_the_limit_is_read_and_one_above_it_is_refused(
    name: str, limit: ObjectLimit, part: Any
) -> None:
    assert not read(with_spec(part(limit.most))).errors
    errors = read(with_spec(part(limit.most + 1))).errors
    assert len(errors) == 1
    assert f"{limit.most + 1:,} {limit.counted}; at most {limit.most:,} are allowed" in str(errors[0])


@pytest.mark.parametrize(("name", "limit", "part"), SPECS, ids=NAMES)
def test_of_a_bound_pod_the_field_is_dropped_and_its_chips_are_read(
    name: str, limit: ObjectLimit, part: Any
) -> None:
    large = with_spec(part(limit.most + 1), node_name="n1", annotations={CHIP: "Ascend910-3"})
    found = read(large)
    assert not found.errors
    plain = read(pod(node_name="n1", annotations={CHIP: "Ascend910-3"})).pods[0]
    assert found.pods[0].holds == plain.holds == (3,)
    assert found.pods[0].cls == plain.cls


def test_labels_of_a_waiting_pod_are_refused_and_those_of_a_bound_one_dropped() -> None:
    many = labels(limits.LABELS.most + 1)
    assert "metadata.labels" in str(read(pod(labels=many)).errors[0])
    found = read(pod(labels=many, node_name="n1", annotations={CHIP: "Ascend910-3"}))
    assert not found.errors
    assert found.pods[0].labels == {}


def task_asking(number: int) -> Plain:
    """Each task asks for a resource of its own: their PodGroup and the queue would have them all."""
    made = task(f"t{number}", 1, 0)
    made["template"]["spec"]["containers"][0]["resources"] = {"limits": {f"example.com/r{number}": 1}}
    return made


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (pod_group(priorityClassName="p" * 254), "spec.priorityClassName"),
        (pod_group(queue="q" * 254), "spec.queue"),
        (pod_group(minTaskMember={f"t{n}": 1 for n in range(1025)}), "spec.minTaskMember"),
        (pod_group(minResources={f"r{n}": 1 for n in range(1025)}), "spec.minResources"),
        (vcjob(queue="q" * 254), "spec.queue"),
        (vcjob(priorityClassName="p" * 1_400_000), "spec.priorityClassName"),
        (vcjob(tasks=[task(f"t{n}", 1, 0) for n in range(1025)]), "spec.tasks"),
        (vcjob(tasks=[task_asking(n) for n in range(129)]), "spec.tasks"),
        (vcjob(policies=[{"event": "PodFailed", "action": "AbortJob"}] * 65), "spec.policies"),
        (
            vcjob(policies=[{"events": [f"E{n}" for n in range(65)], "action": "AbortJob"}]),
            "spec.policies[0].events",
        ),
        (vcjob(plugins={"ssh": [f"--x{n}" for n in range(256)]}), "spec.plugins"),
        (vcjob(plugins={f"p{n}": [] for n in range(257)}), "spec.plugins"),
        (
            vcjob(tasks=[task("a", 1, 0), task("b", 1, 0, dependsOn={"name": ["a"] * 8193})]),
            "spec.tasks.dependsOn",
        ),
        (hyper_node("s1", *map(str, range(16_385))), "spec.members"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_sizes_of_jobs_and_groups(document: Plain, field: str) -> None:
    errors = read(document).errors
    assert [error.field for error in errors] == [field]
    assert len(str(errors[0])) < 300


def test_the_limits_are_above_what_real_jobs_use() -> None:
    assert limits.TERMS.most >= 200
    assert limits.VALUES.most >= 5_000
    assert limits.TASKS.most >= 1_000


def test_long_strings_are_not_kept_beyond_their_objects() -> None:
    first, second = "x" * 10_000, "".join(["x"] * 10_000)
    assert first is not second
    shared(first)
    assert shared(second) is second


def test_long_annotations_are_not_kept_beyond_their_objects() -> None:
    """Each is within what an API server accepts, and each of these readers remembers what it read."""
    readers: tuple[Callable[[str], object], ...] = (
        lambda text: chips_in(f"Ascend910-0{text}", CHIP, "annotation", Findings("pod")),
        lambda text: listed_chips(f"Ascend910-0{text}", CHIP),
        lambda text: nearest(f"a{text}", ["chip8-node8"]),
    )
    for reader in readers:
        tracemalloc.start()
        try:
            for length in range(100):
                reader(" " * (100_000 + length))
            assert tracemalloc.get_traced_memory()[0] < 1 << 20
        finally:
            tracemalloc.stop()

"""The worked cases of one node's chips as manifests, in every form that a cluster may have."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.builders.objects import (
    cluster_report,
    filler,
    node,
    node_report,
    pod,
    pod_group,
    pod_spec,
    report,
    vcjob,
)
from tests.place.asking import Plain

CASES: list[Plain] = json.loads((Path(__file__).parents[1] / "vectors" / "node.json").read_text())

POLICY = "huawei.com/schedule_policy"
TYPE = "accelerator-type"


@dataclass(frozen=True)
class BoardWords:
    """How a job selects a board, and how many chips such a node has."""

    chips: int
    policy: str = ""
    accelerator_type: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    #: Its score reads the list of unhealthy chips, so no others may be made unhealthy.
    counts_unhealthy: bool = False


BOARDS = {
    "ascend910x8_2021": BoardWords(8),
    "module910x8": BoardWords(8, accelerator_type="module"),
    "half910x4": BoardWords(4, "chip4-node4", "half", counts_unhealthy=True),
    "card910": BoardWords(8, "chip1-node2", "card-910b-2", counts_unhealthy=True),
    "module910bx8": BoardWords(8, "chip8-node8", "module-910b-8", counts_unhealthy=True),
    "module910bx16": BoardWords(16, "chip8-node16", "module-910b-16"),
    "module910a3x16": BoardWords(16, "chip2-node16", "module-a3-16"),
    "chip4node8": BoardWords(8, "chip4-node8"),
    "chip4node16": BoardWords(16, "chip4-node16"),
    "chip1node8": BoardWords(8, "chip1-node8", counts_unhealthy=True),
    "chip1node16": BoardWords(16, "chip1-node16", counts_unhealthy=True),
    "card310x4": BoardWords(16, labels=(("npu-310-strategy", "card"),)),
    "chip310x4": BoardWords(16, labels=(("npu-310-strategy", "chip"),), counts_unhealthy=True),
    "base310p": BoardWords(64, counts_unhealthy=True),
    "card310px2": BoardWords(16, labels=(("duo", "true"), ("npu-310-strategy", "card"))),
    "chip310px2": BoardWords(16, labels=(("duo", "true"), ("npu-310-strategy", "chip"))),
}

#: Where the chips of a node are reported.
TELLERS = ("devices", "report", "stale report", "devices and report", "aggregate", "allocatable")
HOLDERS = ("one pod", "pod per chip", "mounted", "other scheduler")
SHAPES = ("pod", "vcjob", "vcjob template", "pod group", "pods of a group")
CHOOSERS = ("policy", "type")
#: YAML is slow to read and means the same, so it takes its turn less often.
FORMS = (
    "json-list",
    "json-documents",
    "json-list",
    "json-documents",
    "yaml-documents",
    "json-list",
    "yaml-list",
)


@dataclass(frozen=True)
class Way:
    """One way to write a case down."""

    teller: str
    holder: str
    shape: str
    chooser: str
    form: str
    self_maintain: bool

    @property
    def settings(self) -> dict[str, str]:
        return {"self-maintain-available-card": str(self.self_maintain).lower()}


@dataclass(frozen=True)
class NodeFacts:
    """One node of a case."""

    name: str
    free: tuple[int, ...]
    size: int
    allocatable: int
    unhealthy: tuple[int, ...]
    #: None: the node publishes no network health.
    network: tuple[int, ...] | None
    labels: tuple[tuple[str, str], ...]

    @property
    def others(self) -> list[int]:
        return [chip for chip in range(self.size) if chip not in self.free and chip not in self.unhealthy]

    @property
    def held(self) -> list[int]:
        """As many of the chips that are neither free nor faulty as Kubernetes counts in use."""
        return self.others[: self.allocatable - len(self.free)]

    @property
    def gone(self) -> list[int]:
        """The rest: not offered by Kubernetes, and not there."""
        return self.others[self.allocatable - len(self.free) :]

    @property
    def needs_report(self) -> bool:
        return bool(self.unhealthy) or self.network is None or bool(self.network)


def facts_of(case: Plain, reported: Plain, name: str) -> NodeFacts:
    words = BOARDS[case["board"]]
    unhealthy = reported.get("unhealthy") or case.get("unhealthy") or {"chip": [], "network": []}
    free = tuple(reported["free_chips"] or ())
    faulty = tuple(unhealthy["chip"])
    size = max((words.chips, *(chip + 1 for chip in (*free, *faulty))))
    allocatable = reported.get("allocatable", reported.get("capacity"))
    network = unhealthy["network"]
    return NodeFacts(
        name,
        free,
        size,
        size - len(faulty) if allocatable is None else allocatable,
        faulty,
        None if network is None else tuple(network),
        tuple((reported.get("node_labels") or {}).items()),
    )


def can_tell(facts: NodeFacts, teller: str) -> bool:
    if teller == "devices":
        return not facts.needs_report
    if teller == "allocatable":
        return not facts.needs_report and not facts.gone and facts.allocatable == facts.size
    return True


def node_objects(facts: NodeFacts, way: Way, resource: str, labels: dict[str, str]) -> Iterator[Plain]:
    listed = sorted({*facts.free, *facts.held, *facts.unhealthy})
    yield node(
        facts.name,
        chips=facts.allocatable,
        capacity=facts.size - len(facts.gone),
        resource=resource,
        devices=listed if way.teller.startswith("devices") else None,
        labels={**labels, **dict(facts.labels)},
    )
    if way.teller not in ("devices", "allocatable"):
        free = [*facts.free, *facts.held] if way.teller == "stale report" else facts.free
        reported = report(free, unhealthy=facts.unhealthy, network=facts.network, resource=resource)
        if way.teller == "aggregate":
            yield cluster_report({facts.name: reported}, number=int(facts.name.rpartition("-")[2]))
        else:
            yield node_report(facts.name, reported)
    yield from fillers(facts, way, resource)


def fillers(facts: NodeFacts, way: Way, resource: str) -> Iterator[Plain]:
    groups = [[chip] for chip in facts.held] if way.holder == "pod per chip" else [facts.held]
    for number, chips in enumerate(groups):
        if not chips:
            continue
        key = "huawei.com/AscendReal" if way.holder == "mounted" else resource
        built = filler(f"old-{facts.name}-{number}", facts.name, chips, resource, key=key)
        if way.holder == "other scheduler":
            built["spec"]["schedulerName"] = "default-scheduler"
        yield built


def job_objects(
    case: Plain, way: Way, requests: list[int], asked: dict[str, str] | None = None
) -> tuple[list[Plain], dict[str, str]]:
    """The job of a case with node selector `asked`, and the labels its nodes need."""
    words = BOARDS[case["board"]]
    resource = case["resource"]
    selector = dict(asked or {})
    notes: dict[str, str] = {}
    if words.accelerator_type and (way.chooser == "type" or not words.policy):
        selector[TYPE] = words.accelerator_type
    elif words.policy:
        notes[POLICY] = words.policy
    node_labels = dict(selector)
    labels = {**dict(words.labels), **(case.get("job_labels") or {})}
    specs = [chip_spec(request, resource, selector) for request in requests]
    if way.shape == "pod" and len(specs) == 1:
        return [pod("job", specs[0], labels=labels, annotations=notes)], node_labels
    if way.shape in ("vcjob", "vcjob template", "pod"):
        in_template = way.shape == "vcjob template"
        tasks = [
            (f"task{number}", len(list(same)), spec)
            for number, (spec, same) in enumerate(itertools.groupby(specs))
        ]
        return [
            vcjob(
                "job",
                tasks,
                labels={} if in_template else labels,
                annotations={} if in_template else notes,
                pod_labels=labels if in_template else {},
                pod_annotations=notes if in_template else {},
            )
        ], node_labels
    on_pods = way.shape == "pods of a group"
    members = [
        pod(
            f"job-{number}",
            spec,
            group="job",
            labels=labels if on_pods else {},
            annotations=notes if on_pods else {},
        )
        for number, spec in enumerate(specs)
    ]
    gang = pod_group(
        "job",
        len(specs),
        labels={} if on_pods else labels,
        annotations={} if on_pods else notes,
        phase="Inqueue",
    )
    return [gang, *members], node_labels


def chip_spec(request: int, resource: str, selector: dict[str, str]) -> Plain:
    """Unlike a pod that never heard of chips, one may ask for none in so many words."""
    spec = pod_spec(request, resource, selector=selector)
    if not request:
        for part in spec["containers"][0]["resources"].values():
            part[resource] = 0
    return spec


def settings_of(case: Plain, way: Way) -> dict[str, str]:
    rule = "document" if case["board"].endswith("_2021") else "vendor"
    return {**way.settings, "multi-pod-requests": rule}


@cache
def ways(tellers: tuple[str, ...]) -> tuple[Way, ...]:
    found = itertools.product(tellers, HOLDERS, SHAPES, CHOOSERS, FORMS, (True, False))
    return tuple(Way(*one) for one in found)

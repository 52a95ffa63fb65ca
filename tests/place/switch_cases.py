"""The worked cases of leaf switches as manifests: states are carried by running pods of labeled jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.builders.objects import chip_list, filler, node, pod, pod_group, pod_spec, topology, vcjob
from tests.builders.values import CHIP
from tests.place.asking import Plain

CASES: list[Plain] = json.loads((Path(__file__).parents[1] / "vectors" / "switch.json").read_text())

LABEL = "tor-affinity"
COMMON, MODEL = "normal-schema", "large-model-schema"
VERSIONS = {"v1": "1.0", "v2": "2.0", "single": "2.0"}
CLASSES = {"large_model": "foundation-model", "normal": "common", "fill": "padding"}
#: A foundation model has at least this many pods.
MODEL_PODS = 4

JOB_SHAPES = ("vcjob", "vcjob template", "pod group", "pods of a group")
#: Where pods of a running foundation model go that its switch has no room for.
SPARE_PLACES = ("outside", "same node")


@dataclass
class Running:
    """A running job that gives switches the states of the case."""

    name: str
    label: str
    #: (node, mark)
    pods: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class Cluster:
    """Nodes, switches and running jobs of one case, while they are put together."""

    switches: list[tuple[str, list[tuple[str, int]]]] = field(default_factory=list)
    ips: dict[str, str] = field(default_factory=dict)
    running: list[Running] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)

    def add_node(self, name: str) -> str:
        number = len(self.ips)
        self.ips[name] = f"10.{number >> 8}.{number & 255}.1"
        return self.ips[name]

    def add_busy_switch(self) -> str:
        """One more switch whose only node is busy: no job can use it, but jobs can be under it."""
        name = f"busy-{len(self.switches)}"
        self.switches.append((f"switch-of-{name}", [(self.add_node(name), 0)]))
        return name

    def add_outside_node(self) -> str:
        name = f"outside-{len(self.ips)}"
        self.add_node(name)
        return name


class CannotTellError(Exception):
    """No live pod can carry this state."""


def limit_of(case: Plain) -> int:
    return int(case["shared_tor_num"] or 2)


def build(case: Plain, spare: str) -> Cluster:
    cluster = Cluster()
    for tor in case["tors"]:
        servers = [(cluster.add_node(one["name"]), one["slice_id"]) for one in tor["nodes"]]
        cluster.switches.append((tor["ip"], servers))
        cluster.busy += [one["name"] for one in tor["nodes"] if not one["free"]]
    listed = bool(case.get("other_jobs"))
    for job in case.get("other_jobs") or ():
        marks = [(one["node"], one["annotations"].get("isSharedTor", "")) for one in job["pods"]]
        cluster.running.append(Running(job["name"], job["tor_affinity_label"], marks))
    own = {one["node"] for one in case.get("pods") or () if one["node"]}
    for number, tor in enumerate(case["tors"]):
        names = {one["name"] for one in tor["nodes"]}
        if tor["state"] != "idle" and not listed and not names & own:
            carry_state(cluster, case, tor, f"owner-{number}", spare)
    taken = own | {name for job in cluster.running for name, _ in job.pods}
    cluster.busy = [name for name in cluster.busy if name not in taken]
    return cluster


def carry_state(cluster: Cluster, case: Plain, tor: Plain, name: str, spare: str) -> None:
    busy = [one["name"] for one in tor["nodes"] if not one["free"]]
    if not busy:
        raise CannotTellError(tor["ip"])
    common = tor.get("only_common", True)
    job = Running(name, COMMON if common else MODEL)
    if case["version"] == "v2":
        mark = "1" if tor["state"] == "shared" else "2"
        job.pods = [(one, mark) for one in busy]
        elsewhere = tor.get("owner_shared", 0) if tor["state"] == "exclusive" else 0
        if not tor["healthy"]:
            elsewhere = limit_of(case)
        job.pods += [(cluster.add_busy_switch(), "1") for _ in range(elsewhere)]
    else:
        job.pods = [(one, "") for one in busy]
        if tor.get("cross_model"):
            job.pods.append((cluster.add_busy_switch(), ""))
    while not common and len(job.pods) < MODEL_PODS:
        # The model has more pods: under no switch at all, or several on one node.
        job.pods.append(job.pods[0] if spare == "same node" else (cluster.add_outside_node(), "2"))
    cluster.running.append(job)


def cluster_objects(case: Plain, cluster: Cluster) -> Iterator[Plain]:
    level = "single_layer" if case["version"] == "single" else None
    yield topology(cluster.switches, case["tor_count"], level)
    for name, ip in cluster.ips.items():
        yield node(name, ip=ip)
    for name in cluster.busy:
        yield filler(f"filler-{name}", name, range(8))
    for number, job in enumerate(cluster.running):
        yield from running_objects(job, labels_on_pods=bool(number % 2))


def running_objects(job: Running, labels_on_pods: bool) -> Iterator[Plain]:
    labels = {LABEL: job.label}
    yield pod_group(job.name, len(job.pods), labels={} if labels_on_pods else labels, phase="Running")
    sharing = {name: [one for one, _ in job.pods].count(name) for name, _ in job.pods}
    seen: dict[str, int] = {}
    for rank, (name, mark) in enumerate(job.pods):
        size = 8 // sharing[name]
        first = seen.get(name, 0) * size
        seen[name] = seen.get(name, 0) + 1
        notes = {CHIP: chip_list(CHIP, range(first, first + size)), "hccl/rankIndex": str(rank)}
        if mark:
            notes["isSharedTor"] = mark
        yield pod(
            f"{job.name}-{rank}",
            pod_spec(size),
            on=name,
            group=job.name,
            labels=labels if labels_on_pods else {},
            annotations=notes,
        )


def job_objects(case: Plain, shape: str) -> list[Plain]:
    labels = {LABEL: case["tor_affinity_label"]}
    count: int = case["job_pods"]
    if case.get("pods"):
        return partial_objects(case, shape, labels)
    if shape.startswith("vcjob"):
        inside = shape == "vcjob template"
        return [
            vcjob(
                "J",
                [("worker", count, pod_spec(8))],
                labels={} if inside else labels,
                pod_labels=labels if inside else {},
            )
        ]
    inside = shape == "pods of a group"
    return [
        pod_group("J", count, labels={} if inside else labels, phase="Inqueue"),
        *(pod(f"J-{rank}", pod_spec(8), group="J", labels=labels if inside else {}) for rank in range(count)),
    ]


def partial_objects(case: Plain, shape: str, labels: dict[str, str]) -> list[Plain]:
    """A job of which some pods run and others wait; a vcjob leaves the waiting ones to be made."""
    objects: list[Plain] = []
    as_vcjob = shape.startswith("vcjob")
    if as_vcjob:
        built = vcjob("J", [("worker", case["job_pods"], pod_spec(8))], labels=labels)
        built["metadata"]["uid"] = "77"
        objects.append(built)
    else:
        objects.append(pod_group("J", case["job_pods"], labels=labels, phase="Running"))
    for one in case["pods"]:
        rank = one["rank"]
        if one["node"] is None and as_vcjob:
            continue
        notes = dict(one["annotations"])
        if one["node"] is not None:
            notes[CHIP] = chip_list(CHIP, range(8))
        if shape in ("pod group", "vcjob template"):
            notes["hccl/rankIndex"] = str(rank)
        objects.append(
            pod(
                f"J-worker-{rank}",
                pod_spec(8),
                on=one["node"],
                phase=one["phase"],
                group="J-77" if as_vcjob else "J",
                labels={**labels, "volcano.sh/job-name": "J"},
                annotations=notes,
            )
        )
    return objects


def settings_of(case: Plain) -> dict[str, str]:
    settings = {"nslb-version": VERSIONS[case["version"]]}
    if case["shared_tor_num"]:
        settings["shared-tor-num"] = str(case["shared_tor_num"])
    return settings

"""The worked cases of racks, through `ringwise place` (R1 to R3)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

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
from tests.examples import sample
from tests.place.asking import Plain, ask, job_of

CASES: list[Plain] = json.loads((Path(__file__).parents[1] / "vectors" / "rack.json").read_text())
#: A fault is a story over time; those cases go through the library.
WHOLE = [case for case in CASES if "fault" not in case]
NPU = "huawei.com/npu"
POLICY = {"huawei.com/schedule_policy": "chip8-node8-ra64-sp"}
TELLERS = ("report", "annotation", "label", "aggregate")
SHAPES = ("vcjob", "vcjob template", "pod group")


def rack_nodes(
    superpod: int, rack: int, free: int, teller: str = "report", *, network_faults: int = 0, busy: int = 0
) -> Iterator[Plain]:
    """Nodes of one rack; busy ones come first by name, those with a network fault last."""
    told: dict[str, Plain] = {}
    for number in range(busy + free):
        name = f"sp{superpod}-r{rack}-{number}"
        place = (str(superpod), str(rack))
        labels = dict(
            zip(("huawei.com/topotree.superpodid", "huawei.com/topotree.rackid"), place, strict=True)
        )
        notes = dict(zip(("superPodID", "rackID"), place, strict=True))
        yield node(
            name,
            resource=NPU,
            labels=labels if teller == "label" else {},
            annotations=notes if teller == "annotation" else {},
        )
        if number < busy:
            yield filler(f"old-{name}", name, range(8), NPU)
        faulty = number >= busy + free - network_faults
        reported = teller in ("report", "aggregate")
        told[name] = report(
            [] if number < busy else range(8),
            network=[3] if faulty else [],
            resource=NPU,
            superpod=superpod if reported else None,
            rack=rack if reported else None,
        )
    if teller == "aggregate" and told:
        yield cluster_report(told, number=superpod * 100 + rack)
    else:
        yield from (node_report(name, facts) for name, facts in told.items())


def cluster(case: Plain, teller: str) -> list[Plain]:
    objects: list[Plain] = []
    for superpod in case["superpods"]:
        for rack in superpod["racks"]:
            objects += rack_nodes(
                superpod["id"],
                rack["id"],
                rack["free_nodes"],
                teller,
                network_faults=rack.get("network_unhealthy_nodes", 0),
            )
    return objects


def job_objects(
    pods: int,
    sp_block: int | None,
    ra_block: int | None,
    shape: str = "vcjob",
    *,
    chips: int = 8,
    soft: bool = False,
    ub_memory: bool = False,
    service: str | None = None,
    name: str = "job",
    minimum: int | None = None,
) -> list[Plain]:
    notes = dict(POLICY)
    if sp_block is not None:
        notes["sp-block"] = str(sp_block)
    if ra_block is not None:
        notes["ra-block"] = str(ra_block)
    if ub_memory:
        notes["huawei.com/schedule_ubmemory"] = "true"
    labels = {"super-pod-affinity": "soft" if soft else "hard"}
    if service is not None:
        labels["inferserviceid"] = service
    spec = pod_spec(chips, NPU)
    if shape == "pod group":
        gang = pod_group(name, minimum or pods, labels=labels, annotations=notes, phase="Inqueue")
        return [gang, *(pod(f"{name}-{rank}", spec, group=name) for rank in range(pods))]
    inside = shape == "vcjob template"
    return [
        vcjob(
            name,
            [("worker", pods, spec)],
            labels={} if inside else labels,
            annotations={} if inside else notes,
            pod_labels=labels if inside else {},
            pod_annotations=notes if inside else {},
        )
    ]


def service_jobs(case: Plain) -> list[Plain]:
    """Other jobs of the same inference service, on nodes of their own in the racks named."""
    objects: list[Plain] = []
    for number, place in enumerate(case["job"].get("service_runs_in", ())):
        name = f"service-{number}"
        objects += [
            node(name, resource=NPU),
            node_report(name, report([], resource=NPU, superpod=place["superpod"], rack=place["rack"])),
            filler(
                f"other-{number}",
                name,
                range(8),
                NPU,
                labels={"inferserviceid": case["job"]["infer_service"]},
            ),
        ]
    return objects


@pytest.mark.parametrize("number", sample(range(len(WHOLE)), 4), ids=lambda number: WHOLE[number]["id"])
def test_worked_case_R1(number: int) -> None:
    case = WHOLE[number]
    job = case["job"]
    objects = [*cluster(case, TELLERS[number % len(TELLERS)]), *service_jobs(case)]
    objects += job_objects(
        job["pods"],
        job["sp_block"],
        job["ra_block"],
        SHAPES[number % len(SHAPES)],
        chips=job["chips_per_pod"],
        soft=job["policy"] == "soft",
        ub_memory=job.get("ubmemory", False),
        service=job.get("infer_service"),
    )
    settings = {
        "super-pod-size": str(case["settings"]["super_pod_size"]),
        "reserve-nodes": str(case["settings"]["reserve_nodes"]),
    }
    check(case, job_of(ask(objects, settings, scores=False), "job"))


def check(case: Plain, job: Plain) -> None:
    expect = case["expect"]
    if not expect["ok"]:
        wanted = "rejected" if expect["stage"] == "validity" else "pending"
        assert job["state"] == wanted, job
        return
    assert job["state"] == "scheduled", job["reason"]
    pods = sorted(job["pods"], key=lambda one: int(one["rank"]))
    asked = case["job"]
    assert [one["rank"] for one in pods] == list(range(asked["pods"]))
    assert len({one["node"] for one in pods}) == asked["pods"]
    block_nodes = max(1, (asked["sp_block"] or asked["pods"] * asked["chips_per_pod"]) // 8)
    counts: dict[tuple[int, int], int] = {}
    for one in pods:
        place = (one["superpod"], one["rack"])
        counts[place] = counts.get(place, 0) + 1
        assert one["node"].startswith(f"sp{place[0]}-r{place[1]}-")
        assert one["logical_superpod"] == one["rank"] // block_nodes
        assert one["annotations"]["super-pod-rank"] == str(one["logical_superpod"])
        assert one["annotations"]["super-pod-id"] == str(one["superpod"])
        assert one["annotations"]["ringwise.io/logical-rack"] == str(one["logical_rack"])
        assert one["chips"] == list(range(asked["chips_per_pod"]))
    assert counts == {(entry["superpod"], entry["rack"]): entry["nodes"] for entry in expect["per_rack"]}
    for block in expect.get("blocks", ()):
        parts: list[list[int]] = []
        for one in pods:
            if one["logical_superpod"] != block["logical_id"]:
                continue
            if not parts or parts[-1][:2] != [one["superpod"], one["rack"]]:
                parts.append([one["superpod"], one["rack"], 0])
            parts[-1][2] += 1
        assert parts == [[part["superpod"], part["rack"], part["nodes"]] for part in block["parts"]]


def test_a_manifest_with_anti_affinity_on_hostnames_is_placed_K() -> None:
    """As the published samples have it: pods of the job keep each other off their nodes."""
    term = {
        "labelSelector": {"matchLabels": {"job-name": "job"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    objects: list[Plain] = []
    for one in [*rack_nodes(0, 0, 4), *rack_nodes(0, 1, 8)]:
        if one["kind"] == "Node":
            one["metadata"]["labels"]["kubernetes.io/hostname"] = one["metadata"]["name"]
        objects.append(one)
    spec = pod_spec(8, NPU, affinity=affinity)
    labels = {"job-name": "job", "ring-controller.atlas": "ascend-npu"}
    notes = {**POLICY, "sp-block": "32", "ra-block": "16"}
    objects.append(vcjob("job", [("worker", 4, spec)], annotations=notes, pod_labels=labels))
    job = job_of(ask(objects, scores=False), "job")
    assert job["state"] == "scheduled", job["reason"]
    assert {one["rack"] for one in job["pods"]} == {0}


def test_logical_racks_are_numbered_through_the_job_R2() -> None:
    objects = [*rack_nodes(0, 0, 8), *rack_nodes(0, 1, 8), *job_objects(16, 64, 32)]
    job = job_of(ask(objects, scores=False), "job")
    assert [one["logical_rack"] for one in job["pods"]] == [rank // 4 for rank in range(16)]
    assert [one["rack"] for one in job["pods"]] == [0] * 8 + [1] * 8


@pytest.mark.parametrize("told", ["missing", "negative"])
def test_nodes_without_a_rack_take_no_part_and_are_named_R1(told: str) -> None:
    rack = None if told == "missing" else -1
    lost: list[Plain] = []
    for number in range(6):
        lost.append(node(f"lost-{number}", resource=NPU))
        lost.append(node_report(f"lost-{number}", report(range(8), resource=NPU, superpod=0, rack=rack)))
    job = job_objects(2, 16, 8)
    waits = job_of(ask([*lost, *job]), "job")
    assert waits["state"] == "pending"
    assert "lost-0" in waits["reason"]["message"]
    first = next(one for one in waits["pods"] if "candidates" in one)
    assert {one["reason"]["code"] for one in first["candidates"]} == {
        "rack-id-missing" if told == "missing" else "rack-id-invalid"
    }
    placed = job_of(ask([*lost, *rack_nodes(7, 2, 3), *job]), "job")
    assert {(one["superpod"], one["rack"]) for one in placed["pods"]} == {(7, 2)}


def test_the_report_of_the_device_plugin_wins_over_the_node_R1() -> None:
    notes = {"superPodID": "1", "rackID": "1"}
    objects: list[Plain] = [
        node("n0", resource=NPU, annotations=notes),
        node_report("n0", report(range(8), resource=NPU, superpod=4, rack=9)),
    ]
    job = job_of(ask([*objects, *job_objects(1, 8, None)], scores=False), "job")
    assert (job["pods"][0]["superpod"], job["pods"][0]["rack"]) == (4, 9)


def test_the_default_super_pod_size_is_48_R1() -> None:
    racks = [one for rack in range(6) for one in rack_nodes(0, rack, 8)]
    assert job_of(ask([*racks, *job_objects(8, 64, 64)], scores=False), "job")["state"] == "scheduled"
    racks += rack_nodes(0, 6, 1)
    waits = job_of(ask([*racks, *job_objects(8, 64, 64)], scores=False), "job")
    assert waits["reason"]["code"] == "superpod-oversize"


def test_a_network_fault_keeps_a_node_from_jobs_of_several_pods_only_R1() -> None:
    rack = [*rack_nodes(0, 0, 2, network_faults=1)]
    waits = job_of(ask([*rack, *job_objects(2, 16, 8)], scores=False), "job")
    assert waits["state"] == "pending"
    alone = job_of(ask([*rack_nodes(0, 0, 1, network_faults=1), *job_objects(1, 8, 8)], scores=False), "job")
    assert alone["state"] == "scheduled"
    assert alone["pods"][0]["chips"] == list(range(8))


def test_pods_without_chips_pass_and_go_anywhere_R1() -> None:
    objects = [*rack_nodes(0, 0, 8), node("plain", chips=None)]
    tasks = [("launcher", 1, pod_spec(0)), ("worker", 8, pod_spec(8, NPU))]
    notes = {**POLICY, "sp-block": "64", "ra-block": "64"}
    job = job_of(ask([*objects, vcjob("job", tasks, annotations=notes)], scores=False), "job")
    assert job["state"] == "scheduled"
    assert sum(one["chips"] == list(range(8)) for one in job["pods"]) == 8


def test_a_small_ub_memory_job_stays_in_one_domain_R1() -> None:
    apart = [*rack_nodes(0, 0, 2), *rack_nodes(0, 16, 2)]
    job = job_objects(4, 32, 8, ub_memory=True)
    assert job_of(ask([*apart, *job], scores=False), "job")["state"] == "pending"
    together = [*rack_nodes(0, 0, 2), *rack_nodes(0, 15, 2)]
    assert job_of(ask([*together, *job], scores=False), "job")["state"] == "scheduled"
    # On pods, too, not only on the PodGroup.
    inside = job_objects(4, 32, 8, "vcjob template", ub_memory=True)
    assert job_of(ask([*apart, *inside], scores=False), "job")["state"] == "pending"


def test_switches_and_racks_cannot_be_combined_S12() -> None:
    notes = {**POLICY, "ra-block": "8"}
    job = vcjob(
        "job", [("w", 2, pod_spec(8, NPU))], labels={"tor-affinity": "normal-schema"}, annotations=notes
    )
    refused = job_of(ask([*rack_nodes(0, 0, 4), job], scores=False), "job")
    assert refused["state"] == "rejected"
    assert refused["reason"]["code"] == "switch-and-superpod"


def test_a_job_of_one_pod_takes_the_fullest_node_R1() -> None:
    objects = [*rack_nodes(0, 0, 2), *rack_nodes(0, 1, 2)]
    objects.append(filler("small", "sp0-r1-1", range(3), NPU))
    job = job_of(ask([*objects, *job_objects(1, 4, None, chips=4)], scores=False), "job")
    assert (job["pods"][0]["node"], job["pods"][0]["chips"]) == ("sp0-r1-1", [3, 4, 5, 6])


def test_pods_that_differ_get_nodes_they_can_take_P8() -> None:
    objects = [*rack_nodes(0, 0, 3), *rack_nodes(0, 1, 3)]
    next(one for one in objects if one["metadata"]["name"] == "sp0-r1-2")["metadata"]["labels"]["role"] = "m"
    tasks = [("master", 1, pod_spec(8, NPU, selector={"role": "m"})), ("worker", 3, pod_spec(8, NPU))]
    notes = {**POLICY, "sp-block": "32", "ra-block": "16"}
    job = job_of(ask([*objects, vcjob("job", tasks, annotations=notes)], scores=False), "job")
    assert job["state"] == "scheduled", job["reason"]
    nodes = {one["name"]: one["node"] for one in job["pods"]}
    assert nodes["job-master-0"] == "sp0-r1-2"
    racks = [one["rack"] for one in sorted(job["pods"], key=lambda one: int(one["rank"]))]
    assert racks == [1, 1, 0, 0]


def test_fewer_pods_than_all_start_as_whole_blocks_P8() -> None:
    objects = [*rack_nodes(0, 0, 5), *rack_nodes(0, 1, 3)]
    job = job_of(ask([*objects, *job_objects(12, 32, 32, "pod group", minimum=4)], scores=False), "job")
    assert job["state"] == "scheduled"
    placed = [one["rank"] for one in job["pods"] if one["node"] is not None]
    assert placed == [0, 1, 2, 3]
    waits = job_of(ask([*objects, *job_objects(12, 32, 32, "pod group", minimum=5)], scores=False), "job")
    assert waits["state"] == "pending"


def test_the_rest_is_placed_later_as_whole_blocks_P8() -> None:
    """Blocks 0 runs; of blocks 1 and 2 only one fits now."""
    notes = {**POLICY, "sp-block": "16", "ra-block": "16"}
    objects = [*rack_nodes(0, 0, 2), *rack_nodes(0, 1, 3), *rack_nodes(0, 2, 1)]
    objects.append(pod_group("job", 2, annotations=notes, phase="Running"))
    for rank in range(6):
        marks = {**notes, "hccl/rankIndex": str(rank)}
        if rank > 1:
            objects.append(pod(f"job-{rank}", pod_spec(8, NPU), group="job", annotations=marks))
            continue
        marks |= {"super-pod-rank": "0", "super-pod-id": "0", "ringwise.io/logical-rack": "0"}
        objects.append(filler(f"job-{rank}", f"sp0-r0-{rank}", range(8), NPU, annotations=marks, group="job"))
    job = job_of(ask(objects, scores=False), "job")
    nodes = {one["rank"]: one["node"] for one in job["pods"]}
    assert (nodes[2], nodes[3]) == ("sp0-r1-0", "sp0-r1-1")
    assert nodes[4] is None
    assert nodes[5] is None


def test_a_lost_pod_comes_back_into_its_logical_rack_R3() -> None:
    notes = {**POLICY, "sp-block": "32", "ra-block": "16"}
    objects = [*rack_nodes(0, 0, 3), *rack_nodes(0, 1, 5), *rack_nodes(1, 0, 8)]
    objects.append(pod_group("job", 4, annotations=notes, phase="Running"))
    for rank, place in enumerate(("sp0-r0-0", "sp0-r0-1", "sp0-r1-0", "")):
        marks = {**notes, "hccl/rankIndex": str(rank)}
        if not place:
            objects.append(pod(f"job-{rank}", pod_spec(8, NPU), group="job", annotations=marks))
            continue
        marks |= {
            "super-pod-rank": "0",
            "super-pod-id": "0",
            "ringwise.io/logical-rack": str(rank // 2),
        }
        objects.append(filler(f"job-{rank}", place, range(8), NPU, annotations=marks, group="job"))
    job = job_of(ask(objects, scores=False), "job")
    lost = next(one for one in job["pods"] if one["rank"] == 3)
    assert (lost["node"], lost["logical_rack"]) == ("sp0-r1-1", 1)

"""The worked cases of SuperPoDs, through `ringwise place`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from tests.builders.values import CHIP
from tests.examples import sample
from tests.place.asking import Plain, ask, job_of

VECTORS = Path(__file__).parents[1] / "vectors"
CASES: list[Plain] = json.loads((VECTORS / "superpod.json").read_text())
RULES: dict[str, list[Plain]] = json.loads((VECTORS / "superpod_rules.json").read_text())
POLICY = "huawei.com/schedule_policy"


@dataclass(frozen=True)
class Board:
    chips: int
    resource: str
    #: Annotations and node selector by which a job asks for it.
    notes: tuple[tuple[str, str], ...] = ()
    selector: tuple[tuple[str, str], ...] = ()


A3_SP_BLOCK = Board(16, CHIP)
A3_POLICY = Board(16, CHIP, notes=((POLICY, "chip2-node16-sp"),))
A3_HALF = Board(8, CHIP, selector=(("accelerator-type", "module-a3-8-super-pod"),))
B850 = Board(8, "huawei.com/npu", notes=((POLICY, "chip8-node8-sp"),))
BOARDS = (A3_SP_BLOCK, A3_POLICY, A3_HALF, B850)
TELLERS = ("report", "annotation", "label", "aggregate")
SHAPES = ("vcjob", "vcjob template", "pod group")


def superpod_nodes(superpod: int, free: int, busy: int, board: Board, teller: str) -> Iterator[Plain]:
    """Nodes of one SuperPoD; the busy ones come first by name, so a naive choice would take them."""
    reported: dict[str, Plain] = {}
    for number in range(free + busy):
        name = f"sp{superpod}-{number}"
        yield node(
            name,
            chips=board.chips,
            resource=board.resource,
            labels={
                **dict(board.selector),
                **({"huawei.com/topotree.superpodid": str(superpod)} if teller == "label" else {}),
            },
            annotations={"superPodID": str(superpod)} if teller == "annotation" else {},
        )
        held = range(board.chips) if number < busy else range(0)
        if held:
            yield filler(f"old-{name}", name, held, board.resource)
        open_chips = [] if held else range(board.chips)
        reported[name] = report(open_chips, resource=board.resource, superpod=superpod)
    if teller == "report":
        yield from (node_report(name, facts) for name, facts in reported.items())
    elif teller == "aggregate" and reported:
        yield cluster_report(reported, number=superpod)


def job_objects(
    pods: int, sp_block: int | None, board: Board, shape: str, *, soft: bool = False, chips: int | None = None
) -> list[Plain]:
    notes = dict(board.notes)
    if sp_block is not None:
        notes["sp-block"] = str(sp_block)
    labels = {"super-pod-affinity": "soft"} if soft else {"super-pod-affinity": "hard"}
    spec = pod_spec(board.chips if chips is None else chips, board.resource, selector=dict(board.selector))
    if shape == "pod group":
        gang = pod_group("job", pods, labels=labels, annotations=notes, phase="Inqueue")
        return [gang, *(pod(f"job-{rank}", spec, group="job") for rank in range(pods))]
    inside = shape == "vcjob template"
    return [
        vcjob(
            "job",
            [("worker", pods, spec)],
            labels={} if inside else labels,
            annotations={} if inside else notes,
            pod_labels=labels if inside else {},
            pod_annotations=notes if inside else {},
        )
    ]


@pytest.mark.parametrize("number", sample(range(len(CASES)), 4), ids=lambda number: CASES[number]["id"])
def test_worked_case_P2_P3_P4_P5(number: int) -> None:
    case = CASES[number]
    ids = {entry["id"]: 3 * place + 1 for place, entry in enumerate(case["superpods"])}
    if all(isinstance(name, int) for name in ids):
        ids = {name: name for name in ids}
    for at in range(2):
        board = BOARDS[(number + at) % len(BOARDS)]
        objects: list[Plain] = []
        teller = TELLERS[(number // 2 + at) % len(TELLERS)]
        for entry in case["superpods"]:
            busy = min(2, case["super_pod_size"] - entry["free_nodes"])
            objects += superpod_nodes(ids[entry["id"]], entry["free_nodes"], busy, board, teller)
        shape = SHAPES[(number + at) % len(SHAPES)]
        block = case["block_nodes"] * board.chips
        objects += job_objects(case["job_pods"], block, board, shape, soft=case["policy"] == "soft")
        settings = {
            "super-pod-size": str(case["super_pod_size"]),
            "reserve-nodes": str(case["reserve"]),
            "superpod-packing": case["mode"],
        }
        check(case, job_of(ask(objects, settings, scores=False), "job"), ids, board)


def check(case: Plain, job: Plain, ids: dict[Any, int], board: Board) -> None:
    expect = case["expect"]
    if not expect["ok"]:
        assert job["state"] == "pending", job
        return
    assert job["state"] == "scheduled", job["reason"]
    pods = sorted(job["pods"], key=lambda one: int(one["rank"]))
    assert [one["rank"] for one in pods] == list(range(case["job_pods"]))
    assert len({one["node"] for one in pods}) == case["job_pods"]
    counts: dict[int, int] = {}
    for one in pods:
        # Ranks follow blocks, and blocks are numbered in the order in which they were picked.
        assert one["logical_superpod"] == one["rank"] // case["block_nodes"]
        assert one["node"].startswith(f"sp{one['superpod']}-")
        assert one["annotations"]["super-pod-rank"] == str(one["logical_superpod"])
        assert one["annotations"]["super-pod-id"] == str(one["superpod"])
        assert sorted(one["chips"]) == list(range(board.chips))
        counts[one["superpod"]] = counts.get(one["superpod"], 0) + 1
    assert list(counts.items()) == [
        (ids[entry["superpod"]], entry["nodes"]) for entry in expect["per_superpod"]
    ]
    for block in expect.get("blocks_in_pick_order", ()):
        members = [one for one in pods if one["logical_superpod"] == block["logical_id"]]
        assert len(members) == block["nodes"]
        assert {one["superpod"] for one in members} == {ids[block["superpod"]]}


@pytest.mark.parametrize("number", range(len(RULES["validation_vectors"])))
def test_validation_P1_P6(number: int) -> None:
    rule = RULES["validation_vectors"][number]
    board = B850 if rule["npus_per_node"] == 8 else A3_SP_BLOCK
    total = rule["total_npus"] or board.chips
    pods = rule["pods"] or 1
    settings = {}
    if rule.get("super_pod_size"):
        settings = {"super-pod-size": str(rule["super_pod_size"]), "reserve-nodes": "0"}
    if total % pods:
        chips = [total // pods + 1] * (total % pods) + [total // pods] * (pods - total % pods)
    else:
        chips = [total // pods] * pods
    objects = [*superpod_nodes(0, 1 if rule.get("super_pod_size") == 1 else 4, 0, board, "report")]
    notes = {**dict(board.notes), "sp-block": str(rule["sp_block_npus"])}
    tasks = [(f"task{place}", 1, pod_spec(count, board.resource)) for place, count in enumerate(chips)]
    job = job_of(ask([*objects, vcjob("job", tasks, annotations=notes)], settings), "job")
    assert job["state"] == ("scheduled" if rule["pass"] else "rejected"), job["reason"]


def test_soft_jobs_take_fragments_and_never_more_nodes_than_pods_P4() -> None:
    objects = [
        one
        for superpod, free in ((0, 10), (1, 7), (2, 6))
        for one in superpod_nodes(superpod, free, 0, A3_SP_BLOCK, "annotation")
    ]
    job = job_objects(16, 128, A3_SP_BLOCK, "vcjob", soft=True)
    placed = job_of(ask([*objects, *job], {"super-pod-size": "48"}, scores=False), "job")
    assert placed["state"] == "scheduled"
    assert len({one["node"] for one in placed["pods"]}) == 16
    hard = job_objects(16, 128, A3_SP_BLOCK, "vcjob")
    waits = job_of(ask([*objects, *hard], {"super-pod-size": "48"}, scores=False), "job")
    assert waits["state"] == "pending"


def test_a_superpod_that_is_too_large_is_an_error_P6() -> None:
    objects = [*superpod_nodes(0, 5, 0, A3_SP_BLOCK, "annotation")]
    job = job_objects(2, 32, A3_SP_BLOCK, "vcjob")
    reported = job_of(ask([*objects, *job], {"super-pod-size": "4"}, scores=False), "job")
    assert reported["state"] in ("pending", "rejected")
    assert "super-pod-size" in reported["reason"]["message"]


@pytest.mark.parametrize("reported", ["missing", "negative"])
def test_nodes_without_a_superpod_id_take_no_part_P6(reported: str) -> None:
    notes = {} if reported == "missing" else {"superPodID": "-1"}
    lost = [node(f"lost-{number}", chips=16, annotations=notes) for number in range(4)]
    job = job_objects(2, 32, A3_SP_BLOCK, "vcjob")
    waits = job_of(ask([*lost, *job]), "job")
    assert waits["state"] == "pending"
    assert "lost-0" in json.dumps(waits)
    good = [*superpod_nodes(7, 4, 0, A3_SP_BLOCK, "annotation")]
    placed = job_of(ask([*lost, *good, *job]), "job")
    assert {one["superpod"] for one in placed["pods"]} == {7}


def test_a_block_that_does_not_divide_the_job_is_refused_P6() -> None:
    objects = [*superpod_nodes(0, 8, 0, A3_SP_BLOCK, "report")]
    for pods, block in ((3, 32), (2, 40), (2, 0)):
        job = job_of(ask([*objects, *job_objects(pods, block, A3_SP_BLOCK, "vcjob")]), "job")
        assert job["state"] == "rejected"


def test_reserve_nodes_stay_free_until_nothing_else_is_left_P4() -> None:
    """f = s + r - 1 is queue 2: used only when no SuperPoD keeps its reserve."""
    for first, wanted in ((9, 1), (10, 0)):
        objects = [
            *superpod_nodes(0, first, 0, A3_SP_BLOCK, "report"),
            *superpod_nodes(1, 30, 0, A3_SP_BLOCK, "report"),
        ]
        job = job_of(ask([*objects, *job_objects(8, 128, A3_SP_BLOCK, "vcjob")], scores=False), "job")
        assert {one["superpod"] for one in job["pods"]} == {wanted}


def test_a_lost_pod_of_a_block_is_rescheduled_inside_its_superpod_P7() -> None:
    objects = [
        *superpod_nodes(0, 6, 0, A3_SP_BLOCK, "report"),
        *superpod_nodes(1, 6, 0, A3_SP_BLOCK, "report"),
    ]
    notes = {"sp-block": "32"}
    objects.append(pod_group("job", 4, annotations=notes, phase="Running"))
    for rank, (block, place) in enumerate(((1, 0), (1, 1), (0, 0), (0, 1))):
        if rank == 1:
            objects.append(pod("job-1", pod_spec(16), group="job", annotations=notes))
            continue
        marks = {
            **notes,
            "super-pod-rank": str(rank // 2),
            "super-pod-id": str(block),
            "hccl/rankIndex": str(rank),
        }
        objects.append(filler(f"job-{rank}", f"sp{block}-{place}", range(16), annotations=marks, group="job"))
    job = job_of(ask(objects, scores=False), "job")
    assert job["state"] == "scheduled"
    lost = next(one for one in job["pods"] if one["rank"] == 1)
    assert (lost["superpod"], lost["logical_superpod"]) == (1, 0)
    assert lost["node"].startswith("sp1-")

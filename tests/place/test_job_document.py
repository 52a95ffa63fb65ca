"""The document of a job contains what `place` prints of it, with the same meanings."""

from __future__ import annotations

from pathlib import Path
from typing import get_type_hints

import msgspec
import pytest
from msgspec import UNSET

from ringwise.apps.lab.lab import LabSettings
from ringwise.scheduler.explain.why import explain
from ringwise.state.changes import Changes
from ringwise.views.dashboard import DashboardRows
from ringwise.views.dashboard_details import job_document
from ringwise.views.documents.cluster import JobDocument, JobPodFields
from ringwise.views.documents.place import PlacedJobFields, PlacedPodFields
from ringwise.views.place import job_answer
from ringwise.views.topology import topology_document
from ringwise.wellknown import LOGICAL_RACK, SUPER_POD_ID, SUPER_POD_RANK
from tests.builders.values import group, node, pod, report
from tests.lab.rig import Terminal, job, nodes, running
from tests.scheduler.rig import NOW, scheduler_told

OF_PODS = ("name", "rank", "node", "chips", "switch", "superpod", "logical_superpod")
#: What an option of `place` asks for.
OF_PLACE_ALONE = {"candidates"}

BLOCKS = job("train", 4, 16).replace(
    "metadata: {name: train, namespace: lab}",
    "metadata: {name: train, namespace: lab, labels: {super-pod-affinity: hard}, annotations: "
    '{huawei.com/schedule_policy: chip2-node16-sp, sp-block: "32"}}',
)
SWITCHES = job("train", 4, 8).replace(
    "metadata: {name: train, namespace: lab}",
    "metadata: {name: train, namespace: lab, labels: {tor-affinity: normal-schema}}",
)


@pytest.mark.parametrize("written", ["9" * 5000, "²", "--5", "x", ""])
def test_annotations_of_blocks_that_are_not_numbers_count_as_missing(written: str) -> None:
    """A user may change them while the pod runs: the documents of others must not fail."""
    notes = dict.fromkeys((SUPER_POD_RANK, SUPER_POD_ID, LOGICAL_RACK), written)
    running_pod = pod("train", 8, on="n1", holds=range(8), annotations=notes)
    view = scheduler_told(node("n1"), report("n1", range(8), superpod=0), running_pod).view
    (superpod,) = topology_document(view, NOW).superpods
    assert (superpod.blocks, superpod.busy) == ([], ["n1"])
    rows = DashboardRows(view, Changes())
    while not rows.fill(100):
        pass
    shown = job_document(rows, view, NOW, "default", "train")
    assert shown is not None
    assert [one["block"] for one in shown["pods"]] == [""]
    (train,) = view.jobs.values()
    (location,) = explain(view, train, NOW).locations
    assert (location.superpod, location.block) == (None, None)
    answer, _ = job_answer(view, train, {}, {}, {})
    (placed,) = answer.pods
    assert (placed.superpod, placed.logical_superpod, placed.logical_rack) == (None, None, UNSET)


def test_blocks_of_jobs_with_the_same_name_in_two_namespaces_are_listed_each_for_itself() -> None:
    pods = [
        pod(
            "train",
            8,
            on=on,
            holds=range(8),
            annotations={SUPER_POD_RANK: "0"},
            namespace=namespace,
            uid=namespace,
        )
        for namespace, on in (("a", "n1"), ("b", "n2"))
    ]
    reports = [report(name, range(8), superpod=0) for name in ("n1", "n2")]
    view = scheduler_told(node("n1"), node("n2"), *reports, *pods).view
    (superpod,) = topology_document(view, NOW).superpods
    assert msgspec.to_builtins(superpod.blocks) == [
        {"job": "a/train", "block": 0, "nodes": ["n1"]},
        {"job": "b/train", "block": 0, "nodes": ["n2"]},
    ]


def test_the_blocks_of_a_running_job_are_in_the_order_of_their_numbers() -> None:
    blocks = (10, 9, 0)
    running_pods = [
        pod(
            f"train-{rank}",
            8,
            on=f"n{rank}",
            holds=range(8),
            group="train",
            rank=rank,
            annotations={SUPER_POD_RANK: str(block), SUPER_POD_ID: "0"},
        )
        for rank, block in enumerate(blocks)
    ]
    view = scheduler_told([node(f"n{rank}") for rank in range(3)], group("train", 3), running_pods).view
    plan = explain(view, view.jobs["default/train"], NOW).plan
    assert [line for line in plan if line.startswith("block ")] == [
        f"block {block}: SuperPoD 0, 1 pod, rank {blocks.index(block)}" for block in (0, 9, 10)
    ]


def test_every_field_of_place_is_in_the_document_of_a_job() -> None:
    # `pods` is a number there; the pods are in `pod_details`.
    assert {*PlacedJobFields.__struct_encode_fields__} - {*get_type_hints(JobDocument)} == set()
    assert {*PlacedPodFields.__struct_encode_fields__} - {*get_type_hints(JobPodFields)} == OF_PLACE_ALONE


@pytest.mark.parametrize(
    ("settings", "manifest", "field"),
    [
        (nodes(16, board="a3-x16-superpod", superpod_size=8), BLOCKS, "logical_superpod"),
        (nodes(8, leaf_size=4), SWITCHES, "switch"),
    ],
    ids=["blocks", "switches"],
)
def test_a_job_that_runs_is_described_as_place_shows_it(
    settings: LabSettings, manifest: str, field: str, tmp_path: Path
) -> None:
    folder, given = tmp_path / "lab", tmp_path / "job.yaml"
    given.write_text(manifest)
    terminal = Terminal(folder)
    with running(folder, settings):
        (placed,) = terminal.json(f"place -f {given} --lab {folder}")["jobs"]
        terminal.submit(manifest)
        terminal.ok("advance 5s")
        described = terminal.json("describe job lab/train")
    assert (placed["state"], described["class"]) == ("scheduled", placed["class"])
    assert len(placed["pods"]) == 4
    for planned, shown in zip(placed["pods"], described["pod_details"], strict=True):
        assert {name: shown[name] for name in OF_PODS} == {name: planned[name] for name in OF_PODS}
        assert shown[field] is not None
        # When it was decided is another time.
        assert {**planned["annotations"], **shown["annotations"]} == shown["annotations"]

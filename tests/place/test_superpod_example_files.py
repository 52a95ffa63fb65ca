"""The files and pictures of docs/concepts/superpods.md match what the code does."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from ringwise.cli.printers.superpods import draw_superpods
from ringwise.placement.superpods.blocks import BlockPlan
from ringwise.placement.superpods.packing import BlockRequest, SuperPodSettings, plan
from ringwise.placement.superpods.validity import BlockShape, Family, check_block
from ringwise.reasons import Reason
from ringwise.topology.superpods import NodeId, SuperPodId, build_superpods
from tests.cli.superpods import superpod as drawn_superpod
from tests.placement.superpods.plans import per_superpod

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples" / "superpods"
PAGE = (ROOT / "docs" / "concepts" / "superpods.md").read_text()


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_superpods", EXAMPLES / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def free_nodes(text: str) -> dict[SuperPodId, list[NodeId]]:
    members: list[tuple[NodeId, str, int]] = []
    for node in json.loads(text)["items"]:
        said = node["metadata"]["annotations"]
        members.append((node["metadata"]["name"], said["superPodID"], int(said["serverIndex"])))
    superpods = build_superpods(members, 48)
    assert not superpods.problems
    return {superpod: list(nodes) for superpod, nodes in superpods.nodes_of.items()}


def place(job: dict[str, Any], free: dict[SuperPodId, list[NodeId]]) -> BlockPlan | Reason:
    task = job["spec"]["tasks"][0]
    chips = task["template"]["spec"]["containers"][0]["resources"]["limits"]["huawei.com/Ascend910"]
    sp_block = job["metadata"]["annotations"]["sp-block"]
    shape = check_block(16, sp_block, [chips] * task["replicas"], 48, Family.A3)
    assert isinstance(shape, BlockShape)
    return plan(
        free,
        BlockRequest(
            shape.nodes_per_block,
            shape.blocks,
            soft=job["metadata"]["labels"]["super-pod-affinity"] == "soft",
            chips_per_node=16,
        ),
        SuperPodSettings(48, 2),
    )


def run(nodes: str, jobs: str) -> tuple[list[SuperPodId], str]:
    """SuperPoDs in the order in which they were chosen, and the picture afterwards."""
    free = free_nodes((EXAMPLES / nodes).read_text())
    drawn: dict[SuperPodId, list[tuple[str, int, int]]] = {superpod: [] for superpod in free}
    chosen: list[SuperPodId] = []
    for job in yaml.safe_load_all((EXAMPLES / jobs).read_text()):
        answer = place(job, free)
        assert isinstance(answer, BlockPlan)
        chosen += per_superpod(answer)
        for block in answer.blocks:
            free[block.superpod] = [node for node in free[block.superpod] if node not in block.nodes]
            drawn[block.superpod].append((f"default/{job['metadata']['name']}", block.logical, block.size))
    picture = draw_superpods(drawn_superpod(one, len(free[one]), 2, blocks) for one, blocks in drawn.items())
    return chosen, picture.plain


def in_page(picture: str) -> bool:
    """The page shows it folded."""
    return " ".join(picture.split()) in " ".join(PAGE.split())


def test_the_files_are_what_their_maker_makes() -> None:
    for name, content in maker().files().items():
        assert (EXAMPLES / name).read_text() == content, name


def test_four_jobs_follow_the_documents_sequence_P2() -> None:
    chosen, picture = run("sequence-nodes.json", "sequence-jobs.yaml")
    assert chosen == [18, 26, 19, 27]
    assert in_page(picture)


@pytest.mark.parametrize(("counts", "first"), [([33, 34], 33), ([34, 35, 48], 34), ([19, 26], 26)])
def test_neighbors_of_the_sequence_P2(counts: list[int], first: int) -> None:
    job = yaml.safe_load((EXAMPLES / "one-job.yaml").read_text())
    answer = place(job, free_nodes(maker().nodes(counts)))
    assert isinstance(answer, BlockPlan)
    assert per_superpod(answer) == {first: 16}


def test_too_few_blocks_give_the_reason_on_the_page_P4() -> None:
    job = yaml.safe_load((EXAMPLES / "one-job.yaml").read_text())
    reason = place(job, free_nodes((EXAMPLES / "fragments-nodes.json").read_text()))
    assert isinstance(reason, Reason)
    assert "\n".join([reason.message, *reason.fixes]) in PAGE


def test_a_soft_job_uses_fragments_P4() -> None:
    chosen, picture = run("fragments-nodes.json", "fragments-soft.yaml")
    assert chosen == [10, 7, 6]
    assert in_page(picture)


def test_the_page_about_17_and_10_free_nodes_P4() -> None:
    answer = plan({0: 17, 1: 10}, BlockRequest(8, 2), SuperPodSettings(48, 2))
    assert isinstance(answer, BlockPlan)
    assert per_superpod(answer) == {1: 8, 0: 8}

"""`ringwise describe hypernode`: its place in its tree, its nodes and chips, and who is inside."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from ringwise.cli.commands import cli
from tests.checkout import ROOT
from tests.cli.bound_pods import write_bound_pods

EXAMPLES = ROOT / "examples" / "hypernodes"
FILES = [
    *("-f", str(EXAMPLES / "cluster.yaml"), "-f", str(EXAMPLES / "jobs.yaml")),
    *("--config", str(EXAMPLES / "volcano-scheduler.conf")),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_bound_pods(tmp_path_factory.mktemp("pods") / "pods.json", FILES)


def described(files: list[str], name: str, *more: str) -> Result:
    return CliRunner(env={"COLUMNS": "80"}).invoke(cli, ["describe", "hypernode", name, *files, *more])


@pytest.mark.parametrize(
    ("name", "above", "below", "free", "inside"),
    [
        ("s0", ["s4", "s6"], [], 0, {"pair": 2}),
        ("s4", ["s6"], ["s0", "s1"], 16, {"pair": 2}),
        # A job that is partly in it.
        ("s2", ["s5", "s6"], [], 0, {"wide": 2}),
        ("s6", [], ["s4", "s5"], 24, {"pair": 2, "wide": 3}),
        # It is ignored, and so has nothing.
        ("span", [], [], None, {}),
    ],
)
def test_one_hyper_node(
    files: list[str], name: str, above: list[str], below: list[str], free: int | None, inside: dict[str, int]
) -> None:
    found = json.loads(described(files, name, "-o", "json").stdout)
    assert (found["above"], [one["name"] for one in found["below"]]) == (above, below)
    assert {job["name"]: job["pods_inside"] for job in found["job_details"]} == inside
    chips = found["resources"].get("huawei.com/Ascend910")
    assert (None if chips is None else chips["free"]) == free
    assert len(found["node_names"]) == found["nodes"]


def test_what_is_drawn(files: list[str]) -> None:
    lines = described(files, "s2").stdout.splitlines()
    assert lines[:7] == [
        "HyperNode s2",
        "  state    valid",
        "  tier     1 (leaf)",
        "  tree     s6 > s5 > s2",
        "  members  Node n4, n5",
        "  nodes    2: n4, n5",
        "  chips    huawei.com/Ascend910: 0 of 16 free (16 used)",
    ]
    assert lines[-1] == "  only 2 of 3 pods of default/wide are inside"
    assert "  shares 2 nodes with s0" in described(files, "span").stdout.splitlines()


def test_a_name_that_no_hyper_node_has() -> None:
    done = described(FILES, "spann")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == 'ringwise: HyperNode "spann" not found; did you mean "span"?'

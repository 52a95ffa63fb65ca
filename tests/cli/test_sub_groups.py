"""Jobs with sub-groups on the command line: where they go, and what is said of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from ringwise.cli.commands import cli
from tests.checkout import ROOT
from tests.cli.bound_pods import write_bound_pods

EXAMPLES = ROOT / "examples"
FILES = [
    *("-f", str(EXAMPLES / "hypernodes" / "cluster.yaml")),
    *("-f", str(EXAMPLES / "sub-groups")),
    *("--config", str(EXAMPLES / "hypernodes" / "volcano-scheduler.conf")),
]


def asked(*arguments: str, files: Sequence[str] = FILES) -> str:
    done = CliRunner().invoke(cli, [*arguments, *files])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_describe_counts_the_complete_sub_groups(tmp_path: Path) -> None:
    bound = write_bound_pods(tmp_path / "pods.json", FILES, partition=2)
    found = asked("describe", "job", "train", files=bound)
    assert "2 of 3 of worker complete, 2 needed to start; 2 pods each" in found
    # A decision completes none.
    assert "0 of 3 of worker complete" in asked("describe", "job", "train")
    (row,) = json.loads(asked("describe", "job", "wide", "-o", "json"))["sub_groups"]
    assert row == {"policy": "worker", "sub_groups": 1, "size": 3, "complete": 0, "needed": 0}


def test_why_names_the_sub_group_and_tries_its_topology() -> None:
    found = json.loads(asked("why", "wide", "-o", "json"))
    assert "sub-group worker/0 requires 3 pods to start" in found["reason"]["message"]
    wanted = "set highestTierAllowed to 2 in the networkTopology of its partitions or sub-groups"
    assert wanted in found["reason"]["fixes"]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("totalPartitions: 3", "totalPartitions: 4", "6 replicas and 4 partitions of 2 are 8"),
        ("partitionSize: 2", "partitionSize: 0", "'PartitionSize' must be greater than 0"),
        ("minPartitions: 2", "minPartitions: 3", "minAvailable 4 and 3 partitions of 2 are 6"),
        ("highestTierAllowed: 1}", "highestTierAllowed: 1, highestTierName: leaf}", "only one is allowed"),
    ],
)
def test_partitions_that_cannot_be_are_refused_with_what_is_allowed(old: str, new: str, problem: str) -> None:
    text = (EXAMPLES / "sub-groups" / "jobs.yaml").read_text()
    assert old in text
    files = ["-f", FILES[1], "-f", "-", *FILES[4:]]
    done = CliRunner().invoke(cli, ["place", *files, "-o", "json"], input=text.replace(old, new))
    job = next(job for job in json.loads(done.stdout)["jobs"] if job["name"] == "train")
    assert job["state"] == "rejected"
    assert problem in job["reason"]["message"]

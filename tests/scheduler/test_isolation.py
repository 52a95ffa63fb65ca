"""Nodes and chips that an operator isolated: new pods do not use them, pods that run keep them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from ringwise.cli.commands import cli
from ringwise.state.cluster import ClusterState
from ringwise.state.model import Isolation, Node
from tests.builders.values import CHIP, isolated, node

WHOLE = Isolation("node-0", by="ana", reason="optics are replaced")


def put(cluster: ClusterState, *entries: Isolation) -> None:
    """Nothing else is isolated then."""
    for name in list(cluster.isolations):
        cluster.put_isolation(name, None)
    for one in isolated(*entries):
        assert cluster.put_isolation(one.name, one)
        assert not cluster.put_isolation(one.name, one)


def state(nodes: int = 1) -> ClusterState:
    made = ClusterState(self_maintain=True)
    for number in range(nodes):
        made.put_node(node(f"node-{number}", ready=True, devices=None))
    made.settle()
    return made


def free(cluster: ClusterState, node: int = 0) -> int:
    return cluster.fleets[CHIP].free_mask[node].bit_count()


def test_isolated_chips_are_not_free_and_come_back() -> None:
    cluster = state()
    assert free(cluster) == 8
    put(cluster, Isolation("node-0", ("Ascend910-3", "npu-4")))
    assert cluster.fleets[CHIP].free_mask[0] == 0b11110111
    put(cluster)
    assert free(cluster) == 8


def test_an_isolated_node_is_closed_for_chips_with_who_and_why() -> None:
    cluster = state(2)
    put(cluster, WHOLE, Isolation("unknown"))
    closed = cluster.fleets[CHIP].closed
    assert closed[0] is not None
    assert closed[0].code == "node-isolated"
    assert closed[0].message == "node-0 is isolated by ana: optics are replaced"
    assert closed[0].fixes == ("run `ringwise unisolate node-0`",)
    assert closed[1] is None
    # Pods without chips may run there.
    assert cluster.fleets[""].closed[0] is None
    put(cluster)
    assert closed[0] is None


def test_only_an_isolation_of_a_whole_node_is_a_drain_and_the_earliest_counts() -> None:
    cluster = state()
    put(cluster, Isolation("node-0", ("Ascend910-3",), start=5))
    assert cluster.node_windows == {}
    put(
        cluster,
        *(Isolation("node-0", chips, start=at) for chips, at in ((("Ascend910-3",), 5), ((), 9), ((), 7))),
    )
    assert [window.start for window in cluster.node_windows[0]] == [7]


def test_a_node_that_comes_later_is_isolated_and_one_of_another_name_is_not() -> None:
    cluster = state(1)
    put(cluster, Isolation("node-1"), Isolation("node-0", ("Ascend910-0",)))
    cluster.put_node(Node("node-1", chips_allocatable={CHIP: 8}, ready=True))
    cluster.settle()
    assert cluster.fleets[CHIP].closed[1] is not None
    cluster.drop_node("node-1")
    cluster.put_node(Node("node-2", chips_allocatable={CHIP: 8}, ready=True))
    cluster.settle()
    number = cluster.node_id["node-2"]
    assert cluster.fleets[CHIP].closed[number] is None
    assert free(cluster, number) == 8


def manifests(folder: Path, isolation: dict[str, Any], ask: int) -> str:
    labels = {"accelerator": "huawei-Ascend910", "accelerator-type": "module"}
    chips: dict[str, Any] = {"cpu": "64", "memory": "512Gi", "pods": "110", CHIP: "8"}
    documents = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "node-1", "labels": labels},
            "status": {
                "capacity": chips,
                "allocatable": chips,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
        {
            "apiVersion": "ringwise.io/v1alpha1",
            "kind": "Isolation",
            "metadata": {"name": "optics"},
            "spec": {"node": "node-1", **isolation},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "train", "namespace": "default"},
            "spec": {
                "schedulerName": "volcano",
                "containers": [{"name": "main", "resources": {"limits": {CHIP: str(ask)}}}],
            },
        },
    ]
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


@pytest.mark.parametrize(
    ("isolation", "ask", "fix"),
    [
        ({}, 1, "end the isolation of node-1 (`ringwise unisolate node-1`)"),
        (
            {"chips": ["Ascend910-3"]},
            8,
            "end the isolation of Ascend910-3 of node-1 (`ringwise unisolate node-1 Ascend910-3`)",
        ),
    ],
)
def test_the_reason_has_a_fix_that_was_tried(
    isolation: dict[str, Any], ask: int, fix: str, tmp_path: Path
) -> None:
    path = manifests(tmp_path, isolation, ask)
    result = CliRunner().invoke(cli, ["why", "train", "-f", path, "-o", "json"])
    assert fix in json.dumps(json.loads(result.stdout), ensure_ascii=False)


def test_place_uses_the_other_chips(tmp_path: Path) -> None:
    path = manifests(tmp_path, {"chips": ["Ascend910-0"]}, 1)
    result = CliRunner().invoke(cli, ["place", "-f", path, "-o", "json"])
    assert result.exit_code == 0, result.output
    assert "Ascend910-1" in result.stdout
    assert "Ascend910-0" not in result.stdout


def test_leaf_switches_and_superpods_are_isolated_with_all_their_nodes_now_and_later() -> None:
    cluster = ClusterState()

    def place(name: str, address: str, superpod: int | None = None) -> None:
        chips = {CHIP: 8}
        node = Node(
            name,
            chips_allocatable=chips,
            chips_capacity=chips,
            ready=True,
            internal_ip=address,
            superpod=superpod,
        )
        cluster.put_node(node)
        cluster.settle()

    def closed() -> dict[str, str]:
        table = cluster.fleets[CHIP].closed
        return {
            name: reason.message
            for name, number in cluster.node_id.items()
            if (reason := table[number]) is not None
        }

    place("a", "10.0.0.1")
    entries = [
        Isolation(switch="fe80::1", by="ana", reason="fan"),
        Isolation(superpod=7),
    ]
    put(cluster, *entries)
    assert closed() == {}
    cluster.put_switches({"10.0.0.1": "fe80::1", "10.0.0.2": "other", "10.0.0.4": "fe80::1"})
    place("b", "10.0.0.2")
    place("c", "10.0.0.3", 7)
    place("d", "10.0.0.4", 7)
    with_switch = "{} is isolated with leaf switch fe80::1 by ana: fan"
    assert closed() == {
        "a": with_switch.format("a"),
        "c": "c is isolated with SuperPoD 7",
        "d": with_switch.format("d"),
    }
    reason = cluster.fleets[CHIP].closed[cluster.node_id["a"]]
    assert reason is not None
    assert reason.fixes == ("run `ringwise unisolate switch/fe80::1`",)
    # A node moves out of the SuperPoD, and the cabling changes.
    place("c", "10.0.0.3", 8)
    cluster.put_switches({"10.0.0.2": "fe80::1"})
    assert closed() == {"b": with_switch.format("b"), "d": "d is isolated with SuperPoD 7"}
    put(cluster)
    assert closed() == {}

"""Nodes and chips that an operator isolated: new pods do not use them, pods that run keep them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from ringwise.cli.commands import cli
from ringwise.manifests.config_maps.isolation import entry_of, read_isolations
from ringwise.state.cluster import ClusterState
from ringwise.state.model import Isolation, Isolations, Node
from tests.builders.values import CHIP, node

WHY = entry_of(Isolation("", by="ana", at="2026-01-01T00:00:00Z", reason="optics are replaced"))[1]


def isolations(**data: str) -> Isolations:
    return Isolations(tuple(read_isolations(data)))


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
    cluster.put_isolations(isolations(**{"node-0_Ascend910-3": WHY, "node-0_npu-4": WHY, "node-0_x": WHY}))
    assert cluster.fleets[CHIP].free_mask[0] == 0b11110111
    cluster.put_isolations(isolations())
    assert free(cluster) == 8


def test_an_isolated_node_is_closed_for_chips_with_who_and_why() -> None:
    cluster = state(2)
    cluster.put_isolations(isolations(**{"node-0": WHY, "unknown": WHY}))
    closed = cluster.fleets[CHIP].closed
    assert closed[0] is not None
    assert closed[0].code == "node-isolated"
    assert closed[0].message == "node-0 is isolated by ana: optics are replaced"
    assert closed[0].fixes == ("ringwise unisolate node-0 --reason TEXT",)
    assert closed[1] is None
    # Pods without chips may run there.
    assert cluster.fleets[""].closed[0] is None
    cluster.put_isolations(isolations())
    assert closed[0] is None


def test_a_node_that_comes_later_is_isolated_and_one_of_another_name_is_not() -> None:
    cluster = state(1)
    cluster.put_isolations(isolations(**{"node-1": WHY, "node-0_Ascend910-0": WHY}))
    cluster.put_node(Node("node-1", chips_allocatable={CHIP: 8}, ready=True))
    cluster.settle()
    assert cluster.fleets[CHIP].closed[1] is not None
    cluster.drop_node("node-1")
    cluster.put_node(Node("node-2", chips_allocatable={CHIP: 8}, ready=True))
    cluster.settle()
    number = cluster.node_id["node-2"]
    assert cluster.fleets[CHIP].closed[number] is None
    assert free(cluster, number) == 8


def manifests(folder: Path, isolated: dict[str, str], ask: int) -> str:
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
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "ringwise-isolation", "namespace": "kube-system"},
            "data": isolated,
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
    ("isolated", "ask", "fix"),
    [
        ({"node-1": WHY}, 1, "if node-1 were released (`ringwise unisolate node-1 --reason TEXT`)"),
        (
            {"node-1_Ascend910-3": WHY},
            8,
            "if Ascend910-3 of node-1 were released (`ringwise unisolate node-1 Ascend910-3 --reason TEXT`)",
        ),
    ],
)
def test_the_reason_has_a_fix_that_was_tried(
    isolated: dict[str, str], ask: int, fix: str, tmp_path: Path
) -> None:
    path = manifests(tmp_path, isolated, ask)
    result = CliRunner().invoke(cli, ["why", "train", "-f", path, "-o", "json"])
    assert fix in json.dumps(json.loads(result.stdout), ensure_ascii=False)


def test_place_uses_the_other_chips(tmp_path: Path) -> None:
    path = manifests(tmp_path, {"node-1_Ascend910-0": WHY}, 1)
    result = CliRunner().invoke(cli, ["place", "-f", path, "-o", "json"])
    assert result.exit_code == 0, result.output
    assert "Ascend910-1" in result.stdout
    assert "Ascend910-0" not in result.stdout


def test_leaf_switches_and_superpods_are_isolated_with_all_their_nodes_now_and_later() -> None:
    cluster = ClusterState()

    def put(name: str, address: str, superpod: int | None = None) -> None:
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

    put("a", "10.0.0.1")
    entries = [
        Isolation("", switch="fe80::1", by="ana", reason="fan"),
        Isolation("", superpod="7"),
    ]
    data = dict(map(entry_of, entries))
    assert list(data) == ["switch__fe80_3a__3a_1", "superpod__7"]
    cluster.put_isolations(Isolations(tuple(read_isolations(data))))
    assert closed() == {}
    cluster.put_switches({"10.0.0.1": "fe80::1", "10.0.0.2": "other", "10.0.0.4": "fe80::1"})
    put("b", "10.0.0.2")
    put("c", "10.0.0.3", 7)
    put("d", "10.0.0.4", 7)
    with_switch = "{} is isolated with leaf switch fe80::1 by ana: fan"
    assert closed() == {
        "a": with_switch.format("a"),
        "c": "c is isolated with SuperPoD 7",
        "d": with_switch.format("d"),
    }
    reason = cluster.fleets[CHIP].closed[cluster.node_id["a"]]
    assert reason is not None
    assert reason.fixes == ("ringwise unisolate switch/fe80::1 --reason TEXT",)
    # A node moves out of the SuperPoD, and the cabling changes.
    put("c", "10.0.0.3", 8)
    cluster.put_switches({"10.0.0.2": "fe80::1"})
    assert closed() == {"b": with_switch.format("b"), "d": "d is isolated with SuperPoD 7"}
    cluster.put_isolations(Isolations())
    assert closed() == {}


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("switch__10.0.0.1", '{"name": "10.0.0.1"}', Isolation("", switch="10.0.0.1")),
        ("switch__10.0.0.1", "not JSON", Isolation("", switch="10.0.0.1", reason="not JSON")),
        ("superpod__3", None, Isolation("", superpod="3")),
        ("switch", "{}", Isolation("switch")),
        ("node-1", '{"from": "1970-01-01T00:01:40Z"}', Isolation("node-1", start=100 * 10**9)),
        # A time that cannot be read keeps jobs off now rather than never.
        ("node-1", '{"from": "soon"}', Isolation("node-1")),
    ],
)
def test_an_entry_is_read_and_written(key: str, value: str | None, expected: Isolation) -> None:
    (found,) = read_isolations({key: value})
    assert found == expected
    assert read_isolations(dict([entry_of(found)])) == [expected]

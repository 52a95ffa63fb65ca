"""A lab whose nodes run the real device plugin: gRPC to a kubelet stand-in, simulated chips."""

from __future__ import annotations

import getpass
import json
from dataclasses import replace
from pathlib import Path

import pytest

from ringwise.apps.lab.device_plugins import DevicePlugins, chip_facts, description_of
from ringwise.apps.lab.lab import LabSettings
from ringwise.embed.fleets import make_fleet
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.state.model import Device, Pod
from ringwise.wellknown import ASCEND910, ASCEND_REAL, KUBELET_DEVICES, PREDICATE_TIME
from tests.builders.values import node
from tests.lab.rig import SMALL, Terminal, job, pod, running

CONSUMED = "18446744073709551615"
WITH_PLUGIN = replace(SMALL, mount_method="plain")


def test_D2_a_container_of_the_lab_gets_the_chips_of_the_decision(tmp_path: Path) -> None:
    with running(tmp_path, WITH_PLUGIN):
        other = Terminal(tmp_path)
        other.submit(job("train", 1, 4))
        other.ok("advance 5s")
        seen = other.json("describe pod lab/train-worker-0")
        chips = seen["chips"]
        container = seen["container"]
        assert seen["phase"] == "Running"
        nodes = [one["host"] for one in container["devices"]]
        assert nodes[:3] == ["/dev/davinci_manager", "/dev/hisi_hdc", "/dev/devmm_svm"]
        assert nodes[3:] == [f"/dev/davinci{chip}" for chip in chips]
        assert "/usr/local/dcmi" in container["mounts"]
        notes = seen["object"]["annotations"]
        names = ",".join(f"Ascend910-{chip}" for chip in chips)
        assert (notes[ASCEND910], notes[ASCEND_REAL], notes[KUBELET_DEVICES]) == (names, names, names)
        assert notes[PREDICATE_TIME] == CONSUMED
        assert f'"pod_name":"train-worker-0","server_id":"{seen["object"]["uid"]}"' in next(
            value for key, value in notes.items() if key.endswith("-configuration")
        )
        text = other.ok("describe pod lab/train-worker-0")
        assert "  device nodes:\n    /dev/davinci_manager\n" in text
        assert "  mounts, read only:\n    /usr/local/Ascend/driver/lib64\n" in text


@pytest.mark.parametrize(
    ("mount_method", "part", "wanted"),
    [
        ("ascend-docker", "environment", {"ASCEND_VISIBLE_DEVICES": "0,1", "ASCEND_RUNTIME_OPTIONS": ""}),
        ("cdi", "cdi_devices", ["huawei.com/npu=Ascend910-0", "huawei.com/npu=Ascend910-1"]),
    ],
)
def test_a_lab_mounts_in_every_way(tmp_path: Path, mount_method: str, part: str, wanted: object) -> None:
    with running(tmp_path, replace(SMALL, mount_method=mount_method)):
        other = Terminal(tmp_path)
        other.submit(job("train", 1, 2))
        other.ok("advance 5s")
        seen = other.json("describe pod lab/train-worker-0")["container"]
        assert (seen[part], seen["devices"]) == (wanted, [])


def test_the_environment_of_plugin_and_job_are_shown_together(tmp_path: Path) -> None:
    with running(tmp_path, replace(SMALL, mount_method="ascend-docker")):
        other = Terminal(tmp_path)
        other.submit(job("train", 1, 2).replace("spec:\n", "spec:\n  plugins: {env: []}\n", 1))
        other.ok("advance 5s")
        text = other.ok("describe pod lab/train-worker-0")
        assert "    ASCEND_VISIBLE_DEVICES: 0,1\n" in text
        assert "    VC_TASK_INDEX: 0\n" in text


def test_a_lab_continues_with_what_its_containers_have(tmp_path: Path) -> None:
    with running(tmp_path, WITH_PLUGIN):
        other = Terminal(tmp_path)
        other.submit(job("first", 1, 4))
        other.ok("advance 5s")
        before = other.json("describe pod lab/first-worker-0")
    with running(tmp_path, WITH_PLUGIN) as server:
        assert other.json("describe pod lab/first-worker-0")["container"] == before["container"]
        other.submit(job("second", 1, 4))
        other.ok("advance 5s")
        after = other.json("describe pod lab/second-worker-0")
        assert (after["node"], after["phase"]) == (before["node"], "Running")
        assert not set(before["chips"]) & set(after["chips"])
        report = server.live.cluster.nodes.report(before["node"], ASCEND910)
        assert report is not None
        assert len(report.mounted) == 2
        other.seats()


def test_a_broken_chip_is_seen_by_the_plugin_and_refused(tmp_path: Path) -> None:
    with running(tmp_path, WITH_PLUGIN) as server:
        other = Terminal(tmp_path)
        other.submit(job("train", 1, 2))
        where = other.json("describe pod lab/train-worker-0")
        other.ok(f"fault inject chip {where['node']} 1 --code 80E18402")
        report = server.live.cluster.nodes.report(where["node"], ASCEND910)
        assert report is not None
        assert report.unhealthy == 0b10
        assert [(one.chip, one.code) for one in report.faults] == [(1, "80E18402")]
        other.ok("advance 2s")
        seen = other.json("describe pod lab/train-worker-0")
        assert seen["phase"] == "Failed"
        assert "Ascend910-1" in seen["container"]["refused"]
        assert "UnexpectedAdmissionError: chip Ascend910-1" in other.ok("describe pod lab/train-worker-0")
        other.ok(f"fault clear chip {where['node']} 1")
        healed = server.live.cluster.nodes.report(where["node"], ASCEND910)
        assert healed is not None
        assert (healed.unhealthy, healed.faults) == (0, ())


def test_the_network_of_a_chip_breaks(tmp_path: Path) -> None:
    with running(tmp_path, WITH_PLUGIN) as server:
        Terminal(tmp_path).ok("fault inject network node-1 3")
        report = server.live.cluster.nodes.report("node-1", ASCEND910)
        assert report is not None
        assert (report.unhealthy, report.network_unhealthy) == (0, 0b1000)


def test_more_nodes_than_plugins_at_a_time(tmp_path: Path) -> None:
    """The plugin that was not needed for longest is stopped; what it mounted is known when it comes back."""
    with running(tmp_path, replace(WITH_PLUGIN, fleet=replace(SMALL.fleet, nodes=5))) as server:
        plugins = server.live.plugins
        assert plugins is not None
        plugins.most = 2
        other = Terminal(tmp_path)
        other.submit(*(job(f"whole-{number}", 1, 8) for number in range(5)))
        other.ok("advance 5s")
        assert len(plugins.running) == 2
        seats = other.seats()
        assert len(seats) == 5
        assert {one["phase"] for one in other.json("get pods")["pods"]} == {"Running"}
        for name in ("whole-0", "whole-1", "whole-2"):
            other.ok(f"delete job lab/{name}")
        other.ok("advance 5s")
        other.submit(*(job(f"half-{number}", 1, 4) for number in range(6)))
        other.ok("advance 5s")
        assert len(other.seats()) == 8
        for name in ("node-0", "node-1"):
            other.ok(f"delete node {name}")
        assert set(plugins.running) <= {"node-2", "node-3", "node-4"}
        other.submit(job("last", 1, 8))
        other.ok("advance 5s")
        other.seats()


def test_pods_of_before_the_plugin_keep_their_chips(tmp_path: Path) -> None:
    with running(tmp_path, replace(SMALL, fleet=replace(SMALL.fleet, nodes=1))):
        other = Terminal(tmp_path)
        other.submit(job("old", 1, 4), pod("by-hand", 1, node="node-0", holds="Ascend910-7"))
        other.ok("advance 5s")
        before = other.seats()
    with running(tmp_path, WITH_PLUGIN):
        other.submit(job("new", 1, 2))
        other.ok("advance 5s")
        after = other.seats()
        assert {key: after[key] for key in before} == before
        assert other.json("describe pod lab/new-worker-0")["phase"] == "Running"


@pytest.mark.parametrize("board", [board.name for board in shipped_catalog()])
def test_every_shipped_board_has_chips_that_the_plugin_knows(board: str) -> None:
    """The lab's nodes of each board are served, under the resource that the scheduler decides about."""
    from ringwise.device.cards import card_type, resource_of

    node = make_fleet(1, board).nodes[0]
    for resource in node.chips_capacity:
        facts = chip_facts(node, resource)
        assert facts is not None
        assert resource_of(card_type(facts["chip_name"], facts.get("board", 0))) == resource


def test_a_resource_of_a_users_board_is_not_served() -> None:
    node = make_fleet(1, "910b-x8").nodes[0]
    node.chips_capacity = {"huawei.com/Ascend999": 8}
    assert not DevicePlugins.serve(None, node, "huawei.com/Ascend999")  # type: ignore[arg-type]


# -- isolation, and what doctor says -------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [SMALL, WITH_PLUGIN], ids=["no plugin", "plugin"])
def test_isolated_chips_of_a_lab_are_not_used_and_shown(tmp_path: Path, settings: LabSettings) -> None:
    one = replace(settings, fleet=replace(SMALL.fleet, nodes=1))
    with running(tmp_path, one):
        other = Terminal(tmp_path)
        way = f"--reason 'it smells' --lab {tmp_path}"
        assert other.ok(f"isolate node-0 Ascend910-0 {way}") == "chip Ascend910-0 of node node-0 isolated\n"
        assert "isolated already" in other.ok(f"isolate node-0 Ascend910-0 {way}")
        assert "has no chip Ascend910-9; it has Ascend910-0, " in other.refused(
            f"isolate node-0 Ascend910-9 {way}"
        )
        other.ok("fault inject chip node-0 5")
        other.submit(job("one", 1, 1))
        other.ok("advance 5s")
        assert other.json("describe pod lab/one-worker-0")["chips"] == [1]
        assert "isolated" in other.ok("get nodes").splitlines()[0]
        assert other.json("get nodes")["nodes"][0]["chips"][0]["isolated"] == [0]
        found = [one for one in other.json("doctor")["findings"] if one["code"] == "isolated"]
        assert [one["object"] for one in found] == ["node node-0"]
        assert f"Ascend910-0 was isolated by {getpass.getuser()} at " in found[0]["message"]
        assert found[0]["fix"] == "when it is repaired: ringwise unisolate node-0 Ascend910-0"
    with running(tmp_path, one) as server:
        assert other.json("get nodes")["nodes"][0]["chips"][0]["isolated"] == [0]
        assert "no longer isolated" in other.ok(f"unisolate node-0 Ascend910-0 --lab {tmp_path}")
        assert "is not isolated" in other.ok(f"unisolate node-0 Ascend910-0 --lab {tmp_path}")
        assert "isolated" not in other.ok("get nodes")
        report = server.live.cluster.nodes.report("node-0", ASCEND910)
        assert report is not None
        assert report.unhealthy == 1 << 5


def test_a_whole_node_is_isolated_and_released(tmp_path: Path) -> None:
    with running(tmp_path, replace(WITH_PLUGIN, fleet=replace(SMALL.fleet, nodes=1))):
        other = Terminal(tmp_path)
        way = f"--reason move --lab {tmp_path}"
        other.ok(f"isolate node-0 {way}")
        other.submit(job("one", 1, 1))
        other.ok("advance 5s")
        assert other.seats() == {}
        assert other.json("get nodes")["nodes"][0]["chips"][0]["isolated"] == list(range(8))
        other.ok(f"unisolate node-0 --lab {tmp_path}")
        other.ok("advance 5s")
        assert other.json("describe pod lab/one-worker-0")["phase"] == "Running"


def test_a_lab_takes_the_isolations_of_a_cluster(tmp_path: Path) -> None:
    text = """apiVersion: ringwise.io/v1alpha1
kind: Isolation
metadata: {name: fan}
spec: {node: node-1, chips: [Ascend910-3]}
"""
    with running(tmp_path, SMALL):
        other = Terminal(tmp_path)
        other.submit(text)
        assert other.json("get nodes")["nodes"][1]["chips"][0]["isolated"] == [3]
        other.submit(text.replace("3]", "4]"))
        assert other.json("get nodes")["nodes"][1]["chips"][0]["isolated"] == [4]
        (one,) = other.json("get isolations")["isolations"]
        assert (one["name"], one["target"], one["chips"]) == ("fan", "node-1", ["Ascend910-4"])
        assert other.ok("delete isolation fan") == "isolation fan deleted\n"
        assert other.json("get nodes")["nodes"][1]["chips"][0]["isolated"] == []


def test_D2_doctor_names_where_kubelet_plugin_and_scheduler_differ(tmp_path: Path) -> None:
    with running(tmp_path, replace(WITH_PLUGIN, fleet=replace(SMALL.fleet, nodes=1))) as server:
        other = Terminal(tmp_path)
        other.submit(job("train", 1, 2))
        other.ok("advance 5s")
        assert _differences(other) == []
        cluster = server.live.cluster
        report = cluster.nodes.report("node-0", ASCEND910)
        train = cluster.get(Pod, "lab/train-worker-0")
        assert report is not None
        assert train is not None
        assert report.kubelet_ids == {"lab/train-worker-0": 0b11}
        for changes, words in (
            (
                {"kubelet_ids": {}},
                "pod lab/train-worker-0 runs, and kubelet lists no device for it; the device plugin",
            ),
            ({"kubelet_ids": {}, "mounted": {}}, "kubelet lists no device for it; the scheduler gave it"),
            (
                {"mounted": {}},
                "the ids Ascend910-0,Ascend910-1; the device plugin does not know which chips it has",
            ),
            ({"mounted": {train.uid: 1}}, "the device plugin mounted Ascend910-0"),
            (
                {"kubelet_ids": {**report.kubelet_ids, "lab/ghost": 4}},
                "kubelet gave pod lab/ghost the id Ascend910-2; the scheduler knows no such pod there",
            ),
            ({"kubelet_ids": None, "kubelet_silent": True}, "kubelet does not report to the device plugin"),
        ):
            cluster.submit(replace(report, **changes))
            other.ok("advance 1s")
            found = _differences(other)
            assert len(found) == 1, found
            assert words in found[0]["message"]
            assert found[0]["fix"]


@pytest.mark.parametrize("written", ["", "x", "²", "-1", "9" * 5000])
def test_annotations_of_a_node_that_are_not_numbers_count_as_missing(written: str) -> None:
    made = node(devices=(Device(0, super_device_id=written),), server_index=written)
    described = description_of(made, ASCEND910, {})
    assert (described["server_index"], described["chips"][0]["super_device"]) == (-2, 0)
    numbered = node(devices=(Device(0, super_device_id="7"),), server_index="3")
    described = description_of(numbered, ASCEND910, {})
    assert (described["server_index"], described["chips"][0]["super_device"]) == (3, 7)


def _differences(other: Terminal) -> list[dict[str, str]]:
    codes = ("mounts-differ", "kubelet-silent")
    ran = other.run("doctor -o json")
    return [one for one in json.loads(ran.stdout)["findings"] if one["code"] in codes]

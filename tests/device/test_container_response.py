"""What a container gets, for each way of mounting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ringwise.device.cards import ASCEND910A5, Chip
from ringwise.device.container_response import (
    ContainerResponses,
    HostFiles,
    possible_mounting,
    topology_file,
)
from tests.device.cases import case_id, section


def host(folder: Path, *files: str) -> HostFiles:
    for name in files:
        path = folder / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return HostFiles(folder)


def answers(mount_method: str, files: HostFiles, card: str = "Ascend910B", **more: Any) -> ContainerResponses:
    chips = [Chip(number, number + 10, number, 0) for number in range(8)]
    return ContainerResponses(mount_method, card, chips, files, **more)


@pytest.mark.parametrize("case", section("allocate_response"), ids=case_id)
def test_answers(case: dict[str, Any], tmp_path: Path) -> None:
    files = list(case.get("existing_host_files", ()))
    for folder in ("uburma", "ummu"):
        files += [f"/dev/{folder}/{number}" for number in range(case.get(f"{folder}_files", 0))]
    mount_method = "ascend-docker" if case["runtime"].endswith("present") else "plain"
    names = case.get("devices") or case["request_ids"]
    answer = answers(mount_method, host(tmp_path, *files)).answer(names)
    if "device_spec_count" in case:
        assert len(answer.devices) == case["device_spec_count"]
        return
    assert dict(answer.envs) == case["envs"]
    assert [[one.host_path, one.container_path, one.permissions] for one in answer.devices] == case[
        "device_specs"
    ]
    assert [one.host_path for one in answer.mounts] == case["mounts"]


def test_310b_has_a_manager_of_its_own_and_more_devices(tmp_path: Path) -> None:
    files = host(tmp_path, "/dev/davinci_manager", "/dev/davinci_manager_docker", "/dev/hdmi")
    nodes = answers("plain", files, "Ascend310B").answer(["Ascend310-1"]).devices
    assert [(node.container_path, node.host_path) for node in nodes] == [
        ("/dev/davinci_manager", "/dev/davinci_manager_docker"),
        ("/dev/hdmi", "/dev/hdmi"),
        ("/dev/davinci1", "/dev/davinci1"),
    ]
    assert (
        answers("ascend-docker", files, "Ascend310B").answer(["Ascend310-1"]).envs["ASCEND_ALLOW_LINK"]
        == "True"
    )


SOC_NODES = (
    *("vpc", "vdec", "sys", "spi_smbus", "user_config", "ts_aisle", "svm0", "log_drv"),
    *("memory_bandwidth", "upgrade", "event_sched", "xsmem_dev"),
)


def soc(count: int = 1, product: str = "Atlas 200I SoC A1") -> list[Chip]:
    return [Chip(at, at, at, 0, chip_name="310P3", product=product) for at in range(count)]


@pytest.mark.parametrize("mount_method", ["ascend-docker", "plain", "cdi"])
def test_a_soc_has_more_devices_and_no_runtime(
    mount_method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("davinci_manager", "hisi_hdc", "devmm_svm", "dvpp_cmdlist", *SOC_NODES)
    # The names of other boards are not business of a SoC.
    files = host(tmp_path, *(f"/dev/{name}" for name in names), "/dev/hdmi", "/dev/hi_dvpp")
    possible = possible_mounting(mount_method, soc())
    assert possible == {"ascend-docker": "plain"}.get(mount_method, mount_method)
    made = ContainerResponses(possible, "Ascend310P", soc(), files)
    wanted = [f"/dev/{name}" for name in names]
    if mount_method == "cdi":
        nodes = json.loads(made.cdi_spec())["containerEdits"]["deviceNodes"]
        assert [node["path"] for node in nodes] == wanted
    else:
        answer = made.answer(["Ascend310P-0"])
        assert answer.envs == {}
        assert [node.host_path for node in answer.devices] == [*wanted, "/dev/davinci0"]
    assert "the host lacks" not in capsys.readouterr().err


def test_device_nodes_that_containers_cannot_do_without_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    present = [f"/dev/{name}" for name in SOC_NODES if name not in ("spi_smbus", "event_sched", "xsmem_dev")]
    made = ContainerResponses("plain", "Ascend310P", soc(), host(tmp_path, *present))
    # Once, and again when something else is missing.
    made.look()
    host(tmp_path, "/dev/davinci_manager")
    made.look()
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["missing"] for line in said] == ["/dev/davinci_manager,/dev/spi_smbus", "/dev/spi_smbus"]
    ContainerResponses("ascend-docker", "Ascend310P", soc(), HostFiles(tmp_path / "none"))
    assert capsys.readouterr().err == ""


def test_other_products_have_no_devices_of_a_soc(tmp_path: Path) -> None:
    files = host(tmp_path, "/dev/davinci_manager", "/dev/vpc", "/dev/sys")
    chips = soc(2, "Atlas 300I Pro")
    assert possible_mounting("ascend-docker", chips) == "ascend-docker"
    assert possible_mounting("ascend-docker", [*soc(), *chips]) == "ascend-docker"
    nodes = ContainerResponses("plain", "Ascend310P", chips, files).answer(["Ascend310P-1"]).devices
    assert [node.host_path for node in nodes] == ["/dev/davinci_manager", "/dev/davinci1"]


def test_a5_device_nodes_have_the_logic_id(tmp_path: Path) -> None:
    nodes = answers("plain", HostFiles(tmp_path), "Ascend910A5").answer(["npu-3"]).devices
    assert [node.host_path for node in nodes] == ["/dev/davinci13"]


def test_a5_the_runtime_is_told_the_numbers_of_the_device_nodes(tmp_path: Path) -> None:
    envs = answers("ascend-docker", HostFiles(tmp_path), "Ascend910A5").answer(["npu-3", "npu-0"]).envs
    assert envs["ASCEND_VISIBLE_DEVICES"] == "13,10"


def test_driver_files_are_mounted_where_that_is_wanted(tmp_path: Path) -> None:
    files = host(tmp_path, "/usr/local/dcmi/libdcmi.so", "/usr/local/bin/npu-smi")
    assert answers("plain", files).answer(["Ascend910-0"]).mounts == []
    mounts = answers("plain", files, mount_driver=True).answer(["Ascend910-0"]).mounts
    assert [(one.host_path, one.container_path, one.read_only) for one in mounts] == [
        (path, path, True) for path in ("/usr/local/dcmi", "/usr/local/bin/npu-smi")
    ]


def test_the_cdi_specification(tmp_path: Path) -> None:
    files = host(tmp_path / "host", "/dev/davinci_manager", "/usr/local/dcmi/libdcmi.so")
    made = answers("cdi", files)
    made.write_cdi_spec(tmp_path / "cdi")
    target = tmp_path / "cdi" / "huawei.com-npu.json"
    spec = json.loads(target.read_text())
    assert spec["cdiVersion"] == "0.5.0"
    assert spec["devices"][0] == {
        "name": "Ascend910-0",
        "containerEdits": {"deviceNodes": [{"path": "/dev/davinci0", "permissions": "rw"}]},
    }
    assert spec["containerEdits"]["deviceNodes"] == [{"path": "/dev/davinci_manager", "permissions": "rw"}]
    assert spec["containerEdits"]["mounts"][0]["hostPath"] == "/usr/local/dcmi"
    assert sorted(path.name for path in target.parent.iterdir()) == [target.name]
    before = target.stat().st_mtime_ns
    made.write_cdi_spec(tmp_path / "cdi")
    assert target.stat().st_mtime_ns == before
    devices = made.answer(["Ascend910-2"]).cdi_devices
    assert [one.name for one in devices] == ["huawei.com/npu=Ascend910-2"]


@pytest.mark.parametrize(
    ("facts", "file"),
    [
        ({"superpod_type": 0}, "atlas_850_1"),
        ({"superpod_type": 1}, "atlas_950_1"),
        ({"superpod_type": 2}, "atlas_950_2"),
        ({"superpod_type": 3}, "atlas_850_2"),
        ({"superpod_type": 4}, "atlas_850_3"),
        ({"superpod_type": 5}, ""),
        ({}, ""),
        ({"product": "Atlas 350", "card": 0}, "atlas_350_3"),
    ],
)
@pytest.mark.parametrize("mount_method", ["ascend-docker", "plain", "cdi"])
def test_a5_containers_learn_the_links_of_their_chips(
    mount_method: str, facts: dict[str, Any], file: str
) -> None:
    chips = [
        Chip(**{"physical": at, "logic": at, "card": at, "device": 0, "chip_name": "Ascend950PR", **facts})
        for at in range(4)
    ]
    answer = ContainerResponses(mount_method, ASCEND910A5, chips).answer(["npu-0"])
    wanted = f"/usr/local/Ascend/driver/topo/950/{file}.json" if file else None
    assert answer.envs.get("HCCL_TOPO_FILE_PATH") == wanted


def test_a_single_a5_card_and_other_boards() -> None:
    chip = Chip(0, 0, 0, 0, chip_name="Ascend950PR", product="Atlas 350")
    assert topology_file(ASCEND910A5, [chip]).endswith("/atlas_350_1.json")
    assert topology_file("Ascend910B", [Chip(0, 0, 0, 0, superpod_type=1)]) == ""

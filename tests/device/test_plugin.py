"""The plugin over unix sockets: the chips of the decision reach the container."""

from __future__ import annotations

import asyncio
import json

import pytest

from ringwise.device.allocation import CONSUMED
from ringwise.device.simulated_kubelet import AdmissionError
from tests.builders.values import CHIP
from tests.device.rig import ISOLATIONS, NODE, NODES, PODS, rig

REAL, IDS = "huawei.com/AscendReal", "huawei.com/kltDev"
RANK_TABLE = "ascend.kubectl.kubernetes.io/ascend-910-configuration"


async def test_d2_the_container_has_the_chips_of_the_decision() -> None:
    async with rig() as node:
        node.bind("train", "Ascend910-4,Ascend910-5")
        assert await node.admit("train", 2, ids=["Ascend910-7", "Ascend910-0"]) == (4, 5)
        written = node.annotations("train")
        assert written["predicate-time"] == CONSUMED
        assert written[REAL] == "Ascend910-4,Ascend910-5"
        assert written[IDS] == "Ascend910-0,Ascend910-7"
        table = json.loads(written[RANK_TABLE])
        assert [device["device_id"] for device in table["devices"]] == ["4", "5"]


async def test_preferred_ids_agree_with_the_scheduler() -> None:
    async with rig() as node:
        node.bind("train", "Ascend910-6")
        await node.until(lambda: node.plugin.allocator.waiting())
        await node.admit("train")
        assert node.annotations("train")[IDS] == "Ascend910-6"


async def test_eight_pods_in_a_burst_of_concurrent_calls() -> None:
    async with rig() as node:
        for number in range(8):
            node.bind(f"pod-{number}", f"Ascend910-{number}")
        answers = await asyncio.gather(
            *(node.admit(f"pod-{number}", ids=[f"Ascend910-{7 - number}"]) for number in range(8))
        )
        assert sorted(answers) == [(number,) for number in range(8)]
        await node.until(
            lambda: all(
                node.annotations(f"pod-{number}").get(REAL) == f"Ascend910-{answers[number][0]}"
                for number in range(8)
            )
        )


async def test_d3_after_an_exchange_every_annotation_and_rank_table_is_right() -> None:
    async with rig() as node:
        node.bind("first", "Ascend910-0", "1")
        node.bind("second", "Ascend910-1", "2")
        assert await node.admit("second") == (0,)
        await node.until(lambda: node.annotations("second").get(REAL) == "Ascend910-0")
        await node.until(lambda: node.annotations("first").get("predicate-time") == "2")
        assert REAL not in node.annotations("first")
        assert await node.admit("first") == (1,)
        await node.until(lambda: node.annotations("first").get(REAL) == "Ascend910-1")
        for name, chip in (("first", 1), ("second", 0)):
            written = node.annotations(name)
            assert written[CHIP] == f"Ascend910-{chip}"
            assert json.loads(written[RANK_TABLE])["devices"][0]["device_id"] == str(chip)
            assert json.loads(written[RANK_TABLE])["pod_name"] == name
        uids = {
            name: node.api.get(PODS, f"default/{name}")["metadata"]["uid"] for name in ("first", "second")
        }
        mounted = {uids["first"]: "Ascend910-1", uids["second"]: "Ascend910-0"}
        await node.until(lambda: json.loads(node.report()["RingwiseMountedChips"]) == mounted)


@pytest.mark.parametrize("why", ["faulty", "isolated", "held"])
async def test_d2_a_pod_whose_chip_cannot_be_used_holds_up_no_other(why: str) -> None:
    """Kubelet asks for the pods in any order; as many start as have chips, and one call names the bad one."""
    async with rig() as node:
        if why == "faulty":
            node.driver.change(0, [0x80E18402])
            await node.until(lambda: node.plugin.why_not("Ascend910-0"))
        elif why == "isolated":
            spec = {"node": NODE, "chips": ["Ascend910-0"]}
            node.api.put(ISOLATIONS, {"metadata": {"name": "noise"}, "spec": spec})
            await node.until(lambda: node.plugin.why_not("Ascend910-0"))
        else:
            node.bind("holder", "Ascend910-0", "1")
            await node.admit("holder")
        node.bind("bad", "Ascend910-0", "2")
        node.bind("good", "Ascend910-1", "3")
        node.bind("better", "Ascend910-2", "4")
        # Kubelet's call names no pod: the first one gets the chip of the next that has one.
        ids = iter(["Ascend910-5", "Ascend910-6", "Ascend910-7"])
        assert await node.admit("better", ids=[next(ids)]) == (1,)
        assert await node.admit("bad", ids=[next(ids)]) == (2,)
        with pytest.raises(AdmissionError, match="chip Ascend910-0 of pod default/"):
            await node.admit("good", ids=[next(ids)])
        await node.until(lambda: node.annotations("bad").get(REAL) == "Ascend910-2")
        await node.until(lambda: node.annotations("better").get(REAL) == "Ascend910-1")
        # Its own is taken back with the report that corrects the others.
        await node.until(lambda: REAL not in node.annotations("good"))


@pytest.mark.parametrize("mount_method", ["ascend-docker", "plain", "cdi"])
async def test_three_ways_into_a_container(mount_method: str) -> None:
    async with rig(started=False, mount_method=mount_method) as node:
        for name in ("davinci_manager", "hisi_hdc", "davinci3"):
            path = node.folder / "host" / "dev" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        await node.start()
        await node.devices(8)
        node.bind("train", "Ascend910-3")
        container = await node.kubelet.admit("default/train", CHIP, 1)
        answer = container.answer
        assert container.chips == (3,)
        if mount_method == "ascend-docker":
            assert dict(answer.envs) == {"ASCEND_VISIBLE_DEVICES": "3", "ASCEND_RUNTIME_OPTIONS": ""}
            assert not answer.devices
        elif mount_method == "plain":
            paths = [(one.host_path, one.container_path, one.permissions) for one in answer.devices]
            assert paths == [
                (path, path, "rw") for path in ("/dev/davinci_manager", "/dev/hisi_hdc", "/dev/davinci3")
            ]
            assert not answer.envs
        else:
            assert [one.name for one in answer.cdi_devices] == ["huawei.com/npu=Ascend910-3"]
            spec = json.loads((node.folder / "cdi" / "huawei.com-npu.json").read_text())
            assert (spec["kind"], len(spec["devices"])) == ("huawei.com/npu", 8)
            assert spec["devices"][3]["containerEdits"]["deviceNodes"][0]["path"] == "/dev/davinci3"


async def test_the_cdi_specification_follows_the_host() -> None:
    async with rig(mount_method="cdi") as node:
        spec = node.folder / "cdi" / "huawei.com-npu.json"
        manager = node.folder / "host" / "dev" / "davinci_manager"
        manager.parent.mkdir(parents=True)
        manager.touch()
        await node.until(lambda: "davinci_manager" in spec.read_text())
        spec.unlink()
        await node.until(spec.exists)


async def test_d3_a_rank_table_waits_for_the_address_of_the_node() -> None:
    async with rig(started=False) as node:
        described = node.api.get(NODES, NODE)
        node.api.remove(NODES, NODE)
        await node.start()
        await node.devices(8)
        node.bind("train", "Ascend910-4")
        await node.admit("train")
        assert RANK_TABLE not in node.annotations("train")
        node.api.put(NODES, described)
        await node.until(lambda: json.loads(node.annotations("train")[RANK_TABLE])["host_ip"] == "10.1.2.3")

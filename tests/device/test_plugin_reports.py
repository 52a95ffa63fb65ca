"""What the plugin tells the cluster: health, reports, labels, events; and what operators isolate."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from ringwise.device.allocation import AllocationError
from ringwise.device.cards import Chip
from ringwise.device.drivers.port import DriverError
from ringwise.device.drivers.simulated import SimulatedDriver
from ringwise.device.fault_events import MAX_EVENTS
from ringwise.device.report import REFRESH, check_code
from ringwise.device.simulated_kubelet import AdmissionError
from ringwise.manifests.config_maps.device_info import config_map_from_wire
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.wire import ConfigMapWire
from ringwise.state.model import DeviceReport
from tests.builders.values import CHIP
from tests.device.rig import CONFIG_MAPS, ISOLATIONS, NODE, NODES, PODS, REPORT, Rig, rig

REAL = "huawei.com/AscendReal"
EVENTS = "/api/v1/events"


# -- health and reports


async def test_a_chip_that_cannot_be_read_hides_no_fault_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig() as node:
        codes = node.driver.codes

        def read(chip: Chip) -> list[int] | None:
            if chip.physical == 2:
                raise DriverError("dcmi_get_device_errorcode_v2 returned -8006 (time-out)")
            return codes(chip)

        monkeypatch.setattr(node.driver, "codes", read)
        node.driver.change(3, [0x80E18402])
        await node.devices(7)


async def test_chips_that_are_looked_at_seldom_are_reported_all_the_same() -> None:
    async with rig(period=1800.0) as node:
        assert await node.plugin.report() <= REFRESH / 10


async def test_a_chip_breaks_and_heals() -> None:
    async with rig() as node:
        node.driver.change(3, [0x80E18402])
        devices = await node.devices(7)
        assert devices["Ascend910-3"] is False
        await node.until(lambda: node.device_list()[f"{CHIP}-Unhealthy"] == "Ascend910-3")
        fault = json.loads(node.device_list()[f"{CHIP}-Fault"])[0]
        assert (fault["npu_name"], fault["fault_level"], fault["fault_code"]) == (
            "Ascend910-3",
            "SeparateNPU",
            "80E18402",
        )
        node.bind("unlucky", "Ascend910-3")
        with pytest.raises(AdmissionError, match=r"Ascend910-3 .*unhealthy, SeparateNPU \(80E18402\)"):
            await node.admit("unlucky")
        node.driver.change(3, [])
        await node.devices(8)
        await node.until(lambda: node.device_list()[f"{CHIP}-Unhealthy"] == "")


async def test_the_report_follows_pods_and_keeps_its_check_code() -> None:
    async with rig() as node:
        await node.until(lambda: node.device_list()[CHIP].count(",") == 7)
        node.bind("train", "Ascend910-0,Ascend910-1")
        await node.until(lambda: "Ascend910-1" not in node.device_list()[CHIP])
        document = json.loads(node.report()["DeviceInfoCfg"])
        info = document["DeviceInfo"]
        assert document["CheckCode"] == check_code(info["DeviceList"], info["UpdateTime"])
        assert node.api.get(CONFIG_MAPS, REPORT)["metadata"]["labels"] == {"mx-consumer-cim": "true"}
        node.api.remove(PODS, "default/train")
        await node.until(lambda: "Ascend910-1" in node.device_list()[CHIP])


async def test_a_report_that_somebody_deleted_comes_back() -> None:
    async with rig() as node:
        await node.until(lambda: node.report())
        node.api.remove(CONFIG_MAPS, REPORT)
        await node.until(lambda: node.report()["DeviceInfoCfg"])


async def test_the_node_is_described_and_labels_are_never_overwritten() -> None:
    async with rig(started=False) as node:
        found = node.api.get(NODES, NODE)
        node.api.put(
            NODES, {**found, "metadata": {**found["metadata"], "labels": {"accelerator-type": "half"}}}
        )
        await node.start()
        await node.until(lambda: node.api.get(NODES, NODE)["metadata"]["annotations"]["baseDeviceInfos"])
        meta = node.api.get(NODES, NODE)["metadata"]
        assert meta["labels"]["accelerator-type"] == "half"
        assert meta["labels"]["accelerator"] == "huawei-Ascend910"
        assert json.loads(meta["annotations"]["baseDeviceInfos"])["Ascend910-7"] == {
            "IP": "192.168.100.8",
            "SuperDeviceID": 7,
        }


def isolate(node: Rig, *chips: str) -> None:
    """What `ringwise isolate` creates; without chips, what `ringwise unisolate` deletes."""
    if not chips:
        node.api.remove(ISOLATIONS, "noise")
        return
    spec = {"node": NODE, **({"chips": list(chips)} if all(chips) else {})}
    node.api.put(ISOLATIONS, {"metadata": {"name": "noise"}, "spec": spec})


async def test_F4_an_isolated_chip_is_healthy_in_every_list_and_not_free() -> None:
    async with rig() as node:
        isolate(node, "Ascend910-2")
        await node.until(lambda: node.report()["RingwiseIsolatedChips"] == "Ascend910-2")
        lists = node.device_list()
        assert "Ascend910-2" not in lists[CHIP].split(",")
        assert len(lists[CHIP].split(",")) == 7
        assert (lists[f"{CHIP}-Unhealthy"], lists[f"{CHIP}-Fault"]) == ("", "[]")
        assert node.report()["ManuallySeparateNPU"] == ""
        await node.devices(8)
        node.bind("train", "Ascend910-2")
        with pytest.raises(AdmissionError, match="an operator isolated it"):
            await node.admit("train")
        isolate(node)
        await node.until(lambda: node.report()["RingwiseIsolatedChips"] == "")
        assert await node.admit("train") == (2,)


def _definition_deleted(node: Rig) -> None:
    """As the API server does it: objects first."""
    node.api.terminating.add("isolations")
    isolate(node)


def _not_served(node: Rig) -> None:
    node.api.unknown.add("isolations")
    node.api.cut_watches()


def _listed_empty(node: Rig) -> None:
    node.api.cut_watches()
    _definition_deleted(node)
    node.api.forget_history()


@pytest.mark.parametrize("lose", [_definition_deleted, _not_served, _listed_empty])
async def test_F4_isolations_stay_while_their_kind_is_not_served(lose: Callable[[Rig], None]) -> None:
    async with rig() as node:
        isolate(node, "Ascend910-2")
        await node.until(lambda: node.report()["RingwiseIsolatedChips"] == "Ascend910-2")
        lose(node)
        asked = node.api.count("/isolations")
        await node.until(lambda: node.api.count("/isolations") > asked + 1)
        for _ in range(2):
            node.bind("train", "Ascend910-2")
            with pytest.raises(AdmissionError, match="an operator isolated it"):
                await node.admit("train")
            assert node.report()["RingwiseIsolatedChips"] == "Ascend910-2"
            # The record is the report itself.
            await node.restart()
        node.api.terminating.clear()
        node.api.unknown.clear()
        node.api.collections[ISOLATIONS] = {}
        node.api.forget_history()
        node.api.cut_watches()
        await node.until(lambda: node.report()["RingwiseIsolatedChips"] == "")
        assert await node.admit("train") == (2,)


async def test_F4_a_chip_that_was_released_while_the_plugin_was_away_is_not_isolated() -> None:
    async with rig() as node:
        isolate(node, "Ascend910-2")
        await node.until(lambda: node.report()["RingwiseIsolatedChips"] == "Ascend910-2")
        await node.stop()
        isolate(node)
        await node.start()
        await node.until(lambda: node.report()["RingwiseIsolatedChips"] == "")


async def test_F4_a_pod_on_an_isolated_node_goes_on_and_the_scheduler_sees_no_fault(log: Any) -> None:
    """The report as the scheduler reads it: nothing that its detector could take as a fault."""

    def read(node: Rig) -> DeviceReport:
        wire = msgspec.convert(node.api.get(CONFIG_MAPS, REPORT), ConfigMapWire)
        found = config_map_from_wire(wire, Findings("test"))
        assert found is not None
        return found[0][0]

    async with rig() as node:
        node.bind("train", "Ascend910-0,Ascend910-1")
        assert await node.admit("train", 2) == (0, 1)
        isolate(node, "")
        everything = ",".join(f"Ascend910-{chip}" for chip in range(8))
        await node.until(lambda: node.report()["RingwiseIsolatedChips"] == everything)
        await node.until(lambda: json.loads(node.report()["RingwiseMountedChips"]))
        report = read(node)
        assert (report.free, report.unhealthy, report.faults) == (0, 0, ())
        await node.devices(8)
        # A fault of an isolated chip counts as any other.
        node.driver.change(0, [0x80E18402])
        await node.devices(7)
        await node.until(lambda: read(node).unhealthy == 1)
        assert [fault.code for fault in read(node).faults] == ["80E18402"]
        # So does a chip that an operator separates by Huawei's own means.
        found = node.api.get(CONFIG_MAPS, REPORT)
        separated = {**found["data"], "ManuallySeparateNPU": "Ascend910-1"}
        node.api.put(CONFIG_MAPS, {**found, "data": separated})
        await node.devices(6)
        await node.until(lambda: read(node).unhealthy == 3)
        assert "chip separated by an operator" in log.getvalue()


async def test_F4_a_separation_of_an_isolated_chip_outlives_a_restart() -> None:
    async with rig() as node:
        isolate(node, "Ascend910-2", "Ascend910-3")
        await node.until(lambda: node.report()["RingwiseIsolatedChips"] == "Ascend910-2,Ascend910-3")
        await node.stop()
        found = node.api.get(CONFIG_MAPS, REPORT)
        node.api.put(CONFIG_MAPS, {**found, "data": {**found["data"], "ManuallySeparateNPU": "Ascend910-2"}})
        await node.start()
        await node.devices(7)
        await node.until(lambda: node.device_list()[f"{CHIP}-Unhealthy"] == "Ascend910-2")
        assert node.report()["ManuallySeparateNPU"] == "Ascend910-2"


async def test_a_call_right_after_the_start_knows_isolated_chips() -> None:
    async with rig() as node:
        await node.stop()
        isolate(node, "Ascend910-2")
        node.bind("train", "Ascend910-2")
        before = node.kubelet.registrations
        await node.start()
        with pytest.raises(AllocationError, match="an operator isolated it"):
            await node.plugin.allocate([["Ascend910-5"]])
        await node.until(lambda: node.kubelet.registrations > before)


async def test_names_that_operators_wrote_are_kept_and_removed_names_are_released() -> None:
    async with rig() as node:
        await node.until(lambda: node.report()["DeviceInfoCfg"])

        def edit(names: str) -> None:
            found = node.api.get(CONFIG_MAPS, REPORT)
            node.api.put(CONFIG_MAPS, {**found, "data": {**found["data"], "ManuallySeparateNPU": names}})

        def said() -> tuple[str, str]:
            """What is separated, and the chips of the last own write."""
            report = node.report()
            return report["ManuallySeparateNPU"], node.device_list()[f"{CHIP}-Unhealthy"]

        # Names of chips that the node lacks are kept as they were written.
        edit("Ascend910-5, Ascend910-99,spare board")
        await node.devices(7)
        names = "Ascend910-5,Ascend910-99,spare board"
        await node.until(lambda: said() == (names, "Ascend910-5"))
        reasons = json.loads(node.report()["UpgradeFaultReason"])
        assert reasons["Ascend910-5"][0]["upgrade_type"] == "FaultAutofill"
        # Also over a restart, and over a chip that is gone then.
        await node.stop()
        node.driver = SimulatedDriver({"count": 5})
        await node.start()
        await node.devices(5)
        node.driver.change(0, [0x80E18402])
        await node.until(lambda: said() == (names, "Ascend910-0"))
        assert json.loads(node.report()["UpgradeFaultReason"])["Ascend910-5"] == reasons["Ascend910-5"]
        await node.stop()
        node.driver = SimulatedDriver({"count": 8})
        await node.start()
        await node.devices(7)
        await node.until(lambda: said() == (names, "Ascend910-5"))
        edit("Ascend910-99")
        await node.devices(8)
        await node.until(lambda: said() == ("Ascend910-99", ""))
        edit("")
        node.driver.change(1, [0x80E18402])
        await node.until(lambda: said() == ("", "Ascend910-1"))


#: Two of them in a day separate a chip, until an operator removes its name.
FREQUENT = 0x80C98000


async def break_twice(node: Rig, chip: int) -> None:
    for code in (FREQUENT, 0, FREQUENT):
        node.driver.change(chip, [code] if code else [])
        await node.plugin.look()


def why_separated(node: Rig) -> dict[str, str]:
    reasons = json.loads(node.report()["UpgradeFaultReason"])
    return {chip: entries[0]["upgrade_type"] for chip, entries in reasons.items()}


async def test_a_write_that_meets_an_edit_does_not_release_the_chips_that_it_separates() -> None:
    async with rig() as node:
        await node.until(lambda: node.report()["DeviceInfoCfg"])
        under_way, gate = asyncio.Event(), asyncio.Event()

        def is_report(method: str, path: str) -> bool:
            if method == "PATCH" and path.endswith(REPORT.partition("/")[2]):
                under_way.set()
                return True
            return False

        node.api.fault(is_report, until=gate)
        await break_twice(node, 2)
        await under_way.wait()
        # An operator separates another chip before the server has handled the write.
        found = node.api.get(CONFIG_MAPS, REPORT)
        node.api.put(CONFIG_MAPS, {**found, "data": {**found["data"], "ManuallySeparateNPU": "Ascend910-5"}})
        await node.until(lambda: "Ascend910-5" in node.plugin.monitor.tracker.manually_separated())
        gate.set()
        await node.until(lambda: node.report()["ManuallySeparateNPU"] == "Ascend910-2,Ascend910-5")
        assert why_separated(node) == {"Ascend910-2": "FaultFrequency", "Ascend910-5": "FaultAutofill"}


async def test_a_late_event_does_not_release_a_chip_that_was_separated_since() -> None:
    async with rig() as node:
        await node.until(lambda: node.report()["DeviceInfoCfg"])
        watches, gate = asyncio.Event(), asyncio.Event()

        def is_watch(method: str, path: str) -> bool:
            if method == "GET" and path.endswith("kube-system/configmaps"):
                watches.set()
                return True
            return False

        node.api.fault(is_watch, until=gate, times=2)
        node.api.cut_watches()
        await watches.wait()
        # One write that the watch brings late, then one that separates a chip.
        node.driver.change(7, [0x80E18402])
        await node.until(lambda: node.device_list()[f"{CHIP}-Unhealthy"] == "Ascend910-7")
        await break_twice(node, 2)
        await node.until(lambda: node.report()["ManuallySeparateNPU"] == "Ascend910-2")
        gate.set()
        node.driver.change(7, [])
        await node.until(lambda: node.device_list()[f"{CHIP}-Unhealthy"] == "Ascend910-2")
        # A later edit shows that the watch has caught up.
        found = node.api.get(CONFIG_MAPS, REPORT)
        names = "Ascend910-2,Ascend910-5"
        node.api.put(CONFIG_MAPS, {**found, "data": {**found["data"], "ManuallySeparateNPU": names}})
        await node.until(lambda: "Ascend910-5" in why_separated(node))
        assert why_separated(node) == {"Ascend910-2": "FaultFrequency", "Ascend910-5": "FaultAutofill"}


async def test_the_fault_configuration_of_the_cluster_counts() -> None:
    async with rig() as node:
        node.driver.change(1, [0x80E18402])
        await node.devices(7)
        codes = {"NotHandleFaultCodes": ["80E18402"]}
        meta = {"namespace": "kube-system", "name": "mindx-dl-fault-config"}
        node.api.put(CONFIG_MAPS, {"metadata": meta, "data": {"faultCode.json": json.dumps(codes)}})
        await node.devices(8)


async def test_without_matching_kubelet_s_ids_are_the_chips() -> None:
    async with rig(match_pods=False) as node:
        node.bind("train", "Ascend910-4")
        assert await node.admit("train", ids=["Ascend910-6"]) == (6,)
        assert node.annotations("train")["predicate-time"] == "1"
        assert node.api.count("PATCH /api/v1/namespaces/default/pods") == 0


async def test_by_environment_nothing_is_exchanged() -> None:
    """With Ascend Docker Runtime a container reads its own annotation, whatever Allocate answered."""
    async with rig(mount_method="ascend-docker") as node:
        env: list[dict[str, Any]] = [
            {
                "name": "ASCEND_VISIBLE_DEVICES",
                "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{CHIP}']"}},
            }
        ]
        limits = {"limits": {CHIP: "1"}}
        spec = {"nodeName": NODE, "containers": [{"name": "main", "resources": limits, "env": env}]}
        node.bind("first", "Ascend910-0", "1", spec=spec)
        node.bind("second", "Ascend910-1", "2", spec=spec)
        await node.admit("second")
        await node.until(lambda: node.annotations("second").get(REAL) == "Ascend910-1")
        await node.until(lambda: REAL not in node.annotations("first"))
        assert node.annotations("first")[CHIP] == "Ascend910-0"
        assert await node.admit("first") == (0,)


async def test_a_fault_is_an_event_on_the_plugin_s_own_pod() -> None:
    async with rig(pod="volcano-system/plugin-x") as node:
        node.driver.change(3, [0x80E18402])
        await node.until(lambda: node.api.all(EVENTS))
        node.driver.change(3, [])
        await node.until(lambda: len(node.api.all(EVENTS)) == 2)
        occurred, recovered = sorted(node.api.all(EVENTS), key=lambda one: str(one["metadata"]["name"]))
        assert occurred["metadata"]["namespace"] == "volcano-system"
        assert occurred["metadata"]["name"].startswith("plugin-x.")
        assert occurred["involvedObject"]["kind"] == "Pod"
        assert occurred["reportingInstance"] == "plugin-x"
        assert (occurred["reason"], occurred["action"], occurred["type"]) == (
            "Occur",
            "SeparateNPU",
            "Warning",
        )
        assert (recovered["reason"], recovered["type"]) == ("Recovery", "Normal")
        for part in (
            f"nodeName:{NODE}",
            "assertion:Occur",
            "faultCodes:80E18402",
            "cardID:",
            "deviceID:",
        ):
            assert part in occurred["message"]


async def test_outside_of_a_pod_a_fault_is_an_event_on_the_node_and_a_storm_is_limited() -> None:
    async with rig() as node:
        codes = [int(code, 16) for code in ("80E18402", "80E18005", "80E01801", "8C204E00", "80C98008")]
        for number in range(8):
            node.driver.change(number, codes)
        await node.until(lambda: len(node.api.all(EVENTS)) == MAX_EVENTS)
        await node.until(lambda: not node.device_list()[CHIP])
        events = node.api.all(EVENTS)
        assert len(events) == MAX_EVENTS
        assert {one["involvedObject"]["kind"] for one in events} == {"Node"}
        assert {one["metadata"]["namespace"] for one in events} == {"default"}


async def test_a_node_has_one_device_plugin_for_a_resource() -> None:
    """Huawei's plugin on the same socket is not pushed aside; ours waits until it is gone."""
    async with rig(started=False) as node:
        socket = node.settings.plugin_folder / "Ascend910.sock"
        other = await asyncio.start_unix_server(lambda reader, writer: writer.close(), socket)
        await node.start()
        await node.until(lambda: node.plugin.ready)
        await asyncio.sleep(3 * node.settings.last_retry)
        assert node.kubelet.registrations == 0
        other.close()
        await node.devices(8)
        assert node.kubelet.registrations == 1

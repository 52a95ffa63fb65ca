"""The plugin over unix sockets: Allocate, restarts, an API server in trouble, reports, isolation."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ringwise.device.allocation import CONSUMED, AllocationError
from ringwise.device.cards import Chip
from ringwise.device.drivers.port import DriverError
from ringwise.device.drivers.simulated import SimulatedDriver
from ringwise.device.fault_events import MOST_EVENTS
from ringwise.device.report import REFRESH, check_code
from ringwise.device.service import after_failures
from ringwise.device.simulated_kubelet import AdmissionError
from tests.device.cases import section
from tests.device.rig import CONFIG_MAPS, NODE, NODES, PODS, REPORT, RESOURCE, rig
from tests.kube.harness import run

REAL, IDS = "huawei.com/AscendReal", "huawei.com/kltDev"
EVENTS = "/api/v1/events"
RANK_TABLE = "ascend.kubectl.kubernetes.io/ascend-910-configuration"


def test_d2_the_container_has_the_chips_of_the_decision() -> None:
    async def test() -> None:
        async with rig() as node:
            node.bind("train", "Ascend910-4,Ascend910-5")
            assert await node.admit("train", 2, ids=["Ascend910-7", "Ascend910-0"]) == (4, 5)
            written = node.annotations("train")
            assert written["predicate-time"] == CONSUMED
            assert written[REAL] == "Ascend910-4,Ascend910-5"
            assert written[IDS] == "Ascend910-0,Ascend910-7"
            table = json.loads(written[RANK_TABLE])
            assert [device["device_id"] for device in table["devices"]] == ["4", "5"]

    run(test())


def test_preferred_ids_agree_with_the_scheduler() -> None:
    async def test() -> None:
        async with rig() as node:
            node.bind("train", "Ascend910-6")
            await node.until(lambda: node.plugin.allocator.waiting())
            await node.admit("train")
            assert node.annotations("train")[IDS] == "Ascend910-6"

    run(test())


def test_eight_pods_in_a_burst_of_concurrent_calls() -> None:
    async def test() -> None:
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

    run(test())


def test_d3_after_an_exchange_every_annotation_and_rank_table_is_right() -> None:
    async def test() -> None:
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
                assert written[RESOURCE] == f"Ascend910-{chip}"
                assert json.loads(written[RANK_TABLE])["devices"][0]["device_id"] == str(chip)
                assert json.loads(written[RANK_TABLE])["pod_name"] == name
            uids = {
                name: node.api.get(PODS, f"default/{name}")["metadata"]["uid"] for name in ("first", "second")
            }
            mounted = {uids["first"]: "Ascend910-1", uids["second"]: "Ascend910-0"}
            await node.until(lambda: json.loads(node.report()["RingwiseMountedChips"]) == mounted)

    run(test())


@pytest.mark.parametrize("world", ["ascend-docker", "plain", "cdi"])
def test_three_ways_into_a_container(world: str) -> None:
    async def test() -> None:
        async with rig(started=False, world=world) as node:
            for name in ("davinci_manager", "hisi_hdc", "davinci3"):
                path = node.folder / "host" / "dev" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            await node.start()
            await node.devices(8)
            node.bind("train", "Ascend910-3")
            container = await node.kubelet.admit("default/train", RESOURCE, 1)
            answer = container.answer
            assert container.chips == (3,)
            if world == "ascend-docker":
                assert dict(answer.envs) == {"ASCEND_VISIBLE_DEVICES": "3", "ASCEND_RUNTIME_OPTIONS": ""}
                assert not answer.devices
            elif world == "plain":
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

    run(test())


def test_the_cdi_specification_follows_the_host() -> None:
    async def test() -> None:
        async with rig(world="cdi") as node:
            spec = node.folder / "cdi" / "huawei.com-npu.json"
            manager = node.folder / "host" / "dev" / "davinci_manager"
            manager.parent.mkdir(parents=True)
            manager.touch()
            await node.until(lambda: "davinci_manager" in spec.read_text())
            spec.unlink()
            await node.until(spec.exists)

    run(test())


def test_d3_a_rank_table_waits_for_the_address_of_the_node() -> None:
    async def test() -> None:
        async with rig(started=False) as node:
            described = node.api.get(NODES, NODE)
            node.api.remove(NODES, NODE)
            await node.start()
            await node.devices(8)
            node.bind("train", "Ascend910-4")
            await node.admit("train")
            assert RANK_TABLE not in node.annotations("train")
            node.api.put(NODES, described)
            await node.until(
                lambda: json.loads(node.annotations("train")[RANK_TABLE])["host_ip"] == "10.1.2.3"
            )

    run(test())


# -- restarts


def test_a_node_that_kubelet_made_anew_is_described_again() -> None:
    async def test() -> None:
        async with rig() as node:
            await node.until(lambda: node.api.get(NODES, NODE)["metadata"]["annotations"]["baseDeviceInfos"])
            await node.kubelet.stop()
            node.api.remove(NODES, NODE)
            node.api.put(NODES, {"metadata": {"name": NODE}})
            await node.kubelet.start()
            await node.until(lambda: node.api.get(NODES, NODE)["metadata"]["annotations"]["baseDeviceInfos"])

    run(test())


def test_levels_from_before_a_restart_count_and_unreadable_ones_do_not() -> None:
    async def test() -> None:
        async with rig(started=False) as node:
            reason = {"upgrade_time": 1, "fault_code": "80e18005", "upgrade_type": "FaultFrequency"}
            reasons = {
                "Ascend910-1": [{**reason, "fault_level": "Strange"}],
                "Ascend910-2": [{**reason, "fault_level": "SeparateNPU"}],
                "Ascend910-3": [{**reason, "fault_level": "ManuallySeparateNPU"}],
            }
            node.api.put(
                CONFIG_MAPS,
                {
                    "metadata": {"namespace": "kube-system", "name": REPORT.partition("/")[2]},
                    "data": {
                        "ManuallySeparateNPU": "Ascend910-1",
                        "UpgradeFaultReason": json.dumps(reasons),
                    },
                },
            )
            await node.start()
            await node.devices(6)
            await node.until(
                lambda: node.device_list()["huawei.com/Ascend910-Unhealthy"] == "Ascend910-1,Ascend910-2"
            )

    run(test())


def test_kubelet_restarts_and_the_plugin_registers_again() -> None:
    async def test() -> None:
        async with rig() as node:
            node.bind("train", "Ascend910-2")
            await node.admit("train")
            before = node.kubelet.registrations
            await node.kubelet.stop()
            await node.kubelet.start()
            await node.until(lambda: node.kubelet.registrations > before)
            await node.devices(8)
            node.bind("next", "Ascend910-3")
            assert await node.admit("next") == (3,)

    run(test())


def test_a_socket_that_vanished_is_made_again() -> None:
    async def test() -> None:
        async with rig() as node:
            before = node.kubelet.registrations
            node.registration.server.socket.unlink()
            await node.until(lambda: node.kubelet.registrations > before)
            await node.devices(8)
            node.bind("train", "Ascend910-2")
            assert await node.admit("train") == (2,)

    run(test())


def test_the_plugin_restarts_and_still_knows_what_is_mounted() -> None:
    async def test() -> None:
        async with rig() as node:
            node.bind("first", "Ascend910-0", "1")
            node.bind("second", "Ascend910-1", "2")
            assert await node.admit("second") == (0,)
            await node.restart()
            assert await node.admit("first") == (1,)
            await node.until(lambda: node.annotations("first").get(REAL) == "Ascend910-1")
            await node.until(lambda: node.annotations("second").get(REAL) == "Ascend910-0")

    run(test())


def test_the_file_of_mounts_is_lost() -> None:
    async def test() -> None:
        async with rig() as node:
            node.bind("train", "Ascend910-4,Ascend910-5")
            await node.admit("train", 2)
            await node.stop()
            for path in (node.folder / "p" / "ringwise").iterdir():
                path.unlink()
            await node.restart()
            await node.until(
                lambda: (
                    set(node.plugin.allocator.ledger.mapped(RESOURCE).values())
                    == {"Ascend910-4", "Ascend910-5"}
                )
            )
            node.bind("thief", "Ascend910-5")
            with pytest.raises(
                AdmissionError, match="Ascend910-5 of pod default/thief is held by pod default/train"
            ):
                await node.admit("thief")

    run(test())


def test_a_state_folder_that_cannot_be_written_stops_nothing() -> None:
    async def test() -> None:
        async with rig(started=False) as node:
            (node.folder / "p").mkdir(exist_ok=True)
            (node.folder / "p" / "ringwise").write_text("a file where the folder should be")
            node.kubelet.containers.clear()
            await node.start()
            await node.devices(8)
            node.bind("train", "Ascend910-1")
            assert await node.admit("train") == (1,)

    run(test())


def test_shutdown_leaves_no_socket() -> None:
    async def test() -> None:
        async with rig() as node:
            socket = node.registration.server.socket
            assert socket.exists()
            await node.stop()
            assert not socket.exists()
            assert await node.devices(0)

    run(test())


@pytest.mark.parametrize("case", section("grpc_misc"))
def test_what_follows_failures(case: dict[str, Any]) -> None:
    assert after_failures(case["failures"]) == case["strategy"]


def test_failures_as_the_constants_say() -> None:
    constants = section("constants")
    assert after_failures(constants["reregister_after_failed_sends"]) == "reRegistry"
    assert after_failures(constants["exit_after_failed_sends"]) == "exit"
    assert after_failures(4) == after_failures(6) == ""


# -- the API server in trouble


@pytest.mark.parametrize("status", [409, 429, 500, 503])
def test_a_patch_that_fails_twice_is_tried_again(status: int) -> None:
    async def test() -> None:
        async with rig() as node:
            node.bind("train", "Ascend910-1")
            node.api.fault("PATCH /api/v1/namespaces/default/pods/train", status=status, times=2)
            assert await node.admit("train") == (1,)
            assert node.annotations("train")["predicate-time"] == CONSUMED

    run(test())


def test_d2_a_patch_that_fails_fails_allocate_and_leaves_the_pod_waiting() -> None:
    async def test() -> None:
        async with rig() as node:
            node.bind("train", "Ascend910-1")
            node.api.fault("PATCH /api/v1/namespaces/default/pods/train", status=500, times=3)
            with pytest.raises(AdmissionError, match="pod default/train could not be marked as served: 500"):
                await node.admit("train")
            assert node.annotations("train")["predicate-time"] == "1"
            assert node.plugin.allocator.ledger.mounts == []
            assert await node.admit("train") == (1,)

    run(test())


def test_a_patch_without_an_answer_that_took_effect() -> None:
    """The server took the patch and the answers were lost; kubelet may have meant another pod."""

    async def test() -> None:
        async with rig() as node:
            node.bind("first", "Ascend910-1", "1")
            node.bind("second", "Ascend910-2", "2")
            node.api.fault("PATCH /api/v1/namespaces/default/pods/first", drop=True, done=True, times=3)
            with pytest.raises(AdmissionError, match="first could not be marked as served"):
                await node.admit("second")
            assert await node.admit("first") == (1,)

    run(test())


def test_the_api_server_is_down() -> None:
    async def test() -> None:
        async with rig() as node:
            node.bind("train", "Ascend910-1")
            await node.until(lambda: node.plugin.allocator.waiting())
            fault = node.api.fault("/api/v1", drop=True, times=10_000)
            node.api.cut_watches()
            with pytest.raises(AdmissionError, match="could not be marked as served"):
                await node.admit("train")
            with pytest.raises(
                AdmissionError, match=r"waits for 2 chips .*the API server could not be asked"
            ):
                await node.admit("other", 2)
            node.api.faults.remove(fault)
            assert await node.admit("train") == (1,)

    run(test())


def test_a_pod_that_the_watch_has_not_brought_yet_is_read_before_failing() -> None:
    async def test() -> None:
        async with rig() as node:
            node.api.fault(lambda method, path: method == "GET" and path == PODS, status=500, times=1)
            node.api.cut_watches()
            node.bind("train", "Ascend910-1")
            assert await node.admit("train") == (1,)

    run(test())


def test_a_pod_that_is_gone_is_not_served() -> None:
    async def test() -> None:
        async with rig() as node:
            node.bind("gone", "Ascend910-1", "1")
            node.bind("here", "Ascend910-2", "2")
            await node.until(lambda: len(node.plugin.allocator.waiting()) == 2)
            node.api.fault("PATCH /api/v1/namespaces/default/pods/gone", status=404)
            assert await node.admit("here") == (2,)

    run(test())


def test_no_pod_waits() -> None:
    async def test() -> None:
        async with rig() as node:
            with pytest.raises(
                AdmissionError, match=r"no pod of this node waits for 1 chip of huawei\.com/Ascend910"
            ):
                await node.admit("stranger")

    run(test())


# -- health and reports


def test_a_chip_that_cannot_be_read_hides_no_fault_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with rig() as node:
            codes = node.driver.codes

            def read(chip: Chip) -> list[int] | None:
                if chip.physical == 2:
                    raise DriverError("dcmi_get_device_errorcode_v2 returned -8006 (time-out)")
                return codes(chip)

            monkeypatch.setattr(node.driver, "codes", read)
            node.driver.change(3, [0x80E18402])
            await node.devices(7)

    run(test())


def test_chips_that_are_looked_at_seldom_are_reported_all_the_same() -> None:
    async def test() -> None:
        async with rig(period=1800.0) as node:
            assert await node.plugin.report() <= REFRESH / 10

    run(test())


def test_a_chip_breaks_and_heals() -> None:
    async def test() -> None:
        async with rig() as node:
            node.driver.change(3, [0x80E18402])
            devices = await node.devices(7)
            assert devices["Ascend910-3"] is False
            await node.until(lambda: node.device_list()[f"{RESOURCE}-Unhealthy"] == "Ascend910-3")
            fault = json.loads(node.device_list()[f"{RESOURCE}-Fault"])[0]
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
            await node.until(lambda: node.device_list()[f"{RESOURCE}-Unhealthy"] == "")

    run(test())


def test_the_report_follows_pods_and_keeps_its_check_code() -> None:
    async def test() -> None:
        async with rig() as node:
            await node.until(lambda: node.device_list()[RESOURCE].count(",") == 7)
            node.bind("train", "Ascend910-0,Ascend910-1")
            await node.until(lambda: "Ascend910-1" not in node.device_list()[RESOURCE])
            document = json.loads(node.report()["DeviceInfoCfg"])
            info = document["DeviceInfo"]
            assert document["CheckCode"] == check_code(info["DeviceList"], info["UpdateTime"])
            assert node.api.get(CONFIG_MAPS, REPORT)["metadata"]["labels"] == {"mx-consumer-cim": "true"}
            node.api.remove(PODS, "default/train")
            await node.until(lambda: "Ascend910-1" in node.device_list()[RESOURCE])

    run(test())


def test_a_report_that_somebody_deleted_comes_back() -> None:
    async def test() -> None:
        async with rig() as node:
            await node.until(lambda: node.report())
            node.api.remove(CONFIG_MAPS, REPORT)
            await node.until(lambda: node.report()["DeviceInfoCfg"])

    run(test())


def test_the_node_is_described_and_labels_are_never_overwritten() -> None:
    async def test() -> None:
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

    run(test())


def test_operators_isolate_and_release() -> None:
    async def test() -> None:
        async with rig() as node:
            data = {f"{NODE}_Ascend910-2": json.dumps({"by": "me", "at": "now", "reason": "noise"})}
            node.api.put(
                CONFIG_MAPS,
                {"metadata": {"namespace": "kube-system", "name": "ringwise-isolation"}, "data": data},
            )
            await node.devices(7)
            await node.until(lambda: node.report()["ManuallySeparateNPU"] == "Ascend910-2")
            node.bind("train", "Ascend910-2")
            with pytest.raises(AdmissionError, match="an operator isolated it"):
                await node.admit("train")
            node.api.put(
                CONFIG_MAPS,
                {"metadata": {"namespace": "kube-system", "name": "ringwise-isolation"}, "data": {}},
            )
            await node.devices(8)
            await node.until(lambda: node.report()["ManuallySeparateNPU"] == "")

    run(test())


def test_a_call_right_after_the_start_knows_isolated_chips() -> None:
    async def test() -> None:
        async with rig() as node:
            await node.stop()
            data = {f"{NODE}_Ascend910-2": json.dumps({"by": "me", "at": "now", "reason": "noise"})}
            name = {"namespace": "kube-system", "name": "ringwise-isolation"}
            node.api.put(CONFIG_MAPS, {"metadata": name, "data": data})
            node.bind("train", "Ascend910-2")
            before = node.kubelet.registrations
            await node.start()
            with pytest.raises(AllocationError, match="an operator isolated it"):
                await node.plugin.allocate([["Ascend910-5"]])
            await node.until(lambda: node.kubelet.registrations > before)

    run(test())


def test_names_that_operators_wrote_are_kept_and_removed_names_are_released() -> None:
    async def test() -> None:
        async with rig() as node:
            await node.until(lambda: node.report()["DeviceInfoCfg"])

            def edit(names: str) -> None:
                found = node.api.get(CONFIG_MAPS, REPORT)
                node.api.put(CONFIG_MAPS, {**found, "data": {**found["data"], "ManuallySeparateNPU": names}})

            def said() -> tuple[str, str]:
                """What is separated, and the chips of the last own write."""
                report = node.report()
                return report["ManuallySeparateNPU"], node.device_list()[f"{RESOURCE}-Unhealthy"]

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

    run(test())


def test_a_mirrored_isolation_of_a_chip_that_is_gone_is_no_word_of_an_operator() -> None:
    async def test() -> None:
        async with rig(started=False) as node:
            node.api.put(
                CONFIG_MAPS,
                {
                    "metadata": {"namespace": "kube-system", "name": REPORT.partition("/")[2]},
                    "data": {
                        "ManuallySeparateNPU": "Ascend910-8,Ascend910-9",
                        "RingwiseIsolatedChips": "Ascend910-9",
                    },
                },
            )
            await node.start()
            await node.devices(8)
            await node.until(lambda: node.report()["ManuallySeparateNPU"] == "Ascend910-8")

    run(test())


def test_the_fault_configuration_of_the_cluster_counts() -> None:
    async def test() -> None:
        async with rig() as node:
            node.driver.change(1, [0x80E18402])
            await node.devices(7)
            codes = {"NotHandleFaultCodes": ["80E18402"]}
            meta = {"namespace": "kube-system", "name": "mindx-dl-fault-config"}
            node.api.put(CONFIG_MAPS, {"metadata": meta, "data": {"faultCode.json": json.dumps(codes)}})
            await node.devices(8)

    run(test())


def test_without_matching_kubelet_s_ids_are_the_chips() -> None:
    async def test() -> None:
        async with rig(match_pods=False) as node:
            node.bind("train", "Ascend910-4")
            assert await node.admit("train", ids=["Ascend910-6"]) == (6,)
            assert node.annotations("train")["predicate-time"] == "1"
            assert node.api.count("PATCH /api/v1/namespaces/default/pods") == 0

    run(test())


def test_by_environment_nothing_is_exchanged() -> None:
    """With Ascend Docker Runtime a container reads its own annotation, whatever Allocate answered."""

    async def test() -> None:
        async with rig(world="ascend-docker") as node:
            env: list[dict[str, Any]] = [
                {
                    "name": "ASCEND_VISIBLE_DEVICES",
                    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{RESOURCE}']"}},
                }
            ]
            limits = {"limits": {RESOURCE: "1"}}
            spec = {"nodeName": NODE, "containers": [{"name": "main", "resources": limits, "env": env}]}
            node.bind("first", "Ascend910-0", "1", spec=spec)
            node.bind("second", "Ascend910-1", "2", spec=spec)
            await node.admit("second")
            await node.until(lambda: node.annotations("second").get(REAL) == "Ascend910-1")
            await node.until(lambda: REAL not in node.annotations("first"))
            assert node.annotations("first")[RESOURCE] == "Ascend910-0"
            assert await node.admit("first") == (0,)

    run(test())


def test_a_fault_is_an_event_on_the_plugin_s_own_pod() -> None:
    async def test() -> None:
        async with rig(pod="volcano-system/plugin-x") as node:
            node.driver.change(3, [0x80E18402])
            await node.until(lambda: node.api.all(EVENTS))
            node.driver.change(3, [])
            await node.until(lambda: len(node.api.all(EVENTS)) == 2)
            occurred, recovered = sorted(node.api.all(EVENTS), key=lambda one: str(one["metadata"]["name"]))
            assert occurred["metadata"]["namespace"] == "volcano-system"
            assert occurred["metadata"]["name"].startswith("plugin-x.")
            assert occurred["involvedObject"]["kind"] == "Pod"
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

    run(test())


def test_outside_of_a_pod_a_fault_is_an_event_on_the_node_and_a_storm_is_limited() -> None:
    async def test() -> None:
        async with rig() as node:
            codes = [int(code, 16) for code in ("80E18402", "80E18005", "80E01801", "8C204E00", "80C98008")]
            for number in range(8):
                node.driver.change(number, codes)
            await node.until(lambda: len(node.api.all(EVENTS)) == MOST_EVENTS)
            await node.until(lambda: not node.device_list()[RESOURCE])
            events = node.api.all(EVENTS)
            assert len(events) == MOST_EVENTS
            assert {one["involvedObject"]["kind"] for one in events} == {"Node"}
            assert {one["metadata"]["namespace"] for one in events} == {"default"}

    run(test())


def test_a_node_has_one_device_plugin_for_a_resource() -> None:
    """Huawei's plugin on the same socket is not pushed aside; ours waits until it is gone."""

    async def test() -> None:
        async with rig(started=False) as node:
            socket = node.settings.plugin_folder / "Ascend910.sock"
            other = await asyncio.start_unix_server(lambda reader, writer: writer.close(), socket)
            await node.start()
            await node.until(lambda: node.plugin.ready)
            await asyncio.sleep(3 * node.settings.retry_period)
            assert node.kubelet.registrations == 0
            other.close()
            await node.devices(8)
            assert node.kubelet.registrations == 1

    run(test())

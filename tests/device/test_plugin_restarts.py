"""Restarts of the plugin and of kubelet, lost files, and an API server in trouble."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from ringwise.device.allocation import CONSUMED
from ringwise.device.service import FileWatch, after_failures
from ringwise.device.simulated_kubelet import AdmissionError
from ringwise.kubeclient.client import ApiError, Client, UnreachableError
from tests.builders.values import CHIP
from tests.device.cases import section
from tests.device.rig import CONFIG_MAPS, NODE, NODES, PODS, REPORT, Rig, rig
from tests.device.test_unconfirmed_chips import UID, write_spec

REAL = "huawei.com/AscendReal"


# -- restarts


async def test_a_node_that_kubelet_made_anew_is_described_again() -> None:
    async with rig() as node:
        await node.until(lambda: node.api.get(NODES, NODE)["metadata"]["annotations"]["baseDeviceInfos"])
        await node.kubelet.stop()
        node.api.remove(NODES, NODE)
        node.api.put(NODES, {"metadata": {"name": NODE}})
        await node.kubelet.start()
        await node.until(lambda: node.api.get(NODES, NODE)["metadata"]["annotations"]["baseDeviceInfos"])


async def test_levels_from_before_a_restart_count_and_unreadable_ones_do_not() -> None:
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


async def test_kubelet_restarts_and_the_plugin_registers_again() -> None:
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


#: Seconds that no test waits: what happens happens for another reason.
NEVER = 3600.0


@pytest.mark.parametrize("refusals", [0, 3])
async def test_a_new_kubelet_is_registered_with_at_once_and_after_a_refusal_soon(refusals: int) -> None:
    """It rejects the pods that it must start until it knows the plugin: neither the next look nor the longest
    pause between two tries is waited for.
    """
    async with rig(look_period=NEVER, last_retry=NEVER) as node:
        before = node.kubelet.registrations
        await node.kubelet.stop()
        node.kubelet.refusals = refusals
        await node.kubelet.start()
        await node.until(lambda: node.kubelet.registrations > before)
        assert node.kubelet.refusals == 0
        await node.devices(8)


async def test_a_folder_of_kubelet_that_comes_later_or_anew_is_watched(tmp_path: Path) -> None:
    folder = tmp_path / "device-plugins"
    with FileWatch(folder, "kubelet.sock") as watch:
        assert not await watch.made(0)
        for _ in range(2):
            folder.mkdir()
            (folder / "kubelet_internal_checkpoint").touch()
            assert not await watch.made(0.01)
            (folder / "kubelet.sock").touch()
            assert await watch.made(NEVER)
            shutil.rmtree(folder)
            # The loop hears that the folder is gone.
            await asyncio.sleep(0)
            assert not await watch.made(0.01)


async def test_without_watches_of_files_kubelet_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileWatch, "__enter__", lambda watch: watch)
    async with rig() as node:
        before = node.kubelet.registrations
        await node.kubelet.stop()
        await node.kubelet.start()
        await node.until(lambda: node.kubelet.registrations > before)


async def test_a_socket_that_vanished_is_made_again() -> None:
    async with rig() as node:
        before = node.kubelet.registrations
        node.registration.server.socket.unlink()
        await node.until(lambda: node.kubelet.registrations > before)
        await node.devices(8)
        node.bind("train", "Ascend910-2")
        assert await node.admit("train") == (2,)


async def test_the_plugin_restarts_and_still_knows_what_is_mounted() -> None:
    async with rig() as node:
        node.bind("first", "Ascend910-0", "1")
        node.bind("second", "Ascend910-1", "2")
        assert await node.admit("second") == (0,)
        await node.restart()
        assert await node.admit("first") == (1,)
        await node.until(lambda: node.annotations("first").get(REAL) == "Ascend910-1")
        await node.until(lambda: node.annotations("second").get(REAL) == "Ascend910-0")


@asynccontextmanager
async def lost_record(real: str, **settings: Any) -> AsyncIterator[tuple[Rig, str]]:
    """A node whose plugin has lost its file while a pod runs with chips 4 and 5; what AscendReal of the pod
    says was written by its owner meanwhile. And the pod's uid.
    """
    async with rig(**settings) as node:
        uid, chips = UID, "Ascend910-4,Ascend910-5"
        about = {"annotations": {CHIP: chips, "predicate-time": "1"}, "uid": uid}
        node.bind("train", chips, metadata={"namespace": "default", "name": "train", **about})
        assert await node.admit("train", 2, ids=["Ascend910-0", "Ascend910-4"]) == (4, 5)
        await node.until(lambda: uid in node.report()["RingwiseMountedChips"])
        await node.stop()
        for path in (node.folder / "p" / "ringwise").iterdir():
            path.unlink()
        pod = node.api.get(PODS, "default/train")
        pod["metadata"]["annotations"][REAL] = real
        node.api.put(PODS, {**pod, "status": {"phase": "Running"}})
        await node.restart()
        yield node, uid


@pytest.mark.parametrize("real", ["Ascend910-4,Ascend910-5", "Ascend910-6,Ascend910-7"])
async def test_N8_the_file_of_mounts_is_lost_and_what_the_pod_may_have_is_doubtful(real: str) -> None:
    async with lost_record(real) as (node, uid):
        doubtful = {"Ascend910-0", "Ascend910-4", "Ascend910-5", *real.split(",")}
        wanted = {uid: ",".join(sorted(doubtful))}
        await node.until(lambda: json.loads(node.report()["RingwiseUnconfirmedChips"]) == wanted)
        assert json.loads(node.report()["RingwiseMountedChips"]) == {}
        assert doubtful.isdisjoint(node.device_list()[CHIP].split(","))
        assert node.annotations("train")[REAL] == real
        node.bind("thief", "Ascend910-5")
        with pytest.raises(
            AdmissionError, match="Ascend910-5 of pod default/thief is held by pod default/train"
        ):
            await node.admit("thief")
        # The report keeps it over a restart, whatever the owner writes.
        await node.stop()
        pod = node.api.get(PODS, "default/train")
        pod["metadata"]["annotations"] |= {REAL: "Ascend910-1", CHIP: "Ascend910-1,Ascend910-2"}
        node.api.put(PODS, pod)
        await node.restart()
        with pytest.raises(AdmissionError, match="Ascend910-5 of pod default/thief is held"):
            await node.admit("thief")
        node.api.remove(PODS, "default/train")
        node.kubelet.remove("default/train")
        await node.until(lambda: json.loads(node.report()["RingwiseUnconfirmedChips"]) == {})
        assert await node.admit("thief") == (5,)


async def test_N8_a_lost_record_is_made_again_from_the_device_nodes_of_the_container(tmp_path: Path) -> None:
    async with lost_record("Ascend910-6,Ascend910-7", container_spec_dir=tmp_path) as (node, uid):
        await node.until(lambda: uid in node.report()["RingwiseUnconfirmedChips"])
        devices = [("/dev/davinci4", "c"), ("/dev/davinci5", "c"), ("/dev/davinci_manager", "c")]
        write_spec(tmp_path, "c1/config.json", f"/kubepods/pod{uid}/c1", *devices)
        mounted = {uid: "Ascend910-4,Ascend910-5"}
        await node.until(lambda: json.loads(node.report()["RingwiseMountedChips"]) == mounted)
        assert json.loads(node.report()["RingwiseUnconfirmedChips"]) == {}
        await node.until(lambda: node.annotations("train")[REAL] == "Ascend910-4,Ascend910-5")
        node.bind("next", "Ascend910-7")
        assert await node.admit("next") == (7,)


async def test_a_state_folder_that_cannot_be_written_stops_nothing() -> None:
    async with rig(started=False) as node:
        (node.folder / "p").mkdir(exist_ok=True)
        (node.folder / "p" / "ringwise").write_text("a file where the folder should be")
        node.kubelet.containers.clear()
        await node.start()
        await node.devices(8)
        node.bind("train", "Ascend910-1")
        assert await node.admit("train") == (1,)


async def test_shutdown_leaves_no_socket() -> None:
    async with rig() as node:
        socket = node.registration.server.socket
        assert socket.exists()
        await node.stop()
        assert not socket.exists()
        assert await node.devices(0)


async def test_a_kubelet_that_does_not_watch_any_more_is_told_again() -> None:
    async with rig() as node:
        await node.kubelet.forget_plugins()
        assert await node.devices(8)


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
async def test_a_patch_that_fails_twice_is_tried_again(status: int) -> None:
    async with rig() as node:
        node.bind("train", "Ascend910-1")
        node.api.fault("PATCH /api/v1/namespaces/default/pods/train", status=status, times=2)
        assert await node.admit("train") == (1,)
        assert node.annotations("train")["predicate-time"] == CONSUMED


@pytest.mark.parametrize("status", [409, 500])
async def test_d2_a_patch_that_fails_fails_allocate_and_leaves_the_pod_waiting(status: int) -> None:
    """Also for a conflict: only one about the uid says that the pod is gone."""
    async with rig() as node:
        node.bind("train", "Ascend910-1")
        node.api.fault("PATCH /api/v1/namespaces/default/pods/train", status=status, times=3)
        with pytest.raises(
            AdmissionError, match=f"pod default/train could not be marked as served: {status}"
        ):
            await node.admit("train")
        assert node.annotations("train")["predicate-time"] == "1"
        assert node.plugin.allocator.ledger.mounts == []
        assert await node.admit("train") == (1,)


async def test_a_patch_without_an_answer_that_took_effect() -> None:
    """The server took the patch and the answers were lost; kubelet may have meant another pod."""
    async with rig() as node:
        node.bind("first", "Ascend910-1", "1")
        node.bind("second", "Ascend910-2", "2")
        node.api.fault("PATCH /api/v1/namespaces/default/pods/first", drop=True, done=True, times=3)
        with pytest.raises(AdmissionError, match="first could not be marked as served"):
            await node.admit("second")
        assert await node.admit("first") == (1,)


@pytest.mark.parametrize("order", [*permutations(("lost", "refused", "failed"))], ids=" ".join)
async def test_a_patch_that_took_effect_is_remembered_whatever_the_other_attempts_say(
    monkeypatch: pytest.MonkeyPatch, order: tuple[str, ...]
) -> None:
    patch, left = Client.patch, list(order)

    async def fail(*arguments: Any, **more: Any) -> bytes:
        outcome = left.pop(0) if "first" in arguments and left else ""
        if outcome == "refused":
            raise UnreachableError("connection refused", maybe_done=False)
        if outcome == "failed":
            raise ApiError(500, "", "injected")
        answer = await patch(*arguments, **more)
        if outcome == "lost":
            raise UnreachableError("the connection was lost", maybe_done=True)
        return answer

    monkeypatch.setattr(Client, "patch", fail)
    async with rig() as node:
        node.bind("first", "Ascend910-1", "1")
        node.bind("second", "Ascend910-2", "2")
        with pytest.raises(AdmissionError, match="first could not be marked as served"):
            await node.admit("second")
        assert await node.admit("first") == (1,)


async def test_the_api_server_is_down() -> None:
    async with rig() as node:
        node.bind("train", "Ascend910-1")
        await node.until(lambda: node.plugin.allocator.waiting())
        fault = node.api.fault("/api/v1", drop=True, times=10_000)
        node.api.cut_watches()
        with pytest.raises(AdmissionError, match="could not be marked as served"):
            await node.admit("train")
        with pytest.raises(AdmissionError, match=r"waits for 2 chips .*the API server could not be asked"):
            await node.admit("other", 2)
        node.api.faults.remove(fault)
        assert await node.admit("train") == (1,)


async def test_a_pod_that_the_watch_has_not_brought_yet_is_read_before_failing() -> None:
    async with rig() as node:
        node.api.fault(lambda method, path: method == "GET" and path == PODS, status=500, times=1)
        node.api.cut_watches()
        node.bind("train", "Ascend910-1")
        assert await node.admit("train") == (1,)


async def test_a_pod_that_is_gone_is_not_served() -> None:
    async with rig() as node:
        node.bind("gone", "Ascend910-1", "1")
        node.bind("here", "Ascend910-2", "2")
        await node.until(lambda: len(node.plugin.allocator.waiting()) == 2)
        node.api.fault("PATCH /api/v1/namespaces/default/pods/gone", status=404)
        assert await node.admit("here") == (2,)


async def test_no_pod_waits() -> None:
    async with rig() as node:
        with pytest.raises(
            AdmissionError, match=r"no pod of this node waits for 1 chip of huawei\.com/Ascend910"
        ):
            await node.admit("stranger")

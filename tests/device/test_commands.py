"""`ringwise run device-plugin`, `get chips`, `isolate` and `release` as a person types them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ringwise import __version__
from ringwise.cli.commands import cli
from ringwise.device.simulated_kubelet import SimulatedKubelet
from tests.builders.values import CHIP
from tests.device.rig import CONFIG_MAPS, ISOLATIONS, NODE, NODES, PODS
from tests.kube.fake_api_server import FakeApiServer


def kubeconfig(folder: Path, url: str) -> str:
    path = folder / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": url}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return str(path)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["-listWatchPeriod=2"],
            "'--listWatchPeriod': 2 is not in the range 3<=x<=1800",
        ),
        (["--listWatchPeriod", "1801"], "1801 is not in the range 3<=x<=1800"),
        (["-logLevel=4"], "4 is not in the range -1<=x<=3"),
        (["-maxAge=6"], "6 is not in the range 7<=x<=700"),
        (["-maxBackups=181"], "181 is not in the range 1<=x<=180"),
        (["-deviceResetTimeout=9"], "9 is not in the range 10<=x<=600"),
        (["-linkdownTimeout=31"], "31 is not in the range 1<=x<=30"),
        (["-thirdPartyScanDelay=-1"], "-1 is not in the range x>=0"),
        (["-hotReset=2"], "-hotReset: must be -1: resetting chips is not supported"),
        (["-shareDevCount=101"], "101 is not in the range 1<=x<=100"),
        (["-shareDevCount=2"], "-shareDevCount: Invalid value: 2: must be 1 without -softShareDevConfigDir"),
        (
            ["-presetVirtualDevice=false"],
            "-presetVirtualDevice: must be true: creating vNPUs is not supported",
        ),
        (["-use310PMixedInsert"], "-use310PMixedInsert: must be false"),
        (["-autoStowing=false"], "-autoStowing: must be true"),
        (["-volcanoType=perhaps"], "'perhaps' is not a valid boolean"),
        (["--healthz-address=80"], '--healthz-address: must be a port from 1025 to 65535, got "80"'),
        (["-healthz-address=65536"], '--healthz-address: must be a port from 1025 to 65535, got "65536"'),
        (["-enable-healthz=false", "-healthz-address=x"], "--healthz-address: must be a port"),
        (["-enable-healthz=2"], "'--enable-healthz': '2' is not a valid boolean"),
        (["-tls-cert-file=a"], "--tls-cert-file and --tls-private-key-file must be set together"),
        (["--tls-private-key-file=a"], "--tls-cert-file and --tls-private-key-file must be set together"),
        (
            ["--tls-cert-file=/none", "-tls-private-key-file=/none"],
            "--tls-cert-file: /none: No such file or directory",
        ),
        (
            [f"--tls-cert-file={__file__}", f"--tls-private-key-file={__file__}"],
            "must be a certificate and its key in PEM format",
        ),
        (["-hotReset=1"], "-hotReset: must be -1"),
        (["-hotReset=3"], "3 is not in the range -1<=x<=2"),
        (["-softShareDevConfigDir=/s"], "-shareDevCount: Invalid value: 1: must be 100 with"),
        (["-fdFlag"], "-fdFlag: must be false"),
        (["-enableSlowNode=true"], "-enableSlowNode: must be false"),
        (["-useSingleDieMode=1"], "-useSingleDieMode: requires -softShareDevConfigDir"),
        (["-logLevel=-2"], "'--logLevel': -2 is not in the range -1<=x<=3"),
        (["--driver=simulated"], "--driver simulated requires --simulated-chips FILE"),
        (["--node-name=Not_A_Node"], "--node-name: must be a node's name"),
    ],
)
def test_wrong_options_are_named_with_what_is_allowed(arguments: list[str], says: str) -> None:
    result = invoke("run", "device-plugin", "--node-name=node-1", *arguments)
    assert result.exit_code == 2
    assert says in result.output


#: Every option of Huawei's plugin with a value that it takes, and whether it has an effect here.
VENDOR_OPTIONS = {
    "volcanoType": ("false", True),
    "presetVirtualDevice": ("true", True),
    "listWatchPeriod": ("1800", True),
    "autoStowing": ("true", True),
    "shareDevCount": ("1", True),
    "softShareDevConfigDir": ("", True),
    "use310PMixedInsert": ("false", True),
    "hotReset": ("-1", True),
    "fdFlag": ("false", True),
    "edgeLogFile": ("/var/alog/AtlasEdge_log/devicePlugin.log", False),
    "logFile": ("", True),
    "logLevel": ("-1", True),
    "maxAge": ("700", True),
    "maxBackups": ("180", True),
    "linkdownTimeout": ("1", False),
    "dealWatchHandler": ("true", False),
    "checkCachedPods": ("false", False),
    "enableSlowNode": ("false", True),
    "thirdPartyScanDelay": ("0", False),
    "deviceResetTimeout": ("10", True),
    "useSingleDieMode": ("false", True),
    "getPodFromKubelet": ("true", False),
    "version": ("false", True),
    "enable-healthz": ("true", True),
    "healthz-address": ("1025", True),
    "tls-cert-file": ("", True),
    "tls-private-key-file": ("", True),
}


@pytest.mark.parametrize("dashes", ["-", "--"])
def test_all_options_of_the_vendor_s_plugin_are_taken_with_one_dash_and_two(
    dashes: str, tmp_path: Path
) -> None:
    given = [f"{dashes}{name}={value}" for name, (value, _) in VENDOR_OPTIONS.items()]
    config = kubeconfig(tmp_path, "http://127.0.0.1:1")
    chips = f"--simulated-chips={tmp_path}/none.json"
    result = invoke("run", "device-plugin", "--node-name=node-1", f"--kubeconfig={config}", chips, *given)
    *logged, last = result.output.splitlines()
    # All of them were taken: the missing chips are what stops it.
    assert (result.exit_code, "none.json: cannot be read" in last) == (2, True)
    said = {json.loads(line)["option"] for line in logged}
    assert said == {f"-{name}" for name, (_, effect) in VENDOR_OPTIONS.items() if not effect}


@pytest.mark.parametrize("option", ["-version", "--version", "-version=true", "--version=1"])
def test_the_version_needs_nothing_else(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NODE_NAME", raising=False)
    result = invoke("run", "device-plugin", option)
    assert (result.exit_code, result.output) == (0, f"ringwise device-plugin, version {__version__}\n")


def test_a_machine_without_chips_gets_a_clear_message(tmp_path: Path) -> None:
    config = kubeconfig(tmp_path, "http://127.0.0.1:1")
    result = invoke(
        "run",
        "device-plugin",
        "--node-name=node-1",
        f"--kubeconfig={config}",
        f"--simulated-chips={tmp_path}/none.json",
    )
    assert result.exit_code == 2
    assert "none.json: cannot be read: No such file or directory" in result.output


def node_object() -> dict[str, Any]:
    return {
        "metadata": {"name": NODE},
        "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
    }


@pytest.mark.process
async def test_the_process_serves_kubelet_and_ends_on_a_signal() -> None:
    """The real command in a process of its own, from its options to the container's devices."""
    with tempfile.TemporaryDirectory(prefix="rw") as name:
        folder = Path(name)
        (folder / "chips.json").write_text(json.dumps({"count": 4, "board": 0x30}))
        async with (
            FakeApiServer() as api,
            SimulatedKubelet(folder / "device-plugins", folder / "pod-resources" / "kubelet.sock") as kubelet,
        ):
            api.put(NODES, node_object())
            limits = {"limits": {CHIP: "1"}}
            api.put(
                PODS,
                {
                    "metadata": {
                        "namespace": "default",
                        "name": "train",
                        "annotations": {CHIP: "Ascend910-2", "predicate-time": "7"},
                    },
                    "spec": {"nodeName": NODE, "containers": [{"name": "main", "resources": limits}]},
                    "status": {"phase": "Pending"},
                },
            )
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                "from ringwise.cli.main import main; main()",
                "run",
                "device-plugin",
                f"--kubeconfig={kubeconfig(folder, api.url)}",
                f"--kubelet-dir={folder}",
                f"--simulated-chips={folder}/chips.json",
                "--metrics-address=",
                "--enable-healthz=false",
                "-volcanoType=true",
                "-logFile=" + str(folder / "log" / "devicePlugin.log"),
                env={**os.environ, "NODE_NAME": NODE},
                stderr=subprocess.PIPE,
            )
            try:
                await kubelet.devices(CHIP, 4)
                container = await kubelet.admit("default/train", CHIP, 1)
                assert container.chips == (2,)
                while f"kube-system/mindx-dl-deviceinfo-{NODE}" not in api.collections.get(CONFIG_MAPS, {}):
                    await asyncio.sleep(0.01)
            finally:
                process.send_signal(signal.SIGTERM)
                _, errors = await process.communicate()
            assert (process.returncode, errors) == (0, b"")
            assert not (folder / "device-plugins" / "Ascend910.sock").exists()
            lines = (folder / "log" / "devicePlugin.log").read_text().splitlines()
            assert {"starting", "registered", "allocated"} <= {json.loads(line)["event"] for line in lines}


async def test_isolate_list_and_unisolate(tmp_path: Path) -> None:
    async with FakeApiServer() as api:
        api.put(NODES, node_object())
        config = f"--kubeconfig={kubeconfig(tmp_path, api.url)}"

        async def typed(*arguments: str) -> Result:
            return await asyncio.to_thread(invoke, *arguments, config)

        first = await typed("isolate", NODE, "Ascend910-3", "--reason=it hums")
        assert (first.exit_code, first.stdout) == (0, "chip Ascend910-3 of node node-1 isolated\n")
        spec = {"node": NODE, "chips": ["Ascend910-3"], "reason": "it hums"}
        assert api.get(ISOLATIONS, "node-1-ascend910-3")["spec"] == spec
        again = await typed("isolate", NODE, "Ascend910-3", "--reason=again")
        assert again.stdout == "chip Ascend910-3 of node node-1 is isolated already\n"
        whole = await typed("isolate", NODE, "--reason=moved")
        assert whole.stdout == "node node-1 isolated\n"
        back = await typed("unisolate", NODE)
        assert back.stdout == "node node-1 is no longer isolated\n"
        left = "note: 1 chip stays isolated: Ascend910-3\n"
        assert left in back.stderr
        assert back.stderr.endswith("to end that, too: ringwise unisolate node-1 Ascend910-3\n")
        nothing = await typed("unisolate", NODE)
        assert (nothing.stdout, left in nothing.stderr) == ("node node-1 is not isolated\n", True)
        more = await typed("isolate", NODE, "Ascend910-3", "Ascend910-4", "--reason=more")
        assert more.stdout == "chip Ascend910-3, Ascend910-4 of node node-1 isolated\n"
        await typed("unisolate", NODE, "Ascend910-4")
        assert [one["metadata"]["name"] for one in api.all(ISOLATIONS)] == ["node-1-ascend910-3"]
        for command in ("isolate", "unisolate"):
            for name in ("node-9", "node-1,x=y"):
                reason = ["--reason=x"] if command == "isolate" else []
                strange = await typed(command, name, *reason)
                assert (strange.exit_code, strange.stdout) == (2, "")
                named, problem = strange.stderr.splitlines()
                assert named == f"cluster x ({api.url})"
                assert problem == f'ringwise: node "{name}" not found'
        wrong = await typed("isolate", NODE, "chip3", "--reason=x")
        assert 'invalid chip "chip3": expected a name like Ascend910-3' in wrong.output


async def test_a_node_is_cordoned_once(tmp_path: Path) -> None:
    async with FakeApiServer() as api:
        api.put(NODES, node_object())
        config = f"--kubeconfig={kubeconfig(tmp_path, api.url)}"
        for command, said in (("cordon", "cordoned"), ("uncordon", "uncordoned")):
            for before in ("", "already "):
                ran = await asyncio.to_thread(invoke, command, NODE, config)
                assert (ran.exit_code, ran.stdout) == (0, f"node {NODE} {before}{said}\n")
            assert bool(api.get(NODES, NODE)["spec"].get("unschedulable")) is (command == "cordon")
        assert api.count(f"PATCH /api/v1/nodes/{NODE}") == 2
        # Who may patch nodes, and not list them, can cordon them.
        await asyncio.to_thread(invoke, "cordon", NODE, config)
        api.fault("/api/v1/nodes", status=403, times=1)
        ran = await asyncio.to_thread(invoke, "cordon", NODE, config)
        assert ran.stdout == f"node {NODE} cordoned\n"


async def test_a_node_that_is_gone_is_unisolated(tmp_path: Path) -> None:
    async with FakeApiServer() as api:
        api.put(NODES, node_object())
        config = f"--kubeconfig={kubeconfig(tmp_path, api.url)}"
        await asyncio.to_thread(invoke, "isolate", NODE, "--reason=old", config)
        api.remove(NODES, NODE)
        released = await asyncio.to_thread(invoke, "unisolate", NODE, config)
        assert released.stdout == "node node-1 is no longer isolated\n"
        assert api.all(ISOLATIONS) == []
        # What a reader of the cluster may do is enough for nodes.
        assert not api.count(f"GET /api/v1/nodes/{NODE}")


async def test_a_leaf_switch_of_a_cluster_is_isolated_and_unisolated(tmp_path: Path) -> None:
    async with FakeApiServer() as api:
        api.put(NODES, node_object())
        servers = [{"server_ip": "10.0.0.9", "npu_count": 8, "slice_id": 0}]
        switches = {
            "version": "1.0",
            "tor_count": 1,
            "server_list": [{"tor_id": 0, "tor_ip": "fe80::1", "server": servers}],
        }
        topology = {"metadata": {"namespace": "kube-system", "name": "basic-tor-node-cm"}}
        api.put(CONFIG_MAPS, {**topology, "data": {"tor_info": json.dumps(switches)}})
        config = f"--kubeconfig={kubeconfig(tmp_path, api.url)}"

        async def typed(*arguments: str) -> Result:
            return await asyncio.to_thread(invoke, *arguments, config)

        first = await typed("isolate", "switch/fe80::1", "--reason=optics")
        assert (first.exit_code, first.stdout) == (0, "leaf switch fe80::1 isolated\n")
        (stored,) = api.all(ISOLATIONS)
        assert stored["spec"] == {"leafSwitch": "fe80::1", "reason": "optics"}
        strange = await typed("isolate", "switch/fe80::2", "--reason=x")
        assert strange.exit_code == 2
        assert strange.stderr.splitlines()[1].startswith('ringwise: leaf switch "fe80::2" not found')
        back = await typed("unisolate", "switch/fe80::1")
        assert back.stdout == "leaf switch fe80::1 is no longer isolated\n"
        assert api.all(ISOLATIONS) == []


#: A pod on the node that asks for a chip.
ASKING = {
    "nodeName": NODE,
    "containers": [{"name": "main", "resources": {"limits": {CHIP: "1"}}}],
}


def node_with_chips(name: str, count: int) -> dict[str, Any]:
    chips = {CHIP: str(count)}
    devices = {f"Ascend910-{chip}": {"IP": "", "SuperDeviceID": 0} for chip in range(count)}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"capacity": chips, "allocatable": chips, "conditions": ready}
    listed = {"baseDeviceInfos": json.dumps(devices)}
    return {"metadata": {"name": name, "annotations": listed}, "status": status}


async def test_chips_list(tmp_path: Path) -> None:
    lists = {
        CHIP: "Ascend910-0",
        f"{CHIP}-Unhealthy": "Ascend910-2,Ascend910-4",
        f"{CHIP}-NetworkUnhealthy": "Ascend910-0",
        f"{CHIP}-Recovering": "",
        f"{CHIP}-Fault": json.dumps(
            [{"npu_name": "Ascend910-2", "fault_level": "SeparateNPU", "fault_code": "80E18402"}]
        ),
    }
    async with FakeApiServer() as api:
        api.put(NODES, node_with_chips(NODE, 6))
        pod = api.put(
            PODS,
            {
                "metadata": {"namespace": "default", "name": "train", "annotations": {}},
                "spec": ASKING,
                "status": {"phase": "Running"},
            },
        )
        old = api.put(PODS, {"metadata": {"namespace": "default", "name": "old"}, "spec": ASKING})
        api.put(
            CONFIG_MAPS,
            {
                "metadata": {
                    "namespace": "kube-system",
                    "name": f"mindx-dl-deviceinfo-{NODE}",
                    "labels": {"mx-consumer-cim": "true"},
                },
                "data": {
                    "DeviceInfoCfg": json.dumps({"DeviceInfo": {"DeviceList": lists, "UpdateTime": 1}}),
                    "ManuallySeparateNPU": "Ascend910-4",
                    "RingwiseIsolatedChips": "Ascend910-3",
                    "RingwiseMountedChips": json.dumps({pod["metadata"]["uid"]: "Ascend910-1"}),
                    "RingwiseUnconfirmedChips": json.dumps(
                        {old["metadata"]["uid"]: "Ascend910-1,Ascend910-5"}
                    ),
                },
            },
        )
        config = f"--kubeconfig={kubeconfig(tmp_path, api.url)}"
        await asyncio.to_thread(invoke, "isolate", NODE, "Ascend910-3", "--reason=hums", config)
        result = await asyncio.to_thread(invoke, "get", "chips", "-o", "json", config)
        rows = {row["chip"]: row for row in json.loads(result.stdout)["chips"]}
        assert {chip: row["state"] for chip, row in rows.items()} == {
            # N7: while it is not known which chip the old pod has, no other pod gets one.
            "Ascend910-0": "unschedulable",
            "Ascend910-1": "used",
            "Ascend910-2": "faulty",
            "Ascend910-3": "isolated",
            # Separated by Huawei's means: a fault.
            "Ascend910-4": "faulty",
            "Ascend910-5": "used",
        }
        assert (rows["Ascend910-1"]["pod"], rows["Ascend910-1"]["note"]) == ("default/train", None)
        assert (rows["Ascend910-5"]["pod"], rows["Ascend910-5"]["note"]) == ("default/old", "doubtful")
        assert rows["Ascend910-0"]["network_healthy"] is False
        assert rows["Ascend910-2"]["faults"] == "SeparateNPU 80E18402"
        assert rows["Ascend910-3"]["note"].startswith("hums (20")
        table = await asyncio.to_thread(invoke, "get", "chips", f"--node={NODE}", config)
        assert "Ascend910-2" in table.output
        missing = await asyncio.to_thread(invoke, "get", "chips", "--node=node-9", config)
        assert (missing.exit_code, 'node "node-9" not found' in missing.output) == (2, True)


async def test_chips_of_nodes_that_can_be_read_are_listed_beside_those_that_cannot(tmp_path: Path) -> None:
    def report(name: str, lists: object) -> dict[str, Any]:
        labels = {"mx-consumer-cim": "true"}
        meta = {"namespace": "kube-system", "name": f"mindx-dl-deviceinfo-{name}", "labels": labels}
        return {
            "metadata": meta,
            "data": {"DeviceInfoCfg": json.dumps({"DeviceInfo": {"DeviceList": lists}})},
        }

    async with FakeApiServer() as api:
        for name in ("node-1", "node-2"):
            api.put(NODES, node_with_chips(name, 1))
        api.put(PODS, {"metadata": {"namespace": "default", "name": "odd"}, "spec": {"nodeName": 7}})
        api.put(CONFIG_MAPS, report("node-1", {CHIP: "Ascend910-0"}))
        api.put(CONFIG_MAPS, report("node-2", {CHIP: 7}))
        config = f"--kubeconfig={kubeconfig(tmp_path, api.url)}"
        result = await asyncio.to_thread(invoke, "get", "chips", "-o", "json", config)
        assert result.exit_code == 0
        assert [row["node"] for row in json.loads(result.stdout)["chips"]] == ["node-1", "node-2"]
        assert [" ".join(line.split()[:3]) for line in result.stderr.splitlines()] == [
            "ignored: ConfigMap kube-system/mindx-dl-deviceinfo-node-2:",
            "ignored: Pod default/odd:",
        ]

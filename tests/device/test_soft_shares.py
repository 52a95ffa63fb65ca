"""Soft shares of chips: Allocate, files, records, reports and flags (rules V19 to V21)."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ringwise.device.allocation import CONSUMED, AllocationError
from ringwise.device.container_response import ContainerResponses, HostFiles
from ringwise.device.drivers.simulated import SimulatedDriver
from ringwise.device.ledger import Ledger, Mount, Share
from ringwise.device.ledger_file import LedgerFile
from ringwise.device.plugin import NodePlugin
from ringwise.device.pods import NodePod
from ringwise.device.report import ChipReport, device_list
from ringwise.device.settings import PluginSettings
from ringwise.device.share_allocator import ShareAllocator, folder_of
from ringwise.device.simulated_kubelet import AdmissionError
from ringwise.device.soft_shares import ShareFiles
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.config import direct
from tests.builders.values import CHIP, SECOND
from tests.device.rig import ISOLATIONS, NODE, PODS, Rig, rig
from tests.device.test_allocation import healthy
from tests.device.test_commands import invoke, kubeconfig
from tests.examples import examples

QUOTA = "huawei.com/scheduler.softShareDev."
REASONS = {
    "share-count-out-of-range": "is not in the range 1<=x<=100",
    "cutting-not-supported": "-presetVirtualDevice: must be true",
    "soft-sharing-needs-100-shares": "must be 100 with -softShareDevConfigDir",
    "folder-not-absolute": "must be an absolute path",
    "needs-the-scheduler": "-softShareDevConfigDir: requires -volcanoType=true",
    "chip-cannot-be-shared": "cannot be shared; must be one of",
    "a3-needs-single-die-mode": "on A3 nodes requires -useSingleDieMode=true",
    "plain-sharing-not-supported": "sharing chips without limits is not supported",
}
CHIPS: dict[str, dict[str, Any]] = {
    "310P": {"chip_name": "310P3"},
    "310P-duo": {"chip_name": "310P3", "product": "Atlas 300I Duo"},
    "910B": {"chip_name": "910B3"},
    "910A3": {"chip_name": "910_9362", "board": 0xB0},
    "910A": {"chip_name": "910ProB"},
    "950": {"chip_name": "Ascend950PR"},
}


@cache
def _cases() -> list[dict[str, Any]]:
    path = Path(__file__).resolve().parents[1] / "vectors" / "parts-visible.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = document if isinstance(document, list) else document["cases"]
    return found


def cases(kind: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in _cases() if case["kind"] == kind]


def name(resource: str, chip: int | str) -> str:
    return f"{resource.rpartition('/')[2]}-{chip}"


def allocator_of(node: Mapping[str, Any]) -> ShareAllocator:
    """The allocator of a case, with its records as pods that no longer wait."""
    resource, ledger = node["resource"], Ledger()
    chips = [name(resource, chip) for chip in node["chips"]]
    for chip, used in node.get("used", {}).items():
        share = Share(used["percent"], used["memory"], used.get("policy", "elastic"), "ns.used", 0)
        uid = f"used-{chip}"
        ledger.add(Mount(resource, (f"id-{chip}",), (name(resource, chip),), uid, owner=uid, share=share))
    made = ShareAllocator(resource, chips, ledger)
    made.memory = dict.fromkeys(chips, node["chip_memory_mb"])
    return made


def soft_pod(pod_name: str, *, count: int | None = None, **more: Any) -> NodePod:
    annotations: Mapping[str, str] = more.pop("annotations")
    resource = more.pop("resource", CHIP)
    asked = count if count is not None else int(annotations[QUOTA + "aicoreQuota"])
    more = {"namespace": "ns", "uid": f"u-{pod_name}", **more}
    return NodePod(name=pod_name, annotations=annotations, limits=({resource: asked},), **more)


def recorded_shares(case: Mapping[str, Any]) -> list[tuple[str, Share]]:
    """The records of a case: the first of a chip has all that is used of it."""
    resource, records = case["node"]["resource"], list[tuple[str, Share]]()
    served = case["expect"].get("pod", "").removeprefix("ns/")
    unsaid: dict[str, str] = next((pod["annotations"] for pod in case["pods"] if pod["name"] == served), {})
    policies = {int(chip): used.get("policy") for chip, used in case["node"].get("used", {}).items()}
    used = {int(chip): amounts for chip, amounts in case["node"].get("used", {}).items()}
    unnumbered = [[chip, 99] for chip in used if all(chip != one for one, _ in case["virtual_numbers"])]
    for chip, number in [*case["virtual_numbers"], *unnumbered]:
        amounts = used.pop(chip, {"percent": 0, "memory": 0})
        policy = policies.get(chip) or unsaid.get(QUOTA + "policy", "elastic")
        share = Share(amounts["percent"], amounts["memory"], policy, f"other.{len(records)}", number)
        records.append((name(resource, chip), share))
    return records


@pytest.mark.parametrize("case", cases("allocate"))
async def test_V19_allocate(case: dict[str, Any]) -> None:
    given, expect = case["node"], case["expect"]
    resource = given["resource"]
    chips = given["chips"]
    description = {
        "chip_name": "910B3" if resource.endswith("910") else "Ascend950PR",
        "memory": given["chip_memory_mb"],
        "chips": [{"physical": chip, "vdie": given["die_ids"][str(chip)]} for chip in chips],
        "faults": {chip: ["0x80C98000"] for chip in given.get("unhealthy", ())},
    }
    records = recorded_shares(case)
    async with rig(
        description, started=False, soft_share_folder=Path(given["config_dir"]), mount_method="ascend-docker"
    ) as node:
        file = LedgerFile(node.settings.state_folder / f"{resource.rpartition('/')[2]}-mounts.jsonl")
        ledger = Ledger()
        for at, (chip_name, share) in enumerate(records):
            uid = f"other-{at}"
            ledger.add(Mount(resource, (f"x-{at}",), (chip_name,), uid, owner=uid, share=share, at=1))
            node.api.put(PODS, _object(f"other-{at}", "other", resource, 1, {}, uid=uid))
        file.save(ledger)
        file.close()
        for pod in case["pods"]:
            count = pod.get("count", int(pod["annotations"][QUOTA + "aicoreQuota"]))
            more = {key: pod[key] for key in ("labels", "ownerReferences") if key in pod}
            node.api.put(
                PODS,
                _object(
                    pod["name"], pod["namespace"], resource, count, pod["annotations"], uid=pod["uid"], **more
                ),
            )
        isolated = {name(resource, chip) for chip in given.get("isolated", ())}
        for chip in isolated:
            spec = {"node": NODE, "chips": [chip], "reason": "r"}
            node.api.put(ISOLATIONS, {"metadata": {"name": chip.lower()}, "spec": spec})
        await node.start()
        await node.until(lambda: node.plugin.ready and node.plugin.looked.is_set())
        await node.until(lambda: node.plugin.monitor.isolated == isolated)
        if case.get("patch_fails"):
            node.api.fault("PATCH /api/v1/namespaces/ns/pods", status=403, times=1)
        if "error" in expect:
            with pytest.raises(AllocationError) as raised:
                await node.plugin.allocate([case["ids"]])
            if expect["error"] == "NoNPUResource":
                assert "NoNPUResource" in str(raised.value)
            for file_name in (node.folder / "host").rglob("npu_info.config"):
                assert "other." in str(file_name)
            return
        (answer,) = await node.plugin.allocate([case["ids"]])
        assert dict(answer.envs) == expect["env"]
        mounts = [
            {"host": one.host_path, "container": one.container_path, "read_only": one.read_only}
            for one in answer.mounts
        ]
        assert mounts == expect["mounts"]
        written = node.folder / "host" / expect["file"].lstrip("/")
        assert written.read_text().splitlines() == expect["lines"]
        stored = node.api.get(PODS, expect["pod"])["metadata"]["annotations"]
        assert {key: stored.get(key) for key in expect["annotations"]} == expect["annotations"]


def _object(
    pod: str, namespace: str, resource: str, count: int, annotations: Mapping[str, str], **meta: Any
) -> dict[str, Any]:
    return {
        "metadata": {"namespace": namespace, "name": pod, "annotations": dict(annotations), **meta},
        "spec": {
            "nodeName": "node-1",
            "containers": [{"name": "main", "resources": {"limits": {resource: str(count)}}}],
        },
        "status": {"phase": "Pending"},
    }


@pytest.mark.parametrize("case", cases("folders"))
def test_V20_records_and_folders(case: dict[str, Any], tmp_path: Path) -> None:
    ledger = Ledger()
    listing = {}
    for entry in case["entries"]:
        uid, chip = entry["pod"], name(CHIP, entry["chip"])
        share = Share(10, 100, "elastic", entry["folder"], entry["virtual"])
        ids = (f"{chip}-{entry['virtual']}",)
        ledger.add(Mount(CHIP, ids, (chip,), uid, f"ns/{uid}", owner=uid, share=share, at=1))
        (tmp_path / "etc/enpu" / entry["folder"]).mkdir(parents=True, exist_ok=True)
        if uid in case["kubelet_lists"]:
            listing[f"ns/{uid}"] = [ids]
    stranger = tmp_path / "etc/enpu/ns.stranger"
    stranger.mkdir()
    files = ShareFiles(Path("/share"), tmp_path, ledger.mounts)
    made = ShareAllocator(CHIP, [name(CHIP, chip) for chip in range(4)], ledger)
    annotations = {CHIP: name(CHIP, 0)}
    made.replace_pods(
        [
            NodePod("ns", uid, uid, phase=phase, annotations=annotations, limits=({CHIP: 10},))
            for uid, phase in case["pods"].items()
        ],
        0,
    )
    before = {entry["folder"] for entry in case["entries"]}
    made.listed(listing, 10**12, running=())
    files.keep(ledger.mounts)
    left = {path.name for path in (tmp_path / "etc/enpu").iterdir()}
    assert sorted(before - left) == case["expect"]["removed"]
    numbers = [
        [int(one.chips[0].rpartition("-")[2]), one.share.virtual] for one in ledger.mounts if one.share
    ]
    assert sorted(numbers) == case["expect"]["virtual_numbers"]
    assert stranger.is_dir(), "a folder that no record had is not ours"


def test_V20_a_folder_that_cannot_be_removed_is_removed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chip = name(CHIP, 0)
    mount = Mount(CHIP, (f"{chip}-0",), (chip,), "a", "ns/a", share=Share(10, 100, "elastic", "ns.a", 0))
    folder = tmp_path / "etc/enpu/ns.a"
    folder.mkdir(parents=True)
    files = ShareFiles(Path("/share"), tmp_path, [mount])
    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", Mock(side_effect=OSError("busy")))
        files.keep([])
    assert folder.is_dir()
    files.keep([])
    assert not folder.exists()


@pytest.mark.parametrize("case", cases("report"))
def test_V21_report(case: dict[str, Any]) -> None:
    node, expect = case["node"], case["expect"]
    made = allocator_of(node)
    resource = node["resource"]
    reports = [
        ChipReport(
            name(resource, chip),
            healthy=chip not in node.get("unhealthy", ()),
            isolated=chip in node.get("isolated", ()),
        )
        for chip in node["chips"]
    ]
    ids = made.device_ids()
    assert sum(map(len, ids.values())) == expect["resources"][resource]
    assert sum(len(ids[one.name]) for one in reports if not one.healthy) == expect["unhealthy_ids"]
    assert device_list(resource, reports, made.used())[resource] == expect["device_list"]


@pytest.mark.parametrize("case", cases("flags"))
def test_V21_flags(case: dict[str, Any], tmp_path: Path) -> None:
    check_flags(case["chip"], case["flags"], case["expect"].get("reason"), tmp_path)


@pytest.mark.parametrize(
    ("chip", "flags", "reason"),
    [
        ("310P", {"softShareDevConfigDir": "/s", "shareDevCount": "100"}, "chip-cannot-be-shared"),
        ("910A", {"softShareDevConfigDir": "/s", "shareDevCount": "100"}, "chip-cannot-be-shared"),
        ("910A3", {"softShareDevConfigDir": "s", "shareDevCount": "99"}, "soft-sharing-needs-100-shares"),
        ("910A3", {"softShareDevConfigDir": "s", "shareDevCount": "100"}, "folder-not-absolute"),
        ("950", {"softShareDevConfigDir": "/s", "shareDevCount": "100"}, None),
    ],
)
def test_V21_the_first_flag_that_is_invalid_is_named(
    chip: str, flags: dict[str, str], reason: str | None, tmp_path: Path
) -> None:
    check_flags(chip, flags, reason, tmp_path)


def check_flags(chip: str, flags: Mapping[str, str], reason: str | None, folder: Path) -> None:
    described = folder / "chips.json"
    described.write_text(json.dumps({"count": 2, "memory": 65536, **CHIPS[chip]}))
    if reason is None:
        shares = flags.get("softShareDevConfigDir")
        settings = PluginSettings(
            "n",
            state_folder=folder,
            soft_share_folder=Path(shares) if shares else None,
            single_die=flags.get("useSingleDieMode") == "true",
        )
        driver = SimulatedDriver(json.loads(described.read_text()))
        NodePlugin(settings, driver, driver.chips(), Client(direct("http://127.0.0.1:1")))
        return
    result = invoke(
        *("run", "device-plugin", "--node-name=n", "--driver=simulated", f"--simulated-chips={described}"),
        f"--kubeconfig={kubeconfig(folder, 'http://127.0.0.1:1')}",
        *("--metrics-address=", "-enable-healthz=false", f"--state-dir={folder}"),
        *(f"-{flag}={value}" for flag, value in flags.items()),
    )
    assert result.exit_code == 2
    assert REASONS[reason] in " ".join(result.output.split())


# -- what no case covers -----------------------------------------------------------------------------------


def annotated(percent: int, memory: int = 1000, chip: int = 0, predicate_time: str = "1") -> dict[str, str]:
    return {
        CHIP: name(CHIP, chip),
        QUOTA + "aicoreQuota": str(percent),
        QUOTA + "hbmQuota": str(memory),
        QUOTA + "policy": "elastic",
        "predicate-time": predicate_time,
    }


@pytest.mark.parametrize(
    ("pod", "folder"),
    [
        ({"labels": {"training.kubeflow.org/job-name": "a", "volcano.sh/job-name": "b"}}, "ns.a"),
        ({"labels": {"training.kubeflow.org/job-name": "", "volcano.sh/job-name": "b"}}, "ns.b"),
        ({"labels": {}, "controller": "c"}, "ns.c"),
        ({}, "ns.d"),
    ],
)
def test_V19_pods_of_a_job_have_one_folder(pod: dict[str, Any], folder: str) -> None:
    assert folder_of(soft_pod("d", annotations=annotated(10), **pod)) == folder


async def soft_rig_allocate(node: Rig, pod: str, percent: int) -> None:
    node.api.put(PODS, _object(pod, "default", CHIP, percent, annotated(percent)))
    await node.kubelet.admit(f"default/{pod}", CHIP, percent)


async def started_again(node: Rig) -> None:
    await node.stop()
    before = node.kubelet.registrations
    await node.start()
    await node.until(lambda: node.kubelet.registrations > before)
    await node.devices(200)


SOFT = {"chip_name": "910B3", "memory": 65536, "count": 2}


async def test_V20_a_restarted_plugin_keeps_records_and_gives_no_number_twice() -> None:
    async with rig(SOFT, started=False, soft_share_folder=Path("/share")) as node:
        await node.start()
        await node.devices(200)
        await soft_rig_allocate(node, "a", 30)
        await node.until(lambda: json.loads(node.report()["RingwiseMountedShares"]))
        await started_again(node)
        await soft_rig_allocate(node, "b", 20)
        files = sorted((node.folder / "host/etc/enpu").rglob("npu_info.config"))
        assert [path.parent.name for path in files] == ["0_0", "0_1"]
        await node.until(lambda: len(json.loads(node.report()["RingwiseMountedShares"])) == 2)
        told = json.loads(node.report()["RingwiseMountedShares"])
        assert sorted((one["chip"], one["percent"], one["mb"], one["policy"]) for one in told.values()) == [
            ("Ascend910-0", 20, 1000, "elastic"),
            ("Ascend910-0", 30, 1000, "elastic"),
        ]


async def test_V20_a_lost_record_makes_the_chip_doubtful() -> None:
    async with rig(SOFT, started=False, soft_share_folder=Path("/share")) as node:
        await node.start()
        await node.devices(200)
        await soft_rig_allocate(node, "a", 30)
        await node.stop()
        for path in node.settings.state_folder.glob("*.jsonl"):
            path.unlink()
        await started_again(node)
        await node.until(lambda: json.loads(node.report()["RingwiseUnconfirmedChips"]))
        with pytest.raises(AdmissionError, match="there is no record"):
            await soft_rig_allocate(node, "b", 20)
        assert node.device_list()[CHIP] == "Ascend910-1"


async def test_V20_pods_that_exchange_their_chips_are_reported_with_the_chips_that_they_have() -> None:
    labels = {"volcano.sh/job-name": "job"}
    async with rig(SOFT, started=False, soft_share_folder=Path("/share")) as node:
        await node.start()
        await node.devices(200)
        for chip, pod in enumerate(("first", "second")):
            node.api.put(
                PODS,
                _object(
                    pod, "default", CHIP, 30, annotated(30, 1000, chip, str(chip)), uid=pod, labels=labels
                ),
            )
        await node.kubelet.admit("default/second", CHIP, 30)

        def reported() -> dict[str, str]:
            entries = json.loads(node.report()["RingwiseMountedShares"])
            return {uid: entry["chip"] for uid, entry in entries.items()}

        await node.until(lambda: reported() == {"first": "Ascend910-1", "second": "Ascend910-0"})
        assert json.loads(node.report()["RingwiseMountedChips"]) == {}
        await node.kubelet.admit("default/first", CHIP, 30)
        await node.until(lambda: node.annotations("first").get("huawei.com/AscendReal") == "Ascend910-1")
        files = sorted((node.folder / "host/etc/enpu/default.job").rglob("npu_info.config"))
        assert [path.parent.name for path in files] == ["0_0", "1_0"]


async def test_V21_a_broken_chip_has_a_hundred_unhealthy_ids() -> None:
    async with rig(SOFT, started=False, soft_share_folder=Path("/share")) as node:
        await node.start()
        await node.devices(200)
        node.driver.change(1, [0x80C98000])
        devices = await node.devices(100)
        assert {one.rpartition("-")[0] for one, healthy in devices.items() if not healthy} == {"Ascend910-1"}


@pytest.mark.parametrize(("sharing", "reported"), [(False, True), (True, False), (None, False)])
async def test_a_sharing_mode_that_is_off_is_reported(
    sharing: bool | None, reported: bool, log: io.StringIO
) -> None:
    """The plugin does not change it, and serves the shares all the same: nothing enforces them."""
    description = {"chip_name": "910B3", "memory": 65536, "chips": [{"physical": 0, "sharing": sharing}]}
    async with rig(description, started=False, soft_share_folder=Path("/share")) as node:
        await node.start()
        await node.devices(100)
    assert ("sharing mode is off" in log.getvalue()) == reported


async def test_V19_without_a_die_id_no_file_and_no_record_is_left() -> None:
    chips = [{"physical": 0, "vdie": ""}]
    description = {"chip_name": "910B3", "memory": 65536, "chips": chips}
    async with rig(description, started=False, soft_share_folder=Path("/share")) as node:
        await node.start()
        await node.devices(100)
        with pytest.raises(AdmissionError, match="does not report the die ID"):
            await soft_rig_allocate(node, "a", 30)
        assert node.plugin.allocator.ledger.mounts == []
        assert node.annotations("a")["predicate-time"] != CONSUMED
        assert not list((node.folder / "host").rglob("npu_info.config"))


def test_V19_whole_chips_from_before_leave_no_room() -> None:
    ledger = Ledger([Mount(CHIP, ("Ascend910-0",), ("Ascend910-0",), "old", owner="old", at=1)])
    made = ShareAllocator(CHIP, ["Ascend910-0"], ledger)
    made.memory = {"Ascend910-0": 65536}
    made.replace_pods([soft_pod("a", annotations=annotated(10))], 0)
    with pytest.raises(AllocationError, match="is held by pod old"):
        made.allocate([f"Ascend910-0-{one}" for one in range(10)], 1, lambda chip: None)
    assert made.used() == {"Ascend910-0"}


@pytest.mark.parametrize(("percents", "expected"), [((30,), "a"), ((30, 40), None)])
def test_the_figures_of_a_chip_are_those_of_a_pod_only_if_it_has_the_chip_alone(
    percents: tuple[int, ...], expected: str | None
) -> None:
    made = allocator_of({"resource": CHIP, "chips": [0], "chip_memory_mb": 65536})
    for start, (pod_name, percent) in enumerate(zip("ab", percents, strict=False)):
        made.put_pod(soft_pod(pod_name, annotations=annotated(percent)))
        ids = [f"Ascend910-0-{50 * start + one}" for one in range(percent)]
        made.commit(made.allocate(ids, 0, healthy))
    pod = made.pod_of("Ascend910-0")
    assert (pod and pod.name) == expected


def test_V19_the_share_of_a_deleted_pod_is_used_while_its_container_may_run() -> None:
    made = allocator_of({"resource": CHIP, "chips": [0], "chip_memory_mb": 65536})
    ids = [f"Ascend910-0-{one}" for one in range(60)]
    made.replace_pods([soft_pod("old", annotations=annotated(60))], 0)
    made.commit(made.allocate(ids, 0, healthy))
    made.listed({"ns/old": [ids]}, SECOND, running=())
    made.put_pod(soft_pod("old", annotations=annotated(60), phase="Running"))
    made.drop_pod("u-old", 2 * SECOND)
    made.put_pod(soft_pod("new", annotations=annotated(60)))
    # Kubelet assigns the same IDs again before the old container has ended.
    with pytest.raises(AllocationError, match="60 of 100 percent"):
        made.allocate(ids, 3 * SECOND, healthy, fresh=False)
    made.listed({}, 4 * SECOND, during_call=True, running=())
    assert made.allocate(ids, 5 * SECOND, healthy).chips == ("Ascend910-0",)


class Shares(RuleBasedStateMachine):
    """Pods come, are served and go, with crashes between any two steps: records, files and numbers agree."""

    @initialize()
    def start(self) -> None:
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        self.now = 10**12
        self.pods: dict[str, NodePod] = {}
        self.listing: dict[str, list[tuple[str, ...]]] = {}
        self.number = 0
        self._open()

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.file.close()
            self.folder.cleanup()

    def _open(self) -> None:
        self.file = LedgerFile(self.root / "mounts.jsonl")
        self.allocator = ShareAllocator(CHIP, ["Ascend910-0", "Ascend910-1"], self.file.load())
        self.allocator.memory = {"Ascend910-0": 1000, "Ascend910-1": 1000}
        self.files = ShareFiles(Path("/share"), self.root, self.allocator.ledger.mounts)
        chips = SimulatedDriver({"chip_name": "910B3", "count": 2}).chips()
        self.files.watch("Ascend910B", chips)
        self.allocator.replace_pods(self.pods.values(), self.now)

    def _save(self) -> None:
        self.files.keep(self.allocator.ledger.mounts)
        self.file.save(self.allocator.ledger)

    def _list(self, *, during_call: bool = False) -> None:
        self.allocator.listed(self.listing, self.now, running=(), during_call=during_call)

    @rule()
    def crash(self) -> None:
        self.file.close()
        self._open()

    @rule(
        percent=st.sampled_from([10, 40, 60, 100]),
        memory=st.sampled_from([100, 400, 700]),
        chip=st.integers(0, 1),
        job=st.sampled_from(["x", "y", ""]),
    )
    def submit(self, percent: int, memory: int, chip: int, job: str) -> None:
        self.number += 1
        pod = soft_pod(
            f"p{self.number}",
            annotations=annotated(percent, memory, chip, str(self.number)),
            labels={"volcano.sh/job-name": job},
        )
        self.pods[pod.uid] = pod
        self.allocator.put_pod(pod)

    @rule(data=st.data(), crashes=st.sampled_from(["", "record", "file", "patch"]))
    @precondition(lambda self: any(pod.key not in self.listing for pod in self.pods.values()))
    def allocate(self, data: st.DataObject, crashes: str) -> None:
        waiting = [pod for pod in self.pods.values() if pod.key not in self.listing]
        meant = data.draw(st.sampled_from(waiting))
        taken = {one for lists in self.listing.values() for ids in lists for one in ids}
        free = [one for ids in self.allocator.device_ids().values() for one in ids if one not in taken]
        count = meant.asks_for(CHIP)
        if len(free) < count:
            return None
        ids = tuple(free[:count])
        self.now += 10**12
        self._list(during_call=True)
        try:
            result = self.allocator.allocate(ids, self.now, lambda chip: None)
        except AllocationError:
            return None
        self._save()
        if crashes == "record":
            return self.crash()
        self.files.write(result.mount)
        if crashes == "file":
            return self.crash()
        assert result.pod is not None
        patched = result.pod.annotated(result.annotations)
        self.pods[patched.uid] = patched
        if crashes == "patch":
            return self.crash()
        self.allocator.commit(result)
        self.listing[meant.key] = [ids]
        self._list()
        self._save()
        return None

    @rule(data=st.data())
    @precondition(lambda self: self.pods)
    def end(self, data: st.DataObject) -> None:
        pod = data.draw(st.sampled_from(sorted(self.pods.values(), key=lambda one: one.key)))
        del self.pods[pod.uid]
        self.listing.pop(pod.key, None)
        self.allocator.drop_pod(pod.uid, self.now)
        self.now += 10**12
        self._list()
        self._save()

    @invariant()
    def no_chip_has_more_than_it_has(self) -> None:
        if not hasattr(self, "allocator"):
            return
        for chip in self.allocator.chips:
            shares = [one.share for one in self.allocator.ledger.mounts if chip in one.chips and one.share]
            assert sum(one.percent for one in shares) <= 100
            assert sum(one.memory for one in shares) <= 1000
            numbers = [one.virtual for one in shares]
            assert len(set(numbers)) == len(numbers)

    @invariant()
    def no_file_without_a_record_once_saved(self) -> None:
        if not hasattr(self, "allocator"):
            return
        self._save()
        folders = _folders(self.root / "etc/enpu")
        recorded = {
            (one.share.folder, f"{one.chips[0].rpartition('-')[2]}_{one.share.virtual}")
            for one in self.allocator.ledger.mounts
            if one.share
        }
        assert folders <= recorded


def _folders(root: Path) -> set[tuple[str, str]]:
    found: Iterable[Path] = root.glob("*/*") if root.exists() else ()
    return {(path.parent.name, path.name) for path in found}


TestShares = Shares.TestCase
TestShares.settings = settings(max_examples=examples(60), stateful_step_count=25, deadline=None)


def test_a_share_has_the_devices_of_its_chip_by_nodes(tmp_path: Path) -> None:
    chips = SimulatedDriver({"chip_name": "910B3", "count": 1}).chips()
    answers = ContainerResponses("plain", "Ascend910B", chips, HostFiles(tmp_path))
    files = ShareFiles(Path("/share"), tmp_path, ())
    files.watch("Ascend910B", chips)
    mount = Mount(CHIP, ("a", "b"), ("Ascend910-0",), "u", share=Share(2, 10, "elastic", "ns.j", 3))
    answer = answers.answer(mount.chips)
    files.complete(mount, answer)
    assert [one.host_path for one in answer.devices] == ["/dev/davinci0"]
    assert [one.container_path for one in answer.mounts][-1] == "/etc/enpu/vcann-rt/"

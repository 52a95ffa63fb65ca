"""Random cases of soft shares on a node, and of flags, against a second, plain reading of V19 to V21."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from ringwise.device.allocation import AllocationError
from ringwise.device.ledger import Ledger, Mount, Share
from ringwise.device.pods import NodePod
from ringwise.device.report import ChipReport, device_list
from ringwise.device.share_allocator import ShareAllocator
from ringwise.device.soft_shares import ShareFiles
from tests.builders.values import CHIP
from tests.device.test_soft_shares import annotated, check_flags, soft_pod
from tests.examples import examples

QUOTA = "huawei.com/scheduler.softShareDev."
POLICIES = ("fixed-share", "elastic", "best-effort")
MEMORY = 65536
LATER = 10**12


def name(chip: int) -> str:
    return f"Ascend910-{chip}"


def record(uid: str, chip: int, share: Share) -> Mount:
    ids = tuple(f"x-{uid}-{at}" for at in range(share.percent))
    return Mount(CHIP, ids, (name(chip),), uid, f"ns/{uid}", owner=uid, share=share, at=1)


def random_records(chosen: random.Random, chips: int) -> list[Mount]:
    """Shares that chips have room for; a chip has one policy and no number twice."""
    found = []
    for chip in range(chips):
        policy, percent, mb = chosen.choice(POLICIES), 100, MEMORY
        for number in chosen.sample(range(5), chosen.randrange(4)):
            share = Share(
                min(percent, chosen.choice([1, 10, 50, 99, 100])),
                min(mb, chosen.choice([1, 1000, 30_000, MEMORY])),
                policy,
                f"ns.{chosen.choice('abc')}",
                number,
            )
            if not share.percent or not share.memory:
                continue
            percent, mb = percent - share.percent, mb - share.memory
            found.append(record(f"r{chip}-{number}", chip, share))
    return found


@pytest.mark.parametrize("seed", range(examples(60)))
def test_V20_records_stay_as_long_as_pods_or_kubelet_have_them(seed: int, tmp_path: Path) -> None:
    chosen = random.Random(seed)
    mounts = random_records(chosen, 4)
    phases = ("Pending", "Running", "Unknown", "Succeeded", "Failed", None)
    pods = {mount.owner: chosen.choice(phases) for mount in mounts}
    listed = {mount.owner for mount in mounts if chosen.random() < 0.5}
    stays = [m for m in mounts if m.owner in listed or pods[m.owner] in ("Pending", "Running", "Unknown")]
    for mount in mounts:
        assert mount.share is not None
        (tmp_path / "etc/enpu" / mount.share.folder).mkdir(parents=True, exist_ok=True)
    made = ShareAllocator(CHIP, [name(chip) for chip in range(4)], Ledger(list(mounts)))
    files = ShareFiles(Path("/share"), tmp_path, mounts)
    made.replace_pods(
        [
            NodePod("ns", uid, uid, phase=phase, annotations={CHIP: name(0)}, limits=({CHIP: 10},))
            for uid, phase in pods.items()
            if phase is not None
        ],
        0,
    )
    made.listed({m.chosen_key: [m.ids] for m in mounts if m.owner in listed}, LATER, running=())
    files.keep(made.ledger.mounts)
    assert {one.owner for one in made.ledger.mounts} == {one.owner for one in stays}
    folders = {one.share.folder for one in stays if one.share is not None}
    assert {path.name for path in tmp_path.glob("etc/enpu/*")} == folders


@pytest.mark.parametrize("seed", range(examples(60)))
def test_V21_chips_that_are_used_up_leave_the_list(seed: int) -> None:
    chosen = random.Random(seed)
    mounts = random_records(chosen, 6)
    unhealthy, isolated = ({chip for chip in range(6) if chosen.random() < 0.2} for _ in range(2))
    used = {chip: [m.share for m in mounts if m.share and m.chips == (name(chip),)] for chip in range(6)}
    free = [
        name(chip)
        for chip in range(6)
        if chip not in unhealthy | isolated
        and sum(share.percent for share in used[chip]) < 100
        and sum(share.memory for share in used[chip]) < MEMORY
    ]
    made = ShareAllocator(CHIP, [name(chip) for chip in range(6)], Ledger(list(mounts)))
    made.memory = {name(chip): MEMORY for chip in range(6)}
    reports = [
        ChipReport(name(chip), healthy=chip not in unhealthy, isolated=chip in isolated) for chip in range(6)
    ]
    assert device_list(CHIP, reports, made.used())[CHIP] == ",".join(free)
    assert made.device_ids() == {
        name(chip): tuple(f"Ascend910-{chip}-{number}" for number in range(100)) for chip in range(6)
    }


def waiting_pod(chosen: random.Random, uid: str) -> dict[str, Any]:
    percent = chosen.choice([1, 10, 10, 50])
    return {
        "uid": uid,
        "chip": chosen.choice([0, 1, 2, 2, 7]),
        "request": percent if chosen.random() < 0.9 else chosen.choice([1, 10, 50]),
        "percent": str(percent) if chosen.random() < 0.9 else chosen.choice(["", "0", "x"]),
        "mb": chosen.choice(["1", "1000", "30000", "65536", "65537", "0", "-1"]),
        "policy": chosen.choice([*POLICIES, *POLICIES, "else"]),
        "time": chosen.randrange(3),
        "phase": chosen.choice(["Pending", "Pending", "Pending", "Failed"]),
        "labels": chosen.choice(
            [
                {},
                {"volcano.sh/job-name": "v"},
                {"volcano.sh/job-name": "v", "training.kubeflow.org/job-name": "t"},
            ]
        ),
    }


def expected(
    pods: list[dict[str, Any]], mounts: list[Mount], count: int, unhealthy: set[int], chips: int
) -> tuple[str, int, int, str] | str:
    """Pod, chip, virtual number and folder; or what the message of the failed call has."""
    missing = False
    for pod in sorted(pods, key=lambda one: (one["time"], one["uid"])):
        served = pod["request"] == count and pod["percent"] == str(count) and pod["phase"] == "Pending"
        if not served or pod["policy"] not in POLICIES or pod["mb"] in ("0", "-1"):
            continue
        chip = pod["chip"]
        if chip >= chips:
            missing = True
            continue
        shares = [mount.share for mount in mounts if mount.share and mount.chips == (name(chip),)]
        if (
            chip in unhealthy
            or any(share.policy != pod["policy"] for share in shares)
            or sum(share.percent for share in shares) + count > 100
            or sum(share.memory for share in shares) + int(pod["mb"]) > MEMORY
        ):
            continue
        number = min(set(range(100)) - {share.virtual for share in shares})
        labels = pod["labels"]
        job = labels.get("training.kubeflow.org/job-name") or labels.get("volcano.sh/job-name") or pod["uid"]
        return pod["uid"], chip, number, f"ns.{job}"
    return "NoNPUResource" if missing else ""


@pytest.mark.parametrize("seed", range(examples(200)))
def test_V19_the_pod_that_a_call_serves(seed: int) -> None:
    chosen = random.Random(seed)
    mounts = random_records(chosen, 3)
    unhealthy = {chip for chip in range(3) if chosen.random() < 0.15}
    pods = [waiting_pod(chosen, f"p{at}") for at in range(chosen.randrange(1, 5))]
    count = chosen.choice([1, 10, 10, 50])
    made = ShareAllocator(CHIP, [name(chip) for chip in range(3)], Ledger(list(mounts)))
    made.memory = {name(chip): MEMORY for chip in range(3)}
    made.replace_pods(
        [
            NodePod(
                "ns",
                pod["uid"],
                pod["uid"],
                phase=pod["phase"],
                labels=pod["labels"],
                annotations={
                    CHIP: name(pod["chip"]),
                    QUOTA + "aicoreQuota": pod["percent"],
                    QUOTA + "hbmQuota": pod["mb"],
                    QUOTA + "policy": pod["policy"],
                    "predicate-time": str(pod["time"]),
                },
                limits=({CHIP: pod["request"]},),
            )
            for pod in pods
        ],
        0,
    )
    ids = [f"Ascend910-0-{at}" for at in range(count)]
    want = expected(pods, mounts, count, unhealthy, 3)
    sick = {name(chip) for chip in unhealthy}

    def why_not(chip: str) -> str | None:
        return "sick" if chip in sick else None

    if isinstance(want, str):
        with pytest.raises(AllocationError) as raised:
            made.allocate(ids, LATER, why_not)
        assert ("NoNPUResource" in str(raised.value)) == bool(want)
        return
    served = made.allocate(ids, LATER, why_not).mount
    assert served.share is not None
    found = served.chosen, int(served.chips[0].rpartition("-")[2]), served.share.virtual, served.share.folder
    assert found == want


@pytest.mark.parametrize("percent", [1, 100])
def test_V19_a_share_of_0_MB_is_not_served(percent: int) -> None:
    pod = soft_pod("p", count=percent, annotations=annotated(percent, memory=0))
    made = ShareAllocator(CHIP, [name(0)], Ledger([]))
    made.memory = {name(0): MEMORY}
    made.replace_pods([pod], 0)
    with pytest.raises(AllocationError):
        made.allocate([f"Ascend910-0-{at}" for at in range(percent)], LATER, lambda chip: None)


def expected_flag(chip: str, flags: dict[str, str]) -> str | None:
    """The first reason of V21; None: the plugin starts."""
    count, folder = int(flags.get("shareDevCount", "1")), flags.get("softShareDevConfigDir", "")
    checks = {
        "share-count-out-of-range": not 1 <= count <= 100,
        "cutting-not-supported": flags.get("presetVirtualDevice") == "false",
        "soft-sharing-needs-100-shares": bool(folder) and count != 100,
        "folder-not-absolute": bool(folder) and folder[0] != "/",
        "needs-the-scheduler": bool(folder) and flags.get("volcanoType") == "false",
        "chip-cannot-be-shared": bool(folder) and chip not in ("910B", "910A3", "950"),
        "a3-needs-single-die-mode": bool(folder)
        and chip == "910A3"
        and flags.get("useSingleDieMode") != "true",
        "plain-sharing-not-supported": not folder and count > 1,
    }
    return next((reason for reason, applies in checks.items() if applies), None)


@pytest.mark.parametrize("seed", range(examples(80)))
def test_V21_the_first_flag_that_is_invalid(seed: int, tmp_path: Path) -> None:
    chosen = random.Random(seed)
    chip = chosen.choice(["910B", "910B", "910A3", "950", "310P", "910A"])
    choices = {
        "shareDevCount": ["0", "1", "2", "99", "100", "100", "100", "100", "101"],
        "presetVirtualDevice": ["true", "true", "true", "false"],
        "softShareDevConfigDir": ["/s", "/s", "s", ""],
        "volcanoType": ["true", "true", "false"],
        "useSingleDieMode": ["true", "false"],
    }
    flags = {flag: chosen.choice(values) for flag, values in choices.items() if chosen.random() < 0.7}
    if not flags.get("softShareDevConfigDir"):
        # The rule says nothing of these flags alone.
        flags = {flag: flags[flag] for flag in flags if flag not in ("useSingleDieMode", "volcanoType")}
    check_flags(chip, flags, expected_flag(chip, flags), tmp_path)

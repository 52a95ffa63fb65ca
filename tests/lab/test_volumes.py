"""Volumes in a lab and in files, as people see them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.rig import Terminal, job, nodes, running
from tests.manifests.volumes import (
    HOST,
    claim,
    claim_spec,
    csi_driver,
    csi_node,
    storage_capacity,
    storage_class,
    volume,
)

LAB = storage_class("lab", "lab.ringwise.io", waits=True, default=True)
LOCAL = storage_class("local", "kubernetes.io/no-provisioner", waits=True)
HANGS = storage_class("hangs", "csi.nowhere.example", waits=True)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    with running(tmp_path, nodes(3)):
        yield Terminal(tmp_path, columns=80)


def text(*documents: Any) -> str:
    return "\n---\n".join(one if isinstance(one, str) else json.dumps(one) for one in documents)


def with_claim(made: str, name: str) -> str:
    return made.replace("spec:\n", f"spec:\n  volumes: [{{mountPath: /data, volumeClaimName: {name}}}]\n", 1)


def with_new_claim(made: str, storage_class: str | None = None, mode: str = "ReadWriteOnce") -> str:
    volumes = json.dumps([{"mountPath": "/data", "volumeClaim": claim_spec(storage_class, mode=mode)}])
    return made.replace("spec:\n", f"spec:\n  volumes: {volumes}\n", 1)


def phase(terminal: Terminal, name: str) -> str:
    terminal.ok("advance 5s")
    found: str = terminal.json(f"describe job {name}")["phase"]
    return found


def test_a_gang_with_a_claim_of_its_job_starts_and_takes_the_volume_with_it(terminal: Terminal) -> None:
    terminal.submit(text(LAB, with_new_claim(job("train", 2, 8), mode="ReadWriteMany")))
    assert phase(terminal, "train") == "Running"
    assert len(terminal.seats()) == 2
    terminal.ok("delete job lab/train")
    terminal.ok("advance 10s")
    terminal.submit(with_new_claim(job("train", 2, 8), mode="ReadWriteMany"))
    assert phase(terminal, "train") == "Running"


def test_a_local_volume_says_where_its_pod_runs(terminal: Terminal) -> None:
    data = claim("data", "local", namespace="lab")
    terminal.submit(text(LOCAL, volume("disk", "local", node="node-1"), data))
    terminal.submit(with_claim(job("train", 1, 8), "data"))
    assert phase(terminal, "train") == "Running"
    assert terminal.seats()["lab/train-worker-0"][0] == "node-1"


def test_a_provisioner_that_runs_nowhere_hangs_with_a_reason_and_nobody_else_waits(
    terminal: Terminal,
) -> None:
    terminal.submit(text(HANGS, with_new_claim(job("slow", 1, 8), "hangs")))
    terminal.submit(job("quick", 2, 8))
    assert phase(terminal, "quick") == "Running"
    shown = terminal.ok("why slow")
    # Every view says the same of its start.
    told = "unknown, the volumes of its claims are being bound"
    assert f"expected start: {told}" in " ".join(shown.split())
    (row,) = [row for row in terminal.json("get jobs")["jobs"] if row["name"] == "slow"]
    for expected in (row, terminal.json("describe job slow"), terminal.json("why slow")):
        assert expected["expected_start"]["message"] == told
    assert "lab/slow-volume-0" in " ".join(shown.split())
    assert "Fixes" in shown
    # The chips are free for others when its time is over.
    terminal.submit(job("next", 1, 8))
    assert phase(terminal, "next") == "Pending"
    terminal.ok("advance 11m")
    assert phase(terminal, "next") == "Running"
    assert phase(terminal, "slow") == "Pending"
    # The driver comes, and a node is free.
    terminal.ok("delete job lab/next")
    terminal.submit(text(*(csi_node(f"node-{at}", {"csi.nowhere.example": None}) for at in range(3))))
    terminal.ok("advance 2m")
    assert phase(terminal, "slow") == "Running"


def test_what_is_missing_is_named_with_what_would_help(terminal: Terminal) -> None:
    terminal.submit(with_claim(job("train", 1, 8), "data"))
    why = terminal.json("why train")
    assert why["reason"]["code"] == "claim-missing"
    assert [fix["kind"] for fix in why["fixes"]] == ["claim", "claim"]
    terminal.submit(text(LAB, claim("data", namespace="lab")))
    assert phase(terminal, "train") == "Running"


def test_a_volume_is_made_where_its_driver_has_room(terminal: Terminal) -> None:
    room = [storage_capacity(f"room-{at}", "lab", f"{10 * at}Gi", f"node-{at}") for at in range(3)]
    terminal.submit(text(LAB, csi_driver("lab.ringwise.io"), *room))
    terminal.submit(
        text(claim("data", size="20Gi", namespace="lab"), claim("more", size="30Gi", namespace="lab"))
    )
    terminal.submit(with_claim(job("train", 1, 8), "data"))
    terminal.submit(with_claim(job("big", 1, 8), "more"))
    assert phase(terminal, "train") == "Running"
    assert terminal.seats()["lab/train-worker-0"][0] == "node-2"
    why = " ".join(terminal.ok("why big").split())
    assert "requests 30 GiB of StorageClass lab; largest capacity: 20 GiB" in why
    assert "free or add storage of StorageClass lab" in why
    terminal.submit(text(storage_capacity("room-0", "lab", "30Gi", "node-0")))
    assert phase(terminal, "big") == "Running"


def test_a_claim_that_cannot_be_read_is_refused_with_its_field(terminal: Terminal) -> None:
    told = terminal.refused("submit -", text(claim("data", mode="Sometimes")))
    assert 'spec.accessModes[0]: Invalid value: "Sometimes": must be one of' in told
    terminal.submit(text(LAB, claim("data")))
    told = terminal.refused("submit -", text(claim("data", mode="ReadWriteMany")))
    assert "only resources of its spec can be changed" in " ".join(told.split())


def test_place_counts_the_claims_of_the_lab_and_of_the_file(terminal: Terminal, tmp_path: Path) -> None:
    place = f"place --lab {tmp_path} -f -"
    terminal.submit(text(LOCAL, LAB, volume("disk", "local", node="node-2")))
    data = claim("data", "local", namespace="lab")
    asked = terminal.json(place, text(data, with_claim(job("new", 1, 8), "data")))
    (placed,) = asked["jobs"]
    assert placed["pods"][0]["node"] == "node-2"
    (made,) = terminal.json(place, with_new_claim(job("new", 2, 8), mode="ReadWriteMany"))["jobs"]
    assert made["state"] == "scheduled"
    (missing,) = terminal.json(place, with_claim(job("new", 1, 8), "data"))["jobs"]
    assert missing["reason"]["code"] == "claim-missing"


def test_what_a_restart_of_the_scheduler_leaves_of_a_wait(tmp_path: Path) -> None:
    slow = with_new_claim(job("slow", 1, 8), "hangs")
    with running(tmp_path, nodes(3)):
        terminal = Terminal(tmp_path, columns=80)
        terminal.submit(text(HANGS, slow))
        terminal.ok("advance 5s")
    with running(tmp_path, nodes(3)):
        terminal = Terminal(tmp_path, columns=80)
        assert "lab/slow-volume-0" in terminal.json("why slow")["message"]
        terminal.submit(text(*(csi_node(f"node-{at}", {"csi.nowhere.example": None}) for at in range(3))))
        assert phase(terminal, "slow") == "Running"


def test_the_label_of_a_lab_node_is_that_of_a_local_volume(terminal: Terminal) -> None:
    assert HOST in terminal.ok("describe node node-1 -o json")


def test_a_support_bundle_with_claims_is_decided_again_the_same(tmp_path: Path) -> None:
    folder, bundle = tmp_path / "lab", tmp_path / "bundle.tgz"
    terminal = Terminal(folder, columns=80)
    with running(folder, nodes(3)):
        alone = claim("secretalone", "local", namespace="lab", mode="ReadWriteOncePod")
        disk = volume("secretdisk", "local", node="node-1", mode="ReadWriteOncePod")
        terminal.submit(text(LOCAL, HANGS, LAB, disk, alone))
        terminal.submit(with_claim(job("first", 1, 1), "secretalone"))
        terminal.submit(with_claim(job("second", 1, 1), "secretalone"))
        terminal.submit(with_new_claim(job("hanging", 1, 8), "hangs"))
        terminal.submit(with_new_claim(job("made", 2, 4), mode="ReadWriteMany"))
        terminal.ok("advance 11m")
        assert terminal.json("why second")["reason"]["code"] == "claim-in-use"
        terminal.ok(f"support-bundle {bundle} --mapping-file {tmp_path / 'mapping.json'}")
    assert terminal.ok(f"replay {bundle}").startswith("identical: ")
    names = json.loads((tmp_path / "mapping.json").read_text())
    assert "secret" not in gzip.decompress(bundle.read_bytes()).decode()
    again = terminal.json(f"why {names['second']} -f {bundle}")
    assert again["reason"]["code"] == "claim-in-use"

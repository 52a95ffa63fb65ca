"""`ringwise support-bundle` of a lab: its journal, with faults and moves in it, is decided again the same."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path

from tests.lab.rig import Terminal, job, nodes, running


def _faulty(name: str, pods: int) -> str:
    labels = '{fault-scheduling: "grace", pod-rescheduling: "on", team: "umbrella"}'
    return job(name, pods, 8).replace("namespace: lab}", f"namespace: lab, labels: {labels}}}", 1)


def test_a_lab_with_faults_suspended_jobs_and_a_restart(tmp_path: Path) -> None:
    folder, bundle = tmp_path / "lab", tmp_path / "bundle.tar.gz"
    terminal = Terminal(folder, columns=80)
    with running(folder, nodes(6, board="910-x8", leaf_size=2)):
        terminal.submit(_faulty("umbrella-train", 2), job("weyland", 1, 8))
        terminal.ok("advance 1m")
        terminal.submit(job("aperture", 5, 8))
        hit = terminal.seats()["lab/umbrella-train-worker-1"][0]
        terminal.ok(f"fault inject chip {hit} 3")
        terminal.ok(f"isolate node-5 --reason omnicorp --lab {folder}")
        terminal.ok("advance 1m")
        terminal.ok("suspend weyland --by tyrell --reason omnicorp")
        terminal.ok("advance 1m")
        terminal.ok("resume weyland")
        terminal.ok("advance 1m")
    with running(folder, nodes(6, board="910-x8", leaf_size=2)):
        terminal.ok("advance 1m")
        said = terminal.ok(f"support-bundle {bundle} --mapping-file {tmp_path / 'mapping.json'}")
        why = terminal.json("why aperture")
    assert "support bundle of a lab" in said
    assert "journal.jsonl: " in said
    assert "journal.1.jsonl: " in said
    mapping = json.loads((tmp_path / "mapping.json").read_bytes())
    content = gzip.decompress(bundle.read_bytes()).decode().lower()
    for secret in ("umbrella", "weyland", "aperture", "tyrell", "omnicorp"):
        assert secret not in content
    assert terminal.ok(f"replay {bundle}").startswith("identical: ")
    again = terminal.json(f"why {mapping['aperture']} -f {bundle}")
    assert again["state"] == why["state"] == "pending"
    assert again["reason"]["code"] == why["reason"]["code"]


def test_the_older_journal_of_a_lab_is_decided_again_the_same(tmp_path: Path) -> None:
    folder, bundle = tmp_path / "lab", tmp_path / "bundle.tgz"
    terminal = Terminal(folder)
    with running(folder, nodes(4)):
        terminal.submit(_faulty("umbrella", 2))
        terminal.ok("advance 1m")
        terminal.ok(f"fault inject chip {terminal.seats()['lab/umbrella-worker-0'][0]} 1")
        terminal.ok("advance 5m")
    with running(folder, nodes(4)):
        terminal.ok(f"support-bundle {bundle}")
        terminal.ok(f"support-bundle {tmp_path / 'kept.tar.gz'} --keep-names")

    with tarfile.open(bundle) as archive:
        archive.extract("journal.1.jsonl", tmp_path, filter="data")
    assert terminal.ok(f"replay {tmp_path / 'journal.1.jsonl'}").startswith("identical: ")
    assert terminal.ok(f"replay {tmp_path / 'kept.tar.gz'}").startswith("identical: ")


def test_without_a_lab_it_says_how_to_start_one(tmp_path: Path) -> None:
    result = Terminal(tmp_path).run(f"support-bundle {tmp_path / 'x.tar.gz'}")
    assert result.exit_code == 2
    assert "no lab runs on" in result.output
    assert not (tmp_path / "x.tar.gz").exists()

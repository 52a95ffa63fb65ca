"""`ringwise get chips --lab`: the chips of a lab, as the command shows those of a cluster."""

from __future__ import annotations

import getpass
import json
from pathlib import Path

from tests.lab.rig import Terminal, job, nodes, pod, running


def test_every_chip_has_its_state_pod_faults_and_note(tmp_path: Path) -> None:
    terminal, lab = Terminal(tmp_path), f"--lab {tmp_path}"
    with running(tmp_path):
        terminal.submit(job("train", 1, 4))
        terminal.ok("advance 5s")
        terminal.ok("fault inject chip node-1 7")
        terminal.ok(f"isolate {lab} node-1 Ascend910-5 --reason test")
        terminal.ok("advance 1s")
        chips = {(one["node"], one["chip"]): one for one in terminal.json(f"get chips {lab}")["chips"]}
        assert len(chips) == 8 * len({node for node, _ in chips})
        holders = [one["pod"] for one in chips.values() if one["state"] == "used"]
        assert holders == ["lab/train-worker-0"] * 4
        broken = chips["node-1", "Ascend910-7"]
        assert (broken["state"], bool(broken["faults"])) == ("faulty", True)
        isolated = chips["node-1", "Ascend910-5"]
        assert isolated["state"] == "isolated"
        assert isolated["note"].startswith(f"test (by {getpass.getuser()}, ")
        table = terminal.ok(f"get chips {lab} --node node-1")
        assert "Ascend910-5" in table
        assert "node-2" not in table
        assert 'node "nowhere" not found' in terminal.refused(f"get chips {lab} --node nowhere")
        both = terminal.refused(f"get chips {lab} --context other")
        assert "--lab and --context cannot be combined" in both


def test_N7_a_pod_that_names_fewer_chips_than_it_uses_closes_its_node(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(1)):
        terminal.submit(pod("partly", 2, node="node-0", holds="Ascend910-0"), job("train", 1, 1))
        terminal.ok("advance 5s")
        assert set(terminal.seats()) == {"lab/partly"}
        assert "lab/partly" in terminal.ok("why train")
        findings = json.loads(terminal.run("doctor -o json").stdout)["findings"]
        assert ("unknown-holder", "node node-0") in [(one["code"], one["object"]) for one in findings]

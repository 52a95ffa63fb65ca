"""`ringwise fault inject|clear|list`: faults take the way of real documents to the scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ringwise.apps.lab.lab import FleetSettings, LiveLab
from ringwise.state.model import DeviceReport, NodeReport
from tests.golden_files import WIDTHS, same_as_golden
from tests.lab.rig import SMALL, Terminal, job, nodes, pod, running
from tests.lab.test_job_history import fault_job

FORCE = {"fault-scheduling": "force", "pod-rescheduling": "on"}


@pytest.fixture(scope="module")
def four_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """One lab for all cases; each leaves it without jobs and faults."""
    folder = tmp_path_factory.mktemp("lab")
    with running(folder, nodes(4)):
        yield Terminal(folder)


def test_why_a_running_job_names_tolerated_faults(tmp_path: Path) -> None:
    masks = "annotations: {huawei.com/schedule.filter.faultCode: '80E01801:300'}, labels: {"
    with running(tmp_path, nodes(4)):
        terminal = Terminal(tmp_path)
        terminal.submit(fault_job("train", 2, **FORCE).replace("labels: {", masks, 1))
        terminal.ok("advance 1m")
        terminal.ok("fault inject chip node-1 3 --code 80E01801")
        terminal.ok("advance 20s")
        for width in WIDTHS:
            printed = Terminal(tmp_path, columns=width).ok("why train")
            same_as_golden(f"{width}/why-tolerated", f"$ ringwise why train\n{printed}")
        terminal.ok("advance 5m")
        assert terminal.seats()["lab/train-worker-1"][0] != "node-1"


def test_chips_in_use_count_as_faulty_and_isolated(tmp_path: Path) -> None:
    with running(tmp_path, nodes(2)):
        terminal = Terminal(tmp_path)
        terminal.submit(job("train", 1, 8))
        terminal.ok("advance 10s")
        terminal.ok("fault inject chip node-0 3")
        terminal.ok(f"isolate node-0 Ascend910-5 --reason optics --lab {tmp_path}")
        terminal.ok("advance 10s")
        (node, _) = terminal.json("get nodes")["nodes"]
        (chips,) = node["chips"]
        assert (chips["used"], chips["faulty"], chips["isolated"]) == (list(range(8)), [3], [5])
        assert (node["chip_states"], node["health"]) == ("u" * 8, "hhhfhihh")
        (heading, _, row, *_) = terminal.ok("get nodes").splitlines()
        assert [row.split()[heading.split().index(name)] for name in ("faulty", "isolated")] == ["3", "5"]
        assert "8 of 16 chips in use, 1 faulty, 1 isolated" in " ".join(terminal.ok("top").split())
        assert "16 chips: 8 used, 8 free, 1 faulty, 1 isolated" in terminal.ok("capacity")


def test_virtual_time_makes_no_device_report_stale(tmp_path: Path) -> None:
    with running(tmp_path, nodes(4)):
        terminal = Terminal(tmp_path)
        terminal.ok("advance 2h")
        terminal.ok("fault inject chip node-1 3")
        terminal.ok("advance 10s")
        assert not [one for one in terminal.json("doctor")["findings"] if one["code"] == "report-stale"]


def test_topology_show_draws_a_faulty_switch(tmp_path: Path) -> None:
    with running(tmp_path, nodes(4, leaf_size=2)):
        terminal = Terminal(tmp_path)
        terminal.ok("fault inject switch 172.0.0.1")
        terminal.ok("fault inject switch node-0")
        shown = terminal.ok("topology show").splitlines()
        assert [line.split() for line in shown[:2]] == [
            ["172.0.0.0", "idle", "!", ".", "1", "of", "2", "free"],
            ["172.0.0.1", "faulty", "!", "!", "0", "of", "2", "free"],
        ]
        assert "! has a faulty chip or switch" in shown[-1]
        switches = terminal.json("topology show")["switches"]
        assert [(one["state"], one["faulty"]) for one in switches] == [("idle", False), ("idle", True)]


def rows(terminal: Terminal) -> list[tuple[Any, ...]]:
    found = terminal.json("fault list")["faults"]
    return [(row["node"], row["kind"], row["chip"], row["level"], row["code"]) for row in found]


@pytest.mark.parametrize(
    ("inject", "clear", "moves"),
    [
        ("chip node-1 3", "chip node-1", True),
        ("chip node-1 3 --level RestartBusiness", "chip node-1 3", True),
        ("chip node-1 3 --code 80E01801", "chip node-1 3 --code 80e01801", True),
        ("chip node-1 3 --level PreSeparateNPU", "chip node-1", False),
        ("chip node-1 3 --level SubHealthFault", "chip node-1", False),
        ("chip node-1 3 --level NotHandleFault", "chip node-1", False),
        ("network node-1 0-7", "network node-1", False),
        ("network node-1", "network node-1", False),
        ("node node-1", "node node-1", True),
        ("node node-1 --status UnHealthy", "node node-1", True),
        ("node node-1 --status PreSeparate", "node node-1", False),
        ("node node-1 --status SubHealthy", "node node-1", False),
        ("switch node-1", "switch node-1", True),
        ("switch node-1 --status SubHealthy", "switch node-1", False),
    ],
)
def test_each_fault_moves_a_running_pod_or_leaves_it_and_is_cleared(
    four_nodes: Terminal, inject: str, clear: str, moves: bool
) -> None:
    terminal = four_nodes
    terminal.submit(fault_job("train", 2, **FORCE))
    terminal.ok("advance 1m")
    before = terminal.seats()
    assert before["lab/train-worker-1"][0] == "node-1"
    terminal.ok(f"fault inject {inject}")
    assert {row[0] for row in rows(terminal)} == {"node-1"}
    terminal.ok("advance 1m")
    assert (terminal.seats() != before) is moves
    assert terminal.seats()["lab/train-worker-0"] == before["lab/train-worker-0"]
    terminal.ok(f"fault clear {clear}")
    assert rows(terminal) == []
    terminal.ok("delete job train")
    terminal.ok("advance 1h")


def test_a_switch_and_a_superpod_fail_with_all_their_nodes(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(4, leaf_size=2)):
        terminal.ok("fault inject switch 172.0.0.1")
        assert rows(terminal) == [
            ("node-2", "switch", None, "UnHealthy", None),
            ("node-3", "switch", None, "UnHealthy", None),
        ]
        said = terminal.ok("fault clear switch switch/172.0.0.1")
        assert said == "node node-2: switches healthy\nnode node-3: switches healthy\n"
        assert terminal.ok("fault list") == "there are no faults\n"
        refused = terminal.refused("fault inject superpod 7")
        assert refused == 'ringwise: SuperPoD "7" not found; existing SuperPoDs: none\n'


def test_all_nodes_of_a_superpod(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    fleet = FleetSettings(4, "a3-x16-superpod", superpod_size=2)
    with running(tmp_path, replace(SMALL, fleet=fleet)):
        terminal.ok("fault inject superpod 1 --status UnHealthy")
        assert [row[:2] for row in rows(terminal)] == [("node-2", "node"), ("node-3", "node")]
        terminal.ok("fault inject superpod 0")
        assert len(rows(terminal)) == 4
        terminal.ok("fault clear --all")
        assert rows(terminal) == []


def test_faults_are_reports_as_their_documents_say(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(2)) as server:
        terminal.ok("fault inject chip node-0 2 --level RestartRequest --code 80C98000")
        terminal.ok("fault inject network node-0 5")
        terminal.ok("fault inject node node-1 --status PreSeparate")
        report = one_report(server.live)
        assert (report.unhealthy, report.network_unhealthy) == (0b100, 0b100000)
        assert [(fault.chip, fault.code, fault.level) for fault in report.faults] == [
            (2, "80C98000", "RestartRequest"),
            (5, "110001024", "SeparateNPU"),
        ]
        (node,) = server.live.cluster.all(NodeReport)
        assert (node.node, node.source, node.status) == ("node-1", "node", "PreSeparate")
        assert terminal.ok("fault list").splitlines()[2:] == [
            "node-0   chip      Ascend910-2   RestartRequest    80C98000",
            "node-0   network   Ascend910-5   SeparateNPU       110001024",
            "node-1   node                    PreSeparate",
        ]


def test_every_view_names_the_job_that_a_fault_hurts(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, columns=200)
    with running(tmp_path, nodes(2)):
        terminal.submit(job("train", 1, 8), job("other", 1, 8))
        terminal.ok("advance 10s")
        assert terminal.ok("get jobs --affected") == "no job is affected by a fault\n"
        assert "affected by" not in terminal.ok("get jobs")
        (node,) = {node for name, (node, _) in terminal.seats().items() if "train" in name}
        terminal.ok(f"fault inject chip {node} 3 --level PreSeparateNPU --code 80E01801")
        terminal.ok("advance 5m")
        text = f"Ascend910-3 of {node}: PreSeparateNPU, code 80E01801"
        (fault,) = terminal.json("fault list")["faults"]
        assert (fault["affected_jobs"], fault["message"]) == (["lab/train"], text)
        assert terminal.ok("fault list").splitlines()[-1].split()[-3:] == ["5m", "affects", "lab/train"]
        jobs = {one["name"]: one["faults"] for one in terminal.json("get jobs")["jobs"]}
        assert jobs["other"] == []
        assert [one["message"] for one in jobs["train"]] == [text]
        assert [one["name"] for one in terminal.json("get jobs --affected")["jobs"]] == ["train"]
        table = terminal.ok("get jobs --affected")
        assert "1 fault" in table
        assert f"{text}, for 5m" in table
        assert "other" not in table
        assert f"affected by {text}, for 5m" in terminal.ok("describe job train")
        why = terminal.json("why train")["faults"]
        assert why[0] == f"affected by {text}, for 5m"
        assert why[1].startswith("no pod is restarted because of it: fault-scheduling is off or missing")
        assert terminal.json("why other")["faults"] == []
        assert "--affected requires jobs; it cannot be combined with nodes" in terminal.refused(
            "get nodes --affected"
        )
        terminal.ok("fault clear --all")
        assert terminal.json("get jobs --affected")["jobs"] == []


def test_nodes_under_a_broken_switch_say_so_everywhere(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(4, leaf_size=2)):
        terminal.ok("fault inject switch 172.0.0.1")
        terminal.ok("fault inject chip node-0 5")
        terminal.ok(f"isolate node-0 Ascend910-6 --reason test --lab {tmp_path}")
        found = {one["code"]: one for one in terminal.json("doctor")["findings"]}
        assert found["node-unhealthy"] == {
            "severity": "warning",
            "code": "node-unhealthy",
            "object": "2 nodes (node-2, node-3)",
            "message": "switches are reported as UnHealthy",
            "fix": "see the affected jobs: `ringwise fault list`",
        }
        assert "  node-3 is reported as unhealthy, because of its switches\n" in terminal.ok(
            "describe node node-3"
        )
        described = terminal.ok("describe node node-0").splitlines()
        assert "  faulty: 5 (details: ringwise fault list)" in described
        assert "  isolated: 6 (details: ringwise get chips --node node-0)" in described
        # Free is what a new pod may have: of a closed node no chip is.
        terminal.submit(job("all", 4, 8))
        misses = {one["node"]: one["message"] for one in terminal.json("why all")["closest_nodes"]}
        assert misses["node-0"] == "ring 1 has 2 of 4 chips free: faulty (1), isolated (1)"
        terminal.submit(pod("there", 2, node="node-2", holds="Ascend910-0,Ascend910-1"))
        misses = {one["node"]: one["message"] for one in terminal.json("why all")["closest_nodes"]}
        assert misses["node-2"].startswith("ring 0 has 2 of 4 chips unused: held by there (2); and ")


def test_nodes_stay_a_table_in_a_narrow_terminal_though_a_drain_lies_ahead(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, columns=80)
    fleet = FleetSettings(4, "910-x8", leaf_size=2)
    with running(tmp_path, replace(SMALL, fleet=fleet)):
        terminal.ok(f"isolate node-1 Ascend910-3 --reason test --lab {tmp_path}")
        terminal.ok("drain node-2 --at 2h --yes")
        lines = terminal.ok("get nodes").splitlines()
        assert lines[0].split()[:3] == ["node", "state", "chips"]
        below = lines.index(next(line for line in lines if line.startswith("node-2 "))) + 1
        assert lines[below].startswith("    draining from 20")
        assert max(map(len, lines)) <= 80


def test_describe_and_why_say_the_same_about_the_start(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, columns=200)
    with running(tmp_path, nodes(1)):
        terminal.submit(job("first", 1, 8, minutes=10))
        terminal.ok("advance 10s")
        terminal.submit(job("second", 1, 8))
        terminal.ok("advance 10s")
        start = terminal.json("describe job second")["expected_start"]
        assert start["kind"] == "known"
        assert terminal.json("why second")["expected_start"] == start
        for command in ("describe job second", "why second"):
            assert f"expected start: {start['message']}" in terminal.ok(command)
        assert terminal.json("describe job first")["expected_start"] is None


def one_report(live: LiveLab) -> DeviceReport:
    return next(report for report in live.cluster.all(DeviceReport) if report.node == "node-0")


def test_a_chip_that_is_to_be_separated_is_taken_out_when_its_pod_ends(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(1)) as server:
        terminal.submit(job("train", 1, 8, minutes=1))
        terminal.ok("advance 10s")
        terminal.ok("fault inject chip node-0 2 --level PreSeparateNPU")
        assert one_report(server.live).unhealthy == 0
        terminal.ok("advance 2m")
        assert one_report(server.live).unhealthy == 0b100
        assert terminal.json("get nodes")["nodes"][0]["chips"][0]["free"] == [0, 1, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("chip node-9 1", 'node "node-9" not found'),
        ("chip node-0", "name the chips that fail: 3, 0-3 or 0,2,5"),
        ("chip node-0 1 --level RestartNpu", '"RestartNpu" is not a level of a chip fault; must be one of'),
        ("network node-0 1 --level RestartNPU", '"RestartNPU" is not a level of a network fault'),
        ("chip node-0 1 --code xyz", 'invalid fault code "xyz": must be 1 to 16 hexadecimal digits'),
        ("node node-0 --status notready", '"notready" is not a status of a node; must be one of '),
        ("switch node-0 --status not-ready", '"not-ready" is not a status of a switch'),
        ("node node-0 1", "a fault of a node cannot have chips"),
        ("node node-0 --level RestartNPU", "a fault of a node cannot have a level"),
        ("chip node-0 1 --status UnHealthy", "a chip fault cannot have a status"),
        ("switch 10.9.9.9", 'node or leaf switch "10.9.9.9" not found'),
        ("switch switch/10.9.9.9", 'leaf switch "10.9.9.9" not found'),
    ],
)
def test_what_cannot_fail_is_one_clear_line(four_nodes: Terminal, command: str, line: str) -> None:
    said = four_nodes.refused(f"fault inject {command}")
    assert said.startswith(f"ringwise: {line}")
    assert said.count("\n") == 1
    assert rows(four_nodes) == []

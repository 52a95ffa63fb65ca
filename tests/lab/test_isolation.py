"""`isolate` and `unisolate` for leaf switches and SuperPoDs, and drains that lie ahead (`drain --at`)."""

from __future__ import annotations

import getpass
from dataclasses import replace
from pathlib import Path

import pytest

from ringwise.durations import time_text
from ringwise.wellknown import ASCEND910
from tests.lab.rig import Terminal, job, nodes, running


def way(path: Path) -> str:
    return f"--reason 'new optics' --lab {path}"


@pytest.mark.parametrize(
    ("fleet", "target", "title"),
    [
        ({"leaf_size": 2}, "switch/172.0.0.0", "leaf switch 172.0.0.0"),
        ({"board": "a3-x16-superpod", "superpod_size": 2}, "superpod/0", "SuperPoD 0"),
    ],
)
def test_a_group_of_nodes_is_isolated_shown_and_unisolated(
    tmp_path: Path, fleet: dict[str, object], target: str, title: str
) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(4, **fleet)):
        assert terminal.ok(f"isolate {target} {way(tmp_path)}") == f"{title} isolated\n"
        assert "isolated already" in terminal.ok(f"isolate {target} {way(tmp_path)}")
        shown = terminal.json("get nodes")["nodes"]
        assert [bool(one["chips"][0]["isolated"]) for one in shown] == [True, True, False, False]
        why = f"node-0 is isolated with {title} by {getpass.getuser()}: new optics"
        assert (shown[0]["state"], shown[0]["states"][0]["message"]) == ("isolated", why)
        assert terminal.json("topology show")["isolated"] == [target]
        assert f"isolated: {title} by {getpass.getuser()}: new optics" in terminal.ok("topology show")
        (found,) = [one for one in terminal.json("doctor")["findings"] if one["code"] == "isolated"]
        assert found["object"] == title
        assert found["message"].startswith(f"its 2 nodes were isolated by {getpass.getuser()} at ")
        assert found["fix"] == f"when it is repaired: ringwise unisolate {target}"
        assert terminal.ok(f"unisolate {target} --lab {tmp_path}") == f"{title} is no longer isolated\n"
        assert terminal.ok(f"unisolate {target} --lab {tmp_path}") == f"{title} is not isolated\n"
        assert not any(one["chips"][0]["isolated"] for one in terminal.json("get nodes")["nodes"])


def test_unisolate_of_a_node_names_the_chips_that_stay_isolated(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(2)):
        terminal.ok(f"isolate node-0 Ascend910-2 Ascend910-1 {way(tmp_path)}")
        terminal.ok(f"isolate node-1 Ascend910-5 {way(tmp_path)}")
        terminal.ok(f"isolate node-0 {way(tmp_path)}")
        ended = terminal.run("unisolate node-0")
        assert ended.stdout == "node node-0 is no longer isolated\n"
        assert ended.stderr == (
            "note: 2 chips stay isolated: Ascend910-1, Ascend910-2\n"
            "to end that, too: ringwise unisolate node-0 Ascend910-1 Ascend910-2\n"
        )
        assert terminal.run("unisolate node-0 Ascend910-1").stderr == ""


def test_a_job_waits_for_an_isolated_switch_and_why_names_the_command(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(4, leaf_size=2)):
        terminal.ok(f"isolate switch/172.0.0.0 {way(tmp_path)}")
        terminal.submit(job("train", 3, 8))
        terminal.ok("advance 10s")
        assert terminal.seats() == {}
        why = terminal.ok("why train")
        assert "end the isolation of leaf switch 172.0.0.0" in " ".join(why.split())
        assert "`ringwise unisolate switch/172.0.0.0`" in " ".join(why.split())
        terminal.ok(f"unisolate switch/172.0.0.0 --lab {tmp_path}")
        terminal.ok("advance 10s")
        assert len(terminal.seats()) == 3


def test_a_chip_goes_with_a_node(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(2, leaf_size=2)):
        said = terminal.refused(f"isolate switch/172.0.0.0 Ascend910-1 {way(tmp_path)}")
        assert "chips require a node, and switch/172.0.0.0 is a switch" in said
        assert 'leaf switch "9.9.9.9" not found' in terminal.refused(
            f"isolate switch/9.9.9.9 {way(tmp_path)}"
        )


def test_jobs_that_would_not_end_before_a_drain_are_kept_off(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(2)) as server:
        start = server.live.now
        said = terminal.ok("drain node-0 --at 1h")
        assert said.splitlines()[1] == "to drain it at that time: ringwise drain node-0"
        assert said.splitlines()[2] == "to cancel or undo the drain: ringwise unisolate node-0"
        given = " ".join(terminal.ok(f"drain node-0 --at 1h --lab {tmp_path}").split())
        assert f"to drain it at that time: ringwise drain node-0 --lab {tmp_path}" in given
        terminal.submit(job("short", 1, 8, minutes=30), job("long", 1, 8, minutes=90))
        terminal.submit(job("silent", 1, 8))
        terminal.submit(job("estimate", 1, 1).replace("  queue:", "  runningEstimate: 20m\n  queue:"))
        terminal.ok("advance 1m")
        seats = {name.partition("/")[2]: node for name, (node, _) in terminal.seats().items()}
        # The long one has node-1, and the others would still run when node-0 is drained.
        assert seats == {"short-worker-0": "node-0", "long-worker-0": "node-1"}
        terminal.ok("advance 30m")
        # The next one ends before the drain, and is ended by its estimate.
        assert terminal.seats()["lab/estimate-worker-0"][0] == "node-0"
        terminal.ok("drain node-0 --at 30m --wait --yes")
        assert server.live.now - start >= 60 * 60 * 10**9
        assert "lab/estimate-worker-0" not in terminal.seats()
        assert terminal.json("describe job estimate")["phase"] == "Completed"
        terminal.ok(f"unisolate node-0 --lab {tmp_path}")
        terminal.ok("uncordon node-0")
        terminal.ok("advance 1m")
        assert terminal.seats()["lab/silent-worker-0"][0] == "node-0"


def test_every_view_says_which_free_chips_are_only_for_jobs_that_end_before_a_drain(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(2, leaf_size=2)) as server:
        terminal.ok("drain node-0 --at 1h")
        time = time_text(server.live.now + 60 * 60 * 10**9)

        def words(command: str) -> str:
            return " ".join(terminal.ok(command).split())

        assert f"draining from {time} on; takes only jobs that end before then" in words("get nodes")
        terminal.ok("reserve node-0 --for namespace=lab --from 2h --to 3h --name later --yes")
        terminal.ok("cordon node-0")
        # A worse state and a drain do not hide what comes after them.
        note = f"172.0.0.0 draining from {time} on; reserved for namespace lab from "
        assert note in words("get nodes")
        ended = terminal.run("uncordon node-0")
        note = f"note: node-0 is drained at {time}; to end that, too: ringwise unisolate node-0\n"
        assert (ended.stdout, ended.stderr) == ("node node-0 uncordoned\n", note)
        assert terminal.run("uncordon node-1").stderr == ""
        terminal.ok("unreserve later")
        assert f"node-0 is drained at {time}, and takes only jobs that end before then" in words(
            "describe node node-0"
        )
        assert f"isolated from {time} (until then only for jobs that end before): node-0" in words(
            "topology show"
        )
        assert "2 of 2 free" in words("topology show")
        terminal.ok("drain node-1 --at 1m")
        began = time_text(server.live.now + 60 * 10**9)
        terminal.ok("advance 2m")
        shown = words("topology show")
        assert f"isolated from {time} (until then only for jobs that end before): node-0" in shown
        assert f"isolated since {began}: node-1" in shown
        assert f"drain since {began} (by" in words("get chips --node node-1")
        assert f"drain from {time} on (by" in words("get chips --node node-0")
        terminal.ok(f"unisolate node-1 --lab {tmp_path}")
        assert "0 of 16 chips in use, 8 free only until a drain or a reservation" in words("top --once")
        (sums,) = terminal.json("top --once")["status"]["resources"].values()
        assert (sums["free"], sums["until_drain"]) == (16, 8)
        counted = words("capacity")
        assert "2 nodes with 16 chips: 0 used, 16 free" in counted
        assert f"8 of the free chips are only for jobs that end before {time}: node-0 is" in counted
        (board,) = terminal.json("capacity")["boards"]
        assert [(one["node"], one["chips"]) for one in board["drains"]] == [("node-0", 8)]
        assert {one["shape"]: one["jobs"] for one in board["shapes"]}["1 chip"] == 8
        terminal.ok("advance 1h")
        assert "0 of 16 chips in use, 8 unschedulable" in words("top --once")
        assert "only" not in words("capacity")
        assert "1 of 2 free" in words("topology show")


def test_why_names_the_drain_and_the_release(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(1)):
        terminal.ok("drain node-0 --at 1h")
        terminal.submit(job("silent", 1, 8), job("long", 1, 8, minutes=90))
        terminal.ok("advance 10s")
        assert terminal.seats() == {}
        for name, length in (("silent", "has no expected duration"), ("long", "runs 1h30m")):
            why = " ".join(terminal.ok(f"why {name}").split())
            assert f"and the job {length}" in why
            assert "- end the isolation of node-0 (`ringwise unisolate node-0`)" in why


def test_a_setting_lets_jobs_without_a_duration_onto_nodes_with_a_drain_ahead(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    text = """apiVersion: v1
kind: ConfigMap
metadata: {name: volcano-scheduler-configmap, namespace: volcano-system}
data:
  volcano-scheduler.conf: |
    actions: "enqueue, allocate, backfill"
    tiers:
    - plugins: [{name: gang}, {name: topology910}]
    configurations:
    - name: init-params
      arguments: {reserved-nodes-require-duration: "false"}
"""
    with running(tmp_path, nodes(1)):
        terminal.submit(text)
        terminal.ok("drain node-0 --at 1h")
        terminal.submit(job("silent", 1, 4))
        terminal.ok("advance 10s")
        assert "lab/silent-worker-0" in terminal.seats()
        # From the time of the drain on no job is placed, whatever it says.
        terminal.ok("advance 1h")
        terminal.submit(job("late", 1, 4), job("short", 1, 4, minutes=1))
        terminal.ok("advance 10s")
        assert list(terminal.seats()) == ["lab/silent-worker-0"]


@pytest.mark.parametrize(
    ("time", "line"),
    [
        (
            "soon",
            'invalid time "soon": expected a time such as 2026-01-31T08:00:00Z, a UTC day or time such as',
        ),
        ("2000-01-01T00:00:00Z", '"2000-01-01T00:00:00Z" is in the past: it is 2'),
    ],
)
def test_the_time_of_a_drain_is_checked(tmp_path: Path, time: str, line: str) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(1)):
        for option in ("", "--plan"):
            assert terminal.refused(f"drain node-0 --at {time} {option}").startswith(f"ringwise: {line}")


def test_a_plan_for_a_time_ahead_shows_who_is_there_then(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(1)):
        terminal.submit(job("short", 1, 8, minutes=30))
        terminal.ok("advance 1m")
        assert len(terminal.json("drain node-0 --plan")["jobs"]) == 1
        assert terminal.json("drain node-0 --plan --at 1h")["jobs"] == []
        start = time_text(terminal.json("drain node-0 --plan --at 1h")["start"])
        assert f"draining node-0 at {start}: no job has pods there" in terminal.ok(
            "drain node-0 --plan --at 1h"
        )
        assert "draining node-0: 1 job" in terminal.ok("drain node-0 --plan")
        assert terminal.json("topology show")["isolated"] == []


@pytest.mark.parametrize("mount_method", [None, "plain"])
def test_F4_an_isolation_moves_nobody_and_a_pod_that_was_bound_before_it_is_not_started(
    tmp_path: Path, mount_method: str | None
) -> None:
    """With and without real device plugins: the chips are free for nobody, and healthy for everybody."""
    labels = "labels: {fault-scheduling: force, pod-rescheduling: 'on'}"
    terminal = Terminal(tmp_path)
    with running(tmp_path, replace(nodes(2), mount_method=mount_method)) as server:
        text = job("train", 1, 8).replace("namespace: lab", f"namespace: lab, {labels}", 1)
        terminal.submit(text)
        terminal.ok("advance 10s")
        before = terminal.seats()
        node = before["lab/train-worker-0"][0]
        terminal.ok(f"isolate {node} {way(tmp_path)}")
        report = server.live.cluster.nodes.report(node, ASCEND910)
        assert report is not None
        assert (report.free, report.unhealthy, report.faults) == (0, 0, ())
        found = server.live.cluster.nodes.get(node)
        assert found is not None
        assert found.chips_allocatable[ASCEND910] == 8
        terminal.ok("advance 30m")
        assert terminal.seats() == before
        assert terminal.json("get pods")["pods"][0]["phase"] == "Running"
        other = {"node-0": "node-1", "node-1": "node-0"}[node]
        terminal.submit(job("late", 1, 8))
        assert terminal.seats()["lab/late-worker-0"][0] == other
        terminal.ok(f"isolate {other} {way(tmp_path)}")
        terminal.ok("advance 3s")
        (late,) = [one for one in terminal.json("get pods")["pods"] if one["name"] == "late-worker-0"]
        assert late["phase"] != "Running"

"""A lab's life: restarts, its journal, its folder, many at once."""

from __future__ import annotations

import io
import json
import os
import shutil
import socket
import stat
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ringwise.apps.lab.client import LabClient, RefusedByLabError
from ringwise.apps.lab.folder import FolderError, LabFolder, default_folder
from ringwise.apps.lab.lab import LabSettings, LiveLab
from ringwise.apps.lab.submission import submission_of
from ringwise.cli.commands import cli
from ringwise.embed.clock import ScaledClock
from ringwise.log import Logger
from ringwise.manifests.bundle import read_bundle
from ringwise.state.model import Node
from tests.lab.rig import SMALL, Terminal, job, nodes, pod, queue, with_copies


def identical(journal: Path) -> bool:
    ran = CliRunner().invoke(cli, ["replay", str(journal)])
    return ran.exit_code == 0 and ran.stdout.startswith("identical")


# -- restarts ------------------------------------------------------------------------------------


def test_everything_survives_a_restart(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path):
        terminal.submit(queue("spare", 3, 16), job("first", 3, 8, minutes=10), job("second", 2, 8))
        terminal.submit(pod("alone", 2))
        terminal.ok("fault inject chip node-3 7")
        terminal.ok("advance 1m")
        before = {kind: terminal.json(f"get {kind}") for kind in ("nodes", "jobs", "queues", "pods")}
        now = terminal.json("top --once")["status"]["now"]
    with with_copies(tmp_path, nodes(9)):  # the nodes of last time stay
        assert terminal.json("top --once")["status"]["now"] == now
        assert {kind: terminal.json(f"get {kind}") for kind in before} == before
        terminal.ok("fault clear chip node-3 7")
        terminal.ok("advance 10m")
        seats = terminal.seats()
        assert sum(name.startswith("lab/second") for name in seats) == 2
        assert "lab/alone" in seats


def test_the_configuration_survives_unless_another_is_given(tmp_path: Path) -> None:
    tiers = "tiers:\n- plugins:\n  - name: gang\n  - name: topology910\n"
    only_enqueue = replace(SMALL, configuration=(f'actions: "enqueue"\n{tiers}', "first.conf"))
    with with_copies(tmp_path, only_enqueue) as server:
        assert server.live.configuration.actions == ("enqueue",)
    with with_copies(tmp_path) as server:
        assert server.live.scheduler.view.configuration.actions == ("enqueue",)
    both = replace(SMALL, configuration=(f'actions: "enqueue, allocate"\n{tiers}', "second.conf"))
    with with_copies(tmp_path, both) as server:
        assert server.live.scheduler.view.configuration.actions == ("enqueue", "allocate")


def test_an_error_nobody_foresaw_ends_the_lab_and_spares_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal(tmp_path)

    def live_through_it() -> None:
        with with_copies(tmp_path) as server:
            terminal.submit(job("good", 1, 8))
            step, table = server.live.lab.step, server.live.cluster.table

            def stumble() -> int:
                if table.get("VcJob", "lab/bad") is not None:
                    raise ArithmeticError("a defect")
                return step()

            monkeypatch.setattr(server.live.lab, "step", stumble)
            said = terminal.refused("submit -", job("bad", 1, 8))
            assert said == "ringwise: internal error: ArithmeticError: a defect\n"

    with pytest.raises(ArithmeticError, match="a defect"):
        live_through_it()
    with with_copies(tmp_path):
        assert set(terminal.seats()) == {"lab/good-worker-0"}
        assert [found["name"] for found in terminal.json("get jobs")["jobs"]] == ["good"]


# -- journal ---------------------------------------------------------------------------------------


def test_the_journal_replays_whatever_was_asked_meanwhile(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path):
        terminal.submit(job("first", 3, 8, minutes=10))
        terminal.submit(job("second", 2, 8), job("third", 1, 4, minutes=30), job("never", 1, 5))
        for question in ("why second", "why first", "capacity", "doctor", "topology show", "top --once"):
            terminal.ok(question)
        terminal.ok("drain node-2 --yes --force")
        terminal.ok("advance 15m")  # the gang that waits is given a reservation on the way
        terminal.ok("why second")
        terminal.ok("uncordon node-2")
        terminal.ok("advance 1m")
        assert "lab/second-worker-0" in terminal.seats()
    assert identical(tmp_path / "journal.jsonl")
    assert "identical" in terminal.ok("replay")


def test_what_a_drain_computes_aside_reaches_the_core_as_events(tmp_path: Path) -> None:
    """Its order and the jobs that it leaves come from a copy; the journal has all that followed from them."""
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, nodes(5, leaf_size=3)):
        for name, pods in (("wide", 2), ("narrow", 1), ("other", 1)):
            terminal.submit(job(name, pods, 8))
            terminal.ok("advance 1m")
        terminal.ok("drain switch/172.0.0.0 --plan")
        ran = terminal.run("drain switch/172.0.0.0 --at 10m --wait --yes")
        assert "lab/narrow-worker-0" in ran.stdout
        assert "not evicted: lab/wide" in ran.stderr
        # It waits until the gang that stayed was evicted, too.
        terminal.submit(job("late", 2, 8))
        terminal.ok("drain switch/172.0.0.0 --yes --force")
        for node in ("node-0", "node-1", "node-2"):
            terminal.ok(f"uncordon {node}")
        terminal.ok("advance 1m")
        terminal.ok(f"unisolate switch/172.0.0.0 --lab {tmp_path}")
        terminal.ok("advance 1m")
    journal = tmp_path / "journal.jsonl"
    assert identical(journal)
    # Without any of the events of the drain the same turns decide otherwise.
    turns = [json.loads(line) for line in journal.read_text().splitlines()]

    def replays_without(dropped: Callable[[str, Any], bool]) -> bool:
        changed = []
        for turn in turns:
            events = [one for one in turn.get("events", ()) if not dropped(*one)]
            changed.append({**turn, "events": events} if "events" in turn else turn)
        (tmp_path / "changed.jsonl").write_text("".join(f"{json.dumps(turn)}\n" for turn in changed))
        return identical(tmp_path / "changed.jsonl")

    assert replays_without(lambda kind, event: False)
    assert not replays_without(lambda kind, event: kind == "IsolationSeen")
    assert not replays_without(lambda kind, event: kind == "NodeSeen" and event["node"]["unschedulable"])
    assert not replays_without(lambda kind, event: kind == "PodGone")


def test_the_journal_is_bounded_and_each_file_replays(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, replace(SMALL, journal_bytes=30_000)):
        terminal.submit(job("stays", 2, 8))
        for number in range(12):
            terminal.submit(job(f"brief-{number}", 1, 4, minutes=1))
            terminal.ok("advance 2m")
        seats = terminal.seats()
    assert set(seats) == {"lab/stays-worker-0", "lab/stays-worker-1"}
    files = sorted(path.name for path in tmp_path.glob("journal*"))
    assert files == ["journal.1.jsonl", "journal.jsonl"]
    for name in files:
        assert (tmp_path / name).stat().st_size < 70_000
        assert identical(tmp_path / name)


def test_no_journal_where_none_is_wanted(tmp_path: Path) -> None:
    with with_copies(tmp_path, replace(SMALL, journal_bytes=0)):
        pass
    assert not list(tmp_path.glob("journal*"))
    assert "cannot be read" in Terminal(tmp_path).refused("replay")


# -- many at once --------------------------------------------------------------------------------------


def test_jobs_submitted_by_many_at_once(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    path = tmp_path / "job.yaml"
    path.write_text(job("same", 1, 1))
    answers: list[int] = []

    def submit(number: int) -> None:
        own = tmp_path / f"job-{number}.yaml"
        own.write_text(job(f"own-{number}", 1, 1 + number % 2))
        client = LabClient(tmp_path)
        for name in (str(own), str(path)):
            submission, problems = submission_of(read_bundle([name]))
            assert not problems
            answers.append(len(client.do("submit", submission)["objects"]))

    with with_copies(tmp_path):
        threads = [threading.Thread(target=submit, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seats = terminal.seats()
    assert len(answers) == 24
    # Twelve of their own, and one that all of them named.
    assert len(seats) == 13
    assert sum(len(chips) for _, chips in seats.values()) == 6 * 1 + 6 * 2 + 1
    assert identical(tmp_path / "journal.jsonl")


# -- the folder -------------------------------------------------------------------------------------------


def test_only_one_lab_in_a_folder(tmp_path: Path) -> None:
    with with_copies(tmp_path):
        with pytest.raises(
            FolderError, match=rf"a lab already runs on .* \(process {os.getpid()}\); stop it"
        ):
            LabFolder(tmp_path).take()
        ran = CliRunner().invoke(cli, ["lab", "--data-dir", str(tmp_path)])
        assert ran.exit_code == 2
        assert ran.stderr.startswith("ringwise: a lab already runs on ")
    folder = LabFolder(tmp_path)
    folder.take()
    folder.leave()


def test_a_dead_lab_s_socket_is_taken_over(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "lab.sock"))
    terminal = Terminal(tmp_path)
    assert "no lab runs on" in terminal.refused("get nodes")
    with with_copies(tmp_path):
        assert stat.S_IMODE((tmp_path / "lab.sock").stat().st_mode) == 0o600
        assert "node-0" in terminal.ok("get nodes")
    assert not (tmp_path / "lab.sock").exists()


def test_a_long_path_is_no_hindrance(tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 20) / ("deeper" * 20)
    with with_copies(folder):
        assert "node-0" in Terminal(folder).ok("get nodes")


def test_the_folder_is_found_where_people_keep_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RINGWISE_LAB", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_folder() == Path("/state/ringwise/lab")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/people/ann")
    assert default_folder() == Path("/people/ann/.local/state/ringwise/lab")
    monkeypatch.setenv("RINGWISE_LAB", "/elsewhere")
    assert default_folder() == Path("/elsewhere")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ("--board 910-x9", 'ringwise: --board: board "910-x9" not found; must be one of'),
        ("--config absent.conf", "absent.conf: "),
        ("--speed 0", "Usage: "),
        ("--duration soon", "Usage: "),
    ],
)
def test_wrong_options_start_no_lab(tmp_path: Path, options: str, line: str) -> None:
    ran = CliRunner().invoke(cli, ["lab", "--data-dir", str(tmp_path / "new"), *options.split()])
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert ran.stderr.startswith(line)


def test_a_damaged_database_is_told_and_kept(tmp_path: Path) -> None:
    (tmp_path / "lab.db").write_bytes(b"no database at all, but long enough to be looked at" * 100)
    ran = CliRunner().invoke(cli, ["lab", "--data-dir", str(tmp_path)])
    assert ran.exit_code == 2
    assert "move it away to start with an empty lab" in ran.stderr
    assert (tmp_path / "lab.db").stat().st_size > 1000


# -- requests that no command sends --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "parameters"),
    [
        ("ask", "nothing", {}),
        ("ask", "get", {"kind": "stars"}),
        ("ask", "describe", {"kind": "star", "name": "x"}),
        ("do", "nothing", {}),
        ("do", "delete", {"kind": "job"}),
        ("do", "delete", {"objects": "x"}),
        ("do", "delete", {"objects": [["job"]]}),
        ("do", "delete", {"objects": [["star", "x"]], "ignore_not_found": True}),
        ("do", "delete", {"all": "star"}),
        ("do", "wait", {"jobs": 7, "until": 0}),
        ("do", "wait", {"jobs": [], "until": "soon"}),
        ("ask", "drain", {"target": "node-77"}),
        ("ask", "drain-plan", {"target": "rack/7"}),
        ("do", "drain", {"target": 7}),
        ("do", "cordon", {"node": 7}),
        ("do", "inject", {"kind": "chip", "target": "node-0", "chips": "all"}),
        ("do", "inject", {"target": "node-0"}),
        ("do", "inject", {"kind": "sun", "target": "node-0"}),
        ("do", "advance", {"nanoseconds": -1}),
        ("do", "clear", {"kindd": "chip"}),
    ],
)
def test_strange_requests_are_refused_and_the_lab_lives_on(
    tmp_path: Path, kind: str, name: str, parameters: Any
) -> None:
    with with_copies(tmp_path):
        client = LabClient(tmp_path)
        with pytest.raises(RefusedByLabError):
            client.do(name, parameters) if kind == "do" else client.ask(name, **parameters)
        assert len(client.ask("get", kind="nodes")["nodes"]) == 4


@pytest.mark.parametrize("body", [{"nodes": []}, {"stored": {"nodes": []}}, {"stored": {}, "jobs": [1]}])
def test_a_submission_of_another_form_is_refused_instead_of_lost(tmp_path: Path, body: Any) -> None:
    with with_copies(tmp_path):
        client = LabClient(tmp_path)
        with pytest.raises(RefusedByLabError, match=r"by a lab of version .*unknown field `(nodes|jobs)`"):
            client.do("submit", body)


# -- time --------------------------------------------------------------------------------------------------


def test_time_runs_at_its_speed_and_never_back(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, steady = [1_000], [50]
    monkeypatch.setattr("ringwise.apps.lab.lab.time.time_ns", lambda: wall[0])
    monkeypatch.setattr("ringwise.apps.lab.lab.time.monotonic_ns", lambda: steady[0])
    clock = ScaledClock(5_000, 10.0)
    assert clock.now() == 5_000
    steady[0] += 7
    wall[0] = 0
    assert clock.now() == 5_070
    assert clock.seconds_until(5_070 + 20_000_000_000) == 2.0
    assert clock.seconds_until(5) == 0


def test_real_time_ends_pods_that_ran_out_while_the_lab_was_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = [1_800_000_000_000_000_000]
    monkeypatch.setattr("ringwise.apps.lab.lab.time.time_ns", lambda: wall[0])
    terminal = Terminal(tmp_path)
    with with_copies(tmp_path, SMALL):
        terminal.submit(job("first", 4, 8, minutes=10), job("second", 4, 8))
        terminal.ok("advance 1m")
    wall[0] += 3_600 * 1_000_000_000
    with with_copies(tmp_path, replace(SMALL, speed=1.0)):
        assert {name.rpartition("-worker")[0] for name in terminal.seats()} == {"lab/second"}
        said = terminal.refused("advance 1m")
    assert said.startswith("ringwise: this lab runs in real time")


def test_what_a_person_does_happens_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steady = [0]
    monkeypatch.setattr("ringwise.apps.lab.lab.time.monotonic_ns", lambda: steady[0])
    folder = LabFolder(tmp_path)
    folder.take()
    live = LiveLab(folder, LabSettings(fleet=SMALL.fleet))
    live.turn()
    began = live.now
    steady[0] += 60_000_000_000
    live.cordon(["node-0"])
    assert live.cluster.now == live.now == began + 60_000_000_000
    live.close()
    folder.leave()


def test_a_folder_that_is_deleted_is_told_and_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = io.StringIO()
    monkeypatch.setattr(Logger, "_stream", log)
    folder = LabFolder(tmp_path / "lab")
    folder.take()
    live = LiveLab(folder, LabSettings(fleet=SMALL.fleet))
    live.turn()
    count = len(list(live.cluster.all(Node)))
    shutil.rmtree(folder.path)
    live.turn()
    live.turn()
    assert log.getvalue().count("the journal was deleted while the lab runs; a new file is written") == 1
    assert log.getvalue().count("the objects of the lab can be stored again") == 1
    live.close()
    folder.leave()
    assert identical(folder.journal)
    folder.take()
    again = LiveLab(folder, LabSettings(fleet=SMALL.fleet))
    assert again.continued
    assert len(list(again.cluster.all(Node))) == count > 0
    again.close()
    folder.leave()

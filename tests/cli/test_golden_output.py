"""What every command prints in a terminal of 80 columns, and what it says to one wrong call.

After a wanted change: RINGWISE_WRITE_GOLDEN=1 pytest tests/cli/test_golden_output.py, then read the diff.
"""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from ringwise.apps.lab.lab import FleetSettings, LabSettings
from ringwise.durations import SECOND
from tests.checkout import ROOT
from tests.cli.command_tree import command_paths
from tests.cli.transcript import COLUMNS, typed
from tests.device.test_commands import kubeconfig
from tests.golden_files import FOLDER as GOLDEN
from tests.golden_files import same_as_golden
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import NODES, node
from tests.lab.rig import job, queue, running
from tests.lab.test_page import FOLDER as LAB
from tests.lab.test_page import lab_folder

START = 1_768_032_000 * SECOND
JOBS = "---\n".join(
    [
        queue("research", 2),
        job("train", 2, 8, queue="research", minutes=90),
        job("small", 1, 2),
        job("large", 4, 8),
        job("huge", 9, 8),
        job("odd", 1, 3),
    ]
)
MIX = """
drill: a mix of jobs
cluster: {nodes: 4, board: 910-x8}
workload:
  mix: {jobs: 30, sizes: {1: 60, 8: 30, 16: 10}, median: 20m, p90: 2h}
  load: 0.9
  seed: 1
  compare: [{policy: first-fit}]
"""

#: Name of the golden file -> what is typed, one command after the other; after `<` what is answered.
IN_A_LAB = {
    "jobs": """
        submit jobs.yaml --dry-run
        submit jobs.yaml
        advance 10m
        suspend train --reason 'replace a disk'
        advance 1m
        get jobs
        resume train
        advance 1m
        requeue train
        history train
        events train
        requeue huge --queue research
        advance
        delete job large small
        delete job -n lab --all
    """,
    "nodes": """
        submit jobs.yaml
        advance 10m
        cordon node-5
        uncordon node-5
        fault inject chip node-4 3 7
        fault inject node node-1
        advance 30s
        fault list
        fault clear chip node-4 3
        fault clear --all
        isolate node-0 Ascend910-3 --reason 'optical port' --lab LAB
        unisolate node-0 Ascend910-3 --lab LAB
        reserve 2 --for queue=research --from 3h --to 5h --name workshop --plan
        reserve 2 --for queue=research --from 3h --to 5h --name workshop < y
        get reservations
        unreserve workshop
        drain node-0 --plan
        drain node-0 < n
        drain node-0 < y
        drain node-3 --at 2h
        defrag --plan
        defrag --apply
    """,
    "records": """
        limits
        report
        submit jobs.yaml
        advance 3h
        report
        report --group-by job
        report --idle
        replay
        support-bundle
    """,
}
WITH_FILES = """
    version
    boards list
    config check examples/preemption/scheduler.conf
    schema
    simulate mix.yaml
    limits -f examples/limits
    report --accounting-dir examples/accounting --since 2026-01-30 --until 2026-01-31
    defrag --plan -f examples/defrag
    fault list -f examples/cluster.yaml
    device-plugin check --simulated-chips chips.json
"""
#: What they print is read by programs: no line is folded.
FOR_PROGRAMS = """
    topology import switches.csv
    completion bash
    schema advance
"""
ON_A_CLUSTER = """
    doctor
    get nodes
    cordon node-0
    isolate node-0 --reason 'replace a fan'
    unisolate node-0
"""
#: And what they print last before it is pressed.
UNTIL_CTRL_C = {
    "lab --nodes 4 --virtual --web-address 127.0.0.1:0 --data-dir LAB": "pending",
    "web -f examples/cluster.yaml --web-address 127.0.0.1:0": "dashboard on",
}
#: One wrong call of every command.
WRONG_CALLS = """
    events nothing
    history train --journal no-journal
    options --all
    version 2
    advance 5x
    bench nothing
    boards --full
    boards list 910-x8
    boards show 910-x9
    capacity --queue spare
    completion ksh
    config check missing.conf
    cordon node-77
    defrag
    delete job trian
    demo large
    describe job trian
    device-plugin check --driver simulated
    doctor -f missing.yaml
    drain node-77
    drill jobs.yaml
    fault clear chip node-77
    fault inject chip node-0 9
    fault list extra
    get jbos
    isolate node-0 Ascend910-9 --reason x --lab LAB
    lab --board 910-x9
    limits --output xml
    place -f jobs.yaml --now yesterday
    unisolate node-77 --lab LAB
    replay jobs.yaml
    report --since tomorrow
    requeue train --queue spare
    reserve 99 --for queue=research --to 1h
    resume train
    run admission --web
    run controller --kube-api-qps fast
    run device-plugin --mount-method docker
    run scheduler --shaddow
    schema job-changes
    simulate jobs.yaml
    submit broken.yaml
    support-bundle -f missing.yaml
    suspend trian
    top --interval 0
    topology import jobs.yaml
    topology show -f missing.yaml
    uncordon node-77
    unreserve workshop
    web --web-host npu.example.com --web-address 0.0.0.0:0
    why trian
"""
#: Commands that have no golden output, only a wrong call.
NOT_KEPT = {
    "ringwise bench": "prints times",
    "ringwise options": "prints help",
    "ringwise run admission": "prints its log",
    "ringwise run controller": "prints its log",
    "ringwise run device-plugin": "prints its log",
    "ringwise run scheduler": "prints its log",
}


def lines(calls: str) -> list[str]:
    return [line.strip() for line in calls.strip().splitlines()]


def screen(calls: Iterable[str], program: str = "ringwise", **names: str) -> str:
    """All of them one after the other; what differs from run to run gets another name."""
    shown = []
    for call in calls:
        command, _, answer = call.partition(" < ")
        for name, value in names.items():
            command = command.replace(name, value)
        shown.append(typed(f"{program} {command}", f"{answer}\n" if answer else ""))
    return "".join(shown)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as that of a user, who is called ana and has no lab."""
    monkeypatch.chdir(tmp_path)
    for name, value in {"LOGNAME": "ana", "RINGWISE_LAB": "/absent", "HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "jobs.yaml").write_text(JOBS)
    (tmp_path / "broken.yaml").write_text(JOBS.replace("replicas: 2", "replicas: two"))
    (tmp_path / "switches.csv").write_text("switch,server\nleaf-a,node-0\nleaf-a,node-1\nleaf-b,node-2\n")
    (tmp_path / "mix.yaml").write_text(MIX)
    (tmp_path / "chips.json").write_text('{"board": 48, "faults": {"3": ["80E18402"]}, "network_down": [5]}')
    return tmp_path


def screen_of_a_lab(calls: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("ringwise.apps.lab.lab.time.time_ns", lambda: START)
    settings = LabSettings(fleet=FleetSettings(8, "910-x8", leaf_size=4), speed=None)
    with lab_folder() as lab, running(lab, settings):
        monkeypatch.setenv("RINGWISE_LAB", str(lab))
        return screen(lines(calls), LAB=str(lab)).replace(str(lab), LAB)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", IN_A_LAB)
def test_commands_in_a_lab(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    same_as_golden(f"{COLUMNS}/lab-{name}", screen_of_a_lab(IN_A_LAB[name], monkeypatch))


@pytest.mark.usefixtures("folder")
def test_commands_with_files() -> None:
    same_as_golden(f"{COLUMNS}/files", screen(lines(WITH_FILES)))
    same_as_golden("for-programs", screen(lines(FOR_PROGRAMS)))


async def test_commands_on_a_cluster(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeApiServer() as api:
        api.put(NODES, node("node-0"))
        monkeypatch.setenv("KUBECONFIG", kubeconfig(folder, api.url))
        text = await asyncio.to_thread(screen, lines(ON_A_CLUSTER), "kubectl ringwise")
        same_as_golden(f"{COLUMNS}/cluster", text.replace(api.url, "https://npu:6443"))


@pytest.mark.full
@pytest.mark.process
@pytest.mark.usefixtures("folder")
def test_commands_that_run_until_ctrl_c() -> None:
    shown = []
    for call, last in UNTIL_CTRL_C.items():
        with lab_folder() as lab:
            command = [sys.executable, "-m", "ringwise", *call.replace("LAB", str(lab)).split()]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            assert process.stdout is not None
            text = f"$ ringwise {call}\n"
            for line in process.stdout:
                text += line
                if last in line:
                    break
            process.send_signal(signal.SIGINT)
            text += process.communicate()[0]
            shown.append(text.replace(str(lab), LAB))
        assert process.returncode == 0
    times = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "2026-01-10T08:00:00Z", "".join(shown))
    same_as_golden(f"{COLUMNS}/until-ctrl-c", re.sub(r"127.0.0.1:\d{4,5}/", "127.0.0.1:8090/", times))


@pytest.mark.usefixtures("folder")
def test_wrong_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    same_as_golden(f"{COLUMNS}/wrong-calls", screen_of_a_lab(WRONG_CALLS, monkeypatch))


def command_of(call: str, paths: frozenset[str]) -> str:
    """The command of a line such as `$ kubectl ringwise get nodes -n team-a`."""
    words = call.removeprefix("$ ").removeprefix("kubectl ").split()
    return next(path for end in (3, 2, 1) if (path := " ".join(words[:end])) in paths)


def test_every_command_has_golden_output_and_a_wrong_call() -> None:
    paths = frozenset(command_paths())
    shown: dict[bool, set[str]] = {True: set(), False: set()}
    for file in [*(GOLDEN / str(COLUMNS)).glob("*.txt"), GOLDEN / "for-programs.txt"]:
        for call in re.findall(r"^\$ .*", file.read_text(encoding="utf-8"), re.MULTILINE):
            shown[file.stem == "wrong-calls"].add(command_of(call, paths))
    assert paths - shown[True] == set(), "without a wrong call"
    assert paths - shown[False] == NOT_KEPT.keys(), "without golden output"


def test_every_wrong_call_is_refused() -> None:
    text = (GOLDEN / str(COLUMNS) / "wrong-calls.txt").read_text(encoding="utf-8")
    calls = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    assert [call for call in calls if not call.endswith(("(exit code 1)\n", "(exit code 2)\n"))] == []
    assert "internal error" not in text

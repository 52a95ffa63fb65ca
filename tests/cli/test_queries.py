"""What `why`, `capacity`, `doctor`, `topology show` and `place` print for the examples.

After a wanted change: RINGWISE_WRITE_GOLDEN=1 pytest tests/cli/test_queries.py
"""

from __future__ import annotations

import io
import json
import os
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from rich.console import Console
from rich.spinner import Spinner

from ringwise.cli.commands import cli
from ringwise.cli.output import WaitingText
from tests.examples import sample
from tests.golden_files import WIDTHS, same_as_golden

ROOT = Path(__file__).parents[2]
CLUSTER = "-f examples/cluster.yaml -f examples/jobs"
SWITCHES = "-f examples/switches/padding-waits.yaml --config examples/switches/version-2.0-shared-2.conf"
SUPERPODS = "-f examples/superpods/sequence-nodes.json -f examples/superpods/sequence-jobs.yaml"
WHOLE = "-f examples/superpods/sequence-nodes.json -f examples/superpods/one-job.yaml"
FRAGMENTS = "-f examples/superpods/fragments-nodes.json -f examples/superpods/one-job.yaml"


def run(command: str, width: int = 120) -> Result:
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        environment = {"RINGWISE_LAB": "/absent", "COLUMNS": str(width)}
        return CliRunner(env=environment).invoke(cli, shlex.split(command))
    finally:
        os.chdir(before)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("place-cluster", f"place {CLUSTER}"),
        ("place-superpods", f"place {SUPERPODS}"),
        ("why-large-gang", f"why large-gang {CLUSTER}"),
        ("why-three-chips", f"why three-chips {CLUSTER}"),
        ("why-running", f"why default/gang {CLUSTER}"),
        ("why-padding", f"why train {SWITCHES}"),
        ("why-blocks", f"why train {FRAGMENTS}"),
        ("why-superpod-running", f"why train-2 {SUPERPODS}"),
        ("capacity-cluster", "capacity -f examples/cluster.yaml"),
        (
            "capacity-superpods",
            f"capacity {WHOLE}",
        ),
        ("capacity-switches", "capacity -f examples/switches/shared-2-pair.yaml"),
        ("doctor-cluster", f"doctor {CLUSTER}"),
        ("doctor-switches", f"doctor {SWITCHES}"),
        ("topology-switches", f"topology show {SWITCHES}"),
        ("topology-superpods", f"topology show {SUPERPODS}"),
        ("place-scores", f"place {CLUSTER} --scores"),
        ("place-switches", f"place {SWITCHES}"),
        ("place-racks", "place -f examples/racks/multi-nodes.json -f examples/racks/multi.yaml"),
        ("boards", "boards"),
        ("boards-show-910-x8", "boards show 910-x8"),
        ("boards-show-a3-x16", "boards show a3-x16"),
    ],
)
@pytest.mark.parametrize("width", sample(WIDTHS))
def test_the_examples_print_what_is_kept(name: str, command: str, width: int) -> None:
    ran = run(command, width)
    assert ran.exit_code == 0, ran.stderr
    same_as_golden(f"{width}/{name}", f"$ ringwise {command}\n{ran.stdout}")


@pytest.mark.parametrize(
    "command",
    [f"why large-gang {CLUSTER}", f"capacity {CLUSTER}", f"doctor {CLUSTER}", f"topology show {SUPERPODS}"],
)
def test_json_and_yaml_say_the_same(command: str) -> None:
    as_json, again, as_yaml = (run(f"{command} -o {form}").stdout for form in ("json", "json", "yaml"))
    assert as_json == again
    assert json.loads(as_json) == yaml.load(as_yaml, yaml.CSafeLoader)


def test_why_as_json() -> None:
    answer = json.loads(run(f"why large-gang {CLUSTER} -o json").stdout)
    assert answer["state"] == "pending"
    assert answer["reason"]["code"] == "gang-incomplete"
    assert answer["queue"] == {"name": "default", "position": 1, "pending": 1, "jobs_ahead": []}
    assert answer["closest_nodes"][1] == {
        "node": "node-4",
        "code": "node-not-wholly-free",
        "missing_chips": 1,
        "message": "ring 1 has 3 of 4 chips free: faulty (1)",
    }
    assert {fix["kind"] for fix in answer["fixes"]} == {"min-available", "chips", "job-ended"}


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (f"why large-gan {CLUSTER}", 'ringwise: job "large-gan" not found; did you mean large-gang or '),
        ("why train", "ringwise: no lab runs on /absent; start one"),
        ("capacity", "ringwise: no lab runs on /absent; start one"),
        ("doctor", "ringwise: no lab runs on /absent; start one"),
        ("topology show", "ringwise: no lab runs on /absent; start one"),
        (
            f"capacity {CLUSTER} --queue defalt",
            'ringwise: queue "defalt" not found; did you mean',
        ),
        ("why train -f absent.yaml", "absent.yaml: "),
    ],
)
def test_what_cannot_be_answered_gets_one_line(command: str, error: str) -> None:
    ran = run(command)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert ran.stderr.startswith(error)
    assert ran.stderr.count("\n") == 1


def test_a_job_has_one_name_and_one_phase_in_every_answer() -> None:
    """Also where its PodGroup is made for the pods of a ReplicaSet; the name of that is understood, too."""
    files = "-f examples/defrag/cluster.yaml"
    shown = {row["name"]: row["phase"] for row in json.loads(run(f"get jobs {files} -o json").stdout)["jobs"]}
    moved = json.loads(run(f"defrag --plan {files} -o json").stdout)["plans"][0]["moves"]
    assert {one["name"] for one in moved} < set(shown)
    for name, phase in shown.items():
        assert json.loads(run(f"describe job {name} {files} -o json").stdout)["name"] == name
        answer = json.loads(run(f"why {name} {files} -o json").stdout)
        assert (answer["name"], answer["state"]) == (name, phase.lower())
    assert run(f"why podgroup-uid-of-the-owner-of-eval-1 {files}").stdout == run(f"why eval-1 {files}").stdout


def test_what_is_not_obeyed_is_told_by_every_answer_about_the_job() -> None:
    files = "-f examples/hypernodes/cluster.yaml -f examples/hypernodes/jobs.yaml"
    ignored = "its networkTopology has no effect: the plugin network-topology-aware is not configured"
    assert json.loads(run(f"why pair {files} -o json").stdout)["notes"] == [ignored]
    assert json.loads(run(f"describe job pair {files} -o json").stdout)["notes"] == [ignored]
    ran = run(f"place {files} -o json")
    assert ran.exit_code == 0, ran.output
    placed = json.loads(ran.stdout)["jobs"]
    assert [job["notes"] for job in placed] == [[ignored]] * 3
    assert run(f"place {files}").stdout.count(ignored) == 3


def test_the_doctor_reads_on_and_exits_with_1(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: 7}\n")
    ran = run(f"doctor -f examples/cluster.yaml -f {bad}")
    assert ran.exit_code == 1
    assert ran.stdout.startswith("error ")
    assert "[unreadable-object]" in ran.stdout
    assert "16 nodes" in ran.stdout


def test_the_doctor_names_pods_that_choose_their_chips(tmp_path: Path) -> None:
    dump = tmp_path / "pods.yaml"
    dump.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: greedy, namespace: team}\n"
        "spec:\n  nodeName: node-1\n  schedulerName: default-scheduler\n"
        "  containers: [{name: main, env: [{name: ASCEND_VISIBLE_DEVICES, value: 0-7}]}]\n"
        "status: {phase: Running}\n"
    )
    ran = run(f"doctor -f examples/cluster.yaml -f {dump} -o json")
    (finding,) = [one for one in json.loads(ran.stdout)["findings"] if one["code"] == "visible-devices-set"]
    assert (finding["severity"], finding["object"]) == ("warning", "pod team/greedy/main")
    assert 'spec.containers[0].env[0].value sets ASCEND_VISIBLE_DEVICES from "0-7"' in finding["message"]


@pytest.mark.parametrize("command", ["place", "why x", "capacity", "doctor", "topology show", "submit"])
@pytest.mark.parametrize("content", ["", "# nothing\n", "---\n---\n"])
def test_an_empty_file_is_named(tmp_path: Path, command: str, content: str) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text(content)
    ran = run(f"{command} -f {empty}")
    assert (ran.exit_code, ran.stdout, ran.stderr) == (2, "", f"{empty}: does not contain objects\n")


def test_an_empty_file_among_others_is_a_note(tmp_path: Path) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("")
    ran = run(f"place -f {empty} {CLUSTER}")
    assert ran.exit_code == 0
    assert f"note: {empty}: does not contain objects\n" in ran.stderr


def test_the_doctor_says_that_there_are_no_nodes() -> None:
    ran = run("doctor -f examples/jobs/01-one-chip.yaml")
    assert ran.exit_code == 1
    assert ran.stdout.startswith("error cluster: has no nodes: no job can start [no-nodes]\n")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (f"place {CLUSTER}", 0),
        (f"place {CLUSTER} --exit-code", 3),
        ("place -f examples/cluster.yaml -f examples/jobs/06-large-gang.yaml --exit-code", 4),
        ("place -f examples/cluster.yaml -f examples/jobs/05-gang.yaml --exit-code", 0),
        (f"why large-gang {CLUSTER} --exit-code", 4),
        (f"why three-chips {CLUSTER} --exit-code", 3),
        (f"why three-chips {CLUSTER}", 0),
        # It would be placed, and is not.
        (f"why gang {CLUSTER} --exit-code", 4),
    ],
)
def test_the_exit_code_tells_of_refused_and_pending_jobs(command: str, code: int) -> None:
    assert run(command).exit_code == code


def test_place_writes_a_journal_that_replays(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    assert run(f"place {CLUSTER} --journal {journal}").exit_code == 0
    ran = run(f"replay {journal}")
    assert (ran.exit_code, ran.stdout.split(":")[0]) == (0, "identical")
    assert run(f"place {CLUSTER} --journal {tmp_path}").exit_code == 2


def test_the_sample_cluster_is_what_its_maker_makes() -> None:
    made: dict[str, object] = {"__name__": "made"}
    exec((ROOT / "examples" / "make.py").read_text(), made)
    cluster = made["cluster"]
    assert callable(cluster)
    assert (ROOT / "examples" / "cluster.yaml").read_text() == cluster()


def test_after_two_seconds_a_command_says_how_long_it_waits() -> None:
    now = [100.0]
    shown = WaitingText("querying the lab", clock=lambda: now[0])
    console = Console(width=60, file=io.StringIO())
    texts = []
    for now[0] in (100.5, 101.9, 102.0, 165.2):
        with console.capture() as printed:
            console.print(Spinner("dots", shown))
        texts.append(printed.get().strip()[1:].strip())
    waiting = "querying the lab"
    assert texts == [waiting, waiting, f"{waiting} (2s)", f"{waiting} (1m5s)"]

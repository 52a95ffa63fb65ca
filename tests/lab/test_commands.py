"""Every command of the lab, from another terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.lab.rig import Terminal, job, nodes, pod, queue, running
from tests.place.workloads import ascend_job, replicated, role

JOBS = str(Path(__file__).parents[2] / "examples" / "jobs")
QUERIES = [
    "get nodes",
    "get jobs",
    "get queues",
    "get pods",
    "describe node node-0",
    "describe job busy",
    "describe queue default",
    "describe pod busy-worker-0",
    "why waits",
    "why busy",
    "capacity",
    "doctor",
    "topology show",
    "top --once",
]


@pytest.mark.parametrize("command", QUERIES)
def test_every_question_has_three_forms(asked: Terminal, command: str) -> None:
    table = asked.ok(command)
    assert table.strip()
    assert "\x1b" not in table
    as_json, as_yaml = asked.ok(f"{command} -o json"), asked.ok(f"{command} -o yaml")
    assert json.loads(as_json) == yaml.load(as_yaml, yaml.CSafeLoader)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("get nodes", "node-3 ready [##..|....] 6"),
        ("get jobs", "lab/busy default Running 3/3 24"),
        ("get jobs", "0 of 2 pods fit; waits-worker-0"),
        ("get pods -n lab", "lab/busy-worker-1"),
        ("get queues", "26 Ascend910"),
        ("describe node node-3", "huawei.com/Ascend910 (910-x8) [##..|....] 6 of 8 free"),
        ("describe job lab/busy", "3 of 3 placed, 3 needed to start"),
        ("describe job waits", "- wait for job lab/busy to end"),
        ("describe queue default", "used 26 Ascend910"),
        ("describe pod small-worker-0 -n lab", "huawei.com/Ascend910: Ascend910-0,Ascend910-1"),
        ("why waits", "- wait for job lab/busy to end"),
        ("why waits", "queue default: 1 of 1 pending"),
        ("why busy", "3 pods with 24 chips run on 3 nodes"),
        ("capacity", "4 nodes with 32 chips: 26 used, 6 free"),
        ("doctor", "4 nodes, 3 jobs: 0 errors"),
        ("topology show", "172.0.0.1 idle A B 0 of 2 free"),
        ("top --once", "node-3 [##..|....]"),
        ("top --once", "virtual time"),
        ("top --once", "lab/waits is pending for "),
    ],
)
def test_answers_say_what_is_so(asked: Terminal, command: str, words: str) -> None:
    assert words in " ".join(asked.ok(command).split())


def test_another_namespace_is_empty(asked: Terminal) -> None:
    assert asked.json("get pods -n elsewhere")["pods"] == []
    assert asked.json("get jobs -n elsewhere")["jobs"] == []
    assert len(asked.json("get jobs -n lab")["jobs"]) == 3


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("describe node nod-3", 'ringwise: node "nod-3" not found; did you mean "node-3"?'),
        ("describe job bussy", 'ringwise: job "bussy" not found; did you mean "busy"?'),
        ("delete pod absent", 'ringwise: pod "absent" not found'),
        ("why bussy", 'ringwise: job "bussy" not found; did you mean busy or'),
        ("capacity --queue defalt", 'ringwise: queue "defalt" not found; did you mean "default"?'),
        ("cordon node-9", 'ringwise: node "node-9" not found'),
        ("fault inject chip node-0 8", "ringwise: node-0 has the chips 0 to 7, not 8"),
        ("fault inject chip node-0 ring", 'ringwise: invalid chip list "ring": expected 3, 0-3 or 0,2,5'),
        ("delete queue default", "ringwise: `default` queue can not be deleted: it exists in every cluster"),
        ("capacity --now 7", "ringwise: --now requires -f"),
        ("why busy -f x.yaml --lab y", "ringwise: -f and --lab cannot be combined"),
        ("submit", "ringwise: nothing to submit"),
    ],
)
def test_what_cannot_be_done_gets_one_line(asked: Terminal, command: str, line: str) -> None:
    said = asked.refused(command)
    assert said.startswith(line)
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "command", [*QUERIES, "delete job x", "drain x", "fault list", "advance", "cordon x"]
)
def test_without_a_lab_every_command_says_how_to_start_one(tmp_path: Path, command: str) -> None:
    said = Terminal(tmp_path / "none").refused(command)
    assert said.startswith(
        f"ringwise: no lab runs on {tmp_path / 'none'}; start one in another terminal with"
    )
    assert said.count("\n") == 1


def test_the_option_names_the_lab(tmp_path: Path) -> None:
    with running(tmp_path):
        assert "node-3" in Terminal(Path("/absent")).ok(f"get nodes --lab {tmp_path}")


# -- submitting ----------------------------------------------------------------------------------


def test_a_new_lab_shows_its_nodes_before_any_job(terminal: Terminal) -> None:
    assert terminal.ok("get nodes").count("[....|....]   8") == 4


def test_submit_tells_what_became_of_each_job(terminal: Terminal) -> None:
    said = terminal.ok(f"submit {JOBS}")
    assert "default/gang: scheduled on node-1, node-2, node-3" in said
    assert "default/three-chips: rejected\n  a pod requests 3 chips; 910-x8 allows 1, 2, 4, 8 per pod" in said
    assert "- request 1 instead of 3 chips" in said
    assert "default/large-gang: pending\n  48 chips of huawei.com/Ascend910 requested" in said


@pytest.mark.parametrize(
    ("document", "code", "outcome"),
    [
        (job("never", 1, 3), "request-not-allowed", "rejected"),
        (job("never", 5, 8), "cluster-too-small", "pending"),
        (job("never", 1, 1, queue="nowhere"), "unknown-queue", "rejected"),
        (job("never", 1, 8, queue="tiny"), None, "pending"),
    ],
)
def test_a_job_that_can_never_run_says_so_and_delays_nobody(
    terminal: Terminal, document: str, code: str | None, outcome: str
) -> None:
    (never, other) = terminal.submit(queue("tiny", chips=4), document, job("other", 4, 8))["jobs"]
    assert never["state"] == outcome
    assert never["reason"]["message"]
    assert code in (None, never["reason"]["code"])
    assert other["state"] == "scheduled"
    status = terminal.json("top --once")["status"]
    assert (status["pending"], status["rejected"]) == ((1, 0) if outcome == "pending" else (0, 1))
    word = "is rejected: " if outcome == "rejected" else "is pending for "
    assert f"lab/never {word}" in terminal.ok("top --once")


def test_all_or_nothing(terminal: Terminal) -> None:
    terminal.submit(pod("here", 1))
    said = terminal.refused("submit -", "---\n".join([job("new"), pod("here", 1)]))
    assert said == "ringwise: pod lab/here already exists; delete it first\n"
    assert [found["name"] for found in terminal.json("get jobs")["jobs"]] == ["here"]


def test_other_kinds_of_jobs_are_submitted_and_deleted(terminal: Terminal, tmp_path: Path) -> None:
    """The lab has no operators: it gets the PodGroup and the pods that they would create."""
    documents = [
        ascend_job({"Master": role(8), "Worker": role(8, 2)}),
        replicated("Job", 8, 1, "batch"),
        replicated("Deployment", 8, 1, "late"),
    ]
    file = tmp_path / "jobs.json"
    file.write_text("\n".join(json.dumps(document) for document in documents))
    submitted = terminal.json(f"submit {file}")["jobs"]
    assert {job["name"]: job["state"] for job in submitted} == {
        "batch": "scheduled",
        "late": "scheduled",
        "train": "pending",
    }
    assert len(terminal.seats()) == 2
    assert "vcjob/train: pending" in terminal.ok("why vcjob/train")
    terminal.ok(f"delete -f {file}")
    terminal.ok("advance 1m")
    assert terminal.seats() == {}
    assert terminal.json("get jobs")["jobs"] == []


def test_bad_input_is_told_as_place_tells_it(terminal: Terminal) -> None:
    bad = job("bad").replace("minAvailable: 1", "minAvailable: many")
    said = terminal.refused("submit -", bad)
    assert said == terminal.run("place -f -", bad).stderr
    assert "spec.minAvailable" in said
    ran = terminal.run("submit - --keep-going", "---\n".join([bad, job("good")]))
    assert ran.exit_code == 2
    assert "lab/good: scheduled on node-0" in ran.stdout


def test_pods_that_come_with_a_node(terminal: Terminal) -> None:
    terminal.submit(pod("first", 2, node="node-1", holds="Ascend910-0,Ascend910-1"))
    assert terminal.seats() == {"lab/first": ("node-1", (0, 1))}
    said = terminal.refused("submit -", pod("second", 1, node="node-1", holds="Ascend910-1"))
    assert "Ascend910-1 of node node-1 is already held by pod lab/first" in said
    said = terminal.refused("submit -", pod("third", 1, node="node-77", holds="Ascend910-1"))
    assert 'spec.nodeName: node "node-77" not found' in said
    assert "Ascend910-9 not on node node-1" in terminal.refused(
        "submit -", pod("fourth", 1, node="node-1", holds="Ascend910-9")
    )


def test_a_whole_cluster_from_a_file(tmp_path: Path) -> None:
    with running(tmp_path, nodes(0)):
        terminal = Terminal(tmp_path)
        assert terminal.json("get nodes")["nodes"] == []
        said = terminal.ok(f"submit {Path(JOBS).parent / 'cluster.yaml'} {JOBS}")
        assert "16 x Node created" in said
        assert "default/gang: scheduled on node-13, node-14, node-15" in said
        placed = json.loads(terminal.ok(f"place -f {Path(JOBS).parent / 'cluster.yaml'} -f {JOBS} -o json"))
        seats = terminal.seats()
        for planned in placed["jobs"]:
            for one in planned["pods"]:
                if one["node"] is not None:
                    assert seats[f"default/{one['name']}"] == (one["node"], tuple(one["chips"]))


def test_a_job_that_ran_elsewhere_goes_on(terminal: Terminal) -> None:
    """What `kubectl get -o yaml` prints of a running job: the lab's controller takes its pods for its own."""
    running_job = job("moved", 1, 2).replace("namespace: lab}", "namespace: lab, uid: old}")
    owner = "ownerReferences: [{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: moved, uid: old}]"
    group = f"""apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata:
  name: moved-old
  namespace: lab
  {owner}
spec: {{minMember: 1, queue: default}}
"""
    member = pod("moved-worker-0", 2, node="node-2", holds="Ascend910-2,Ascend910-3").replace(
        "annotations: {",
        f"{owner}, annotations: {{scheduling.k8s.io/group-name: moved-old, volcano.sh/task-spec: worker, ",
    )
    terminal.submit(running_job, group, member)
    (found,) = terminal.json("get jobs")["jobs"]
    assert (found["kind"], found["phase"], found["scheduled"]) == ("vcjob", "Running", 1)
    assert terminal.seats() == {"lab/moved-worker-0": ("node-2", (2, 3))}
    terminal.ok("delete job moved")
    terminal.ok("advance 5s")
    assert terminal.json("get pods")["pods"] == []


def test_pods_of_an_owner_without_a_group_are_deleted_by_its_name(terminal: Terminal) -> None:
    owner = "ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: chat, uid: u, controller: true}]"
    member = pod("chat-x", 2, node="node-2", holds="Ascend910-2,Ascend910-3").replace(
        "annotations: {", f"{owner}, annotations: {{"
    )
    terminal.submit(member)
    assert [found["name"] for found in terminal.json("get jobs")["jobs"]] == ["chat"]
    terminal.ok("delete job chat")
    terminal.ok("advance 5s")
    assert terminal.json("get jobs")["jobs"] == []
    assert terminal.json("get pods")["pods"] == []


def test_a_configuration_is_taken_when_it_is_right(terminal: Terminal) -> None:
    def config_map(text: str) -> str:
        lines = "\n".join(f"    {line}" for line in text.splitlines())
        return (
            "apiVersion: v1\nkind: ConfigMap\n"
            "metadata: {name: volcano-scheduler-configmap, namespace: volcano-system}\n"
            f"data:\n  volcano-scheduler.conf: |\n{lines}\n"
        )

    tiers = "tiers:\n- plugins:\n  - name: priority\n  - name: gang\n  - name: topology910\n"
    said = terminal.refused("submit -", config_map(f'actions: "enqueu, allocate"\n{tiers}'))
    assert "enqueue" in said
    terminal.submit(config_map(f'actions: "enqueue"\n{tiers}'))
    (found,) = terminal.submit(job("idle"))["jobs"]
    assert found["state"] == "pending"  # no action allocates
    said = terminal.ok("submit -", config_map(f'actions: "enqueue, allocate"\n{tiers}'))
    assert said == "scheduler configuration changed\n"
    terminal.submit(job("busy"))
    assert "lab/busy-worker-0" in terminal.seats()


def test_text_of_tenants_does_not_control_the_terminal_of_an_operator(tmp_path: Path) -> None:
    """Its color, title and lines: what a tenant writes is free text in many places."""
    evil = r'"\e]0;title\a\e[2Jx\u202e"'
    selecting = job("selects").replace(
        "      spec:\n", f"      spec:\n        nodeSelector: {{kind: {evil}}}\n"
    )
    terminal = Terminal(tmp_path)
    forging = job("forges", queue=r'"none\nlab/fake default Running"')
    with running(tmp_path):
        terminal.submit(job("queued", queue=evil), selecting, forging)
        terminal.ok(f"isolate node-1 --reason '{chr(27)}[2J' --lab {tmp_path}")
        for command in ("get jobs", "top --once", "doctor", "why queued", "why selects", "get chips"):
            shown = terminal.run(command).stdout
            assert all(character.isprintable() or character == "\n" for character in shown), command
            assert r"\x1b" in shown, command
            assert "\nlab/fake" not in shown, command
        assert "lab/fake" in terminal.ok("get jobs")
        said = terminal.run("why '\x1b[2J'").stderr
        assert said.startswith(r'ringwise: job "\x1b[2J')


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (job("odd", 1, 3), "warning: job lab/odd is rejected"),
        (
            job("good", 1, 8).replace("kind: Job\n", "kind: Jobb\n"),
            "not accepted: Jobb: 1 object not read; did you mean Job of",
        ),
    ],
    ids=["refused", "misspelled"],
)
def test_submit_fails_and_names_what_was_not_accepted(tmp_path: Path, document: str, said: str) -> None:
    with running(tmp_path, nodes(1)):
        terminal = Terminal(tmp_path)
        ran = terminal.run("submit -", "---\n".join([document, job("fine", 1, 8)]))
        assert ran.exit_code == 1
        assert said in ran.stderr
        # The others are stored.
        assert "lab/fine" in terminal.ok("get jobs")


def test_submit_of_many_jobs_explains_ten(tmp_path: Path) -> None:
    with running(tmp_path, nodes(1)):
        answer = Terminal(tmp_path).submit(*(job(f"job-{number}", 1, 8) for number in range(40)))
    pending = [one for one in answer["jobs"] if one["state"] == "pending"]
    assert len(pending) == 39
    assert all(one["reason"] for one in pending)
    assert [bool(one["reason"]["fixes"]) for one in pending] == [True] * 10 + [False] * 29

"""Every command of the lab, from another terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.lab.rig import SMALL, Terminal, job, nodes, pod, queue, running
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


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A lab that is only asked, never changed, by the tests."""
    folder = tmp_path_factory.mktemp("asked")
    with running(folder, SMALL):
        terminal = Terminal(folder)
        terminal.submit(job("busy", 3, 8, minutes=30), job("small", 1, 2), job("waits", 2, 8))
        terminal.ok("advance 5s")
        yield terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    with running(tmp_path):
        yield Terminal(tmp_path)


@pytest.mark.parametrize("command", QUERIES)
def test_every_question_has_three_forms(asked: Terminal, command: str) -> None:
    table = asked.ok(command)
    assert table.strip()
    assert "\x1b" not in table
    as_json, as_yaml = asked.ok(f"{command} -o json"), asked.ok(f"{command} -o yaml")
    assert json.loads(as_json) == yaml.safe_load(as_yaml)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("get nodes", "node-3 ready [##..|....] 6"),
        ("get jobs", "lab/busy default Running 3/3 24"),
        ("get jobs", "pods that must start together"),
        ("get pods -n lab", "lab/busy-worker-1"),
        ("get queues", "26 Ascend910"),
        ("describe node node-3", "huawei.com/Ascend910 (910-x8) [##..|....] 6 of 8 free"),
        ("describe job lab/busy", "3 of 3 placed, 3 needed to start"),
        ("describe job waits", "-> if job lab/busy ended"),
        ("describe queue default", "used 26 Ascend910"),
        ("describe pod small-worker-0 -n lab", "huawei.com/Ascend910: Ascend910-0,Ascend910-1"),
        ("why waits", "-> if job lab/busy ended"),
        ("why waits", "queue default: 1 of 1 waiting"),
        ("why busy", "3 pods with 24 chips run on 3 nodes"),
        ("capacity", "4 nodes with 32 chips: 26 held, 6 free"),
        ("doctor", "4 nodes, 3 jobs: 0 errors"),
        ("topology show", "172.0.0.1 idle A B 0 of 2 free"),
        ("top --once", "node-3 [##..|....]"),
        ("top --once", "virtual time"),
        ("top --once", "lab/waits waits"),
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
        ("describe node node-9", "ringwise: there is no node node-9 (did you mean 'node-3'?)"),
        ("describe job bussy", "ringwise: there is no job bussy (did you mean 'busy'?)"),
        ("delete pod absent", "ringwise: there is no pod absent"),
        ("why bussy", "ringwise: there is no job bussy; did you mean busy or"),
        ("capacity --queue defalt", "ringwise: there is no queue defalt (did you mean 'default'?)"),
        ("cordon node-9", "ringwise: there is no node node-9"),
        ("fault inject chip node-0 8", "ringwise: node-0 has the chips 0 to 7, not 8"),
        ("fault inject chip node-0 ring", "ringwise: 'ring' names no chips: write 3, 0-3 or 0,2,5"),
        ("delete queue default", "ringwise: queue default cannot be deleted: it exists in every cluster"),
        ("capacity --now 7", "ringwise: --now goes with -f; a lab has its own"),
        ("why busy -f x.yaml --lab y", "ringwise: -f reads files and --lab queries a lab"),
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
    assert "default/gang: placed on node-1, node-2, node-3" in said
    assert "default/three-chips: refused\n  a pod asks for 3 chips; 910-x8 allows 1, 2, 4, 8" in said
    assert "-> with 1 instead of 3 chips" in said
    assert "default/large-gang: pending\n  the job needs 48 chips" in said


@pytest.mark.parametrize(
    ("document", "code", "outcome"),
    [
        (job("never", 1, 3), "request-not-allowed", "refused"),
        (job("never", 5, 8), "cluster-too-small", "pending"),
        (job("never", 1, 1, queue="nowhere"), "unknown-queue", "refused"),
        (job("never", 1, 8, queue="tiny"), None, "pending"),
    ],
)
def test_a_job_that_can_never_run_says_so_and_delays_nobody(
    terminal: Terminal, document: str, code: str | None, outcome: str
) -> None:
    (never, other) = terminal.submit(queue("tiny", chips=4), document, job("other", 4, 8))["jobs"]
    assert never["outcome"] == outcome
    assert never["reason"]["message"]
    assert code in (None, never["reason"]["code"])
    assert other["outcome"] == "placed"
    status = terminal.json("top --once")["status"]
    assert (status["waiting"], status["refused"]) == ((1, 0) if outcome == "pending" else (0, 1))
    word = "is refused: " if outcome == "refused" else "waits "
    assert f"lab/never {word}" in terminal.ok("top --once")


def test_all_or_nothing(terminal: Terminal) -> None:
    terminal.submit(pod("here", 1))
    said = terminal.refused("submit -", "---\n".join([job("new"), pod("here", 1)]))
    assert said == "ringwise: pod lab/here exists already; delete it first\n"
    assert [found["name"] for found in terminal.json("get jobs")["jobs"]] == ["here"]


def test_15_other_kinds_of_jobs_are_submitted_and_deleted(terminal: Terminal, tmp_path: Path) -> None:
    """The lab has no operators: it gets the PodGroup and the pods that they would create."""
    documents = [
        ascend_job({"Master": role(8), "Worker": role(8, 2)}),
        replicated("Job", 8, 1, "batch"),
        replicated("Deployment", 8, 1, "late"),
    ]
    file = tmp_path / "jobs.json"
    file.write_text("\n".join(json.dumps(document) for document in documents))
    submitted = terminal.json(f"submit {file}")["jobs"]
    assert {job["name"]: job["outcome"] for job in submitted} == {
        "batch": "placed",
        "late": "placed",
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
    assert "lab/good: placed" in ran.stdout


def test_pods_that_come_with_a_node(terminal: Terminal) -> None:
    terminal.submit(pod("first", 2, node="node-1", holds="Ascend910-0,Ascend910-1"))
    assert terminal.seats() == {"lab/first": ("node-1", (0, 1))}
    said = terminal.refused("submit -", pod("second", 1, node="node-1", holds="Ascend910-1"))
    assert "Ascend910-1 of node node-1 is held by pod lab/first already" in said
    said = terminal.refused("submit -", pod("third", 1, node="node-77", holds="Ascend910-1"))
    assert "spec.nodeName: there is no node node-77" in said
    assert "Ascend910-9 not on node node-1" in terminal.refused(
        "submit -", pod("fourth", 1, node="node-1", holds="Ascend910-9")
    )


def test_a_whole_cluster_from_a_file(tmp_path: Path) -> None:
    with running(tmp_path, nodes(0)):
        terminal = Terminal(tmp_path)
        assert terminal.json("get nodes")["nodes"] == []
        said = terminal.ok(f"submit {Path(JOBS).parent / 'cluster.yaml'} {JOBS}")
        assert "16 x Node created" in said
        assert "default/gang: placed on node-13, node-14, node-15" in said
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
    assert (found["kind"], found["phase"], found["placed"]) == ("vcjob", "Running", 1)
    assert terminal.seats() == {"lab/moved-worker-0": ("node-2", (2, 3))}
    terminal.ok("delete job moved")
    terminal.ok("advance 5s")
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
    assert found["outcome"] == "pending"  # no action allocates
    said = terminal.ok("submit -", config_map(f'actions: "enqueue, allocate"\n{tiers}'))
    assert said == "scheduler configuration changed\n"
    terminal.submit(job("busy"))
    assert "lab/busy-worker-0" in terminal.seats()


# -- changing -------------------------------------------------------------------------------------


def test_cordon_drain_and_fault(terminal: Terminal) -> None:
    assert terminal.ok("cordon node-0") == "node node-0 cordoned\n"
    terminal.ok("fault inject chip node-1 0-2,5")
    terminal.ok("fault inject network node-2 7")
    found = {node["name"]: node for node in terminal.json("get nodes")["nodes"]}
    assert found["node-0"]["cordoned"]
    assert found["node-1"]["chips"][0]["faulty"] == [0, 1, 2, 5]
    assert found["node-2"]["chips"][0]["network_faulty"] == [7]
    (gang,) = terminal.submit(job("gang", 2, 8))["jobs"]
    assert gang["outcome"] == "pending"
    terminal.ok("uncordon node-0")
    assert {node for node, _ in terminal.seats().values()} == {"node-0", "node-3"}
    terminal.ok("fault clear chip node-1 0 1 2 5")
    said = terminal.ok("drain node-0 --yes")
    assert said.startswith("node node-0 cordoned; 1 pod evicted\n  lab/gang-worker-")
    terminal.ok("advance 10s")
    assert {node for node, _ in terminal.seats().values()} == {"node-1", "node-3"}


def test_a_waiting_gang_starts_when_another_job_ends(terminal: Terminal) -> None:
    terminal.submit(job("first", 4, 8, minutes=10))
    terminal.submit(job("second", 3, 8))
    assert "expected start" in terminal.ok("why second")
    assert len(terminal.seats()) == 4
    terminal.ok("advance 9m")
    assert len(terminal.seats()) == 4
    terminal.ok("advance 2m")
    assert [name.rpartition("-worker")[0] for name in terminal.seats()] == ["lab/second"] * 3
    phases = {found["name"]: found["phase"] for found in terminal.json("get jobs")["jobs"]}
    assert phases == {"first": "Completed", "second": "Running"}
    assert terminal.ok("why first") == "lab/first: ended\n  it is Completed: 4 of 4 pods succeeded\n"


def test_advance_goes_to_the_next_event(terminal: Terminal) -> None:
    terminal.submit(pod("one", 1))
    began = terminal.json("top --once")["status"]["now"]
    assert terminal.json("advance")["now"] == began + 2_000_000_000  # pods take two seconds to start
    assert terminal.json("get pods")["pods"][0]["phase"] == "Running"


def test_18_queues_that_a_cluster_refuses_are_refused(terminal: Terminal) -> None:
    below = queue("team").replace("weight: 1", "weight: 1, parent: dept")
    said = terminal.refused("submit -", below)
    assert "queue team: its parent dept does not exist" in said
    # Together they are right, whatever their order.
    terminal.submit(below, queue("dept"))
    said = terminal.refused("delete queue dept")
    assert said.startswith("ringwise: queue dept cannot be deleted: it has the 1 queue team below it")
    terminal.ok("delete queue dept team")


def test_delete(terminal: Terminal) -> None:
    terminal.submit(queue("spare"), job("inside", 1, 1, queue="spare"), pod("alone", 1))
    said = terminal.refused("delete queue spare")
    assert said.startswith("ringwise: queue spare has 1 job: lab/inside-")
    assert terminal.ok("delete job inside") == "job lab/inside deleted\n"
    assert terminal.ok("delete pod alone") == "pod lab/alone deleted\n"
    assert terminal.ok("delete queue spare") == "queue spare deleted\n"
    terminal.ok("advance 5s")
    assert terminal.seats() == {}
    assert [found["name"] for found in terminal.json("get queues")["queues"]] == ["default"]
    terminal.ok("delete node node-3")
    assert len(terminal.json("get nodes")["nodes"]) == 3


def test_17_delete_takes_several_names_and_deletes_all_or_none(terminal: Terminal) -> None:
    terminal.submit(*(job(name) for name in ("a", "b", "c")))
    said = terminal.refused("delete job a absent other")
    assert said == "ringwise: there is no job absent\nringwise: there is no job other\n"
    assert len(terminal.json("get jobs")["jobs"]) == 3
    assert terminal.ok("delete job a lab/b a") == "job lab/a deleted\njob lab/b deleted\n"
    assert terminal.ok("delete jobs c absent --ignore-not-found") == "job lab/c deleted\n"
    terminal.ok("advance 5s")
    assert terminal.ok("get jobs") == "there are no jobs\n"


def test_17_delete_of_a_file(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text("---\n".join([queue("spare"), job("inside", 1, 1, queue="spare"), pod("alone", 1)]))
    terminal.submit(file.read_text(), job("other"))
    document = terminal.json(f"delete -f {file}")
    assert document["deleted"] == [
        {"kind": "job", "name": "lab/inside"},
        {"kind": "pod", "name": "lab/alone"},
        {"kind": "queue", "name": "spare"},
    ]
    terminal.ok("advance 5s")
    assert [found["name"] for found in terminal.json("get jobs")["jobs"]] == ["other"]
    assert "there is no job lab/inside" in terminal.refused(f"delete -f {file}")
    assert terminal.ok(f"delete -f {file} --ignore-not-found") == "there is nothing to delete\n"


def test_17_delete_all_of_a_kind(terminal: Terminal) -> None:
    elsewhere = job("far").replace("namespace: lab", "namespace: far")
    terminal.submit(queue("spare"), job("a"), job("b"), elsewhere)
    assert terminal.ok("delete jobs --all -n lab") == "job lab/a deleted\njob lab/b deleted\n"
    assert terminal.ok("delete job --all") == "job far/far deleted\n"
    assert terminal.ok("delete queue --all") == "queue spare deleted\n"
    assert terminal.ok("delete queue --all") == "there is nothing to delete\n"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("delete", "nothing to delete"),
        ("delete job", "name the jobs to delete, or give --all"),
        ("delete job a --all", "name the jobs to delete, or give --all"),
        ("delete job -f x.yaml", "-f names the objects by itself"),
        ("submit x.yaml --dry-run --wait", "give one of them"),
    ],
)
def test_17_what_is_not_said_clearly_changes_nothing(asked: Terminal, command: str, words: str) -> None:
    assert words in asked.refused(command)


def test_17_a_dry_run_says_what_submit_would_and_changes_nothing(terminal: Terminal) -> None:
    terminal.submit(job("busy", 2, 8))
    documents = "---\n".join([job("fits", 2, 8), job("waits", 3, 8), job("never", 1, 3), queue("new")])
    state = [terminal.json(f"get {kind}") for kind in ("jobs", "pods", "nodes", "queues")]
    ran = terminal.run("submit - --dry-run", documents)
    assert "dry run: nothing was submitted" in ran.stderr
    assert [terminal.json(f"get {kind}") for kind in ("jobs", "pods", "nodes", "queues")] == state
    assert terminal.ok("submit -", documents) == ran.stdout
    assert terminal.run("submit - --dry-run", pod("x", 1, node="node-99")).exit_code == 2


def test_17_wait_ends_when_the_jobs_run(terminal: Terminal) -> None:
    terminal.submit(job("first", 4, 8, minutes=10))
    said = terminal.ok("submit - --wait", job("second", 3, 8))
    assert said.startswith("lab/second: running on node-0, node-1, node-2")
    phases = {found["name"]: found["phase"] for found in terminal.json("get jobs")["jobs"]}
    assert phases == {"first": "Completed", "second": "Running"}


@pytest.mark.parametrize(
    ("options", "documents", "code"),
    [
        ("", [job("never", 1, 3)], 0),
        ("--exit-code", [job("fits", 1, 8)], 0),
        ("--exit-code", [job("never", 1, 3), job("waits", 4, 8)], 3),
        ("--exit-code", [job("waits", 4, 8)], 4),
        ("--exit-code --dry-run", [job("waits", 4, 8)], 4),
        ("--wait", [job("never", 1, 3)], 3),
        ("--wait --timeout 5m", [job("waits", 4, 8)], 4),
        ("--wait --timeout 30m", [job("waits", 4, 8)], 0),
    ],
)
def test_17_exit_codes_of_jobs_that_do_not_start(
    terminal: Terminal, options: str, documents: list[str], code: int
) -> None:
    terminal.submit(job("busy", 1, 8, minutes=10))
    assert terminal.run(f"submit - {options}", "---\n".join(documents)).exit_code == code


def test_17_placed_jobs_have_another_phase_than_waiting_ones(terminal: Terminal) -> None:
    group = (
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\n"
        "metadata: {name: band, namespace: lab}\nspec: {minMember: 1}\n"
    )
    member = pod("member", 1).replace("labels: {}", "annotations: {scheduling.k8s.io/group-name: band}")
    answer = terminal.submit(job("placed", 2, 8), pod("alone", 8), group, member, job("waits", 3, 8))
    phases = {found["name"]: (found["outcome"], found["phase"]) for found in answer["jobs"]}
    assert phases.pop("waits") == ("pending", "Pending")
    # Volcano calls a PodGroup Running as soon as its pods have nodes.
    assert phases.pop("band") == ("placed", "Running")
    assert set(phases.values()) == {("placed", "Starting")}
    terminal.ok("advance 3s")
    after = {found["name"]: found["phase"] for found in terminal.json("get jobs")["jobs"]}
    assert after == {"placed": "Running", "alone": "Running", "band": "Running", "waits": "Pending"}
    assert "lab/placed default Running" in " ".join(terminal.ok("get jobs").split())
    terminal.ok(f"drain {terminal.seats()['lab/placed-worker-0'][0]} --yes")
    terminal.ok("advance 3s")
    lost = {found["name"]: (found["outcome"], found["phase"]) for found in terminal.json("get jobs")["jobs"]}
    assert lost["placed"] == ("pending", "Pending")


def test_17_drain_names_the_gangs_it_hurts_and_asks(terminal: Terminal) -> None:
    elastic = job("elastic", 2, 8).replace("minAvailable: 2", "minAvailable: 1")
    terminal.submit(job("gang", 2, 8), elastic)
    node = terminal.seats()["lab/gang-worker-0"][0]
    ran = terminal.run(f"drain {node}", "n\n")
    assert ran.exit_code == 1
    assert "  lab/gang: 1 of 2 pods runs here; 1 would be left, and the gang needs 2\n" in ran.stderr
    assert f"drain node {node} and evict 1 pod? [y/N]" in ran.stderr
    assert "nothing was changed" in ran.stderr
    said = terminal.refused(f"drain {terminal.seats()['lab/elastic-worker-0'][0]}", "")
    assert "lab/elastic: 1 of 2 pods runs here; 1 would be left, enough for the gang (minAvailable 1)" in said
    assert "nothing was changed: there is no answer; --yes drains without asking" in said
    assert not any(found["cordoned"] for found in terminal.json("get nodes")["nodes"])
    assert f"node {node} cordoned; 1 pod evicted" in terminal.run(f"drain {node}", "y\n").stdout
    terminal.ok("delete jobs --all")
    terminal.ok("advance 5s")
    terminal.submit(pod("alone", 2))
    alone = terminal.seats()["lab/alone"][0]
    said = terminal.refused(f"drain {alone}", "")
    assert "lab/alone: a pod without a controller: it is not started again" in said
    empty = next(found["name"] for found in terminal.json("get nodes")["nodes"] if not found["pods"])
    assert terminal.ok(f"drain {empty}") == f"node {empty} cordoned; 0 pods evicted\n"


@pytest.mark.parametrize(
    ("span", "words"),
    [
        ("banana", "'banana' is no span of time: write seconds (90), or 90s, 30m, 1h30m"),
        ("-- -5m", "'-5m' is no span of time"),
        ("-5m", "'-5m' is no span of time"),
        ("''", "'' is no span of time"),
        ("99999999999h", "is too long: at most 100 years"),
    ],
)
def test_17_advance_with_a_nonsense_span(terminal: Terminal, span: str, words: str) -> None:
    before = terminal.json("top --once")["status"]["now"]
    assert words in terminal.refused(f"advance {span}")
    assert terminal.json("top --once")["status"]["now"] == before


def test_a_job_of_a_bare_group_is_deleted_with_its_pods(terminal: Terminal) -> None:
    group = (
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\n"
        "metadata: {name: band, namespace: lab}\nspec: {minMember: 2}\n"
    )
    members = [
        pod(f"member-{number}", 8).replace("labels: {}", "annotations: {scheduling.k8s.io/group-name: band}")
        for number in range(2)
    ]
    answer = terminal.submit(group, *members)
    assert [(found["name"], found["outcome"]) for found in answer["jobs"]] == [("band", "placed")]
    terminal.ok("delete job band")
    terminal.ok("advance 5s")
    assert terminal.json("get jobs")["jobs"] == []
    assert terminal.json("get pods")["pods"] == []


def command_object(action: str, kind: str, name: str) -> str:
    return f"""apiVersion: bus.volcano.sh/v1alpha1
kind: Command
metadata: {{generateName: {name}-, namespace: lab}}
action: {action}
target: {{kind: {kind}, name: {name}}}
"""


def test_08_commands_close_and_open_queues_and_suspend_jobs(terminal: Terminal) -> None:
    team = queue("team").replace("weight: 1", "weight: 1, parent: dept")
    terminal.submit(queue("dept"), team, job("runs", 1, 8, queue="team"))
    terminal.ok("advance 5s")
    assert "CloseQueue dept carried out" in terminal.ok(
        "submit -", command_object("CloseQueue", "Queue", "dept")
    )
    states = {one["name"]: one["state"] for one in terminal.json("get queues")["queues"]}
    assert (states["dept"], states["team"]) == ("Closed", "Closing")
    refused = terminal.ok("submit -", command_object("OpenQueue", "Queue", "team"))
    assert "OpenQueue team refused: queue team cannot be opened because its parent queue dept is" in refused
    assert "AbortJob lab/runs carried out" in terminal.ok(
        "submit -", command_object("AbortJob", "Job", "runs")
    )
    terminal.ok("advance 1m")
    (runs,) = terminal.json("get jobs")["jobs"]
    assert runs["phase"] == "Aborted"
    lost = terminal.refused("submit -", command_object("CloseQueue", "Queue", "nowhere"))
    assert "CloseQueue: there is no queue nowhere" in lost
    wrong = terminal.refused("submit -", command_object("CloseQueue", "Node", "n1"))
    assert 'target.kind: must be Job or Queue, got "Node"' in wrong

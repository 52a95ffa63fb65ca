"""Commands that change a running lab: nodes, queues, jobs, time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.rig import Terminal, job, pod, queue

# -- changing -------------------------------------------------------------------------------------


def test_cordon_drain_and_fault(terminal: Terminal) -> None:
    assert terminal.ok("cordon node-0") == "node node-0 cordoned\n"
    assert terminal.ok("cordon node-0") == "node node-0 already cordoned\n"
    assert terminal.json("cordon node-0")["changed"] is False
    assert terminal.ok("uncordon node-1") == "node node-1 already uncordoned\n"
    terminal.ok("fault inject chip node-1 0-2,5")
    terminal.ok("fault inject network node-2 7")
    found = {node["name"]: node for node in terminal.json("get nodes")["nodes"]}
    assert found["node-0"]["state"] == "cordoned"
    assert found["node-1"]["chips"][0]["faulty"] == [0, 1, 2, 5]
    assert found["node-2"]["chips"][0]["marks"]["network_faulty"] == [7]
    (gang,) = terminal.submit(job("gang", 2, 8))["jobs"]
    assert gang["state"] == "pending"
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
    assert terminal.ok("why first") == "lab/first: finished\n  it is Completed: 4 of 4 pods succeeded\n"


def test_advance_goes_to_the_next_event(terminal: Terminal) -> None:
    terminal.submit(pod("one", 1))
    began = terminal.json("top --once")["status"]["now"]
    assert terminal.json("advance")["now"] == began + 2_000_000_000  # pods take two seconds to start
    assert terminal.json("get pods")["pods"][0]["phase"] == "Running"


def test_queues_that_a_cluster_refuses_are_refused(terminal: Terminal) -> None:
    below = queue("team").replace("weight: 1", "weight: 1, parent: dept")
    said = terminal.refused("submit -", below)
    assert "queue team: failed to get parent queue: its parent dept does not exist" in said
    # Together they are right, whatever their order.
    terminal.submit(below, queue("dept"))
    said = terminal.refused("delete queue dept")
    assert said.startswith("ringwise: queue dept can not be deleted because it has 1 child queues: it has")
    terminal.ok("delete queue dept team")


def test_delete(terminal: Terminal) -> None:
    terminal.submit(queue("spare"), job("inside", 1, 1, queue="spare"), pod("alone", 1))
    said = terminal.refused("delete queue spare")
    assert said.startswith("ringwise: queue spare has 1 job: lab/inside; delete it first")
    assert terminal.ok("delete job inside") == "job lab/inside deleted\n"
    assert terminal.ok("delete pod alone") == "pod lab/alone deleted\n"
    assert terminal.ok("delete queue spare") == "queue spare deleted\n"
    terminal.ok("advance 5s")
    assert terminal.seats() == {}
    assert [found["name"] for found in terminal.json("get queues")["queues"]] == ["default"]
    terminal.ok("delete node node-3")
    assert len(terminal.json("get nodes")["nodes"]) == 3


def test_delete_takes_several_names_and_deletes_all_or_none(terminal: Terminal) -> None:
    terminal.submit(*(job(name) for name in ("a", "b", "c")))
    said = terminal.refused("delete job a absent other")
    assert said == 'ringwise: job "absent" not found\nringwise: job "other" not found\n'
    assert len(terminal.json("get jobs")["jobs"]) == 3
    assert terminal.ok("delete job a lab/b a") == "job lab/a deleted\njob lab/b deleted\n"
    assert terminal.ok("delete jobs c absent --ignore-not-found") == "job lab/c deleted\n"
    terminal.ok("advance 5s")
    assert terminal.ok("get jobs") == "there are no jobs\n"


def test_delete_of_a_file(terminal: Terminal, tmp_path: Path) -> None:
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
    assert 'job "lab/inside" not found' in terminal.refused(f"delete -f {file}")
    assert terminal.ok(f"delete -f {file} --ignore-not-found") == "there is nothing to delete\n"


def test_delete_all_of_a_kind(terminal: Terminal) -> None:
    elsewhere = job("far").replace("namespace: lab", "namespace: far")
    terminal.submit(queue("spare"), job("a"), job("b"), elsewhere)
    ran = terminal.run("delete jobs --all -n lab")
    assert (ran.stdout, ran.stderr) == ("job lab/a deleted\njob lab/b deleted\n", "")
    terminal.submit(job("here", 1, 1).replace("namespace: lab", "namespace: default"))
    ran = terminal.run("delete jobs --all")
    assert (ran.stdout, ran.stderr) == (
        "job default/here deleted\n", "note: only jobs in namespace default; -A deletes in all\n"
    )  # fmt: skip
    nothing = "there is nothing to delete in namespace default; -A deletes in all\n"
    assert terminal.ok("delete job --all") == nothing
    assert terminal.ok("delete job --all -A --dry-run=server") == "job far/far deleted (dry run)\n"
    assert terminal.ok("delete job --all -A") == "job far/far deleted\n"
    assert terminal.ok("delete queue --all") == "queue spare deleted\n"
    assert terminal.ok("delete queue --all") == "there is nothing to delete\n"


def test_delete_by_labels(terminal: Terminal) -> None:
    terminal.submit(job("a").replace("namespace: lab", "namespace: lab, labels: {team: red}"), job("b"))
    assert terminal.ok("delete jobs -l team=red").startswith(
        "there is nothing to delete in namespace default;"
    )
    red = "delete jobs -l team=red -n lab"
    assert terminal.ok(f"{red} --dry-run") == "job lab/a deleted (dry run)\n"
    assert terminal.ok(red) == "job lab/a deleted\n"
    assert terminal.ok("get jobs -o name").startswith("lab/b\n")
    assert 'invalid selector "team=,"' in terminal.refused("delete jobs -l team=,")
    assert "-l requires" in terminal.refused("delete isolations -l team=red")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("delete", "nothing to delete"),
        ("delete job", "the names of the jobs to delete, or one of -l and --all, are required"),
        ("delete job a --all", "the names of the jobs to delete, or one of -l and --all, are required"),
        ("delete job -f x.yaml", "-f cannot be combined with a kind, names, -l or --all"),
        ("submit x.yaml --dry-run --wait", "cannot be combined"),
    ],
)
def test_what_is_not_said_clearly_changes_nothing(asked: Terminal, command: str, words: str) -> None:
    assert words in asked.refused(command)


def test_a_dry_run_says_what_submit_would_and_changes_nothing(terminal: Terminal) -> None:
    terminal.submit(job("busy", 2, 8))
    documents = "---\n".join([job("fits", 2, 8), job("waits", 3, 8), job("never", 1, 3), queue("new")])
    state = [terminal.json(f"get {kind}") for kind in ("jobs", "pods", "nodes", "queues")]
    ran = terminal.run("submit - --dry-run", documents)
    assert "dry run: nothing was submitted" in ran.stderr
    assert [terminal.json(f"get {kind}") for kind in ("jobs", "pods", "nodes", "queues")] == state
    assert "Queue new created (dry run)" in ran.stdout
    assert terminal.ok("submit -", documents) == ran.stdout.replace(" (dry run)", "")
    assert terminal.run("submit - --dry-run", pod("x", 1, node="node-99")).exit_code == 2


def test_wait_ends_when_the_jobs_run(terminal: Terminal) -> None:
    terminal.submit(job("first", 4, 8, minutes=10))
    said = terminal.ok("submit - --wait", job("second", 3, 8))
    assert said.startswith("lab/second: running on node-0, node-1, node-2")
    phases = {found["name"]: found["phase"] for found in terminal.json("get jobs")["jobs"]}
    assert phases == {"first": "Completed", "second": "Running"}


@pytest.mark.parametrize(
    ("options", "documents", "code"),
    [
        ("", [job("never", 1, 3)], 1),
        ("", [job("waits", 4, 8)], 0),
        ("--exit-code", [job("fits", 1, 8)], 0),
        ("--exit-code", [job("never", 1, 3), job("waits", 4, 8)], 3),
        ("--exit-code", [job("waits", 4, 8)], 4),
        ("--exit-code --dry-run", [job("waits", 4, 8)], 4),
        ("--wait", [job("never", 1, 3)], 3),
        ("--wait --timeout 5m", [job("waits", 4, 8)], 4),
        ("--wait --timeout 30m", [job("waits", 4, 8)], 0),
    ],
)
def test_exit_codes_of_jobs_that_do_not_start(
    terminal: Terminal, options: str, documents: list[str], code: int
) -> None:
    terminal.submit(job("busy", 1, 8, minutes=10))
    assert terminal.run(f"submit - {options}", "---\n".join(documents)).exit_code == code


def test_placed_jobs_have_another_phase_than_waiting_ones(terminal: Terminal) -> None:
    group = (
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\n"
        "metadata: {name: band, namespace: lab}\nspec: {minMember: 1}\n"
    )
    member = pod("member", 1).replace("labels: {}", "annotations: {scheduling.k8s.io/group-name: band}")
    answer = terminal.submit(job("placed", 2, 8), pod("alone", 8), group, member, job("waits", 3, 8))
    phases = {found["name"]: (found["state"], found["phase"]) for found in answer["jobs"]}
    assert phases.pop("waits") == ("pending", "Pending")
    # Volcano calls the PodGroup of band Running as soon as its pods have nodes.
    assert set(phases.values()) == {("scheduled", "Starting")}
    terminal.ok("advance 3s")
    after = {found["name"]: found["phase"] for found in terminal.json("get jobs")["jobs"]}
    assert after == {"placed": "Running", "alone": "Running", "band": "Running", "waits": "Pending"}
    assert "lab/placed default Running" in " ".join(terminal.ok("get jobs").split())
    terminal.ok(f"drain {terminal.seats()['lab/placed-worker-0'][0]} --yes --force")
    terminal.ok("advance 3s")
    lost = {found["name"]: (found["state"], found["phase"]) for found in terminal.json("get jobs")["jobs"]}
    assert lost["placed"] == ("pending", "Pending")


def test_drain_names_the_gangs_it_hurts_and_asks(terminal: Terminal) -> None:
    elastic = job("elastic", 2, 8).replace("minAvailable: 2", "minAvailable: 1")
    terminal.submit(job("gang", 2, 8), elastic)
    node = terminal.seats()["lab/gang-worker-0"][0]
    ran = terminal.run(f"drain {node} --force", "n\n")
    assert ran.exit_code == 1
    assert "  lab/gang: 1 of 2 pods runs here; 1 would be left, and the gang needs 2\n" in ran.stderr
    assert f"drain node {node} and evict 1 pod? [y/N]" in ran.stderr
    assert "nothing was changed" in ran.stderr
    said = terminal.refused(f"drain {terminal.seats()['lab/elastic-worker-0'][0]}", "")
    assert "lab/elastic: 1 of 2 pods runs here; 1 would be left, enough for the gang (minAvailable 1)" in said
    assert "nothing was changed: no confirmation; --yes drains without confirmation" in said
    assert not any(found["state"] == "cordoned" for found in terminal.json("get nodes")["nodes"])
    said = terminal.run(f"drain {node}", "").stderr
    assert "note: lab/gang is not evicted, because it could not run again: " in said
    terminal.ok(f"uncordon {node}")
    assert f"node {node} cordoned; 1 pod evicted" in terminal.run(f"drain {node} --force", "y\n").stdout
    terminal.ok("delete jobs --all -A")
    terminal.ok("advance 5s")
    terminal.submit(pod("alone", 2))
    alone = terminal.seats()["lab/alone"][0]
    said = terminal.refused(f"drain {alone} --force", "")
    assert "lab/alone: a pod without a controller: it is not started again" in said
    empty = next(found["name"] for found in terminal.json("get nodes")["nodes"] if not found["pods"])
    assert terminal.ok(f"drain {empty}") == f"node {empty} cordoned; 0 pods evicted\n"


@pytest.mark.parametrize(
    ("span", "words"),
    [
        ("banana", 'invalid duration "banana": expected a number and a unit, such as 90s, 30m, 1h30m or 2d'),
        ("-- -5m", 'invalid duration "-5m"'),
        ("-5m", 'invalid duration "-5m"'),
        ("''", 'invalid duration ""'),
        ("1500000h", "below 100 years"),
        # Longer than Go can hold.
        ("99999999999h", "below 100 years"),
    ],
)
def test_advance_with_a_nonsense_span(terminal: Terminal, span: str, words: str) -> None:
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
    assert [(found["name"], found["state"]) for found in answer["jobs"]] == [("band", "scheduled")]
    terminal.ok("delete job band")
    terminal.ok("advance 5s")
    assert terminal.json("get jobs")["jobs"] == []
    assert terminal.json("get pods")["pods"] == []


def command_object(action: str, kind: str, name: str, namespace: str = "default") -> str:
    return f"""apiVersion: bus.volcano.sh/v1alpha1
kind: Command
metadata: {{generateName: {name}-, namespace: {namespace}}}
action: {action}
target: {{kind: {kind}, name: {name}}}
"""


def test_commands_close_and_open_queues_and_suspend_jobs(terminal: Terminal) -> None:
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
        "submit -", command_object("AbortJob", "Job", "runs", "lab")
    )
    terminal.ok("advance 1m")
    (runs,) = terminal.json("get jobs")["jobs"]
    assert runs["phase"] == "Aborted"
    # Whoever may write into a namespace has no right to queues by that.
    refused = terminal.ok("submit -", command_object("OpenQueue", "Queue", "dept", "lab"))
    assert (
        "OpenQueue dept refused: Commands of namespace lab do not open or close queues; those of " in refused
    )
    states = {one["name"]: one["state"] for one in terminal.json("get queues")["queues"]}
    assert states["dept"] == "Closed"
    lost = terminal.refused("submit -", command_object("CloseQueue", "Queue", "nowhere"))
    assert 'CloseQueue: queue "nowhere" not found' in lost
    wrong = terminal.refused("submit -", command_object("CloseQueue", "Node", "n1"))
    assert 'target.kind: Invalid value: "Node": must be Job or Queue' in wrong

"""One program, one set of commands, three sources; and what a command may change."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from ringwise.apps.lab.client import LabClient
from ringwise.apps.sources.cluster import ClusterSource
from ringwise.apps.sources.files import FilesSource
from ringwise.apps.sources.lab import LabSource
from ringwise.apps.sources.protocol import QuerySource
from ringwise.cli.commands import cli, plugin
from ringwise.cli.inputs import read_files
from ringwise.kubeclient.config import direct
from ringwise.manifests.bundle import Bundle
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.scheduler.defaults import default_configuration
from ringwise.state.limits import UsageLimit
from ringwise.state.model import Isolation, NodeReservation
from ringwise.views.kinds import BY_PLURAL
from tests.checkout import ROOT
from tests.cli.command_tree import command_paths
from tests.device.test_commands import kubeconfig
from tests.event_loop import run
from tests.examples import sample
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import GROUPS, LEASES, NODES, PODS, QUEUES, group, lease, node, pod
from tests.lab.rig import Terminal, nodes, running
from tests.tools.documents import field_paths

HYPER_NODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
#: Every question, as it is typed.
QUESTIONS = (
    *(f"get {kind}" for kind in BY_PLURAL),
    "describe node node-1",
    "describe job gang",
    "describe queue default",
    "describe pod gang-0",
    "describe hypernode leaf",
    "top --once",
    "why gang",
    "capacity",
    "topology show",
    "fault list",
    "drain node-1 --plan",
    "report --idle",
)
#: Those that files cannot answer.
NOT_OF_FILES = ("drain", "report")


def command_at(root: click.Command, path: str) -> click.Command:
    for word in path.split()[1:]:
        assert isinstance(root, click.Group)
        found = root.get_command(click.Context(root), word)
        assert found is not None
        root = found
    return root


# -- one set of commands


def test_no_command_is_defined_twice() -> None:
    """`kubectl ringwise` has the very objects of `ringwise`, and no function serves two commands."""
    paths = list(command_paths())
    assert len(paths) == len(set(paths)) >= 38
    assert list(command_paths(plugin, "ringwise")) == paths
    assert [path for path in paths if command_at(cli, path) is not command_at(plugin, path)] == []
    callbacks = [command_at(cli, path).callback for path in paths]
    assert len(callbacks) == len(set(callbacks))


@pytest.mark.parametrize("name", ["scheduler", "controller", "admission", "chips list"])
def test_a_command_has_one_name(name: str) -> None:
    ran = CliRunner().invoke(cli, [*name.split(), "--help"])
    assert (ran.exit_code, f"No such command '{name.split()[0]}'" in ran.stderr) == (2, True)


def test_every_command_on_a_cluster_takes_what_kubectl_takes() -> None:
    wanted = {"-n", "--namespace", "-A", "--all-namespaces", "--context", "--kubeconfig"}
    lacking = {}
    for path in command_paths():
        known = {name for one in command_at(cli, path).params for name in one.opts}
        # What only a lab has, or only a cluster and its own namespace, is left as it is; so is what is about
        # all namespaces together.
        only = ("run", "web", "submit", "delete", "fault inject", "fault clear")
        whole = ("support-bundle", "report")
        if "--kubeconfig" in known and not path.removeprefix("ringwise ").startswith((*only, *whole)):
            lacking[path] = wanted - known
    assert len(lacking) >= 14
    assert {path: lacks for path, lacks in lacking.items() if lacks} == {}


# -- one protocol


def test_three_sources_answer_one_protocol() -> None:
    """The type checker compares the signatures."""
    catalog, configuration = shipped_catalog(), default_configuration()
    sources: list[QuerySource] = [
        FilesSource(Bundle(), configuration, catalog),
        LabSource(LabClient(Path("/absent"))),
        ClusterSource(direct("http://absent"), catalog),
    ]
    asked = {name for name, _ in inspect.getmembers(QuerySource, inspect.isfunction) if name[0] != "_"}
    assert {"get", "describe", "why", "place"} <= asked
    assert [asked - set(dir(source)) for source in sources] == [set()] * 3


def objects() -> dict[str, list[dict[str, Any]]]:
    """Two nodes of a HyperNode with a pod that runs and a gang that does not fit."""
    chips = ",".join(f"Ascend910-{chip}" for chip in range(4))
    member = {"type": "Node", "selector": {"regexMatch": {"pattern": "^node-"}}}
    gang = [pod(name, 8, group="gang") for name in ("gang-0", "gang-1")]
    return {
        NODES: [node("node-1"), node("node-2")],
        QUEUES: [{"metadata": {"name": "default"}}],
        GROUPS: [group("gang", 2)],
        PODS: [pod("runs", 4, on="node-1", held=chips), *gang],
        HYPER_NODES: [{"metadata": {"name": "leaf"}, "spec": {"tier": 1, "members": [member]}}],
    }


async def test_files_lab_and_cluster_answer_with_the_same_documents(tmp_path: Path) -> None:
    kinds = {
        NODES: ("v1", "Node"),
        QUEUES: ("scheduling.volcano.sh/v1beta1", "Queue"),
        GROUPS: ("scheduling.volcano.sh/v1beta1", "PodGroup"),
        PODS: ("v1", "Pod"),
        HYPER_NODES: ("topology.volcano.sh/v1alpha1", "HyperNode"),
    }
    file = tmp_path / "objects.json"
    lines = [
        json.dumps({"apiVersion": kinds[path][0], "kind": kinds[path][1], **one})
        for path, found in objects().items()
        for one in found
    ]
    file.write_text("\n".join(lines))
    lab = tmp_path / "lab"

    def compare(config: str) -> None:
        with running(lab, nodes(0)):
            Terminal(lab).ok(f"submit {file}")
            for question in sample([*QUESTIONS], 3):
                found = {}
                for source in (f"-f {file}", f"--lab {lab}", f"--kubeconfig {config}"):
                    if question.startswith(NOT_OF_FILES) and source.startswith("-f"):
                        continue
                    ran = CliRunner().invoke(cli, shlex.split(f"{question} {source} -o json"))
                    assert ran.exit_code == 0, (question, source, ran.output)
                    found[source] = json.loads(ran.stdout)
                    drawn = CliRunner(env={"COLUMNS": "80"}).invoke(cli, shlex.split(f"{question} {source}"))
                    if question != "topology show":
                        assert drawn.exit_code == 0, (question, source, drawn.output)
                        assert max(map(len, drawn.stdout.splitlines())) <= 80
                assert len({document["schema"] for document in found.values()}) == 1
                # What a lab alone knows, and objects as they are stored, have no fields that are promised.
                paths = [_promised(field_paths(document)) for document in found.values()]
                assert all(one == paths[0] for one in paths), question
                if question in ("get nodes", "why gang", "capacity", "topology show", "fault list"):
                    first, *others = (_decided(document) for document in found.values())
                    assert all(other == first for other in others), question

    async with FakeApiServer() as api:
        for path, found in objects().items():
            for one in found:
                api.put(path, one)
        api.put(LEASES, lease())
        config = kubeconfig(tmp_path, api.url)
        await asyncio.to_thread(compare, config)


def _promised(paths: set[str]) -> set[str]:
    free = ("object", "container", "additions", "environment", "annotations", "status.commands")
    return {path for path in paths if not path.startswith(free)}


def _decided(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != "now"}


def test_a_name_is_looked_for_in_its_namespace(tmp_path: Path) -> None:
    def prepare(api: FakeApiServer) -> None:
        api.put(NODES, node("node-1"))
        for namespace in ("t", "u"):
            api.put(PODS, {**pod("f1", 1), "metadata": {"name": "f1", "namespace": namespace}})

    (one, both, near, listed, all_of, outside), _ = on_cluster(
        tmp_path,
        prepare,
        "why f1 -n t -o json",
        "why f1 -A",
        "why f1",
        "get jobs -n t -o json",
        "get jobs -A -o json",
        "describe pod f1 -n v",
    )
    assert (one.exit_code, json.loads(one.stdout)["namespace"]) == (0, "t")
    assert both.exit_code == 2
    assert "2 jobs are named f1; use one of t/f1, u/f1" in both.stderr
    assert 'job "default/f1" not found; did you mean u/f1 or t/f1?' in near.stderr
    assert [job["namespace"] for job in json.loads(listed.stdout)["jobs"]] == ["t"]
    assert len(json.loads(all_of.stdout)["jobs"]) == 2
    assert outside.exit_code == 2


def test_a_cluster_is_asked_about_the_namespace_of_the_context(tmp_path: Path) -> None:
    def prepare(api: FakeApiServer) -> None:
        for namespace in ("default", "u"):
            api.put(PODS, {**pod("f1", 1), "metadata": {"name": "f1", "namespace": namespace}})

    (jobs, po, one, described, everywhere, none), _ = on_cluster(
        tmp_path,
        prepare,
        "get -o name",
        "get po -o name",
        "get po u/f1 -o name",
        "describe po f1 -o json",
        "get po f1 -A",
        "get po f2",
    )
    assert [jobs.stdout, po.stdout, one.stdout] == ["default/f1\n", "default/f1\n", "u/f1\n"]
    assert json.loads(described.stdout)["namespace"] == "default"
    assert "use one of default/f1, u/f1" in everywhere.stderr
    assert (none.exit_code, none.stdout) == (2, "")
    assert 'pod "default/f2" not found; did you mean "default/f1"?' in none.stderr


def test_place_is_a_what_if_on_a_lab(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    with running(tmp_path, nodes(2)):
        terminal = Terminal(tmp_path)
        job = root / "examples/jobs/01-one-chip.yaml"
        alone = terminal.json(f"place -f {job}")["jobs"]
        there = terminal.json(f"place -f {job} --lab {tmp_path}")["jobs"]
        assert [one["state"] for one in alone] == ["pending"]
        assert [(one["state"], one["pods"][0]["node"]) for one in there] == [("scheduled", "node-0")]
        assert "scheduled" in terminal.ok(f"place -f {job} --lab {tmp_path} --scores")
        assert terminal.json("get jobs")["jobs"] == []


# -- what a command may change


def on_cluster(
    tmp_path: Path,
    prepare: Callable[[FakeApiServer], object],
    *commands: str,
    root: click.Command = plugin,
    by_option: bool = True,
    lab: Path = Path("/absent"),
) -> tuple[list[Result], FakeApiServer]:
    """Run commands where KUBECONFIG names a cluster; with `by_option` they name it, too."""
    results: list[Result] = []
    servers: list[FakeApiServer] = []

    async def test() -> None:
        async with FakeApiServer() as api:
            prepare(api)
            servers.append(api)
            config = kubeconfig(tmp_path, api.url)
            runner = CliRunner(env={**os.environ, "KUBECONFIG": config, "RINGWISE_LAB": str(lab)})
            for command in commands:
                words = [*shlex.split(command), *(["--kubeconfig", config] if by_option else [])]
                results.append(await asyncio.to_thread(runner.invoke, root, words))

    run(test())
    return results, servers[0]


CHANGES = (
    *("cordon node-0", "uncordon node-0"),
    *("reserve node-0 --for queue=default --to 1h --name r --yes", "unreserve r"),
    *("drain node-0 --yes", "drain node-0 --at 1h"),
    *("isolate node-0 --reason 'x y'", "unisolate node-0"),
)


def one_node(api: FakeApiServer) -> None:
    api.put(NODES, node("node-0"))


def test_a_kubeconfig_that_is_only_there_is_no_target(tmp_path: Path) -> None:
    """Who practises in a shell with a kubeconfig changed production: nothing is even asked there."""
    results, api = on_cluster(tmp_path, one_node, *CHANGES, root=cli, by_option=False)
    for command, ran in zip(CHANGES, results, strict=True):
        assert (ran.exit_code, ran.stdout) == (2, "")
        assert f"kubectl ringwise {command}" in ran.stderr
    assert api.requests == []


def test_a_lab_that_runs_is_the_target(tmp_path: Path) -> None:
    lab = tmp_path / "lab"
    with running(lab, nodes(1)):
        results, api = on_cluster(tmp_path, one_node, *CHANGES, root=cli, by_option=False, lab=lab)
    for ran in results:
        assert ran.exit_code == 0, ran.output
        assert "cluster" not in ran.stderr
    assert api.requests == []


@pytest.mark.parametrize(("root", "by_option"), [(cli, True), (plugin, False), (plugin, True)])
def test_a_cluster_that_was_chosen_is_the_target_and_is_named(
    root: click.Command, by_option: bool, tmp_path: Path
) -> None:
    lab = tmp_path / "lab"
    with running(lab, nodes(1)):
        results, api = on_cluster(tmp_path, one_node, *CHANGES, root=root, by_option=by_option, lab=lab)
        assert Terminal(lab).json("get nodes")["nodes"][0]["state"] == "ready"
    for ran in results:
        assert ran.exit_code == 0, ran.output
        assert ran.stderr.splitlines()[0] == f"cluster x ({api.url})"
    assert api.count("PATCH /api/v1/nodes/node-0") == 2
    assert api.count("POST /apis/ringwise.io/v1alpha1/isolations") == 1


def test_nodes_of_a_cluster_are_cordoned(tmp_path: Path) -> None:
    (done, again, unknown), api = on_cluster(
        tmp_path, one_node, "cordon node-0", "cordon node-0 -o json", "cordon node-9"
    )
    assert done.stdout == "node node-0 cordoned\n"
    assert api.get(NODES, "node-0")["spec"]["unschedulable"] is True
    assert json.loads(again.stdout)["action"] == "cordon"
    assert (unknown.exit_code, unknown.stderr.splitlines()[1:]) == (
        2,
        ['ringwise: node "node-9" not found'],
    )


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("get jobs", 2),
        ("why x", 2),
        ("doctor", 2),
        ("drain node-0 --yes", 2),
        ("get chips", 1),
        ("cordon x", 1),
    ],
)
def test_a_server_that_does_not_answer_is_one_line_and_the_code_of_before(
    command: str, code: int, tmp_path: Path
) -> None:
    config = kubeconfig(tmp_path, "http://127.0.0.1:1")
    ran = CliRunner().invoke(plugin, [*command.split(), "--kubeconfig", config])
    assert (ran.exit_code, ran.stdout) == (code, ""), ran.output
    assert ran.stderr.splitlines()[-1].startswith("ringwise: ")
    assert len(ran.stderr.splitlines()) == (2 if command.startswith(("drain", "cordon")) else 1)


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        ("fault inject chip node-0 3", "inject requires a lab; its hardware is simulated"),
        ("fault clear --all", "clear requires a lab; its hardware is simulated"),
    ],
)
def test_what_only_a_lab_has_says_so(command: str, instead: str, tmp_path: Path) -> None:
    (ran,), api = on_cluster(tmp_path, one_node, command)
    assert (ran.exit_code, ran.stderr) == (2, f"ringwise: {instead}\n")
    assert api.requests == []


WANTED = """
apiVersion: ringwise.io/v1alpha1
kind: Isolation
metadata: {name: fan}
spec: {node: node-0, chips: [Ascend910-3]}
---
apiVersion: ringwise.io/v1alpha1
kind: NodeReservation
metadata: {name: night}
spec: {superPod: 3, holder: {queue: default}, endTime: "2099-01-01T00:00:00Z"}
---
apiVersion: ringwise.io/v1alpha1
kind: UsageLimit
metadata: {name: few}
spec:
  subject: {queue: "*", user: "*"}
  hard: {requests.huawei.com/Ascend910: 8, cpu: 1500m, runningJobs: 2}
  maxRunTime: 1.5h
"""
OPERATOR_KINDS = "/apis/ringwise.io/v1alpha1"
PLAN = ROOT / "examples" / "defrag" / "plan.yaml"


def test_custom_resources_are_submitted_to_a_cluster_and_deleted(tmp_path: Path) -> None:
    file = tmp_path / "wanted.yaml"
    file.write_text(WANTED)
    submit = f"submit {file}"
    commands = (
        f"{submit} --dry-run",
        submit,
        submit,
        f"create -f {file}",
        f"delete -f {file}",
        submit,
        "delete isolation --all",
    )
    ran, api = on_cluster(
        tmp_path, one_node, *commands, "delete usagelimit gone few", "delete usagelimit few"
    )
    assert [one.exit_code for one in ran] == [0, 0, 0, 1, 0, 0, 0, 2, 0], [one.stderr for one in ran]
    assert ran[0].stdout.splitlines()[0].endswith("created (dry run)")
    assert {line.split()[-1] for line in ran[1].stdout.splitlines()} == {"created"}
    assert {line.split()[-1] for line in ran[2].stdout.splitlines()} == {"changed"}
    created = ran.pop(3)
    assert created.stdout == ""
    assert "already exists; to change it: kubectl ringwise apply -f FILE" in created.stderr
    assert sorted(ran[3].stdout.split()[::3]) == ["isolation", "reservation", "usagelimit"]
    # Of objects of which one does not exist none is deleted.
    assert ran[6].stderr.endswith("ringwise: there is no usagelimit gone\n")
    assert ran[7].stdout == "usagelimit few deleted\n"
    assert api.all(f"{OPERATOR_KINDS}/isolations") == api.all(f"{OPERATOR_KINDS}/usagelimits") == []
    (night,) = api.all(f"{OPERATOR_KINDS}/nodereservations")
    assert night["spec"] == {
        "superPod": 3,
        "holder": {"queue": "default"},
        "endTime": "2099-01-01T00:00:00Z",
    }


def test_what_is_submitted_is_what_the_manifests_say(tmp_path: Path) -> None:
    file = tmp_path / "wanted.yaml"
    file.write_text(WANTED)
    _, api = on_cluster(tmp_path, one_node, f"submit {file}")
    kinds = ("isolations", "nodereservations", "usagelimits")
    stored = [one for kind in kinds for one in api.all(f"{OPERATOR_KINDS}/{kind}")]
    again = "---\n".join(
        yaml.safe_dump({**one, "metadata": {"name": one["metadata"]["name"]}}) for one in stored
    )
    (tmp_path / "again.yaml").write_text(again)
    first, second = (read_files((str(path),), keep_going=False) for path in (file, tmp_path / "again.yaml"))
    assert not second.errors
    for kind in (Isolation, NodeReservation, UsageLimit):
        assert first.of(kind) == second.of(kind) != []


def test_what_a_manifest_no_longer_has_is_removed(tmp_path: Path) -> None:
    file, less = tmp_path / "wanted.yaml", tmp_path / "less.yaml"
    file.write_text(WANTED)
    limit, plan = yaml.safe_load(WANTED.split("---")[2]), yaml.safe_load(PLAN.read_text())
    limit["spec"] = {"subject": {"queue": "*"}, "hard": {"runningJobs": 2}}
    shorter = {**plan, "spec": {key: one for key, one in plan["spec"].items() if key[:3] != "ttl"}}
    less.write_text(yaml.safe_dump_all([limit, shorter]))

    def with_plan(api: FakeApiServer) -> None:
        one_node(api)
        # As kubectl creates it.
        api.put(f"{OPERATOR_KINDS}/moveplans", plan)

    ran, api = on_cluster(tmp_path, with_plan, f"submit {file}", f"submit {less}")
    assert [one.exit_code for one in ran] == [0, 0], [one.stderr for one in ran]
    assert [one["spec"] for one in api.all(f"{OPERATOR_KINDS}/usagelimits")] == [
        {"subject": {"queue": "*"}, "hard": {"runningJobs": "2"}}
    ]
    assert [one["spec"] for one in api.all(f"{OPERATOR_KINDS}/moveplans")] == [shorter["spec"]]


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (
            "submit {file}",
            "only NodeReservation, Isolation, UsageLimit, MovePlan can be submitted to a cluster",
        ),
        (
            "delete job x",
            "reservation, isolation, usagelimit, moveplan can be deleted in a cluster; job: kubectl",
        ),
    ],
)
def test_a_cluster_takes_no_other_kinds(command: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    meta = {"name": "x", "namespace": "default"}
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Node", "metadata": meta}))
    (ran,), api = on_cluster(tmp_path, one_node, command.format(file=file))
    assert ran.exit_code == 2
    assert problem in ran.stderr
    assert api.requests == []


@pytest.mark.parametrize("typed", ["versio", "event", "drian", "delet", "submti", "instal", "suspnd"])
def test_no_command_that_changes_something_is_suggested(typed: str) -> None:
    said = CliRunner().invoke(cli, [typed]).stderr
    assert f"'{typed}'" in said
    suggested = re.findall(r'did you mean "([a-z-]+)"', said)
    assert not [name for name in suggested if cli.entries[name].changes]


@pytest.mark.parametrize("typed", ["drian", "sbmit", "uncordn"])
def test_nothing_is_suggested_for_a_misspelled_command_that_changes_something(typed: str) -> None:
    assert "did you mean" not in CliRunner().invoke(cli, [typed]).stderr


def test_the_commands_that_change_something() -> None:
    changing = {name for name, entry in cli.entries.items() if entry.changes}
    assert {"delete", "drain", "submit", "cordon", "run", "fault"} <= changing
    assert not changing & {"why", "get", "describe", "top", "doctor", "place", "capacity", "report"}
    near = CliRunner().invoke(cli, ["doctr"]).stderr
    assert 'did you mean "doctor"' in near

"""Every document that a command prints names its schema, and keeps to it."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from ringwise.cli.commands import cli, plugin
from ringwise.views.kinds import BY_NAME, BY_PLURAL, BY_WORD
from ringwise.views.schemas import (
    DOCUMENTS,
    PRINT_KUBERNETES_OBJECTS,
    DocumentKind,
    find_kind,
    json_schema,
    schema_text,
)
from ringwise_bench import decide
from ringwise_bench.report import at_least, shown
from tests.cli.command_tree import command_paths
from tests.deploy.test_live import small_cluster
from tests.device.test_commands import kubeconfig
from tests.examples import sample
from tests.golden_files import same_as_golden
from tests.kube.fake_api_server import FakeApiServer
from tests.kube.harness import CONFIG_MAPS, PODS
from tests.lab.rig import Terminal, job, running
from tests.tools.schemas import check_document

ROOT = Path(__file__).parents[2]
CLUSTER = f"-f {ROOT}/examples/cluster.yaml -f {ROOT}/examples/jobs"
#: Commands of the lab in an order in which all of them succeed.
IN_THE_LAB = {
    "ringwise submit": "submit -",
    "ringwise get nodes": "get nodes",
    "ringwise get jobs": "get jobs",
    "ringwise get queues": "get queues",
    "ringwise get pods": "get pods",
    "ringwise describe node": "describe node node-0",
    "ringwise describe job": "describe job train",
    "ringwise describe queue": "describe queue default",
    "ringwise describe pod": "describe pod train-worker-0",
    "ringwise top": "top",
    "ringwise report --idle": "report --idle",
    "ringwise why --history": "why train --history",
    "ringwise events": "events",
    "ringwise events --for": "events --for train",
    "ringwise history": "history train",
    "ringwise fault inject": "fault inject chip node-0 3",
    "ringwise fault list": "fault list",
    "ringwise report": "report",
    "ringwise fault clear": "fault clear --all",
    "ringwise cordon": "cordon node-0",
    "ringwise uncordon": "uncordon node-0",
    "ringwise defrag --plan": "defrag --plan",
    "ringwise reserve --plan": "reserve 1 --for queue=default --from 2h --to 3h --plan",
    "ringwise reserve": "reserve 1 --for queue=default --from 2h --to 3h --name night --yes",
    "ringwise get isolations": "get isolations",
    "ringwise describe isolation": "describe isolation",
    "ringwise get moveplans": "get moveplans",
    "ringwise get reservations": "get reservations",
    "ringwise get usagelimits": "get usagelimits",
    "ringwise get hypernodes": "get hypernodes",
    "ringwise describe moveplan": f"describe moveplan train-5b0cd2800d -f {ROOT}/examples/defrag",
    "ringwise describe hypernode": f"describe hypernode s4 -f {ROOT}/examples/hypernodes/cluster.yaml",
    "ringwise describe chip": "describe chip node-0/Ascend910-3",
    "ringwise describe reservation": "describe reservation night",
    "ringwise describe usagelimit": f"describe usagelimit team-a -f {ROOT}/examples/limits/cluster.yaml",
    "ringwise unreserve": "unreserve night",
    "ringwise drain --plan": "drain node-0 --plan",
    "ringwise drain": "drain node-0 --yes",
    "ringwise requeue": "requeue train --queue default",
    "ringwise suspend": "suspend train",
    "ringwise resume": "resume train",
    "ringwise defrag --apply": "defrag --apply --yes",
    "ringwise advance": "advance 1h",
    "ringwise delete": "delete job train",
}
ON_FILES = {
    "ringwise bench": "bench decide",
    "ringwise boards": "boards",
    "ringwise boards list": "boards list",
    "ringwise boards show": "boards show a3-x16",
    "ringwise capacity": f"capacity {CLUSTER}",
    "ringwise limits": f"limits -f {ROOT}/examples/limits/cluster.yaml",
    "ringwise config check": "config check conf",
    "ringwise defrag --plan": f"defrag --plan -f {ROOT}/examples/defrag/cluster.yaml",
    "ringwise doctor": f"doctor {CLUSTER}",
    "ringwise drill": f"drill {ROOT}/examples/drills/chip-fault-pod-level.yaml",
    "ringwise simulate": "simulate mix.yaml",
    "ringwise place": f"place --scores --journal journal {CLUSTER}",
    "ringwise replay": "replay journal",
    "ringwise device-plugin check": "device-plugin check --simulated-chips chips.json",
    "ringwise report --shadow": "report --shadow shadow.jsonl",
    "ringwise support-bundle": f"support-bundle bundle.tar.gz {CLUSTER}",
    "ringwise version": "version",
    "ringwise topology show": f"topology show -f {ROOT}/examples/switches/common-first.yaml",
    "ringwise why": f"why large-gang {CLUSTER}",
}
ON_A_CLUSTER = {
    "ringwise get chips": "get chips",
    "ringwise capacity": "capacity",
    "ringwise describe job": "describe job gang",
    "ringwise describe node": "describe node node-1",
    "ringwise describe pod": "describe pod gang-0",
    "ringwise describe queue": "describe queue default",
    "ringwise doctor": "doctor",
    "ringwise fault list": "fault list",
    "ringwise get jobs": "get jobs",
    "ringwise get nodes": "get nodes",
    "ringwise get pods": "get pods",
    "ringwise get queues": "get queues",
    "ringwise place": f"place -f {ROOT}/examples/jobs/01-one-chip.yaml",
    "ringwise top": "top",
    "ringwise topology show": "topology show",
    "ringwise why": "why gang",
    "ringwise cordon": "cordon node-1",
    "ringwise uncordon": "uncordon node-1",
    "ringwise reserve --plan": "reserve node-1 --for queue=default --from 2h --to 3h --plan",
    "ringwise get isolations": "get isolations",
    "ringwise get moveplans": "get moveplans",
    "ringwise get reservations": "get reservations",
    "ringwise get usagelimits": "get usagelimits",
    "ringwise get hypernodes": "get hypernodes",
    "ringwise drain --plan": "drain node-1 --plan",
    "ringwise drain": "drain node-1 --yes",
}


def test_every_command_that_prints_json_is_in_the_table() -> None:
    """A new command with `-o json`, or a new kind of `get` and `describe`, needs a document with a schema."""
    named = {command for kind in DOCUMENTS for command in kind.commands}
    # An option may choose another document.
    named = {command.partition(" --")[0] for command in named}
    assert named == set(commands_with_json()) - {"ringwise topology import", "ringwise options"}
    assert set(PRINT_KUBERNETES_OBJECTS) == {"ringwise topology import"}


def commands_with_json() -> Iterator[str]:
    for path in command_paths():
        command = _command(cli, path.removeprefix("ringwise").split())
        formats = [choice for option in command.params if "-o" in option.opts for choice in _choices(option)]
        if "json" in formats:
            yield from (f"{path}{kind}" for kind in _kinds(command))


def _command(root: click.Command, words: list[str]) -> click.Command:
    for word in words:
        assert isinstance(root, click.Group)
        found = root.get_command(click.Context(root), word)
        assert found is not None
        root = found
    return root


def _kinds(command: click.Command) -> list[str]:
    """`get` and `describe` print another document for every kind."""
    (kinds,) = [_choices(one) for one in command.params if one.name == "kind"] or [[]]
    if command.name not in ("get", "describe"):
        return [""]
    plural = command.name == "get"
    assert set(kinds) <= set(BY_WORD)
    return [f" {kind}" for kind in kinds if kind in (BY_PLURAL if plural else BY_NAME)]


def _choices(parameter: click.Parameter) -> list[str]:
    return [str(choice) for choice in getattr(parameter.type, "choices", ())]


def test_a_change_of_a_schema_is_seen_in_a_review() -> None:
    """After a wanted change: RINGWISE_WRITE_GOLDEN=1 pytest tests/cli/test_schemas.py"""
    hashes = (f"{kind.name} {sha256(schema_text(kind).encode()).hexdigest()[:16]}" for kind in DOCUMENTS)
    same_as_golden("schemas", "\n".join(hashes))


@pytest.mark.parametrize("kind", sample(DOCUMENTS), ids=lambda kind: kind.name)
def test_a_schema_is_valid(kind: DocumentKind) -> None:
    Draft202012Validator.check_schema(json_schema(kind))


@pytest.mark.parametrize("kind", DOCUMENTS, ids=lambda kind: kind.name)
def test_a_document_has_a_version_and_a_summary(kind: DocumentKind) -> None:
    assert kind.schema == f"ringwise.io/{kind.name}/v1"
    assert kind.summary.endswith(".")


def test_schemas_are_in_order_and_no_two_have_one_name() -> None:
    assert [kind.name for kind in DOCUMENTS] == sorted({kind.name for kind in DOCUMENTS})


def test_the_check_finds_a_wrong_a_missing_and_an_undeclared_field() -> None:
    good = {"schema": "ringwise.io/advance/v1", "now": 1}
    assert check_document(good) == "ringwise.io/advance/v1"
    for bad in ({**good, "now": "1"}, {"schema": good["schema"]}, {**good, "more": 1}):
        with pytest.raises(AssertionError, match=re.escape("ringwise.io/advance/v1")):
            check_document(bad)
    with pytest.raises(LookupError, match=r'schema "ringwise[.]io/other/v1" not found'):
        check_document({"schema": "ringwise.io/other/v1"})


# -- every command once ----------------------------------------------------------------------------


def test_every_command_is_run_here() -> None:
    assert {*IN_THE_LAB, *ON_FILES, *ON_A_CLUSTER} == {one for kind in DOCUMENTS for one in kind.commands}


def named_by(command: str) -> str:
    (schema,) = [kind.schema for kind in DOCUMENTS if command in kind.commands]
    return schema


def assert_prints(command: str, ran: Result) -> None:
    assert ran.stdout, (command, ran.output, ran.exception)
    assert check_document(json.loads(ran.stdout)) == named_by(command)


def test_documents_about_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chips.json").write_text("{}")
    compared = {"event": "placed", "time": "2026-01-31T10:00:00Z", "outcome": "same", "pod": "team/a"}
    (tmp_path / "shadow.jsonl").write_text(json.dumps(compared))
    (tmp_path / "conf").write_text('actions: "enqueue, allocate"\ntiers:\n- plugins: [{name: gang}]\n')
    mix = (ROOT / "examples/simulations/mix.yaml").read_text(encoding="utf-8")
    assert "jobs: 300" in mix
    (tmp_path / "mix.yaml").write_text(mix.replace("jobs: 300", "jobs: 20"))
    figures = [at_least("speed-up", 2.0, "x", 1.0), shown("decision", 1.5, "us")]
    monkeypatch.setattr(decide, "run", lambda full: figures)
    for command, words in ON_FILES.items():
        arguments = shlex.split(f"{words} -o json")
        assert_prints(command, CliRunner().invoke(cli, arguments))


def test_documents_of_the_lab(tmp_path: Path) -> None:
    with running(tmp_path):
        terminal = Terminal(tmp_path)
        for command, words in IN_THE_LAB.items():
            given = job("train", 2, 8) if words == "submit -" else None
            assert_prints(command, terminal.run(f"{words} -o json", given))
        terminal.submit(job("short", minutes=1))
        terminal.ok("advance 2h")
        assert terminal.json("why short")["state"] == "finished"


async def test_documents_about_a_cluster(tmp_path: Path) -> None:
    async with FakeApiServer() as api:
        small_cluster(api)
        api.remove(CONFIG_MAPS, "kube-system/basic-tor-node-cm")
        api.remove(PODS, "default/odd")
        config = kubeconfig(tmp_path, api.url)
        for command, words in ON_A_CLUSTER.items():
            for root in sample((plugin, cli), 2):
                arguments = shlex.split(f"{words} -o json --kubeconfig {config}")
                ran = await asyncio.to_thread(CliRunner().invoke, root, arguments)
                assert_prints(command, ran)


# -- the command -----------------------------------------------------------------------------------


def test_schemas_are_listed_and_printed() -> None:
    listed = CliRunner().invoke(cli, ["schema"])
    assert listed.exit_code == 0
    assert all(kind.schema in listed.stdout for kind in DOCUMENTS)
    for name in ("why", "ringwise.io/why/v1"):
        assert CliRunner().invoke(cli, ["schema", name]).stdout == schema_text(find_kind("why"))
    wrong = CliRunner().invoke(cli, ["schema", "wy"])
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert 'schema "wy" not found; must be one of' in wrong.stderr

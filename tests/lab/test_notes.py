"""Numbers 13 and 20: mistakes in manifests and broken plugins are told by every command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders.objects import node, pod, pod_spec, vcjob
from tests.lab.rig import Terminal, nodes, running

NOTE = 'note: stdin: document 2: spec.minAvailble: unknown field, not read; did you mean "minAvailable"?'
HIGH = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 10,
}
BROKEN = "plugin quiet takes no part: it has no license"


def text(*objects: dict[str, Any]) -> str:
    return "\n---\n".join(map(json.dumps, objects))


@pytest.mark.parametrize("command", ["place -f -", "why job -f -", "capacity -f -", "doctor -f -"])
def test_every_command_that_reads_files_tells_unknown_fields(command: str, tmp_path: Path) -> None:
    wrong = vcjob("job", [("worker", 1, pod_spec(1))], minAvailble=2)
    ran = Terminal(tmp_path).run(command, text(node("n1", devices=range(8)), wrong))
    assert ran.exit_code == 0, ran.output
    assert NOTE in ran.stderr.splitlines()
    assert "note:" not in ran.stdout


def test_unknown_priority_classes_are_told_by_submit_and_for_bare_pods(tmp_path: Path) -> None:
    wrong = pod("alone", {**pod_spec(1), "priorityClassName": "hihg"})
    told = 'priorityClassName: PriorityClass "hihg" not found; its priority is 0; did you mean "high"?'
    terminal = Terminal(tmp_path)
    assert told in terminal.run("place -f -", text(HIGH, node("n1"), wrong)).stderr
    with running(tmp_path, nodes(1)):
        terminal.ok("submit -", text(HIGH))
        ran = terminal.run("submit - -o json", text(wrong))
        assert ran.exit_code == 0, ran.output
        assert told in ran.stderr
        assert "notes" not in json.loads(ran.stdout)
        right = pod("other", {**pod_spec(1), "priorityClassName": "high"})
        assert "PriorityClass" not in terminal.run("submit -", text(right)).stderr


@pytest.mark.parametrize(
    "command",
    ["get nodes", "get jobs", "top", "why job", "describe job job", "capacity", "doctor", "cordon node-0"],
)
def test_clients_of_a_lab_repeat_what_is_wrong_with_its_plugins(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(1)):
        monkeypatch.setattr("ringwise.apps.lab.api.plugin_problems", lambda: [BROKEN])
        ran = terminal.run("submit -", text(vcjob("job", [("worker", 1, pod_spec(1))])))
        assert ran.stderr.count(f"warning: {BROKEN}") == 1
        ran = terminal.run(command)
        assert ran.exit_code == 0, ran.output
        assert ran.stderr.count(f"warning: {BROKEN}") == 1
        assert BROKEN not in ran.stdout


def test_the_configuration_of_the_input_is_used_unless_another_is_given(tmp_path: Path) -> None:
    conf = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n"
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"},
        "data": {"volcano-scheduler.conf": conf},
    }
    given = text(node("n1", devices=range(8)), config_map, vcjob("job", [("worker", 1, pod_spec(1))]))
    terminal = Terminal(tmp_path)
    assert terminal.json("place -f -", given)["jobs"][0]["reason"]["code"] == "no-chip-plugin"
    assert terminal.json("why job -f -", given)["reason"]["code"] == "no-chip-plugin"
    other = tmp_path / "other.conf"
    other.write_text("actions: allocate\ntiers: [{plugins: [{name: gang}, {name: topology910}]}]\n")
    assert terminal.json(f"place -f - --config {other}", given)["jobs"][0]["state"] == "scheduled"
    broken = {**config_map, "data": {"volcano-scheduler.conf": "actions: alocate"}}
    assert "alocate" in terminal.refused("place -f -", text(node("n1"), broken))


def test_an_error_names_the_option_that_skips_it(tmp_path: Path) -> None:
    said = Terminal(tmp_path).refused("place -f -", text({"apiVersion": "v1", "kind": "Node", "metadata": 3}))
    assert said.splitlines()[-1].endswith(" (--keep-going goes on without it)")


def test_a_priority_class_that_is_not_obeyed_is_told_by_place_why_describe_and_doctor(
    tmp_path: Path,
) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": "vcjob"},
        "spec": {
            "hard": {"pods": "0"},
            "scopeSelector": {
                "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
            },
        },
    }
    job = vcjob("job", [("worker", 1, pod_spec(1))], priorityClassName="high")
    told = "priority class high is not used: ResourceQuota vcjob/none allows 0 of pods for it"
    terminal = Terminal(tmp_path)
    assert told in terminal.run("place -f -", text(HIGH, quota, node("n1"), job)).stderr
    with running(tmp_path, nodes(1)):
        terminal.ok("submit -", text(HIGH, quota, job))
        for command in ("why job", "describe job job", "doctor"):
            shown = " ".join(terminal.run(command).stdout.split())
            assert told in shown, command
        document = json.loads(terminal.run("describe job job -o json").stdout)
        assert document["priority"] == 0
        assert document["notes"][0].startswith(told)

"""`ringwise config check`: every line of a configuration, explained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ringwise.cli.commands import cli
from ringwise.versions import LEADER_RECORD_VERSION

SAMPLES = Path(__file__).parents[1] / "samples" / "configurations"


def check(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["config", "check", *arguments], input=given)


def test_volcanos_configuration_line_by_line() -> None:
    answer = check(str(SAMPLES / "volcano-ci.conf"))
    assert answer.exit_code == 0
    lines = answer.output.splitlines()
    assert any("plugin sla" in line and "works" in line for line in lines)
    assert any("plugin network-topology-aware" in line and "works" in line for line in lines)
    assert lines[-1].endswith("volcano-ci.conf: valid, with 1 warning")


@pytest.mark.parametrize(
    ("text", "code", "last"),
    [
        ("actions: allocate", 0, "stdin: valid"),
        ("actions: elect, allocate", 0, "stdin: valid, with 1 warning"),
        ("actions: dance", 2, "stdin: 1 error: the scheduler rejects this file"),
        ("", 2, "stdin: 1 error: the scheduler rejects this file"),
        ("networkTopologyDiscovery: []", 0, "stdin: valid"),
        ("networkTopologyDiscovery: 7", 2, "stdin: 1 error: the controller rejects this file"),
        ("networkTopologyDiscovry: []", 2, "stdin: 1 error: the controller rejects this file"),
    ],
)
def test_the_exit_code_says_whether_it_is_taken(text: str, code: int, last: str) -> None:
    answer = check("-", given=text)
    assert answer.exit_code == code
    assert answer.output.splitlines()[-1] == last


def test_a_config_map_is_read_too_and_json_has_every_line() -> None:
    text = "kind: ConfigMap\ndata:\n  volcano-scheduler.conf: |\n    actions: allocate, reserve\n"
    document = json.loads(check("-", "-o", "json", given=text).output)
    assert document["valid"] is True
    assert document["warnings"] == 1
    assert [(line["line"], line["subject"], line["result"]) for line in document["lines"]] == [
        (4, "action allocate", "works"),
        (4, "action reserve", "warning"),
    ]


CONTROLLER = """
kind: ConfigMap
data:
  volcano-controller.conf: |
    networkTopologyDiscovery:
    - source: label
      enabled: true
      config:
        networkTopologyTypes:
          A3: [{nodeLabel: example.com/rack}, {nodeLabel: kubernetes.io/hostname}]
          B3: [{nodeLabel: example.com/rack}, {nodeLabel: kubernetes.io/hostname}]
"""
SCHEDULER = "---\nkind: ConfigMap\ndata:\n  volcano-scheduler.conf: |\n    actions: allocate\n"
MADE = (10, "topology type A3", "works", "creates HyperNodes of tier 1 from example.com/rack")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (CONTROLLER, [MADE]),
        # Two parts that do nothing without each other.
        (
            CONTROLLER + SCHEDULER,
            [
                (
                    4,
                    "networkTopologyDiscovery",
                    "warning",
                    "HyperNodes are made, and no plugin network-topology-aware places jobs by them",
                ),
                MADE,
                (16, "action allocate", "works", "places the pods of admitted jobs"),
            ],
        ),
        (
            CONTROLLER.replace("enabled: true", "enabled: perhaps"),
            [
                (
                    7,
                    "networkTopologyDiscovery[0].enabled",
                    "error",
                    'Invalid value: "perhaps": must be true or false',
                )
            ],
        ),
    ],
    ids=["alone", "with the scheduler's", "wrong"],
)
def test_the_config_map_of_the_controller(text: str, lines: list[tuple[int, str, str, str]]) -> None:
    found = json.loads(check("-", "-o", "json", given=text).output)["lines"]
    told = [tuple(line[key] for key in ("line", "subject", "result", "effect")) for line in found]
    # That of type B3, which has the label of A3.
    assert [line for line in told if not line[1].endswith(".B3")] == lines


def test_the_config_map_of_the_controller_with_the_plugin_that_uses_it() -> None:
    plugin = "    tiers: [{plugins: [{name: network-topology-aware}]}]\n"
    assert "HyperNodes are made" not in check("-", given=CONTROLLER + SCHEDULER + plugin).output


def test_a_file_that_is_not_there() -> None:
    answer = check("absent.conf")
    assert answer.exit_code == 2
    assert answer.stderr == "absent.conf: No such file or directory\n"


def test_commands_that_read_a_configuration_print_its_warnings(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    conf.write_text("actions: enqueue, elect, allocate")
    cluster = Path(__file__).parents[2] / "examples"
    answer = CliRunner().invoke(
        cli, ["place", "--config", str(conf), "-f", str(next(cluster.rglob("*.yaml")))]
    )
    assert f"warning: {conf}: line 1: actions: Ringwise has no action elect: replaced by" in answer.stderr


def test_the_version_names_the_commit_of_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "unknown (not built from a release)" in CliRunner().invoke(cli, ["version"]).stdout
    (tmp_path / "commit.txt").write_text("0123abcd\n")
    monkeypatch.setattr("ringwise.versions.__file__", str(tmp_path / "versions.py"))
    document = json.loads(CliRunner().invoke(cli, ["version", "-o", "json"]).stdout)
    assert document["commit"] == "0123abcd"
    assert document["schemas"]["leader record"] == f"v{LEADER_RECORD_VERSION}"


def test_advanced_options_are_listed_in_one_place() -> None:
    listed = CliRunner().invoke(cli, ["options"]).stdout
    helped = CliRunner().invoke(cli, ["describe", "--help"]).stdout
    for option in (
        "--now",
        "--board-file",
        "--keep-going",
        "--config",
        "--context",
        "--namespace",
        "--output",
    ):
        assert (option in listed, option in helped) == (True, False)
    assert "ringwise options" in helped

"""The package of `docs/develop/plugins.md`: installed as it shows, and run through `ringwise place`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from ringwise.framework import extension_points
from ringwise.framework.extension_points import EXTENSION_POINTS, ExtensionPoint

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "develop" / "plugins.md").read_text(encoding="utf-8")
#: The files of the page, by name.
FILES: dict[str, str] = dict(re.findall(r"^`([\w./-]+)`:\n\n```\w+\n(.*?)^```$", PAGE, re.M | re.S))
PACKAGE = ("pyproject.toml", "ringwise_reserved_nodes.py")

#: Wrong arguments, and what is said of them.
WRONG = {
    "reserved-nodes.priority: high": (
        'arguments[reserved-nodes.priority]: "high" is not allowed; allowed: a whole number'
    ),
    "reserved-nodes.priorities: 5": ("unknown argument; allowed: reserved-nodes.priority, "),
    "reserved-nodes.label: 'a b'": (
        'arguments[reserved-nodes.label]: "a b" is not allowed: it has characters that no label '
        "has; allowed: a label key"
    ),
}
CONFIGURATION = FILES["volcano-scheduler.conf"]
#: What one process is asked, one after the other: `ringwise place` with options and a configuration.
ASKED = {
    "as shown": (["--scores", "-o", "json"], CONFIGURATION),
    "another priority": (["-o", "json"], CONFIGURATION.replace("priority: 500", "priority: 0")),
    **{wrong: ([], CONFIGURATION.replace("reserved-nodes.priority: 500", wrong)) for wrong in WRONG},
}
PROGRAM = """
import json, sys
from pathlib import Path
from click.testing import CliRunner
from ringwise.cli.commands import cli

answers = {}
for name, (options, configuration) in json.load(sys.stdin).items():
    Path("used.conf").write_text(configuration, encoding="utf-8")
    ran = CliRunner().invoke(cli, ["place", "-f", "cluster.yaml", "--config", "used.conf", *options])
    answers[name] = (ran.exit_code, ran.stdout, ran.stderr)
json.dump(answers, sys.stdout)
"""
#: Exit code, output and errors.
Answer = tuple[int, str, str]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answer]:
    """Installs the wheel of the package, and runs `ringwise place` with it on the cluster of the page."""
    folder = tmp_path_factory.mktemp("third-party")
    for name, text in FILES.items():
        where = folder / ("package" if name in PACKAGE else "") / name
        where.parent.mkdir(exist_ok=True)
        where.write_text(text, encoding="utf-8")
    site = folder / "site"
    build = "from setuptools.build_meta import build_wheel; print(build_wheel('..'))"
    built = subprocess.run(
        [sys.executable, "-c", build], cwd=folder / "package", capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    with ZipFile(folder / built.stdout.splitlines()[-1]) as wheel:
        wheel.extractall(site)
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT / "src")])},
        input=json.dumps(ASKED),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return {name: (code, out, err) for name, (code, out, err) in json.loads(ran.stdout).items()}


def test_the_page_has_the_files() -> None:
    assert set(FILES) == {*PACKAGE, "volcano-scheduler.conf", "cluster.yaml"}


@pytest.mark.full
@pytest.mark.process
def test_the_plugin_of_the_page_refuses_a_node_with_its_reason(answers: dict[str, Answer]) -> None:
    code, out, err = answers["as shown"]
    assert code == 0, err
    (job,) = json.loads(out)["jobs"]
    (pod,) = job["pods"]
    assert (job["state"], pod["node"]) == ("scheduled", "node-2")
    refused = {one["node"]: one["reason"] for one in pod["candidates"] if not one["accepted"]}
    assert refused["node-1"]["code"] == "example-node-reserved"
    assert refused["node-1"]["message"] in PAGE.replace("\n", " ")


@pytest.mark.full
@pytest.mark.process
def test_an_argument_of_the_plugin_of_the_page_changes_the_decision(answers: dict[str, Answer]) -> None:
    _, out, _ = answers["another priority"]
    assert json.loads(out)["jobs"][0]["pods"][0]["node"] == "node-1"


@pytest.mark.full
@pytest.mark.process
@pytest.mark.parametrize("wrong", WRONG)
def test_arguments_of_the_plugin_of_the_page_are_checked(answers: dict[str, Answer], wrong: str) -> None:
    code, _, err = answers[wrong]
    line = CONFIGURATION.splitlines().index("      reserved-nodes.priority: 500") + 1
    assert code == 2
    assert f"line {line}: tiers[1].plugins[5].arguments" in err
    assert WRONG[wrong] in err


def test_the_page_names_every_extension_point() -> None:
    constants = {name for name, value in vars(extension_points).items() if isinstance(value, ExtensionPoint)}
    assert len(constants) == len(EXTENSION_POINTS)
    table = PAGE.split("## Extension points")[1]
    assert set(re.findall(r"`([A-Z_]+)`", table.split("\n\n`PREDICATE` and")[0])) == constants

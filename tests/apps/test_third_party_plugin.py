"""The package of `docs/develop/plugins.md`: installed as it shows, and run through `ringwise place`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ringwise.framework import extension_points
from ringwise.framework.extension_points import EXTENSION_POINTS, ExtensionPoint

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "develop" / "plugins.md").read_text(encoding="utf-8")
#: The files of the page, by name.
FILES: dict[str, str] = dict(re.findall(r"^`([\w./-]+)`:\n\n```\w+\n(.*?)^```$", PAGE, re.M | re.S))
PACKAGE = ("pyproject.toml", "ringwise_reserved_nodes.py")

Place = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Installs the package, and runs `ringwise place` with it on the cluster of the page."""
    folder = tmp_path_factory.mktemp("third-party")
    for name, text in FILES.items():
        where = folder / ("package" if name in PACKAGE else "") / name
        where.parent.mkdir(exist_ok=True)
        where.write_text(text, encoding="utf-8")
    site = folder / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    pip += ["--no-deps", "--no-build-isolation", "--target", str(site), str(folder / "package")]
    installed = subprocess.run(pip, capture_output=True, text=True, check=False)
    assert installed.returncode == 0, installed.stderr
    paths = [str(site), str(ROOT / "src")]

    def run(*options: str, configuration: str = FILES["volcano-scheduler.conf"]) -> Any:
        (folder / "used.conf").write_text(configuration, encoding="utf-8")
        command = [sys.executable, "-c", "from ringwise.cli.main import main; main()", "place"]
        command += ["-f", "cluster.yaml", "--config", "used.conf"]
        return subprocess.run(
            [*command, *options],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_the_page_has_the_files() -> None:
    assert set(FILES) == {*PACKAGE, "volcano-scheduler.conf", "cluster.yaml"}


@pytest.mark.process
def test_the_plugin_of_the_page_refuses_a_node_with_its_reason(place: Place) -> None:
    done = place("--scores", "-o", "json")
    assert done.returncode == 0, done.stderr
    (job,) = json.loads(done.stdout)["jobs"]
    (pod,) = job["pods"]
    assert (job["outcome"], pod["node"]) == ("placed", "node-2")
    refused = {one["node"]: one["reason"] for one in pod["candidates"] if not one["accepted"]}
    assert refused["node-1"]["code"] == "example-node-reserved"
    assert refused["node-1"]["message"] in PAGE.replace("\n", " ")


@pytest.mark.process
def test_an_argument_of_the_plugin_of_the_page_changes_the_decision(place: Place) -> None:
    configuration = FILES["volcano-scheduler.conf"].replace("priority: 500", "priority: 0")
    done = place("-o", "json", configuration=configuration)
    assert json.loads(done.stdout)["jobs"][0]["pods"][0]["node"] == "node-1"


@pytest.mark.process
@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (
            "reserved-nodes.priority: high",
            "reserved-nodes.priority: 'high' is not allowed; allowed: a whole number",
        ),
        (
            "reserved-nodes.priorities: 5",
            "unknown argument 'reserved-nodes.priorities'; "
            "allowed: reserved-nodes.priority, reserved-nodes.label",
        ),
        (
            "reserved-nodes.label: 'a b'",
            "reserved-nodes.label: 'a b' is not allowed: it has characters that no label has; "
            "allowed: a label key",
        ),
    ],
)
def test_arguments_of_the_plugin_of_the_page_are_checked(place: Place, wrong: str, error: str) -> None:
    text = FILES["volcano-scheduler.conf"]
    done = place(configuration=text.replace("reserved-nodes.priority: 500", wrong))
    line = text.splitlines().index("      reserved-nodes.priority: 500") + 1
    assert done.returncode == 2
    assert f"line {line}: tiers[1].plugins[5].arguments" in done.stderr
    assert error in done.stderr


def test_the_page_names_every_extension_point() -> None:
    constants = {name for name, value in vars(extension_points).items() if isinstance(value, ExtensionPoint)}
    assert len(constants) == len(EXTENSION_POINTS)
    table = PAGE.split("## Extension points")[1]
    assert set(re.findall(r"`([A-Z_]+)`", table.split("\n\n`PREDICATE` and")[0])) == constants

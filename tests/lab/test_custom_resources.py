"""Objects of ringwise.io in a lab: the manifests that a cluster takes are submitted, listed and deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_one_command_line import PLAN, WANTED
from tests.lab.rig import Terminal, nodes, running

#: By kind: the name in the manifests, and whether it can be in force in a lab with two nodes.
NAMES = {
    "isolation": ("fan", True),
    "reservation": ("night", False),
    "usagelimit": ("few", False),
    "moveplan": ("train-5b0cd2800d", True),
}


def listed(terminal: Terminal, kind: str) -> list[str]:
    """Those that are listed, and those that are named as problems."""
    document = terminal.json(f"get {kind}s")
    problems = [one.partition(":")[0] for one in document.get("problems", ())]
    return [*(one["name"] for one in document[f"{kind}s"]), *problems]


@pytest.mark.parametrize("deletion", ["by file", "by name", "all"])
def test_all_kinds_are_submitted_and_deleted_also_if_they_are_not_in_force(
    deletion: str, tmp_path: Path
) -> None:
    file, terminal = tmp_path / "wanted.yaml", Terminal(tmp_path)
    file.write_text(f"{WANTED}---\n{PLAN.read_text()}")
    with running(tmp_path, nodes(2)):
        # Without a time, the reservation begins when it is submitted.
        for done in (["created"] * 4, ["unchanged", "changed", "unchanged", "unchanged"]):
            said = terminal.ok(f"submit {file}")
            assert [line.split()[-1] for line in said.splitlines() if line] == done
        for kind, (name, in_force) in NAMES.items():
            assert listed(terminal, kind) == [name]
            assert bool(terminal.json(f"get {kind}s")[f"{kind}s"]) == in_force
        if deletion == "by file":
            terminal.ok(f"delete -f {file}")
        for kind, (name, _) in NAMES.items():
            if deletion != "by file":
                terminal.ok(f"delete {kind} {'--all' if deletion == 'all' else name}")
            assert listed(terminal, kind) == []
            assert "not found" in terminal.refused(f"delete {kind} {name}")
    # And files are read as a lab is.
    for kind, (name, in_force) in NAMES.items():
        rows = terminal.json(f"get {kind}s -f {file}")[f"{kind}s"]
        assert [one["name"] for one in rows] == [name] * in_force

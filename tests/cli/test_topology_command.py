"""`ringwise topology`: the import command and the drawing."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

from click.testing import CliRunner

from ringwise.cli.printers.topology import draw_switches
from ringwise.cli.query.topology import topology_command
from ringwise.views.documents.topology import SwitchFields, SwitchNodeFields
from ringwise_bench.docs.switches_page import drawn_page


def test_import_writes_the_config_map(tmp_path: Path) -> None:
    listed = tmp_path / "list.csv"
    listed.write_text("10.0.0.1,a\n10.0.0.1,b\n10.0.0.2,c\n")
    command = ["import", str(listed), "--leaf-size", "4", "--level", "single_layer", "-o", "json"]
    ran = CliRunner().invoke(topology_command, command)
    assert ran.exit_code == 0
    data = json.loads(ran.stdout)["data"]
    assert data["tor_level"] == "single_layer"
    assert json.loads(data["tor_info"])["tor_count"] == 4
    assert "tor_info: |" in CliRunner().invoke(topology_command, ["import", str(listed)]).stdout


def test_import_says_what_is_wrong(tmp_path: Path) -> None:
    ran = CliRunner().invoke(topology_command, ["import", "-"], input="s,a\nt,a\nt,b\n")
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert ran.stderr == "stdin: server a is listed under switches s and t; the first one is used\n"
    missing = str(tmp_path / "nothing.csv")
    ran = CliRunner().invoke(topology_command, ["import", missing])
    assert (ran.exit_code, ran.stderr) == (2, f"{missing}: cannot be read: no such file or directory\n")
    ran = CliRunner().invoke(topology_command, ["import", "-", "--leaf-size", "1"], input="s,a\ns,b\n")
    assert ran.exit_code == 2
    assert "lists 2 servers, more than tor_count (1)" in ran.stderr


def switch_node(
    name: str, position: int, *, free: bool = False, jobs: tuple[str, ...] = ()
) -> SwitchNodeFields:
    return SwitchNodeFields(node=name, position=position, free=free, faulty=False, jobs=list(jobs))


def switch(ip: str, state: str, servers: int, *nodes: SwitchNodeFields) -> SwitchFields:
    free = sum(node.free for node in nodes)
    return SwitchFields(
        ip=ip, state=state, healthy=True, faulty=False, free_nodes=free, servers=servers, nodes=list(nodes)
    )


def test_drawing() -> None:
    train = ("train",)
    first = switch_node("n1", 0, jobs=train), switch_node("n2", 1, free=True)
    second = switch_node("n3", 0, jobs=train), switch_node("n4", 1)
    shown = [switch("10.0.0.1", "exclusive", 3, *first), switch("10.0.0.2", "shared", 2, *second)]
    assert draw_switches(shown) == (
        "10.0.0.1  exclusive        A . -  1 of 2 free\n"
        "10.0.0.2  shared, healthy  A x    0 of 2 free\n"
        "\n"
        "A train, . free, x not free, - no node of the cluster\n"
    )


ROOT = Path(__file__).parents[2]


def test_show_draws_an_input() -> None:
    file = str(ROOT / "examples/switches/common-fallback.yaml")
    settings = str(ROOT / "examples/switches/version-2.0-shared-1.conf")
    ran = CliRunner().invoke(topology_command, ["show", "-f", file, "--config", settings])
    assert ran.stdout == (
        "leaf-1  idle               . . . .  4 of 4 free\n"
        "leaf-2  shared, unhealthy  A A A .  1 of 4 free\n"
        "leaf-3  shared, unhealthy  A A A A  0 of 4 free\n"
        "leaf-4  shared, healthy    B . . .  3 of 4 free\n"
        "\n"
        "A default/a, B default/b, . free, x not free\n"
    )
    ran = CliRunner().invoke(topology_command, ["show", "-f", file, "--config", settings, "-o", "json"])
    assert [row["healthy"] for row in json.loads(ran.stdout)["switches"]] == [True, False, False, True]


def test_show_without_a_topology(tmp_path: Path) -> None:
    node = tmp_path / "node.yaml"
    node.write_text("{apiVersion: v1, kind: Node, metadata: {name: node-1}}\n")
    ran = CliRunner().invoke(topology_command, ["show", "-f", str(node)])
    assert ran.exit_code == 2
    assert "no valid ConfigMap kube-system/basic-tor-node-cm and no SuperPoD IDs" in ran.stderr


def test_the_drawings_of_the_page_are_what_the_examples_give() -> None:
    """After a change: make docs"""
    page = (ROOT / "docs" / "concepts" / "switches.md").read_text()
    assert page.count("drawn from") == len(list((ROOT / "examples/switches").glob("*.yaml")))
    assert drawn_page(page, ROOT) == page
    assert "leaf-3  exclusive  a a . .  ->  a a 4 5  shared" in page


def test_the_examples_are_what_their_drawings_say() -> None:
    made = runpy.run_path(str(ROOT / "examples/switches/make.py"))
    for name, example in made["EXAMPLES"].items():
        _, _, written = (ROOT / f"examples/switches/{name}.yaml").read_text().partition("\n")
        assert written == "---\n".join(made["documents"](example))

"""Reading, resolving and writing leaf-switch topologies, valid and invalid (S10)."""

from __future__ import annotations

import pytest
import yaml

from ringwise.manifests.config_maps.switch_lists import render_tor_configmap, topology_from_list
from ringwise.manifests.config_maps.switches import read_topology, topology_of_config_map
from ringwise.manifests.text.errors import ManifestError
from ringwise.topology.switches import Server, resolve
from tests.topology.tor_info import info


def codes(text: str) -> list[str]:
    return [problem.code for problem in read_topology(text, None, "cm").problems]


def test_reads_the_config_map() -> None:
    topology = read_topology(info(("s1", ["a", "b"]), ("s0", ["c"])), "single_layer", "cm")
    assert [switch.ip for switch in topology.switches] == ["s1", "s0"]
    assert topology.switches[0].servers[1] == Server("b", 1, 1)
    assert (topology.nodes_per_switch, topology.single_layer, topology.problems) == (2, True, ())
    assert not read_topology(info(("s", ["a"])), "double_layer", "cm").single_layer


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (info(("s", ["a", "b", "c"])), ["switch-too-many-servers"]),
        (info(("s", ["a"]), ("t", ["a", "b"])), ["server-under-two-switches"]),
        (info(("s", ["a"]), ("s", ["b"])), ["switch-listed-twice"]),
        (info(("s", [])), ["switch-without-servers"]),
        (info(), ["switch-topology-empty"]),
        (info(("s", ["a"]), tor_count=0), ["switch-tor-count-invalid"]),
        (info(("s", ["a"]), tor_count=-3), ["switch-tor-count-invalid"]),
        ("{}", ["switch-topology-empty"]),
    ],
)
def test_invalid_topologies_are_problems_S10(text: str, expected: list[str]) -> None:
    assert codes(text) == expected


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{", "cm: data.tor_info: must be valid JSON; input data was truncated"),
        ("[]", "cm: data.tor_info: Invalid value: a list: must be an object"),
        ('{"tor_count": "4"}', 'cm: data.tor_info.tor_count: Invalid value: "4": must be a whole number'),
        (
            '{"server_list": [{"tor_ip": 7}]}',
            "cm: data.tor_info.server_list[0].tor_ip: Invalid value: 7: must be a string; put it in quotes",
        ),
        (
            '{"server_list": [{"tor_ip": "s", "server": [{"slice_id": 0}]}]}',
            "cm: data.tor_info.server_list[0].server[0].server_ip: Required value",
        ),
    ],
)
def test_unreadable_topologies_are_one_line_S10(text: str, line: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read_topology(text, None, "cm")
    assert str(caught.value) == line
    broken = topology_of_config_map({"tor_info": text}, "cm")
    assert broken.unusable is not None
    assert line in broken.unusable.message


def test_deep_json_and_a_missing_key_are_no_crash_S10() -> None:
    deep = topology_of_config_map({"tor_info": '{"server_list":' + "[" * 100_000}, "cm")
    assert deep.unusable is not None
    missing = topology_of_config_map({}, "cm")
    assert missing.unusable is not None
    assert "data.tor_info: Required value" in missing.unusable.message


def test_servers_that_are_no_nodes_are_skipped_and_reported_S10() -> None:
    topology = read_topology(info(("s", ["a", "b"]), ("t", ["c"])), None, "cm")
    resolved = resolve(topology, {"b": "node-b", "c": "node-c"})
    assert [[server.node for server in row] for row in resolved.nodes] == [["node-b"], ["node-c"]]
    assert resolved.server_of["node-b"].index == 1
    assert (resolved.switch_name("node-c"), resolved.switch_name("node-x")) == ("t", None)
    assert [problem.message for problem in resolved.problems] == [
        "cm: 1 of 3 servers is not a node of the cluster: a"
    ]
    # A node with two addresses is under the switch that is listed first, and under no other.
    resolved = resolve(topology, {"b": "node", "c": "node"})
    assert [[server.node for server in row] for row in resolved.nodes] == [["node"], []]
    assert (resolved.switch_of, resolved.server_of["node"].server_ip) == ({"node": 0}, "b")


def test_a_repeated_switch_continues_its_indexes_S10() -> None:
    topology = read_topology(info(("s", ["a", "b"]), ("t", ["c"]), ("s", ["d"]), tor_count=4), None, "cm")
    assert [(s.ip, [(v.server_ip, v.index) for v in s.servers]) for s in topology.switches] == [
        ("s", [("a", 0), ("b", 1), ("d", 2)]),
        ("t", [("c", 0)]),
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("list.csv", "switch,server\n10.0.0.1,a\n10.0.0.1,b\n# note\n\n10.0.0.2,c\n"),
        ("list.csv", "10.0.0.1, a\n10.0.0.1, b\n10.0.0.2, c"),
        ("list.csv", "rack,server_ip,tor_ip\n1,a,10.0.0.1\n1,b,10.0.0.1\n2,c,10.0.0.2\n"),
        ("stdin", "10.0.0.1,a\n10.0.0.1,b\n10.0.0.2,c\n"),
        ("list.yaml", "10.0.0.1: [a, b]\n10.0.0.2: [c]\n"),
        ("list.yaml", "switches:\n- {switch: 10.0.0.1, servers: [a, b]}\n- {switch: 10.0.0.2, server: c}\n"),
        (
            "stdin",
            "- {switch: 10.0.0.1, server: a}\n- {leaf: 10.0.0.1, server: b}\n- {leaf: 10.0.0.2, server: c}\n",
        ),
    ],
)
def test_lists_become_config_maps(name: str, text: str) -> None:
    topology = topology_from_list(text, name, 4, single_layer=True)
    manifest = yaml.safe_load(render_tor_configmap(topology))
    assert manifest["metadata"] == {"name": "basic-tor-node-cm", "namespace": "kube-system"}
    again = read_topology(manifest["data"]["tor_info"], manifest["data"]["tor_level"], name)
    assert again == topology
    assert [(s.ip, [v.server_ip for v in s.servers]) for s in again.switches] == [
        ("10.0.0.1", ["a", "b"]),
        ("10.0.0.2", ["c"]),
    ]
    assert topology_from_list(text, name).nodes_per_switch == 2


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("l.csv", "a,b\nc\n", 'l.csv: line 2: Invalid value: "c": must have a switch and a server'),
        ("l.csv", "a,b\n,d\n", 'l.csv: line 2: Invalid value: ",d": must have a switch and a server'),
        ("l.csv", "switch,rack\na,b\n", "l.csv: line 1: the header does not have the column server"),
        ("l.csv", 'a,"b\n', "l.csv: line 1: invalid CSV"),
        ("l.csv", "\n", "l.csv: does not list servers"),
        ("l.yaml", "a: b\n", 'l.yaml: a: Invalid value: "b": must be a list of server addresses'),
        ("l.yaml", "- 5\n", "l.yaml: [0]: Invalid value: 5: must be an object with switch and server"),
        (
            "l.yaml",
            "- {switch: a, servers: [1]}\n",
            "l.yaml: [0].server[0]: Invalid value: 1: must be a string",
        ),
        ("l.yaml", "a: [b\n", "l.yaml: document 1: line 2: invalid YAML"),
        (
            "l.yaml",
            "just text\n",
            'l.yaml: Invalid value: "just text": must be a list of rows or a map of switches',
        ),
    ],
)
def test_bad_lists_are_one_clear_line(name: str, text: str, line: str) -> None:
    with pytest.raises(ManifestError) as caught:
        topology_from_list(text, name)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)

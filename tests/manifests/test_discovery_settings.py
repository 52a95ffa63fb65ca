"""`networkTopologyDiscovery`: Volcano's format is read, and what is wrong is told with line and field."""

from __future__ import annotations

import pytest

from ringwise.manifests.kinds import discovery_from_data
from ringwise.manifests.settings.discovery import read_discovery
from ringwise.manifests.text.errors import DocumentError, Findings
from ringwise.state.topology_discovery import NO_DISCOVERY, TopologyDiscovery, TopologyType
from ringwise.wellknown import CONTROLLER_CONFIG_KEY

#: As Volcano's documents show it.
EXAMPLE = """
networkTopologyDiscovery:
  - source: ufm
    enabled: true
    interval: 10m
    credentials:
      secretRef: {name: ufm-credentials, namespace: volcano-system}
    config:
      endpoint: https://ufm-server:8080
      insecureSkipVerify: true
  - source: roce
    enabled: false
    interval: 15m
    config:
      endpoint: https://roce-server:9090
  - source: label
    enabled: true
    config:
      networkTopologyTypes:
        A2:
          - nodeLabel: volcano.sh/tor
          - nodeLabel: kubernetes.io/hostname
        A3:
          - nodeLabel: volcano.sh/hypercluster
          - nodeLabel: volcano.sh/hypernode
          - nodeLabel: kubernetes.io/hostname
"""
_WHERE = "networkTopologyDiscovery[0].config.networkTopologyTypes"


def types(text: str) -> str:
    """A source `label` with these types."""
    lines = "".join(f"        {line}\n" for line in text.strip("\n").splitlines())
    return (
        "networkTopologyDiscovery:\n  - source: label\n    enabled: true\n    config:\n"
        f"      networkTopologyTypes:\n{lines}"
    )


def one(name: str, *labels: str) -> str:
    listed = "".join(f"  - nodeLabel: {label}\n" for label in (*labels, "kubernetes.io/hostname"))
    return f"{name}:\n{listed}"


def test_the_types_of_the_source_label_with_the_lowest_tier_first() -> None:
    read = read_discovery(EXAMPLE, "conf")
    assert read.enabled
    assert read.types == (
        TopologyType("A2", ("volcano.sh/tor",)),
        TopologyType("A3", ("volcano.sh/hypernode", "volcano.sh/hypercluster")),
    )
    assert read.warnings == (
        "conf: line 3: networkTopologyDiscovery[0]: the source ufm is not supported and has no effect; "
        "allowed: label",
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "networkTopologyDiscovery:",
        "networkTopologyDiscovery: []",
        "networkTopologyDiscovery: [{source: label, enabled: false, config: }]",
        "networkTopologyDiscovery: [{source: label}]",
    ],
)
def test_it_is_off_unless_it_is_turned_on(text: str) -> None:
    assert read_discovery(text, "") == NO_DISCOVERY


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (one("a" * 21, "x"), "the name has 21 characters and is not allowed; allowed: up to 20 letters"),
        (one('"a b"', "x"), "the name has 3 characters and is not allowed"),
        (one("-a", "x"), "the name has 2 characters and is not allowed"),
        (one("B", "x", "y", "x"), "has the label x twice; allowed: once"),
        (
            "B: [{nodeLabel: x}]",
            "its last label is not kubernetes.io/hostname; allowed: labels from the",
        ),
        ("B: []", "its last label is not kubernetes.io/hostname"),
        (one("B"), "has no label but kubernetes.io/hostname; allowed: one label for each tier before it"),
        (one("B", *(f"l{number}" for number in range(20))), "has 21 labels; allowed: up to 16"),
        (one("B", "ringwise.io/topology-type"), "has the label ringwise.io/topology-type, which says what"),
        (one("B", "good"), "has the label good of type good, so nodes would be in two HyperNodes"),
        (one("GOOD", "x"), "its HyperNodes would be named like those of good; allowed: names that differ"),
    ],
)
def test_a_type_that_cannot_be_used_is_left_out_and_told(text: str, told: str) -> None:
    read = read_discovery(types(one("good", "good") + text), "")
    assert read.types == (TopologyType("good", ("good",)),)
    (warning,) = read.warnings
    assert warning.startswith("line 9: networkTopologyDiscovery[0].config.networkTopologyTypes")
    assert told in warning
    assert warning.endswith("; the type is ignored")
    assert len(read.skipped) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "conf: line 1: Invalid value: a list: must be an object"),
        ("a: [", "conf: line 2: invalid YAML in column 1"),
        ("networkTopologyDiscovry: []", "conf: line 1: networkTopologyDiscovry: unknown field; allowed:"),
        (
            "networkTopologyDiscovery: {a: b}",
            "line 1: networkTopologyDiscovery: Invalid value: an object: must be a list",
        ),
        (
            "networkTopologyDiscovery:\n- label",
            'line 2: networkTopologyDiscovery[0]: Invalid value: "label": must be an object',
        ),
        (
            "networkTopologyDiscovery:\n- enabled: true",
            "line 2: networkTopologyDiscovery[0].source: Required value",
        ),
        (
            "networkTopologyDiscovery:\n- source: labels",
            'networkTopologyDiscovery[0].source: Invalid value: "labels": must be one of label, ufm, roce',
        ),
        (
            "networkTopologyDiscovery:\n- source: label\n  enabled: 3",
            "line 3: networkTopologyDiscovery[0].enabled: Invalid value: 3: must be true or false",
        ),
        (
            "networkTopologyDiscovery:\n- source: label\n  interval: soon",
            'line 3: networkTopologyDiscovery[0].interval: Invalid value: "soon": must be a duration',
        ),
        (
            "networkTopologyDiscovery:\n- source: label\n  enable: true",
            "line 3: networkTopologyDiscovery[0].enable: unknown field; allowed:",
        ),
        (
            "networkTopologyDiscovery:\n- {source: label, enabled: true}\n- {source: label, enabled: true}",
            "line 3: networkTopologyDiscovery[1]: at most one source label can be enabled",
        ),
        (
            "networkTopologyDiscovery:\n- {source: label, enabled: true, config: {types: {}}}",
            "networkTopologyDiscovery[0].config.types: unknown field; allowed: networkTopologyTypes",
        ),
        (types("A: x"), f'line 6: {_WHERE}.A: Invalid value: "x": must be a list'),
        (types("A: [x]"), f'line 6: {_WHERE}.A[0]: Invalid value: "x": must be an object'),
        (types("A: [null]"), f"line 6: {_WHERE}.A[0]: Invalid value: null: must be an object"),
        (
            types("A: [{nodelabel: x}]"),
            f'line 6: {_WHERE}.A[0].nodelabel: unknown field; allowed: nodeLabel; did you mean "nodeLabel"?',
        ),
        (
            types("A: [{nodeLabel: a b}]"),
            f'line 6: {_WHERE}.A[0].nodeLabel: Invalid value: "a b": must be the key of a label',
        ),
        (types("A: []\nA: []"), 'line 7: the key "A" is repeated in one mapping'),
        (
            types("".join(f"t{number}: []\n" for number in range(65))),
            f"{_WHERE}: has 65 types; allowed: up to 64",
        ),
    ],
)
def test_a_wrong_text_is_refused_with_line_and_what_is_allowed(text: str, message: str) -> None:
    with pytest.raises(DocumentError) as error:
        read_discovery(text, "conf")
    assert message in str(error.value)


def test_what_has_no_effect_is_told() -> None:
    (warning,) = read_discovery("sharding: {}", "").warnings
    assert warning == "line 1: sharding: unknown field, has no effect; allowed: networkTopologyDiscovery"
    (warning,) = read_discovery("networkTopologyDiscovery: [{source: label, enabled: true}]", "").warnings
    assert "has no type, so no HyperNode is created" in warning


def test_the_config_map_is_refused_with_its_key() -> None:
    found = Findings("volcano-system/volcano-controller-configmap")
    assert discovery_from_data({}, found) == NO_DISCOVERY
    assert discovery_from_data({CONTROLLER_CONFIG_KEY: "networkTopologyDiscovery: 3"}, found) == NO_DISCOVERY
    assert [str(error) for error in found.errors] == [
        "volcano-system/volcano-controller-configmap: data.volcano-controller.conf: Required value",
        "volcano-system/volcano-controller-configmap: data.volcano-controller.conf: line 1: "
        "networkTopologyDiscovery: Invalid value: 3: must be a list",
    ]
    good = discovery_from_data({CONTROLLER_CONFIG_KEY: EXAMPLE}, Findings(""))
    assert isinstance(good, TopologyDiscovery)
    assert good.enabled

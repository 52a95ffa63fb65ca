"""Configuration files: their meaning, and the error of each mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ringwise.framework.arguments import integer
from ringwise.framework.configuration import Configuration, PluginOption, Settings
from ringwise.framework.registry import PluginSpec
from ringwise.framework.session import Session
from ringwise.manifests.settings.configuration import read_configuration
from ringwise.plugins.binpack import WEIGHT, resource_weights
from ringwise.plugins.nodeorder import LEAST_REQUESTED, MOST_REQUESTED
from ringwise.plugins.predicates import NODE_PORTS
from ringwise.scheduler.defaults import BUILT_IN, default_configuration
from ringwise_bench.docs.settings_reference import settings_parts
from tests.framework.settings_by_name import value_of
from tests.manifests.configuration_samples import (
    DOCUMENT_BROKEN,
    DOCUMENT_CONFIG_MAP,
    DOCUMENT_TIERS,
    VENDOR_1_9,
    VENDOR_1_12,
    problems,
    says_what_is_allowed,
)

VECTOR_FOLDER = Path(__file__).parents[1] / "vectors"
VECTORS = json.loads((VECTOR_FOLDER / "config.json").read_text(encoding="utf-8"))
SUPERPOD_RULES = json.loads((VECTOR_FOLDER / "superpod_rules.json").read_text(encoding="utf-8"))


def with_settings(arguments: dict[str, Any]) -> str:
    return json.dumps({"configurations": [{"name": "init-params", "arguments": arguments}]})


def names(configuration: Configuration) -> list[list[str]]:
    return [[plugin.name for plugin in tier.plugins] for tier in configuration.tiers]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_worked_cases(vector: dict[str, Any]) -> None:
    text = with_settings(vector["config"])
    if vector["expect"].get("error"):
        assert len(problems(text)) == 1
        return
    settings = read_configuration(text, "my.conf", BUILT_IN).settings
    assert {name: value_of(settings, name) for name in vector["expect"]} == vector["expect"]


@pytest.mark.parametrize("case", SUPERPOD_RULES["config_vectors"], ids=lambda case: json.dumps(case["in"]))
def test_worked_superpod_settings(case: dict[str, Any]) -> None:
    text = with_settings(case["in"])
    if case.get("error"):
        (problem,) = problems(text)
        assert "allowed: " in str(problem)
        return
    settings = read_configuration(text, "my.conf", BUILT_IN).settings
    assert (settings.super_pod_size, settings.reserve_nodes) == (case["super_pod_size"], case["reserve"])
    assert settings.superpod_packing == "whole-job"


def test_the_config_map_of_the_documents() -> None:
    configuration = read_configuration(DOCUMENT_CONFIG_MAP, "my.yaml", BUILT_IN)
    assert configuration.actions == ("enqueue", "allocate", "backfill")
    assert names(configuration) == [["priority", "gang", "conformance", "topology910"]]


def test_the_file_of_the_documents_is_the_default() -> None:
    assert read_configuration(DOCUMENT_TIERS, "my.conf", BUILT_IN) == default_configuration()


def test_the_default_on_the_reference_page_is_the_default() -> None:
    example = settings_parts()["the default"].split("```yaml\n")[1].split("```")[0]
    assert read_configuration(example, "settings.md", BUILT_IN) == default_configuration()


def test_the_misaligned_block_of_the_documents_is_rejected() -> None:
    (line,) = problems(DOCUMENT_BROKEN)
    assert line.startswith("my.conf: line 7: invalid YAML in column 1")
    assert "in one column" in line


def test_the_file_of_volcano_1_9_with_the_vendor_s_plugin() -> None:
    configuration = read_configuration(VENDOR_1_9, "my.conf", BUILT_IN)
    assert names(configuration) == names(default_configuration())
    scoring = [
        plugin.name
        for tier in configuration.tiers
        for plugin in tier.plugins
        if plugin.is_enabled("node_order")
    ]
    assert scoring == ["topology910", "nodeorder"]
    assert configuration.settings == Settings(preset_virtual_device=True, use_cluster_info_manager=False)


def test_the_file_of_volcano_1_12_with_the_vendor_s_plugin() -> None:
    configuration = read_configuration(VENDOR_1_12.encode(), "my.conf", BUILT_IN)
    assert names(configuration)[0] == ["gang", "topology910", "priority", "conformance"]
    settings = configuration.settings
    assert (settings.nslb_version, settings.shared_tor_num) == ("2.0", 1)
    assert settings.prefer_previous_node
    assert json.loads(settings.resource_level_config)["tree"]["level2"] == {"label": "hall"}


def test_values_with_and_without_quotes() -> None:
    quoted = with_settings({"grace-over-time": "60", "nslb-version": "2.0", "forceEnqueue": "False"})
    plain = "configurations:\n- name: init-params\n  arguments:\n    grace-over-time: 60\n"
    plain += "    nslb-version: 2.0\n    forceEnqueue: False\n"
    assert read_configuration(quoted, "a", BUILT_IN) == read_configuration(plain, "b", BUILT_IN)
    assert read_configuration(plain, "b", BUILT_IN).settings.force_enqueue is False


@pytest.mark.parametrize("spelling", ["enableJobOrder", "enabledJobOrder"])
def test_enable_flags_in_both_spellings(spelling: str) -> None:
    text = f"tiers:\n- plugins:\n  - name: priority\n    {spelling}: false\n"
    (option,) = read_configuration(text, "my.conf", BUILT_IN).tiers[0].plugins
    assert not option.is_enabled("job_order")
    assert option.is_enabled("job_ready")


def test_arguments_are_typed() -> None:
    text = """\
tiers:
- plugins:
  - name: nodeorder
    arguments: {leastrequested.weight: 0, mostrequested.weight: "4"}
  - name: binpack
    arguments:
      binpack.weight: 10
      binpack.resources: huawei.com/Ascend910, nvidia.com/gpu
      binpack.resources.huawei.com/Ascend910: 7
  - name: predicates
    arguments: {predicate.NodePortsEnable: "False"}
configurations:
- name: preempt
  arguments: {maxCandidateNodesAbsolute: 5}
metrics:
  type: prometheus
  address: http://monitor:9090
"""
    configuration = read_configuration(text, "my.conf", BUILT_IN)
    nodeorder, binpack, predicates = configuration.tiers[0].plugins
    assert (nodeorder.value(LEAST_REQUESTED), nodeorder.value(MOST_REQUESTED)) == (0, 4)
    assert binpack.value(WEIGHT) == 10
    assert resource_weights(binpack) == {"huawei.com/Ascend910": 7, "nvidia.com/gpu": 1}
    assert predicates.value(NODE_PORTS) is False
    assert configuration.action_arguments["preempt"]["maxCandidateNodesAbsolute"] == 5
    assert configuration.action_arguments["preempt"]["minCandidateNodesAbsolute"] == 1


class NightShift:
    def __init__(self, option: PluginOption) -> None: ...

    def open(self, session: Session) -> None: ...


def test_arguments_of_an_installed_plugin_that_declares_none_are_passed_on() -> None:
    plugin = PluginSpec("night-shift", "", NightShift, arguments=None)
    text = """\
tiers:
- plugins:
  - name: night-shift
    enableNodeOrder: false
    arguments: {hours: [22, 6], strict: true, share: 0.5, note: none of it, empty: , deep: {a: '1'}}
"""
    (option,) = read_configuration(text, "my.conf", BUILT_IN.with_specs([plugin])).tiers[0].plugins
    assert option.arguments == {
        "hours": (22, 6),
        "strict": True,
        "share": 0.5,
        "note": "none of it",
        "empty": None,
        "deep": {"a": "1"},
    }
    assert (
        "night-shift"
        not in problems("tiers: [{plugins: [{name: nightshift}]}]")[0].split("must be one of")[1]
    )
    (problem,) = problems("tiers: [{plugins: [{name: nightshift}]}]", plugin)
    assert 'did you mean "night-shift"?' in problem


HOURS = integer("night.hours", 8, "length of the night", minimum=1, maximum=23)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            "{night.hours: 24}",
            'arguments[night.hours]: "24" is not allowed; allowed: a whole number, 1 to 23',
        ),
        (
            "{night.hour: 9}",
            'arguments[night.hour]: unknown argument; allowed: night.hours; did you mean "night.hours"?',
        ),
        ("[9]", "arguments: Invalid value: a list: must be an object"),
    ],
)
def test_arguments_that_an_installed_plugin_declares_are_checked_like_ours(
    arguments: str, error: str
) -> None:
    plugin = PluginSpec("night-shift", "", NightShift, (HOURS,))
    (problem,) = problems(f"tiers: [{{plugins: [{{name: night-shift, arguments: {arguments}}}]}}]", plugin)
    assert error in problem


def test_arguments_that_an_installed_plugin_declares_have_their_default_and_type() -> None:
    registry = BUILT_IN.with_specs([PluginSpec("night-shift", "", NightShift, (HOURS,))])
    for arguments, hours in (("{}", 8), ("{night.hours: '9'}", 9)):
        text = f"tiers: [{{plugins: [{{name: night-shift, arguments: {arguments}}}]}}]"
        (option,) = read_configuration(text, "my.conf", registry).tiers[0].plugins
        assert option.value(HOURS) == hours


def test_n2_field_is_read_as_vendor() -> None:
    for written in ("vendor", "field"):
        settings = read_configuration(
            with_settings({"multi-pod-requests": written}), "my.conf", BUILT_IN
        ).settings
        assert settings.multi_pod_requests == "vendor"
    (problem,) = problems(with_settings({"multi-pod-requests": "vendors"}))
    assert 'allowed: document or vendor; did you mean "vendor"?' in problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "actions: enqueue, alocate",
            'line 1: actions: Invalid value: "alocate": must be one of enqueue, allocate',
        ),
        ("actions: enqueue, alocate", '; did you mean "allocate"?'),
        ("actions: enqueue,,allocate", 'actions: Invalid value: "": must be one of'),
        ("actions: elect", "must name at least one action that runs: enqueue, allocate"),
        ("actions: ''", "actions: Required value"),
        ("actions: [allocate]", "actions: Invalid value: a list: must be comma-separated action names"),
        (
            "action: allocate",
            "line 1: action: unknown field; allowed: actions, tiers",
        ),
        ("action: allocate", 'did you mean "actions"?'),
        ("tiers: []", "tiers: Invalid value: a list: must be a list that is not empty"),
        ("tiers: {}", "tiers: Invalid value: an object: must be a list"),
        ("tiers: [gang]", 'tiers[0]: Invalid value: "gang": must be an object'),
        ("tiers: [{plugins: [gang]}]", 'tiers[0].plugins[0]: Invalid value: "gang": must be an object'),
        (
            "tiers: [{plugins: [{}]}]",
            "tiers[0].plugins[0].name: Required value: must be the name of a plugin",
        ),
        ("tiers: [{plugins: [{name: gnag}]}]", 'name: Invalid value: "gnag": must be one of priority, gang'),
        ("tiers: [{plugins: [{name: gnag}]}]", 'did you mean "gang"?'),
        (
            "tiers: [{plugins: [{name: sla, arguments: {sla-waiting-time: 5}}]}]",
            'sla-waiting-time: "5" is not allowed; allowed: a duration such as',
        ),
        (
            "tiers: [{plugins: [{name: overcommit, arguments: {overcommit-factor: 0.5}}]}]",
            'overcommit-factor: "0.5" is not allowed; allowed: a number, 1 or more',
        ),
        (
            'tiers: [{plugins: [{name: tdm, arguments: {tdm.revocable-zone.a: "1:00-2:00"}}]}]',
            "Ringwise has no plugin tdm: tdm.revocable-zone.a keeps nodes for other work",
        ),
        (
            "tiers: [{plugins: [{name: deviceshare, arguments: {deviceshare.VGPUEnable: true}}]}]",
            "with deviceshare.VGPUEnable parts of devices are placed",
        ),
        (
            "tiers: [{plugins: [{name: extender, arguments: {extender.urlPrefix: 'http://e'}}]}]",
            "Ringwise does not call it; allowed: extender.ignorable: true",
        ),
        ("tiers: [{plugins: [{name: volcano-nu_v1}]}]", 'Invalid value: "volcano-nu_v1": must be one of'),
        ("tiers: [{plugins: [{name: gang, enableJobOder: true}]}]", 'did you mean "enableJobOrder"?'),
        (
            "tiers: [{plugins: [{name: gang, enableJobOrder: yes}]}]",
            '"yes" is not allowed; allowed: true or false',
        ),
        (
            "tiers: [{plugins: [{name: gang, enableJobOrder: }]}]",
            "enableJobOrder: Required value: must be true or false",
        ),
        (
            "tiers: [{plugins: [{name: gang, enableJobOrder: true, enabledJobOrder: false}]}]",
            "contradicts enableJobOrder or enabledJobOrder",
        ),
        (
            "tiers: [{plugins: [{name: gang, arguments: {a: 1}}]}]",
            "arguments.a: unknown argument; allowed: no arguments",
        ),
        (
            "tiers: [{plugins: [{name: gang}]}, {plugins: [{name: gang}]}]",
            "gang is already defined in line 1",
        ),
        (
            "tiers: [{plugins: [{name: topology910}, {name: volcano-npu_v1}]}]",
            "topology910 is already defined in line 1",
        ),
        (
            "tiers: [{plugins: [{name: drf, enableHierarchy: true}, {name: proportion}]}]",
            "tiers[0]: drf with enableHierarchy and proportion",
        ),
        (
            "tiers: [{plugins: [{name: nodeorder, arguments: {leastrequested.wieght: 1}}]}]",
            'did you mean "leastrequested.weight"?',
        ),
        (
            "tiers: [{plugins: [{name: nodeorder, arguments: {leastrequested.weight: 1.5}}]}]",
            'arguments[leastrequested.weight]: "1.5" is not allowed; allowed: a whole number',
        ),
        (
            "tiers: [{plugins: [{name: binpack, arguments: {binpack.resources.x/y: -1}}]}]",
            'arguments[binpack.resources.x/y]: "-1" is not allowed',
        ),
        (
            "tiers: [{plugins: [{name: predicates, arguments: {predicate.NodePortsEnable: 1}}]}]",
            'arguments[predicate.NodePortsEnable]: "1" is not allowed; allowed: true or false',
        ),
        (
            "configurations: [{arguments: {}}]",
            "configurations[0].name: Required value: must be one of init-params",
        ),
        ("configurations: [{name: init-param}]", 'did you mean "init-params"?'),
        (
            "configurations: [{name: init-params}, {name: init-params}]",
            "init-params is already defined in line 1",
        ),
        (
            "configurations: [{name: allocate, arguments: {x: 1}}]",
            "arguments.x: unknown argument; allowed: predicateErrorCacheEnable",
        ),
        (
            "configurations: [{name: init-params, arguments: [a]}]",
            "arguments: Invalid value: a list: must be an object",
        ),
        (
            "configurations: [{name: init-params, arguments: {grace-overtime: 9}}]",
            'did you mean "grace-over-time"?',
        ),
        (
            "configurations: [{name: init-params, arguments: {forceEnqueue: {a: b}}}]",
            "forceEnqueue: Invalid value: an object: must be true or false",
        ),
        (
            "configurations: [{name: init-params, arguments: {super-pod-size: 8, reserve-nodes: 8}}]",
            "reserve-nodes: 8 is not allowed with super-pod-size 8; allowed: a whole number, 0 to 7",
        ),
        (
            "configurations: [{name: init-params, arguments: {super-pod-size: 1OO, reserve-nodes: 60}}]",
            'super-pod-size: "1OO" is not allowed',
        ),
        ("metrics: prometheus", 'metrics: Invalid value: "prometheus": must be an object'),
        ("metrics: {type: [a]}", "metrics.type: Invalid value: a list: must be a string"),
        ("actions: allocate\nactions: backfill", 'line 2: the key "actions" is repeated in one mapping'),
        ("? [a]\n: b", "line 1: a key must be plain text"),
        ("just words", 'Invalid value: "just words": must be an object'),
        ("- actions", "Invalid value: a list: must be an object"),
        ("", "is empty; must be one scheduler configuration"),
        ("# only a comment", "is empty; must be one scheduler configuration"),
        ("actions: allocate\n---\nactions: backfill", "has 2 documents; must be one scheduler configuration"),
        ("actions: 'allocate", "line 1: invalid YAML"),
        ("actions:\n\tallocate", "line 2: invalid YAML"),
        ("actions: \x00", "line 1: invalid YAML"),
        ("actions: *gone", "line 1: anchor *gone is not defined before its alias"),
    ],
)
def test_each_mistake_gives_one_line(text: str, expected: str) -> None:
    (line,) = problems(text)
    assert line.startswith("my.conf: ")
    assert expected in line
    assert says_what_is_allowed(line)


def test_all_mistakes_are_reported_in_the_order_of_the_file() -> None:
    text = """\
actions: "enqueue, alocate"
tiers:
- plugins:
  - name: drf
    enableHierarchy: true
  - name: gnag
  - name: proportion
configurations:
- name: init-params
  arguments:
    grace-over-time: "1"
    shared-tor-num: 3
"""
    lines = problems(text)
    assert [line.split(":")[1] for line in lines] == [" line 1", " line 3", " line 6", " line 11", " line 12"]

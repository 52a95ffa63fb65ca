"""What a file written for Volcano does here: everything loads, and every line is explained."""

from __future__ import annotations

import pytest

from ringwise.framework.registry import PluginSpec
from ringwise.manifests.objects.volcano_names import VOLCANO_ACTIONS, VOLCANO_PLUGINS
from ringwise.manifests.settings.configuration import check_configuration, read_configuration
from ringwise.scheduler.defaults import BUILT_IN
from tests.manifests.configuration_samples import (
    DOCUMENT_TIERS,
    VENDOR_1_9,
    VENDOR_1_12,
    VOLCANO_CI,
    VOLCANO_DEFAULT,
)

#: Every plugin and action that Volcano has or had.
PLUGINS = (
    "drf",
    "gang",
    "deviceshare",
    "predicates",
    "priority",
    "nodeorder",
    "conformance",
    "binpack",
    "resource-strategy-fit",
    "tdm",
    "overcommit",
    "sla",
    "task-topology",
    "numa-aware",
    "numaaware",
    "cdp",
    "rescheduling",
    "usage",
    "pdb",
    "nodegroup",
    "network-topology-aware",
    "proportion",
    "capacity",
    "extender",
    "resourcequota",
    "reservation",
)
ACTIONS = (
    "enqueue",
    "allocate",
    "backfill",
    "preempt",
    "reclaim",
    "gangpreempt",
    "gangreclaim",
    "shuffle",
    "elect",
    "reserve",
)


def plugin(name: str, arguments: str = "") -> str:
    return f"tiers:\n- plugins:\n  - name: topology910\n  - name: {name}\n{arguments}"


@pytest.mark.parametrize(
    ("text", "warnings"),
    [(VOLCANO_DEFAULT, ["no pod gets chips"]), (VOLCANO_CI, ["no pod gets chips"])],
    ids=["chart", "ci"],
)
def test_volcanos_own_configurations_load(text: str, warnings: list[str]) -> None:
    configuration = read_configuration(text, "my.conf", BUILT_IN)
    assert configuration.plugin("overcommit") is not None
    assert "preempt" in configuration.actions or text is VOLCANO_DEFAULT
    for expected, found in zip(warnings, configuration.warnings, strict=True):
        assert expected in found


@pytest.mark.parametrize("text", [VENDOR_1_9, VENDOR_1_12, DOCUMENT_TIERS])
def test_the_vendors_configurations_have_no_warnings(text: str) -> None:
    assert read_configuration(text, "my.conf", BUILT_IN).warnings == ()


@pytest.mark.parametrize("name", PLUGINS)
def test_every_plugin_of_volcano_is_there_or_is_named_with_what_replaces_it(name: str) -> None:
    configuration = read_configuration(plugin(name), "my.conf", BUILT_IN)
    there = VOLCANO_PLUGINS.get(name)
    assert (there is None) is (name in BUILT_IN.plugins)
    if there is None:
        assert configuration.plugin(name) is not None
        assert configuration.warnings == ()
    else:
        assert configuration.plugin(name) is None
        (warning,) = configuration.warnings
        where = f"my.conf: line 4: tiers[0].plugins[1].name: Ringwise has no plugin {name}: "
        assert warning == where + there.note
        assert there.replaced_by or there.lost


@pytest.mark.parametrize("name", ACTIONS)
def test_every_action_of_volcano_is_there_or_is_named_with_what_replaces_it(name: str) -> None:
    configuration = read_configuration(f"actions: enqueue, {name}, allocate", "my.conf", BUILT_IN)
    there = VOLCANO_ACTIONS.get(name)
    assert (there is None) is (name in BUILT_IN.actions)
    assert bool(configuration.warnings) is (there is not None)
    assert configuration.actions[1:-1] == ((name,) if there is None else ())


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("tdm", "tdm.evict.period: 1m"),
        ("deviceshare", "deviceshare.VGPUEnable: false"),
        ("extender", "{extender.urlPrefix: 'http://e', extender.ignorable: true}"),
        ("extender", "extender.httpTimeout: 1s"),
        ("usage", "{usage.weight: 5, thresholds: {cpu: 80, mem: 80}}"),
        ("rescheduling", "{interval: 5m, strategies: [{name: lowNodeUtilization, params: {a: 1}}]}"),
    ],
)
def test_it_is_no_error_where_the_cluster_works_without_it(name: str, arguments: str) -> None:
    text = plugin(
        name,
        f"    arguments: {arguments}\n" if arguments.startswith("{") else f"    arguments: {{{arguments}}}\n",
    )
    (warning,) = read_configuration(text, "my.conf", BUILT_IN).warnings
    assert f"Ringwise has no plugin {name}" in warning


def test_an_installed_plugin_of_that_name_is_used() -> None:
    spec = PluginSpec("tdm", "our own", lambda option: pytest.fail("not built here"), arguments=None)
    registry = BUILT_IN.with_specs([spec])
    configuration = read_configuration(plugin("tdm"), "my.conf", registry)
    assert configuration.plugin("tdm") is not None
    assert configuration.warnings == ()


def test_warnings_do_not_make_configurations_different() -> None:
    warned = read_configuration(plugin("usage"), "my.conf", BUILT_IN)
    plain = read_configuration("tiers: [{plugins: [{name: topology910}]}]", "my.conf", BUILT_IN)
    assert warned.warnings
    assert warned == plain


# -- line by line --------------------------------------------------------------------------------


def test_every_line_is_explained() -> None:
    text = """actions: "enqueue, elect"
tiers:
- plugins:
  - name: gang
    enablePreemptable: false
    enabledHyperNodeOrder: true
  - name: volcano-npu_v7
  - name: overcommit
    arguments:
      overcommit-factor: 1.5
- plugins:
  - name: usage
configurations:
- name: init-params
  arguments: {presetVirtualDevice: "true", super-pod-size: "48"}
metrics:
  type: prometheus
"""
    check = check_configuration(text, "my.conf", BUILT_IN)
    assert check.configuration is not None
    rows = [(line.line, line.subject, line.result) for line in check.lines]
    assert rows == [
        (1, "action enqueue", "works"),
        (1, "action elect", "warning"),
        (4, "plugin gang", "works"),
        (5, "enablePreemptable: false", "works"),
        (6, "enabledHyperNodeOrder: true", "works"),
        (7, "plugin volcano-npu_v7", "works"),
        (8, "plugin overcommit", "works"),
        (10, "overcommit-factor: 1.5", "works"),
        (12, "plugin usage", "warning"),
        (14, "configuration init-params", "works"),
        (15, "presetVirtualDevice: true", "works"),
        (15, "super-pod-size: 48", "works"),
        (17, "metrics type", "no effect"),
    ]
    assert all(line.effect for line in check.lines)


@pytest.mark.parametrize("text", ["actions: dance", "", "actions: [", "tiers: [{plugins: [{name: gnag}]}]"])
def test_errors_are_lines_too(text: str) -> None:
    check = check_configuration(text, "my.conf", BUILT_IN)
    assert check.configuration is None
    assert check.count("error") >= 1

"""ConfigMaps about the health of nodes: from NodeD, of their own switches, and the aggregates of both."""

from __future__ import annotations

import json

import msgspec
import pytest

from ringwise.kube.watch.config_map_readers import ReportReader
from ringwise.kube.watch.objects import change_events
from ringwise.manifests.config_maps.node_info import node_reports_of
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.wire import ConfigMapWire
from ringwise.messages import events as ev
from ringwise.state.model import NodeReport


def config_map(name: str, namespace: str, data: dict[str, object]) -> ConfigMapWire:
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in data.items()}
    plain = {"metadata": {"name": name, "namespace": namespace}, "data": texts}
    return msgspec.convert(plain, ConfigMapWire)


BAD = {"NodeStatus": "UnHealthy", "FaultDevList": [{"DeviceType": "CPU"}]}
DEVICES = {"DeviceInfo": {"DeviceList": {"huawei.com/Ascend910": "Ascend910-0"}}}


@pytest.mark.parametrize(
    ("name", "namespace", "data", "expected"),
    [
        ("mindx-dl-nodeinfo-n1", "mindx-dl", {"NodeInfo": BAD}, [("n1", "node", "UnHealthy", False)]),
        (
            "mindx-dl-nodeinfo-n1",
            "mindx-dl",
            {"NodeInfo": {"NodeInfo": BAD, "CheckCode": "x"}},
            [("n1", "node", "UnHealthy", False)],
        ),
        (
            "mindx-dl-deviceinfo-n1",
            "kube-system",
            {"DeviceInfoCfg": DEVICES, "SwitchInfoCfg": {"NodeStatus": "SubHealthy", "FaultLevel": "x"}},
            [("n1", "switch", "SubHealthy", False)],
        ),
        ("mindx-dl-deviceinfo-n1", "kube-system", {"DeviceInfoCfg": DEVICES}, []),
        ("mindx-dl-deviceinfo-n1", "kube-system", {"SwitchInfoCfg": "{"}, []),
        (
            "cluster-info-node-cm",
            "mindx-dl",
            {"cluster-info-node-cm": {"mindx-dl-nodeinfo-n1": BAD, "mindx-dl-nodeinfo-n2": {}}},
            [("n1", "node", "UnHealthy", True), ("n2", "node", "", True)],
        ),
        (
            "cluster-info-switch-0",
            "mindx-dl",
            {"cluster-info-switch-0": {"mindx-dl-switchinfo-n1": {"NodeStatus": "PreSeparate"}}},
            [("n1", "switch", "PreSeparate", True)],
        ),
        ("cluster-info-switch-1", "mindx-dl", {}, []),
        ("mindx-dl-nodeinfo-n1", "default", {"NodeInfo": BAD}, None),
        ("something", "mindx-dl", {}, None),
    ],
)
def test_the_health_of_nodes_is_read_from_every_form(
    name: str,
    namespace: str,
    data: dict[str, object],
    expected: list[tuple[str, str, str, bool]] | None,
) -> None:
    found = Findings("ConfigMap")
    reports = node_reports_of(config_map(name, namespace, data), found)
    assert found.errors == []
    plain = (
        None if reports is None else [(one.node, one.source, one.status, one.aggregated) for one in reports]
    )
    assert plain == expected


@pytest.mark.parametrize(
    ("name", "data", "field"),
    [
        ("mindx-dl-nodeinfo-n1", {}, "NodeInfo"),
        ("mindx-dl-nodeinfo-n1", {"NodeInfo": "{"}, "NodeInfo"),
        ("mindx-dl-nodeinfo-n1", {"NodeInfo": {"NodeStatus": 1}}, "NodeStatus"),
        ("cluster-info-node-cm", {"cluster-info-node-cm": {"n1": BAD}}, "n1"),
        ("cluster-info-switch-0", {"cluster-info-switch-0": "[" * 100_000}, "cluster-info-switch-0"),
    ],
)
def test_a_report_of_nodes_that_cannot_be_read_says_where(
    name: str, data: dict[str, object], field: str
) -> None:
    found = Findings("ConfigMap")
    node_reports_of(config_map(name, "mindx-dl", data), found)
    (error,) = found.errors
    assert field in error.field


def test_the_watch_tells_health_and_chips_of_one_config_map_and_when_both_are_gone() -> None:
    reader = ReportReader()
    data: dict[str, object] = {"DeviceInfoCfg": DEVICES, "SwitchInfoCfg": {"NodeStatus": "UnHealthy"}}
    objects = reader.objects(config_map("mindx-dl-deviceinfo-n1", "kube-system", data), Findings(""))
    assert objects is not None
    seen = list(change_events((), objects))
    assert [type(event) for event in seen] == [ev.ReportSeen, ev.NodeReportSeen]
    assert seen[1] == ev.NodeReportSeen(NodeReport("n1", "switch", "UnHealthy"))
    healthy = reader.objects(
        config_map("mindx-dl-deviceinfo-n1", "kube-system", {"DeviceInfoCfg": DEVICES}), Findings("")
    )
    assert healthy is not None
    assert list(change_events(objects, healthy)) == [ev.NodeReportGone("n1", "switch")]
    assert ev.ReportGone("n1") in list(change_events(healthy, ()))

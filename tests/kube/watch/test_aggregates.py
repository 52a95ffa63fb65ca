"""Aggregates of ClusterD are written every few seconds: what did not change is not read again."""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec

from ringwise.kube.watch.config_map_readers import ReportReader
from ringwise.kube.watch.objects import KeyedObjects, NodeReports, change_events
from ringwise.manifests.text.errors import Findings
from ringwise.messages import events as ev
from tests.cluster.objects import CHIP

NAME = "cluster-info-device-0"


def aggregate(free: Mapping[str, str], name: str = NAME) -> msgspec.Raw:
    entries = {
        f"mindx-dl-deviceinfo-{node}": {"DeviceList": {CHIP: chips}, "UpdateTime": 1}
        for node, chips in free.items()
    }
    made = {"metadata": {"name": name, "namespace": "mindx-dl"}, "data": {name: json.dumps(entries)}}
    return msgspec.Raw(json.dumps(made).encode())


def read(reader: ReportReader, written: msgspec.Raw) -> KeyedObjects:
    found = Findings("x")
    objects = reader.read(written, found)
    assert objects is not None, found.errors
    return objects


def reports(objects: KeyedObjects) -> dict[str, object]:
    return {node: one.reports[0] for node, one in objects if isinstance(one, NodeReports)}


def test_entries_that_did_not_change_are_not_read_again() -> None:
    reader = ReportReader()
    first = read(reader, aggregate({"n1": "Ascend910-0", "n2": "Ascend910-0"}))
    second = read(reader, aggregate({"n1": "Ascend910-0", "n2": "Ascend910-1", "n3": "Ascend910-0"}))
    assert reports(second)["n1"] is reports(first)["n1"]
    assert [one.report.node for one in change_events(first, second) if isinstance(one, ev.ReportSeen)] == [
        "n2",
        "n3",
    ]
    # A node that was away is read anew, also with the text that it had.
    third = read(reader, aggregate({"n2": "Ascend910-1"}))
    assert list(change_events(second, third)) == [ev.ReportGone("n1", True), ev.ReportGone("n3", True)]
    fourth = read(reader, aggregate({"n1": "Ascend910-0", "n2": "Ascend910-1"}))
    assert reports(fourth)["n1"] == reports(first)["n1"]
    assert [type(one) for one in change_events(third, fourth)] == [ev.ReportSeen]


def test_two_config_maps_do_not_answer_for_each_other() -> None:
    reader = ReportReader()
    read(reader, aggregate({"n1": "Ascend910-0"}))
    other = read(reader, aggregate({"n1": "Ascend910-1"}, "cluster-info-device-1"))
    again = read(reader, aggregate({"n1": "Ascend910-0"}))
    assert reports(other)["n1"] != reports(again)["n1"]


def test_what_is_known_of_a_config_map_goes_with_it() -> None:
    reader = ReportReader()
    first = read(reader, aggregate({"n1": "Ascend910-0"}))
    reader.forget(f"mindx-dl/{NAME}")
    assert reports(read(reader, aggregate({"n1": "Ascend910-0"})))["n1"] is not reports(first)["n1"]

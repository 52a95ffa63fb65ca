"""How much chips are used while a pod has them: from the driver to the node's ConfigMap and back."""

from __future__ import annotations

import json

import pytest

from ringwise.device.drivers.port import Readings
from ringwise.device.plugin import Utilization
from ringwise.device.reporter import Content
from ringwise.manifests.config_maps.device_info import config_map_from_wire
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.wire import ConfigMapWire, MetaWire
from ringwise.state.model import DeviceReport
from ringwise.wellknown import (
    DEVICE_INFO_PREFIX,
    KUBE_SYSTEM,
    KUBELET_LISTING_KEY,
    MOUNTED_CHIPS_KEY,
    UTILIZATION_KEY,
)
from tests.builders.values import CHIP
from tests.device.rig import rig

A, B = "Ascend910-0", "Ascend910-1"


def test_the_mean_is_over_the_readings_of_the_last_hour() -> None:
    used = Utilization()
    for minute in range(60):
        used.take({A: 100.0 if minute % 2 else 0.0}, {A: "pod"}, 60.0 * minute)
    assert used.means() == {A: (50.0, 3540)}
    for minute in range(60, 180):
        used.take({A: 2.0}, {A: "pod"}, 60.0 * minute)
    mean, span = used.means()[A]
    assert mean == 2.0
    assert 3000 < span <= 3600


def test_another_pod_begins_anew_and_a_free_chip_is_not_told() -> None:
    used = Utilization()
    for minute in range(20):
        used.take({A: 90.0, B: 1.0}, {A: "old"}, 60.0 * minute)
    assert used.means() == {A: (90.0, 1140)}
    used.take({A: 1.0}, {A: "new"}, 1200.0)
    assert used.means() == {A: (1.0, 0)}
    used.take({A: 1.0}, {}, 1260.0)
    assert used.means() == {}


def test_what_is_no_share_of_a_hundred_is_not_taken() -> None:
    used = Utilization()
    used.take({A: -1.0, B: 101.0}, {A: "pod", B: "pod"}, 0.0)
    used.take({A: float("nan")}, {A: "pod"}, 1.0)
    assert used.means() == {}


def content(utilization: dict[str, tuple[float, int]]) -> Content:
    rest = {KUBELET_LISTING_KEY: "", MOUNTED_CHIPS_KEY: "{}"}
    return Content({"huawei.com/Ascend910": A}, (-1, -1, None), rest, utilization)


def test_it_is_no_reason_to_write() -> None:
    """On 5,000 nodes it goes with what is written every five minutes anyway."""
    assert content({A: (1.0, 60)}).same_as(content({A: (90.0, 120)}))
    assert content({A: (1.5, 60)}).data(0)[UTILIZATION_KEY] == '{"Ascend910-0":[1.5,60]}'
    assert UTILIZATION_KEY not in content({}).data(0)


def read(data: dict[str, str]) -> DeviceReport:
    meta = MetaWire(name=f"{DEVICE_INFO_PREFIX}node-1", namespace=KUBE_SYSTEM)
    found = Findings("map")
    answer = config_map_from_wire(ConfigMapWire(metadata=meta, data={**data}), found)
    assert answer is not None
    assert not found.errors
    (report,) = answer[0]
    return report


def test_the_report_is_read_and_a_change_of_it_is_no_news() -> None:
    report = read(content({A: (1.5, 60), B: (90.0, 600), "Ascend310-3": (1.0, 1)}).data(0))
    assert report.utilization == ((0, 1.5, 60), (1, 90.0, 600))
    assert report == read(content({A: (2.0, 90)}).data(0))
    assert read(content({}).data(0)).utilization == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        '{"x":[1,5]}',
        '{"Ascend910-0":"x"}',
        '{"Ascend910-0":[1]}',
        '{"Ascend910-0":[-1,5]}',
        '{"Ascend910-0":[1e9,5]}',
        '{"Ascend910-0":[1,-5]}',
        '{"Ascend910-99999":[1,5]}',
    ],
)
def test_what_cannot_be_read_counts_as_not_reported(text: str) -> None:
    assert read({**content({}).data(0), UTILIZATION_KEY: text}).utilization == ()


async def test_the_plugin_reports_what_the_driver_tells_of_chips_that_a_pod_has() -> None:
    async with rig() as node:
        node.bind("train", "Ascend910-1")
        await node.admit("train")
        figures = {0: Readings(utilization=50.0), 1: Readings(utilization=3.0), 2: Readings()}
        node.plugin.take_figures(figures)
        # Whatever is written next has it: here another pod.
        node.bind("other", "Ascend910-2")
        await node.until(lambda: "Ascend910-2" not in node.device_list()[CHIP])
        await node.until(lambda: UTILIZATION_KEY in node.report())
        assert json.loads(node.report()[UTILIZATION_KEY]) == {"Ascend910-1": [3.0, 0]}
        # The driver no longer tells it.
        node.plugin.take_figures({1: Readings()})
        node.bind("third", "Ascend910-3")
        await node.until(lambda: not node.report().get(UTILIZATION_KEY))

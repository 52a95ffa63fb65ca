"""Figures under the names of Huawei's exporter."""

from __future__ import annotations

from ringwise.device.drivers.port import Readings
from ringwise.device.metrics import DeviceMetrics
from tests.device.rig import rig


async def test_figures_of_chips_and_calls() -> None:
    description = {"count": 8, "chip_type": "Ascend", "chip_version": "V1"}
    async with rig(description) as node:
        node.driver.change(3, [0x80E18402])
        await node.devices(7)
        node.bind("train", "Ascend910-1")
        await node.admit("train")
        metrics = DeviceMetrics()
        metrics.follow(node.plugin)
        metrics.readings = {1: Readings(temperature=41.0, memory_used=7.0)}
        metrics.calls.allocate.observe(0.01)
        metrics.calls.api_errors.inc("report")
        lines = metrics.text().decode().splitlines()
        labels = (
            'container_name="main",id="1",model_name="910B3-Ascend-V1",namespace="default",'
            'pcie_bus_info="0000:02:00.0",pod_name="train",vdie_id="SIMULATED-00000001"'
        )
        figures = {line.rpartition(" ")[0]: line.rpartition(" ")[2] for line in lines if line[0] != "#"}
        found = {_sorted_labels(name): value for name, value in figures.items()}
        assert found[f"npu_chip_info_health_status{{{labels}}}"] == "1.0"
        assert found[f"npu_chip_info_temperature{{{labels}}}"] == "41.0"
        assert found[f"npu_chip_info_hbm_used_memory{{{labels}}}"] == "7.0"
        assert (
            float(next(v for k, v in found.items() if k.startswith("npu_chip_info_error_code"))) == 0x80E18402
        )
        assert (found["machine_npu_nums"], found["machine_healthy_npu_nums"]) == ("8.0", "7.0")
        assert found["ringwise_device_allocate_duration_seconds_count"] == "1.0"
        assert found['ringwise_device_api_errors_total{operation="report"}'] == "1.0"
        metrics.readings = {}
        node.plugin.chips.pop(1)
        again = metrics.text().decode()
        assert 'id="1"' not in again
        assert "\nnpu_chip_info_temperature{" not in again


async def test_names_products_cards_and_all_fault_codes() -> None:
    codes = [0x80E18402, 0x80E01801, *range(0x80F00000, 0x80F00009)]
    product = {"chip_name": "310P3", "product": "Atlas 300I Duo"}
    chips = [{"physical": at, "card": at // 2, "device": at % 2} for at in range(4)]
    async with rig({**product, "chips": chips}, started=False) as node:
        await node.start()
        metrics = DeviceMetrics()
        metrics.follow(node.plugin)
        node.driver.change(2, codes)
        await node.plugin.look()
        found = _figures(metrics)
        assert found["machine_npu_nums"] == {"": 4.0}
        assert found["machine_card_nums"] == {"": 2.0}
        assert set(found["npu_chip_info_name"].values()) == {1.0}
        label = next(key for key in found["npu_chip_info_name"] if 'id="2"' in key)
        assert 'name="310P3' in label
        assert "model_name" not in label
        assert all('product_type="Atlas 300I Duo"' in key for key in found["npu_chip_info_product_type"])
        # The exporter shows ten; of this chip alone.
        names = ["npu_chip_info_error_code", *(f"npu_chip_info_error_code_{at}" for at in range(1, 10))]
        assert [list(found[name].values()) for name in names] == [[code] for code in codes[:10]]
        assert "npu_chip_info_error_code_10" not in found
        node.driver.change(2, codes[1:2])
        await node.plugin.look()
        found = _figures(metrics)
        assert list(found["npu_chip_info_error_code"].values()) == [codes[1]]
        assert "npu_chip_info_error_code_1" not in found


async def test_cards_are_counted_only_where_the_exporter_does() -> None:
    async with rig({"count": 2, "chip_name": "310"}, started=False) as node:
        await node.start()
        metrics = DeviceMetrics()
        metrics.follow(node.plugin)
        found = _figures(metrics)
        assert found["machine_npu_nums"] == {"": 2.0}
        assert "machine_card_nums" not in found
        assert "npu_chip_info_product_type" not in found


def _figures(metrics: DeviceMetrics) -> dict[str, dict[str, float]]:
    """Metric to its values by labels."""
    found: dict[str, dict[str, float]] = {}
    for line in metrics.text().decode().splitlines():
        if not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            name, _, labels = series.partition("{")
            found.setdefault(name, {})[labels] = float(value)
    return found


def _sorted_labels(name: str) -> str:
    head, brace, rest = name.partition("{")
    return f"{head}{brace}{','.join(sorted(rest.rstrip('}').split(',')))}}}" if brace else name

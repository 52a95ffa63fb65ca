"""Figures under the names of Huawei's exporter."""

from __future__ import annotations

from ringwise.device.drivers.port import Readings
from ringwise.device.metrics import DeviceMetrics
from tests.device.rig import rig
from tests.kube.harness import run


def test_figures_of_chips_and_calls() -> None:
    async def test() -> None:
        description = {"count": 8, "chip_type": "Ascend", "chip_version": "V1"}
        async with rig(description) as node:
            node.driver.change(3, [0x80E18402])
            await node.devices(7)
            node.bind("train", "Ascend910-1")
            await node.admit("train")
            metrics = DeviceMetrics()
            metrics.follow(node.plugin)
            metrics.readings = {1: Readings(temperature=41.0, memory_used=7.0)}
            metrics.allocated(0.01)
            metrics.api_failed("report")
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
                float(next(v for k, v in found.items() if k.startswith("npu_chip_info_error_code")))
                == 0x80E18402
            )
            assert (found["machine_npu_nums"], found["machine_healthy_npu_nums"]) == ("8.0", "7.0")
            assert found["ringwise_device_allocate_seconds_count"] == "1.0"
            assert found['ringwise_device_api_errors_total{what="report"}'] == "1.0"
            metrics.readings = {}
            node.plugin.chips.pop(1)
            again = metrics.text().decode()
            assert 'id="1"' not in again
            assert "\nnpu_chip_info_temperature{" not in again

    run(test())


def _sorted_labels(name: str) -> str:
    head, brace, rest = name.partition("{")
    return f"{head}{brace}{','.join(sorted(rest.rstrip('}').split(',')))}}}" if brace else name

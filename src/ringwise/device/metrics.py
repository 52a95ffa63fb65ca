"""Figures for Prometheus: chips under the names of Huawei's NPU exporter, the plugin under ours."""

from __future__ import annotations

from collections.abc import Mapping

from ringwise.device.allocate_calls import CallMetrics
from ringwise.device.cards import ASCEND310P, ASCEND910, ASCEND910A3, ASCEND910B
from ringwise.device.drivers.port import Readings
from ringwise.device.plugin import NodePlugin
from ringwise.metrics.families import MetricFamily, MetricSet, gauge

_CHIP_LABELS = ("id", "model_name", "vdie_id", "pcie_bus_info", "namespace", "pod_name", "container_name")
#: The exporter has a label of another name for the model in this one.
_NAME_LABELS = ("id", "name", *_CHIP_LABELS[2:])
_PRODUCT_LABELS = (*_CHIP_LABELS, "product_type")
#: Fault codes of a chip that are shown.
_MAX_CODES = 10
#: The exporter does not count the cards of other types.
_CARDS_COUNTED = (ASCEND310P, ASCEND910, ASCEND910B, ASCEND910A3)

#: Fields of `Readings`: the rest of the metric's name, and its help.
_READINGS = {
    "temperature": ("temperature", "Temperature of the chip in degrees Celsius"),
    "power": ("power", "Power of the chip in watts"),
    "voltage": ("voltage", "Voltage of the chip in volts"),
    "utilization": ("utilization", "Utilization of the AI cores in percent"),
    "frequency": ("aicore_current_freq", "Frequency of the AI cores in MHz"),
    "memory_total": ("hbm_total_memory", "HBM of the chip in MB"),
    "memory_used": ("hbm_used_memory", "HBM in use in MB"),
}


def _chips(name: str, text: str) -> MetricFamily:
    return gauge(name, text, *_CHIP_LABELS)


def _code_families() -> tuple[MetricFamily, ...]:
    name = "npu_chip_info_error_code"
    first = _chips(name, "First fault code of the chip, as a decimal number; absent without one")
    more = (
        _chips(f"{name}_{at}", f"Fault code {at + 1} of the chip; absent without one")
        for at in range(1, _MAX_CODES)
    )
    return first, *more


class DeviceMetrics(MetricSet):
    """Figures of the plugin and of its chips. Those of chips are computed for each scrape."""

    def __init__(self) -> None:
        self.calls = CallMetrics()
        self._mounts = gauge("ringwise_device_mounts", "Containers with chips, as the plugin recorded them")
        self._unanswered = gauge(
            "ringwise_device_unresponsive_chips", "Chips that the driver lists but cannot query"
        )
        self._number = gauge("machine_npu_nums", "Chips of the node")
        self._cards = gauge("machine_card_nums", "Cards of the node; absent for A5, 310 and 310B")
        self._healthy = gauge("machine_healthy_npu_nums", "Healthy chips of the node")
        self._unhealthy = gauge("machine_unhealthy_npu_nums", "Unhealthy chips of the node")
        self._health = _chips("npu_chip_info_health_status", "1: the chip is healthy, 0: it is not")
        self._network = _chips(
            "npu_chip_info_network_status", "1: the chip's network is healthy, 0: it is not"
        )
        self._name = gauge("npu_chip_info_name", "1 for each chip, with its name", *_NAME_LABELS)
        self._product = gauge(
            "npu_chip_info_product_type", "1 for each chip, with its product", *_PRODUCT_LABELS
        )
        self._codes = _code_families()
        # Units are those of the exporter: C, W, V, %, MHz, MB.
        self._readings = {
            field: _chips(f"npu_chip_info_{name}", text) for field, (name, text) in _READINGS.items()
        }
        self._plugin: NodePlugin | None = None
        #: Physical id of a chip -> what the last look at the driver found.
        self.readings: Mapping[int, Readings] = {}

    def follow(self, plugin: NodePlugin) -> None:
        """Show the chips of a plugin, too."""
        self._plugin = plugin

    def text(self) -> bytes:
        if self._plugin is not None:
            self._read_chips(self._plugin)
        return super().text()

    # -- chips ---------------------------------------------------------------------------------

    def _read_chips(self, plugin: NodePlugin) -> None:
        reports = {report.name: report for report in plugin.reports}
        healthy = sum(report.healthy for report in reports.values())
        self._number.set(len(reports))
        self._healthy.set(healthy)
        self._unhealthy.set(len(reports) - healthy)
        self._unanswered.set(len(plugin.discovery.problems) + len(plugin.monitor.silent))
        self._mounts.set(len(plugin.allocator.ledger.mounts))
        self._cards.hide()
        if plugin.card in _CARDS_COUNTED:
            self._cards.set(len({chip.card for chip in plugin.chips}))
        for family in self.families():
            if "pod_name" in family.labels and isinstance(family, MetricFamily):
                family.clear()
        for chip in plugin.chips:
            name = plugin.names[chip.physical]
            report = reports.get(name)
            if report is None:
                continue
            pod = plugin.allocator.pod_of(name)
            labels = (
                str(chip.physical),
                chip.model,
                chip.vdie,
                chip.pcie,
                pod.namespace if pod is not None else "",
                pod.name if pod is not None else "",
                pod.container_of(plugin.resource) if pod is not None else "",
            )
            self._health.set(int(report.healthy), *labels)
            self._network.set(int(report.network_healthy), *labels)
            codes = (*report.fault.codes, *report.network_fault.codes)
            for family, code in zip(self._codes, codes, strict=False):
                family.set(int(code, 16), *labels)
            self._name.set(1, *labels)
            if chip.product:
                self._product.set(1, *labels, chip.product)
            reading = self.readings.get(chip.physical, Readings())
            for field, family in self._readings.items():
                value = getattr(reading, field)
                if value is not None:
                    family.set(value, *labels)

"""Figures for Prometheus: chips under the names of Huawei's NPU exporter, the plugin under ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ringwise.device.drivers.port import Readings
from ringwise.device.plugin import NodePlugin

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_CHIP_LABELS = ("id", "model_name", "vdie_id", "pcie_bus_info", "namespace", "pod_name", "container_name")
#: Field of the readings to metric and text. Units are those of the exporter: C, W, V, %, MHz, MB.
_READINGS = {
    "temperature": ("npu_chip_info_temperature", "Temperature of the chip in degrees Celsius"),
    "power": ("npu_chip_info_power", "Power of the chip in watts"),
    "voltage": ("npu_chip_info_voltage", "Voltage of the chip in volts"),
    "utilization": ("npu_chip_info_utilization", "Utilization of the AI cores in percent"),
    "frequency": ("npu_chip_info_aicore_current_freq", "Frequency of the AI cores in MHz"),
    "memory_total": ("npu_chip_info_hbm_total_memory", "HBM of the chip in MB"),
    "memory_used": ("npu_chip_info_hbm_used_memory", "HBM in use in MB"),
}


class DeviceMetrics:
    """One set of figures; hears what the plugin does."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        self._allocate = Histogram(
            "ringwise_device_allocate_seconds",
            "Time of an Allocate call",
            buckets=_SECONDS,
            registry=registry,
        )
        self._failures = Counter(
            "ringwise_device_allocate_failures", "Allocate calls that failed", registry=registry
        )
        self._corrections = Counter(
            "ringwise_device_corrections", "Pods whose annotations were corrected", registry=registry
        )
        self._reports = Counter(
            "ringwise_device_reports", "Writes of the node's ConfigMap", registry=registry
        )
        self._api = Counter(
            "ringwise_device_api_errors",
            "Requests to the API server that failed",
            ["what"],
            registry=registry,
        )

    def follow(self, plugin: NodePlugin) -> ChipCollector:
        """Show the chips of a plugin, too."""
        collector = ChipCollector(plugin)
        self._registry.register(collector)
        return collector

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def allocated(self, seconds: float) -> None:
        self._allocate.observe(seconds)

    def allocation_failed(self) -> None:
        self._failures.inc()

    def corrected(self) -> None:
        self._corrections.inc()

    def reported(self) -> None:
        self._reports.inc()

    def api_failed(self, what: str) -> None:
        self._api.labels(what).inc()


class ChipCollector(Collector):
    """Computed for each scrape; the readings are those of the last look at the driver."""

    def __init__(self, plugin: NodePlugin) -> None:
        self._plugin = plugin
        self.readings: Mapping[int, Readings] = {}

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        plugin = self._plugin
        reports = {report.name: report for report in plugin.reports}
        healthy = sum(report.healthy for report in reports.values())
        yield _single("machine_npu_nums", "Chips of the node", len(reports))
        yield _single("machine_healthy_npu_nums", "Healthy chips of the node", healthy)
        yield _single("machine_unhealthy_npu_nums", "Unhealthy chips of the node", len(reports) - healthy)
        health = _chips("npu_chip_info_health_status", "1: the chip is healthy, 0: it is not")
        network = _chips("npu_chip_info_network_status", "1: the chip's network is healthy, 0: it is not")
        code = _chips("npu_chip_info_error_code", "First fault code of the chip; absent without one")
        figures = {field: _chips(name, text) for field, (name, text) in _READINGS.items()}
        for chip in plugin.chips:
            name = plugin.names[chip.physical]
            report = reports.get(name)
            if report is None:
                continue
            pod = plugin.allocator.pod_of(name)
            labels = (
                str(chip.physical),
                chip.chip_name,
                chip.vdie,
                chip.pcie,
                pod.namespace if pod is not None else "",
                pod.name if pod is not None else "",
                "",
            )
            health.add_metric(labels, int(report.healthy))
            network.add_metric(labels, int(report.network_healthy))
            codes = (*report.fault.codes, *report.network_fault.codes)
            if codes:
                code.add_metric(labels, int(codes[0], 16))
            reading = self.readings.get(chip.physical, Readings())
            for field, family in figures.items():
                value = getattr(reading, field)
                if value is not None:
                    family.add_metric(labels, value)
        yield from (health, network, code, *figures.values())
        yield _single(
            "ringwise_device_mounts",
            "Containers with chips that the plugin knows",
            len(plugin.allocator.ledger.mounts),
        )


def _single(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)


def _chips(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=_CHIP_LABELS)

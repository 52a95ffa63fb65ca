"""`docs/metrics.md`: all metrics, from the declarations that are scraped."""

from __future__ import annotations

from ringwise.device.metrics import DeviceMetrics
from ringwise.metrics.families import HistogramFamily, MetricFamily, MetricSet
from ringwise.metrics.prometheus import Metrics

_INTRODUCTION = """\
# Metrics

Scheduler, controller and device plugin answer `GET /metrics` in the text format of Prometheus. This page is
made from the declarations in the code (`make docs`). A name, a type or a label that is here stays; new ones
may come.

A counter has the ending `_total`, a histogram `_bucket` (label `le`), `_sum` and `_count`. Metrics with
labels appear with their first value.
"""

_SCHEDULER = """
## Scheduler and controller

Port 8080 of the pod (`--metrics-address`); `podMonitor.enabled=true` of the chart lets the Prometheus
operator read it. The names that begin with `volcano_` are those of Volcano and mean the same. The controller
has the same metrics; those of decisions and bindings stay 0.
"""

_DEVICE_PLUGIN = """
## Device plugin

Port 8080 of the DaemonSet's pods (`--metrics-address`; 8082 by default). The names that begin with
`npu_chip_info_` and `machine_`, their labels and units are those of Huawei's NPU exporter. `namespace`,
`pod_name` and `container_name` are empty while no pod has the chip. A figure that the driver does not give is
left out.
"""


def metrics_page() -> str:
    """The whole of `docs/metrics.md`."""
    parts = [_INTRODUCTION, _SCHEDULER, _table(Metrics()), _DEVICE_PLUGIN, _table(DeviceMetrics())]
    return "".join(parts)


def _table(metrics: MetricSet) -> str:
    rows = ["", "| metric | type | labels | meaning |", "|---|---|---|---|"]
    rows += [
        f"| `{_shown_name(family)}` | {family.kind} | {', '.join(f'`{label}`' for label in family.labels)} "
        f"| {family.help} |"
        for family in sorted(metrics.families(), key=lambda family: family.name)
    ]
    return "\n".join([*rows, ""])


def _shown_name(family: MetricFamily | HistogramFamily) -> str:
    return f"{family.name}_total" if family.kind == "counter" else family.name

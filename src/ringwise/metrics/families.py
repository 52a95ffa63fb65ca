"""Metric families as plain numbers, declared in one form by every component.

prometheus_client turns them into text when they are scraped, and is imported then.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Container, Iterable
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[str, ...]


class MetricFamily:
    """Values by labels; a family without labels has one value, 0 at first."""

    def __init__(self, kind: str, name: str, text: str, *labels: str) -> None:
        self.kind = kind
        self.name = name
        self.help = text
        self.labels = labels
        self._values: dict[Labels, float] = {} if labels else {(): 0.0}
        self._created = time.time()

    def inc(self, *labels: str, by: float = 1) -> None:
        self._values[labels] = self._values.get(labels, 0.0) + by

    def reset(self) -> None:
        """All values to zero; the labels stay."""
        self._values = dict.fromkeys(self._values, 0.0)

    def clear(self) -> None:
        """Forget all labels with their values."""
        self._values = {} if self.labels else {(): 0.0}

    def keep(self, names: Container[str]) -> None:
        """Remove values whose first label is not one of these."""
        self._values = {labels: value for labels, value in self._values.items() if labels[0] in names}

    def hide(self) -> None:
        """Show no value at all until one is set."""
        self._values = {}

    def set(self, value: float, *labels: str) -> None:
        self._values[labels] = value

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        # A copy: the event loop may add labels meanwhile.
        values = dict(self._values)
        if self.kind == "gauge":
            gauge = GaugeMetricFamily(self.name, self.help, labels=self.labels)
            for labels, value in values.items():
                gauge.add_metric(labels, value)
            yield gauge
        else:
            counter = CounterMetricFamily(self.name, self.help, labels=self.labels)
            for labels, value in values.items():
                counter.add_metric(labels, value, created=self._created)
            yield counter


class HistogramFamily:
    """How many values are at most as large as each bound."""

    kind = "histogram"
    labels: Labels = ()

    def __init__(self, name: str, text: str, bounds: tuple[float, ...]) -> None:
        self.name = name
        self.help = text
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._created = time.time()

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import HistogramMetricFamily
        from prometheus_client.utils import floatToGoString

        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        family = HistogramMetricFamily(self.name, self.help)
        family.add_metric((), list(zip(bounds, accumulate(self._counts), strict=True)), self._sum)
        family.add_sample(f"{self.name}_created", {}, self._created)
        yield family


def counter(name: str, text: str, *labels: str) -> MetricFamily:
    return MetricFamily("counter", name, text, *labels)


def gauge(name: str, text: str, *labels: str) -> MetricFamily:
    return MetricFamily("gauge", name, text, *labels)


class MetricSet:
    """The metrics of one process: the attributes of a subclass that are families, or tuples of them."""

    def families(self) -> list[MetricFamily | HistogramFamily]:
        attributes = vars(self).values()
        values = (one for value in attributes for one in (value if isinstance(value, tuple) else (value,)))
        return [value for value in values if isinstance(value, (MetricFamily, HistogramFamily))]

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        for family in self.families():
            registry.register(family)
        return generate_latest(registry)

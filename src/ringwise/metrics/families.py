"""Metric families as plain numbers, declared in one form by every component.

prometheus_client turns them into text when they are scraped, and is imported then.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Mapping
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

    def replace(self, values: Mapping[Labels, float]) -> None:
        """Show these values, and no others."""
        self._values = dict(values)

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, UntypedMetricFamily

        # A copy: the event loop may add labels meanwhile.
        values = dict(self._values)
        if self.kind == "counter":
            counter = CounterMetricFamily(self.name, self.help, labels=self.labels)
            for labels, value in values.items():
                counter.add_metric(labels, value, created=self._created)
            yield counter
        else:
            kind = GaugeMetricFamily if self.kind == "gauge" else UntypedMetricFamily
            family = kind(self.name, self.help, labels=self.labels)
            for labels, value in values.items():
                family.add_metric(labels, value)
            yield family


class HistogramFamily:
    """How many values are at most as large as each bound, by labels; without labels there is one series."""

    kind = "histogram"

    def __init__(self, name: str, text: str, bounds: tuple[float, ...], *labels: str) -> None:
        self.name = name
        self.help = text
        self.labels = labels
        self._bounds = bounds
        #: By labels: the number of values up to each bound and above all of them, then their sum.
        self._series: dict[Labels, list[float]] = {} if labels else {(): self._empty()}
        self._created = time.time()

    def _empty(self) -> list[float]:
        return [0.0] * (len(self._bounds) + 2)

    def observe(self, value: float, *labels: str) -> None:
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = self._empty()
        series[bisect_left(self._bounds, value)] += 1
        series[-1] += value

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import HistogramMetricFamily
        from prometheus_client.utils import floatToGoString

        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        family = HistogramMetricFamily(self.name, self.help, labels=self.labels)
        # A copy: another thread may add labels meanwhile.
        for labels, (*counts, total) in dict(self._series).items():
            family.add_metric(labels, list(zip(bounds, accumulate(counts), strict=True)), total)
            family.add_sample(
                f"{self.name}_created", dict(zip(self.labels, labels, strict=True)), self._created
            )
        yield family


def counter(name: str, text: str, *labels: str) -> MetricFamily:
    return MetricFamily("counter", name, text, *labels)


def gauge(name: str, text: str, *labels: str) -> MetricFamily:
    return MetricFamily("gauge", name, text, *labels)


def _families(values: Iterable[object]) -> Iterator[MetricFamily | HistogramFamily]:
    for value in values:
        if isinstance(value, MetricSet):
            yield from value.families()
        elif isinstance(value, (MetricFamily, HistogramFamily)):
            yield value
        elif isinstance(value, (tuple, dict)):
            yield from _families(value.values() if isinstance(value, dict) else value)


class MetricSet:
    """The metrics of one process: the attributes of a subclass that are families or sets, also in tables."""

    def families(self) -> list[MetricFamily | HistogramFamily]:
        return list(_families(vars(self).values()))

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        for family in self.families():
            registry.register(family)
        return generate_latest(registry)

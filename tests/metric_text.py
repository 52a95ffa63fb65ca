"""Reads the text format of Prometheus."""

from __future__ import annotations

import re

from ringwise.metrics.families import MetricSet


def samples(text: str) -> dict[str, float]:
    """Values by name and labels, as they are written: `name{label="value"}`."""
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def values_of(metrics: MetricSet, name: str) -> dict[str, float]:
    """The values of a metric by its only label; empty text for a metric without labels."""
    result: dict[str, float] = {}
    for one, value in samples(metrics.text().decode()).items():
        if match := re.fullmatch(name + r'(?:\{\w+="(.*)"\})?', one):
            result[match[1] or ""] = value
    return result

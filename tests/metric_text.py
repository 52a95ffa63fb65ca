"""Reads the text format of Prometheus."""

from __future__ import annotations


def samples(text: str) -> dict[str, float]:
    """Values by name and labels, as they are written: `name{label="value"}`."""
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

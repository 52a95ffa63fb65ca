"""`docs/reference/volcano-metrics.md`: every metric of Volcano, and what became of it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ringwise.metrics.volcano import VolcanoMetrics
from ringwise_bench.docs.parts import table

_METRICS = Path(__file__).with_name("volcano_metrics.toml")
PREFIX = "volcano_"


class VolcanoMetric(msgspec.Struct, forbid_unknown_fields=True):
    """A metric as Volcano exports it."""

    type: str
    labels: Sequence[str] = ()
    #: Whether the Grafana dashboard of Volcano's chart queries it.
    dashboard: bool = False
    #: Why it is not exported here; empty: it is.
    missing: str = ""


def volcano_metrics() -> Mapping[str, VolcanoMetric]:
    """By name, without the prefix."""
    text = _METRICS.read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, VolcanoMetric])


def exported_metrics() -> dict[str, tuple[str, tuple[str, ...], str]]:
    """Type, labels and meaning of those that are exported here, by name without the prefix."""
    return {
        (f"{one.name}_total" if one.kind == "counter" else one.name).removeprefix(PREFIX): (
            # A counter whose name has no suffix is exported without a type.
            "counter" if one.kind == "untyped" else one.kind,
            one.labels,
            one.help,
        )
        for one in VolcanoMetrics().families()
    }


def volcano_metrics_table() -> str:
    exported = exported_metrics()
    rows = (
        (
            f"**`{PREFIX}{name}`**" if one.dashboard else f"`{PREFIX}{name}`",
            one.type,
            ", ".join(f"`{label}`" for label in one.labels),
            f"not exported: {one.missing}" if one.missing else exported[name][2],
        )
        for name, one in volcano_metrics().items()
    )
    return table(("metric", "type", "labels", "here"), rows)

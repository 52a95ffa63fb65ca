"""What the chart renders with its own values, and what each other set of values changes in that.

After a wanted change: RINGWISE_WRITE_GOLDEN=1 RINGWISE_HELM=... pytest tests/deploy/test_chart_snapshots.py
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.charts import VARIATIONS, chart_with_notes, needs_helm, template
from tests.golden_files import same_as_golden

#: Longer texts are files of the chart, such as the dashboard for Grafana.
_LONGEST = 2000


class _Dumper(yaml.CSafeDumper):
    """Texts of several lines as they are written by hand."""


def _represent(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    if len(text) > _LONGEST:
        text = f"{len(text)} characters, {hashlib.sha256(text.encode()).hexdigest()[:12]}"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent)


def snapshot(chart: Path, values: Mapping[str, Any]) -> dict[str, str]:
    """The objects by kind and name, in this order."""
    done = template(values, chart=chart)
    assert done.returncode == 0, done.stderr
    found = {}
    for one in yaml.load_all(done.stdout, yaml.CSafeLoader):
        if one is not None:
            meta = one["metadata"]
            name = "/".join(part for part in (meta.get("namespace"), meta["name"]) if part)
            found[f"{one['kind']} {name}"] = yaml.dump(
                one, Dumper=_Dumper, width=10_000, default_flow_style=None
            )
    return dict(sorted(found.items()))


def changes(usual: Mapping[str, str], other: Mapping[str, str], shown: dict[str, str]) -> Iterator[str]:
    """Objects that are left out, that differ, and that are new: these in full once, then what differs."""
    for name in sorted({*usual, *other}):
        if name not in other:
            yield f"- {name}"
            continue
        text = other[name]
        if name not in usual:
            yield f"+ {name}"
            if name not in shown:
                yield from (f"    {line}" for line in text.splitlines())
        elif text != usual[name]:
            yield f"~ {name}"
        before = shown.setdefault(name, text)
        lines = difflib.unified_diff(before.splitlines(), text.splitlines(), n=0, lineterm="")
        yield from (f"    {line}" for line in lines if line[:3] not in ("---", "+++", "@@ "))


@needs_helm
def test_the_chart_renders_what_is_kept(tmp_path: Path) -> None:
    chart = chart_with_notes(tmp_path)
    usual = snapshot(chart, {})
    same_as_golden("chart/values", "---\n".join(usual.values()))
    lines: list[str] = []
    shown = dict(usual)
    for name, values in VARIATIONS.items():
        lines += [f"=== {name}", *changes(usual, snapshot(chart, values), shown)]
    same_as_golden("chart/variations", "\n".join(lines))

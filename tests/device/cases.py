"""The worked cases of the device plugin, and pods in their form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ringwise.device.pods import NodePod
from tests.builders.values import CHIP


@cache
def _document() -> dict[str, Any]:
    path = Path(__file__).resolve().parents[1] / "vectors" / "device.json"
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def section(name: str) -> Any:
    return _document()[name]


def sections() -> list[str]:
    """All sections with cases."""
    return [name for name in _document() if name != "meta"]


def case_id(case: Any) -> str:
    return str(case.get("id") or case.get("note") or case.get("test") or "") if isinstance(case, dict) else ""


def pod_of(case: Mapping[str, Any]) -> NodePod:
    """A pod of the simplified form."""
    return NodePod(
        namespace=case["namespace"],
        name=case["name"],
        uid=f"uid-{case['name']}",
        phase=case["phase"],
        created=case.get("created", "2025-01-01T00:00:00Z"),
        annotations=case["annotations"],
        limits=tuple(case["limits"]),
        deleting=case.get("deleting", False),
        reason=case.get("reason", ""),
        waiting_messages=tuple(case.get("waiting_messages", ())),
    )


def chips(count: int, resource: str = CHIP) -> tuple[str, ...]:
    prefix = resource.rpartition("/")[2]
    return tuple(f"{prefix}-{number}" for number in range(count))

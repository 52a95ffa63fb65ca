"""Files of the checkout that are in no package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from ringwise_bench.control_plane import ControlPlaneError

CHART = Path(__file__).resolve().parents[3] / "deploy" / "helm" / "ringwise"


def definitions(chart: Path = CHART) -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions of Volcano, by name."""
    files = sorted((chart / "crds").glob("*.yaml"))
    if not files:
        raise ControlPlaneError(f"{chart} not found: a control plane is started from a checkout of Ringwise")
    return [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files]

"""Ringwise as users install it on a control plane: by Helm, or with kubectl from the rendered manifests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.manifests import MANIFESTS

from ringwise.wellknown import VOLCANO_SYSTEM
from ringwise_bench.checkout import CHART
from tests.cluster.cluster import Cluster
from tests.deploy import charts


def helm(
    cluster: Cluster, *arguments: str, values: Mapping[str, Any] | None = None, chart: Path = CHART
) -> str:
    """Run helm; with values, for a release of the chart."""
    more = [] if values is None else [str(chart), "-f", "-"]
    folder = cluster.plane.folder
    done = charts.helm(
        *arguments,
        *more,
        f"--namespace={VOLCANO_SYSTEM}",
        f"--kubeconfig={cluster.admin_config}",
        stdin=None if values is None else json.dumps(values),
        HOME=str(folder),
        HELM_CACHE_HOME=str(folder / "helm"),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def apply_manifests(cluster: Cluster, folder: Path = MANIFESTS) -> str:
    """Apply a kustomization; by default that of the repository."""
    return cluster.kubectl("apply", "--server-side", "-k", str(folder))

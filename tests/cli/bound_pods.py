"""The pods that `place` would place, as objects that are bound there: what a cluster has a moment later."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from ringwise.cli.commands import cli
from ringwise.wellknown import PARTITION_ID, TASK_SPEC
from tests.builders.values import CHIP


def write_bound_pods(file: Path, arguments: Sequence[str], partition: int = 0) -> list[str]:
    """Write them to a file; the arguments that add it to these. `partition`: pods of each, of a task."""
    answer = json.loads(CliRunner().invoke(cli, ["place", *arguments, "-o", "json"]).stdout)
    pods = [
        _bound(job["namespace"], pod, partition)
        for job in answer["jobs"]
        for pod in job["pods"]
        if pod["node"] is not None
    ]
    assert pods
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    return [*arguments, "-f", str(file)]


def _bound(namespace: str, pod: dict[str, Any], partition: int) -> dict[str, Any]:
    labels = {}
    if partition:
        _, task, index = pod["name"].rsplit("-", 2)
        labels = {TASK_SPEC: task, PARTITION_ID: str(int(index) // partition)}
    limits = {CHIP: str(len(pod["chips"]))}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod["name"],
            "namespace": namespace,
            "labels": labels,
            "annotations": pod["annotations"],
        },
        "spec": {
            "schedulerName": "volcano",
            "nodeName": pod["node"],
            "containers": [{"name": "main", "resources": {"limits": limits}}],
        },
        "status": {"phase": "Running"},
    }

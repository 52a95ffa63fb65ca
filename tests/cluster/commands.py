"""The commands of users, as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ringwise_bench.control_plane import find_program, ringwise_command


def kubectl_ringwise(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`kubectl ringwise ...`, found by kubectl on the PATH."""
    return _run(kubeconfig, kubectl_command(*arguments))


def kubectl_command(*arguments: str) -> list[str]:
    return [str(find_program("kubectl")), "ringwise", *arguments]


def ringwise(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return _run(kubeconfig, ringwise_command(*arguments))


def _run(kubeconfig: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment(kubeconfig))


def environment(kubeconfig: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "KUBECONFIG": str(kubeconfig), "HOME": str(kubeconfig.parent)}

"""Where a component listens by default: where it must be reached, and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Callable

LOOPBACK = "127.0.0.1"


def own_address(port: int) -> str:
    """The address of the pod, which the manifests pass as $POD_IP; outside a pod this machine alone."""
    host = os.environ.get("POD_IP") or LOOPBACK
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def default_address(port: int) -> Callable[[], str]:
    return lambda: own_address(port)


def shown_default(port: int) -> str:
    return f"port {port} of $POD_IP, else of {LOOPBACK}"

"""Where a component listens by default: where it must be reached, and nowhere else."""

from __future__ import annotations

import os

from ringwise.cli.options import Decorator, option

LOOPBACK = "127.0.0.1"


def own_address(port: int) -> str:
    """The address of the pod, which the manifests pass as $POD_IP; outside a pod this machine alone."""
    host = os.environ.get("POD_IP") or LOOPBACK
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def address_option(names: str, port: int, help: str) -> Decorator:
    shown = f"port {port} of $POD_IP, else of {LOOPBACK}"
    return option(names, help, default=lambda: own_address(port), show_default=shown)


def metrics_option(port: int) -> Decorator:
    what = "Listen address of /metrics, `:PORT` for all addresses; empty to disable it."
    return address_option("--metrics-address", port, what)

"""Benchmarks: ratios within one run, with the machine they were measured on."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable

from ringwise.views.bench import Measured, bench_document
from ringwise.views.documents.reference import BenchDocument, MachineFields


def at_least(name: str, value: float, unit: str, goal: float) -> Measured:
    return Measured(name, value, unit, f">= {goal:g}", value >= goal)


def at_most(name: str, value: float, unit: str, goal: float) -> Measured:
    return Measured(name, value, unit, f"<= {goal:g}", value <= goal)


def shown(name: str, value: float, unit: str) -> Measured:
    return Measured(name, value, unit)


Bench = Callable[[bool], list[Measured]]


def run_bench(name: str, bench: Bench, full: bool) -> BenchDocument:
    started = time.perf_counter()
    results = bench(full)
    return bench_document(name, machine(), time.perf_counter() - started, results)


def machine() -> MachineFields:
    return {"cpu": _cpu_name(), "cores": os.cpu_count(), "python": sys.version.split()[0]}


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith(("model name", "Model", "CPU part")):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()

"""Benchmarks: ratios within one run, with the machine they were measured on."""

from __future__ import annotations

import gc
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from ringwise import __version__
from ringwise.records import dataclass
from ringwise.views.documents.reference import BenchDocument, FigureFields, MachineFields


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. A goal is a ratio or a size, never a bare time of this machine."""

    name: str
    value: float
    unit: str
    goal: str | None = None
    holds: bool | None = None


def at_least(name: str, value: float, unit: str, goal: float) -> Figure:
    return Figure(name, value, unit, f">= {goal:g}", value >= goal)


def at_most(name: str, value: float, unit: str, goal: float) -> Figure:
    return Figure(name, value, unit, f"<= {goal:g}", value <= goal)


def shown(name: str, value: float, unit: str) -> Figure:
    return Figure(name, value, unit)


def timed(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of one run, by this clock."""
    started = clock()
    work()
    return clock() - started


@contextmanager
def frozen() -> Iterator[None]:
    """As in a component that decides: what lives long is not looked at for garbage."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


Bench = Callable[[bool], Iterable[Figure]]


class NothingToMeasureError(Exception):
    """What is to be measured is not there: one line."""


class InterruptedBenchError(Exception):
    """Ctrl-C ended the benchmark; `document` has the figures that were known."""

    def __init__(self, document: BenchDocument) -> None:
        super().__init__()
        self.document = document


def run_bench(name: str, bench: Bench, full: bool) -> BenchDocument:
    """Raises InterruptedBenchError where Ctrl-C ends it after a first figure."""
    started = time.perf_counter()
    results: list[Figure] = []
    try:
        results.extend(bench(full))
    except KeyboardInterrupt:
        if not results:
            raise
        known = bench_document(name, machine(), time.perf_counter() - started, results)
        raise InterruptedBenchError(known) from None
    return bench_document(name, machine(), time.perf_counter() - started, results)


def bench_document(
    name: str, machine: MachineFields, seconds: float, results: Iterable[Figure]
) -> BenchDocument:
    """What `ringwise bench -o json` prints."""
    return BenchDocument(
        bench=name,
        version=__version__,
        machine=machine,
        duration_seconds=round(seconds, 1),
        results=[
            FigureFields.of(result, value=round(result.value, 3), goal_met=result.holds) for result in results
        ],
    )


def machine() -> MachineFields:
    return MachineFields(cpu=_cpu_name(), cores=os.cpu_count(), python=sys.version.split()[0])


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith(("model name", "Model", "CPU part")):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()

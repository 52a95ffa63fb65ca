"""What measures the steps of a cycle. The core has no clock, so its caller provides one."""

from __future__ import annotations

import enum
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class CycleStep(enum.Enum):
    CYCLE = enum.auto()
    #: Opening the session of the cycle, with all plugins.
    OPEN = enum.auto()
    PLUGIN = enum.auto()
    ACTION = enum.auto()


class StepTimer(Protocol):
    """Returns a context manager that measures a step; `name` is that of the plugin or action, or empty."""

    def __call__(self, step: CycleStep, name: str, /) -> AbstractContextManager[object]: ...


def untimed(*_: object) -> AbstractContextManager[object]:
    return nullcontext()

"""The link of a chip's RoCE port, as `hccn_tool` shows it."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Sequence

from ringwise.device.drivers.port import DriverError, NoChipsError

#: Runs a program and returns what it printed. Raises DriverError.
Run = Callable[[Sequence[str]], str]

HCCN_TOOL = "/usr/local/Ascend/driver/tools/hccn_tool"
#: Seconds for one program.
PROGRAM_SECONDS = 10
#: Seconds between two looks at a link that works: a program for each chip costs more than a call.
LINK_PERIOD = 300.0
#: The same for one that does not.
DOWN_PERIOD = 10.0
_LINK = re.compile(r"link\s+status\s*:\s*(UP|DOWN)\b", re.IGNORECASE)


class ProgramFailedError(DriverError):
    """A program ran and said that it cannot do it."""


def run_program(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=PROGRAM_SECONDS, check=False
        )
    except FileNotFoundError:
        raise NoChipsError(f"{command[0]} not found") from None
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise DriverError(f"{command[0]} failed: {problem}") from None
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()
        raise ProgramFailedError(f"{' '.join(command)} failed: {last[-1] if last else done.returncode}")
    return done.stdout


class LinkStates:
    """Whether links are up. One that is up is looked at every five minutes, one that is not more often."""

    def __init__(
        self,
        run: Run = run_program,
        program: str = HCCN_TOOL,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._program = program
        self._monotonic = monotonic
        self._there = run is not run_program or os.access(program, os.X_OK)
        #: Physical id -> until when a link counts as it was, and how it was.
        self._cache: dict[int, tuple[float, bool | None]] = {}

    def works(self, physical: int) -> bool | None:
        """None where the program is not there or does not say it."""
        if not self._there:
            return None
        now = self._monotonic()
        until, state = self._cache.get(physical, (now, None))
        if now < until:
            return state
        try:
            match = _LINK.search(self._run([self._program, "-i", str(physical), "-link", "-g"]))
            state = None if match is None else match[1].upper() == "UP"
        except DriverError:
            state = None
        self._cache[physical] = (now + (DOWN_PERIOD if state is False else LINK_PERIOD), state)
        return state

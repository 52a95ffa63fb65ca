"""Signs for nodes and jobs that the drawings of SuperPoDs and racks share."""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterable, Sequence

from ringwise.topology.natural import natural_key

FREE, RESERVED, BUSY, UNUSABLE, FAULTY = ".", "~", "#", "x", "!"
FAULTY_MEANING = "has a faulty chip or switch"

_JOB_COLORS = ("green", "cyan", "magenta", "yellow", "blue", "red")
_LETTERS = string.ascii_uppercase + string.ascii_lowercase
_MORE_JOBS = "*"


def job_signs(jobs: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The letter and the color of each job, jobs in natural order of their names."""
    ordered = sorted(set(jobs), key=natural_key)
    signs = dict(itertools.zip_longest(ordered, _LETTERS[: len(ordered)], fillvalue=_MORE_JOBS))
    return signs, dict(zip(ordered, itertools.cycle(_JOB_COLORS), strict=False))


def ranges(ids: Sequence[int]) -> str:
    """Ascending numbers as a person writes them: `0-3, 7`."""
    runs: list[list[int]] = []
    for number in ids:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)

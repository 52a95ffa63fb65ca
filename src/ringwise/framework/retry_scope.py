"""How far from its own places a job that lost pods is tried (F3, S9)."""

from __future__ import annotations

import enum


class RetryScope(enum.Enum):
    """Where pods that a job lost may go while it is tried."""

    #: Under the switches that it had.
    OWN = "own"
    #: Anywhere, while its healthy pods keep or return to their nodes (S9).
    HEALTHY_STAY = "kept"
    #: Anywhere, the whole job where no pod of it runs.
    ANY = "any"

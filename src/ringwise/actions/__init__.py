"""The steps of a cycle, by name."""

from __future__ import annotations

from collections.abc import Mapping

from ringwise.actions.allocate import allocate
from ringwise.actions.backfill import backfill
from ringwise.actions.enqueue import enqueue
from ringwise.actions.preempt import preempt
from ringwise.actions.reclaim import reclaim
from ringwise.framework.registry import Action

ACTIONS: Mapping[str, Action] = {
    "enqueue": enqueue,
    "allocate": allocate,
    "backfill": backfill,
    "preempt": preempt,
    "reclaim": reclaim,
}

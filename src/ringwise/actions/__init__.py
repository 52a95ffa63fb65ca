"""The actions: the steps of a cycle. Each declares itself in its own file."""

from __future__ import annotations

from ringwise.actions import (
    allocate,
    backfill,
    enqueue,
    gangpreempt,
    gangreclaim,
    preempt,
    reclaim,
    shuffle,
)
from ringwise.framework.registry import ActionSpec

ACTIONS: tuple[ActionSpec, ...] = (
    enqueue.SPEC,
    allocate.SPEC,
    backfill.SPEC,
    preempt.SPEC,
    reclaim.SPEC,
    gangpreempt.SPEC,
    gangreclaim.SPEC,
    shuffle.SPEC,
)

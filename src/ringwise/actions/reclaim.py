"""reclaim: a queue takes back what other queues use beyond their share."""

from __future__ import annotations

from ringwise.framework.evictions.eviction import evicting_action
from ringwise.framework.evictions.reclaiming import reclaim_choices
from ringwise.framework.registry import PREDICATE_ERROR_CACHE

NAME = "reclaim"


SPEC = evicting_action(
    NAME, "evicts pods of queues that exceed their fair share", reclaim_choices, (PREDICATE_ERROR_CACHE,)
)

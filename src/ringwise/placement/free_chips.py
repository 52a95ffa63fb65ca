"""Which chips of a node are free, and whether the count can be believed."""

from __future__ import annotations

from ringwise.placement.reasons import IDLE_ABOVE_CAPACITY, LISTED_ABOVE_CAPACITY, LISTED_ABOVE_IDLE
from ringwise.reasons import Reason


def free_chips(
    listed: int, held: int, unhealthy: int, recovering: int, reported: int, self_maintain: bool
) -> int:
    """The free chips as a mask, from masks.

    `self_maintain` (`self-maintain-available-card: true`): the chips the node lists,
    without those that live pods hold, the unhealthy and the recovering. Otherwise the
    list the device plugin reported. What a live pod holds is never free, also when
    the report is too old to know it.
    """
    if self_maintain:
        return listed & ~(held | unhealthy | recovering)
    return reported & ~held


def stable(listed_free: int, idle: int, capacity: int) -> Reason | None:
    """None if the three counts of a node's free chips can all be true, else why not.

    The list may be shorter than Kubernetes' idle count (a chip went bad a moment
    ago), never longer: then some pod holds chips that nobody can name.
    """
    if listed_free > idle:
        return LISTED_ABOVE_IDLE(listed=listed_free, idle=idle)
    if listed_free > capacity:
        return LISTED_ABOVE_CAPACITY(listed=listed_free, capacity=capacity)
    if idle > capacity:
        return IDLE_ABOVE_CAPACITY(idle=idle, capacity=capacity)
    return None

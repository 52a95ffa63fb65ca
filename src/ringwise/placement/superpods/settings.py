"""The settings of SuperPoD affinity, read from their text.

A wrong value is an error and not a silent default: a wrong reserve shows only
weeks later, when a fault finds no spare node.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ringwise.placement.superpods.reasons import SETTING_NOT_ALLOWED
from ringwise.reasons import Reason
from ringwise.topology.superpods import whole_number

DEFAULT_SUPER_POD_SIZE = 48
DEFAULT_RESERVE_NODES = 2


class Packing(enum.Enum):
    """How blocks are packed: the documents' order, or the one of the system in the field."""

    WHOLE_JOB = "whole-job"
    PER_BLOCK = "per-block"


@dataclass(frozen=True, slots=True)
class SuperPodSettings:
    super_pod_size: int = DEFAULT_SUPER_POD_SIZE
    reserve_nodes: int = DEFAULT_RESERVE_NODES
    packing: Packing = Packing.WHOLE_JOB


def read_settings(
    super_pod_size: str | None = None, reserve_nodes: str | None = None, packing: str | None = None
) -> SuperPodSettings | Reason:
    """The settings, or the reason that names the wrong one and what is allowed. None is "not written"."""
    size = DEFAULT_SUPER_POD_SIZE if super_pod_size is None else whole_number(super_pod_size)
    if size is None or size < 1:
        return SETTING_NOT_ALLOWED(
            setting="super-pod-size", value=super_pod_size, allowed="a whole number of nodes above 0"
        )
    if reserve_nodes is None:
        reserve: int | None = DEFAULT_RESERVE_NODES if size > DEFAULT_RESERVE_NODES else 0
    else:
        reserve = whole_number(reserve_nodes)
    if reserve is None:
        return SETTING_NOT_ALLOWED(
            setting="reserve-nodes", value=reserve_nodes, allowed=_reserve_allowed(size)
        )
    problem = check_reserve(reserve, size)
    if problem is not None:
        return problem
    if packing is not None and packing not in {choice.value for choice in Packing}:
        return SETTING_NOT_ALLOWED(
            setting="superpod-packing", value=packing, allowed=" or ".join(choice.value for choice in Packing)
        )
    return SuperPodSettings(size, reserve, Packing(packing) if packing is not None else Packing.WHOLE_JOB)


def check_reserve(reserve: int, super_pod_size: int) -> Reason | None:
    """A reserve that swallows whole SuperPoDs would leave no queue 1 at all."""
    if 0 <= reserve < super_pod_size:
        return None
    return SETTING_NOT_ALLOWED(
        setting="reserve-nodes", value=reserve, allowed=_reserve_allowed(super_pod_size)
    )


def _reserve_allowed(super_pod_size: int) -> str:
    return f"0 to {super_pod_size - 1}, below super-pod-size {super_pod_size}"

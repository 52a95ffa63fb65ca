"""What SuperPoD affinity is told about SuperPoDs. The configuration has checked the values."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Packing(enum.Enum):
    """How blocks are packed: the documents' order, or the one of the system in the field."""

    WHOLE_JOB = "whole-job"
    PER_BLOCK = "per-block"


@dataclass(frozen=True, slots=True)
class SuperPodSettings:
    super_pod_size: int
    reserve_nodes: int
    packing: Packing = Packing.WHOLE_JOB

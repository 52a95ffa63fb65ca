"""Rule S1: the three classes of switch-aware jobs."""

from __future__ import annotations

import enum

from ringwise.placement.reasons import LABEL_UNKNOWN
from ringwise.reasons import Reason

#: Values of the label `tor-affinity` that ask for switches.
NORMAL_SCHEMA = "normal-schema"
LARGE_MODEL_SCHEMA = "large-model-schema"
#: A large-model job with fewer NPU pods than this is a padding job.
FOUNDATION_MODEL_PODS = 4


class SwitchClass(enum.Enum):
    FOUNDATION_MODEL = "foundation-model"
    COMMON = "common"
    PADDING = "padding"


def asks_for_switches(label: str | None) -> bool:
    """Whether the label requests switch affinity: a missing one and "null" do not."""
    return label not in (None, "null")


def classify(label: str | None, npu_pods: int, marked: bool = False) -> SwitchClass | Reason | None:
    """Rule S1: the class of a job; None when it is not switch-aware; a reason when the label is invalid.

    `marked`: live pods of it carry `isSharedTor` 1 or 2. Then it is not a padding job, whatever the number.
    """
    if not asks_for_switches(label):
        return None
    if label not in (NORMAL_SCHEMA, LARGE_MODEL_SCHEMA):
        return LABEL_UNKNOWN(value=label)
    if npu_pods < 1:
        return None
    if label == NORMAL_SCHEMA:
        return SwitchClass.COMMON
    model = marked or npu_pods >= FOUNDATION_MODEL_PODS
    return SwitchClass.FOUNDATION_MODEL if model else SwitchClass.PADDING

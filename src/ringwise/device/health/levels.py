"""Levels of faults, worst first, and what they mean for a chip and for the node's switches."""

from __future__ import annotations

from collections.abc import Iterable

from ringwise.wellknown import MANUALLY_SEPARATE_KEY


class FaultLevel:
    """What is done about a fault, worst first, as reports write it."""

    #: It has the name of the data key that lists such chips.
    MANUALLY_SEPARATE = MANUALLY_SEPARATE_KEY
    SEPARATE = "SeparateNPU"
    PRE_SEPARATE = "PreSeparateNPU"
    RESTART_NPU = "RestartNPU"
    FREE_RESTART_NPU = "FreeRestartNPU"
    RESTART_BUSINESS = "RestartBusiness"
    RESTART_REQUEST = "RestartRequest"
    SUB_HEALTH = "SubHealthFault"
    NOT_HANDLE = "NotHandleFault"
    NORMAL = "NormalNPU"


#: In place of `FaultLevel.NORMAL`, of a network port without a fault.
NORMAL_NETWORK = "NormalNetwork"


class Assertion:
    """What an event says about a fault, as drivers number it."""

    RECOVERED, OCCURRED, ONCE = 0, 1, 2


#: Worst first.
LEVELS: tuple[str, ...] = tuple(level for name, level in vars(FaultLevel).items() if name.isupper())
#: The levels that a network fault may have.
NETWORK_LEVELS = frozenset(
    {FaultLevel.SEPARATE, FaultLevel.PRE_SEPARATE, FaultLevel.SUB_HEALTH, FaultLevel.NOT_HANDLE}
)
_ORDER = {level: place for place, level in enumerate(LEVELS)}
_HARMLESS = frozenset({FaultLevel.SUB_HEALTH, FaultLevel.NOT_HANDLE, FaultLevel.NORMAL, NORMAL_NETWORK})
_NETWORK_HARMLESS = frozenset({FaultLevel.NOT_HANDLE, FaultLevel.NORMAL, NORMAL_NETWORK})

SWITCH_SEPARATE = "Separate"
#: Worst first, with the state of the node.
SWITCH_LEVELS = {
    SWITCH_SEPARATE: "UnHealthy",
    "PreSeparate": "PreSeparate",
    "Reset": "UnHealthy",
    "RestartRequest": "UnHealthy",
    "SubHealthFault": "SubHealthy",
    "NotHandle": "Healthy",
}


def worst(levels: Iterable[str]) -> str:
    """The worst of some levels, `NormalNPU` without any."""
    return min(levels, key=_ORDER.__getitem__, default=FaultLevel.NORMAL)


def is_harmless(level: str) -> bool:
    """Return whether a fault of this level leaves the chip healthy."""
    return level in _HARMLESS


def chip_is_healthy(level: str, used: bool) -> bool:
    """Return whether a chip counts as healthy. A chip to be separated later does as long as a pod uses it."""
    return level in _HARMLESS or (level == FaultLevel.PRE_SEPARATE and used)


def network_is_healthy(level: str) -> bool:
    return level in _NETWORK_HARMLESS


def switch_node_status(level: str) -> str:
    return SWITCH_LEVELS.get(level, "Healthy")

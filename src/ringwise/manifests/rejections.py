"""Pods that kubelet rejected and that are made again, in `status.controlledResources` of their vcjob (F5).

The field holds texts by name, and clients look for names of theirs. The text is `pod=times,pod=times`.
"""

from __future__ import annotations

from collections.abc import Mapping

from ringwise.state.failures import MOST_REJECTIONS
from ringwise.topology.numbers import whole_number

KEY = "kubelet-rejections"


def write_rejections(rejections: Mapping[str, int] | None) -> dict[str, str | None]:
    """None removes the name."""
    if rejections is None:
        return {}
    return {KEY: ",".join(f"{pod}={times}" for pod, times in rejections.items()) or None}


def read_rejections(controlled: Mapping[str, str]) -> dict[str, int]:
    """What cannot be read is left out."""
    found: dict[str, int] = {}
    for entry in controlled.get(KEY, "").split(","):
        pod, _, text = entry.partition("=")
        times = whole_number(text, 1, MOST_REJECTIONS)
        if pod and times is not None:
            found[pod] = times
    return found

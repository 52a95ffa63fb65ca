"""Whether a pod may be placed that says itself which chips it sees: the setting `visible-devices`."""

from __future__ import annotations

from ringwise.framework.reasons import VISIBLE_DEVICES_HIDDEN, VISIBLE_DEVICES_SET
from ringwise.reasons import Reason
from ringwise.state.model import VisibleDevices

ALLOWED, STRICT = "allowed", "strict"


def refused_choice(devices: VisibleDevices | None, pod: str, setting: str) -> Reason | None:
    """Why the pod of this name is refused; None where it chooses nothing, or may."""
    if devices is None or setting == ALLOWED or not (devices.certain or setting == STRICT):
        return None
    kind = VISIBLE_DEVICES_SET if devices.certain else VISIBLE_DEVICES_HIDDEN
    return kind(container=devices.container, pod=pod, field=devices.field, source=devices.source)

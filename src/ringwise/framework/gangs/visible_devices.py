"""Whether a pod may be placed that says itself which chips it sees: the setting `visible-devices`."""

from __future__ import annotations

from ringwise.framework.reasons import VISIBLE_DEVICES_HIDDEN, VISIBLE_DEVICES_SET
from ringwise.reasons import Reason
from ringwise.state.model import VisibleDevices

ALLOWED, STRICT = "allowed", "strict"


def refused_choice(found: VisibleDevices | None, pod: str, setting: str) -> Reason | None:
    """Why the pod of this name is refused; None where it chooses nothing, or may."""
    if found is None or setting == ALLOWED or not (found.certain or setting == STRICT):
        return None
    kind = VISIBLE_DEVICES_SET if found.certain else VISIBLE_DEVICES_HIDDEN
    return kind(container=found.container, pod=pod, field=found.field, source=found.source)

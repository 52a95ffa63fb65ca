"""The status of HyperNodes: the number of nodes, and one condition among those of others.

Volcano's controller writes the number, too. So a number is written where it differs when what we know
changes, and never again because another writer changed it: two writers with different views do not fight.
"""

from __future__ import annotations

from typing import Any

from ringwise.kube.watch.readers import ObservedHyperNode
from ringwise.kube.write.tenant_text import cut_text
from ringwise.messages.commands import SetHyperNodeStatus

CONDITION = "Valid"
_GOOD = "AllMembersFound"


def hyper_node_status(command: SetHyperNodeStatus, observed: ObservedHyperNode, now: str) -> dict[str, Any]:
    """What of the status has to be written. One about which there is nothing to tell gets no condition."""
    status: dict[str, Any] = {}
    if command.nodes is not None and (observed.nodes or 0) != command.nodes:
        status["nodeCount"] = command.nodes
    condition = {
        "type": CONDITION,
        "status": "True" if command.valid else "False",
        "reason": command.reason or _GOOD,
        "message": cut_text(command.message),
    }
    old = next((one for one in observed.conditions if one.get("type") == CONDITION), None)
    if old is None and not command.reason:
        return status
    if old is None or any(old.get(key, "") != value for key, value in condition.items()):
        same = old is not None and old.get("status") == condition["status"]
        since = old.get("lastTransitionTime") if same and old is not None else None
        others = [one for one in observed.conditions if one is not old]
        status["conditions"] = [*others, {**condition, "lastTransitionTime": since or now}]
    return status

"""What an operator names: a node, or all nodes of a leaf switch or of a SuperPoD."""

from __future__ import annotations

from ringwise.records import dataclass
from ringwise.scheduler.view import SchedulerView
from ringwise.topology.nearest import did_you_mean
from ringwise.topology.numbers import whole_number

NODE, SWITCH, SUPERPOD = "node", "switch", "superpod"
#: How a target is written.
FORMS = "NODE, switch/ADDRESS or superpod/ID"


class UnknownTargetError(LookupError):
    """No node, leaf switch or SuperPoD has that name."""


@dataclass(frozen=True, slots=True)
class Target:
    kind: str
    name: str
    #: In natural order.
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        return {NODE: "node", SWITCH: "leaf switch", SUPERPOD: "SuperPoD"}[self.kind] + f" {self.name}"


def find_target(view: SchedulerView, text: str) -> Target:
    """Raises UnknownTargetError. A bare name is a node, else a leaf switch."""
    kind, slash, name = text.partition("/")
    if slash and kind == SWITCH:
        return _switch(view, name)
    if slash and kind == SUPERPOD:
        return _superpod(view, name)
    state = view.cluster
    number = state.node_id.get(text)
    if number is not None and state.nodes[number] is not None:
        return Target(NODE, text, (text,))
    if _switch_names(view).count(text):
        return _switch(view, text)
    if slash:
        raise UnknownTargetError(f"{text!r} names nothing: write {FORMS}")
    known = [state.names[one] for one in state.known_nodes()]
    known += [f"switch/{one}" for one in _switch_names(view)]
    known += [f"superpod/{one}" for one in view.superpods().nodes_of]
    raise UnknownTargetError(f"there is no node {text}{did_you_mean(text, known)}")


def _switch_names(view: SchedulerView) -> list[str]:
    resolved = view.switches()
    return [] if resolved is None else [switch.ip for switch in resolved.topology.switches]


def _switch(view: SchedulerView, name: str) -> Target:
    resolved = view.switches()
    names = _switch_names(view)
    if resolved is None or name not in names:
        near = did_you_mean(name, names) if names else " (the cluster has no topology)"
        raise UnknownTargetError(f"there is no leaf switch {name}{near}")
    return Target(SWITCH, name, tuple(one.node for one in resolved.nodes[names.index(name)]))


def _superpod(view: SchedulerView, name: str) -> Target:
    superpods = view.superpods().nodes_of
    number = whole_number(name)
    if number is None or number not in superpods:
        known = ", ".join(map(str, list(superpods)[:8])) + (", ..." if len(superpods) > 8 else "")
        raise UnknownTargetError(f"there is no SuperPoD {name}; known are {known or 'none'}")
    names = view.cluster.names
    members = tuple(names[node] for node in superpods[number] if isinstance(node, int))
    return Target(SUPERPOD, str(number), members)

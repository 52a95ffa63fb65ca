"""Every chip of the nodes as the scheduler knows it: the rows of `ringwise get chips`."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from ringwise.durations import time_text
from ringwise.scheduler.node_states import NodeChips, NodeState, StateOfNode, chips_of_node, node_states
from ringwise.scheduler.view import SchedulerView
from ringwise.state.model import Isolation
from ringwise.topology.chips import chip_names, chips_of
from ringwise.topology.natural import natural_key
from ringwise.views.parts import is_shared, shares_on, use_of_chip

if TYPE_CHECKING:
    from ringwise.views.documents.cluster import ChipFields


def chip_documents(view: SchedulerView, now: int, nodes: Container[str] | None = None) -> list[ChipFields]:
    """The chips of some nodes, or of all, in natural order."""
    state = view.cluster
    result: list[ChipFields] = []
    for number in sorted(state.existing_nodes(), key=lambda one: natural_key(state.names[one])):
        if nodes is None or state.names[number] in nodes:
            states = node_states(state, number, now)
            for chips in sorted(chips_of_node(state, number, states), key=lambda one: one.resource):
                result += _of_resource(view, number, chips, states, now)
    return result


def _of_resource(
    view: SchedulerView, number: int, chips: NodeChips, node: Sequence[StateOfNode], now: int
) -> list[ChipFields]:
    """`node`: its states."""
    state, states, network = view.cluster, chips.states, chips.network_faulty
    faults: dict[int, list[str]] = {}
    for fault in chips.faults:
        faults.setdefault(fault.chip, []).append(f"{fault.level} {fault.code}".strip())
    notes: dict[int | None, str] = {
        one.number: _of_isolation(one, now) for one in state.isolations_of(number)
    }
    reserved = next((one.why for one in node if one.state is NodeState.RESERVED), None)
    if reserved is not None:
        notes.setdefault(None, reserved.removeprefix(f"{state.names[number]} is "))
    holders = chips.holders()
    result: list[ChipFields] = []
    for chip in chips_of(states.listed):
        pod, doubtful = holders.get(chip, (None, False))
        fields: ChipFields = {
            "node": state.names[number],
            "chip": chip_names(chips.resource, (chip,)),
            "state": next(word for word, mask in states.by_state() if mask >> chip & 1),
            "pod": None if pod is None else pod.key,
            "network_healthy": not network >> chip & 1,
            "faults": "; ".join(faults.get(chip, ())) or None,
            "note": _note(notes.get(chip) or notes.get(None), doubtful),
        }
        if use := use_of_chip(view, number, chip):
            fields["use"] = use
        if is_shared(view, number) and (shares := shares_on(view, number, chip)):
            fields["shares"] = shares
        result.append(fields)
    return result


def _of_isolation(one: Isolation, now: int) -> str:
    begins = ""
    if one.start is not None:
        time = time_text(one.start)
        begins = f" since {time}" if one.start <= now else f" from {time} on"
    who = ", ".join(([f"by {one.by}"] if one.by else []) + ([time_text(one.created)] if one.created else []))
    return f"{one.reason}{begins}" + (f" ({who})" if who else "")


def _note(isolation: str | None, doubtful: bool) -> str | None:
    """`doubtful`: the pod may have the chip, the device plugin cannot tell (N8)."""
    return "; ".join(filter(None, (isolation, "doubtful" if doubtful else ""))) or None

"""Every chip of the nodes as the scheduler knows it: the rows of `ringwise get chips`."""

from __future__ import annotations

from collections.abc import Container

from ringwise.scheduler.node_states import ChipStates, chip_states, is_open, node_states, offered
from ringwise.scheduler.view import SchedulerView
from ringwise.topology.chips import chip_names, chips_of
from ringwise.topology.natural import natural_key
from ringwise.views.documents.cluster import ChipFields


def chip_documents(view: SchedulerView, now: int, nodes: Container[str] | None = None) -> list[ChipFields]:
    """The chips of some nodes, or of all, in natural order."""
    state = view.cluster
    found: list[ChipFields] = []
    for number in sorted(state.known_nodes(), key=lambda one: natural_key(state.names[one])):
        if nodes is None or state.names[number] in nodes:
            opened = is_open(node_states(state, number, now))
            for resource, fleet in sorted(offered(state, number)):
                states = chip_states(state, number, fleet, is_open=opened)
                found += _of_resource(view, number, resource, states)
    return found


def _of_resource(view: SchedulerView, number: int, resource: str, states: ChipStates) -> list[ChipFields]:
    state = view.cluster
    fleet, name = state.fleets[resource], state.names[number]
    network = max(0, fleet.network[number])
    report = state.report_of(name, resource)
    faults: dict[int, list[str]] = {}
    for fault in report.faults if report is not None else ():
        faults.setdefault(fault.chip, []).append(f"{fault.level} {fault.code}".strip())
    notes = {one.number: f"{one.reason} (by {one.by}, {one.at})" for one in state.isolations_of(number)}
    on_it = [
        record for uid in state.pods_on[number] if (record := state.pods[uid]).pod.cls.resource == resource
    ]
    holders = {chip: record.pod.key for record in on_it for chip in chips_of(record.chips)}
    doubtful = {chip: record.pod.key for record in on_it for chip in chips_of(record.doubtful)}
    return [
        {
            "node": name,
            "chip": chip_names(resource, (chip,)),
            "state": next(word for word, mask in states.by_state() if mask >> chip & 1),
            "pod": holders.get(chip) or doubtful.get(chip),
            "network_healthy": not network >> chip & 1,
            "faults": "; ".join(faults.get(chip, ())) or None,
            "note": _note(notes.get(chip) or notes.get(None), chip in doubtful and chip not in holders),
        }
        for chip in chips_of(states.listed)
    ]


def _note(isolation: str | None, doubtful: bool) -> str | None:
    """`doubtful`: the pod may have the chip, the device plugin cannot tell (N8)."""
    return "; ".join(filter(None, (isolation, "doubtful" if doubtful else ""))) or None

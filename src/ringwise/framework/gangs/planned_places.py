"""M1: the places that a plan of moves keeps for a job, and which of its pods has which.

Owners create pods again, some under other names. A pod has the place that was found for the one of its name,
else one that was found for a pod of the job that asked for as many chips.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ringwise.framework.job import Job, PlannedPlace
from ringwise.framework.reasons import WAIT_FOR_PLANNED_PLACES
from ringwise.framework.session import Session
from ringwise.grammar import listed
from ringwise.reasons import Reason
from ringwise.state.model import Pod
from ringwise.topology.natural import natural_key

#: Nodes that one reason names.
_NAMED = 5


def places_for(session: Session, job: Job, pods: Sequence[Pod]) -> dict[str, PlannedPlace]:
    """By uid. Pods for which no place is kept are left out; they are placed like any other."""
    with_chips = [pod for pod in pods if pod.cls.chips]
    left = {place.pod: place for place in job.places}
    found = {pod.uid: left.pop(pod.name) for pod in with_chips if _is_for(pod, left.get(pod.name))}
    # Of the others, one that is free now comes first: a pod of the job may have the other one already.
    rest = sorted(left.values(), key=lambda place: not _is_free(session, job, place))
    for pod in with_chips:
        if pod.uid not in found:
            place = next((one for one in rest if _is_for(pod, one)), None)
            if place is not None:
                rest.remove(place)
                found[pod.uid] = place
    return found


def _is_for(pod: Pod, place: PlannedPlace | None) -> bool:
    return place is not None and place.chips.bit_count() == pod.cls.chips


def _is_free(session: Session, job: Job, place: PlannedPlace) -> bool:
    fleet = session.state.fleets.get(job.policy.resource if job.policy is not None else "")
    node = session.state.node_id.get(place.node)
    return fleet is not None and node is not None and not fleet.held[node] & place.chips


def planned_nodes(session: Session, job: Job, planned: Mapping[str, PlannedPlace]) -> dict[str, int]:
    """By uid; without those that are not free, or gone."""
    ids = session.state.node_id
    return {uid: ids[place.node] for uid, place in planned.items() if _is_free(session, job, place)}


def chips_besides(
    session: Session, job: Job, planned: Mapping[str, PlannedPlace], *, everywhere: bool
) -> dict[int, int]:
    """By node: its chips that are not kept for these pods; on their nodes, or everywhere."""
    fleet = session.state.fleets[job.policy.resource if job.policy is not None else ""]
    kept: dict[int, int] = {}
    if everywhere:
        kept = {node: 0 for node in session.state.known_nodes() if fleet.free_mask[node]}
    for uid, node in planned_nodes(session, job, planned).items():
        kept[node] = kept.get(node, 0) | planned[uid].chips
    return {node: fleet.listed[node] & ~chips for node, chips in kept.items()}


def waits_for_planned_places(planned: Mapping[str, PlannedPlace]) -> Reason:
    nodes = sorted({place.node for place in planned.values()}, key=natural_key)
    return WAIT_FOR_PLANNED_PLACES(waiting=len(planned), nodes=len(nodes), listing=listed(nodes, _NAMED))

"""On which nodes volumes can be used, and which volumes a claim could take, as sets of nodes.

What a selector means is compiled once, and again only when labels of nodes change; the volumes that fit
claims which differ in size alone are found once, and again only when one more or one less can be taken.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from ringwise.framework.budget import StepBudget
from ringwise.framework.node_sets import nodes_of
from ringwise.framework.selectors import all_hold
from ringwise.state.cluster import ClusterState
from ringwise.state.model import NodeTerm, Requirement
from ringwise.state.node_labels import members_of
from ringwise.state.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from ringwise.topology.chips import union_of
from ringwise.wellknown import OLD_REGION, OLD_ZONE, REGION, ZONE

#: Labels that say where a node or a volume is, and how nodes may spell them, too.
_PLACES = {ZONE: ZONE, REGION: REGION, OLD_ZONE: ZONE, OLD_REGION: REGION}
#: Between several values of such a label of a volume.
_SEPARATOR = "__"
#: A volume that so few nodes can use is found by node.
_FEW = 16

#: To see whether a volume fits, and on which nodes.
_STEPS_A_VOLUME = 4
#: So many volumes are passed over in the time of a step.
_PASSED_A_STEP = 4

#: Class, access modes, selector and whether it is a block device: all that claims ask for but the size.
_ClaimNeeds = tuple[str, tuple[str, ...], tuple[Requirement, ...] | None, bool]


class FittingVolumes(NamedTuple):
    """The volumes for claims that are equal except for their size, smallest first."""

    #: The sizes that volumes have, and all nodes that can use one of that size or larger.
    sizes: list[int]
    usable: list[int]
    #: Bytes and name: of those that few nodes can use, by node.
    local: dict[int, list[tuple[int, str]]]
    #: Of all others, with their nodes.
    wide: list[tuple[int, str, int]]

    def nodes(self, requested: int) -> int:
        """The nodes that can use one that is at least so large."""
        place = bisect_left(self.sizes, requested)
        return self.usable[place] if place < len(self.sizes) else 0


class VolumeNodes:
    def __init__(self) -> None:
        self._labels_version = -1
        self._of_terms: dict[tuple[NodeTerm, ...], int] = {}
        self._of_places: dict[tuple[tuple[str, str], ...], int] = {}
        self._fitting: dict[_ClaimNeeds, FittingVolumes] = {}
        self._free_version = -1

    def of_terms(self, state: ClusterState, terms: tuple[NodeTerm, ...]) -> int:
        """The nodes that one of these selects; without any all."""
        if not terms:
            return state.labels.existing
        self._refresh(state)
        result = self._of_terms.get(terms)
        if result is None:
            result = self._of_terms[terms] = union_of(nodes_of(state, term) for term in terms)
        return result

    def of_places(self, state: ClusterState, volume: PersistentVolume) -> int:
        """The nodes in the zone and region of a volume: those that say where they are must be there."""
        places = tuple((key, volume.labels[key]) for key in _PLACES if key in volume.labels)
        if not places:
            return state.labels.existing
        self._refresh(state)
        result = self._of_places.get(places)
        if result is None:
            result = self._of_places[places] = _in_places(state, places)
        return result

    def fitting(
        self, state: ClusterState, claim: PersistentVolumeClaim, budget: StepBudget
    ) -> FittingVolumes:
        """The volumes that match the claim except for its size and that were free before this cycle."""
        self._refresh(state)
        wanted = claim.storage_class, claim.access_modes, claim.selector, claim.block
        result = self._fitting.get(wanted)
        if result is None:
            result = self._fitting[wanted] = self._find(state, claim, budget)
        return result

    def with_room(
        self, state: ClusterState, claim: PersistentVolumeClaim, cls: StorageClass, budget: StepBudget
    ) -> int:
        """The nodes for which the driver of the class has room for a volume of the claim."""
        capacities = state.volumes.capacities_of(cls)
        if capacities is None or not claim.requested:
            return state.labels.existing
        if not capacities.is_known(state.labels, claim.requested):
            budget.spend(1 + capacities.count)
        return capacities.nodes_for(state.labels, claim.requested)

    def _find(self, state: ClusterState, claim: PersistentVolumeClaim, budget: StepBudget) -> FittingVolumes:
        of_any_size = replace(claim, requested=0)
        by_size: dict[int, int] = {}
        local, wide = dict[int, list[tuple[int, str]]](), list[tuple[int, str, int]]()
        for volume in state.volumes.free_volumes(claim.storage_class):
            budget.spend(_STEPS_A_VOLUME)
            if not fits(volume, of_any_size):
                continue
            usable = self.of_terms(state, volume.node_terms)
            by_size[volume.capacity] = by_size.get(volume.capacity, 0) | usable
            if usable.bit_count() <= _FEW:
                for node in members_of(usable):
                    local.setdefault(node, []).append((volume.capacity, volume.name))
            else:
                wide.append((volume.capacity, volume.name, usable))
        for volumes in local.values():
            volumes.sort()
        wide.sort()
        sizes, nodes, larger = sorted(by_size), list[int](), 0
        for size in reversed(sizes):
            # If no node is new, the set is shared: each set has one bit per node.
            larger = larger | by_size[size] if by_size[size] & ~larger else larger
            nodes.append(larger)
        return FittingVolumes(sizes, nodes[::-1], local, wide)

    def _refresh(self, state: ClusterState) -> None:
        if self._labels_version != state.labels.version:
            self._labels_version = state.labels.version
            self._of_terms.clear()
            self._of_places.clear()
            self._fitting.clear()
        if self._free_version != state.volumes.free_version:
            self._free_version = state.volumes.free_version
            self._fitting.clear()


def smallest(
    state: ClusterState,
    volumes: FittingVolumes,
    node: int,
    claim: PersistentVolumeClaim,
    excluded: Collection[str],
    budget: StepBudget,
) -> str | None:
    """Return the smallest volume that the claim and the node can use and that no other claim has."""
    taken, least = state.volumes.holders, claim.requested

    def is_free(name: str) -> bool:
        return name not in excluded and taken.get(name, claim.key) == claim.key

    passed = 0
    best: tuple[int, str] | None = None
    here = volumes.local.get(node, [])
    for place in range(bisect_left(here, (least, "")), len(here)):
        if is_free(here[place][1]):
            best = here[place]
            break
        passed += 1
    for place in range(bisect_left(volumes.wide, (least, "", 0)), len(volumes.wide)):
        capacity, name, nodes = volumes.wide[place]
        if best is not None and best <= (capacity, name):
            break
        if nodes >> node & 1 and is_free(name):
            best = capacity, name
            break
        passed += 1
    budget.spend(passed // _PASSED_A_STEP)
    return None if best is None else best[1]


def fits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a free volume of the claim's class has what the claim asks for."""
    return volume.suits(claim) and (claim.selector is None or all_hold(claim.selector, volume.labels))


def _in_places(state: ClusterState, places: tuple[tuple[str, str], ...]) -> int:
    labels = state.labels
    placed = union_of(map(labels.with_label, _PLACES))
    inside = placed
    for key, value in places:
        values = value.split(_SEPARATOR)
        there = labels.with_any(key, values)
        if (spelled := _PLACES[key]) != key:
            there |= labels.with_any(spelled, values) & ~labels.with_label(key)
        inside &= there
    return inside | (labels.existing & ~placed)

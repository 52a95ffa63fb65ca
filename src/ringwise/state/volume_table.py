"""Claims, volumes and classes as they were seen last, which pods use the claims, and what is given to them.

A claim of a class that waits for a pod has no volume when its pod is placed. What it gets is decided with the
node: a volume that exists, or one that is made for that node. Until the volume controller has bound it, the
choice stands here, so that no volume is given twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from ringwise.state.model import Pod
from ringwise.state.nested import discard
from ringwise.state.storage_capacities import ClassCapacities, StorageGrowth
from ringwise.state.volumes import (
    CsiDriver,
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
)

T = TypeVar("T")
N = TypeVar("N", StorageClass, CsiNode, CsiDriver)


class ClaimChoice(NamedTuple):
    """What a claim without a volume gets for a pod that has a node."""

    #: Key of the claim.
    claim: str
    #: The volume that it is given; empty: one is made for the node.
    volume: str = ""


class VolumeTable:
    def __init__(self) -> None:
        self.claims: dict[str, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.csi_nodes: dict[str, CsiNode] = {}
        self.drivers: dict[str, CsiDriver] = {}
        self.capacities: dict[str, StorageCapacity] = {}
        self._of_class: dict[str, ClassCapacities] = {}
        #: Volumes that a claim may take, by class; and those that name a claim, by its key.
        self._free: dict[str, dict[str, None]] = {}
        self._of_claim: dict[str, dict[str, None]] = {}
        #: Grows when another volume can be taken, or one less.
        self.free_version = 0
        #: Placed pods and their nodes, by claim; and how many pods of a node use a claim.
        self.users: dict[str, dict[str, int]] = {}
        self.on_node: dict[int, dict[str, int]] = {}
        #: By claim and pod: the node and what was chosen there. And the claims that volumes were chosen for.
        self.chosen: dict[str, dict[str, tuple[int, str]]] = {}
        self.holders: dict[str, str] = {}
        #: By claim: names of nodes for which the provisioner made no volume, and until when they are avoided.
        self.refused: dict[str, dict[str, int]] = {}

    # -- objects ------------------------------------------------------------------------------------

    def put_claim(self, claim: PersistentVolumeClaim) -> bool:
        """Returns whether it changed."""
        existing = self.claims.get(claim.key)
        self.claims[claim.key] = claim
        if claim.bound or (existing is not None and existing.uid != claim.uid):
            self.refused.pop(claim.key, None)
        return existing != claim

    def drop_claim(self, key: str) -> None:
        self.claims.pop(key, None)
        self.refused.pop(key, None)

    def put_volume(self, volume: PersistentVolume) -> bool:
        existing = self.volumes.get(volume.name)
        if existing == volume:
            return False
        self._forget(existing)
        self.volumes[volume.name] = volume
        if volume.claim is not None:
            self._of_claim.setdefault(volume.claim.key, {})[volume.name] = None
        elif volume.is_free:
            self._free.setdefault(volume.storage_class, {})[volume.name] = None
            self.free_version += 1
        return True

    def drop_volume(self, name: str) -> None:
        self._forget(self.volumes.pop(name, None))

    def _forget(self, volume: PersistentVolume | None) -> None:
        if volume is None:
            return
        if volume.claim is not None:
            discard(self._of_claim, volume.claim.key, volume.name)
        elif volume.is_free:
            discard(self._free, volume.storage_class, volume.name)
            self.free_version += 1

    def put_capacity(self, capacity: StorageCapacity) -> StorageGrowth | None:
        """Returns for whom more can be made."""
        existing = self.capacities.get(capacity.key)
        if existing == capacity:
            return None
        self.capacities[capacity.key] = capacity
        if existing is not None and existing.storage_class != capacity.storage_class:
            self._change_capacity(existing, None)
            existing = None
        return self._change_capacity(existing, capacity)

    def drop_capacity(self, key: str) -> None:
        existing = self.capacities.pop(key, None)
        if existing is not None:
            self._change_capacity(existing, None)

    def _change_capacity(
        self, before: StorageCapacity | None, after: StorageCapacity | None
    ) -> StorageGrowth | None:
        name = next(one.storage_class for one in (after, before) if one is not None)
        of_class = self._of_class.setdefault(name, ClassCapacities())
        growth = of_class.change(before, after)
        if not of_class.count:
            del self._of_class[name]
        return growth

    def capacities_of(self, storage_class: StorageClass) -> ClassCapacities | None:
        """Where how much can be made of the class; None: its driver does not say so.

        Without any such object in the cluster nothing is known: the scheduler may not be allowed to read
        them, or the driver has not published one yet.
        """
        driver = self.drivers.get(storage_class.provisioner) if self.capacities else None
        if driver is None or not driver.publishes_capacity:
            return None
        return self._of_class.get(storage_class.name) or ClassCapacities()

    def free_volumes(self, storage_class: str) -> Iterator[PersistentVolume]:
        """Volumes of the class that no claim has; some may be given to one already (`taken`)."""
        return (self.volumes[name] for name in self._free.get(storage_class, ()))

    def reserved_volume(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """The volume that names this claim and suits it, should there be several the first by name."""
        names = [
            name
            for name in self._of_claim.get(claim.key, ())
            if (reference := self.volumes[name].claim) is not None
            and reference.uid in ("", claim.uid)
            and self.volumes[name].suits(claim)
        ]
        return self.volumes[min(names)] if names else None

    # -- use ----------------------------------------------------------------------------------------

    def hold(self, pod: Pod, node: int, choices: Iterable[ClaimChoice]) -> None:
        """The pod has a node."""
        on_node = self.on_node.setdefault(node, {})
        for key in keys_of(pod):
            self.users.setdefault(key, {})[pod.uid] = node
            on_node[key] = on_node.get(key, 0) + 1
        for claim, volume in choices:
            self.chosen.setdefault(claim, {})[pod.uid] = node, volume
            if volume:
                self.holders[volume] = claim

    def unhold(self, pod: Pod, node: int, choices: Iterable[ClaimChoice]) -> None:
        on_node = self.on_node[node]
        for key in keys_of(pod):
            discard(self.users, key, pod.uid)
            on_node[key] -= 1
            if not on_node[key]:
                del on_node[key]
        if not on_node:
            del self.on_node[node]
        for claim, volume in choices:
            discard(self.chosen, claim, pod.uid)
            if volume and claim not in self.chosen:
                self.holders.pop(volume, None)

    def forget_uses(self) -> None:
        """Before all pods are counted again."""
        tables: tuple[dict[Any, Any], ...] = (self.users, self.on_node, self.chosen, self.holders)
        for table in tables:
            table.clear()


def put(table: dict[str, N], value: N) -> bool:
    """Return whether it changed."""
    changed = table.get(value.name) != value
    table[value.name] = value
    return changed


def drop(table: dict[str, Any], name: str) -> bool:
    """Return whether it was known."""
    return table.pop(name, None) is not None


def keys_of(pod: Pod) -> dict[str, None]:
    """Its claims; one that several of its volumes name is one."""
    return {f"{pod.namespace}/{name}": None for name in pod.claims}

"""Volumes of an embedded cluster, as Kubernetes' volume controller and provisioners treat them.

Which node or volume a claim that waits for a pod gets, the scheduler says; all else happens here, at once. A
class whose provisioner runs nowhere makes no volumes: its claims hang, as on a cluster without that driver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from ringwise.embed.objects import ObjectTable
from ringwise.framework.selectors import all_hold
from ringwise.manifests.kinds import STORED
from ringwise.messages import commands as want
from ringwise.messages.claim_expansion import with_default_class
from ringwise.messages.events import ClaimFailed, Event
from ringwise.state.model import Node, NodeTerm, Requirement
from ringwise.state.volumes import (
    ClaimReference,
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from ringwise.wellknown import LAB_PROVISIONER

_AVAILABLE, _BOUND, _RELEASED = "Available", "Bound", "Released"


class VolumeController:
    """Binds claims and volumes of the table, and makes volumes."""

    def __init__(self, table: ObjectTable) -> None:
        self._table = table
        #: Keys of claims that have no volume.
        self._unbound = {
            claim.key: None for claim in self._table.each(PersistentVolumeClaim) if not claim.bound
        }

    def seen(self, value: object) -> None:
        """An object was created or changed; what follows from it is stored."""
        match value:
            case PersistentVolumeClaim() if not value.bound:
                self._unbound[value.key] = None
                self._complete(value)
                self._settle([value.key], self._table.each(PersistentVolume))
            case PersistentVolume():
                self._settle(self._unbound, [value])
            case StorageClass() | CsiNode():
                for key in self._unbound if isinstance(value, StorageClass) and value.default else ():
                    if (claim := self._table.find(PersistentVolumeClaim, key)) is not None:
                        self._complete(claim)
                self._settle(self._unbound, self._table.each(PersistentVolume))

    def _complete(self, claim: PersistentVolumeClaim) -> None:
        completed = with_default_class(claim, self._table.each(StorageClass))
        if completed != claim:
            self._put(completed)

    def claim_gone(self, claim: PersistentVolumeClaim) -> None:
        """Its volume is deleted with it, or waits for an administrator."""
        self._unbound.pop(claim.key, None)
        volume = self._table.find(PersistentVolume, claim.volume) if claim.volume else None
        if volume is None or volume.claim != _reference(claim):
            return
        if volume.deleted_with_claim:
            self._table.remove(PersistentVolume.__name__, volume.name)
        else:
            self._put(replace(volume, phase=_RELEASED))

    def select_node(self, command: want.SelectNode) -> list[Event]:
        claim = self._same_claim(command.namespace, command.claim, command.uid)
        if claim is None:
            return [ClaimFailed(f"{command.namespace}/{command.claim}", "the claim is gone")]
        if claim.selected_node != command.node:
            self._put(replace(claim, selected_node=command.node))
            self._settle([claim.key], self._table.each(PersistentVolume))
        return []

    def bind_volume(self, command: want.BindVolume) -> list[Event]:
        key = f"{command.namespace}/{command.claim}"
        claim = self._same_claim(command.namespace, command.claim, command.uid)
        volume = self._table.find(PersistentVolume, command.volume)
        if claim is None or volume is None:
            gone = "the claim" if claim is None else f"volume {command.volume}"
            return [ClaimFailed(key, f"{gone} is gone")]
        if volume.claim is not None and not _is_for(volume.claim, claim):
            return [ClaimFailed(key, f"volume {volume.name} is for claim {volume.claim.key}")]
        reserved = replace(volume, claim=_reference(claim))
        self._put(reserved)
        self._settle([key], [reserved])
        return []

    # -- binding ----------------------------------------------------------------------------

    def _settle(self, keys: Iterable[str], candidates: Iterable[PersistentVolume]) -> None:
        """Bind those of the claims that can have one of these volumes, or a new one."""
        keys = list(keys)
        volumes = {
            volume.name: volume
            for volume in (candidates if keys else ())
            if not volume.deleting and volume.phase not in (_RELEASED, _BOUND)
        }
        for key in keys:
            claim = self._table.find(PersistentVolumeClaim, key)
            if claim is None or claim.bound:
                self._unbound.pop(key, None)
            elif not claim.deleting and (volume := self._volume_for(claim, volumes.values())) is not None:
                self._put(replace(volume, claim=_reference(claim), phase=_BOUND))
                self._put(replace(claim, volume=volume.name, bound=True, phase=_BOUND))
                self._unbound.pop(key, None)
                volumes.pop(volume.name, None)

    def _volume_for(
        self, claim: PersistentVolumeClaim, volumes: Collection[PersistentVolume]
    ) -> PersistentVolume | None:
        """A volume that it may have now; None: it waits."""
        if claim.volume:
            named = (volume for volume in volumes if volume.name == claim.volume)
            return next((one for one in named if one.claim is None or _is_for(one.claim, claim)), None)
        reserved = (one for one in volumes if one.claim is not None and _is_for(one.claim, claim))
        suiting = next((one for one in reserved if one.suits(claim)), None)
        if suiting is not None:
            return suiting
        cls = self._table.find(StorageClass, claim.storage_class) if claim.storage_class else None
        if cls is not None and cls.waits_for_pod:
            return self._made(claim, cls) if claim.selected_node else None
        free = [volume for volume in volumes if volume.claim is None and _fits(volume, claim)]
        if free:
            return min(free, key=lambda volume: (volume.capacity, volume.name))
        return self._made(claim, cls) if cls is not None else None

    def _made(self, claim: PersistentVolumeClaim, cls: StorageClass) -> PersistentVolume | None:
        """Return a new volume; None if no provisioner creates it."""
        drivers = [node for node in self._table.each(CsiNode) if cls.provisioner in node.topology_keys]
        if claim.selected_node:
            drivers = [node for node in drivers if node.name == claim.selected_node]
        if not cls.provisions or (cls.provisioner != LAB_PROVISIONER and not drivers):
            return None
        keys = drivers[0].topology_keys[cls.provisioner] if drivers else ()
        return PersistentVolume(
            f"pvc-{claim.uid}",
            capacity=claim.requested,
            storage_class=claim.storage_class,
            access_modes=claim.access_modes,
            node_terms=self._reachable(claim.selected_node, keys) or cls.allowed_topologies,
            block=claim.block,
            driver=cls.provisioner,
            handle=claim.uid,
            deleted_with_claim=True,
        )

    def _reachable(self, node: str, keys: Iterable[str]) -> tuple[NodeTerm, ...]:
        """From nodes with the same values of these labels."""
        node_object = self._table.find(Node, node) if node else None
        labels = node_object.labels if node_object is not None else {}
        requirements = tuple(Requirement(key, "In", (labels[key],)) for key in keys if key in labels)
        return (NodeTerm(requirements),) if requirements else ()

    # -- objects ------------------------------------------------------------------------------

    def _same_claim(self, namespace: str, name: str, uid: str) -> PersistentVolumeClaim | None:
        claim = self._table.find(PersistentVolumeClaim, f"{namespace}/{name}")
        return claim if claim is not None and claim.uid == uid else None

    def _put(self, value: PersistentVolume | PersistentVolumeClaim) -> None:
        self._table.put(type(value).__name__, STORED[type(value)].key_of(value), value)


def _reference(claim: PersistentVolumeClaim) -> ClaimReference:
    return ClaimReference(claim.namespace, claim.name, claim.uid)


def _is_for(reference: ClaimReference, claim: PersistentVolumeClaim) -> bool:
    return reference.key == claim.key and reference.uid in ("", claim.uid)


def _fits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return (
        volume.phase == _AVAILABLE
        and volume.suits(claim)
        and (claim.selector is None or all_hold(claim.selector, volume.labels))
    )

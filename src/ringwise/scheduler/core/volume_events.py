"""What events about claims, volumes, their classes, CSI drivers and what these have room for change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ringwise.messages import events as ev
from ringwise.reasons import Trigger
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Context, ContextUser, Handlers
from ringwise.state.volume_table import drop, put
from ringwise.state.volumes import ClaimReference, PersistentVolume


class VolumeEvents(ContextUser):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._table = context.state.volumes

    def handlers(self) -> Handlers:
        table = self._table
        return {
            ev.StorageClassSeen: lambda event, now: self._changed(put(table.classes, event.storage_class)),
            ev.StorageClassGone: lambda event, now: self._changed(drop(table.classes, event.name)),
            ev.CsiNodeSeen: lambda event, now: self._changed(put(table.csi_nodes, event.csi_node)),
            ev.CsiNodeGone: lambda event, now: self._changed(drop(table.csi_nodes, event.name)),
            ev.CsiDriverSeen: lambda event, now: self._changed(put(table.drivers, event.driver)),
            ev.CsiDriverGone: lambda event, now: self._changed(drop(table.drivers, event.name)),
            ev.StorageCapacitySeen: self._capacity_seen,
            ev.StorageCapacityGone: self._capacity_gone,
            ev.VolumeSeen: self._volume_seen,
            ev.VolumeGone: self._volume_gone,
            ev.ClaimSeen: self._claim_seen,
            ev.ClaimGone: self._claim_gone,
        }

    def current_events(self) -> Iterator[ev.Event]:
        yield from map(ev.StorageClassSeen, self._table.classes.values())
        yield from map(ev.CsiNodeSeen, self._table.csi_nodes.values())
        yield from map(ev.CsiDriverSeen, self._table.drivers.values())
        yield from map(ev.StorageCapacitySeen, self._table.capacities.values())
        for volume in self._table.volumes.values():
            claim = self._table.claims.get(self._table.holders.get(volume.name, ""))
            if claim is not None and volume.claim is None:
                # It is given away, and nobody else may have it.
                reference = ClaimReference(claim.namespace, claim.name, claim.uid)
                yield ev.VolumeSeen(replace(volume, claim=reference))
            else:
                yield ev.VolumeSeen(volume)
        yield from map(ev.ClaimSeen, self._table.claims.values())

    def _changed(self, changed: bool) -> None:
        if changed:
            self._triggers.add(Trigger.VOLUME_CHANGED)

    def _capacity_seen(self, event: ev.StorageCapacitySeen, now: int) -> None:
        if not self._table.capacities:
            # From now on they count.
            self._triggers.add(Trigger.VOLUME_CHANGED)
        growth = self._table.put_capacity(event.capacity)
        if growth is not None:
            self._notify(ie.StorageGrew(event.capacity.storage_class, growth), now)

    def _capacity_gone(self, event: ev.StorageCapacityGone, now: int) -> None:
        self._table.drop_capacity(f"{event.namespace}/{event.name}")
        if not self._table.capacities:
            # Checking has ended.
            self._triggers.add(Trigger.VOLUME_CHANGED)

    def _volume_seen(self, event: ev.VolumeSeen, now: int) -> None:
        before = self._table.volumes.get(event.volume.name)
        if self._table.put_volume(event.volume):
            if event.volume.is_free:
                # One less helps nobody, and one that a claim has concerns only the pods of that claim.
                self._triggers.add(Trigger.VOLUME_CHANGED)
            self._volume_changed(before, event.volume, now)

    def _volume_gone(self, event: ev.VolumeGone, now: int) -> None:
        before = self._table.volumes.get(event.name)
        self._table.drop_volume(event.name)
        self._volume_changed(before, None, now)

    def _volume_changed(
        self, before: PersistentVolume | None, after: PersistentVolume | None, now: int
    ) -> None:
        both = [volume for volume in (before, after) if volume is not None]
        claims = [volume.claim.key for volume in both if volume.claim is not None]
        claims += [self._table.holders[volume.name] for volume in both if volume.name in self._table.holders]
        for key in dict.fromkeys(claims):
            self._notify(ie.ClaimChanged(key), now)

    def _claim_seen(self, event: ev.ClaimSeen, now: int) -> None:
        if self._table.put_claim(event.claim):
            self._notify(ie.ClaimChanged(event.claim.key), now)

    def _claim_gone(self, event: ev.ClaimGone, now: int) -> None:
        self._table.drop_claim(event.key)
        self._notify(ie.ClaimChanged(event.key), now)

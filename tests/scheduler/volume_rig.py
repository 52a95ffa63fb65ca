"""The rig with claims and volumes. What the volume controller and provisioners do, the test says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ringwise.messages.commands import Bind, BindVolume, Command, SelectNode
from ringwise.state.volumes import (
    NO_PROVISIONER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from tests.builders import values
from tests.builders.values import reference
from tests.scheduler.rig import Rig


class VolumeRig(Rig):
    """With the classes `fast`, whose volumes are made when a pod has a node, and `local`, made by hand."""

    def __init__(self, nodes: int = 0, **more: Any) -> None:
        super().__init__(nodes, **more)
        self.claims: dict[str, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        for name, provisioner in (("fast", "disk.example.com"), ("local", NO_PROVISIONER)):
            self.tell(StorageClass(name, provisioner, waits_for_pod=True))

    def claim(self, name: str, storage_class: str = "fast", **more: Any) -> None:
        self._put_claim(values.claim(name, storage_class, **more))

    def change_claim(self, name: str, **fields: Any) -> None:
        self._put_claim(replace(self.claims[name], **fields))

    def _put_claim(self, claim: PersistentVolumeClaim) -> None:
        self.claims[claim.name] = claim
        self.tell(claim)

    def volume(self, name: str, storage_class: str = "local", **more: Any) -> None:
        self._put_volume(values.volume(name, storage_class, **more))

    def change_volume(self, name: str, **fields: Any) -> None:
        self._put_volume(replace(self.volumes[name], **fields))

    def _put_volume(self, volume: PersistentVolume) -> None:
        self.volumes[volume.name] = volume
        self.tell(volume)

    def provision(self, name: str, **more: Any) -> None:
        """The provisioner makes the volume of the claim, and the controller binds it."""
        claim = self.claims[name]
        self.volume(f"pv-{name}", claim.storage_class, claim=reference(claim), phase="Bound", **more)
        self.complete(name, f"pv-{name}")

    def complete(self, name: str, volume: str) -> None:
        """The volume controller binds the claim to this volume."""
        self.change_claim(name, volume=volume, bound=True, phase="Bound")

    def given(self) -> dict[str, str]:
        """The volumes that name a claim, with its name."""
        return {name: one.claim.name for name, one in self.volumes.items() if one.claim is not None}

    def _carry_out(self, command: Command, failing: set[str]) -> None:
        if isinstance(command, SelectNode):
            self.change_claim(command.claim, selected_node=command.node)
        elif isinstance(command, BindVolume):
            self.change_volume(command.volume, claim=reference(self.claims[command.claim]))
        else:
            super()._carry_out(command, failing)

    # -- looking ------------------------------------------------------------------------------------

    def selected(self) -> dict[str, str]:
        """The claims for which a node was selected, since the start."""
        return {one.claim: one.node for one in self.commands if isinstance(one, SelectNode)}

    def bindings(self) -> dict[str, str]:
        return {one.pod: one.node for one in self.commands if isinstance(one, Bind)}

    def details(self, job: str) -> dict[str, Any]:
        found = self.machine.view.jobs[f"default/{job}"].reason
        return {} if found is None else dict(found.details)

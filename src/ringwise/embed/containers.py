"""What containers get on simulated nodes, and the port to real device plugins for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol

from ringwise.records import dataclass
from ringwise.state.model import DeviceReport, Node, Pod


@dataclass(frozen=True, slots=True)
class ContainerDevice:
    """A device node: its path in the container and on the host."""

    container: str
    host: str
    permissions: str = "rw"


@dataclass(frozen=True, slots=True)
class PodContainer:
    """What the container of a pod got. Stored in lab files."""

    #: Kubelet's ids of its devices.
    ids: tuple[str, ...] = ()
    devices: tuple[ContainerDevice, ...] = ()
    #: Paths of the host that it sees, read only.
    mounts: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Devices of CDI specifications.
    cdi_devices: tuple[str, ...] = ()
    #: Why kubelet did not start the pod; empty where it did.
    refused: str = ""

    def __hash__(self) -> int:
        return hash((self.ids, self.devices, self.refused))


class NodeAgents(Protocol):
    """Kubelet and device plugin of each node. Without them the embedded cluster plays both."""

    def serve(self, node: Node, resource: str) -> bool:
        """Whether chips of this resource go through them on this node."""

    def start(self, pod: Pod) -> PodContainer:
        """Ask for the devices of a bound pod."""

    def release(self, pod: Pod) -> None:
        """A pod has ended or is gone."""

    def forget(self, node: str) -> None:
        """A node is gone."""

    def broken(self, report: DeviceReport) -> tuple[int, int]:
        """The chips of a report that are broken themselves, and those whose network is."""

    def report(self, report: DeviceReport) -> DeviceReport:
        """What the node reports when its chips have the health that this report names."""

    def changes(self) -> Mapping[str, Mapping[str, str]]:
        """Pods whose annotations were written since the last call: uid to all annotations."""

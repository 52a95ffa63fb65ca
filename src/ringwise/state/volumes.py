"""Claims of persistent volumes, the volumes, their classes, and how many of them a node can attach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ringwise.records import dataclass
from ringwise.state.model import EMPTY, Namespaced, NodeTerm, Requirement

#: Access mode: one pod alone may use the claim.
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
_SHARED = frozenset({"ReadWriteMany", "ReadOnlyMany"})
#: Phase of a claim whose volume is gone.
LOST = "Lost"
#: The provisioner of classes whose volumes an administrator creates.
NO_PROVISIONER = "kubernetes.io/no-provisioner"


@dataclass(frozen=True, slots=True)
class PersistentVolumeClaim(Namespaced):
    namespace: str
    name: str
    uid: str = ""
    #: Name of its StorageClass; empty: it takes volumes without a class.
    storage_class: str = ""
    #: The volume that it names.
    volume: str = ""
    #: It names a volume, and the volume controller is done with it (`pv.kubernetes.io/bind-completed`).
    bound: bool = False
    phase: str = "Pending"
    access_modes: tuple[str, ...] = ()
    #: Bytes.
    requested: int = 0
    #: What it asks of the labels of volumes; None: nothing.
    selector: tuple[Requirement, ...] | None = None
    block: bool = False
    #: The node that the scheduler chose (`volume.kubernetes.io/selected-node`).
    selected_node: str = ""
    deleting: bool = False
    #: Uid of the pod that owns it, as its generic ephemeral volume.
    owner: str = ""
    #: It leaves its class out, so that it gets the default one when it is created.
    takes_default_class: bool = False
    origin: str = field(default="", compare=False)

    @property
    def for_one_pod(self) -> bool:
        return READ_WRITE_ONCE_POD in self.access_modes

    @property
    def is_shared(self) -> bool:
        """Whether pods on several nodes can use it."""
        return not _SHARED.isdisjoint(self.access_modes)


#: Names of volumes, and the claim that each pod gets for them, without namespace and name.
ClaimTemplates = tuple[tuple[str, PersistentVolumeClaim], ...]


def ephemeral_claim(pod: str, volume: str) -> str:
    """The name of the claim that a pod gets for its generic ephemeral volume."""
    return f"{pod}-{volume}"


@dataclass(frozen=True, slots=True)
class ClaimReference(Namespaced):
    """The claim that a volume is for. Without a uid it is kept for a claim of that name."""

    namespace: str
    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class PersistentVolume:
    name: str
    #: Bytes.
    capacity: int = 0
    storage_class: str = ""
    access_modes: tuple[str, ...] = ()
    #: It can be used on nodes that one of these selects; empty: on all.
    node_terms: tuple[NodeTerm, ...] = ()
    labels: Mapping[str, str] = field(default=EMPTY, hash=False)
    claim: ClaimReference | None = None
    #: Pending, Available, Bound, Released or Failed.
    phase: str = "Available"
    block: bool = False
    #: The CSI driver that attaches it, and its name there; of a kind that CSI took over, as CSI names it.
    #: Empty: nothing is attached.
    driver: str = ""
    handle: str = ""
    #: Reclaim policy `Delete`.
    deleted_with_claim: bool = False
    deleting: bool = False
    origin: str = field(default="", compare=False)

    @property
    def is_free(self) -> bool:
        """Whether a claim may take it."""
        return self.claim is None and self.phase == "Available" and not self.deleting

    def suits(self, claim: PersistentVolumeClaim) -> bool:
        """Whether it has what a claim asks for that it names: the volume controller binds no other to it."""
        return (
            self.storage_class == claim.storage_class
            and self.block is claim.block
            and self.capacity >= claim.requested
            and set(claim.access_modes) <= set(self.access_modes)
            and not self.deleting
        )


@dataclass(frozen=True, slots=True)
class StorageClass:
    name: str
    provisioner: str = NO_PROVISIONER
    #: `WaitForFirstConsumer`: a claim is bound when a pod that uses it has a node. Else at once.
    waits_for_pod: bool = False
    #: Volumes are made only for nodes that one of these selects; empty: for all.
    allowed_topologies: tuple[NodeTerm, ...] = ()
    #: Of claims that name no class.
    default: bool = False
    origin: str = field(default="", compare=False)

    @property
    def provisions(self) -> bool:
        return self.provisioner != NO_PROVISIONER


@dataclass(frozen=True, slots=True)
class CsiDriver:
    name: str
    #: It says in CSIStorageCapacity objects where how large a volume can be made.
    publishes_capacity: bool = False
    origin: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class StorageCapacity(Namespaced):
    """How large a volume of a class can be made for some nodes (CSIStorageCapacity)."""

    namespace: str
    name: str
    storage_class: str = ""
    #: What it asks of the labels of nodes; None: it is for none.
    nodes: tuple[Requirement, ...] | None = None
    #: Bytes of the largest volume.
    largest: int = 0
    origin: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class CsiNode:
    """How many volumes of each CSI driver the node of the same name can attach; not named: any number."""

    name: str
    limits: Mapping[str, int] = field(default_factory=dict, hash=False)
    #: The drivers that run there, and the labels of the node that say where the volumes of each can be used.
    topology_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    origin: str = field(default="", compare=False)

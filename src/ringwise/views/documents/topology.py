"""The document of `topology show`."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from msgspec import field

from ringwise.reasons import ReasonFields
from ringwise.views.documents.cluster import NodeChipsFields
from ringwise.views.documents.common import Document, Fields, More, Nanoseconds, doc
from ringwise.views.documents.reservations import ReservationFields


class PlacedSwitchFields(Fields):
    """A leaf switch after a run of `place`."""

    ip: str
    state: str
    healthy: bool
    free_nodes: int


class SwitchNodeFields(Fields):
    """A node below a leaf switch."""

    node: str
    position: int
    free: bool
    faulty: Annotated[bool, doc("Whether a chip or its switches are faulty.")]
    jobs: list[str]


class SwitchFields(Fields):
    """A leaf switch with its nodes."""

    ip: str
    state: str
    healthy: bool
    faulty: Annotated[bool, doc("Whether all its nodes report that their switches are faulty.")]
    free_nodes: int
    servers: Annotated[int, doc("Positions of the switch, including those without a node.")]
    nodes: list[SwitchNodeFields]


class BlockFields(Fields):
    """A block of a job, and the nodes it has."""

    job: str
    block: int
    nodes: list[str]


FaultyNodes = Annotated[list[str], doc("Nodes with a faulty chip or faulty switches.")]


class RackFields(Fields):
    """A rack."""

    rack: int
    free_nodes: int
    busy_nodes: int
    unusable_nodes: int
    faulty_nodes: int
    free: list[str]
    busy: list[str]
    unusable: list[str]
    faulty: FaultyNodes
    blocks: list[BlockFields]


class SuperPodFields(Fields):
    """A SuperPoD."""

    superpod: int | str
    free_nodes: int
    reserved_nodes: int
    busy_nodes: int
    unusable_nodes: int
    faulty_nodes: int
    free: list[str]
    busy: list[str]
    unusable: list[str]
    faulty: FaultyNodes
    blocks: list[BlockFields]
    racks: list[RackFields] = field(default_factory=list)


class PicturesFields(Fields):
    """What a drawing shows beside a job: chips of nodes, leaf switches, SuperPoDs."""

    nodes: list[NodeChipsFields]
    switches: Annotated[list[SwitchFields] | None, doc("Null if no job is placed by leaf switches.")]
    superpods: Annotated[list[SuperPodFields] | None, doc("Null if no job is placed in blocks of SuperPoDs.")]


class IsolationFields(TypedDict):
    """A target that an operator isolated or will drain."""

    name: str
    target: Annotated[str, doc("Target in the format of the commands.")]
    chips: Annotated[list[str], doc("Empty for all chips.")]
    title: Annotated[str, doc("The target in human-readable form.")]
    state: Annotated[str, doc("pending or active.")]
    created_by: Annotated[str, doc("The user who created it; empty if admission did not record it.")]
    created: Annotated[str, doc("When it was created.")]
    reason: str
    start: Annotated[Nanoseconds | None, doc("Start of a scheduled drain; null: isolated immediately.")]


class IsolationsDocument(TypedDict):
    """The targets that operators isolated or will drain."""

    schema: Literal["ringwise.io/isolations/v1"]
    now: Nanoseconds
    isolations: list[IsolationFields]
    remaining_item_count: NotRequired[More]


class TopologyDocument(Document, tag="ringwise.io/topology/v1"):
    """Leaf switches and SuperPoDs with their jobs."""

    now: Annotated[Nanoseconds, doc("The time to which the document refers.")]
    switches: list[SwitchFields] | None
    superpods: list[SuperPodFields]
    isolated: Annotated[
        list[str], doc("Nodes, leaf switches and SuperPoDs that are isolated or will be drained.")
    ]
    isolations: Annotated[list[IsolationFields], doc("The same with user and reason.")]
    reservations: Annotated[list[ReservationFields], doc("Nodes reserved for queues and namespaces.")]
    problems: list[ReasonFields]

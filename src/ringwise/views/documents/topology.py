"""The document of `topology show`."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from msgspec import Meta

from ringwise.reasons import ReasonFields
from ringwise.views.documents.place import PlacedSwitchFields


class SwitchNodeFields(TypedDict):
    """A node below a leaf switch."""

    node: str
    position: int
    free: bool
    faulty: bool
    jobs: list[str]


class SwitchFields(PlacedSwitchFields):
    """A leaf switch with its nodes."""

    nodes: list[SwitchNodeFields]


class BlockFields(TypedDict):
    """A block of a job, and the nodes it has."""

    job: str
    block: int
    nodes: list[str]


class NodeCountFields(TypedDict):
    """The nodes of a SuperPoD or a rack by what they do."""

    free_nodes: int
    busy_nodes: int
    unusable_nodes: int
    faulty_nodes: int
    free: list[str]
    blocks: list[BlockFields]


class RackFields(NodeCountFields):
    """A rack."""

    rack: int


class SuperPodFields(NodeCountFields):
    """A SuperPoD."""

    superpod: int | str
    reserved_nodes: int
    racks: NotRequired[list[RackFields]]


class TopologyDocument(TypedDict):
    """Leaf switches and SuperPoDs, with what runs in them."""

    schema: Literal["ringwise.io/topology/v1"]
    switches: list[SwitchFields] | None
    superpods: list[SuperPodFields]
    isolated: Annotated[
        list[str],
        Meta(description="Nodes, leaf switches and SuperPoDs that operators took out of use, or will drain."),
    ]
    problems: list[ReasonFields]

"""Documents about HyperNodes: trees of network domains."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from msgspec import Meta

from ringwise.views.documents.cluster import ChipTotals, JobFields
from ringwise.views.documents.common import More, Nanoseconds, Stored


class HyperNodeProblemFields(TypedDict):
    """Something that is wrong with a HyperNode."""

    kind: Annotated[str, Meta(description="circle, two-parents, missing-member and the like.")]
    message: str


class HyperNodeFields(TypedDict):
    """A network domain: nodes under one switch, or several such domains."""

    name: str
    tier: Annotated[int, Meta(description="Lower tiers are closer: their nodes have faster links.")]
    tier_name: str | None
    parent: Annotated[str | None, Meta(description="Its parent; null: it is the root of its tree.")]
    nodes: Annotated[int, Meta(description="Number of nodes, including those of lower domains.")]
    state: Annotated[
        str, Meta(description="valid; partial: some of its members are ignored; invalid: it is ignored.")
    ]
    problems: Annotated[list[HyperNodeProblemFields], Meta(description="Can contain missing nodes.")]


class HyperNodesDocument(TypedDict):
    """All HyperNodes, tree by tree; those that are ignored last."""

    schema: Literal["ringwise.io/hypernodes/v1"]
    hypernodes: list[HyperNodeFields]
    remaining_item_count: NotRequired[More]


class HyperNodeMemberFields(TypedDict):
    """A member as it is written."""

    type: Annotated[str, Meta(description="Node or HyperNode.")]
    selector: Annotated[str, Meta(description="exactMatch, regexMatch or labelMatch.")]
    value: Annotated[str, Meta(description="A name, an expression or labels.")]


class HyperNodeJobFields(JobFields):
    """A job with pods in the HyperNode."""

    pods_inside: Annotated[int, Meta(description="Its pods on these nodes.")]


class HyperNodeDocument(HyperNodeFields):
    """A HyperNode with its place in its tree, its nodes, their chips and the jobs on them."""

    schema: Literal["ringwise.io/hypernode/v1"]
    now: Nanoseconds
    above: Annotated[list[str], Meta(description="Its ancestors, the nearest first.")]
    below: Annotated[list[HyperNodeFields], Meta(description="Its children.")]
    members: list[HyperNodeMemberFields]
    node_names: Annotated[list[str], Meta(description="Including those of lower domains.")]
    resources: Annotated[
        dict[str, ChipTotals], Meta(description="By resource: the chips of its nodes, by state.")
    ]
    labels: dict[str, str]
    object: Stored
    job_details: list[HyperNodeJobFields]

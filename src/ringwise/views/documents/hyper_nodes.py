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
    tier: Annotated[int, Meta(description="The lower it is, the nearer its nodes are to each other.")]
    tier_name: str | None
    parent: Annotated[str | None, Meta(description="The domain above it; null: it is the top of its tree.")]
    nodes: Annotated[int, Meta(description="How many nodes it has, with those of the domains below it.")]
    state: Annotated[
        str, Meta(description="valid; partial: some of its members do not count; invalid: it does not count.")
    ]
    problems: Annotated[list[HyperNodeProblemFields], Meta(description="Also of a valid one: missing nodes.")]


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

    pods_inside: Annotated[int, Meta(description="Its pods that have a node there.")]


class HyperNodeDocument(HyperNodeFields):
    """A HyperNode with its place in its tree, its nodes, their chips and the jobs on them."""

    schema: Literal["ringwise.io/hypernode/v1"]
    now: Nanoseconds
    above: Annotated[list[str], Meta(description="The domains above it, the nearest first.")]
    below: Annotated[list[HyperNodeFields], Meta(description="The domains right below it.")]
    members: list[HyperNodeMemberFields]
    node_names: Annotated[list[str], Meta(description="With those of the domains below it.")]
    resources: Annotated[
        dict[str, ChipTotals], Meta(description="By resource: the chips of its nodes, by state.")
    ]
    labels: dict[str, str]
    object: Stored
    job_details: list[HyperNodeJobFields]

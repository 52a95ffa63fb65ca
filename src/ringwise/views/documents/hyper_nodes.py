"""Documents about HyperNodes: trees of network domains."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from ringwise.views.documents.cluster import ChipTotals, JobFields
from ringwise.views.documents.common import More, Nanoseconds, Stored, doc


class HyperNodeProblemFields(TypedDict):
    """Something that is wrong with a HyperNode."""

    kind: Annotated[str, doc("circle, two-parents, missing-member and the like.")]
    message: str


class HyperNodeFields(TypedDict):
    """A network domain: nodes under one switch, or several such domains."""

    name: str
    tier: Annotated[int, doc("Lower tiers are closer: their nodes have faster links.")]
    tier_name: str | None
    parent: Annotated[str | None, doc("Its parent; null: it is the root of its tree.")]
    nodes: Annotated[int, doc("Number of nodes, including those of lower domains.")]
    state: Annotated[str, doc("valid; partial: some of its members are ignored; invalid: it is ignored.")]
    problems: Annotated[list[HyperNodeProblemFields], doc("Can contain missing nodes.")]


class HyperNodesDocument(TypedDict):
    """All HyperNodes, tree by tree; those that are ignored last."""

    schema: Literal["ringwise.io/hypernodes/v1"]
    hypernodes: list[HyperNodeFields]
    remaining_item_count: NotRequired[More]


class HyperNodeMemberFields(TypedDict):
    """A member as it is written."""

    type: Annotated[str, doc("Node or HyperNode.")]
    selector: Annotated[str, doc("exactMatch, regexMatch or labelMatch.")]
    value: Annotated[str, doc("A name, an expression or labels.")]


class HyperNodeJobFields(JobFields):
    """A job with pods in the HyperNode."""

    pods_inside: Annotated[int, doc("Its pods on these nodes.")]


class HyperNodeDocument(HyperNodeFields):
    """A HyperNode with its place in its tree, its nodes, their chips and the jobs on them."""

    schema: Literal["ringwise.io/hypernode/v1"]
    now: Nanoseconds
    above: Annotated[list[str], doc("Its ancestors, the nearest first.")]
    below: Annotated[list[HyperNodeFields], doc("Its children.")]
    members: list[HyperNodeMemberFields]
    node_names: Annotated[list[str], doc("Including those of lower domains.")]
    resources: Annotated[dict[str, ChipTotals], doc("By resource: the chips of its nodes, by state.")]
    labels: dict[str, str]
    object: Stored
    job_details: list[HyperNodeJobFields]

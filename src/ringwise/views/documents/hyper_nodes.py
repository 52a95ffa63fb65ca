"""Documents about HyperNodes: trees of network domains."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from msgspec import Meta

from ringwise.views.documents.common import More


class HyperNodeProblemFields(TypedDict):
    """Something that is wrong with a HyperNode."""

    kind: Annotated[str, Meta(description="circle, two-parents, missing-member and the like.")]
    text: str


class HyperNodeFields(TypedDict):
    """A network domain: nodes under one switch, or several such domains."""

    name: str
    tier: Annotated[int, Meta(description="The lower it is, the nearer its nodes are to each other.")]
    tier_name: str | None
    parent: Annotated[str | None, Meta(description="The domain above it; null: it is the top of its tree.")]
    nodes: Annotated[int, Meta(description="How many nodes it has, with those of the domains below it.")]
    state: Annotated[
        str, Meta(description="valid; partial: some of its members do not count; ignored: it does not count.")
    ]
    problems: Annotated[list[HyperNodeProblemFields], Meta(description="Also of a valid one: missing nodes.")]


class HyperNodesDocument(TypedDict):
    """All HyperNodes, tree by tree; those that are ignored last."""

    schema: Literal["ringwise.io/hypernodes/v1"]
    hypernodes: list[HyperNodeFields]
    more: NotRequired[More]

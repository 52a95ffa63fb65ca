"""The setting that HyperNodes are made from labels of nodes."""

from __future__ import annotations

import re

from ringwise.records import dataclass

#: The source, as the setting and the label of HyperNodes name it.
LABEL_SOURCE = "label"
#: A dot that would begin or end a part of a DNS name.
_LOOSE_DOT = re.compile(r"(?<![a-z0-9])\.|\.(?![a-z0-9])")


@dataclass(frozen=True, slots=True)
class TopologyType:
    """A kind of network: the labels of nodes that say in which domain of each tier a node is."""

    name: str
    #: That of tier 1 first.
    labels: tuple[str, ...]

    @property
    def prefix(self) -> str:
        """How the names of its HyperNodes begin: any type makes a DNS name."""
        plain = self.name.lower().replace("_", "-")
        return f"hypernode-{_LOOSE_DOT.sub('-', plain)}-tier"


@dataclass(frozen=True, slots=True)
class TopologyDiscovery:
    """What is made. While it is not enabled, HyperNodes that were made stay as they are."""

    enabled: bool = False
    types: tuple[TopologyType, ...] = ()
    #: Names of types that cannot be used; HyperNodes that were made for them stay as they are.
    skipped: tuple[str, ...] = ()
    #: What the text asks for and is not done.
    warnings: tuple[str, ...] = ()


#: No discovery: nothing is made, changed or deleted.
NO_DISCOVERY = TopologyDiscovery()

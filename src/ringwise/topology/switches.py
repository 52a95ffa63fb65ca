"""Leaf switches and the servers under them.

A topology is read once per version of its ConfigMap and never changes. Resolving
it against the nodes of the cluster gives a second immutable value, so a node that
joins or leaves costs one `resolve`. Errors in the ConfigMap become problems of the
value (rule S10); nothing here raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from ringwise.grammar import first_of
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.topology.reasons import (
    FATAL,
    NO_NODES_PER_SWITCH,
    SERVER_IS_NO_NODE,
    SERVER_UNDER_TWO_SWITCHES,
    SWITCH_LISTED_TWICE,
    SWITCH_WITHOUT_SERVERS,
    TOO_MANY_SERVERS,
    TOPOLOGY_EMPTY,
)
from ringwise.wellknown import TOR_NODE_CONFIG_MAP

#: How many servers a problem names before it only counts them.
_NAMED = 8


@dataclass(frozen=True, slots=True)
class Server:
    """A server under a switch. `index` is its position in the ConfigMap's array (rule S8)."""

    server_ip: str
    slice_id: int
    index: int
    npu_count: int = 8


@dataclass(frozen=True, slots=True)
class LeafSwitch:
    """A leaf switch. `ip` is an opaque name, not necessarily an address (rule S10)."""

    ip: str
    position: int
    servers: tuple[Server, ...]


@dataclass(frozen=True, slots=True)
class SwitchTopology:
    """The switches in ConfigMap order, which breaks every tie."""

    switches: tuple[LeafSwitch, ...]
    nodes_per_switch: int
    single_layer: bool = False
    problems: tuple[Reason, ...] = ()
    origin: str = TOR_NODE_CONFIG_MAP

    @property
    def unusable(self) -> Reason | None:
        """The problem that makes the whole topology unusable, if there is one."""
        return next((problem for problem in self.problems if problem.code in FATAL), None)


@dataclass(frozen=True, slots=True)
class SwitchNode:
    """A node under a switch, with its position in the switch's array."""

    node: str
    index: int
    server_ip: str


@dataclass(frozen=True, slots=True)
class ResolvedTopology:
    """A topology resolved against the cluster's nodes."""

    topology: SwitchTopology
    #: Per switch its nodes in array order; servers that are not nodes leave a gap in `index`.
    nodes: tuple[tuple[SwitchNode, ...], ...]
    switch_of: Mapping[str, int] = field(default_factory=dict)
    server_of: Mapping[str, SwitchNode] = field(default_factory=dict)
    problems: tuple[Reason, ...] = ()

    def switch_name(self, node: str) -> str | None:
        position = self.switch_of.get(node)
        return None if position is None else self.topology.switches[position].ip


def make_topology(
    switches: Iterable[tuple[str, Sequence[Server]]],
    nodes_per_switch: int,
    *,
    single_layer: bool = False,
    origin: str = TOR_NODE_CONFIG_MAP,
) -> SwitchTopology:
    """A topology from (name, servers) pairs, with its problems (rule S10)."""
    problems: list[Reason] = []
    servers_of: dict[str, list[Server]] = {}
    first_entry: dict[str, int] = {}
    owner: dict[str, str] = {}
    for entry, (name, servers) in enumerate(switches):
        if name in first_entry:
            problems.append(
                SWITCH_LISTED_TWICE(origin=origin, switch=name, first=first_entry[name], second=entry)
            )
        first_entry.setdefault(name, entry)
        listed = servers_of.setdefault(name, [])
        # A repeated switch continues its indexes, so that no two servers share one.
        offset = listed[-1].index + 1 if listed else 0
        for server in servers:
            if server.server_ip in owner:
                problems.append(
                    SERVER_UNDER_TWO_SWITCHES(
                        origin=origin, server=server.server_ip, switch=owner[server.server_ip], other=name
                    )
                )
                continue
            owner[server.server_ip] = name
            listed.append(Server(server.server_ip, server.slice_id, server.index + offset, server.npu_count))
    problems.extend(_size_problems(servers_of, nodes_per_switch, origin))
    return SwitchTopology(
        switches=tuple(
            LeafSwitch(name, position, tuple(listed))
            for position, (name, listed) in enumerate(servers_of.items())
        ),
        nodes_per_switch=nodes_per_switch,
        single_layer=single_layer,
        problems=tuple(problems),
        origin=origin,
    )


def _size_problems(
    servers_of: Mapping[str, Sequence[Server]], nodes_per_switch: int, origin: str
) -> Iterable[Reason]:
    if not servers_of:
        yield TOPOLOGY_EMPTY(origin=origin)
        return
    if nodes_per_switch < 1:
        largest = max(len(servers) for servers in servers_of.values())
        yield NO_NODES_PER_SWITCH(origin=origin, tor_count=nodes_per_switch, largest=largest)
    for name, servers in servers_of.items():
        if not servers:
            yield SWITCH_WITHOUT_SERVERS(origin=origin, switch=name)
        elif 1 <= nodes_per_switch < len(servers):
            yield TOO_MANY_SERVERS(
                origin=origin, switch=name, servers=len(servers), tor_count=nodes_per_switch
            )


def resolve(topology: SwitchTopology, ip_to_node: Mapping[str, str]) -> ResolvedTopology:
    """Match servers to nodes by the nodes' internal addresses. Servers without a node are a problem (S10)."""
    switch_of: dict[str, int] = {}
    server_of: dict[str, SwitchNode] = {}
    unmatched: list[str] = []
    rows: list[tuple[SwitchNode, ...]] = []
    total = 0
    for switch in topology.switches:
        row: list[SwitchNode] = []
        for server in switch.servers:
            total += 1
            name = ip_to_node.get(server.server_ip)
            if not name or name in switch_of:
                unmatched.append(server.server_ip)
                continue
            node = SwitchNode(name, server.index, server.server_ip)
            switch_of[name] = switch.position
            server_of[name] = node
            row.append(node)
        rows.append(tuple(row))
    problems = list(topology.problems)
    if unmatched:
        named = first_of(unmatched, _NAMED)
        problems.append(
            SERVER_IS_NO_NODE(origin=topology.origin, count=len(unmatched), total=total, servers=tuple(named))
        )
    return ResolvedTopology(topology, tuple(rows), switch_of, server_of, tuple(problems))

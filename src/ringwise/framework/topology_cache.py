"""Boards, leaf switches, SuperPoDs and racks, resolved against the nodes of the cluster.

Nothing of it changes inside a cycle. The maps depend on the nodes, so they are
dropped when nodes or their reports change, and built again when they are needed.
"""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.framework.anti_affinity_index import AntiAffinityIndex
from ringwise.framework.domain_loads import DomainLoads, FilledDomains
from ringwise.framework.node_sets import NodeSets
from ringwise.framework.placed_labels import PlacedLabels
from ringwise.framework.volume_nodes import VolumeNodes
from ringwise.placement.switches.view import IndexedTopology, index_nodes
from ringwise.reasons import Reason
from ringwise.state.cluster import ClusterState, NodePosition
from ringwise.topology.boards import BoardCatalog
from ringwise.topology.racks import Racks, build_racks
from ringwise.topology.superpods import SuperPods, build_superpods
from ringwise.topology.switches import ResolvedTopology, SwitchTopology, resolve
from ringwise.wellknown import HOSTNAME


class DomainNumbers:
    """How many domains of a topology key some nodes are in, for as long as labels stay as they are."""

    #: More sets of nodes than jobs use at once; each is as long as there are nodes.
    _MOST = 256

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, int], int] = {}
        self._version = -1

    def of(self, state: ClusterState, key: str, nodes: int) -> tuple[int, int]:
        """The number, and how many domains had to be looked at."""
        if self._version != state.labels.version or len(self._numbers) >= self._MOST:
            self._version = state.labels.version
            self._numbers.clear()
        cached = self._numbers.get((key, nodes))
        if cached is not None:
            return cached, 0
        values = state.labels.values(key)
        number = sum(1 for value in values if state.labels.with_any(key, (value,)) & nodes)
        if key == HOSTNAME:
            unlabeled = nodes & ~state.labels.with_label(HOSTNAME)
            number += unlabeled.bit_count()
        self._numbers[key, nodes] = number
        return number, len(values)


class TopologyCache:
    def __init__(self, catalog: BoardCatalog) -> None:
        self.catalog = catalog
        self.switch_topology: SwitchTopology | None = None
        self.topology_problem: Reason | None = None
        self._switches: ResolvedTopology | None = None
        self._indexed: IndexedTopology | None = None
        self._superpods: dict[int, SuperPods] = {}
        self._racks: Racks | None = None
        #: What selectors of single nodes select.
        self.node_sets = NodeSets()
        #: Placed pods by their labels.
        self.placed_labels = PlacedLabels()
        #: Placed pods that keep others away.
        self.anti_affinity_index = AntiAffinityIndex()
        #: Topology domains that spread constraints count.
        self.domain_numbers = DomainNumbers()
        #: What domains of HyperNodes have and use, and how full requests of pods make them.
        self.domain_loads = DomainLoads()
        self.filled_domains = FilledDomains()
        #: Where volumes can be used, and which of them claims could take.
        self.volume_nodes = VolumeNodes()

    def set_topology(self, topology: SwitchTopology | None, problem: Reason | None) -> None:
        self.switch_topology = topology
        self.topology_problem = problem
        self._switches = self._indexed = None

    def nodes_changed(self) -> None:
        """Nodes, addresses, SuperPoD ids or rack ids changed."""
        self._switches = self._indexed = None
        self._superpods.clear()
        self._racks = None

    def switches(self, state: ClusterState) -> ResolvedTopology | None:
        """The leaf switches with the cluster's nodes under them, or None without a topology."""
        if self._switches is None and self.switch_topology is not None:
            self._switches = resolve(self.switch_topology, _addresses(state))
        return self._switches

    def indexed_switches(self, state: ClusterState) -> IndexedTopology | None:
        """The same with node ids, cached."""
        resolved = self.switches(state)
        if self._indexed is None and resolved is not None:
            self._indexed = index_nodes(resolved, state.node_id)
        return self._indexed

    def superpods(self, state: ClusterState, size: int) -> SuperPods:
        """The SuperPoDs according to reports, annotations and labels."""
        result = self._superpods.get(size)
        if result is None:
            result = self._superpods[size] = build_superpods(
                ((node, at.superpod, at.server_index) for node, at in _positions(state)),
                size,
                lambda node: state.names[int(node)],
            )
        return result

    def racks(self, state: ClusterState, size: int) -> Racks:
        """The racks of the SuperPoDs according to reports, annotations and labels."""
        if self._racks is None:
            ids = {node: at.rack for node, at in _positions(state)}
            self._racks = build_racks(
                self.superpods(state, size),
                lambda node: ids[int(node)],
                lambda node: state.names[int(node)],
            )
        return self._racks


def _addresses(state: ClusterState) -> dict[str, str]:
    """Node names by address; for a node without an address its name is used."""
    result: dict[str, str] = {}
    for number in state.existing_nodes():
        node = state.nodes[number]
        if node is not None and state.addresses.holds(node):
            result.setdefault(node.internal_ip or node.name, node.name)
    return result


def _positions(state: ClusterState) -> Iterator[tuple[int, NodePosition]]:
    """The nodes with chips, and their positions according to reports, annotations and labels."""
    for number in state.existing_nodes():
        position = state.position_of(number)
        if position.offers:
            yield number, position

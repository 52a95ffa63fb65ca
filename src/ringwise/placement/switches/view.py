"""Input and output of planning: the switches with their free nodes, the request, the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import compress

from ringwise.placement.matching import PodClasses
from ringwise.placement.switches.classes import SwitchClass
from ringwise.placement.switches.states import IDLE, SwitchFacts, SwitchState
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.topology.switches import ResolvedTopology


@dataclass(frozen=True, slots=True)
class SwitchSettings:
    """The settings of init-params that concern switches."""

    version: str = "1.0"
    shared_limit: int = 2
    single_switch_first: bool = False


@dataclass(frozen=True, slots=True)
class SwitchView:
    """One switch: its free nodes in array order, as opaque ids, and their positions in the array."""

    name: str
    free: tuple[int, ...]
    positions: tuple[int, ...]
    facts: SwitchFacts = IDLE


@dataclass(frozen=True, slots=True)
class TopologyView:
    """All switches in ConfigMap order (the tie-break of part S), and the settings that apply."""

    switches: tuple[SwitchView, ...]
    nodes_per_switch: int
    settings: SwitchSettings = SwitchSettings()
    single_layer: bool = False
    problems: tuple[Reason, ...] = ()
    #: Free nodes per switch.
    free: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "free", tuple(len(switch.free) for switch in self.switches))

    def with_free(self) -> list[int]:
        """Switches with free nodes; the others take no part."""
        return [index for index, count in enumerate(self.free) if count]


@dataclass(frozen=True, slots=True)
class SwitchRequest:
    job_class: SwitchClass
    #: How many pods are to be placed.
    pods: int
    #: The classes of all pods, of which `pods` get a node (S13); None where all can take the same nodes.
    classes: PodClasses | None = None


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """Nodes under one switch, in rank order, and the state of the switch afterwards."""

    switch: int
    name: str
    nodes: tuple[int, ...]
    #: The pods' `isSharedTor`: 2 exclusive pass, 1 shared rules, 0 changes no state.
    mark: int
    state: SwitchState
    healthy: bool
    #: Which rule took the switch, as `why` shows it.
    taken_by: str
    #: Ranks of the nodes, after a fault and where pods differ; else they are consecutive.
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SwitchPlan:
    """Entries in rank order: rank r gets the r-th node."""

    entries: tuple[PlanEntry, ...]

    @property
    def nodes(self) -> list[int]:
        return [node for entry in self.entries for node in entry.nodes]


@dataclass(frozen=True, slots=True)
class IndexedTopology:
    """A topology with node ids instead of names; computed once per change of nodes or topology."""

    resolved: ResolvedTopology
    ids: tuple[tuple[int, ...], ...]
    places: tuple[tuple[int, ...], ...]


def index_nodes(resolved: ResolvedTopology, id_of: Mapping[str, int]) -> IndexedTopology:
    """Nodes without an id are left out."""
    rows = [[server for server in row if server.node in id_of] for row in resolved.nodes]
    return IndexedTopology(
        resolved,
        tuple(tuple([id_of[server.node] for server in row]) for row in rows),
        tuple(tuple([server.index for server in row]) for row in rows),
    )


def make_view(
    indexed: IndexedTopology, free: Sequence[int], states: Sequence[SwitchFacts], settings: SwitchSettings
) -> TopologyView:
    """The current view; `free[id]` is not 0 for nodes that can take a pod."""
    topology = indexed.resolved.topology
    switches: list[SwitchView] = []
    for switch, ids, places, facts in zip(
        topology.switches, indexed.ids, indexed.places, states, strict=True
    ):
        flags = [free[node] for node in ids]
        nodes = tuple(compress(ids, flags))
        positions = places if len(nodes) == len(ids) else tuple(compress(places, flags))
        switches.append(SwitchView(switch.ip, nodes, positions, facts))
    return TopologyView(
        tuple(switches),
        topology.nodes_per_switch,
        settings,
        topology.single_layer,
        indexed.resolved.problems,
    )

"""What planning sees of the cluster, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress

from ringwise.placement.switches.classes import SwitchClass
from ringwise.placement.switches.states import IDLE, State, SwitchState
from ringwise.reasons import Reason
from ringwise.topology.switches import ResolvedTopology


@dataclass(frozen=True, slots=True)
class SwitchSettings:
    """The settings of init-params that concern switches."""

    version: str = "1.0"
    shared_limit: int = 2
    single_switch_first: bool = False


@dataclass(frozen=True, slots=True)
class SwitchView:
    """One switch: its free nodes in array order, as opaque ids, and their places in the array."""

    name: str
    free: tuple[int, ...]
    positions: tuple[int, ...]
    facts: SwitchState = IDLE


@dataclass(frozen=True, slots=True)
class ClusterView:
    """All switches in ConfigMap order, and the rules that apply."""

    switches: tuple[SwitchView, ...]
    nodes_per_switch: int
    settings: SwitchSettings = SwitchSettings()
    single_layer: bool = False
    problems: tuple[Reason, ...] = ()
    #: Free nodes per switch; what most rules look at.
    free: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "free", tuple(len(switch.free) for switch in self.switches))

    def with_free(self) -> list[int]:
        """Switches that have free nodes: the others take no part."""
        return [index for index, count in enumerate(self.free) if count]


@dataclass(frozen=True, slots=True)
class Request:
    job_class: SwitchClass
    pods: int


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """Nodes under one switch, in rank order, and what the switch is afterwards."""

    switch: int
    name: str
    nodes: tuple[int, ...]
    #: The pods' `isSharedTor`: 2 exclusive pass, 1 shared rules, 0 changes no state.
    mark: int
    state: State
    healthy: bool
    #: Which rule took the switch, in words for `why`.
    taken_by: str
    #: Ranks of the nodes where they are not simply counted on: after a fault.
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SwitchPlan:
    """Entries in rank order: rank r sits on the r-th node."""

    entries: tuple[PlanEntry, ...]

    @property
    def nodes(self) -> list[int]:
        return [node for entry in self.entries for node in entry.nodes]


@dataclass(frozen=True, slots=True)
class IndexedTopology:
    """A topology with node ids instead of names, made once per change of nodes or topology."""

    resolved: ResolvedTopology
    ids: tuple[tuple[int, ...], ...]
    places: tuple[tuple[int, ...], ...]


def index_nodes(resolved: ResolvedTopology, id_of: Mapping[str, int]) -> IndexedTopology:
    """Nodes without an id are left out."""
    known = [[seat for seat in row if seat.node in id_of] for row in resolved.nodes]
    return IndexedTopology(
        resolved,
        tuple(tuple([id_of[seat.node] for seat in row]) for row in known),
        tuple(tuple([seat.index for seat in row]) for row in known),
    )


def make_view(
    resolved: ResolvedTopology,
    free: Mapping[str, int],
    states: Sequence[SwitchState],
    settings: SwitchSettings,
) -> ClusterView:
    """A view of the moment; `free` maps the names of nodes that can take a pod to their ids."""
    flags = bytearray(max(free.values(), default=-1) + 1)
    for node in free.values():
        flags[node] = 1
    return make_indexed_view(index_nodes(resolved, free), flags, states, settings)


def make_indexed_view(
    indexed: IndexedTopology, free: Sequence[int], states: Sequence[SwitchState], settings: SwitchSettings
) -> ClusterView:
    """The same for callers that ask often; `free[id]` is not 0 for nodes that can take a pod."""
    topology = indexed.resolved.topology
    switches: list[SwitchView] = []
    for switch, ids, places, facts in zip(
        topology.switches, indexed.ids, indexed.places, states, strict=True
    ):
        flags = [free[node] for node in ids]
        nodes = tuple(compress(ids, flags))
        positions = places if len(nodes) == len(ids) else tuple(compress(places, flags))
        switches.append(SwitchView(switch.ip, nodes, positions, facts))
    return ClusterView(
        tuple(switches),
        topology.nodes_per_switch,
        settings,
        topology.single_layer,
        indexed.resolved.problems,
    )

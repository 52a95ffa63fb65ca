"""network-topology-aware: pods near each other in the network, in domains that HyperNodes describe (M2).

A job with a network topology is placed inside one domain, the best of the lowest tier that takes it; there
the order of nodes is as always. Other pods prefer nodes in domains that are in use already.
"""

from __future__ import annotations

from collections.abc import Sequence

from ringwise.framework.amounts import Amounts, amounts_of
from ringwise.framework.arguments import (
    ArgumentFamily,
    boolean,
    decimal,
    integer,
    resource_list,
    score_weight,
)
from ringwise.framework.configuration import PluginOption
from ringwise.framework.domain_loads import CPU, FULL, MEMORY
from ringwise.framework.extension_points import (
    ALLOCATED,
    DEALLOCATED,
    DOMAIN_SCORE,
    DOMAINS,
    JOB_VALID,
    NODE_PREFERENCE,
    DomainCandidates,
    DomainRequest,
)
from ringwise.framework.gangs.domain_placement import placed_nodes
from ringwise.framework.job import Job
from ringwise.framework.network_topology import PLUGIN, asks_for_topology, combined_with
from ringwise.framework.node_selection import NodeSelection
from ringwise.framework.preferred_nodes import ScoredNodes
from ringwise.framework.registry import PluginSpec
from ringwise.framework.session import Session
from ringwise.plugins.network_topology_aware.search import DomainSearch, total_requests
from ringwise.state.hyper_nodes import Domain, Forest
from ringwise.state.model import Pod
from ringwise.state.node_weights import NodeWeights

WEIGHT = score_weight("weight", 1, "weight of all scores; 0 disables them")
CPU_WEIGHT = score_weight("hypernode.binpack.cpu", 1, "weight of cpu in the score of a HyperNode")
MEMORY_WEIGHT = score_weight("hypernode.binpack.memory", 1, "weight of memory in the score of a HyperNode")
RESOURCES = resource_list(
    "hypernode.binpack.resources", "additional resources in the score; chips are always included"
)
RESOURCE_WEIGHTS = ArgumentFamily(
    "hypernode.binpack.resources.",
    "RESOURCE",
    score_weight("hypernode.binpack.resources.RESOURCE", 1, "weight of that resource in the score"),
)
NORMAL_PODS = boolean(
    "hypernode.binpack.normal-pod.enable",
    True,
    "pods without a network topology prefer HyperNodes that are already in use",
)
FADING = decimal(
    "hypernode.binpack.normal-pod.fading",
    0.8,
    "weight of each tier for these pods, relative to the tier below",
)
MAX_EVICTING = integer(
    "hypernode.gradient.evict.max-hypernodes",
    8,
    "number of HyperNodes that are tried if pods must be evicted for a job",
    minimum=1,
    maximum=10_000,
)


class NetworkTopologyAware:
    def __init__(self, option: PluginOption) -> None:
        self._weight = option.value(WEIGHT)
        named = option.values(RESOURCE_WEIGHTS)
        self._weights = {CPU: option.value(CPU_WEIGHT), MEMORY: option.value(MEMORY_WEIGHT)}
        for name in option.value(RESOURCES):
            self._weights[name] = named.get(name, RESOURCE_WEIGHTS.pattern.default)
        self._normal_pods = option.value(NORMAL_PODS)
        self._fading = option.value(FADING)
        self._max_evicting = option.value(MAX_EVICTING)

    def open(self, session: Session) -> None:
        self._session = session
        #: By key of a job with placed pods: the lowest domain that holds them; None: there is none.
        self._common: dict[str, Domain | None] = {}
        self._near_numbers: dict[str, ScoredNodes] = {}
        #: The last request that was scored, and what its pods ask for together.
        self._request: DomainRequest | None = None
        self._amounts: Amounts = {}
        self._room: dict[NodeSelection, tuple[int, int, NodeWeights]] = {}
        session.register(JOB_VALID, combined_with)
        session.register(DOMAINS, self.choose)
        session.register(DOMAIN_SCORE, self.score)
        session.register(NODE_PREFERENCE, self.prefer)
        session.register(ALLOCATED, self.allocated)
        session.register(DEALLOCATED, self.deallocated)

    # -- domains of a job ----------------------------------------------------------------

    def choose(self, request: DomainRequest) -> DomainCandidates | None:
        session, topology = self._session, request.topology
        forest = session.state.hyper_forest()
        if not topology.soft and not forest.limits(topology):
            return None
        self._follow()
        search = DomainSearch(session, forest, request, self._room_for, self._max_evicting)
        return DomainCandidates(search.tiers(), search.refuse)

    def score(self, request: DomainRequest, domain: Domain) -> float:
        """How full the domain gets."""
        if not self._weight or not domain.name:
            return 0.0
        self._follow()
        if self._request is not request:
            self._request = request
            self._amounts = total_requests(request.pods[: max(1, request.missing)])
        weights = self._weights_for(request.pods)
        filled = self._session.topology.domain_loads.fill(domain.name, self._amounts, weights)
        return 100 * self._weight * filled

    def _weights_for(self, pods: Sequence[Pod]) -> dict[str, int]:
        """Chips count where the weights of resources do not say otherwise."""
        chips = {pod.cls.resource: 1 for pod in pods[:1] if pod.cls.resource is not None}
        return {**chips, **self._weights}

    def _follow(self) -> Forest:
        """The sums of domains are up to date afterwards."""
        session = self._session
        forest = session.state.hyper_forest()
        names = dict.fromkeys((*self._weights, *(name for name in session.state.fleets if name)))
        session.budget.spend(session.topology.domain_loads.follow(session.state, forest, tuple(names)))
        return forest

    def _room_for(self, selection: NodeSelection, most: int) -> NodeWeights:
        """How many pods of a class each node can take at most; counted again when anything changed."""
        version = selection.version
        entry = self._room.get(selection)
        if entry is None or entry[0] != version or entry[1] < most:
            entry = self._room[selection] = version, most, selection.room(most)
        return entry[2]

    # -- nodes of a pod ------------------------------------------------------------------

    def prefer(self, job: Job, pod: Pod) -> Sequence[ScoredNodes]:
        if not self._weight:
            return ()
        forest = self._session.state.hyper_forest()
        if not forest.domains:
            return ()
        return self._near(forest, job) if asks_for_topology(job) else self._filled(pod)

    def _near(self, forest: Forest, job: Job) -> Sequence[ScoredNodes]:
        """Nodes near the pods that have a place: the lower the tier that holds both, the better."""
        common = self._common_of(forest, job)
        if common is None or not self._session.within & ~common.nodes:
            return ()
        near = self._near_numbers.get(common.name)
        if near is None:
            chain = (common, *forest.ancestors(common.name))
            highest, lowest = max(forest.by_tier), min(forest.by_tier)
            # By the number of these domains that a node is in.
            values = [0.0]
            numbers = NodeWeights(self._session.state.labels.existing)
            for domain in reversed(chain):
                numbers.add(1, domain.nodes)
                values.append((highest - domain.tier) / (highest - lowest) if highest > lowest else 0.0)
            values[-1] = 1.0
            scale = 100 * self._weight
            near = ScoredNodes(numbers, lambda number: scale * values[number])
            self._near_numbers[common.name] = near
        return (near,)

    def _common_of(self, forest: Forest, job: Job) -> Domain | None:
        if job.key not in self._common:
            self._session.budget.spend(len(job.pods) // 8)
            placed = placed_nodes(self._session.state, job)
            if not placed:
                return None
            self._common[job.key] = forest.holding(placed)
        return self._common[job.key]

    def allocated(self, job: Job, pod: Pod, node: int) -> None:
        """Kept as a gang gets its nodes: to look at all its pods each time would cost their square."""
        common = self._common.get(job.key)
        if common is not None and not common.nodes >> node & 1:
            domains = self._session.state.hyper_forest().domains
            while common is not None and not common.nodes >> node & 1:
                common = domains.get(common.parent)
            self._common[job.key] = common

    def deallocated(self, job: Job, pod: Pod, node: int) -> None:
        self._common.pop(job.key, None)

    def _filled(self, pod: Pod) -> Sequence[ScoredNodes]:
        """Nodes in domains that are in use already, for a pod without a network topology."""
        requests = amounts_of(pod.cls)
        if not self._normal_pods or not requests:
            return ()
        self._follow()
        topology = self._session.topology
        weights = self._weights_for([pod])
        numbers = topology.filled_domains.numbers(
            topology.domain_loads,
            self._session.state.labels.existing,
            tuple(sorted(requests.items())),
            weights,
            self._fading,
        )
        scale = 100 * self._weight / FULL
        return (ScoredNodes(numbers, lambda number: scale * number),)


SPEC = PluginSpec(
    PLUGIN,
    "places jobs inside HyperNodes, by network tiers",
    NetworkTopologyAware,
    (
        WEIGHT,
        CPU_WEIGHT,
        MEMORY_WEIGHT,
        RESOURCES,
        RESOURCE_WEIGHTS,
        NORMAL_PODS,
        FADING,
        MAX_EVICTING,
    ),
)

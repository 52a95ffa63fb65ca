"""nodeorder: scores of 0 to 100 for load, affinity and taints, each times its weight.

Every node has its own score whatever other nodes there are (N4), so the scores of
affinity and taints are not normalized over the candidate nodes:

- preferred node affinity: 100 x weight of the terms that hold / weight of all terms;
- taints: 100 / (1 + untolerated PreferNoSchedule taints), so fewer is always better.
- spread constraints with ScheduleAnyway: less by 100 x pods in the node's domains / the most of any node,
  each domain with a weight that grows with the number of domains; a node without a topology key is the worst.

Image locality needs data the model does not have; it adds 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from ringwise.framework.affinity.pod_affinity import PodAffinityIndex
from ringwise.framework.arguments import score_weight
from ringwise.framework.configuration import PluginOption
from ringwise.framework.extension_points import NODE_PREFERENCE, NODE_SCORE
from ringwise.framework.job import Job
from ringwise.framework.node_sets import SelectedNodes
from ringwise.framework.preferred_nodes import ScoredNodes
from ringwise.framework.registry import PluginSpec
from ringwise.framework.selectors import matches_labels, nodes_with_all, tolerates
from ringwise.framework.session import Session
from ringwise.state.model import Pod, PodClass
from ringwise.state.node_shapes import NodeShape
from ringwise.state.node_weights import NodeWeights
from ringwise.wellknown import NVIDIA_GPU

LEAST_REQUESTED = score_weight(
    "leastrequested.weight", 1, "weight of free cpu and memory; 0 disables a score"
)
MOST_REQUESTED = score_weight("mostrequested.weight", 0, "weight of used cpu and memory")
BALANCED_RESOURCE = score_weight("balancedresource.weight", 1, "weight of balanced cpu and memory use")
NODE_AFFINITY = score_weight("nodeaffinity.weight", 2, "weight of preferred node affinity")
POD_AFFINITY = score_weight("podaffinity.weight", 2, "weight of preferred pod affinity and anti-affinity")
TAINT_TOLERATION = score_weight(
    "tainttoleration.weight", 3, "weight of few untolerated PreferNoSchedule taints"
)
IMAGE_LOCALITY = score_weight(
    "imagelocality.weight", 1, "weight of images that are already on the node", has_effect=False
)
POD_TOPOLOGY_SPREAD = score_weight("podtopologyspread.weight", 2, "weight of preferred topology spread")

#: In use after placing, and allocatable.
Loads = Sequence[tuple[int, int]]


class Nodeorder:
    def __init__(self, option: PluginOption) -> None:
        self._least = option.value(LEAST_REQUESTED)
        self._most = option.value(MOST_REQUESTED)
        self._balanced = option.value(BALANCED_RESOURCE)
        self._affinity = option.value(NODE_AFFINITY)
        self._pod_affinity = option.value(POD_AFFINITY)
        self._taints = option.value(TAINT_TOLERATION)
        self._spread = option.value(POD_TOPOLOGY_SPREAD)

    def open(self, session: Session) -> None:
        self._session = session
        session.register(NODE_SCORE, self.score)
        session.register(NODE_PREFERENCE, self.prefer)
        self._pod_affinity_counts = session.shared(PodAffinityIndex)

    # -- by class ----------------------------------------------------------------------

    def score(self, pod_class: PodClass, shape: NodeShape) -> float:
        total = 0.0
        loads = _loads(pod_class, shape)
        if self._least:
            total += self._least * least_requested(loads)
        if self._most:
            total += self._most * most_requested(loads)
        if self._balanced:
            total += self._balanced * balanced_resource(loads, pod_class, shape)
        if self._affinity and pod_class.preferred_nodes and self._selected(pod_class).preferred is None:
            total += self._affinity * node_affinity(pod_class, shape)
        if self._taints:
            total += self._taints * taint_toleration(pod_class, shape)
        return total

    # -- by node -----------------------------------------------------------------------

    def prefer(self, job: Job, pod: Pod) -> Sequence[ScoredNodes]:
        """Extra scores for preferences that name nodes or other pods."""
        cls = pod.cls
        parts = []
        if self._affinity and cls.preferred_nodes:
            weights = self._selected(cls).preferred
            if weights is not None:
                total = sum(weight for weight, _ in cls.preferred_nodes)
                parts.append(ScoredNodes(weights, lambda weight: self._affinity * (100 * weight / total)))
        if self._pod_affinity and (cls.preferred_pod_affinity or cls.preferred_pod_anti_affinity):
            # Weight times matching pods, relative to the widest difference. Kubernetes shifts the scores so
            # that the worst is 0; a shift changes no order.
            domains = self._pod_affinity_counts.preferred(job, pod)
            spread = domains.spread
            if spread:
                parts.append(
                    ScoredNodes(domains.numbers, lambda number: self._pod_affinity * 100 * number / spread)
                )
        if self._spread and any(not constraint.required for constraint in cls.spread):
            parts += self._even(job, pod)
        return parts

    def _even(self, job: Job, pod: Pod) -> list[ScoredNodes]:
        """Below 0 by the share of the most pods; a node that lacks a topology key has no domain to count."""
        state, even = self._session.state, self._pod_affinity_counts.even(job, pod)
        keys = {constraint.term.topology_key for constraint in pod.cls.spread if not constraint.required}
        parts = []
        if even.spread:
            parts.append(ScoredNodes(even.numbers, lambda number: self._spread * 100 * number / even.spread))
        existing = state.labels.existing
        lacking = existing & ~nodes_with_all(state, keys)
        if lacking:
            numbers = NodeWeights(existing)
            numbers.add(-1, lacking)
            parts.append(ScoredNodes(numbers, lambda number: self._spread * 100 * number))
        return parts

    def _selected(self, cls: PodClass) -> SelectedNodes:
        return self._session.topology.node_sets.of(self._session.state, cls)


# -- the formulas; resources a node does not list are left out -------------------------------


def _loads(pod_class: PodClass, shape: NodeShape) -> list[tuple[int, int]]:
    """(in use after placing, allocatable) of cpu and memory."""
    node, loads = shape.node_class, []
    if node.cpu_milli:
        loads.append((shape.cpu_used + pod_class.cpu_milli, node.cpu_milli))
    if node.memory:
        loads.append((shape.memory_used + pod_class.memory, node.memory))
    return loads


def least_requested(loads: Loads) -> int:
    shares = 0
    for used, allocatable in loads:
        if used < allocatable:
            shares += (allocatable - used) * 100 // allocatable
    return shares // len(loads) if loads else 0


def most_requested(loads: Loads) -> int:
    shares = 0
    for used, allocatable in loads:
        shares += used * 100 // allocatable if used < allocatable else 100
    return shares // len(loads) if loads else 0


def balanced_resource(loads: Loads, pod_class: PodClass, shape: NodeShape) -> int:
    """100 when all resources are used alike, minus the standard deviation of their use."""
    if pod_class.extended:
        gpus, allocatable = (
            dict(pod_class.extended).get(NVIDIA_GPU, 0),
            shape.node_class.extended.get(NVIDIA_GPU, 0),
        )
        if gpus and allocatable:
            loads = [*loads, (dict(shape.extended_used).get(NVIDIA_GPU, 0) + gpus, allocatable)]
    shares = [used / allocatable if used < allocatable else 1.0 for used, allocatable in loads]
    if len(shares) == 2:
        deviation = abs(shares[0] - shares[1]) / 2
    elif len(shares) > 2:
        mean = sum(shares) / len(shares)
        deviation = sqrt(sum((one - mean) ** 2 for one in shares) / len(shares))
    else:
        deviation = 0.0
    return int((1 - deviation) * 100)


def node_affinity(pod_class: PodClass, shape: NodeShape) -> float:
    labels = shape.node_class.labels
    total = sum(weight for weight, _ in pod_class.preferred_nodes)
    held = sum(weight for weight, term in pod_class.preferred_nodes if matches_labels(term, labels))
    return 100 * held / total if total else 0.0


def taint_toleration(pod_class: PodClass, shape: NodeShape) -> float:
    if not shape.node_class.taints:
        return 100.0
    untolerated = sum(
        1
        for taint in shape.node_class.taints
        if taint.effect == "PreferNoSchedule" and not tolerates(pod_class.tolerations, taint)
    )
    return 100 / (1 + untolerated)


SPEC = PluginSpec(
    "nodeorder",
    "scores nodes by load, affinity and taints",
    Nodeorder,
    (
        LEAST_REQUESTED,
        MOST_REQUESTED,
        BALANCED_RESOURCE,
        NODE_AFFINITY,
        POD_AFFINITY,
        TAINT_TOLERATION,
        IMAGE_LOCALITY,
        POD_TOPOLOGY_SPREAD,
    ),
)

"""nodeorder: scores of 0 to 100 for load, affinity and taints, each times its weight.

Every node has its own score whatever other nodes there are, so the scores of
affinity and taints are not stretched over the nodes at hand:

- preferred node affinity: 100 x weight of the terms that hold / weight of all terms;
- taints: 100 / (1 + untolerated PreferNoSchedule taints), so fewer is always better.

Image locality and topology spread need facts the model does not have; they add 0.
"""

from __future__ import annotations

from math import sqrt

from ringwise.framework.extension_points import Point
from ringwise.framework.job import Job
from ringwise.framework.neighbours import Neighbours, place_of
from ringwise.framework.plugin_options import PluginOption
from ringwise.framework.selectors import matches_node, may_match, tolerates
from ringwise.framework.session import Session
from ringwise.state.model import Pod, PodClass
from ringwise.state.node_shapes import NodeShape
from ringwise.wellknown import NVIDIA_GPU


class Nodeorder:
    def __init__(self, option: PluginOption) -> None:
        self._least = option.number("leastrequested.weight")
        self._most = option.number("mostrequested.weight")
        self._balanced = option.number("balancedresource.weight")
        self._affinity = option.number("nodeaffinity.weight")
        self._pod_affinity = option.number("podaffinity.weight")
        self._taints = option.number("tainttoleration.weight")

    def open(self, session: Session) -> None:
        self._session = session
        session.on(Point.NODE_SCORE, self.score)
        session.on(Point.NODE_FAVOUR, self.favour)
        self._neighbours = session.shared(Neighbours)

    # -- by class ----------------------------------------------------------------------

    def score(self, pod_class: PodClass, shape: NodeShape) -> float:
        total = 0.0
        if self._least:
            total += self._least * least_requested(pod_class, shape)
        if self._most:
            total += self._most * most_requested(pod_class, shape)
        if self._balanced:
            total += self._balanced * balanced_resource(pod_class, shape)
        if self._affinity and pod_class.preferred_nodes:
            total += self._affinity * node_affinity(pod_class, shape)
        if self._taints:
            total += self._taints * taint_toleration(pod_class, shape)
        return total

    # -- by node -----------------------------------------------------------------------

    def favour(self, job: Job, pod: Pod) -> dict[int, float] | None:
        """Extra scores for wishes that name nodes or neighbours; None for the pods that have none."""
        cls = pod.cls
        if not (cls.preferred_nodes or cls.preferred_pod_affinity or cls.preferred_pod_anti_affinity):
            return None
        extra: dict[int, float] = {}
        if self._affinity and any(term.fields for _, term in cls.preferred_nodes):
            self._favour_named_nodes(cls, extra)
        if self._pod_affinity and (cls.preferred_pod_affinity or cls.preferred_pod_anti_affinity):
            self._favour_neighbours(pod, extra)
        return extra or None

    def _favour_named_nodes(self, cls: PodClass, extra: dict[int, float]) -> None:
        state = self._session.state
        total = sum(weight for weight, _ in cls.preferred_nodes)
        for weight, term in cls.preferred_nodes:
            if not term.fields:
                continue
            for number, node in enumerate(state.nodes):
                if node is not None and matches_node(term, node.labels, node.name):
                    extra[number] = extra.get(number, 0.0) + self._affinity * 100 * weight / total

    def _favour_neighbours(self, pod: Pod, extra: dict[int, float]) -> None:
        """Weight times pods near by, for and against, in proportion to the widest difference.

        Kubernetes shifts the scores so that the worst is 0; a shift changes no order.
        """
        raw: dict[int, int] = {}
        wishes = [(term, term.weight) for term in pod.cls.preferred_pod_affinity]
        wishes += [(term, -term.weight) for term in pod.cls.preferred_pod_anti_affinity]
        for term, weight in wishes:
            places = self._neighbours.company((term,), pod.namespace).places[term.topology_key]
            if not places:
                continue
            for number in range(len(self._session.state.nodes)):
                pods = places.get(place_of(self._session, number, term.topology_key) or "", 0)
                if pods:
                    raw[number] = raw.get(number, 0) + weight * pods
        if not raw:
            return
        spread = max(0, *raw.values()) - min(0, *raw.values())
        if spread:
            for number, value in raw.items():
                extra[number] = extra.get(number, 0.0) + self._pod_affinity * 100 * value / spread


# -- the formulas; resources a node does not list take no part -------------------------------


def _loads(pod_class: PodClass, shape: NodeShape) -> list[tuple[int, int]]:
    """(in use after placing, allocatable) of cpu and memory."""
    node = shape.node_class
    rows = (
        (shape.cpu_used + pod_class.cpu_milli, node.cpu_milli),
        (shape.memory_used + pod_class.memory, node.memory),
    )
    return [row for row in rows if row[1]]


def least_requested(pod_class: PodClass, shape: NodeShape) -> int:
    loads = _loads(pod_class, shape)
    shares = [max(0, allocatable - used) * 100 // allocatable for used, allocatable in loads]
    return sum(shares) // len(shares) if shares else 0


def most_requested(pod_class: PodClass, shape: NodeShape) -> int:
    loads = _loads(pod_class, shape)
    shares = [min(used, allocatable) * 100 // allocatable for used, allocatable in loads]
    return sum(shares) // len(shares) if shares else 0


def balanced_resource(pod_class: PodClass, shape: NodeShape) -> int:
    """100 when all resources are used alike, less by the standard deviation of their use."""
    loads = _loads(pod_class, shape)
    gpus = dict(pod_class.extended).get(NVIDIA_GPU, 0) if pod_class.extended else 0
    allocatable = shape.node_class.extended.get(NVIDIA_GPU, 0)
    if gpus and allocatable:
        loads.append((dict(shape.extended_used).get(NVIDIA_GPU, 0) + gpus, allocatable))
    shares = [min(1.0, used / allocatable) for used, allocatable in loads]
    if len(shares) == 2:
        deviation = abs(shares[0] - shares[1]) / 2
    elif len(shares) > 2:
        mean = sum(shares) / len(shares)
        deviation = sqrt(sum((one - mean) ** 2 for one in shares) / len(shares))
    else:
        deviation = 0.0
    return int((1 - deviation) * 100)


def node_affinity(pod_class: PodClass, shape: NodeShape) -> float:
    """Terms that name a node are left to `favour`."""
    labels = shape.node_class.labels
    total = sum(weight for weight, _ in pod_class.preferred_nodes)
    held = sum(
        weight for weight, term in pod_class.preferred_nodes if not term.fields and may_match(term, labels)
    )
    return 100 * held / total if total else 0.0


def taint_toleration(pod_class: PodClass, shape: NodeShape) -> float:
    untolerated = sum(
        1
        for taint in shape.node_class.taints
        if taint.effect == "PreferNoSchedule" and not tolerates(pod_class.tolerations, taint)
    )
    return 100 / (1 + untolerated)

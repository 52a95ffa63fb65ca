"""predicates: which nodes a pod may run on.

What holds for a class of nodes is answered once for the class: selector, affinity by labels,
taints, cordon, and free cpu, memory, other resources and pods. Selectors that name nodes, labels
that most nodes have differently, or very much are compiled to sets of nodes. Ports, pods near a
node and the last bytes of its memory are checked on the best nodes only. A node that is not Ready
is in no view at all.

A node that lists no cpu or no memory (0) has no limit on it, and 0 pods means no limit
on pods, so that small hand-written manifests work; other resources a node does not list
it does not have. A pod with resource claims does not fit anywhere: Ringwise does not allocate them. What
claims of volumes require is in `volumes.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ringwise.framework.arguments import (
    ArgumentFamily,
    any_text,
    boolean,
    resource_list,
    score_weight,
    seconds,
)
from ringwise.framework.configuration import PluginOption
from ringwise.framework.extension_points import (
    CLAIMS,
    JOB_ENQUEUEABLE,
    NODE_FILTER,
    NODE_SET,
    PREDICATE,
    NodeFilter,
    NodeSet,
)
from ringwise.framework.job import Job
from ringwise.framework.node_sets import SelectedNodes
from ringwise.framework.policy import ChipPolicy
from ringwise.framework.registry import PluginSpec
from ringwise.framework.selectors import (
    CORDON,
    FORBIDDING,
    matches_labels,
    tolerates,
    written_taint,
    written_terms,
)
from ringwise.framework.session import Session
from ringwise.plugins.predicates.node_filters import NodeFilters
from ringwise.plugins.predicates.reasons import (
    AFFINITY_MISMATCH,
    INSUFFICIENT_RESOURCE,
    NODE_CORDONED,
    RESOURCE_CLAIMS,
    SELECTOR_MISMATCH,
    TOO_MANY_PODS,
    UNTOLERATED_TAINT,
)
from ringwise.plugins.predicates.volumes import PodVolumes
from ringwise.reasons import Reason
from ringwise.state.model import Pod, PodClass
from ringwise.state.node_shapes import MEMORY, NodeClass, NodeShape
from ringwise.wellknown import NODE_TAINT_PREFIX

NODE_AFFINITY = boolean("predicate.NodeAffinityEnable", True, "check node affinity")
NODE_PORTS = boolean("predicate.NodePortsEnable", True, "check host ports")
TAINT_TOLERATION = boolean("predicate.TaintTolerationEnable", True, "check taints")
POD_AFFINITY = boolean("predicate.PodAffinityEnable", True, "check pod affinity and anti-affinity")
TOPOLOGY_SPREAD = boolean("predicate.PodTopologySpreadEnable", True, "check topology spread constraints")
VOLUME_LIMITS = boolean(
    "predicate.NodeVolumeLimitsEnable", True, "check how many volumes a node can attach (CSINode)"
)
VOLUME_ZONES = boolean("predicate.VolumeZoneEnable", True, "check zone and region of bound volumes")
VOLUME_BINDING = boolean(
    "predicate.VolumeBindingEnable",
    True,
    "check claims and where volumes can be used, and bind pods when their claims are bound",
)
BIND_TIMEOUT = seconds(
    "volumebinding.bindTimeoutSeconds",
    600,
    "how long a gang keeps its nodes while its claims are being bound; then the nodes are released",
    minimum=1,
)

_OLD_GPU = "read by older GPU builds"
#: What files written for Volcano carry.
WITHOUT_EFFECT = (
    score_weight("volumebinding.weight", 1, "the weight of free capacity of volumes", has_effect=False),
    any_text("volumebinding.shape", "the score of each use of volumes"),
    boolean("predicate.CacheEnable", False, "results are always cached per class of pods", has_effect=False),
    boolean(
        "predicate.DynamicResourceAllocationEnable",
        False,
        "pods with resource claims are pending with both values",
        has_effect=False,
    ),
    boolean("predicate.GPUSharingEnable", False, _OLD_GPU, has_effect=False),
    boolean("predicate.GPUNumberEnable", False, _OLD_GPU, has_effect=False),
    boolean("predicate.ProportionalEnable", False, _OLD_GPU, has_effect=False),
    resource_list("predicate.resources", _OLD_GPU, has_effect=False),
    ArgumentFamily(
        "predicate.resources.", "RESOURCE.cpu", any_text("predicate.resources.RESOURCE.cpu", _OLD_GPU)
    ),
)


class Predicates:
    def __init__(self, option: PluginOption) -> None:
        self._option = option
        self._affinity = option.value(NODE_AFFINITY)
        self._taints = option.value(TAINT_TOLERATION)
        #: Answers that do not depend on the load, by class of pods and class of nodes.
        self._by_class: dict[tuple[PodClass, int], Reason | None] = {}

    def open(self, session: Session) -> None:
        value = self._option.value
        filters = NodeFilters(
            session,
            ports=value(NODE_PORTS),
            pod_affinity=value(POD_AFFINITY),
            spread=value(TOPOLOGY_SPREAD),
        )
        self._node_sets, self._state = session.topology.node_sets, session.state
        session.register(PREDICATE, self.predicate)
        if self._affinity:
            session.register(NODE_SET, self.node_sets)
        session.register(NODE_FILTER, filters.filter)
        session.register(NODE_FILTER, filters.evenly)
        session.register(NODE_FILTER, self.by_amounts)
        binding, zones, limits = value(VOLUME_BINDING), value(VOLUME_ZONES), value(VOLUME_LIMITS)
        if binding or zones or limits:
            timeout = value(BIND_TIMEOUT)
            volumes = PodVolumes(session, binding=binding, zones=zones, limits=limits, timeout=timeout)
            session.register(CLAIMS, volumes)
            session.register(JOB_ENQUEUEABLE, volumes.enqueueable)
            session.register(NODE_FILTER, volumes.filter)

    def node_sets(self, pod_class: PodClass) -> list[NodeSet]:
        """The nodes that selectors leave which classes of nodes cannot answer."""
        selected = self._node_sets.of(self._state, pod_class)
        sets: list[NodeSet] = []
        if selected.by_selector is not None:
            sets.append(NodeSet(selected.by_selector, SELECTOR_MISMATCH, partial(self._mismatch, pod_class)))
        if selected.by_terms is not None:
            reason = _affinity_mismatch(pod_class)
            sets.append(NodeSet(selected.by_terms, AFFINITY_MISMATCH, lambda number: reason))
        return sets

    def _mismatch(self, pod_class: PodClass, number: int) -> Reason:
        node = self._state.nodes[number]
        labels = {} if node is None else node.labels
        return _selector_mismatch(pod_class, labels) or _affinity_mismatch(pod_class)

    def predicate(self, pod_class: PodClass, policy: ChipPolicy | None, shape: NodeShape) -> Reason | None:
        key = (pod_class, shape.node_class.number)
        if key not in self._by_class:
            self._by_class[key] = self._check_class(pod_class, shape.node_class)
        return self._by_class[key] or lack_of_resources(pod_class, shape)

    def by_amounts(self, _job: Job, pod: Pod) -> NodeFilter | None:
        """For requests that fit on some nodes of a shape and not on others, by some bytes."""
        cls, state = pod.cls, self._state
        requests = [(MEMORY, cls.memory), *cls.extended] if cls.memory else cls.extended
        doubtful = [entry for entry in requests if state.shapes.is_for_nodes(*entry)]
        if not doubtful:
            return None

        def check(number: int) -> Reason | None:
            node, shape = state.nodes[number], state.shape_of(number)
            if node is None or shape is None:
                return None
            offers = {MEMORY: node.memory, **dict(node.extended)}
            used = {MEMORY: shape.memory_used, **dict(shape.extended_used)}
            for name, amount in doubtful:
                if used.get(name, 0) + amount > offers.get(name, 0) and (name != MEMORY or node.memory):
                    return _lack(name, amount, used.get(name, 0), offers.get(name, 0))
            return None

        return check

    def _check_class(self, pod_class: PodClass, node: NodeClass) -> Reason | None:
        """What the job does not select comes first: to repair such a node would not help the job."""
        if pod_class.resource_claims:
            return RESOURCE_CLAIMS(claims=pod_class.resource_claims)
        if self._affinity:
            mismatch = _labels_differ(pod_class, node, self._node_sets.of(self._state, pod_class))
            if mismatch is not None:
                return mismatch
        untolerated = [
            taint
            for taint in (node.taints if self._taints else ())
            if taint.effect in FORBIDDING and not tolerates(pod_class.tolerations, taint)
        ]
        for taint in untolerated:
            if not taint.key.startswith(NODE_TAINT_PREFIX):
                return UNTOLERATED_TAINT(taint=written_taint(taint))
        if node.unschedulable and not tolerates(pod_class.tolerations, CORDON):
            return NODE_CORDONED(taint=written_taint(CORDON))
        return UNTOLERATED_TAINT(taint=written_taint(untolerated[0])) if untolerated else None


def _labels_differ(pod_class: PodClass, node: NodeClass, selected: SelectedNodes) -> Reason | None:
    """All of the node selector, and one of the affinity terms, must hold; unless `selected` answers it."""
    if selected.by_selector is None:
        differing = _selector_mismatch(pod_class, node.labels)
        if differing is not None:
            return differing
    terms = pod_class.node_terms
    if terms and selected.by_terms is None and not any(matches_labels(term, node.labels) for term in terms):
        return _affinity_mismatch(pod_class)
    return None


def _selector_mismatch(pod_class: PodClass, labels: Mapping[str, str]) -> Reason | None:
    for key, wanted in pod_class.node_selector:
        value = labels.get(key)
        if value != wanted:
            return SELECTOR_MISMATCH(key=key, wanted=wanted, found="absent" if value is None else value)
    return None


def _affinity_mismatch(pod_class: PodClass) -> Reason:
    terms = pod_class.node_terms
    return AFFINITY_MISMATCH(terms=len(terms), wanted=written_terms(terms))


def lack_of_resources(pod_class: PodClass, shape: NodeShape) -> Reason | None:
    """Which request of the pod is not free on nodes of this shape. Chips are checked by the board's rule."""
    node = shape.node_class
    if node.max_pods and shape.pods >= node.max_pods:
        return TOO_MANY_PODS(pods=shape.pods, limit=node.max_pods)
    request = pod_class.cpu_milli
    if request and node.cpu_milli and shape.cpu_used + request > node.cpu_milli:
        return _lack("cpu", request, shape.cpu_used, node.cpu_milli)
    request = pod_class.memory
    if request and node.memory and shape.memory_used + request > node.most_memory:
        return _lack(MEMORY, request, shape.memory_used, node.memory)
    if pod_class.extended:
        used = dict(shape.extended_used)
        for name, request in pod_class.extended:
            in_use, most = used.get(name, 0), node.most_extended.get(name, 0)
            if request and in_use + request > most:
                return _lack(name, request, in_use, node.extended.get(name, 0))
    return None


def _lack(resource: str, request: int, used: int, allocatable: int) -> Reason:
    free = max(0, allocatable - used)
    return INSUFFICIENT_RESOURCE(
        resource=resource, asked=request, free=free, allocatable=allocatable, missing=request - free
    )


SPEC = PluginSpec(
    "predicates",
    "filters nodes by selectors, affinity, taints, ports, volumes, readiness and cordon",
    Predicates,
    (
        *(NODE_AFFINITY, NODE_PORTS, TAINT_TOLERATION, POD_AFFINITY, TOPOLOGY_SPREAD),
        *(VOLUME_LIMITS, VOLUME_ZONES, VOLUME_BINDING, BIND_TIMEOUT),
        *WITHOUT_EFFECT,
    ),
)

"""binpack: the fuller a node gets, the higher its score.

Chips are not counted here even when `binpack.resources` names them: the board's rule
packs chips before any score counts (N3a), and a node's class does not include the chips in use.
"""

from __future__ import annotations

from ringwise.framework.arguments import ArgumentFamily, resource_list, score_weight
from ringwise.framework.configuration import PluginOption
from ringwise.framework.extension_points import NODE_SCORE
from ringwise.framework.registry import PluginSpec
from ringwise.framework.session import Session
from ringwise.state.model import PodClass
from ringwise.state.node_shapes import NodeShape

WEIGHT = score_weight("binpack.weight", 1, "weight of the whole score; 0 disables it")
CPU = score_weight("binpack.cpu", 1, "weight of cpu in the score")
MEMORY = score_weight("binpack.memory", 1, "weight of memory in the score")
RESOURCES = resource_list("binpack.resources", "additional resources in the score")
RESOURCE_WEIGHTS = ArgumentFamily(
    "binpack.resources.",
    "RESOURCE",
    score_weight("binpack.resources.RESOURCE", 1, "weight of that resource in the score"),
)


class Binpack:
    def __init__(self, option: PluginOption) -> None:
        self._weight = option.value(WEIGHT)
        self._cpu = option.value(CPU)
        self._memory = option.value(MEMORY)
        self._extended = resource_weights(option)

    def open(self, session: Session) -> None:
        if self._weight:
            session.register(NODE_SCORE, self.score)

    def score(self, pod_class: PodClass, shape: NodeShape) -> float:
        """Mean use after placing, over the requested resources, by weight; 0 where one does not fit.

        A resource the node does not list adds nothing, but its weight counts.
        """
        node = shape.node_class
        rows = [
            (pod_class.cpu_milli, shape.cpu_used, node.cpu_milli, self._cpu),
            (pod_class.memory, shape.memory_used, node.memory, self._memory),
        ]
        if pod_class.extended and self._extended:
            used = dict(shape.extended_used)
            rows += [
                (request, used.get(name, 0), node.extended.get(name, 0), self._extended[name])
                for name, request in pod_class.extended
                if name in self._extended
            ]
        total = 0.0
        weights = 0
        for request, in_use, allocatable, weight in rows:
            if not request:
                continue
            weights += weight
            if not allocatable or not weight:
                continue
            if request + in_use > allocatable:
                return 0.0
            total += (request + in_use) / allocatable * weight
        return total / weights * 100 * self._weight if weights else 0.0


def resource_weights(option: PluginOption) -> dict[str, int]:
    """Weights of the resources in `binpack.resources`, in the order of the file."""
    weights = option.values(RESOURCE_WEIGHTS)
    return {name: weights.get(name, RESOURCE_WEIGHTS.pattern.default) for name in option.value(RESOURCES)}


SPEC = PluginSpec(
    "binpack",
    "scores nodes by their utilization with the pod",
    Binpack,
    (WEIGHT, CPU, MEMORY, RESOURCES, RESOURCE_WEIGHTS),
)

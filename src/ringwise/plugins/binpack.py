"""binpack: the fuller a node gets, the better it is.

Chips are not counted here even when `binpack.resources` names them: how chips are
packed is the board's rule, which decides before any score, and a node's class does
not say which chips are in use.
"""

from __future__ import annotations

from ringwise.framework.extension_points import Point
from ringwise.framework.plugin_options import PluginOption
from ringwise.framework.session import Session
from ringwise.state.model import PodClass
from ringwise.state.node_shapes import NodeShape


class Binpack:
    def __init__(self, option: PluginOption) -> None:
        self._weight = option.number("binpack.weight")
        self._cpu = option.number("binpack.cpu")
        self._memory = option.number("binpack.memory")
        self._extended = option.resource_weights()

    def open(self, session: Session) -> None:
        if self._weight:
            session.on(Point.NODE_SCORE, self.score)

    def score(self, pod_class: PodClass, shape: NodeShape) -> float:
        """Mean use after placing, over the resources asked for, by weight; 0 where one does not fit.

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
                (asked, used.get(name, 0), node.extended.get(name, 0), self._extended[name])
                for name, asked in pod_class.extended
                if name in self._extended
            ]
        total = 0.0
        weights = 0
        for asked, in_use, allocatable, weight in rows:
            if not asked:
                continue
            weights += weight
            if not allocatable or not weight:
                continue
            if asked + in_use > allocatable:
                return 0.0
            total += (asked + in_use) / allocatable * weight
        return total / weights * 100 * self._weight if weights else 0.0

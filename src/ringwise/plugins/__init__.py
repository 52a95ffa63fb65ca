"""The plugins that come with Ringwise. A plugin exists because it stands in this table."""

from __future__ import annotations

from collections.abc import Mapping

from ringwise.framework.registry import PluginBuilder
from ringwise.plugins.binpack import Binpack
from ringwise.plugins.conformance import Conformance
from ringwise.plugins.drf import Drf
from ringwise.plugins.gang import Gang
from ringwise.plugins.nodeorder import Nodeorder
from ringwise.plugins.predicates import Predicates
from ringwise.plugins.priority import Priority
from ringwise.plugins.proportion import Proportion
from ringwise.plugins.topology910 import Topology910

PLUGINS: Mapping[str, PluginBuilder] = {
    "priority": Priority,
    "gang": Gang,
    "conformance": Conformance,
    "topology910": Topology910,
    "drf": Drf,
    "predicates": Predicates,
    "proportion": Proportion,
    "nodeorder": Nodeorder,
    "binpack": Binpack,
}

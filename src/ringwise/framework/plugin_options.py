"""What a plugin or an action can be told: names, switches and arguments.

The names are part of the file format. The plugins themselves live elsewhere; a
plugin of an installed package is known by its name alone and takes any argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ringwise.framework.parameters import Parameter, Value, any_text, resource_list, truth, whole_number

#: The plugin of the documents, and the beginning of the names it has in the field.
NPU_PLUGIN = "topology910"
NPU_PLUGIN_IN_THE_FIELD = "volcano-npu"

ACTIONS: Mapping[str, str] = {
    "enqueue": "lets jobs into the cycle when their queue has room for them",
    "allocate": "places the pods of admitted jobs",
    "backfill": "places pods that ask for nothing",
    "preempt": "makes room for a job inside its queue",
    "reclaim": "takes back what other queues use beyond their share",
}

PLUGINS: Mapping[str, str] = {
    "priority": "orders jobs and pods by priority",
    "gang": "starts a job with all the pods it needs or not at all",
    "conformance": "never evicts what the cluster itself needs",
    NPU_PLUGIN: "chips, rings, switches and SuperPoDs",
    "drf": "orders jobs by their dominant share",
    "predicates": "selectors, affinity, taints, ports, readiness, cordon",
    "proportion": "shares the cluster among queues by weight",
    "nodeorder": "scores nodes by load, affinity and taints",
    "binpack": "scores nodes by how full they get",
}

#: Names that are valid in Volcano and that Ringwise does not have.
ELSEWHERE_ACTIONS = frozenset({"elect", "gangpreempt", "gangreclaim", "reserve", "shuffle"})
ELSEWHERE_PLUGINS = frozenset(
    {
        "capacity", "cdp", "deviceshare", "extender", "network-topology-aware", "nodegroup", "numaaware",
        "overcommit", "pdb", "rescheduling", "resource-strategy-fit", "resourcequota", "sla",
        "task-topology", "tdm", "usage",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Switch:
    """Turns one function of a plugin on or off."""

    #: The usual key in the file. Some begin with `enable`, some with `enabled`.
    key: str
    default: bool = True

    @property
    def name(self) -> str:
        """The function as the code calls it: `job_order` for `enableJobOrder`."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", self._word).lower()

    @property
    def spellings(self) -> tuple[str, str]:
        """Both keys under which it may stand."""
        return f"enable{self._word}", f"enabled{self._word}"

    @property
    def _word(self) -> str:
        return re.sub(r"^enabled?(?=[A-Z])", "", self.key)


SWITCHES: Mapping[str, Switch] = {
    switch.name: switch
    for switch in (
        Switch("enableJobOrder"),
        Switch("enableJobReady"),
        Switch("enableJobPipelined"),
        Switch("enableJobEnqueued"),
        Switch("enableJobStarving"),
        Switch("enableTaskOrder"),
        Switch("enableQueueOrder"),
        Switch("enablePreemptable"),
        Switch("enableReclaimable"),
        Switch("enablePreemptive"),
        Switch("enablePredicate"),
        Switch("enableBestNode"),
        Switch("enableNodeOrder"),
        Switch("enableTargetJob"),
        Switch("enableReservedNodes"),
        Switch("enabledVictim"),
        Switch("enabledOverused"),
        Switch("enabledAllocatable"),
        Switch("enabledHyperNodeOrder"),
        Switch("enabledHyperNodeGradient"),
        Switch("enabledSubJobReady"),
        Switch("enabledSubJobPipelined"),
        Switch("enabledSubJobOrder"),
        Switch("enableHierarchy", default=False),
        Switch("enabledClusterOrder", default=False),
    )
}
SWITCH_BY_KEY: Mapping[str, Switch] = {
    spelling: switch for switch in SWITCHES.values() for spelling in switch.spellings
}


def _table(*parameters: Parameter) -> Mapping[str, Parameter]:
    return {parameter.name: parameter for parameter in parameters}


def _weight(name: str, default: int, meaning: str) -> Parameter:
    return whole_number(name, default, meaning, maximum=1_000_000)


def _unused_number(name: str, default: int, meaning: str, maximum: int = 1_000_000) -> Parameter:
    return whole_number(name, default, meaning, maximum=maximum, has_effect=False)


_OLD_GPU = "read by older GPU builds"

PLUGIN_ARGUMENTS: Mapping[str, Mapping[str, Parameter]] = {
    "nodeorder": _table(
        _weight("leastrequested.weight", 1, "weight of free cpu and memory; 0 turns a score off"),
        _weight("mostrequested.weight", 0, "weight of used cpu and memory"),
        _weight("balancedresource.weight", 1, "weight of cpu and memory being used alike"),
        _weight("nodeaffinity.weight", 2, "weight of preferred node affinity"),
        _weight("podaffinity.weight", 2, "weight of preferred pod affinity and anti-affinity"),
        _weight("tainttoleration.weight", 3, "weight of few untolerated PreferNoSchedule taints"),
        _weight("imagelocality.weight", 1, "weight of images that are on the node already"),
        _weight("podtopologyspread.weight", 2, "weight of even spreading"),
    ),
    "binpack": _table(
        _weight("binpack.weight", 1, "weight of the whole score; 0 turns it off"),
        _weight("binpack.cpu", 1, "weight of cpu in the score"),
        _weight("binpack.memory", 1, "weight of memory in the score"),
        resource_list("binpack.resources", "further resources in the score"),
    ),
    "predicates": _table(
        truth("predicate.NodeAffinityEnable", True, "check node affinity"),
        truth("predicate.NodePortsEnable", True, "check host ports"),
        truth("predicate.TaintTolerationEnable", True, "check taints"),
        truth("predicate.PodAffinityEnable", True, "check pod affinity and anti-affinity"),
        truth("predicate.NodeVolumeLimitsEnable", True, "volume limits", has_effect=False),
        truth("predicate.VolumeZoneEnable", True, "volume zones", has_effect=False),
        truth("predicate.PodTopologySpreadEnable", True, "topology spread", has_effect=False),
        truth("predicate.VolumeBindingEnable", True, "volume binding", has_effect=False),
        truth("predicate.CacheEnable", False, "answers are always kept per class of pods", has_effect=False),
        truth("predicate.DynamicResourceAllocationEnable", False, "resource claims", has_effect=False),
        truth("predicate.GPUSharingEnable", False, _OLD_GPU, has_effect=False),
        truth("predicate.GPUNumberEnable", False, _OLD_GPU, has_effect=False),
        truth("predicate.ProportionalEnable", False, _OLD_GPU, has_effect=False),
        resource_list("predicate.resources", _OLD_GPU, has_effect=False),
    ),
}


@dataclass(frozen=True, slots=True)
class ArgumentFamily:
    """Arguments whose names end in something the user chooses, such as a resource."""

    prefix: str
    #: Stands for the chosen ending on the reference page.
    ending: str
    pattern: Parameter


_GPU_SHARES = ArgumentFamily(
    "predicate.resources.", "RESOURCE.cpu", any_text("predicate.resources.RESOURCE.cpu", _OLD_GPU)
)
ARGUMENT_FAMILIES: Mapping[str, ArgumentFamily] = {
    "binpack": ArgumentFamily(
        "binpack.resources.",
        "RESOURCE",
        _weight("binpack.resources.RESOURCE", 1, "weight of that resource in the score"),
    ),
    "predicates": _GPU_SHARES,
}

_ERROR_CACHE = truth(
    "predicateErrorCacheEnable", True, "refusals are always kept per class of pods", has_effect=False
)
ACTION_ARGUMENTS: Mapping[str, Mapping[str, Parameter]] = {
    "enqueue": {},
    "allocate": _table(_ERROR_CACHE),
    "backfill": _table(_ERROR_CACHE),
    "preempt": _table(
        _ERROR_CACHE,
        truth("enableTopologyAwarePreemption", False, "the topology is always looked at", has_effect=False),
        _unused_number("topologyAwarePreemptWorkerNum", 16, "threads of the search"),
        _unused_number("minCandidateNodesPercentage", 10, "share of the nodes searched", maximum=100),
        _unused_number("minCandidateNodesAbsolute", 1, "fewest nodes searched"),
        _unused_number("maxCandidateNodesAbsolute", 100, "most nodes searched"),
    ),
    "reclaim": _table(_ERROR_CACHE),
}


def plugin_named(written: str) -> str:
    """The plugin a written name means: the field's build names all mean one plugin."""
    return NPU_PLUGIN if written.startswith(NPU_PLUGIN_IN_THE_FIELD) else written


def argument_of(plugin: str, name: str) -> Parameter | None:
    """The row for one argument of a built-in plugin, or None when there is no such argument."""
    row = PLUGIN_ARGUMENTS.get(plugin, {}).get(name)
    if row is None:
        family = ARGUMENT_FAMILIES.get(plugin)
        if family is not None and name.startswith(family.prefix) and len(name) > len(family.prefix):
            return family.pattern
    return row


def defaults(table: Iterable[Parameter]) -> dict[str, Value]:
    return {parameter.name: parameter.default for parameter in table}


@dataclass(frozen=True, slots=True)
class PluginOption:
    """A plugin in its tier, with every switch and every argument decided."""

    name: str
    #: By the name of each switch, such as `node_order`.
    enabled: Mapping[str, bool] = field(hash=False)
    arguments: Mapping[str, Value] = field(hash=False)

    @classmethod
    def of(
        cls,
        name: str,
        switched: Mapping[str, bool] | None = None,
        arguments: Mapping[str, Value] | None = None,
    ) -> PluginOption:
        """An option in which everything that is not named has its default."""
        enabled = {switch.name: switch.default for switch in SWITCHES.values()}
        for switch, on in (switched or {}).items():
            if switch not in enabled:
                raise KeyError(f"no switch is called {switch}")
            enabled[switch] = on
        filled = defaults(PLUGIN_ARGUMENTS.get(name, {}).values())
        filled.update(arguments or {})
        return cls(name, enabled, filled)

    def on(self, switch: str) -> bool:
        return self.enabled[switch]

    def number(self, argument: str) -> int:
        value = self.arguments[argument]
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{self.name}: {argument} is no whole number")
        return value

    def truth(self, argument: str) -> bool:
        value = self.arguments[argument]
        if not isinstance(value, bool):
            raise TypeError(f"{self.name}: {argument} is neither true nor false")
        return value

    def resource_weights(self) -> dict[str, int]:
        """Weights of the resources named in `binpack.resources`, in the written order."""
        names = self.arguments.get("binpack.resources", ())
        if not isinstance(names, tuple):
            raise TypeError(f"{self.name}: binpack.resources is no list")
        weights: dict[str, int] = {}
        for name in names:
            key = f"binpack.resources.{name}"
            weights[str(name)] = self.number(key) if key in self.arguments else 1
        return weights

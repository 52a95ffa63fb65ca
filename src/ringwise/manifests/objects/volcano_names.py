"""Plugins and actions of Volcano that Ringwise does not have: what replaces each, or what is lost.

A configuration that names one of them is read. It is a warning where the cluster works without
it, and an error where pods would be placed wrongly: what depends on that is in the plugin's
arguments. The table of `docs/guides/migration.md` is printed from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ringwise.framework.arguments import Value
from ringwise.records import dataclass

Arguments = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class VolcanoName:
    """A name that is valid in Volcano's configuration."""

    name: str
    #: What it does there.
    purpose: str
    #: What does the work here; empty where nothing does.
    replaced_by: str = ""
    #: What is missing here; empty where nothing is.
    lost: str = ""
    #: Why the cluster would not work without it, given its arguments; empty where it would.
    breaks: Callable[[Arguments], str] = lambda arguments: ""
    #: When `breaks` has something to say, for the table.
    error_when: str = ""

    @property
    def note(self) -> str:
        """What a user of it has to know, in one line."""
        parts = []
        if self.replaced_by:
            parts.append(f"replaced by {self.replaced_by}")
        if self.lost:
            parts.append(f"lost: {self.lost}")
        return "; ".join(parts)


def _has_zones(arguments: Arguments) -> str:
    zones = sorted(name for name in arguments if name.startswith("tdm.revocable-zone."))
    if not zones:
        return ""
    return (
        f"{zones[0]} keeps nodes for other work at certain times, and Ringwise would use them at all times; "
        "allowed: tdm without zones (taint those nodes, or cordon them at those times)"
    )


_SHARING = tuple(
    f"deviceshare.{name}"
    for name in (
        "GPUSharingEnable",
        "GPUNumberEnable",
        "VGPUEnable",
        "AscendMindClusterVNPUEnable",
        "AscendHAMiVNPUEnable",
    )
)


def _shares_devices(arguments: Arguments) -> str:
    for name in _SHARING:
        if str(arguments.get(name, "")).lower() in ("true", "1"):
            return f"with {name} parts of devices are placed, and Ringwise places whole chips; allowed: false"
    return ""


def _needs_extender(arguments: Arguments) -> str:
    if (
        not arguments.get("extender.urlPrefix")
        or str(arguments.get("extender.ignorable", "")).lower() == "true"
    ):
        return ""
    return (
        "an external service takes part in decisions, and Ringwise does not call it; allowed: "
        "extender.ignorable: true, or a custom plugin (docs/develop/plugins.md)"
    )


_PLUGINS = (
    VolcanoName(
        "deviceshare",
        "parts of GPUs and NPUs",
        lost="parts of devices; whole chips are allocated by topology910",
        breaks=_shares_devices,
        error_when="one of its `...Enable` arguments is true",
    ),
    VolcanoName(
        "extender",
        "calls an external HTTP service",
        replaced_by="plugins of installed packages (docs/develop/plugins.md)",
        breaks=_needs_extender,
        error_when="`extender.urlPrefix` is set and `extender.ignorable` is not true",
    ),
    VolcanoName(
        "numa-aware",
        "pods by the NUMA nodes of their CPUs",
        replaced_by="the kubelet's topology manager, on the node",
        lost="`volcano.sh/numa-topology-policy`: nodes are not chosen by free NUMA nodes",
    ),
    VolcanoName(
        "pdb",
        "spares pods that a PodDisruptionBudget protects",
        replaced_by="the API server, which rejects such an eviction; the victim then keeps running",
    ),
    VolcanoName(
        "rescheduling",
        "moves pods away from busy nodes",
        lost="running pods are not moved; run a descheduler",
    ),
    VolcanoName(
        "reservation",
        "reserves nodes for the job that has been pending longest; removed from Volcano",
        replaced_by="reservations of Ringwise (setting `reservation-after`)",
    ),
    VolcanoName(
        "resource-strategy-fit",
        "packs or spreads, resource by resource",
        replaced_by="binpack (packs) and nodeorder (spreads), with weights for each resource",
        lost="one strategy for each resource",
    ),
    VolcanoName(
        "task-topology",
        "tasks of a job together or apart",
        replaced_by="pod affinity and anti-affinity in the tasks' templates",
        lost="the annotations `volcano.sh/task-topology-*`",
    ),
    VolcanoName(
        "tdm",
        "nodes that are shared by time of day",
        lost="nodes with the label `volcano.sh/revocable-zone` are ordinary nodes",
        breaks=_has_zones,
        error_when="a `tdm.revocable-zone.NAME` is set",
    ),
    VolcanoName(
        "usage",
        "nodes by their measured load",
        lost="nodes are chosen by requests only, not by measured load",
    ),
)
_ACTIONS = (
    VolcanoName(
        "elect",
        "chooses the job to reserve nodes for; removed from Volcano",
        replaced_by="reservations of Ringwise (setting `reservation-after`)",
    ),
    VolcanoName(
        "reserve",
        "reserves nodes for the chosen job; removed from Volcano",
        replaced_by="reservations of Ringwise (setting `reservation-after`)",
    ),
)

#: By name; a plugin's former spelling is one more.
VOLCANO_PLUGINS: Mapping[str, VolcanoName] = {
    **{row.name: row for row in _PLUGINS},
    "numaaware": next(row for row in _PLUGINS if row.name == "numa-aware"),
}
VOLCANO_ACTIONS: Mapping[str, VolcanoName] = {row.name: row for row in _ACTIONS}

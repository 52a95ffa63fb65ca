"""The scheduler's configuration as values: actions, tiers of plugins, settings.

The fields of `Settings` are the single source of the settings: their names in the
file, defaults, ranges and meanings. Reading a file is the business of `manifests`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from ringwise.framework.parameters import (
    NotAllowed,
    Parameter,
    Value,
    one_of,
    resource_levels,
    truth,
    whole_number,
)
from ringwise.framework.plugin_options import ACTION_ARGUMENTS, PluginOption, defaults

#: The entry of `configurations` that carries the settings.
SETTINGS_ENTRY = "init-params"

_DAY = 86_400


#: A setting whose default follows from another one and that nobody wrote.
_UNWRITTEN = -1


def _setting(parameter: Parameter) -> Any:
    default = _UNWRITTEN if parameter.default is None else parameter.default
    return field(default=default, metadata={"parameter": parameter})


@dataclass(frozen=True, slots=True)
class Settings:
    """All of `init-params`. A wrong combination cannot be built."""

    grace_over_time: int = _setting(
        whole_number(
            "grace-over-time",
            900,
            "how long a faulty job may take to end by itself before it is ended by force",
            minimum=2,
            maximum=3600,
            unit="seconds",
        )
    )
    preset_virtual_device: bool = _setting(
        truth(
            "presetVirtualDevice",
            False,
            "virtual chips are made beforehand; they are refused either way",
            has_effect=False,
        )
    )
    nslb_version: Literal["1.0", "2.0"] = _setting(
        one_of("nslb-version", "1.0", ("1.0", "2.0"), "version of the rules for leaf switches")
    )
    shared_tor_num: int = _setting(
        one_of(
            "shared-tor-num",
            2,
            (1, 2),
            "leaf switches a job may share with others (nslb-version 2.0)",
        )
    )
    use_cluster_info_manager: bool = _setting(
        truth(
            "useClusterInfoManager",
            True,
            "where a node stands in the aggregated device ConfigMaps, they win over its own one",
        )
    )
    self_maintain_available_card: bool = _setting(
        truth(
            "self-maintain-available-card",
            True,
            "free chips are counted from pods (true) or taken from the device ConfigMaps (false)",
        )
    )
    force_enqueue: bool = _setting(
        truth(
            "forceEnqueue",
            True,
            "a job is admitted once there are chips enough, whatever else is short",
        )
    )
    super_pod_size: int = _setting(
        whole_number("super-pod-size", 48, "nodes in a physical SuperPoD", minimum=1)
    )
    reserve_nodes: int = _setting(
        whole_number(
            "reserve-nodes",
            None,
            "nodes kept free in each SuperPoD as long as others have room",
            default_text="2, or 0 where `super-pod-size` is 2 or less",
            limit_text=", below super-pod-size",
        )
    )
    prefer_previous_node: bool = _setting(
        truth("prefer-previous-node", False, "a pod that comes back prefers the node it was on")
    )
    resource_level_config: str = _setting(
        resource_levels(
            "resource-level-config", "levels of multi-level scheduling, which is not supported yet"
        )
    )
    multi_pod_requests: Literal["document", "field"] = _setting(
        one_of(
            "multi-pod-requests",
            "document",
            ("document", "field"),
            "chips per pod in a job of several pods on 910 x8: 8 (document) or 1, 2, 4, 8 (field)",
        )
    )
    score_combination: Literal["strict", "sum"] = _setting(
        one_of(
            "score-combination",
            "strict",
            ("strict", "sum"),
            "the chip order decides before other node scores (strict) or is added to them, times 100 (sum)",
        )
    )
    single_switch_first: bool = _setting(
        truth(
            "single-switch-first",
            False,
            "a job with fewer pods than a leaf switch has nodes is first tried under one switch",
        )
    )
    superpod_packing: Literal["whole-job", "per-block"] = _setting(
        one_of(
            "superpod-packing",
            "whole-job",
            ("whole-job", "per-block"),
            "SuperPoDs are chosen for all blocks of a job together or for one block after the other",
        )
    )
    reservation_after: int = _setting(
        whole_number(
            "reservation-after",
            600,
            "how long a large gang waits before room is kept for it",
            maximum=7 * _DAY,
            unit="seconds",
        )
    )
    hold_healthy_nodes: int = _setting(
        whole_number(
            "hold-healthy-nodes",
            120,
            "how long the healthy nodes of a job that is being rescheduled are held for it",
            maximum=_DAY,
            unit="seconds",
        )
    )
    gang_recovery_limit: int = _setting(
        whole_number(
            "gang-recovery-limit",
            30,
            "how long a gang may stay partly bound before it is completed or undone",
            maximum=_DAY,
            unit="seconds",
        )
    )

    def __post_init__(self) -> None:
        if self.reserve_nodes == _UNWRITTEN:
            object.__setattr__(self, "reserve_nodes", 2 if self.super_pod_size > 2 else 0)
        elif not 0 <= self.reserve_nodes < self.super_pod_size:
            raise NotAllowed(
                f"{self.reserve_nodes} is not allowed with super-pod-size {self.super_pod_size}; "
                f"allowed: a whole number, 0 to {self.super_pod_size - 1}"
            )


#: The settings in the order of the reference page, by the name they have in the file.
SETTINGS: Mapping[str, Parameter] = {
    parameter.name: parameter for parameter in (row.metadata["parameter"] for row in fields(Settings))
}
_FIELD_OF: Mapping[str, str] = {row.metadata["parameter"].name: row.name for row in fields(Settings)}


def settings_from(values: Mapping[str, Value]) -> Settings:
    """Settings with the given values, by their names in the file; the values have been read by their rows."""
    named: dict[str, Any] = {_FIELD_OF[name]: value for name, value in values.items()}
    return Settings(**named)


@dataclass(frozen=True, slots=True)
class Tier:
    """Plugins that answer together, before the next tier is asked."""

    plugins: tuple[PluginOption, ...]


def _all_action_arguments() -> Mapping[str, Mapping[str, Value]]:
    return {action: defaults(table.values()) for action, table in ACTION_ARGUMENTS.items()}


@dataclass(frozen=True, slots=True)
class Configuration:
    """All that a user can decide about the scheduler. Equal files give equal values."""

    actions: tuple[str, ...]
    tiers: tuple[Tier, ...]
    settings: Settings = field(default_factory=Settings)
    action_arguments: Mapping[str, Mapping[str, Value]] = field(
        default_factory=_all_action_arguments, hash=False
    )

    def plugin(self, name: str) -> PluginOption | None:
        """The option of the plugin with that name, if it takes part."""
        for tier in self.tiers:
            for option in tier.plugins:
                if option.name == name:
                    return option
        return None


DEFAULT_ACTIONS = ("enqueue", "allocate", "backfill")
DEFAULT_TIERS = (
    ("priority", "gang", "conformance", "topology910"),
    ("drf", "predicates", "proportion", "nodeorder", "binpack"),
)


def default_tiers() -> tuple[Tier, ...]:
    return tuple(Tier(tuple(PluginOption.of(name) for name in names)) for names in DEFAULT_TIERS)


def default_configuration() -> Configuration:
    """What holds where no file says otherwise."""
    return Configuration(DEFAULT_ACTIONS, default_tiers())

"""The scheduler's configuration as values: actions, tiers of plugins, settings.

The fields of `Settings` are the single source of the settings: their names in the
file, defaults, ranges and meanings. `manifests` reads the file. Which plugins and actions
exist, and which arguments they take, is in the registry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field, fields, replace
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, cast

from ringwise.framework.arguments import (
    Argument,
    ArgumentFamily,
    InvalidArgument,
    Value,
    boolean,
    choice,
    integer,
    label_key,
    resource_levels,
    seconds,
)
from ringwise.records import dataclass
from ringwise.topology.nearest import did_you_mean

T = TypeVar("T", bound=Value)
P = ParamSpec("P")

#: The entry of `configurations` that carries the settings.
SETTINGS_ENTRY = "init-params"
#: Where this action runs, jobs wait to be enqueued; elsewhere all are admitted.
ENQUEUE = "enqueue"

_DAY = 86_400


#: Settings whose name in the file is not that of the field with dashes.
_NAMES = {
    "preset_virtual_device": "presetVirtualDevice",
    "use_cluster_info_manager": "useClusterInfoManager",
    "force_enqueue": "forceEnqueue",
}
#: A setting whose default follows from another one and that is not written.
_UNWRITTEN = -1


def _setting(
    declare: Callable[Concatenate[str, P], Argument[Any]], *values: P.args, **limits: P.kwargs
) -> Any:
    argument = declare("", *values, **limits)
    return field(default=argument.default, metadata={"argument": argument})


@dataclass(frozen=True, slots=True)
class Settings:
    """All of `init-params`. A wrong combination cannot be built."""

    grace_over_time: int = _setting(
        seconds,
        900,
        "how long a faulty job may take to terminate before its pods are deleted by force",
        minimum=2,
        maximum=3600,
    )
    preset_virtual_device: bool = _setting(
        boolean, False, "vNPUs are created in advance; jobs that request dynamic vNPUs are rejected"
    )
    nslb_version: Literal["1.0", "2.0"] = _setting(
        choice, ("1.0", "2.0"), "version of the rules for leaf switches"
    )
    shared_tor_num: int = _setting(
        choice, (1, 2), "leaf switches a job may share with others (nslb-version 2.0)", default=2
    )
    use_cluster_info_manager: bool = _setting(
        boolean, True, "prefer the aggregated device ConfigMaps to those of the nodes"
    )
    self_maintain_available_card: bool = _setting(
        boolean, True, "free chips are counted from pods (true) or taken from the device ConfigMaps (false)"
    )
    force_enqueue: bool = _setting(
        boolean, True, "only chips are checked when a job is admitted, not other resources"
    )
    super_pod_size: int = _setting(integer, 48, "nodes in a physical SuperPoD", minimum=1)
    reserve_nodes: int = _setting(
        integer,
        _UNWRITTEN,
        "nodes kept free in each SuperPoD while other SuperPoDs have enough free nodes",
        default_text="2, or 0 if `super-pod-size` is 2 or less",
        limit_text=", below super-pod-size",
    )
    prefer_previous_node: bool = _setting(boolean, False, "a recreated pod prefers its previous node")
    resource_level_config: str = _setting(
        resource_levels, "levels of multi-level scheduling, which is not supported yet"
    )
    #: N2. `field` is read as `vendor`.
    multi_pod_requests: Literal["document", "vendor", "field"] = _setting(
        choice,
        ("document", "vendor"),
        "chips per pod in a job of several pods on 910 x8: 8 (document) or 1, 2, 4, 8 (vendor); "
        "`field` is read as vendor",
        synonyms={"field": "vendor"},
    )
    score_combination: Literal["strict", "sum"] = _setting(
        choice,
        ("strict", "sum"),
        "the chip order decides before other node scores (strict) or is added to them, times 100 (sum)",
    )
    single_switch_first: bool = _setting(
        boolean, False, "a job with fewer pods than a leaf switch has nodes is first tried under one switch"
    )
    superpod_packing: Literal["whole-job", "per-block"] = _setting(
        choice,
        ("whole-job", "per-block"),
        "SuperPoDs are chosen for all blocks of a job together or for one block after the other",
    )
    ring_packing: Literal["document", "tight-node"] = _setting(
        choice,
        ("document", "tight-node"),
        "order of nodes on 910 x8: healthy capacity, group A to D, fewest free chips (document), or "
        "capacity, fewest free chips, group (tight-node)",
    )
    queue_discipline: Literal["best-effort", "strict"] = _setting(
        choice,
        ("best-effort", "strict"),
        "if a job does not fit, later jobs may start before it (best-effort), or later jobs of its queue "
        "that request the same resource are blocked (strict)",
    )
    defragment: Literal["off", "plan", "auto"] = _setting(
        choice,
        ("off", "plan", "auto"),
        "plans that move running jobs so that a blocked job can start: none (off), only shown (plan), or "
        'also executed for jobs with `ringwise.io/movable: "true"` (auto)',
        default="plan",
    )
    move_chips_per_hour: int = _setting(
        integer,
        32,
        "with `defragment: auto`, the maximum number of chips that are moved per hour",
        minimum=0,
        maximum=1_000_000,
    )
    move_again_after: int = _setting(
        seconds,
        _DAY,
        "with `defragment: auto`, minimum time before a moved job can be moved again",
        maximum=30 * _DAY,
    )
    long_grace_period: int = _setting(
        seconds,
        120,
        "pods with a longer `terminationGracePeriodSeconds` are evicted last; if pods that are evicted "
        "for a job have not terminated after this time, other candidates are evicted instead",
        minimum=1,
        maximum=7 * _DAY,
    )
    preempt_again_after: int = _setting(
        seconds,
        3600,
        "how long a preempted or reclaimed job is evicted again only after the other jobs of its priority",
        maximum=30 * _DAY,
    )
    restart_cost: int = _setting(
        seconds, 600, "cost of a restart of a job without the annotation `ringwise.io/restart-cost`"
    )
    owned_annotations: Literal["open", "guarded"] = _setting(
        choice,
        ("open", "guarded"),
        "who can write the annotations of scheduler and device plugin: every user (open), or only accounts "
        "that an admission policy allows (guarded); then only `huawei.com/AscendReal` names a pod's chips",
    )
    max_run_time_warning: int = _setting(
        seconds,
        600,
        "how long before the end of its max run time a job gets a warning; no job is terminated earlier "
        "than this after its warning",
        minimum=1,
        maximum=7 * _DAY,
    )
    expected_duration_grace_period: int = _setting(
        seconds,
        300,
        "how long a job on chips that are reserved for another job may exceed its expected duration "
        "before it can be evicted for that job (action `preempt`)",
        maximum=7 * _DAY,
    )
    user_annotation: Literal["open", "guarded"] = _setting(
        choice,
        ("open", "guarded"),
        "who can write the annotation `ringwise.io/user`: every user, so it is ignored (open), or only the "
        "admission webhook, which a policy ensures (guarded)",
    )
    user_label: str = _setting(
        label_key,
        "label of jobs with their user, for reports on jobs without `ringwise.io/user`; every user can write "
        "it, so this user is unverified",
    )
    visible_devices: Literal["allowed", "refused", "strict"] = _setting(
        choice,
        ("allowed", "refused", "strict"),
        "pods that set `ASCEND_VISIBLE_DEVICES` from anything but the annotation with their chips are "
        "scheduled (allowed) or rejected (refused); strict also rejects those whose `envFrom` could set it",
        default="refused",
    )
    reservation_after: int = _setting(
        seconds, 600, "how long a job is pending before chips are reserved for it", maximum=7 * _DAY
    )
    turn_limit: int = _setting(
        seconds,
        1,
        "CPU time after which the scheduler interrupts a cycle between two jobs to handle events; the next "
        "turn continues it",
        minimum=1,
        maximum=60,
    )
    pod_creation_timeout: int = _setting(
        seconds,
        300,
        "how long an admitted job (Inqueue) may have no pods before it is Pending again; 0: no limit",
        maximum=7 * _DAY,
    )
    hold_healthy_nodes: int = _setting(
        seconds, 120, "how long the healthy nodes of a job that is being rescheduled are held for it"
    )
    fault_cooldown: int = _setting(
        seconds,
        600,
        "how long a job avoids a node on which faulty chips made it fail, even if they are healthy again",
        maximum=7 * _DAY,
    )
    reserved_nodes_require_duration: bool = _setting(
        boolean,
        True,
        "a job without an expected duration is not scheduled on nodes with a scheduled drain (`drain --at`) "
        "or a reservation (`reserve`)",
    )
    reschedule_rack_after: int = _setting(
        seconds,
        3,
        "how long pods of a job for racks wait for nodes after a fault before the healthy pods of the "
        "affected logical rack are restarted, and the rack may move within its SuperPoD",
    )
    reschedule_block_after: int = _setting(
        seconds,
        6,
        "how long pods of a job for SuperPoDs or racks wait for nodes after a fault before the "
        "healthy pods of the affected block are restarted, and the block may move to another SuperPoD",
    )
    reschedule_job_after: int = _setting(
        seconds,
        12,
        "how long pods of any job wait for nodes after a fault before all its pods are restarted, and the "
        "job is scheduled again if its intact blocks cannot be kept",
    )
    gang_recovery_limit: int = _setting(
        seconds, 30, "how long a gang may stay partly bound before it is completed or evicted"
    )

    def __post_init__(self) -> None:
        if self.multi_pod_requests == "field":
            object.__setattr__(self, "multi_pod_requests", "vendor")
        if self.reserve_nodes == _UNWRITTEN:
            object.__setattr__(self, "reserve_nodes", 2 if self.super_pod_size > 2 else 0)
        elif not 0 <= self.reserve_nodes < self.super_pod_size:
            raise InvalidArgument(
                f"{self.reserve_nodes} is not allowed with super-pod-size {self.super_pod_size}; "
                f"allowed: a whole number, 0 to {self.super_pod_size - 1}"
            )


#: The settings in the order of the reference page, by the name they have in the file.
SETTINGS: Mapping[str, Argument[Any]] = {
    name: replace(row.metadata["argument"], name=name)
    for row in fields(Settings)
    for name in (_NAMES.get(row.name) or row.name.replace("_", "-"),)
}
_FIELD_OF: Mapping[str, str] = dict(zip(SETTINGS, (row.name for row in fields(Settings)), strict=True))


def settings_from(values: Mapping[str, Value]) -> Settings:
    """Settings with the given values, by their names in the file."""
    named: dict[str, Any] = {_FIELD_OF[name]: value for name, value in values.items()}
    return Settings(**named)


def with_settings(settings: Settings, texts: Mapping[str, str]) -> Settings:
    """Other values of some settings, by name and as they are written. Raises InvalidArgument."""
    values: dict[str, Any] = {}
    for name, text in texts.items():
        if name not in SETTINGS:
            raise InvalidArgument(f"{name}: unknown setting{did_you_mean(name, SETTINGS)}")
        try:
            values[_FIELD_OF[name]] = SETTINGS[name].read(text)
        except InvalidArgument as error:
            raise InvalidArgument(f"{name}: {error}") from None
    return replace(settings, **values)


# -- plugins ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EnableFlag:
    """A key beside a plugin's name that turns one of its functions on or off."""

    #: The key in Volcano's documentation. Some begin with `enable`, some with `enabled`.
    key: str
    #: What the plugin takes part in where the flag is true.
    meaning: str = ""
    default: bool = True

    @property
    def name(self) -> str:
        """The function in the code's spelling: `job_order` for `enableJobOrder`."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", self._word).lower()

    @property
    def spellings(self) -> tuple[str, str]:
        """Both keys that are accepted for it."""
        return f"enable{self._word}", f"enabled{self._word}"

    @property
    def has_effect(self) -> bool:
        """False: it is checked and has no effect; files written for Volcano carry it."""
        return bool(self.meaning)

    @property
    def _word(self) -> str:
        return re.sub(r"^enabled?(?=[A-Z])", "", self.key)


ENABLE_FLAGS: Mapping[str, EnableFlag] = {
    flag.name: flag
    for flag in (
        EnableFlag("enableJobOrder", "the order of jobs"),
        EnableFlag("enableJobReady", "whether the pods placed so far are enough to start the job"),
        EnableFlag(
            "enableJobPipelined",
            "whether pods are evicted for a job, which must be able to start after that",
        ),
        EnableFlag("enableJobEnqueued", "whether a job is admitted"),
        EnableFlag("enableJobStarving", "which jobs other pods may be evicted for"),
        EnableFlag("enableTaskOrder", "the order of the pods of a job"),
        EnableFlag("enableQueueOrder", "the order of queues"),
        EnableFlag("enablePreemptable", "which pods of its queue a job may evict"),
        EnableFlag("enableReclaimable", "which pods of other queues a job may evict"),
        EnableFlag("enablePreemptive", "whether a queue may reclaim for a pod"),
        EnableFlag("enablePredicate", "which nodes a pod may run on"),
        EnableFlag("enableBestNode"),
        EnableFlag("enableNodeOrder", "the scores of nodes"),
        EnableFlag("enableTargetJob"),
        EnableFlag("enableReservedNodes"),
        EnableFlag("enabledVictim", "which running pods the action shuffle evicts"),
        EnableFlag("enabledOverused", "whether a queue uses more than its share"),
        EnableFlag("enabledAllocatable", "whether a queue may use more resources"),
        EnableFlag("enabledHyperNodeOrder", "the scores of HyperNodes"),
        EnableFlag("enabledHyperNodeGradient", "in which HyperNodes a job is tried"),
        EnableFlag("enabledSubJobReady", "whether enough sub-groups of a job are complete to start it"),
        EnableFlag("enabledSubJobPipelined", "whether enough sub-groups would be complete after evictions"),
        EnableFlag("enabledSubJobOrder", "the order of the sub-groups of a job"),
        EnableFlag("enableHierarchy", "queues in a tree", default=False),
        EnableFlag("enabledClusterOrder", default=False),
    )
}
FLAG_BY_KEY: Mapping[str, EnableFlag] = {
    spelling: flag for flag in ENABLE_FLAGS.values() for spelling in flag.spellings
}


@dataclass(frozen=True, slots=True)
class PluginOption:
    """A plugin in its tier, with every flag and every argument decided."""

    name: str
    #: By the name of each flag, such as `node_order`.
    enabled: Mapping[str, bool] = field(hash=False)
    arguments: Mapping[str, Value] = field(hash=False)

    @classmethod
    def of(
        cls,
        name: str,
        flags: Mapping[str, bool] | None = None,
        arguments: Mapping[str, Value] | None = None,
    ) -> PluginOption:
        """An option in which every flag that is not named has its default."""
        enabled = {flag: declared.default for flag, declared in ENABLE_FLAGS.items()}
        for flag, on in (flags or {}).items():
            if flag not in enabled:
                raise KeyError(f"unknown enable flag: {flag}")
            enabled[flag] = on
        return cls(name, enabled, dict(arguments or {}))

    def is_enabled(self, flag: str) -> bool:
        return self.enabled[flag]

    def value(self, argument: Argument[T]) -> T:
        """The value of a declared argument."""
        # The reader has checked it against the declaration, which the types of the map do not say.
        result: Any = self.arguments.get(argument.name, argument.default)
        return result  # type: ignore[no-any-return]

    def values(self, family: ArgumentFamily[T]) -> dict[str, T]:
        """The values of a family of arguments, by what the user put at the end of their names."""
        result: dict[str, Any] = {
            name.removeprefix(family.prefix): value
            for name, value in self.arguments.items()
            if family.has(name)
        }
        return result


@dataclass(frozen=True, slots=True)
class Tier:
    """Plugins that answer together, before the next tier is asked."""

    plugins: tuple[PluginOption, ...]


@dataclass(frozen=True, slots=True)
class Configuration:
    """All that a user can decide about the scheduler. Equal files give equal values."""

    actions: tuple[str, ...]
    tiers: tuple[Tier, ...]
    settings: Settings = field(default_factory=Settings)
    action_arguments: Mapping[str, Mapping[str, Value]] = field(default_factory=dict, hash=False)
    #: What the file names and Ringwise does without, one line each; nothing is decided by it.
    warnings: tuple[str, ...] = field(default=(), compare=False)

    def action_value(self, action: str, argument: Argument[T]) -> T:
        """The value of an argument that the action declares."""
        # The reader has checked it against the declaration, which the types of the map do not say.
        return cast(T, self.action_arguments.get(action, {}).get(argument.name, argument.default))

    def plugin(self, name: str) -> PluginOption | None:
        """The option of the plugin with that name, if it takes part."""
        for tier in self.tiers:
            for option in tier.plugins:
                if option.name == name:
                    return option
        return None

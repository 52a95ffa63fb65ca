"""The pods of this node, with what the device plugin reads of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from ringwise.kubeclient.list_watch import version_number
from ringwise.manifests.text.quantities import NotReadableError, whole_quantity
from ringwise.manifests.text.wire import EnvVarWire, MetaWire, PodSpecWire, ResourcesWire, WireStruct
from ringwise.records import dataclass
from ringwise.state.ranges import MAX_NODE_CHIPS
from ringwise.wellknown import VISIBLE_DEVICES

_ENDED = frozenset({"Failed", "Succeeded"})
#: Seconds that containers have to end where their pod does not say it.
DEFAULT_GRACE = 30


@dataclass(frozen=True, slots=True)
class NodePod:
    """One pod. Limits are those of its containers and sidecars, which run together."""

    namespace: str
    name: str
    uid: str
    phase: str = "Pending"
    #: RFC 3339, as the API server writes it: as text it sorts by time.
    created: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    #: Name of the object that controls the pod.
    controller: str = ""
    limits: tuple[Mapping[str, int], ...] = ()
    #: Names of the same containers.
    containers: tuple[str, ...] = ()
    #: Limits of the other init containers: kubelet asks for their chips, and does not list whose they are.
    ending_limits: tuple[Mapping[str, int], ...] = ()
    deleting: bool = False
    reason: str = ""
    waiting_messages: tuple[str, ...] = ()
    #: Whether all containers had ended when kubelet last wrote their states.
    stopped: bool = False
    #: Seconds that its containers have to end.
    grace: int = DEFAULT_GRACE
    #: resourceVersion as a number; 0 where it is none.
    version: int = 0
    #: Annotations that a container reads into ASCEND_VISIBLE_DEVICES.
    visible_from: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def live(self) -> bool:
        """Neither Failed nor Succeeded; a pod that is being deleted lives until it is gone."""
        return self.phase not in _ENDED

    @property
    def ended(self) -> bool:
        """Whether no container of it runs, or will."""
        return self.stopped or not self.live

    def asks_for(self, resource: str) -> int:
        """Chips in the limits of containers and sidecars; 0 when one of them is out of range."""
        counts = [limits.get(resource, 0) for limits in self.limits]
        return sum(counts) if all(0 <= one <= MAX_NODE_CHIPS for one in counts) else 0

    def asking_containers(self, resource: str) -> int:
        """How many containers ask for chips; rule D4 allows one."""
        every = self.limits + self.ending_limits if self.ending_limits else self.limits
        return len([1 for limits in every if limits.get(resource)])

    def asks_before_start(self, resource: str) -> bool:
        """Whether only init containers that end before the others start ask for chips."""
        return not self.asks_for(resource) and self.asking_containers(resource) > 0

    def container_of(self, resource: str) -> str:
        """The container that asks for chips; there is one at most (rule D4)."""
        asking = zip(self.containers, self.limits, strict=False)
        return next((name for name, limits in asking if limits.get(resource)), "")

    def differs(self, other: NodePod) -> bool:
        """Whether something changed that a report may have to say."""
        return (self.phase, self.deleting, self.annotations) != (
            other.phase,
            other.deleting,
            other.annotations,
        )

    def annotated(self, changes: Mapping[str, str | None]) -> NodePod:
        """The pod with other annotations; None removes one."""
        merged = {**self.annotations, **changes}
        entries = {key: value for key, value in merged.items() if value is not None}
        return replace(self, annotations=entries)


class _Meta(MetaWire):
    deletion_grace_period_seconds: int | None = None


class _Waiting(WireStruct):
    message: str | None = None


class _Terminated(WireStruct):
    """That it is there is all that counts."""


class _State(WireStruct):
    waiting: _Waiting | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(WireStruct):
    state: _State | None = None


class _Status(WireStruct):
    phase: str | None = None
    reason: str | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None


class NodePodWire(WireStruct):
    """A pod as the API server sends it, with the states of its containers."""

    metadata: _Meta | None = None
    spec: PodSpecWire | None = None
    status: _Status | None = None


def pod_from_wire(wire: NodePodWire) -> NodePod | None:
    """Return the pod; None without a name. Unreadable quantities count as none, so that others are served."""
    meta, spec, status = wire.metadata, wire.spec or PodSpecWire(), wire.status or _Status()
    if meta is None or not meta.name:
        return None
    # An init container that is always started again is a sidecar.
    sidecars = [one for one in spec.init_containers or () if one.restart_policy == "Always"]
    ending = [one for one in spec.init_containers or () if one.restart_policy != "Always"]
    containers = [*(spec.containers or ()), *sidecars]
    statuses = [*(status.init_container_statuses or ()), *(status.container_statuses or ())]
    waiting = [one.state.waiting for one in statuses if one.state is not None]
    return NodePod(
        namespace=meta.namespace or "default",
        name=meta.name,
        uid=meta.uid or "",
        phase=status.phase or "Pending",
        version=version_number(meta.resource_version),
        created=meta.creation_timestamp or "",
        annotations={key: value or "" for key, value in (meta.annotations or {}).items()},
        labels={key: value or "" for key, value in (meta.labels or {}).items()},
        controller=next((one.name for one in meta.owner_references or () if one.controller), ""),
        limits=tuple(_limits(one.resources) for one in containers),
        containers=tuple(one.name for one in containers),
        ending_limits=tuple(_limits(one.resources) for one in ending),
        deleting=bool(meta.deletion_timestamp),
        reason=status.reason or "",
        stopped=_stopped(status),
        grace=max(
            DEFAULT_GRACE
            if spec.termination_grace_period_seconds is None
            else spec.termination_grace_period_seconds,
            meta.deletion_grace_period_seconds or 0,
        ),
        waiting_messages=tuple(one.message for one in waiting if one is not None and one.message),
        visible_from=frozenset(
            path.removeprefix("metadata.annotations['").removesuffix("']")
            for one in containers
            for variable in one.env or ()
            if variable.name == VISIBLE_DEVICES and (path := _field_path(variable))
        ),
    )


def _stopped(status: _Status) -> bool:
    states = [one.state for one in status.container_statuses or ()]
    return bool(states) and all(one is not None and one.terminated is not None for one in states)


def _field_path(variable: EnvVarWire) -> str:
    source = variable.value_from
    path = source.field_ref.field_path if source is not None and source.field_ref is not None else None
    return path if path is not None and path.startswith("metadata.annotations['") else ""


def _limits(resources: ResourcesWire | None) -> Mapping[str, int]:
    read: dict[str, int] = {}
    for name, value in ((resources.limits if resources is not None else None) or {}).items():
        # Memory and cpu are of no interest, and extended resources are whole numbers.
        if "/" not in name:
            continue
        try:
            read[name] = whole_quantity(value)
        except NotReadableError:
            continue
    return read

"""Containers that say themselves which chips they see, with `ASCEND_VISIBLE_DEVICES`.

Ascend Docker Runtime mounts what that variable names. Kubelet puts the variables of the pod after those
of the device plugin, and the last one counts: a value that a user chooses bypasses every allocation. The
variable may only repeat what was allocated: the annotation with the chips of the pod (N8), which scheduler
and device plugin write for the resource that the pod requests. An annotation for another resource can only
come from the user. None of the other variables of the runtime makes a chip visible.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ringwise.manifests.text.errors import shown
from ringwise.manifests.text.quantities import NotReadableError, quantity
from ringwise.manifests.text.wire import ContainerWire, EnvVarWire, PodSpecWire
from ringwise.state.model import VisibleDevices
from ringwise.wellknown import ASCEND_REAL, CHIP_RESOURCE_FAMILIES, VISIBLE_DEVICES

#: Values for which nothing is mounted.
_NOTHING = ("", "void")
_ANNOTATION, _END = "metadata.annotations['", "']"


def visible_devices(spec: PodSpecWire, path: str, whole: PodSpecWire | None = None) -> VisibleDevices | None:
    """The first container that certainly does so; else the first for which that is uncertain.

    `whole`: the pod, where `spec` has only some of its containers.
    """
    doubtful: VisibleDevices | None = None
    allocated: frozenset[str] | None = None
    for field, containers in (
        ("containers", spec.containers),
        ("initContainers", spec.init_containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    ):
        for position, container in enumerate(containers or ()):
            if not container.env and not container.env_from:
                continue
            if allocated is None:
                allocated = _allocated(whole or spec)
            for devices in _of_container(container, f"{path}.{field}[{position}]", allocated):
                if devices.certain:
                    return devices
                doubtful = doubtful or devices
    return doubtful


def _allocated(spec: PodSpecWire) -> frozenset[str]:
    """Annotations in which scheduler and device plugin write the chips of the pod."""
    names = {
        name
        for container in (*(spec.containers or ()), *(spec.init_containers or ()))
        if container.resources is not None
        for amounts in (container.resources.limits, container.resources.requests)
        for name, amount in (amounts or {}).items()
        if name.startswith(CHIP_RESOURCE_FAMILIES) and _is_some(amount)
    }
    return frozenset({*names, ASCEND_REAL}) if names else frozenset()


def _is_some(amount: str | float) -> bool:
    try:
        return quantity(amount) > 0
    except NotReadableError:
        # The pod is refused for that.
        return False


def _of_container(
    container: ContainerWire, path: str, allocated: Collection[str]
) -> Iterator[VisibleDevices]:
    named = False
    for index, variable in enumerate(container.env or ()):
        if variable.name != VISIBLE_DEVICES:
            continue
        named = True
        source = _source(variable, allocated)
        if source is not None:
            field = "value" if variable.value_from is None else "valueFrom"
            yield VisibleDevices(_name(container), f"{path}.env[{index}].{field}", source)
    if named:
        # Variables of `env` come after those of `envFrom`.
        return
    for index, source_of_all in enumerate(container.env_from or ()):
        if VISIBLE_DEVICES.startswith(source_of_all.prefix or ""):
            where = f"{path}.envFrom[{index}]"
            yield VisibleDevices(_name(container), where, "a ConfigMap or Secret", certain=False)


def _source(variable: EnvVarWire, allocated: Collection[str]) -> str | None:
    """Where the value comes from; None where it is nothing, or what was allocated."""
    reference = variable.value_from
    if reference is None:
        return None if (variable.value or "") in _NOTHING else shown(variable.value)
    path = reference.field_ref.field_path if reference.field_ref is not None else None
    if path is None:
        return "a ConfigMap, Secret or resource"
    if path.startswith(_ANNOTATION) and path.endswith(_END):
        key = path.removeprefix(_ANNOTATION).removesuffix(_END)
        if key in allocated:
            return None
    return shown(path)


def _name(container: ContainerWire) -> str:
    return container.name if len(container.name) <= 63 else f"{container.name[:63]}..."

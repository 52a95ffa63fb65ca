"""Requests and capacities of cpu, memory, pods, chips and other resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from ringwise.manifests.text.checking import keyed
from ringwise.manifests.text.errors import Findings, shown
from ringwise.manifests.text.quantities import NotReadableError, quantity, whole_quantity
from ringwise.manifests.text.strings import shared
from ringwise.manifests.text.wire import ContainerWire, PodSpecWire, Quantities, ResourcesWire
from ringwise.records import dataclass
from ringwise.state.ranges import MAX_NODE_CHIPS
from ringwise.wellknown import CHIP_RESOURCE_PREFIX

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"
_HUGE_PAGES = "hugepages-"
#: Resources that are sizes in bytes and may be fractions.
_SIZES = ("ephemeral-storage", _HUGE_PAGES, "memory", "storage")
#: Resources whose limits a quota counts.
_LIMITED = (CPU, MEMORY, "ephemeral-storage")
#: Kubernetes keeps an amount in an int64.
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests of a whole pod, and which of its containers request chips."""

    amounts: Mapping[str, int] = field(default_factory=dict)
    #: How many request chips.
    chip_containers: int = 0
    #: Only init containers that end before the others start do.
    chips_before_start: bool = False

    @property
    def chips(self) -> dict[str, int]:
        return {
            name: count
            for name, count in self.amounts.items()
            if name.startswith(CHIP_RESOURCE_PREFIX) and count
        }

    @property
    def chips_declined(self) -> list[str]:
        """Chip resources that the pod requests with a count of 0."""
        return [
            name
            for name, count in self.amounts.items()
            if name.startswith(CHIP_RESOURCE_PREFIX) and not count
        ]


def amount(
    name: str, value: str | int | float, path: str, issues: Findings, most_chips: int = _LARGEST
) -> int:
    """An amount in the unit of its resource: milli for cpu, bytes for sizes, whole numbers for all else.

    A quota counts requests and limits apart, as `requests.cpu` and `limits.cpu`.
    """
    unit = name.removeprefix("requests.").removeprefix("limits.")
    is_chips = name.startswith(CHIP_RESOURCE_PREFIX)
    try:
        if unit == CPU:
            milli = quantity(value, 1000)
            if milli > _LARGEST:
                raise NotReadableError("must be a quantity below 2^63 / 1000")
            return milli
        if unit.startswith(_SIZES):
            return quantity(value)
        count = whole_quantity(value)
        if is_chips and count > most_chips:
            raise NotReadableError(f"must be a whole number from 0 to {most_chips}")
        return count
    except NotReadableError as problem:
        if is_chips:
            allowed = "of 0 or more" if most_chips == _LARGEST else f"from 0 to {most_chips}"
            issues.invalid(keyed(path, name), value, f"must be a whole number {allowed}")
        else:
            issues.invalid(keyed(path, name), value, str(problem))
        return 0


def amounts(
    quantities: Quantities | None, path: str, issues: Findings, most_chips: int = _LARGEST
) -> dict[str, int]:
    """All amounts. `most_chips` is the range of chips of one node or container; a queue has no such limit."""
    if not quantities:
        return {}
    return {shared(name): amount(name, value, path, issues, most_chips) for name, value in quantities.items()}


def extended(counts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Other resources than cpu, memory, pods and chips, of which there are any."""
    others = (
        (name, count)
        for name, count in counts.items()
        if count and name not in (CPU, MEMORY, PODS) and not name.startswith(CHIP_RESOURCE_PREFIX)
    )
    return tuple(sorted(others))


def pod_requests(spec: PodSpecWire, path: str, issues: Findings) -> Requests:
    """The rule of Kubernetes for the requests of a pod.

    The sum of containers and sidecars, or the largest init container with the sidecars started before it,
    whichever is more. What the pod requests as a whole (`spec.resources`) replaces that sum. The overhead is
    added.
    """
    requested = [
        _container_requests(one.resources, f"{path}.containers[{position}].resources", issues)
        for position, one in enumerate(spec.containers or ())
        if one.resources is not None
    ]
    of_init = [
        (
            is_sidecar(one),
            _container_requests(one.resources, f"{path}.initContainers[{position}].resources", issues),
        )
        for position, one in enumerate(spec.init_containers or ())
        if one.resources is not None
    ]
    staying = sum(map(_requests_chips, [*requested, *(amounts for stays, amounts in of_init if stays)]))
    ending = sum(_requests_chips(amounts) for stays, amounts in of_init if not stays)
    total = _of_whole_pod(requested, of_init)
    if spec.resources is not None:
        total |= _requested_for_pod(spec.resources, total, f"{path}.resources", issues)
    if spec.overhead:
        _add(total, amounts(spec.overhead, f"{path}.overhead", issues, MAX_NODE_CHIPS))
    for name, count in total.items():
        if count > _LARGEST:
            issues.add_error(f"{path}.containers", f"must request less than 2^63 of {shown(name)} in total")
    return Requests(total, staying + ending, bool(ending and not staying))


def pod_limits(spec: PodSpecWire, path: str, issues: Findings) -> dict[str, int]:
    """The limits of a whole pod on cpu, memory and local storage; the overhead is added to a limit.

    Only what a quota counts as `limits.*`. Errors are those of the requests and are not reported again.
    """
    silent = Findings(issues.origin)

    def limits(one: ContainerWire) -> dict[str, int]:
        quantities = one.resources.limits if one.resources is not None else None
        wanted = {name: value for name, value in (quantities or {}).items() if name in _LIMITED}
        return amounts(wanted, path, silent)

    of_init = [(is_sidecar(one), limits(one)) for one in spec.init_containers or ()]
    total = _of_whole_pod([limits(one) for one in spec.containers or ()], of_init)
    of_pod = (spec.resources.limits if spec.resources is not None else None) or {}
    total |= amounts({name: value for name, value in of_pod.items() if name in _LIMITED}, path, silent)
    overhead = {name: value for name, value in (spec.overhead or {}).items() if name in total}
    _add(total, amounts(overhead, path, silent))
    return total


def is_sidecar(init_container: ContainerWire) -> bool:
    """Whether it stays: the containers that follow run beside it."""
    return init_container.restart_policy == "Always"


def containers_sharing_cpus(containers: Sequence[ContainerWire]) -> Iterator[str]:
    """Containers whose cpu request, or limit where there is none, is not a whole number above 0."""
    silent = Findings("")
    for container in containers:
        wire = container.resources or ResourcesWire()
        cpu = (wire.requests or {}).get(CPU, (wire.limits or {}).get(CPU, 0))
        milli = amount(CPU, cpu, "", silent)
        if milli <= 0 or milli % 1000:
            yield container.name


def _of_whole_pod(
    containers: Sequence[Mapping[str, int]], init_containers: Sequence[tuple[bool, Mapping[str, int]]]
) -> dict[str, int]:
    """Containers run together. Init containers run one by one, those that stay (sidecars) with all later."""
    total: dict[str, int] = {}
    for amounts in containers:
        _add(total, amounts)
    peak: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for is_sidecar, amounts in init_containers:
        if is_sidecar:
            _add(sidecars, amounts)
        else:
            _raise_to(peak, {name: count + sidecars.get(name, 0) for name, count in amounts.items()})
    _add(total, sidecars)
    _raise_to(total, peak)
    return total


def _requested_for_pod(
    resources: ResourcesWire, of_containers: Mapping[str, int], path: str, issues: Findings
) -> dict[str, int]:
    """What a pod requests as a whole; a limit counts where neither it nor a container requests anything."""
    counts: dict[str, int] = {}
    for field_name, quantities in (("requests", resources.requests), ("limits", resources.limits)):
        where = f"{path}.{field_name}"
        for name, count in amounts(quantities, where, issues).items():
            if name not in (CPU, MEMORY) and not name.startswith(_HUGE_PAGES):
                names = "cpu, memory and hugepages-<size>"
                issues.add_error(keyed(where, name), f"must be one of {names}; others belong to a container")
            elif field_name == "requests" or name not in of_containers:
                counts.setdefault(name, count)
    return counts


def _requests_chips(requested: Mapping[str, int]) -> bool:
    return any(count and name.startswith(CHIP_RESOURCE_PREFIX) for name, count in requested.items())


def _container_requests(resources: ResourcesWire, path: str, issues: Findings) -> dict[str, int]:
    """The requests; where there are none, the limits. Chips need limits, and requests must equal them."""
    requested = amounts(resources.requests, f"{path}.requests", issues, MAX_NODE_CHIPS)
    limits = amounts(resources.limits, f"{path}.limits", issues, MAX_NODE_CHIPS)
    for name, count in requested.items():
        if not name.startswith(CHIP_RESOURCE_PREFIX):
            continue
        where = keyed(f"{path}.requests", name)
        if name not in limits:
            if count:
                issues.add_error(where, f"requires an equal limit, got a request of {count} and no limit")
        elif limits[name] != count:
            issues.add_error(where, f"must equal the limit {limits[name]}, got {count}")
    for name, count in limits.items():
        requested.setdefault(name, count)
    return requested


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, count in more.items():
        total[name] = total.get(name, 0) + count


def _raise_to(total: dict[str, int], floor: Mapping[str, int]) -> None:
    for name, count in floor.items():
        if count > total.get(name, 0):
            total[name] = count

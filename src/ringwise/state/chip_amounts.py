"""What live pods hold on the chips of a node with soft shares or dynamic vNPUs (rules V3, V4).

The book is computed from the records of the node's pods. It is never changed: after every change of the node
it is computed again, so a rollback or a restart cannot make it differ from the pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from ringwise.records import dataclass
from ringwise.state.allocation_modes import NodeMode
from ringwise.state.model import DYNAMIC, SOFT, STATIC, WHOLE, DeviceReport, Pod
from ringwise.state.part_requests import PartBinding, folder_of, mounted_part, requested
from ringwise.topology.chips import chips_of
from ringwise.topology.policy import is_chip_resource
from ringwise.topology.vnpu_templates import Template

#: The device reports of a node by resource.
Reports = Mapping[str, DeviceReport]


class HoldingPod(Protocol):
    """The part of a pod's record that is read here."""

    pod: Pod
    chips: int
    binding: PartBinding | None
    settled: bool


@dataclass(slots=True)
class ChipUse:
    """What pods hold on one chip."""

    percent: int = 0
    mb: int = 0
    policies: frozenset[str] = frozenset()
    cores: int = 0
    cpus: int = 0
    #: Use of the video unit by the vNPUs on it.
    dvpp: tuple[str, ...] = ()
    vgroups: frozenset[str] = frozenset()
    #: A pod holds the whole chip.
    entire: bool = False
    #: The device plugin has not served a pod on it yet.
    unsettled: bool = False


@dataclass(frozen=True, slots=True)
class UnsettledPod:
    """A pod that the device plugin has not served yet: its template, or its share."""

    template: str = ""
    percent: int = 0
    mb: int = 0
    policy: str = ""
    folder: str = ""


class ChipAmounts:
    """The book of one node."""

    __slots__ = ("chips", "unknown", "unsettled")

    def __init__(self) -> None:
        self.chips: dict[int, ChipUse] = {}
        #: Keys of pods that use chips, but it is not known how much of which.
        self.unknown: list[str] = []
        self.unsettled: list[UnsettledPod] = []

    def on(self, chip: int) -> ChipUse:
        return self.chips.get(chip, _NOTHING)

    def _use(self, chip: int) -> ChipUse:
        return self.chips.setdefault(chip, ChipUse())

    def _hold(self, chips: Iterable[int], settled: bool) -> None:
        for chip in chips:
            use = self._use(chip)
            use.entire = True
            use.unsettled |= not settled

    def _add_share(self, chips: Iterable[int], percent: int, mb: int, policy: str) -> None:
        for chip in chips:
            use = self._use(chip)
            use.percent += percent
            use.mb += mb
            use.policies |= {policy}

    def _add_vnpu(self, chips: Iterable[int], template: Template, vgroup: tuple[int, str] | None) -> None:
        for chip in chips:
            use = self._use(chip)
            use.cores += template.cores
            use.cpus += template.cpus
            use.dvpp += (template.dvpp,)
            use.unsettled |= vgroup is None
            if vgroup is not None and vgroup[0] == chip and vgroup[1]:
                use.vgroups |= {vgroup[1]}


_NOTHING = ChipUse()


def is_share(record: HoldingPod) -> bool:
    """Rule V3: whether a pod on a node with soft shares has a share of one chip."""
    resource, _ = requested(record.pod.cls)
    bound = record.binding
    return (
        resource is not None
        and is_chip_resource(resource)
        and bound is not None
        and len(bound.chips) == 1
        and bool(bound.policy)
    )


def counted_chips(record: HoldingPod, mode: NodeMode, reports: Reports, guarded: bool) -> tuple[int, ...]:
    """Rule V4: the chips on which a bound pod counts."""
    resource, count = requested(record.pod.cls)
    report = _report_on(mode, resource, reports)
    uid, bound = record.pod.uid, record.binding.chips if record.binding is not None else ()
    if report is not None:
        if uid in report.mounted_shares:
            return (report.mounted_shares[uid].chip,)
        if uid in report.mounted:
            return _own_part(record, mode, count, chips_of(report.mounted[uid]))
    mounted = _own_part(record, mode, count, mounted_part(record.pod).chips)
    bound = _own_part(record, mode, count, bound)
    if guarded and mounted:
        return mounted
    return (*bound, *(chip for chip in mounted if chip not in bound))


def _report_on(mode: NodeMode, resource: str | None, reports: Reports) -> DeviceReport | None:
    """The device report that names a pod, also if its node had another allocation mode when it was bound."""
    return reports.get(mode.resource or resource or "") or next(iter(reports.values()), None)


def _own_part(record: HoldingPod, mode: NodeMode, count: int, chips: tuple[int, ...]) -> tuple[int, ...]:
    """Of a pod in the mode of its node, one list counts up to what the pod requested."""
    if mode.mode == SOFT and is_share(record):
        return chips[:1]
    part = record.pod.cls.part
    if mode.mode == DYNAMIC and mode.divided is not None and part is not None and part.mode == DYNAMIC:
        whole = record.binding is not None and not record.binding.template
        return chips[: count if whole else 1]
    if part is None:
        return chips[:count]
    return chips


def is_settled(record: HoldingPod, mode: NodeMode, reports: Reports) -> bool:
    """Whether the device plugin has served the pod."""
    resource, _ = requested(record.pod.cls)
    report = _report_on(mode, resource, reports)
    if report is not None and report.own_plugin:
        return record.pod.uid in report.mounted or record.pod.uid in report.mounted_shares
    return bool(mounted_part(record.pod).chips)


def amounts_on(mode: NodeMode, records: Iterator[HoldingPod], reports: Reports, guarded: bool) -> ChipAmounts:
    """What the pods on a node of this allocation mode hold on its chips."""
    book = ChipAmounts()
    for record in records:
        pod = record.pod
        resource, count = requested(pod.cls)
        if not count or resource is None or not pod.live:
            continue
        part = pod.cls.part
        if part is not None and part.mode == STATIC:
            continue
        # Chips of pods with whole chips follow from N8, whatever mode their node has now.
        chips = chips_of(record.chips) if part is None else counted_chips(record, mode, reports, guarded)
        bound = record.binding
        if mode.mode == SOFT and is_chip_resource(resource):
            report = reports.get(resource)
            share = report.mounted_shares.get(pod.uid) if report is not None else None
            held = share or (bound if is_share(record) else None)
            if held is not None:
                book._add_share(chips, count, held.mb, held.policy)
                if not record.settled:
                    book.unsettled.append(UnsettledPod("", count, held.mb, held.policy, folder_of(pod)))
            else:
                book._hold(chips, record.settled)
                if len(chips) < count:
                    book.unknown.append(pod.key)
        elif mode.mode == DYNAMIC and part is not None and part.mode == DYNAMIC and mode.divided is not None:
            template = mode.divided.templates.get(bound.template) if bound is not None else None
            if bound is None or (bound.template and template is None):
                book.unknown.append(pod.key)
                continue
            if template is None:
                book._hold(chips, record.settled)
            else:
                mounted = mounted_part(pod)
                vgroup = (mounted.chips[0] if mounted.chips else -1, mounted.vgroup)
                book._add_vnpu(chips, template, vgroup if record.settled else None)
            if not record.settled:
                book.unsettled.append(UnsettledPod(bound.template))
        elif mode.mode != WHOLE or part is not None:
            # Its node had another allocation mode when it was bound.
            book._hold(chips, record.settled)
            if mode.mode == DYNAMIC and not record.settled:
                book.unsettled.append(UnsettledPod())
            if not chips:
                book.unknown.append(pod.key)
    return book

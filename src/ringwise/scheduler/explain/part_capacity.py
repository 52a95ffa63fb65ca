"""How many more shares of chips and vNPUs of each size would start now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ringwise.framework.part_selection import failed_on
from ringwise.grammar import counted
from ringwise.placement.shares import room
from ringwise.placement.vnpus import room_for
from ringwise.scheduler.explain.capacity_shapes import BoardCapacity, ChipCounts, JobShape
from ringwise.scheduler.node_states import (
    CHIP_STATES,
    before_drains,
    chip_states,
    drain_ahead,
    is_open,
    states_for,
)
from ringwise.scheduler.view import SchedulerView
from ringwise.state.allocation_modes import NO_CHIPS, UNITS_OF_A_CHIP, NodeMode
from ringwise.state.chip_amounts import ChipUse
from ringwise.state.model import DYNAMIC, SOFT, STATIC, PartRequest
from ringwise.topology.chips import chips_of
from ringwise.topology.natural import natural_key
from ringwise.topology.policy import is_chip_resource, is_static_part
from ringwise.topology.vnpu_templates import LOW, SHARED_DVPP, DividedChip
from ringwise.wellknown import NPU_CORE, SHARE_POLICIES

_PERCENTAGES = (10, 25, 50, 100)


def part_capacity(view: SchedulerView, now: int, holder: str) -> Iterator[BoardCapacity]:
    """The nodes with soft shares by resource, those with dynamic vNPUs by kind of chip, and static vNPUs.

    `holder`: nodes that are reserved for it are free.
    """
    soft: dict[str, list[int]] = {}
    dynamic: dict[int, list[int]] = {}
    static: dict[str, list[int]] = {}
    state = view.cluster
    for number in state.existing_nodes():
        node, mode = state.nodes[number], state.modes.get(number, NO_CHIPS)
        if node is None or mode.closed is not None:
            continue
        if mode.mode == SOFT:
            for resource in filter(is_chip_resource, node.chips_capacity):
                soft.setdefault(resource, []).append(number)
        elif mode.divided is not None:
            dynamic.setdefault(id(mode.divided), []).append(number)
        elif mode.mode == STATIC:
            for resource in filter(is_static_part, node.chips_capacity):
                static.setdefault(resource, []).append(number)
    for resource, nodes in sorted(soft.items()):
        yield _Nodes(view, now, nodes, resource, holder).shares()
    for nodes in dynamic.values():
        yield _Nodes(view, now, nodes, state.modes[nodes[0]].resource, holder).vnpus()
    for resource, nodes in sorted(static.items()):
        yield _Nodes(view, now, nodes, resource, holder).static_vnpus()


class _Nodes:
    """Nodes whose chips are shared or divided in one way."""

    def __init__(
        self, view: SchedulerView, now: int, nodes: Sequence[int], resource: str, holder: str
    ) -> None:
        self._state = view.cluster
        self._settings = view.settings
        self._states = {number: states_for(view.cluster, number, now, holder) for number in nodes}
        self._now = now
        self._nodes = nodes
        drains = before_drains(view.cluster, view.settings, now, holder)
        of_nodes = [one for one in drains if one.resource == resource and one.node in self._states]
        self._drains = sorted(of_nodes, key=lambda one: (one.start, natural_key(one.name)))
        self._resource = resource
        self._open = [number for number in nodes if self._is_open(number)]

    def _is_open(self, number: int) -> bool:
        """As for whole chips: now, and for a job that does not say how long it runs."""
        states = self._states[number]
        kept = any(one.keeps for one in states) or drain_ahead(states, self._settings) is not None
        return is_open(states) and not kept and not self._state.amounts(number).unknown

    def shares(self) -> BoardCapacity:
        policies = [
            policy
            for policy in SHARE_POLICIES
            if any(policy in use.policies for number in self._nodes for use in self._uses(number))
        ]
        shapes = []
        for policy in policies or [""]:
            for percent in _PERCENTAGES:
                form = f"{percent}% of a chip" + (f", {policy}" if policy else "")
                jobs = self._shares_of(percent, policy)
                shapes.append(self._shape(form, jobs, UNITS_OF_A_CHIP // percent))
        return self._answer("soft shares", shapes)

    def _uses(self, number: int) -> Iterator[ChipUse]:
        yield from self._state.amounts(number).chips.values()

    def _shares_of(self, percent: int, policy: str) -> int:
        """Shares with the same part of the memory; others have place for as many, or fewer."""
        total = 0
        for number in self._open:
            memory = self._state.modes[number].chip_memory
            request = PartRequest(SOFT, self._resource, percent, memory * percent // UNITS_OF_A_CHIP, policy)
            book = self._state.amounts(number)
            chips = chips_of(self._state.available_chips(number, self._resource))
            place = sum(room(request, book.on(chip), memory) for chip in chips)
            idle = max(0, self._state.fleets[self._resource].idle(number))
            total += min(place, idle // percent)
        return total

    def vnpus(self) -> BoardCapacity:
        kind = self._mode(self._nodes[0]).divided
        assert kind is not None, "these nodes have dynamic vNPUs"
        counts = [count for count in range(1, kind.cores + 1) if kind.takes_count(count)]
        shapes = []
        for count in counts:
            form = "a whole chip" if count == kind.cores else counted(count, "core")
            empty = self._most_on(kind, count, ChipUse(), frozenset(), 0)
            shapes.append(self._shape(form, self._vnpus_of(kind, count), empty))
        return self._answer("dynamic vNPUs", shapes)

    def _mode(self, number: int) -> NodeMode:
        return self._state.modes[number]

    def _vnpus_of(self, kind: DividedChip, count: int) -> int:
        total = 0
        for number in self._open:
            failed = failed_on(self._state, number, self._now)
            book = self._state.amounts(number)
            place = 0
            for chip in chips_of(self._state.available_chips(number, self._resource)):
                place += self._most_on(kind, count, book.on(chip), failed, chip, used=chip in book.chips)
            total += min(place, max(0, self._state.fleets[NPU_CORE].idle(number)) // count)
        return total

    @staticmethod
    def _most_on(
        kind: DividedChip,
        count: int,
        use: ChipUse,
        failed: frozenset[tuple[int, str]],
        chip: int,
        *,
        used: bool = False,
    ) -> int:
        request = PartRequest(DYNAMIC, NPU_CORE, count, dvpp=SHARED_DVPP, level=LOW)
        return room_for(request, kind, use, chip, failed, used=used)

    def static_vnpus(self) -> BoardCapacity:
        fleet = self._state.fleets[self._resource]
        idle = sum(max(0, fleet.idle(number)) for number in self._open)
        most = sum(max(0, fleet.allocatable[number]) for number in self._nodes)
        shape = JobShape("1 vNPU", "share", 0, 1, idle, most, 0)
        return self._answer("static vNPUs", [shape])

    def _shape(self, form: str, jobs: int, of_empty_chip: int) -> JobShape:
        chips = sum(self._listed(number).bit_count() for number in self._nodes)
        return JobShape(form, "share", 0, 1, jobs, chips * of_empty_chip, 0)

    def _listed(self, number: int) -> int:
        fleet = self._state.fleets.get(self._resource)
        return 0 if fleet is None or is_static_part(self._resource) else fleet.listed[number]

    def _answer(self, kind: str, shapes: Sequence[JobShape]) -> BoardCapacity:
        counts, listed = dict.fromkeys(CHIP_STATES, 0), 0
        fleet = self._state.fleets.get(self._resource)
        for number in self._nodes if fleet is not None and not is_static_part(self._resource) else ():
            assert fleet is not None
            states = chip_states(self._state, number, fleet, self._states[number])
            listed += states.listed.bit_count()
            for name, count in states.counts():
                counts[name] += count
        drained = sum(one.chips for one in self._drains)
        chips = ChipCounts(len(self._nodes), listed, network_faulty=0, until_drain=drained, **counts)
        return BoardCapacity(kind, self._resource, None, chips, 0, tuple(shapes), tuple(self._drains))

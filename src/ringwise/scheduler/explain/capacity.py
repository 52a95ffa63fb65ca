"""How many more jobs of each shape would start now, found by placing them and undoing it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ringwise.framework.gang_placement import place_gang
from ringwise.framework.job import Job
from ringwise.framework.policy import ChipPolicy, RackPolicy
from ringwise.grammar import counted
from ringwise.placement.racks.model import RackShape, RackSystem
from ringwise.placement.rules import chip_rule
from ringwise.placement.switches.classes import SwitchClass
from ringwise.records import dataclass
from ringwise.scheduler.explain.boards_present import boards_present
from ringwise.scheduler.node_states import (
    CHIP_STATES,
    ChipStates,
    chip_states,
    dedicating_taints,
    is_open,
    node_states,
)
from ringwise.scheduler.view import SchedulerView
from ringwise.state.model import Pod, PodClass, PodGroup, Toleration
from ringwise.topology.board import Board
from ringwise.topology.superpods import SuperPodId
from ringwise.wellknown import ACCELERATOR_TYPE

#: One-pod sizes that are shown of boards that allow many.
_SHOWN_SIZES = (1, 2, 4, 8, 16, 32, 64)
#: Pods that are placed to count a board: enough for 20,000 nodes that are empty.
CAPACITY_STEPS = 400_000
_GANGS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True, slots=True)
class JobShape:
    """Jobs of one form. `jobs` would start now; no arrangement of running jobs allows more than `most`."""

    form: str
    #: one-pod, gang, block, switches
    kind: str
    chips: int
    pods: int
    jobs: int
    most: int
    #: Free chips that no job of this shape can use.
    stranded: int


@dataclass(frozen=True, slots=True)
class ChipCounts:
    """Where the chips of one board are."""

    nodes: int
    chips: int
    used: int
    faulty: int
    isolated: int
    reserved: int
    #: On nodes that take no new pods.
    closed: int
    free: int
    #: Of the free ones: with a broken network port, for one-pod jobs only.
    network_faulty: int


@dataclass(frozen=True, slots=True)
class BoardCapacity:
    board: str
    resource: str
    #: The accelerator-type that selects these nodes; empty: all nodes of the resource.
    selector: str
    chips: ChipCounts
    #: Whole nodes that one gang could have.
    largest_gang: int
    shapes: tuple[JobShape, ...]
    #: What was not counted to the end because the budget was used up, as sentences.
    left_out: tuple[str, ...] = ()


def capacity(view: SchedulerView, now: int, queue: str | None = None) -> list[BoardCapacity]:
    """For every board of the cluster. With `queue` its limits count too; without, only nodes and chips do."""
    answers = []
    with view.what_if.question(labels=(ACCELERATOR_TYPE,)):
        for resource, selector, board in boards_present(view):
            answers.append(_Counting(view, now, resource, selector, board, queue).answer())
    return answers


class _Counting:
    """One board on the nodes that carry it."""

    def __init__(
        self, view: SchedulerView, now: int, resource: str, selector: str, board: Board, queue: str | None
    ) -> None:
        self._view = view
        self._now = now
        self._resource = resource
        self._selector = selector
        self._board = board
        self._queue = queue or ""
        self._steps_left = CAPACITY_STEPS
        self._cut_short = False
        self._state = view.cluster
        self._fleet = self._state.fleets[resource]
        self._nodes = [
            number
            for number in self._state.known_nodes()
            if self._fleet.allocatable[number] >= 0 and self._meant(number)
        ]
        # A taint that is no condition dedicates a node: its chips count as free, for pods that tolerate it.
        self._tolerations = tuple(
            Toleration(key, "Exists") for key in sorted(dedicating_taints(self._state, self._nodes))
        )

    def _meant(self, number: int) -> bool:
        node = self._state.nodes[number]
        return node is not None and (
            not self._selector or node.labels.get(ACCELERATOR_TYPE) == self._selector
        )

    def answer(self) -> BoardCapacity:
        chips = self._chips()
        settings = self._view.settings
        whole = max(self._board.requests(2, settings.multi_pod_requests), default=0)
        shapes = [self._one_pod(size, chips.free) for size in _sizes(self._board.one_pod)]
        largest = 0
        if self._board.superpod:
            # Without sp-block a job is one block, so a gang stays inside one SuperPoD.
            open_nodes = self._open_by_superpod(whole)
            largest = max(open_nodes.values(), default=0)
            shapes.extend(self._blocks(whole, chips.free, open_nodes))
        elif whole:
            largest = self._gang_nodes(whole)
            shapes.extend(self._gangs(whole, largest, chips.free))
            shapes.extend(self._switched(whole, largest))
        left_out = ("some numbers are too low: the count has used its steps",) if self._cut_short else ()
        return BoardCapacity(
            self._board.name, self._resource, self._selector, chips, largest, tuple(shapes), left_out
        )

    # -- where the chips are ----------------------------------------------------------------

    def _chips(self) -> ChipCounts:
        counts, network = dict.fromkeys(CHIP_STATES, 0), 0
        for states, number in ((self._states(number), number) for number in self._nodes):
            for name, mask in states.by_state():
                counts[name] += mask.bit_count()
            network += (states.free & max(self._fleet.network[number], 0)).bit_count()
        return ChipCounts(len(self._nodes), sum(counts.values()), network_faulty=network, **counts)

    def _states(self, number: int) -> ChipStates:
        opened = is_open(node_states(self._state, number, self._now))
        return chip_states(self._state, number, self._fleet, is_open=opened)

    # -- shapes ---------------------------------------------------------------------------------

    def _one_pod(self, size: int, free: int) -> JobShape:
        most = free // size
        jobs = self._placed(self._policy(multi_pod=False), size, most)
        form = counted(size, "chip")
        return JobShape(form, "one-pod", size, 1, jobs, most, free - jobs * size)

    def _gang_nodes(self, whole: int) -> int:
        """How many pods with a whole node each fit, placed as one gang."""
        return self._placed(self._policy(multi_pod=True), whole, len(self._nodes))

    def _gangs(self, whole: int, largest: int, free: int) -> Iterator[JobShape]:
        """Pods that take whole nodes do not compete for parts of one: the number of gangs is a division."""
        for pods in _GANGS:
            if pods > max(_GANGS[0], largest):
                return
            jobs, most = largest // pods, free // (whole * pods)
            yield JobShape(
                f"{counted(pods, 'node')} of {whole}",
                "gang",
                whole,
                pods,
                jobs,
                most,
                free - jobs * pods * whole,
            )

    def _blocks(self, whole: int, free: int, open_nodes: Mapping[object, int]) -> Iterator[JobShape]:
        """Blocks of so many nodes that one job could have; found by placing such jobs, halving."""
        for size in _GANGS:
            if size > max(_GANGS[0], max(open_nodes.values(), default=0)):
                return
            most = sum(count // size for count in open_nodes.values())
            low, high = 0, most + 1
            if self._fits_blocks(size, most, whole):
                low = most
            while high - low > 1:
                middle = (low + high) // 2
                if self._fits_blocks(size, middle, whole):
                    low = middle
                else:
                    high = middle
            yield JobShape(
                f"blocks of {counted(size, 'node')}",
                "block",
                whole,
                size,
                low,
                most,
                free - low * size * whole,
            )

    def _open_by_superpod(self, whole: int) -> dict[object, int]:
        counts: dict[object, int] = {}
        for number in self._nodes:
            superpod = self._superpod_of(number)
            if superpod is not None:
                usable = self._states(number).free.bit_count()
                counts[superpod] = counts.get(superpod, 0) + (usable >= whole)
        return counts

    def _superpod_of(self, number: int) -> SuperPodId | None:
        """The SuperPoD that counts for blocks; a node without a rack is in none where the board has racks."""
        if self._board.rack_nodes:
            return self._view.racks().rack_of.get(number, (None, 0))[0]
        return self._view.superpods().superpod_of.get(number)

    def _fits_blocks(self, size: int, blocks: int, whole: int) -> bool:
        if not blocks:
            return True
        policy = self._policy(multi_pod=size * blocks > 1, block_nodes=size, blocks=blocks)
        return self._placed(policy, whole, size * blocks, together=True) == size * blocks

    def _switched(self, whole: int, largest: int) -> Iterator[JobShape]:
        """The largest switch-aware jobs, where there are leaf switches."""
        if not whole or self._board.superpod or self._view.switches() is None:
            return
        for job_class in (SwitchClass.FOUNDATION_MODEL, SwitchClass.COMMON):
            policy = self._policy(multi_pod=True, switch_class=job_class.value)
            pods = self._placed(policy, whole, max(largest, 1), together=True)
            stranded = (largest - pods) * whole
            yield JobShape(
                f"largest {job_class.value} job", "switches", whole, pods, min(pods, 1), 1, stranded
            )

    # -- placing ----------------------------------------------------------------------------

    def _policy(
        self,
        *,
        multi_pod: bool,
        block_nodes: int | None = None,
        blocks: int | None = None,
        switch_class: str | None = None,
    ) -> ChipPolicy:
        board = self._board
        rack = None
        if board.rack_nodes and block_nodes is not None and blocks is not None:
            system = RackSystem(board.chips_per_node, board.rack_nodes, board.domain_racks)
            rack = RackPolicy(RackShape(block_nodes, 1, blocks), system)
        between_blocks = multi_pod if blocks is None or rack is not None else blocks > 1
        return ChipPolicy(
            self._resource,
            board,
            chip_rule(board),
            multi_pod,
            board.watches_network and between_blocks,
            switch_class,
            block_nodes,
            blocks,
            rack=rack,
        )

    def _placed(self, policy: ChipPolicy, chips: int, pods: int, *, together: bool = False) -> int:
        """How many of `pods` pods can be placed, as far as the steps allow. All of it is undone."""
        if pods > self._steps_left:
            pods, self._cut_short = self._steps_left, True
        if pods < 1:
            return 0
        selector = ((ACCELERATOR_TYPE, self._selector),) if self._selector else ()
        cls = PodClass(self._resource, chips, node_selector=selector, tolerations=self._tolerations)
        job = Job("/capacity", "", "capacity", queue=self._queue, inqueue=True, validated=True, policy=policy)
        job.pods = {f"capacity-{n}": Pod(f"capacity-{n}", "", f"capacity-{n}", cls) for n in range(pods)}
        # A plan for switches may stop at fewer pods; any other gang tries all.
        job.min_available = 1 if together and policy.blocks is None else pods
        if not together:
            # To its queue these are many small jobs, not one that exceeds it.
            job.group = PodGroup("", "capacity", min_resources={self._resource: chips})
        what_if = self._view.what_if
        with what_if.submitted(job):
            session = what_if.open_session(self._now, [job])
            statement = session.statement()
            place_gang(session, job, statement)
            count = len(statement.allocations)
            statement.discard()
        # A pod that finds no node ends the attempt.
        self._steps_left -= count + 1
        return count


def _sizes(allowed: frozenset[int]) -> list[int]:
    return [size for size in sorted(allowed) if size in _SHOWN_SIZES or len(allowed) <= 4]

"""How many more jobs of each shape would start now, found by placing them and undoing it.

Of shares of chips and vNPUs it is computed how many of each size would start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ringwise.framework.gangs.gang_placement import place_gang
from ringwise.framework.job import Job
from ringwise.framework.part_selection import failed_on
from ringwise.framework.policy import ChipPolicy
from ringwise.framework.trials import nearest, trial
from ringwise.grammar import counted
from ringwise.placement.shares import room
from ringwise.placement.switches.classes import (
    FOUNDATION_MODEL_PODS,
    LARGE_MODEL_SCHEMA,
    NORMAL_SCHEMA,
    SwitchClass,
)
from ringwise.placement.vnpus import room_for
from ringwise.records import dataclass
from ringwise.scheduler.explain.boards_present import boards_present
from ringwise.scheduler.node_states import (
    CHIP_STATES,
    BeforeDrain,
    ChipStates,
    before_drains,
    chip_states,
    dedicating_taints,
    drain_ahead,
    has_shared_chips,
    is_open,
    states_for,
)
from ringwise.scheduler.view import SchedulerView
from ringwise.state.allocation_modes import NO_CHIPS, UNITS_OF_A_CHIP
from ringwise.state.chip_amounts import ChipUse
from ringwise.state.model import DYNAMIC, SOFT, STATIC, PartRequest, Pod, PodClass, PodGroup, Toleration
from ringwise.topology.board import Board
from ringwise.topology.chips import chips_of
from ringwise.topology.natural import natural_key
from ringwise.topology.policy import is_chip_resource, is_static_part
from ringwise.topology.superpods import SuperPodId
from ringwise.topology.vnpu_templates import LOW, SHARED_DVPP, DividedChip
from ringwise.wellknown import (
    ACCELERATOR_TYPE,
    NPU_CORE,
    SCHEDULE_POLICY,
    SHARE_POLICIES,
    SP_BLOCK,
    TOR_AFFINITY,
)

#: One-pod sizes that are shown of boards that allow many.
_SHOWN_SIZES = (1, 2, 4, 8, 16, 32, 64)
#: Pods that are placed to count a board: enough for 20,000 nodes that are empty.
CAPACITY_STEPS = 400_000
_PERCENTAGES = (10, 25, 50, 100)
_GANGS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True, slots=True)
class JobShape:
    """Jobs of one form. `jobs` would start now, at most `upper_bound` if running jobs were moved."""

    shape: str
    #: one-pod, gang, block, switches, share
    kind: str
    chips_per_pod: int
    pods: int
    jobs: int
    upper_bound: int
    #: Free chips that no job of this shape can use.
    stranded_chips: int


@dataclass(frozen=True, slots=True)
class ChipCounts:
    """Where the chips of one board are."""

    nodes: int
    chips: int
    used: int
    faulty: int
    isolated: int
    reserved: int
    #: On nodes that do not accept new pods.
    unschedulable: int
    free: int
    #: Of the free ones: with a broken network port, for one-pod jobs only.
    network_faulty: int
    #: Of the free ones: on nodes that are drained later, for jobs that end before. Shapes give no duration.
    until_drain: int


@dataclass(frozen=True, slots=True)
class BoardCapacity:
    board: str
    resource: str
    #: That selects these nodes; None: all nodes of the resource.
    accelerator_type: str | None
    chips: ChipCounts
    #: Whole nodes that one gang could have.
    largest_gang: int
    shapes: tuple[JobShape, ...]
    #: Where the `until_drain` chips are, by time.
    drains: tuple[BeforeDrain, ...] = ()
    #: What was not counted to the end because the budget was used up, as sentences.
    omitted: tuple[str, ...] = ()


def capacity(view: SchedulerView, now: int, queue: str | None = None) -> list[BoardCapacity]:
    """For every board of the cluster. With `queue` its limits count too; without, only nodes and chips do."""
    with view.what_if.question(labels=(ACCELERATOR_TYPE,)):
        answers = [
            _WholeChips(view, now, resource, selector, board, queue or "").answer()
            for resource, selector, board in boards_present(view)
        ]
    return [*answers, *_of_parts(view, now, f"queue {queue}" if queue else "")]


class _Nodes:
    """Nodes with chips of a resource that are used in one way."""

    def __init__(
        self, view: SchedulerView, now: int, resource: str, holder: str, nodes: Sequence[int]
    ) -> None:
        self._view = view
        self._now = now
        self._resource = resource
        self._nodes = nodes
        self._state = view.cluster
        #: The nodes that are reserved for the holder are free for it.
        self._states = {number: states_for(view.cluster, number, now, holder) for number in nodes}
        drains = before_drains(view.cluster, view.settings, now, holder)
        of_nodes = [one for one in drains if one.resource == resource and one.node in self._states]
        self._drains = sorted(of_nodes, key=lambda one: (one.start, natural_key(one.name)))
        fleet = view.cluster.fleets.get(resource)
        #: Nothing where the resource counts vNPUs.
        self._chips: dict[int, ChipStates] = {}
        if fleet is not None and not is_static_part(resource):
            self._chips = {
                number: chip_states(view.cluster, number, fleet, states)
                for number, states in self._states.items()
            }

    def _counts(self) -> ChipCounts:
        """Where the chips are."""
        listed, drained = self._sum("listed"), sum(one.chips for one in self._drains)
        counts = {name: self._sum(name) for name in CHIP_STATES}
        return ChipCounts(len(self._nodes), listed, network_faulty=0, until_drain=drained, **counts)

    def _sum(self, name: str) -> int:
        return sum(getattr(chips, name).bit_count() for chips in self._chips.values())


class _WholeChips(_Nodes):
    """One board on the nodes that carry it."""

    def __init__(
        self, view: SchedulerView, now: int, resource: str, selector: str, board: Board, queue: str
    ) -> None:
        state, fleet = view.cluster, view.cluster.fleets[resource]
        nodes = [
            number
            for number in state.existing_nodes()
            if fleet.allocatable[number] >= 0 and not has_shared_chips(state, number)
            if (node := state.nodes[number]) is not None
            and (not selector or node.labels.get(ACCELERATOR_TYPE) == selector)
        ]
        super().__init__(view, now, resource, f"queue {queue}" if queue else "", nodes)
        self._fleet = fleet
        self._selector = selector
        self._board = board
        self._queue = queue
        self._steps_left = CAPACITY_STEPS
        self._cut_short = False
        # A taint that is not a condition dedicates a node: its chips are free for pods that tolerate it.
        self._tolerations = tuple(
            Toleration(key, "Exists") for key in sorted(dedicating_taints(self._state, self._nodes))
        )
        #: The chips of nodes, whatever they are used for: few different ones.
        self._listed = {self._fleet.listed[number] for number in self._nodes}
        self._node_chips = max((listed.bit_count() for listed in self._listed), default=0)
        self._classes: dict[int, PodClass] = {}
        self._session = view.what_if.open_session(now)

    def answer(self) -> BoardCapacity:
        network = sum(
            (one.free & max(self._fleet.network[number], 0)).bit_count()
            for number, one in self._chips.items()
        )
        chips = replace(self._counts(), network_faulty=network)
        # What a job that does not say how long it runs may have.
        free = chips.free - chips.until_drain
        shapes = list(self._one_pod(free))
        whole, largest = self._whole(), 0
        if self._board.superpod and whole:
            # Without sp-block a job is one block, so a gang stays inside one SuperPoD.
            open_nodes = self._open_by_superpod(whole)
            largest = min(max(open_nodes.values(), default=0), self._view.settings.super_pod_size)
            shapes.extend(self._blocks(whole, free, open_nodes))
        elif whole:
            # Where a ring or card limits a pod, several pods have place on one node.
            shared = 2 * whole <= self._node_chips
            pods = self._gang_pods(whole, free // whole if shared else len(self._nodes))
            largest = 0 if shared else pods
            shapes.extend(self._gangs(whole, pods, free, shared=shared))
            shapes.extend(self._switched(whole, pods))
        omitted = ("some numbers are too low: the count has used its steps",) if self._cut_short else ()
        return BoardCapacity(
            self._board.name,
            self._resource,
            self._selector or None,
            chips,
            largest,
            tuple(shapes),
            tuple(self._drains),
            omitted,
        )

    # -- shapes ---------------------------------------------------------------------------------

    def _one_pod(self, free: int) -> Iterator[JobShape]:
        for size in _sizes(self._board.one_pod):
            policy = self._policy(size, 1)
            if policy is None:
                continue
            most = free // size
            # Many jobs of one pod are placed as the pods of one job, which are in no block together.
            alone = replace(policy, block_nodes=None, blocks=None, rack=None)
            jobs = self._placed(alone, size, most)
            yield JobShape(counted(size, "chip"), "one-pod", size, 1, jobs, most, free - jobs * size)

    def _whole(self) -> int:
        """The most chips that each pod of a gang may have; 0 where the board takes no gangs."""
        allowed = self._board.requests(2, self._view.settings.multi_pod_requests)
        fitting = (size for size in sorted(allowed, reverse=True) if self._policy(size, 2) is not None)
        return next(fitting, 0)

    def _gang_pods(self, whole: int, most: int) -> int:
        """How many pods with so many chips each fit, placed as one gang."""
        policy = self._policy(whole, 2)
        return 0 if policy is None else self._placed(policy, whole, most)

    def _gangs(self, whole: int, largest: int, free: int, *, shared: bool) -> Iterator[JobShape]:
        """Pods that take whole nodes or cards do not compete for parts: the number of gangs is a division."""
        for pods in _GANGS:
            if pods > max(_GANGS[0], largest):
                return
            jobs, most = largest // pods, free // (whole * pods)
            form = f"{counted(pods, 'pod' if shared else 'node')} of {whole}"
            yield JobShape(form, "gang", whole, pods, jobs, most, free - jobs * pods * whole)

    def _blocks(self, whole: int, free: int, open_nodes: Mapping[object, int]) -> Iterator[JobShape]:
        """Blocks of so many nodes that one job could have; found by placing such jobs, halving."""
        for size in _GANGS:
            if size > max(_GANGS[0], max(open_nodes.values(), default=0)):
                return
            if self._policy(whole, size, block_nodes=size) is None:
                continue
            most = sum(count // size for count in open_nodes.values())

            def fits(blocks: int, size: int = size) -> bool | None:
                return self._fits_blocks(size, blocks, whole) or None

            jobs = most if fits(most) else nearest(0, most + 1, fits, True)[0]
            form, stranded = f"blocks of {counted(size, 'node')}", free - jobs * size * whole
            yield JobShape(form, "block", whole, size, jobs, most, stranded)

    def _open_by_superpod(self, whole: int) -> dict[object, int]:
        counts: dict[object, int] = {}
        drained = {one.node for one in self._drains}
        for number, chips in self._chips.items():
            superpod = self._superpod_of(number)
            if superpod is not None and number not in drained:
                counts[superpod] = counts.get(superpod, 0) + (chips.free.bit_count() >= whole)
        return counts

    def _superpod_of(self, number: int) -> SuperPodId | None:
        """The SuperPoD that counts for blocks; a node without a rack is in none where the board has racks."""
        if self._board.rack_nodes:
            return self._view.racks().rack_of.get(number, (None, 0))[0]
        return self._view.superpods().superpod_of.get(number)

    def _fits_blocks(self, size: int, blocks: int, whole: int) -> bool:
        pods = size * blocks
        policy = self._policy(whole, pods, block_nodes=size) if blocks else None
        return not blocks or (policy is not None and self._placed(policy, whole, pods, together=True) == pods)

    def _switched(self, whole: int, largest: int) -> Iterator[JobShape]:
        """The largest switch-aware jobs, where nodes of the board are under leaf switches."""
        switches, names = self._view.switches(), self._state.names
        if switches is None or not any(names[number] in switches.switch_of for number in self._nodes):
            return
        for job_class, label, fewest in (
            (SwitchClass.FOUNDATION_MODEL, LARGE_MODEL_SCHEMA, FOUNDATION_MODEL_PODS),
            (SwitchClass.COMMON, NORMAL_SCHEMA, 1),
        ):
            if len(self._nodes) < fewest:
                continue
            policy = self._policy(whole, max(largest, fewest), tor_affinity=label)
            if policy is None:
                continue
            pods = self._placed(policy, whole, largest, together=True)
            if pods < fewest:
                # S1: with fewer pods it would be a padding job.
                pods = 0
            stranded = (largest - pods) * whole
            yield JobShape(
                f"largest {job_class.value} job", "switches", whole, pods, min(pods, 1), 1, stranded
            )

    # -- placing ----------------------------------------------------------------------------

    def _job(self, chips: int, pods: int) -> Job:
        """A job as its user would write it, so that it has this board."""
        cls = self._classes.get(chips)
        if cls is None:
            selector = ((ACCELERATOR_TYPE, self._selector),) if self._selector else ()
            cls = PodClass(self._resource, chips, node_selector=selector, tolerations=self._tolerations)
            # A session knows equal jobs by the identity of their class.
            self._classes[chips] = cls
        board = self._board
        job = Job("/capacity", "", "capacity", queue=self._queue, inqueue=True, min_available=pods)
        job.pods = {f"capacity-{n}": Pod(f"capacity-{n}", "", f"capacity-{n}", cls) for n in range(pods)}
        if not self._selector:
            job.labels = dict(board.job_labels)
            job.annotations = {SCHEDULE_POLICY: board.policies[0]} if board.policies else {}
        return job

    def _policy(
        self, chips: int, pods: int, *, block_nodes: int = 0, tor_affinity: str = ""
    ) -> ChipPolicy | None:
        """How the chips of such a job are chosen.

        None where it would be refused, and where no node of the board could hold a pod of it when empty.
        """
        job = self._job(chips, pods)
        if block_nodes:
            job.annotations = {**job.annotations, SP_BLOCK: str(block_nodes * chips)}
        if tor_affinity:
            job.labels = {**job.labels, TOR_AFFINITY: tor_affinity}
        # S1: the class of a switch-aware job is read from its pods in the cluster.
        with self._view.what_if.submitted(job):
            policy = job.policy if self._session.job_valid(job) is None else None
        if policy is None or policy.board is not self._board:
            return None
        fits = any(policy.rule.chips(listed, chips, policy.multi_pod) for listed in self._listed)
        return policy if fits else None

    def _placed(self, policy: ChipPolicy, chips: int, pods: int, *, together: bool = False) -> int:
        """How many of `pods` pods can be placed, as far as the steps allow. All of it is undone."""
        if pods > self._steps_left:
            pods, self._cut_short = self._steps_left, True
        if pods < 1:
            return 0
        job = self._job(chips, pods)
        job.policy, job.validated = policy, True
        # A plan for switches may stop at fewer pods; any other gang tries all.
        job.min_available = 1 if together and policy.blocks is None else pods
        if not together:
            # To its queue these are many small jobs, not one that exceeds it.
            job.group = PodGroup("", "capacity", min_resources={self._resource: chips})
        what_if = self._view.what_if
        with what_if.submitted(job):
            session = what_if.open_session(self._now, [job])
            with trial(session) as statement:
                place_gang(session, job, statement)
                count = len(statement.allocations)
        # A pod that finds no node ends the attempt.
        self._steps_left -= count + 1
        return count


def _sizes(allowed: frozenset[int]) -> list[int]:
    return [size for size in sorted(allowed) if size in _SHOWN_SIZES or len(allowed) <= 4]


# -- shares of chips and vNPUs ---------------------------------------------------------------------


def _of_parts(view: SchedulerView, now: int, holder: str) -> Iterator[BoardCapacity]:
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
        yield _Parts(view, now, resource, holder, nodes).shares()
    for nodes in dynamic.values():
        yield _Parts(view, now, state.modes[nodes[0]].resource, holder, nodes).vnpus()
    for resource, nodes in sorted(static.items()):
        yield _Parts(view, now, resource, holder, nodes).static_vnpus()


class _Parts(_Nodes):
    """Nodes whose chips are shared or divided in one way."""

    def __init__(
        self, view: SchedulerView, now: int, resource: str, holder: str, nodes: Sequence[int]
    ) -> None:
        super().__init__(view, now, resource, holder, nodes)
        self._open = [number for number in nodes if self._is_open(number)]

    def _is_open(self, number: int) -> bool:
        """As for whole chips: now, and for a job that does not say how long it runs."""
        states = self._states[number]
        kept = any(one.keeps for one in states) or drain_ahead(states, self._view.settings) is not None
        return is_open(states) and not kept and not self._state.amounts(number).unknown

    def shares(self) -> BoardCapacity:
        policies = [
            policy
            for policy in SHARE_POLICIES
            if any(
                policy in use.policies
                for number in self._nodes
                for use in self._state.amounts(number).chips.values()
            )
        ]
        shapes = []
        for policy in policies or [""]:
            for percent in _PERCENTAGES:
                form = f"{percent}% of a chip" + (f", {policy}" if policy else "")
                jobs = self._shares_of(percent, policy)
                shapes.append(self._shape(form, jobs, UNITS_OF_A_CHIP // percent))
        return self._answer("soft shares", shapes)

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
        kind = self._state.modes[self._nodes[0]].divided
        assert kind is not None, "these nodes have dynamic vNPUs"
        counts = [count for count in range(1, kind.cores + 1) if kind.takes_count(count)]
        shapes = []
        for count in counts:
            form = "a whole chip" if count == kind.cores else counted(count, "core")
            empty = self._most_on(kind, count, ChipUse(), frozenset(), 0)
            shapes.append(self._shape(form, self._vnpus_of(kind, count), empty))
        return self._answer("dynamic vNPUs", shapes)

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
        fleet = self._state.fleets.get(self._resource)
        chips = sum(fleet.listed[number].bit_count() for number in self._chips) if fleet is not None else 0
        return JobShape(form, "share", 0, 1, jobs, chips * of_empty_chip, 0)

    def _answer(self, kind: str, shapes: Sequence[JobShape]) -> BoardCapacity:
        return BoardCapacity(
            kind, self._resource, None, self._counts(), 0, tuple(shapes), tuple(self._drains)
        )

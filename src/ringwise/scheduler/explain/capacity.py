"""How many more jobs of each shape would start now, found by placing them and undoing it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ringwise.framework.gangs.gang_placement import place_gang
from ringwise.framework.job import Job
from ringwise.framework.policy import ChipPolicy
from ringwise.framework.trials import nearest, trial
from ringwise.grammar import counted
from ringwise.placement.switches.classes import (
    FOUNDATION_MODEL_PODS,
    LARGE_MODEL_SCHEMA,
    NORMAL_SCHEMA,
    SwitchClass,
)
from ringwise.scheduler.explain.boards_present import boards_present
from ringwise.scheduler.explain.capacity_shapes import BoardCapacity, ChipCounts, JobShape
from ringwise.scheduler.explain.part_capacity import part_capacity
from ringwise.scheduler.node_states import (
    CHIP_STATES,
    ChipStates,
    before_drains,
    chip_states,
    dedicating_taints,
    has_shared_chips,
    states_for,
)
from ringwise.scheduler.view import SchedulerView
from ringwise.state.model import Pod, PodClass, PodGroup, Toleration
from ringwise.topology.board import Board
from ringwise.topology.natural import natural_key
from ringwise.topology.superpods import SuperPodId
from ringwise.wellknown import ACCELERATOR_TYPE, SCHEDULE_POLICY, SP_BLOCK, TOR_AFFINITY

#: One-pod sizes that are shown of boards that allow many.
_SHOWN_SIZES = (1, 2, 4, 8, 16, 32, 64)
#: Pods that are placed to count a board: enough for 20,000 nodes that are empty.
CAPACITY_STEPS = 400_000
_GANGS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


def capacity(view: SchedulerView, now: int, queue: str | None = None) -> list[BoardCapacity]:
    """For every board of the cluster. With `queue` its limits count too; without, only nodes and chips do."""
    answers: list[BoardCapacity] = []
    with view.what_if.question(labels=(ACCELERATOR_TYPE,)):
        for resource, selector, board in boards_present(view):
            answers.append(_Counting(view, now, resource, selector, board, queue).answer())
    return [*answers, *part_capacity(view, now, f"queue {queue}" if queue else "")]


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
        #: The nodes that are reserved for the queue are free for it.
        self._holder = f"queue {queue}" if queue else ""
        self._steps_left = CAPACITY_STEPS
        self._cut_short = False
        self._state = view.cluster
        self._fleet = self._state.fleets[resource]
        self._nodes = [
            number
            for number in self._state.existing_nodes()
            if self._fleet.allocatable[number] >= 0
            and self._meant(number)
            and not has_shared_chips(self._state, number)
        ]
        # A taint that is not a condition dedicates a node: its chips are free for pods that tolerate it.
        self._tolerations = tuple(
            Toleration(key, "Exists") for key in sorted(dedicating_taints(self._state, self._nodes))
        )
        #: The chips of nodes, whatever they are used for: few different ones.
        self._listed = {self._fleet.listed[number] for number in self._nodes}
        self._node_chips = max((listed.bit_count() for listed in self._listed), default=0)
        meant = set(self._nodes)
        self._drains = {
            one.node: one
            for one in before_drains(self._state, view.settings, now, self._holder)
            if one.resource == resource and one.node in meant
        }
        self._classes: dict[int, PodClass] = {}
        self._session = view.what_if.open_session(now)

    def _meant(self, number: int) -> bool:
        node = self._state.nodes[number]
        return node is not None and (
            not self._selector or node.labels.get(ACCELERATOR_TYPE) == self._selector
        )

    def answer(self) -> BoardCapacity:
        chips = self._chips()
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
            tuple(sorted(self._drains.values(), key=lambda one: (one.start, natural_key(one.name)))),
            omitted,
        )

    # -- where the chips are ----------------------------------------------------------------

    def _chips(self) -> ChipCounts:
        counts, listed, network = dict.fromkeys(CHIP_STATES, 0), 0, 0
        for states, number in ((self._states(number), number) for number in self._nodes):
            listed += states.listed.bit_count()
            for name, count in states.counts():
                counts[name] += count
            network += (states.free & max(self._fleet.network[number], 0)).bit_count()
        drained = sum(one.chips for one in self._drains.values())
        return ChipCounts(len(self._nodes), listed, network_faulty=network, until_drain=drained, **counts)

    def _states(self, number: int) -> ChipStates:
        return chip_states(
            self._state, number, self._fleet, states_for(self._state, number, self._now, self._holder)
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
            yield JobShape(
                f"blocks of {counted(size, 'node')}",
                "block",
                whole,
                size,
                jobs,
                most,
                free - jobs * size * whole,
            )

    def _open_by_superpod(self, whole: int) -> dict[object, int]:
        counts: dict[object, int] = {}
        for number in self._nodes:
            superpod = self._superpod_of(number)
            if superpod is not None and number not in self._drains:
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
        policy = self._policy(whole, size * blocks, block_nodes=size)
        return (
            policy is not None and self._placed(policy, whole, size * blocks, together=True) == size * blocks
        )

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

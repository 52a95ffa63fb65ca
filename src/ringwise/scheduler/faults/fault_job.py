"""The jobs that a fault hit, while they are handled, and which jobs would be handled if one did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace

from ringwise.framework.gangs.gang_count import GangCount
from ringwise.framework.gangs.ranks import ranks_of_existing
from ringwise.framework.job import WHOLE_NODE, BrokenChip, Job
from ringwise.placement.racks.levels import Level
from ringwise.records import NOT_RECORDED, dataclass
from ringwise.scheduler.cache.component import Context
from ringwise.scheduler.cache.record_tables import RecordTable
from ringwise.scheduler.faults.detection import HARDWARE, FaultType, PodFault
from ringwise.scheduler.faults.lost_pods import owner_id, owner_of_pod
from ringwise.scheduler.faults.partial_gangs import PartialGangs
from ringwise.scheduler.faults.policy import FaultPolicy, Mode, SubHealth, read_fault_policy
from ringwise.scheduler.faults.scope import LostParts, Position, is_in_scope
from ringwise.scheduler.faults.states import ENDED, State, StateEvent, next_state
from ringwise.state.failures import policies_come_first
from ringwise.state.hyper_nodes import Forest
from ringwise.state.model import Pod
from ringwise.topology.chips import chips_of
from ringwise.topology.numbers import INT32, whole_number
from ringwise.wellknown import LOGICAL_RACK, POD_STATUS, REPLICA_TYPE, SP_BLOCK, SUPER_POD_RANK


@dataclass(frozen=True, slots=True)
class FaultyPod:
    uid: str
    name: str
    node: str
    position: Position
    fault: PodFault


@dataclass(slots=True)
class Deletion:
    """A pod that is to go. It is deleted once, and a second time only by force."""

    name: str
    position: Position
    #: Its deletion was asked for, and by force.
    sent: bool = False
    forced: bool = False
    #: Its node cannot terminate it.
    unreachable: bool = False
    #: After a refusal: not before this time, in nanoseconds.
    not_before: int = field(default=0, metadata=NOT_RECORDED)
    #: F4: through the Eviction API, with all others, and never by force.
    evict: bool = False

    @property
    def is_held_back(self) -> bool:
        """F4: the API server refused its eviction, or was not asked yet."""
        return self.evict and not self.sent


@dataclass(slots=True)
class FaultJob:
    key: str
    owner: str
    #: When the last fault was found, in nanoseconds.
    since: int
    state: State = State.HEALTHY
    #: By uid: faulty pods that are not gone yet.
    faulty: dict[str, FaultyPod] = field(default_factory=dict)
    #: By rank: pods that are gone, until the job is complete again.
    missing: dict[int, Position] = field(default_factory=dict)
    #: By uid.
    deletions: dict[str, Deletion] = field(default_factory=dict)
    #: When the first of the present deletions was asked for.
    deleting_since: int = 0
    #: Another component deletes the pods.
    external: bool = False
    #: Why nothing is deleted (Blocked).
    blocked: str = ""
    #: Hardware of it broke: pods that fail now fail because of that.
    hardware_broke: bool = False
    #: Its present restart cost a retry.
    used_retry: bool = False
    #: F4: it lost pods to a drain, and to no broken hardware since.
    drained: bool = False
    #: A pod of it failed after that, which used no retry.
    excused: bool = False
    #: Which disruption budget holds its evictions back.
    held_back: str = field(default="", metadata=NOT_RECORDED)
    #: Uid of the failed pod whose status says why it is not restarted (F5). Not written: the pod has it.
    refused_on: str = field(default="", metadata=NOT_RECORDED)
    #: Its processes were requested to exit (`reset-config-<job>`).
    told_to_exit: bool = False
    #: By uid: names of pods that do not end although they were deleted by force.
    given_up: dict[str, str] = field(default_factory=dict, metadata=NOT_RECORDED)

    def happened(self, what: StateEvent) -> None:
        self.state = next_state(self.state, what)

    def add_faults(self, pods: Mapping[str, FaultyPod], now: int) -> None:
        """Pods became faulty."""
        self.faulty.update(pods)
        self.happened(StateEvent.FAULT_FOUND)
        self.since = now

    def drain(self, place: Position) -> None:
        """A pod at this place goes because its node is drained: no fault, and nothing else has to go yet."""
        self.missing[place.rank] = place
        if self.state is State.HEALTHY:
            self.happened(StateEvent.DRAINED)
            self.drained = True

    def drop_evictions(self) -> None:
        """Stop evicting."""
        self.deletions = {uid: one for uid, one in self.deletions.items() if not one.is_held_back}
        self.held_back = ""

    def late_hardware(
        self, job: Job, fault_of: Callable[[Pod], PodFault | None], forest: Forest | None
    ) -> list[FaultyPod]:
        """Pods that go already, and whose hardware is reported as broken only now."""
        where: dict[str, Position] = {}
        late: list[FaultyPod] = []
        for uid, deletion in self.deletions.items():
            pod, faulty = job.pods[uid], self.faulty.get(uid)
            is_known = faulty is not None and faulty.fault.type is not FaultType.POD
            if is_known or pod.node is None or (faulty is None and deletion.is_held_back):
                continue
            fault = fault_of(pod)
            if fault is not None and fault.type in HARDWARE:
                where = where or positions(job, forest)
                late.append(FaultyPod(uid, pod.name, pod.node, where[uid], fault))
                deletion.unreachable |= fault.unreachable
                self.hardware_broke = True
        self.faulty.update((pod.uid, pod) for pod in late)
        return late

    def drop_needless(self, job: Job, is_healthy: Callable[[Pod], bool]) -> list[Pod]:
        """Drop deletions that the API server refused, of pods that are healthy again meanwhile."""
        refused = [uid for uid, one in self.deletions.items() if one.not_before and not one.sent]
        dropped: list[Pod] = []
        for uid in refused:
            pod = job.pods[uid]
            if uid in self.faulty and pod.live and is_healthy(pod):
                del self.faulty[uid], self.deletions[uid]
                dropped.append(pod)
        none_carried_out = all(one.not_before and not one.sent for one in self.deletions.values())
        if refused and none_carried_out and not self.faulty and not self.missing:
            self.deletions.clear()
        return dropped

    def give_up(self, is_given_up: Callable[[str], bool]) -> None:
        """Pods that do not end although they were deleted by force: nothing waits for them."""
        last = [uid for uid, one in self.deletions.items() if one.forced or one.evict]
        for uid in filter(is_given_up, last):
            one = self.deletions.pop(uid)
            self.faulty.pop(uid, None)
            self.missing[one.position.rank] = one.position
            self.given_up[uid] = one.name

    @property
    def is_incomplete(self) -> bool:
        """Pods of it are gone or go."""
        return bool(self.deletions or self.missing)

    def account(self, job: Job, is_placed: Callable[[Pod], bool]) -> None:
        """Pods that are gone leave their rank missing; ranks that are placed again are not."""
        for uid in [uid for uid in (*self.deletions, *self.faulty) if uid not in job.pods]:
            ends: tuple[Deletion | FaultyPod | None, ...]
            ends = self.deletions.pop(uid, None), self.faulty.pop(uid, None)
            for gone in ends:
                if gone is not None:
                    self.missing[gone.position.rank] = gone.position
        for uid in [uid for uid in self.given_up if uid not in job.pods]:
            del self.given_up[uid]
        if self.missing:
            for uid, rank in ranks_of_existing(job).items():
                if rank in self.missing and is_placed(job.pods[uid]):
                    del self.missing[rank]

    def staying(self, job: Job, is_placed: Callable[[Pod], bool]) -> GangCount:
        """The pods that are placed and healthy."""
        going = self.faulty.keys() | self.deletions.keys() | job.backups.keys()
        return GangCount(job, [pod for uid, pod in job.pods.items() if uid not in going and is_placed(pod)])

    def plan_deletions(
        self, job: Job, level: Level, now: int, is_ours: Callable[[Pod], bool], forest: Forest | None
    ) -> bool:
        """The faulty pods, and the healthy ones that are restarted with them; False if there are none."""
        affected = tuple(self.affected)
        added = False
        if not self.deletions:
            self.deleting_since = now
        for uid, place in positions(job, forest).items():
            pod = job.pods[uid]
            faulty = self.faulty.get(uid)
            if uid in self.deletions or pod.node is None or not is_ours(pod):
                continue
            if faulty is not None or is_in_scope(place, level, affected):
                unreachable = faulty is not None and faulty.fault.unreachable
                evict = self.drained and faulty is None
                self.deletions[uid] = Deletion(pod.name, place, unreachable=unreachable, evict=evict)
                added = True
        return added

    def plan_marks(self) -> None:
        """The faulty pods, which another component deletes."""
        for uid, pod in self.faulty.items():
            if uid not in self.deletions:
                self.deletions[uid] = Deletion(pod.name, pod.position)

    @property
    def affected(self) -> Iterator[Position]:
        """The positions that made the job incomplete."""
        yield from (pod.position for pod in self.faulty.values())
        yield from self.missing.values()

    @property
    def reason(self) -> FaultType:
        """The one fault type that stands for the job."""
        types = {pod.fault.type for pod in self.faulty.values()}
        return next((one for one in FaultType if one in types), FaultType.POD)

    def why(self, uid: str, part: str) -> str:
        """Why this pod is deleted, with the part of the job that restarts."""
        own = self.faulty.get(uid)
        if own is not None:
            return own.fault.why
        names = sorted(pod.name for pod in self.faulty.values())
        because = f"with {names[0]}" if names else "because its lost pods found no nodes"
        return f"its {part} is restarted {because}"

    def by_force(self, policy: FaultPolicy) -> bool:
        """Whether its pods are deleted without a grace period."""
        kinds = {pod.fault.type for pod in self.faulty.values()}
        if kinds == {FaultType.SUB_HEALTH}:
            return policy.sub_health in (SubHealth.FORCE_EXIT, SubHealth.HOT_SWITCH)
        return policy.mode is Mode.FORCE

    def lost(self, job: Job, forest: Forest | None) -> LostParts:
        return LostParts(tuple(self.affected), tuple(positions(job, forest).values()))

    def taken_over(self, pods: Mapping[str, Pod]) -> None:
        """F1: make the next leader continue from a state that it can leave, whatever the document says.

        `pods` are those of its deletions that exist, by uid.
        """
        for uid, pod in pods.items():
            one = self.deletions[uid]
            if self.external:
                one.sent = POD_STATUS in pod.annotations or uid not in self.faulty
            else:
                # Its deletion may never have reached the API server; the uid makes it safe to repeat.
                # A deletion by force removes the pod at once: one that terminates did not get it.
                one.sent, one.forced = pod.deleting, False
        if self.deletions:
            self.state = State.DELETING
        elif self.state is State.FAULTY:
            # The policy is asked again, as for a job that it had refused.
            self.state = State.BLOCKED


def broken_hardware(pods: Iterable[FaultyPod]) -> list[BrokenChip]:
    """F3: what the job avoids from now on."""
    broken: list[BrokenChip] = []
    for pod in pods:
        if pod.fault.type is FaultType.NODE:
            broken.append(BrokenChip(pod.node, WHOLE_NODE))
        elif pod.fault.type is FaultType.CHIP:
            broken += (BrokenChip(pod.node, chip) for chip in chips_of(pod.fault.chips))
    return broken


def positions(job: Job, forest: Forest | None) -> dict[str, Position]:
    """Where each pod that exists is in its job, by uid; one that terminates and is replaced keeps its place.

    Without a forest network topologies have no effect (M2).
    """
    places: dict[str, Position] = {}
    blocks = {} if forest is None else _sub_group_blocks(job, forest)
    for uid, rank in ranks_of_existing(job).items():
        pod = job.pods[uid]
        rank = rank if pod.rank is None or not pod.deleting else pod.rank
        master = rank == 0 and bool(pod.cls.chips) and pod.labels.get(REPLICA_TYPE) != "worker"
        place = _position(rank, pod.annotations, master)
        places[uid] = replace(place, block=blocks.get(uid, -1)) if blocks else place
    return places


def _position(rank: int, annotations: Mapping[str, str], master: bool) -> Position:
    block, rack = (_number(annotations, key) for key in (SUPER_POD_RANK, LOGICAL_RACK))
    return Position(rank, block, rack, master)


def _sub_group_blocks(job: Job, forest: Forest) -> dict[str, int]:
    """By uid: the sub-groups that a network topology keeps together are blocks of the job.

    S12: such a job has no blocks in SuperPoDs.
    """
    return {
        uid: group.block
        for group in job.sub_groups
        if group.topology is not None and not group.topology.soft and forest.limits(group.topology)
        for uid in group.pods
    }


def part_name(job: Job, level: Level) -> str:
    """What restarts at this level."""
    is_sub_group = level is Level.BLOCK and job.sub_groups and SP_BLOCK not in job.annotations
    return "sub-group" if is_sub_group else level.name.lower()


def lost_parts(job: Job, forest: Forest | None) -> LostParts:
    """The same for a job that lost pods without a fault: its previous nodes show which."""
    places, ranks = positions(job, forest), ranks_of_existing(job)
    workers = {ranks[uid] for uid, pod in job.pods.items() if pod.labels.get(REPLICA_TYPE) == "worker"}
    here = {rank for uid, rank in ranks.items() if job.pods[uid].node is not None}
    affected = tuple(
        _position(rank, lost.annotations, rank == 0 and rank not in workers)
        for rank, lost in job.previous_nodes.items()
        if rank not in here
    )
    return LostParts(affected, tuple(places.values()))


def _number(annotations: Mapping[str, str], key: str) -> int:
    number = whole_number(annotations.get(key, ""), 0, INT32)
    return -1 if number is None else number


def group_owner(job: Job) -> str:
    """Who is gone with the PodGroup of the job. A vcjob may have another one: it is gone by itself."""
    owner = job.group.owner if job.group is not None else None
    if owner is None or not owner.uid or owner.is_vcjob:
        return job.key
    return owner_id(job.namespace, owner.uid)


def owner_of(job: Job) -> str:
    """Who recreates the pods: their owner, for pods without one the job itself."""
    group_owner = job.group.owner if job.group is not None else None
    if group_owner is not None and group_owner.uid:
        return owner_id(job.namespace, group_owner.uid)
    pod = next((pod for pod in job.pods.values() if pod.owner is not None), None)
    return (owner_of_pod(pod) if job.group is None else "") or job.key


class FaultJobs(RecordTable[FaultJob]):
    """By key, while they are handled. Only the fault handler changes it."""

    def __init__(self, context: Context, gangs: PartialGangs) -> None:
        super().__init__("fault-jobs", FaultJob, is_valid=_is_handled)
        context.record.add(self)
        self._book = context.book
        self._gangs = gangs

    def was_complete(self, job: Job) -> bool:
        return self._gangs.was_complete(job)

    def fault_of(self, key: str, uid: str) -> FaultType | None:
        """Why this pod of a job is restarted; None for pods that are restarted with it."""
        handled = self.get(key)
        pod = None if handled is None else handled.faulty.get(uid)
        return None if pod is None else pod.fault.type

    def restarts_failed(self, job: Job, failed: Pod) -> bool:
        """Whether the scheduler restarts this pod of the job, which fails now (F5)."""
        policy = read_fault_policy(job.labels, job.annotations)
        handled = job.key in self or (policy.mode is not Mode.OFF and self.would_handle(job))
        if not handled or policy.retries <= 0:
            return False
        # Only this pod: all pods of a large gang may fail at once, and this is asked for each of them.
        vcjob = self._book.vcjob_of(job)
        return vcjob is None or not policies_come_first(vcjob, (failed,))

    def would_handle(self, job: Job) -> bool:
        """Jobs that ran, with chips, whose pods are placed by us."""
        if not any(pod.cls.uses_chips for pod in job.pods.values()):
            return False
        if job.group is None:
            return self._book.serves(job)
        # F5: where all have ended, its controller waits for an answer, whatever this scheduler saw of it.
        return self.was_complete(job) or not any(pod.live for pod in job.pods.values())


def _is_handled(job: FaultJob) -> bool:
    return job.state is not State.HEALTHY and job.state not in ENDED

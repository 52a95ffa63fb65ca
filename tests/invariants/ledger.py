"""What a scheduler was told and what it answered, counted without any of its own tables.

The ledger reads events and commands alone. So it shows where pods are and what they hold as the API server
has it, with the bindings and evictions that are under way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ringwise.framework.job import Job, job_key
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, Command, DeletePod, Evict
from ringwise.state.model import DeviceReport, Isolation, Node, Pod, PodGroup, Queue
from ringwise.topology.chips import chip_names
from ringwise.wellknown import BACKUP_SOURCE_POD


@dataclass
class Held:
    """What a pod has on a node."""

    node: str
    chips: frozenset[int]
    #: What its annotation said was mounted, at any time.
    mounted: frozenset[int] = frozenset()
    #: Its binding was sent by this scheduler.
    ours: bool = False
    #: The API server has not confirmed it.
    assumed: bool = False


@dataclass
class Ledger:
    now: int = 0
    pods: dict[str, Pod] = field(default_factory=dict)
    #: By uid, of live pods with a node.
    held: dict[str, Held] = field(default_factory=dict)
    #: Uids of pods that this scheduler evicted or deleted and that are still there.
    leaving: set[str] = field(default_factory=set)
    groups: dict[str, PodGroup] = field(default_factory=dict)
    queues: dict[str, Queue] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    #: By node and resource, then whether it is aggregated.
    reports: dict[tuple[str, str], dict[bool, DeviceReport]] = field(default_factory=dict)
    isolations: dict[str, Isolation] = field(default_factory=dict)
    #: The events and commands of the last turn, and its bindings.
    events: Sequence[ev.Event] = ()
    commands: Sequence[Command] = ()
    binds: list[Bind] = field(default_factory=list)
    turns: int = 0
    decide: ev.Decide = ev.Decide.ALL
    #: By uid, of pods with a node: the queue in which they got it.
    queue_of: dict[str, str] = field(default_factory=dict)
    #: Keys of jobs that lost a pod that had a node.
    lost: set[str] = field(default_factory=set)
    #: When each PodGroup was seen first.
    first_seen: dict[str, int] = field(default_factory=dict)

    def turn(
        self, events: Sequence[ev.Event], now: int, commands: Sequence[Command], decide: ev.Decide
    ) -> None:
        self.now, self.decide = now, decide
        self.turns += 1
        self.events, self.commands = events, commands
        for event in events:
            self._see(event)
        # In a long cycle bindings are announced before its end, and returned once.
        self.binds = [command for command in commands if isinstance(command, Bind)]

    def note_queues(self, job_of: Callable[[str], Job | None]) -> None:
        """Pods count for the queue in which they were bound; pods of other schedulers for none."""
        bound = {bind.uid for bind in self.binds if bind.uid in self.pods}
        for uid in (self.held.keys() | bound) - self.queue_of.keys():
            if (job := job_of(uid)) is not None:
                self.queue_of[uid] = job.queue

    def apply(self) -> None:
        """Carry out the commands of the turn, after they were checked against what was there before."""
        for command in self.commands:
            match command:
                case Bind():
                    chips = frozenset(command.chips)
                    self.held[command.uid] = Held(command.node, chips, ours=True, assumed=True)
                case Evict() | DeletePod(together=""):
                    if command.uid in self.pods:
                        self.leaving.add(command.uid)
                case _:
                    pass

    def _see(self, event: ev.Event) -> None:
        match event:
            case ev.PodSeen(pod):
                self._see_pod(pod)
            case ev.PodGone(uid):
                self._let_go(uid)
                self.pods.pop(uid, None)
            case ev.BindFailed(uid=uid):
                if (held := self.held.get(uid)) is not None and held.assumed:
                    self._let_go(uid)
            case ev.EvictFailed(uid=uid):
                self.leaving.discard(uid)
            case ev.PodGroupSeen(group):
                self.groups[group.key] = group
                self.first_seen.setdefault(group.key, self.now)
            case ev.PodGroupGone(key):
                self.groups.pop(key, None)
                self.first_seen.pop(key, None)
            case ev.QueueSeen(queue):
                self.queues[queue.name] = queue
            case ev.QueueGone(name):
                self.queues.pop(name, None)
            case ev.NodeSeen(node):
                self.nodes[node.name] = node
            case ev.NodeGone(name):
                self.nodes.pop(name, None)
            case ev.ReportSeen(report):
                self.reports.setdefault((report.node, report.resource), {})[report.aggregated] = report
            case ev.ReportGone(name, aggregated):
                for (where, _), reports in self.reports.items():
                    if where == name:
                        reports.pop(aggregated, None)
            case ev.IsolationSeen(isolation):
                self.isolations[isolation.name] = isolation
            case ev.IsolationGone(name):
                self.isolations.pop(name, None)
            case _:
                pass

    def _see_pod(self, pod: Pod) -> None:
        before, held = self.pods.get(pod.uid), self.held.get(pod.uid)
        self.pods[pod.uid] = pod
        if not pod.live:
            self._let_go(pod.uid)
        elif pod.node is None:
            if pod.deleting or (held is not None and not held.assumed):
                self._let_go(pod.uid)
        else:
            chips = mounted = frozenset[int]()
            if (
                held is not None
                and before is not None
                and held.node == pod.node
                and (before.cls.resource, before.cls.chips) == (pod.cls.resource, pod.cls.chips)
            ):
                chips, mounted = held.chips, held.mounted
            if len(chips | mounted) < pod.cls.chips:
                chips |= frozenset(pod.holds)
            mounted |= frozenset(pod.mounted)
            self.held[pod.uid] = Held(pod.node, chips, mounted, ours=held is not None and held.ours)
        if pod.deleting:
            self.leaving.add(pod.uid)

    def _let_go(self, uid: str) -> None:
        if self.held.pop(uid, None) is not None:
            self.lost.add(job_key(self.pods[uid]))
        self.leaving.discard(uid)
        self.queue_of.pop(uid, None)

    # -- reading -----------------------------------------------------------------------------------

    def placed(self) -> dict[str, None]:
        """Uids of pods with a node after the turn."""
        return dict.fromkeys((*self.held, *(bind.uid for bind in self.binds if bind.uid in self.pods)))

    def is_bound(self, uid: str) -> bool:
        """Whether the pod has a node after the turn."""
        return uid in self.held or any(bind.uid == uid for bind in self.binds)

    def stays(self, uid: str) -> bool:
        """Whether the pod exists and is not being deleted."""
        return uid in self.pods and uid not in self.leaving

    def chips_of(self, uid: str, *, guarded: bool) -> frozenset[int]:
        """N8: the chips that the live pod holds."""
        held, pod = self.held[uid], self.pods[uid]
        resource = pod.cls.resource or ""
        for report in self.reports.get((held.node, resource), {}).values():
            if uid in report.mounted:
                return frozenset(chips_in(report.mounted[uid]))
        mounted = frozenset(pod.mounted)
        if guarded:
            return mounted or held.chips
        return held.chips | held.mounted

    def unusable(self, node: str, resource: str, *, aggregated: bool) -> frozenset[int]:
        """N7: chips that no new pod gets: unhealthy, pre-separated, recovering or isolated."""
        found: set[int] = set()
        reports = self.reports.get((node, resource), {})
        report = reports.get(aggregated) or reports.get(False)
        if report is not None:
            found.update(chips_in(report.unhealthy | report.recovering | report.pre_separated))
        for one in self.isolations.values():
            number = one.number
            if one.node == node and number is not None and one.chip == chip_names(resource, (number,)):
                found.add(number)
        return frozenset(found)

    def takes_pods(self, node: str, *, cordoned: bool) -> bool:
        """Whether the node exists, is ready and not isolated; nor cordoned, unless that is allowed."""
        known = self.nodes.get(node)
        if known is None or not known.ready or (known.unschedulable and not cordoned):
            return False
        isolations = self.isolations.values()
        return not any(one.node == node and not one.chip and one.start is None for one in isolations)

    def pods_of(self, key: str) -> Iterator[Pod]:
        """The pods of a PodGroup."""
        for pod in self.pods.values():
            if pod.group is not None and f"{pod.namespace}/{pod.group}" == key:
                yield pod

    def backups(self, pods: Iterable[Pod]) -> set[str]:
        """Hot switch: uids of pods that stand by for another one, which runs."""
        members = list(pods)
        running = {pod.name for pod in members if pod.uid in self.held and self.stays(pod.uid)}
        return {pod.uid for pod in members if pod.annotations.get(BACKUP_SOURCE_POD, "") in running - {""}}


def chips_in(mask: int) -> Iterator[int]:
    """The chips of a bit mask."""
    return (chip for chip in range(mask.bit_length()) if mask >> chip & 1)

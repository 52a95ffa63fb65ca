"""A live lab: the embedded cluster with the real scheduler and controller, kept in a folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, BinaryIO

from ringwise.apps.accounting import AccountFolder
from ringwise.apps.auto_moves import INTERVAL, automatic_plan, is_wanted
from ringwise.apps.extensions import new_scheduler, read_user_configuration
from ringwise.apps.journal.format import JournalWriter
from ringwise.apps.lab import faults
from ringwise.apps.lab.folder import LabFolder
from ringwise.apps.lab.submission import Submission, adopted, already_there, refusals, without_target
from ringwise.apps.loading import check_holds
from ringwise.apps.reservations import check_new, unknown_reservation
from ringwise.apps.suspension import (
    JobChangeRequest,
    NotPossibleError,
    PlannedChange,
    change_of,
    check_priority,
    check_queue,
    not_suspendable,
)
from ringwise.controller.machine import Controller
from ringwise.durations import SECOND, earliest
from ringwise.embed.clock import ScaledClock, VirtualClock
from ringwise.embed.cluster import EmbeddedCluster
from ringwise.embed.fleets import make_mixed_fleet, parse_boards
from ringwise.embed.kubelet import SimulationSettings
from ringwise.embed.loop import EmbeddedLoop
from ringwise.embed.objects import ObjectTable
from ringwise.embed.parts import reported_chips
from ringwise.embed.records import PUBLISHED, AlreadyExistsError, ConfigMap, ObjectRefusedError, key_of
from ringwise.embed.store import CopiedObjects, Store
from ringwise.files import is_still
from ringwise.framework.configuration import Configuration
from ringwise.grammar import agrees, counted
from ringwise.log import Logger
from ringwise.manifests.accounts.ledger import AccountLedger
from ringwise.manifests.bundle import Bundle
from ringwise.manifests.objects.isolations import isolate_changes, unisolate_changes
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.messages.events import ConfigurationSeen, Event, JobCommand, LeaderRecordRead
from ringwise.messages.move_plan import APPROVED, MovePlan
from ringwise.records import dataclass
from ringwise.scheduler.cache.record_tables import table_of
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.core.reservation_records import RESERVATIONS
from ringwise.scheduler.defaults import default_configuration
from ringwise.scheduler.journal import Journal
from ringwise.scheduler.view import SchedulerView
from ringwise.state.model import (
    DeviceReport,
    Isolation,
    Node,
    NodeReservation,
    Pod,
    PodClass,
    PodGroup,
    PriorityClass,
    Queue,
)
from ringwise.state.queue_rules import deletion_problem
from ringwise.state.vcjob import VcJob
from ringwise.topology.chips import chip_names
from ringwise.views.cluster import ClusterObjects
from ringwise.views.documents.changes import SubmittedFields
from ringwise.wellknown import (
    RECORD_CONFIG_MAPS,
    SCHEDULER_CONFIG_KEY,
    SCHEDULER_CONFIG_MAP,
    VOLCANO_SYSTEM,
)

if TYPE_CHECKING:
    from ringwise.apps.lab.device_plugins import DevicePlugins

_LOG = Logger()

#: A larger file is rotated; the previously rotated one is deleted.
MAX_BYTES = 64 << 20
#: While jobs wait, a file may grow so many times larger, so that their waiting times are kept.
_MOST_GROWTH = 4
#: Where the lab keeps the configuration it was given, as a cluster would.
CONFIGURATION_MAP = (VOLCANO_SYSTEM, SCHEDULER_CONFIG_MAP)
#: What else can be deleted: word -> kind.
OTHERS = {
    "isolation": "Isolation",
    "reservation": "NodeReservation",
    "usagelimit": "UsageLimit",
    "moveplan": "MovePlan",
}
_WORDS = {
    "VcJob": "Job",
    "DeviceReport": "device report",
    "NodeReport": "node report",
    "SwitchTopology": "leaf switches",
    "TopologyDiscovery": "discovery of HyperNodes",
}


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """The nodes of a new lab."""

    nodes: int = 16
    #: Or several with a number of nodes each, which then counts: `910-x8:200,310p:50`.
    board: str = "910-x8"
    leaf_size: int | None = None
    superpod_size: int | None = None
    #: Nodes with soft shares and with dynamic vNPUs besides.
    soft: int = 0
    dynamic: int = 0


@dataclass(frozen=True, slots=True)
class LabSettings:
    fleet: FleetSettings = FleetSettings()
    #: Text of a volcano-scheduler.conf, and where it stood; None: the one of last time, else the default.
    configuration: tuple[str, str] | None = None
    boards: tuple[Path, ...] = ()
    simulation: SimulationSettings = field(default_factory=SimulationSettings)
    #: Seconds of the lab in one second; None: virtual time, moved by `advance`.
    speed: float | None = 1.0
    journal_bytes: int = MAX_BYTES
    #: Virtual time at which a new lab begins; None: now.
    start: int | None = None
    #: How device plugins bring the chips into containers; None: no plugins run, nodes only pretend to.
    mount_method: str | None = None


@dataclass(slots=True)
class SubmitReply:
    objects: list[SubmittedFields] = field(default_factory=list)
    #: Keys of jobs as their users know them.
    jobs: list[str] = field(default_factory=list)


class LiveLab:
    """Everything of one lab, on one thread. After each turn the folder holds what the memory holds."""

    def __init__(
        self,
        folder: LabFolder,
        settings: LabSettings,
        configuration: Configuration | None = None,
        objects: CopiedObjects | None = None,
    ) -> None:
        """With a configuration that was read already, the lab uses it instead of the one it keeps.

        `objects`: of a copy, instead of those in the folder.
        """
        self.folder = folder
        self.settings = settings
        self.catalog = shipped_catalog(settings.boards)
        self.store: Store | CopiedObjects = objects or Store(folder.database)
        table, now = self.store.load()
        #: Whether the folder held a lab already.
        self.continued = table.version > 0
        self.clock: ScaledClock | VirtualClock
        if settings.speed is None:
            self.clock = VirtualClock(now or settings.start or time.time_ns())
        else:
            self.clock = ScaledClock(now, settings.speed)
        self.cluster = EmbeddedCluster(
            settings=settings.simulation, now=max(now, self.clock.now()), table=table
        )
        if settings.configuration is not None:
            self._keep_configuration(*settings.configuration)
        self.configuration = configuration or self._stored_configuration()
        if not self.continued:
            self._populate(settings.fleet)
        #: The device plugins of the nodes, where they run.
        self.plugins = self._start_plugins(settings.mount_method)
        self.journal = LabJournal(folder, settings.journal_bytes)
        self.accounts = AccountFolder(folder.accounts)
        self._ledger = self.cluster.accounts = AccountLedger(limited=False)
        self._ledger.read(self.accounts.read(), self.cluster.now)
        for name, why in self._ledger.foreign.items():
            _LOG.warning("accounting document is not changed", file=name, why=why)
        self.scheduler = self._new_scheduler()
        self.lab = EmbeddedLoop(self.cluster, self.scheduler, Controller(), self.clock)
        self.lab.forked_queries = self._automatic_moves
        #: When moves were last looked for.
        self._looked_for_moves: int | None = None

    def _start_plugins(self, mount_method: str | None) -> DevicePlugins | None:
        if mount_method is None:
            return None
        # gRPC is not needed for anything else here, and may not be installed.
        from ringwise.apps.lab.device_plugins import DevicePlugins, MountSettings

        plugins = DevicePlugins(self.cluster, MountSettings(mount_method))
        self.cluster.nodes.agents = plugins
        return plugins

    def _new_scheduler(self) -> Scheduler:
        scheduler = new_scheduler(self.configuration, self.catalog)
        scheduler.view.only_vcjobs_recreated = True
        self.journal.follow(scheduler)
        return scheduler

    def _populate(self, fleet: FleetSettings) -> None:
        made = make_mixed_fleet(
            parse_boards(fleet.board, fleet.nodes),
            leaf_size=fleet.leaf_size,
            superpod_size=fleet.superpod_size,
            soft=fleet.soft,
            dynamic=fleet.dynamic,
        )
        self.cluster.submit_all(made.nodes)
        self.cluster.submit_all(made.reports)
        if made.topology is not None:
            self.cluster.submit(made.topology)
        self.cluster.submit(Queue("default"))

    # -- time --------------------------------------------------------------------------------

    def turn(self) -> None:
        """Process everything that is due, and store the result."""
        if self.journal.is_deleted:
            self._make_folder_anew()
        elif self.journal.wants_a_new_file(self.view):
            self.restart_scheduler()
        self.lab.step()
        self.store.save(self.cluster.table, self.cluster.now)
        self._write_accounts()

    def _write_accounts(self) -> None:
        for name, text in self._ledger.due(self.cluster.now):
            try:
                self.accounts.write(name, text)
            except OSError as problem:
                self._ledger.failed([name])
                _LOG.warning("accounting document is not written", file=name, why=str(problem))

    def _make_folder_anew(self) -> None:
        """Create the journal again, and the database if it was deleted, too: writes to them would be lost."""
        folder = self.folder
        _LOG.warning(
            "the journal was deleted while the lab runs; a new file is written", file=str(folder.journal)
        )
        self.restart_scheduler()
        if not folder.database.exists():
            _LOG.warning("the objects of the lab can be stored again", file=str(folder.database))
            self.store.close()
            self.store = Store(folder.database)
        if not folder.socket.exists():
            _LOG.warning("commands cannot reach this lab: restart it", socket=str(folder.socket))

    def restart_scheduler(self) -> None:
        """Continue with a new scheduler, which knows only what the objects say."""
        self.scheduler = self._new_scheduler()
        self.lab.replace_scheduler(self.scheduler)

    def seconds_to_next(self) -> float | None:
        """Seconds to the next deadline; None without one."""
        due = earliest(self.lab.next_deadline(), self.scheduler.next_retry())
        if due is None or isinstance(self.clock, VirtualClock):
            return None
        return self.clock.seconds_until(due)

    def advance(self, nanoseconds: int | None) -> None:
        """Let virtual time pass; None: to the next moment at which something happens."""
        if not isinstance(self.clock, VirtualClock):
            raise ObjectRefusedError(
                "this lab runs in real time; start a lab with --virtual to advance its time"
            )
        if nanoseconds is None:
            due = self.lab.next_deadline()
            nanoseconds = 0 if due is None else due - self.clock.now()
        self.lab.run_until(self.clock.now() + nanoseconds)
        self.turn()

    def advance_until(self, done: Callable[[], bool], limit: int) -> None:
        """Let virtual time pass, event by event, until `done` or the limit. Real time passes by itself."""
        while isinstance(self.clock, VirtualClock) and not done():
            due = self.lab.next_deadline()
            if due is None or due > limit:
                break
            self.advance(due - self.clock.now())

    @property
    def now(self) -> int:
        return max(self.clock.now(), self.cluster.now)

    @contextmanager
    def _request(self) -> Iterator[None]:
        """Handle a request at the current time, not at the time of the last turn, and then run a turn."""
        self.cluster.pass_time(self.now)
        yield
        self.turn()

    @property
    def view(self) -> SchedulerView:
        return self.scheduler.view

    @property
    def objects(self) -> ClusterObjects:
        """All objects of the cluster, for the documents."""
        every = self.cluster.all
        return ClusterObjects(
            self.view,
            self.now,
            list(every(Node)),
            list(every(Pod)),
            list(every(PodGroup)),
            list(every(Queue)),
            list(every(VcJob)),
        )

    def close(self) -> None:
        """Nothing is saved here: after an error the memory may hold what must not be kept."""
        if self.plugins is not None:
            self.plugins.close()
        self.store.close()
        self.journal.close()

    # -- submitted objects ---------------------------------------------------------------------

    def submit(self, submission: Submission) -> SubmitReply:
        """Store everything or nothing; ObjectRefusedError has one line per problem."""
        submission.share_classes()
        self.cluster.pass_time(self.now)
        if submission.create and (existing := already_there(self.cluster, submission.objects())):
            lines = [
                f"AlreadyExists: {_WORDS.get(kind, kind)} {key} already exists" for kind, key in existing
            ]
            raise AlreadyExistsError("\n".join([*lines, "to change it: ringwise apply -f FILE"]))
        wrong = refusals(self.cluster, submission.objects()) + self._misplaced(submission)
        wrong += without_target(self.cluster, submission)
        if wrong:
            raise ObjectRefusedError("\n".join(wrong))
        answer = SubmitReply()
        if submission.configuration is not None:
            self._keep_configuration(*submission.configuration)
            self.configuration = self._stored_configuration()
            self.lab.inject(ConfigurationSeen(self.configuration))
            answer.objects.append(SubmittedFields(kind="scheduler configuration", name="", action="changed"))
        here_before = {node.name for node in self.cluster.all(Node)}
        for job in submission.of(VcJob):
            self._store(job, answer)
        adopted(self.cluster, submission)
        for value in submission.objects():
            if not isinstance(value, VcJob):
                self._store(value, answer)
            if isinstance(value, DeviceReport) and value.node in here_before:
                # The report may be older than the pods that run here: report again what is in use.
                self.cluster.nodes.report_again(value.node, self.cluster.now)
        self.turn()
        self._carry_out(submission, answer)
        return answer

    def _carry_out(self, submission: Submission, answer: SubmitReply) -> None:
        """What the submitted Command objects ask for, each by itself: one may depend on another."""
        for job in submission.job_commands:
            self.cluster.job_command_events.pop(job.key, None)
            self.lab.inject(job)
            self.turn()
            of_job = self.cluster.job_command_events.get(job.key)
            done = "has no effect: the job is gone"
            if of_job is not None:
                without_effect = of_job.message.removeprefix(f"Command {job.action} ")
                done = without_effect if of_job.warning else "carried out"
            answer.objects.append(SubmittedFields(kind=job.action, name=job.key, action=done))
        for queue in submission.queue_commands:
            self.cluster.queue_events.pop(queue.name, None)
            self.lab.inject(queue)
            self.turn()
            event = self.cluster.queue_events.get(queue.name)
            done = f"refused: {event.message}" if event is not None and event.warning else "carried out"
            answer.objects.append(SubmittedFields(kind=queue.action, name=queue.name, action=done))

    def change_job(self, key: str, request: JobChangeRequest, message: str) -> PlannedChange:
        """Suspend, resume or requeue a vcjob: by a Command, or a new spec. Raises NotPossibleError."""
        self.cluster.pass_time(self.now)
        job = self.cluster.get(VcJob, key)
        if job is None:
            raise self._not_a_vcjob(key)
        self._check_request(request)
        change = change_of(job, request)
        if change.command:
            self.cluster.job_command_events.pop(key, None)
            self.lab.inject(JobCommand(key, change.command, message))
        elif change.spec:
            self.cluster.submit(
                replace(
                    job,
                    queue=change.spec.get("queue", job.queue),
                    priority_class=change.spec.get("priorityClassName", job.priority_class),
                )
            )
        self.turn()
        event = self.cluster.job_command_events.get(key) if change.command else None
        if event is not None and event.warning:
            raise NotPossibleError(event.message)
        return change

    def _check_request(self, request: JobChangeRequest) -> None:
        if request.queue is not None:
            queues = {queue.name: queue for queue in self.cluster.all(Queue)}
            target = queues.get(request.queue)
            children = sum(queue.parent == request.queue for queue in queues.values())
            check_queue(request.queue, queues, "" if target is None else target.state, children)
        if request.priority is not None:
            check_priority(request.priority, {one.name for one in self.cluster.all(PriorityClass)})

    def _not_a_vcjob(self, key: str) -> NotPossibleError:
        """Pods of other owners are kept in a lab without them: nothing would make the pods again."""
        group, pod = self.cluster.get(PodGroup, key), self.cluster.get(Pod, key)
        owner = (group or pod or Pod("", "", "", PodClass())).owner
        kind = owner.kind if owner is not None else "PodGroup" if group is not None else "bare pod"
        fix = f"a lab keeps no owners but vcjobs; to give its chips back: ringwise delete job {key}"
        return not_suspendable(kind, key, fix)

    def dry_run(self, submission: Submission) -> tuple[SubmitReply, ClusterObjects]:
        """What `submit` would do. It happens in a copy of the lab, with a scheduler that takes over."""
        with copy_of(self.cluster.table, self.now, self.settings) as copy:
            return copy.submit(submission), copy.objects

    def _store(self, value: object, answer: SubmitReply) -> None:
        name = key_of(value)
        before = self.cluster.table.get(name.kind, name.key)
        self.cluster.submit(value)
        same = before == self.cluster.table.get(name.kind, name.key)
        action = "created" if before is None else "unchanged" if same else "changed"
        kind = _WORDS.get(name.kind, name.kind)
        answer.objects.append(SubmittedFields(kind=kind, name=name.key, action=action))
        match value:
            case VcJob():
                answer.jobs.append(value.key)
            case PodGroup() if value.owner is None or not value.owner.is_vcjob:
                answer.jobs.append(value.key)
            case Pod() if value.group is None:
                answer.jobs.append(value.key)
            case Pod() if self.cluster.get(PodGroup, group := f"{value.namespace}/{value.group}") is None:
                if group not in answer.jobs:
                    answer.jobs.append(group)

    def _misplaced(self, submission: Submission) -> list[str]:
        """Pods that come with a node: it must be there, and the chips they name must be theirs."""
        bound = [pod for pod in submission.of(Pod) if pod.node is not None and pod.live]
        if not bound:
            return []
        nodes = {node.name: node for node in (*self.cluster.all(Node), *submission.of(Node))}
        lost = [
            f'{pod.origin}: spec.nodeName: node "{pod.node}" not found'
            for pod in bound
            if pod.node not in nodes
        ]
        reports = [*self.cluster.all(DeviceReport), *submission.of(DeviceReport)]
        pods = [*self.cluster.all(Pod), *submission.of(Pod)]
        everything = Bundle({Node: list(nodes.values()), DeviceReport: reports, Pod: pods})
        return lost + [str(error) for error in check_holds(everything)]

    # -- configuration -----------------------------------------------------------------------------

    def _keep_configuration(self, text: str, origin: str) -> None:
        """Raises DocumentError for a wrong one: the last good one stays."""
        read_user_configuration(text, origin)
        namespace, name = CONFIGURATION_MAP
        config_map = ConfigMap(namespace, name, {SCHEDULER_CONFIG_KEY: text})
        self.cluster.table.put(PUBLISHED, f"{namespace}/{name}", config_map)

    def _stored_configuration(self) -> Configuration:
        config_map = self.cluster.table.get(PUBLISHED, "/".join(CONFIGURATION_MAP))
        if not isinstance(config_map, ConfigMap):
            return default_configuration()
        return read_user_configuration(config_map.data[SCHEDULER_CONFIG_KEY], "/".join(CONFIGURATION_MAP))

    # -- other requests ------------------------------------------------------------------------------

    def delete(self, objects: Iterable[tuple[str, str]], *, dry_run: bool = False) -> None:
        """Delete jobs (vcjobs, PodGroups with their pods, bare pods), then pods, queues, nodes and others."""
        self.cluster.pass_time(self.now)
        by_kind: dict[str, list[str]] = {kind: [] for kind in ("job", "pod", "queue", "node", *OTHERS)}
        for kind, key in objects:
            by_kind[kind].append(key)
        self._check_queues(by_kind["queue"], by_kind["job"])
        if dry_run:
            return
        for key in by_kind["job"]:
            self._delete_job(key)
        if by_kind["job"]:
            # The controller deletes the PodGroups of its jobs.
            self.turn()
        for kind, table in {"pod": "Pod", "queue": "Queue", "node": "Node", **OTHERS}.items():
            for key in by_kind[kind]:
                self.cluster.delete(table, key)
        self.turn()

    def _delete_job(self, key: str) -> None:
        if self.cluster.delete("VcJob", key):
            return
        same = self.cluster.get(PodGroup, key)
        named = (one for one in self.cluster.all(PodGroup) if f"{one.namespace}/{one.job_name}" == key)
        groups = [same] if same is not None else [*named]
        if not groups:
            self.cluster.delete("Pod", key)
            return
        for group in groups:
            for pod in self.cluster.all(Pod):
                if f"{pod.namespace}/{pod.group}" == group.key:
                    self.cluster.delete("Pod", pod.key)
            self.cluster.delete("PodGroup", group.key)

    def _check_queues(self, names: Iterable[str], going: Iterable[str]) -> None:
        """Raises ObjectRefusedError for a queue that must stay; jobs that go with it do not count."""
        leaving, names = set(going), list(names)
        stay = {queue.name: queue for queue in self.cluster.all(Queue) if queue.name not in names}
        for name in names:
            why = deletion_problem(name, stay)
            if why:
                raise ObjectRefusedError(why)
            inside = [
                group
                for group in self.cluster.all(PodGroup)
                if group.queue == name and not leaving & {group.key, _owner_key(group)}
            ]
            if inside:
                names = [f"{group.namespace}/{group.job_name}" for group in inside[:3]]
                some = ", ".join(names) + (", ..." if len(inside) > 3 else "")
                raise ObjectRefusedError(
                    f"queue {name} has {counted(inside, 'job')}: {some}; delete "
                    f"{agrees(len(inside), 'it', 'them')} first"
                )

    def cordon(self, names: Iterable[str], *, on: bool = True) -> bool:
        """Cordon or uncordon nodes, all at once; False: they were so already."""
        with self._request():
            changes = [self.cluster.cordon(name, on) for name in names]
            return any(changes)

    def isolate(self, *wanted: Isolation, on: bool = True) -> bool:
        """Isolate targets together, or end their isolation. Return False if nothing changed."""
        with self._request():
            changes = [self._isolate(one, on) for one in wanted]
            return any(changes)

    def _isolate(self, wanted: Isolation, on: bool) -> bool:
        self._check_chips(wanted.node, wanted.chips)
        existing = self.cluster.all(Isolation)
        changes = isolate_changes(existing, wanted) if on else unisolate_changes(existing, wanted)
        for name, one in changes.items():
            if one is None:
                self.cluster.delete("Isolation", name)
            else:
                self.cluster.submit(one)
        return bool(changes)

    def reserve(self, wanted: NodeReservation) -> None:
        """Raises NotReservableError."""
        with self._request():
            now = self.cluster.now
            check_new(wanted, [one for one in self.cluster.all(NodeReservation) if one.end > now])
            self.cluster.submit(replace(wanted, created=now))

    def unreserve(self, name: str) -> None:
        """Raises NotReservableError if there is none of this name."""
        with self._request():
            if not self.cluster.delete("NodeReservation", name):
                raise unknown_reservation(name, [one.name for one in self.cluster.all(NodeReservation)])

    def _check_chips(self, name: str, chips: Iterable[str]) -> None:
        """Raises ObjectRefusedError for a chip that the node does not have."""
        node = self.cluster.get(Node, name)
        capacity = reported_chips(node) if node is not None else {}
        names = [chip_names(resource, (at,)) for resource, count in capacity.items() for at in range(count)]
        for chip in chips:
            if chip not in names:
                raise ObjectRefusedError(f"{name} has no chip {chip}; it has {', '.join(names) or 'none'}")

    def evict(self, pods: Iterable[str]) -> None:
        """Delete pods by key, with their grace: their owners create them again."""
        with self._request():
            for key in pods:
                self.cluster.delete("Pod", key)

    def move(self, plan: MovePlan) -> None:
        """M1: have a plan of moves carried out."""
        with self._request():
            self.cluster.submit(replace(plan, approval=APPROVED))

    def _automatic_moves(self, now: int) -> Sequence[Event]:
        """`defragment: auto`."""
        last = self._looked_for_moves
        if last is not None and now < last + INTERVAL * SECOND:
            return []
        if not is_wanted(self.view, now):
            return []
        self._looked_for_moves = now
        plan = automatic_plan(self.view, now)
        if plan is not None:
            self.cluster.submit(plan)
        return []

    def inject_fault(self, kind: str, nodes: Sequence[str], **described: Any) -> None:
        """Break hardware of nodes; `described` as `faults.inject` takes it. Raises ObjectRefusedError."""
        with self._request():
            faults.inject(self.cluster, kind, nodes, **described)

    def put_report(self, node: str, kind: str, text: str) -> list[str]:
        """A report with this value, as `faults.put_report` takes it; what is wrong with it."""
        with self._request():
            return faults.put_report(self.cluster, node, kind, text)

    def clear_faults(self, kind: str | None, nodes: Sequence[str], **described: Any) -> None:
        """Heal hardware of nodes; without a kind, of all nodes."""
        with self._request():
            if kind is None:
                faults.clear_all(self.cluster)
            else:
                faults.clear(self.cluster, kind, nodes, **described)


def _owner_key(group: PodGroup) -> str:
    return "" if group.owner is None else f"{group.namespace}/{group.owner.name}"


@contextmanager
def copy_of(
    table: ObjectTable, now: int, settings: LabSettings, configuration: Configuration | None = None
) -> Iterator[LiveLab]:
    """The same objects at the same time, with a scheduler that takes over and has virtual time.

    Without a configuration it has the one among the objects.
    """
    with TemporaryDirectory(prefix="ringwise-copy-") as path:
        own = replace(settings, configuration=None, speed=None, journal_bytes=0, mount_method=None)
        copy = LiveLab(LabFolder(Path(path)), own, configuration, CopiedObjects(table, now))
        # The copy took the record over, but for what only a question needs.
        tables = copy.cluster.published_data(VOLCANO_SYSTEM, RECORD_CONFIG_MAPS)
        reserved = {key: text for key, text in tables.items() if table_of(key) == RESERVATIONS}
        copy.lab.inject(LeaderRecordRead(reserved, takes_over=False))
        try:
            copy.turn()
            yield copy
        finally:
            copy.close()


class LabJournal:
    """Follows one scheduler at a time, from its first batch on: only so can its decisions be repeated.

    A new file therefore needs a new scheduler. That is as harmless as a restart of the lab, which
    forgets for how long jobs have waited; so it happens when none waits, or when it must.
    """

    def __init__(self, folder: LabFolder, most_bytes: int = MAX_BYTES) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._file: BinaryIO | None = None

    def wants_a_new_file(self, view: SchedulerView) -> bool:
        if self._file is None:
            return False
        size = self._file.tell()
        if size <= self._most_bytes:
            return False
        return not view.loses_by_restart() or size > self._most_bytes * _MOST_GROWTH

    @property
    def is_deleted(self) -> bool:
        """Return whether the file or the folder in which it is written was deleted."""
        return self._file is not None and not is_still(self._folder.journal, self._file.fileno())

    def follow(self, scheduler: Scheduler) -> None:
        """Start a file with this scheduler, which must not have received any event yet."""
        if self._most_bytes <= 0:
            return
        self.close()
        folder = self._folder
        folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.journal.exists():
            folder.journal.replace(folder.older_journal)
        self._file = folder.journal.open("wb")
        folder.journal.chmod(0o600)
        view = scheduler.view
        writer = JournalWriter(self._file, view.configuration, view.scheduler_names)
        scheduler.journal = Journal(view.configuration, keep=1, sink=writer)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

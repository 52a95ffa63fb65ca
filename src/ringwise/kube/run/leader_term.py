"""One leader term: everything that is discarded when the lease is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ringwise.framework.registry import Registry
from ringwise.kube.run.core_thread import CoreThread, MachineAdapter
from ringwise.kube.run.idle_event_loop import loop_idle_event
from ringwise.kube.run.leader_election import LeaseSettings
from ringwise.kube.run.volcano_counts import milliseconds
from ringwise.kube.run.watchdog import STALL_TIMEOUT
from ringwise.kube.watch.invalid_objects import BadObject, InvalidObjects
from ringwise.kube.watch.job_templates import JobTemplates
from ringwise.kube.watch.kinds import WatchTarget, watched_kinds
from ringwise.kube.watch.readers import Observed
from ringwise.kube.watch.reflector import Reflector
from ringwise.kube.write.accounts import AccountKeeper, AccountStore, ConfigMapAccounts
from ringwise.kube.write.binder import MAX_IN_FLIGHT, Binder
from ringwise.kube.write.context import WriteContext
from ringwise.kube.write.executor import Creations, Executor
from ringwise.kube.write.job_commands import JobCommands
from ringwise.kube.write.ordered_work import OrderedWork
from ringwise.kube.write.own_config_maps import OwnConfigMaps
from ringwise.kube.write.status import StatusWriter
from ringwise.kube.write.status_queue import Precedence
from ringwise.kubeclient.client import PAGE_SIZE, Client
from ringwise.kubeclient.resources import CONFIG_MAPS, JOB_COMMANDS, PODS, QUEUES
from ringwise.kubeclient.retry import GivenUpError, Retrier
from ringwise.log import Logger
from ringwise.manifests.kinds import Watcher
from ringwise.messages.commands import Command, SetAside
from ringwise.messages.events import Event, LeaderRecordRead
from ringwise.records import dataclass
from ringwise.scheduler.cache.record_tables import read_tables
from ringwise.scheduler.defaults import BUILT_IN
from ringwise.state.model import DEFAULT_QUEUE, ROOT_QUEUE
from ringwise.views.written_reasons import WrittenReasons
from ringwise.wellknown import (
    FAULT_NODE_KEY,
    FAULT_NODES_CONFIG_MAP,
    MINDX_DL,
    RECORD_CONFIG_MAPS,
    RESCHEDULE_REASON_CONFIG_MAP,
    RESCHEDULE_RECORDS_KEY,
    RESCHEDULING_CONFIG_MAP,
    VOLCANO_SYSTEM,
)

_LOG = Logger()


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    #: None: there is one replica, and it leads from the start.
    lease: LeaseSettings | None = None
    identity: str = "ringwise"
    #: Namespace and name of the ConfigMap with the configuration; None when it does not come from a
    #: ConfigMap.
    configuration: tuple[str, str] | None = None
    #: Execute Command objects of users: the job controller runs here.
    job_commands: bool = False
    #: Only the job controller runs here; it needs no nodes, queues or chips.
    jobs_only: bool = False
    #: The controller creates the PodGroups of ordinary pods.
    pod_groups: bool = False
    #: Namespace and name of the ConfigMap that says which HyperNodes the controller makes; None: none.
    discovery: tuple[str, str] | None = None
    #: Decide, and execute nothing.
    read_only: bool = False
    #: Go on without kinds that may not be read, instead of waiting for the permission.
    without_forbidden: bool = False
    #: The component's own, for ConfigMaps whose usual namespace does not exist.
    namespace: str = VOLCANO_SYSTEM
    in_flight: int = MAX_IN_FLIGHT
    page_size: int = PAGE_SIZE
    #: Seconds without progress of the core after which this replica is not healthy and gives up the lease;
    #: after twice as many the process exits.
    core_stall_timeout: float = STALL_TIMEOUT
    #: The plugins and actions that the configuration may name.
    registry: Registry = BUILT_IN
    #: Gets the reasons that another scheduler wrote into conditions; None: they are not read.
    written: WrittenReasons | None = None
    #: Where accounting documents are kept; None: in ConfigMaps.
    accounts: AccountStore | None = None


class LeaderTerm:
    def __init__(
        self,
        context: WriteContext,
        machines: Sequence[MachineAdapter],
        settings: RunnerSettings,
        on_crash: Callable[[BaseException], None],
    ) -> None:
        self.malformed = InvalidObjects()
        self._context = context
        self._client, self._clock, self._observer = context.client, context.clock, context.observer
        self._settings = settings
        self._on_crash = on_crash
        self._observed = Observed()
        self._retrier = context.retrier()
        loop = asyncio.get_running_loop()
        self.core = CoreThread(
            machines,
            lambda commands: loop.call_soon_threadsafe(self._execute, commands),
            lambda defect: loop.call_soon_threadsafe(on_crash, defect),
            clock=context.clock,
            observer=context.observer,
            loop_is_idle=loop_idle_event(),
        )
        self._config_maps = OwnConfigMaps(self._client, settings.namespace)
        #: None: nothing is decided, or written, here.
        self._accounts: AccountKeeper | None = None
        if not settings.jobs_only and not settings.read_only:
            store = settings.accounts or ConfigMapAccounts(self._config_maps, self._retrier)
            self._accounts = AccountKeeper(store, context.clock)
        self._status: StatusWriter | None = None
        #: None: a read-only component executes nothing.
        self._sink = None if settings.read_only else self._executor()
        kinds = watched_kinds(
            self._observed,
            settings.configuration,
            discovery=settings.discovery,
            component=Watcher.CONTROLLER if settings.jobs_only else Watcher.SCHEDULER,
            pod_owners=settings.pod_groups,
            registry=settings.registry,
            written=settings.written,
            warn=lambda warning: _LOG.warning("configuration", why=warning),
        )
        self._job_commands: JobCommands | None = None
        if settings.job_commands:
            # Few at once: any number of them can be created, and other writes must not wait for them.
            self._job_commands = JobCommands(self._client, context.retrier(4), self.core.put)
            kinds.insert(0, (WatchTarget(JOB_COMMANDS, optional=True), self._job_commands))
        #: What is done once, when this replica starts to lead.
        self._first_work = OrderedWork()
        self._reflectors = [
            Reflector(
                self._client,
                target,
                reader,
                self.core.put,
                clock=self._clock,
                rng=context.rng,
                malformed=self.malformed,
                observer=self._observer,
                page_size=settings.page_size,
                on_crash=on_crash,
                without_forbidden=settings.without_forbidden,
            )
            for target, reader in kinds
        ]
        self._pods = next(one for one in self._reflectors if one.target.resource == PODS)

    def __len__(self) -> int:
        return sum(len(reflector) for reflector in self._reflectors)

    async def read_all(self) -> None:
        """Pods last: their nodes are known then, and each node's chips are computed once."""
        self.core.start()
        first = [reflector for reflector in self._reflectors if reflector is not self._pods]
        for reflector in first:
            reflector.start()
        await asyncio.gather(*(reflector.synced.wait() for reflector in first))
        self._pods.start()
        await self._pods.synced.wait()
        await asyncio.to_thread(self.core.prepare)

    async def prepare(self, since: float) -> None:
        """List again what was listed before this moment, and read what the previous leader left.

        All that is known is as new then.
        """
        old = [one for one in self._reflectors if one.list_began <= since]
        await asyncio.gather(*(reflector.refresh() for reflector in old if reflector is not self._pods))
        if self._pods in old:
            await self._pods.refresh()
        await self._read_rescheduling()
        await self._read_accounts()

    async def _read_rescheduling(self) -> None:
        """F1: what the previous leader wrote. Only after the lease is won: until then it may still write."""
        if self._settings.jobs_only or self._settings.read_only:
            return
        records, nodes, *objects = await asyncio.gather(
            self._read_own(MINDX_DL, RESCHEDULE_REASON_CONFIG_MAP),
            self._read_own(VOLCANO_SYSTEM, FAULT_NODES_CONFIG_MAP),
            *(self._read_own(VOLCANO_SYSTEM, name) for name in RECORD_CONFIG_MAPS),
        )
        tables = {key: text for data in objects for key, text in data.items()}
        self._report_unread(tables)
        self.core.put(
            [LeaderRecordRead(tables, records.get(RESCHEDULE_RECORDS_KEY, ""), nodes.get(FAULT_NODE_KEY, ""))]
        )

    def _report_unread(self, tables: Mapping[str, str]) -> None:
        """The core copies them to another ConfigMap, and starts without them."""
        _, problems = read_tables(tables)
        for key, problem in sorted(problems.items()):
            _LOG.error("record of the previous leader ignored", record=key, why=problem)
        if problems and self._status is not None:
            messages = tuple(f"{key}: {problem}" for key, problem in sorted(problems.items()))
            place = f"{VOLCANO_SYSTEM}/{RESCHEDULING_CONFIG_MAP}"
            self._status.events.malformed(BadObject(CONFIG_MAPS.kind, place, messages))

    async def _read_accounts(self) -> None:
        """What the previous leader accounted for. Without it this term accounts for nothing."""
        if self._accounts is None:
            return
        try:
            self.core.put([await self._accounts.read()])
        except (GivenUpError, OSError) as error:
            _LOG.error("accounting documents cannot be read; usage is not recorded", why=str(error))

    async def _read_own(self, namespace: str, name: str) -> Mapping[str, str]:
        """Nothing is decided while the server cannot be reached; what it refuses counts as missing."""
        try:
            return await self._retrier.run(partial(self._config_maps.read, namespace, name))
        except GivenUpError as error:
            _LOG.error("not read; jobs that are being rescheduled are not known", object=name, why=str(error))
            return {}

    def lead(self) -> None:
        self.core.decide()
        if self._status is not None:
            self.malformed.listen(self._status.events.malformed)
        if self._job_commands is not None:
            self._job_commands.lead()
        if self._accounts is not None:
            self._accounts.lead()
        if not self._settings.jobs_only and not self._settings.read_only:
            self._first_work.add(
                "default queues", [partial(create_default_queues, self._client, self._retrier)]
            )

    async def stop(self) -> None:
        await asyncio.to_thread(self.core.stop)
        await asyncio.gather(*(reflector.stop() for reflector in self._reflectors))
        if self._job_commands is not None:
            await self._job_commands.stop()
        await self._first_work.stop()
        if self._accounts is not None:
            await self._accounts.stop()
        if self._sink is not None:
            await self._sink.stop()

    def _execute(self, commands: list[Command]) -> None:
        try:
            if self._sink is not None:
                self._sink.execute(commands)
        except Exception as defect:
            # A lost command would leave chips held for a pod that does not get them.
            self._on_crash(defect)

    def _executor(self) -> Executor:
        creations = Creations()

        def report(event: Event) -> None:
            self.core.put([event])

        binder = Binder(
            self._context,
            on_failed=report,
            on_bound=lambda bind: status.bound(bind),
            in_flight=self._settings.in_flight,
        )
        precedence = Precedence(self._clock, (binder.idle, creations.idle))
        status = self._status = StatusWriter(self._context, self._observed, precedence)
        return Executor(
            self._context,
            binder,
            status,
            self._observed.templates,
            self._retrier,
            report=report,
            on_contained=self._log_contained,
            config_maps=self._config_maps,
            creations=creations,
            on_account=lambda command: self._accounts.apply(command) if self._accounts else None,
            on_pod_created=self._created_pod,
        )

    def _created_pod(self, job: JobTemplates) -> None:
        if self._observer.volcano is not None and job.created:
            self._observer.volcano.pod_created.observe(milliseconds(job.created, self._clock.now()))

    def _log_contained(self, command: SetAside) -> None:
        """The core could not handle an object that the readers accepted: the object is not to blame."""
        _LOG.error("internal error", kind=command.kind, object=command.key, problem=command.problem)
        self._observer.internal_errors.inc()


def default_queues() -> list[dict[str, Any]]:
    """The root first: it is the parent of the other."""
    root = {"weight": 1, "reclaimable": False}
    default = {"weight": 1, "reclaimable": True, "parent": ROOT_QUEUE}
    return [
        {"apiVersion": QUEUES.version, "kind": QUEUES.kind, "metadata": {"name": name}, "spec": spec}
        for name, spec in ((ROOT_QUEUE, root), (DEFAULT_QUEUE, default))
    ]


async def create_default_queues(client: Client, retrier: Retrier) -> None:
    """Create the queues `default` and `root` where they are missing; existing ones are used as they are.

    Clients look them up: Huawei's operator refuses jobs for a queue without an object.
    """
    for queue in default_queues():
        try:
            await retrier.run(partial(client.create_if_missing, QUEUES, None, queue))
        except GivenUpError as error:
            # Jobs of the queue `default` run without an object, too.
            _LOG.warning("queue not created", queue=queue["metadata"]["name"], why=str(error))

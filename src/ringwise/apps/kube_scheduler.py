"""The components on Kubernetes: scheduler, job controller, and scheduler in shadow mode."""

from __future__ import annotations

import asyncio
import gc
import json
import math
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

from ringwise.apps.accounting import AccountFolder, FolderAccounts
from ringwise.apps.auto_moves import is_wanted, keep_moving
from ringwise.apps.estimating import Answer, StartEstimator
from ringwise.apps.extensions import (
    installed_registry,
    installed_specs,
    new_scheduler,
    read_user_configuration,
)
from ringwise.apps.forked_queries import ForkedQueries, QuestionFailedError
from ringwise.apps.journal.files import FILE_MEGABYTES, FILES, JournalFiles
from ringwise.apps.web.options import WebOptions
from ringwise.controller.machine import Controller
from ringwise.controller.pod_groups import PodGroupController
from ringwise.framework.configuration import Configuration
from ringwise.kube.run import idle_event_loop
from ringwise.kube.run.core_thread import (
    ControllerAdapter,
    CoreStoppedError,
    MachineAdapter,
    SchedulerAdapter,
)
from ringwise.kube.run.leader_election import LeaseSettings
from ringwise.kube.run.leader_term import RunnerSettings
from ringwise.kube.run.runner import Runner
from ringwise.kube.run.shadow import ShadowAdapter
from ringwise.kube.write.disruption_budgets import read_budgets
from ringwise.kubeclient.client import API_ERRORS, Client
from ringwise.kubeclient.clock import RateLimit, RealClock
from ringwise.kubeclient.config import Access, find_access
from ringwise.kubeclient.resources import Resource
from ringwise.kubeclient.tasks import running, stop_signal
from ringwise.log import Logger
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.manifests.text.errors import DocumentError
from ringwise.messages.events import ConfigurationSeen
from ringwise.metrics.endpoints import serving
from ringwise.metrics.prometheus import Metrics
from ringwise.records import dataclass
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.defaults import default_configuration
from ringwise.scheduler.defragment.movable import DisruptionBudget
from ringwise.scheduler.view import SchedulerView
from ringwise.state.queue_rules import QUEUE_COMMAND_NAMESPACES
from ringwise.topology.boards import BoardCatalog
from ringwise.wellknown import MOVE_PLANS, SCHEDULER_LEASE, SCHEDULER_NAMES, VOLCANO_SYSTEM

_LOG = Logger()

#: Seconds between two checks of the configuration file, and two looks at when waiting jobs start.
CONFIGURATION_INTERVAL, ESTIMATE_INTERVAL = 5.0, 60.0
#: New objects between two garbage collections of a component that decides.
_GC_THRESHOLD = 50_000


@dataclass(frozen=True, slots=True)
class ComponentOptions:
    """The options of the command line."""

    kubeconfig: str | None = None
    context: str | None = None
    scheduler_names: tuple[str, ...] = SCHEDULER_NAMES
    scheduler_conf: Path | None = None
    #: Namespace and name of the ConfigMap with the configuration, where there is no file.
    configuration_map: tuple[str, str] | None = None
    #: That of the controller: which HyperNodes it makes from labels of nodes; None: none.
    controller_map: tuple[str, str] | None = None
    boards: tuple[Path, ...] = ()
    leader_elect: bool = True
    leader_elect_resource_namespace: str = VOLCANO_SYSTEM
    leader_elect_resource_name: str = SCHEDULER_LEASE
    #: Seconds.
    leader_elect_lease_duration: int = 15
    leader_elect_renew_deadline: int = 10
    leader_elect_retry_period: int = 2
    core_stall_timeout: int = 15
    metrics_address: str = "127.0.0.1:8080"
    health_address: str = "127.0.0.1:11251"
    #: Export Volcano's metrics, too.
    volcano_metrics: bool = False
    with_scheduler: bool = True
    with_controller: bool = True
    #: Where Commands for queues are obeyed.
    queue_command_namespaces: tuple[str, ...] = QUEUE_COMMAND_NAMESPACES
    #: The controller creates the PodGroups of pods without a vcjob, and the scheduler waits for them.
    pod_groups: bool = True
    shadow: bool = False
    in_flight: int = 64
    #: Requests per second, 0 for no limit; and the burst, 0 for as many as in one second.
    requests_per_second: float = 0.0
    burst: int = 0
    #: The file that every turn is recorded in; how many bytes it may have, and how many files are kept.
    journal: Path | None = None
    journal_bytes: int = FILE_MEGABYTES << 20
    journal_files: int = FILES
    #: The folder of accounting documents; None: they are ConfigMaps.
    accounting_dir: Path | None = None
    #: Where the dashboard listens; None: nowhere.
    web: WebOptions | None = None


class ConfigurationFile:
    """A configuration file that may change. After an error the last valid configuration stays in use."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._text = path.read_bytes()
        self.current = read_user_configuration(self._text, str(path))
        log_warnings(self.current)

    def changed(self) -> Configuration | None:
        """The new configuration; None when the file did not change or is invalid."""
        try:
            text = self._path.read_bytes()
        except OSError as problem:
            _LOG.warning(
                "configuration cannot be read; the last one stays in use",
                file=str(self._path),
                why=str(problem),
            )
            return None
        if text == self._text:
            return None
        self._text = text
        try:
            self.current = read_user_configuration(text, str(self._path))
        except DocumentError as error:
            for line in str(error).splitlines():
                _LOG.error("configuration is invalid; the last valid one stays in use", why=line)
            return None
        _LOG.info("configuration changed", file=str(self._path))
        log_warnings(self.current)
        return self.current


def log_warnings(configuration: Configuration) -> None:
    """What the file names and Ringwise does without."""
    for warning in configuration.warnings:
        _LOG.warning("configuration", why=warning)


def run(options: ComponentOptions, report: Callable[[dict[str, Any]], None] | None = None) -> None:
    """Run until a signal ends it. `report` receives the lines of shadow mode."""
    access = find_access(options.kubeconfig, options.context)
    file = ConfigurationFile(options.scheduler_conf) if options.scheduler_conf is not None else None
    catalog = shipped_catalog(options.boards)
    idle_event_loop.run(serve(options, access, file, catalog, report or print_line))


def print_line(line: dict[str, Any]) -> None:
    print(json.dumps(line, ensure_ascii=False), flush=True)


async def serve(
    options: ComponentOptions,
    access: Access,
    file: ConfigurationFile | None,
    catalog: BoardCatalog,
    report: Callable[[dict[str, Any]], None],
    stop: asyncio.Event | None = None,
) -> None:
    """Run the component until `stop` is set; without it until a signal."""
    stop = stop or stop_signal()
    metrics = Metrics(volcano=options.volcano_metrics)
    shadows: list[ShadowAdapter] = []
    #: The scheduler of the present term.
    current: list[Scheduler] = []
    journal: JournalFiles | None = None
    if options.journal is not None:
        journal = JournalFiles(
            options.journal, metrics, most_bytes=options.journal_bytes, files=options.journal_files
        )

    def machines() -> Sequence[MachineAdapter]:
        made = controllers(options)
        if options.with_scheduler or options.shadow:
            scheduler = scheduler_of(
                options, file.current if file is not None else default_configuration(), catalog
            )
            current[:] = [scheduler]
            if journal is not None:
                journal.follow(scheduler)
            if options.shadow:
                shadows[:] = [ShadowAdapter(scheduler, report, metrics)]
                made += shadows
            else:
                made.append(SchedulerAdapter(scheduler, metrics.volcano))
        return made

    component = "shadow" if options.shadow else "scheduler" if options.with_scheduler else "controller"
    async with AsyncExitStack() as stack:
        if journal is not None:
            stack.callback(journal.close)
        client = await stack.enter_async_context(_client(options, access, component))
        runner = Runner(
            client, machines, runner_settings(options), observer=metrics, on_synced=_freeze_memory
        )
        await stack.enter_async_context(
            serving(
                metrics,
                lambda: runner.ready,
                healthy=lambda: runner.healthy,
                metrics_address=options.metrics_address,
                health_address=options.health_address,
            )
        )
        if options.web is not None:
            # The web framework takes longer to import than the scheduler.
            from ringwise.apps.web.kube import serving_dashboard

            files = [] if options.journal is None else [options.journal]
            accounts = _account_folder(options)
            dashboard = serving_dashboard(
                runner,
                lambda: current[0],
                client,
                options.web,
                files,
                accounts=None if accounts is None else accounts.read,
            )
            _LOG.info("dashboard", url=await stack.enter_async_context(dashboard))
        _LOG.info("starting", component=component, server=access.server, namespace=access.namespace)
        watching = {
            "configuration_file": _watch_file(file, runner),
            "installed_packages": _log_broken_packages(runner),
        }
        if options.with_scheduler and not options.shadow:
            watching["moves"] = move_jobs(runner, client, lambda: current[0])
            watching["estimates"] = estimate_starts(runner, lambda: current[0])
        # Reading creates millions of objects and no reference cycles.
        gc.disable()
        try:
            async with running(**watching):
                await runner.run(stop)
        finally:
            gc.enable()
            for shadow in shadows:
                report(shadow.summary())


def _client(options: ComponentOptions, access: Access, component: str) -> Client:
    rate_limit = None
    if options.requests_per_second:
        burst = options.burst or math.ceil(options.requests_per_second)
        rate_limit = RateLimit(options.requests_per_second, burst, RealClock())
    return Client(access, component=component, rate_limit=rate_limit)


def controllers(options: ComponentOptions) -> list[MachineAdapter]:
    """The controller of this component, if it has one."""
    if not options.with_controller or options.shadow:
        return []
    groups = PodGroupController(options.scheduler_names) if options.pod_groups else None
    made = Controller(groups, options.scheduler_names, options.queue_command_namespaces)
    return [ControllerAdapter(made)]


def scheduler_of(
    options: ComponentOptions, configuration: Configuration, catalog: BoardCatalog | None = None
) -> Scheduler:
    return new_scheduler(configuration, catalog, options.scheduler_names, awaits_groups=options.pod_groups)


def _account_folder(options: ComponentOptions) -> FolderAccounts | None:
    return None if options.accounting_dir is None else FolderAccounts(AccountFolder(options.accounting_dir))


def runner_settings(options: ComponentOptions) -> RunnerSettings:
    lease = None
    if options.leader_elect and not options.shadow:
        lease = LeaseSettings(
            options.leader_elect_resource_namespace,
            options.leader_elect_resource_name,
            options.leader_elect_lease_duration,
            options.leader_elect_renew_deadline,
            options.leader_elect_retry_period,
        )
    return RunnerSettings(
        lease=lease,
        identity=f"{socket.gethostname()}_{uuid.uuid4()}",
        configuration=options.configuration_map if options.scheduler_conf is None else None,
        job_commands=options.with_controller and not options.shadow,
        pod_groups=options.pod_groups and options.with_controller and not options.shadow,
        discovery=options.controller_map if options.with_controller and not options.shadow else None,
        jobs_only=not options.with_scheduler and not options.shadow,
        read_only=options.shadow,
        namespace=options.leader_elect_resource_namespace,
        in_flight=options.in_flight,
        core_stall_timeout=options.core_stall_timeout,
        registry=installed_registry(),
        accounts=_account_folder(options),
    )


def _freeze_memory() -> None:
    """The objects that were read live long: exclude them from garbage collection."""
    if gc.get_freeze_count():
        # The objects of the previous term are garbage now. In the first term there is none: reading
        # creates no reference cycles.
        gc.unfreeze()
        gc.collect()
    gc.freeze()
    # More would be a longer pause each time, and events wait for it.
    gc.set_threshold(_GC_THRESHOLD)
    gc.enable()


async def move_jobs(runner: Runner, client: Client, scheduler: Callable[[], Scheduler]) -> None:
    """`defragment: auto`: plans are found by copies of this process."""

    async def wanted() -> bool:
        if not runner.deciding.is_set():
            return False
        try:
            return await runner.ask(lambda now: is_wanted(scheduler().view, now))
        except CoreStoppedError:
            return False

    async def copy(fork: Callable[[Scheduler, int], Any]) -> Any:
        try:
            return await runner.ask(lambda now: fork(scheduler(), now))
        except CoreStoppedError as error:
            raise QuestionFailedError(str(error)) from None

    async def budgets() -> Sequence[DisruptionBudget]:
        try:
            return await read_budgets(client)
        except API_ERRORS as error:
            raise QuestionFailedError(f"disruption budgets cannot be read: {error}") from None

    await runner.deciding.wait()

    async def create(body: Mapping[str, Any]) -> None:
        if not runner.deciding.is_set():
            return
        try:
            await client.create_if_missing(Resource(*MOVE_PLANS), None, body)
        except API_ERRORS as error:
            raise QuestionFailedError(f"the MovePlan is not created: {error}") from None

    await keep_moving(wanted, copy, create, ForkedQueries(), budgets=budgets)


async def _log_broken_packages(runner: Runner) -> None:
    """The search takes a while and no decision waits for it, so it comes after the first one."""
    await runner.deciding.wait()
    for problem in (await asyncio.to_thread(installed_specs))[1]:
        _LOG.warning("a plugin or action of an installed package is skipped", why=problem)


async def estimate_starts(
    runner: Runner, scheduler: Callable[[], Scheduler], every: float = ESTIMATE_INTERVAL
) -> None:
    """When waiting jobs are expected to start, again and again while this replica leads."""

    async def deciding(work: Callable[[SchedulerView, int], Answer]) -> Answer:
        if not runner.deciding.is_set():
            raise CoreStoppedError("this replica is no longer the leader")
        view = scheduler().view
        return await runner.ask(lambda now: work(view, now))

    estimator = StartEstimator(ForkedQueries(), deciding, runner.put, every)
    while True:
        await runner.deciding.wait()
        with suppress(CoreStoppedError):
            await estimator.run()


async def _watch_file(file: ConfigurationFile | None, runner: Runner) -> None:
    while file is not None:
        await asyncio.sleep(CONFIGURATION_INTERVAL)
        changed = file.changed()
        if changed is not None:
            runner.put([ConfigurationSeen(changed)])

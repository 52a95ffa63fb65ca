"""The dashboard of a scheduler on a cluster, and the one beside a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ringwise.apps.extensions import installed_registry, new_scheduler
from ringwise.apps.live import CONFIGURATION_MAP, check_readable
from ringwise.apps.live_accounts import accounts_of
from ringwise.apps.queries import unreadable
from ringwise.apps.scheduler_health import SchedulerLeases, lease_findings, read_leases
from ringwise.apps.web.job_documents import BudgetsRead, Documents, ReadAccounts, Recent, SchedulerAnswers
from ringwise.apps.web.options import WebOptions
from ringwise.apps.web.replicas import Replicas
from ringwise.apps.web.serving import CERTIFICATE_INTERVAL, listening_with_files
from ringwise.apps.web.snapshot import dashboard_source
from ringwise.kube.run import idle_event_loop
from ringwise.kube.run.core_thread import CoreStoppedError, Deliver, MachineAdapter, SchedulerAdapter
from ringwise.kube.run.leader_term import RunnerSettings
from ringwise.kube.run.runner import Runner
from ringwise.kube.write.disruption_budgets import read_budgets
from ringwise.kubeclient.client import API_ERRORS, ApiError, Client, UnreachableError
from ringwise.kubeclient.config import Access
from ringwise.kubeclient.credentials import KubeConfigError
from ringwise.kubeclient.tasks import stop_signal
from ringwise.messages import events as ev
from ringwise.messages.commands import Command
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.defaults import default_configuration
from ringwise.scheduler.explain.findings import Finding
from ringwise.topology.boards import BoardCatalog
from ringwise.views.documents.accounting import GroupBy
from ringwise.views.written_reasons import WrittenReasons
from ringwise.web.application import API, Asker, DashboardServer
from ringwise.web.guard import Guard, RequestRefusedError
from ringwise.web.hub import Answer, Hub, NotLeadingError, WatchedScheduler
from ringwise.web.tokens import ApiServerTokens
from ringwise.wellknown import VOLCANO_SYSTEM

#: What the answer of a replica that does not lead, and was asked by itself, leaves out.
MEMORY = "what only the leader remembers: reservations, waits after faults and failed bindings"

#: Seconds.
BUDGETS_PERIOD = 5.0


class KubeCore:
    """The scheduler of the present term, on its own thread."""

    def __init__(self, runner: Runner, scheduler: Callable[[], Scheduler]) -> None:
        self._runner = runner
        self._scheduler = scheduler

    @property
    def leads(self) -> bool:
        return self._runner.deciding.is_set()

    @property
    def leader(self) -> str:
        return self._runner.leader

    async def call(self, work: Callable[[WatchedScheduler, int], Answer]) -> Answer:
        """A replica that waits for the lease knows the objects, but not why jobs wait: the leader does."""
        if not self.leads:
            raise NotLeadingError(self._runner.leader)
        return await self._run(work)

    async def copy(self, fork: Callable[[WatchedScheduler, int], Answer]) -> Answer:
        """A standby replica has nothing else to do: what it tries shows why a job waits."""
        if not self._runner.ready:
            raise NotLeadingError(self._runner.leader)
        return await self._run(fork)

    async def _run(self, work: Callable[[WatchedScheduler, int], Answer]) -> Answer:
        scheduler = self._scheduler()
        try:
            return await self._runner.ask(lambda now: work(scheduler, now))
        except CoreStoppedError:
            raise NotLeadingError(self._runner.leader) from None


#: Seconds for which documents are kept: they are written once a minute, and are many megabytes.
CACHE_SECONDS = 60.0


async def list_budgets(client: Client) -> BudgetsRead:
    """The disruption budgets of the cluster, or why they cannot be read."""
    try:
        return await read_budgets(client), ()
    except API_ERRORS as error:
        return (), (f"disruption budgets: {error}",)


async def read_documents(read: ReadAccounts) -> Documents:
    """The documents of accounting. Raises RequestRefusedError."""
    try:
        return await read()
    except ApiError as error:
        # The right is this process's to have: another token of the reader does not help.
        status, code = (404, "no-accounting") if error.status in (401, 403) else (503, "no-accounting-now")
        raise RequestRefusedError(status, code, f"accounting cannot be read: {error}") from None
    except (UnreachableError, KubeConfigError, OSError) as error:
        text = f"accounting cannot be read: {error}"
        raise RequestRefusedError(503, "no-accounting-now", text) from None


class KubeAnswers:
    """Questions on a cluster: the replica that leads passes them on to one that has nothing else to do.

    It answers itself, by a copy of its process, where no other replica is there, and where the answer rests
    on what it alone remembers.
    """

    def __init__(self, core: KubeCore, own: SchedulerAnswers, replicas: Replicas | None) -> None:
        self._core = core
        self._own = own
        self._replicas = replicas

    async def why(self, asker: Asker, namespace: str, name: str) -> Mapping[str, Any]:
        self._check(asker)
        if not self._core.leads:
            answer = await self._own.why(asker, namespace, name)
            return answer if asker.forwarded else {**answer, "omitted": [*answer.get("omitted", ()), MEMORY]}
        if self._replicas is not None and await self._objects_suffice(namespace, name):
            path = f"{API}/jobs/{quote(namespace, safe='')}/{quote(name, safe='')}/why"
            result = await self._replicas.ask(asker, "GET", path)
            if result is not None and not _may_start(result):
                return result
        return await self._own.why(asker, namespace, name)

    async def history(self, asker: Asker, namespace: str, name: str) -> Mapping[str, Any]:
        """What was decided is in the journal of the replica that decided it."""
        if not self._core.leads:
            raise NotLeadingError(self._core.leader)
        return await self._own.history(asker, namespace, name)

    async def what_if(self, asker: Asker, text: bytes) -> Mapping[str, Any]:
        """It is answered from the objects alone, by whomever."""
        self._check(asker)
        if self._core.leads and self._replicas is not None:
            result = await self._replicas.ask(asker, "POST", f"{API}/what-if", text)
            if result is not None:
                return result
        return await self._own.what_if(asker, text)

    async def report(self, asker: Asker, by: GroupBy, days: int) -> Mapping[str, Any]:
        """The documents tell all of it, to whomever."""
        return await self._own.report(asker, by, days)

    async def document(self, asker: Asker, name: str) -> Mapping[str, Any]:
        """The leader alone knows all of it."""
        if not self._core.leads:
            raise NotLeadingError(self._core.leader)
        return await self._own.document(asker, name)

    def _check(self, asker: Asker) -> None:
        if asker.forwarded and self._core.leads:
            raise RequestRefusedError(
                503, "leading", "this replica is the leader and does not answer queries of other replicas"
            )

    async def _objects_suffice(self, namespace: str, name: str) -> bool:
        return await self._core.call(lambda scheduler, now: scheduler.view.objects_suffice(namespace, name))


def _may_start(answer: Mapping[str, Any]) -> bool:
    """From the objects alone it could start; what it waits for then, if for anything, the leader knows."""
    return answer.get("state") in ("pending", "starting") and answer.get("reason") is None


def serving_dashboard(
    runner: Runner,
    scheduler: Callable[[], Scheduler],
    client: Client,
    options: WebOptions,
    journals: Sequence[Path] = (),
    written: WrittenReasons | None = None,
    certificate_interval: float = CERTIFICATE_INTERVAL,
    accounts: ReadAccounts | None = None,
) -> AbstractAsyncContextManager[str]:
    """The dashboard of a runner while the block is open; it yields the URL. Raises AddressError.

    `written` are the reasons that the scheduler of the cluster wrote, where this one decides nothing.
    `accounts` reads the documents of accounting; None: from their ConfigMaps.
    `certificate_interval` is the number of seconds between two looks at the files of the certificate.
    """
    core = KubeCore(runner, scheduler)

    guard = Guard(options.hosts, None if options.local else ApiServerTokens(client))
    hub = Hub(core, lambda: dashboard_source("cluster", client.access.server, core.leader), written=written)
    replicas = Replicas(options.replicas, options.certificate) if options.replicas else None
    read = accounts or partial(accounts_of, client, VOLCANO_SYSTEM)

    async def reported() -> list[Finding]:
        unread = [unreadable(f"{bad.kind} {bad.key}", bad.problems) for bad in runner.malformed]
        if written is None:
            # The scheduler of this process leads.
            return unread
        try:
            leases = await read_leases(client)
        except API_ERRORS as error:
            leases = SchedulerLeases(unknown=str(error))
        return unread + await core.call(
            lambda scheduler, now: lease_findings(
                leases, (one.pod for one in scheduler.view.cluster.pods.values()), now
            )
        )

    own = SchedulerAnswers(
        core,
        lambda: journals,
        disruption_budgets=Recent(partial(list_budgets, client), BUDGETS_PERIOD),
        accounts=Recent(partial(read_documents, read), CACHE_SECONDS),
        reported=reported,
        written=written,
    )
    answers = KubeAnswers(core, own, replicas)
    server = DashboardServer(hub, answers, guard)
    return listening_with_files(server, options, certificate_interval)


# -- beside a cluster ---------------------------------------------------------------------------------


class WatchOnlyAdapter(SchedulerAdapter):
    """A scheduler that knows everything and decides nothing."""

    def send_early(self, deliver: Deliver, yield_to_loop: Callable[[], object]) -> None:
        """Nothing is sent."""

    def decide(self, events: Sequence[ev.Event], now: int) -> list[Command]:
        self.absorb(events, now)
        return []

    def next_deadline(self) -> int | None:
        return None

    def prepare(self, now: int) -> None:
        """A dashboard makes no decisions, so it prepares none."""


def run_standalone(
    options: WebOptions, access: Access, catalog: BoardCatalog, started: Callable[[str], None]
) -> None:
    """Serve until a signal; `started` gets the URL.

    Raises AddressError, CoreFailedError, and the errors of `check_readable`.
    """

    async def main() -> None:
        async with Client(access, component="web") as client:
            await serve_standalone(options, client, catalog, started, stop_signal())

    idle_event_loop.run(main())


async def serve_standalone(
    options: WebOptions,
    client: Client,
    catalog: BoardCatalog,
    started: Callable[[str], None],
    stop: asyncio.Event,
) -> None:
    current: list[Scheduler] = []

    def machines() -> list[MachineAdapter]:
        current[:] = [new_scheduler(default_configuration(), catalog)]
        return [WatchOnlyAdapter(current[0])]

    written = WrittenReasons()
    settings = RunnerSettings(
        configuration=CONFIGURATION_MAP,
        read_only=True,
        without_forbidden=True,
        registry=installed_registry(),
        written=written,
    )
    await check_readable(client)
    runner = Runner(client, machines, settings)
    dashboard = serving_dashboard(runner, lambda: current[0], client, options, written=written)
    async with dashboard as url:
        started(url)
        await runner.run(stop)

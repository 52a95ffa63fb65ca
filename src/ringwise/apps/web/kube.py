"""The dashboard of a scheduler on a cluster, and the one beside a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from ringwise import __version__
from ringwise.apps.web.answers import SchedulerAnswers
from ringwise.apps.web.options import WebOptions
from ringwise.apps.web.serving import CERTIFICATE_INTERVAL, listening_with_files
from ringwise.kube.run.core_thread import CoreStoppedError
from ringwise.kube.run.runner import Runner
from ringwise.kubeclient.client import Client
from ringwise.scheduler.core.machine import Scheduler
from ringwise.views.documents.dashboard import DashboardSource
from ringwise.views.written_reasons import WrittenReasons
from ringwise.web.application import DashboardServer
from ringwise.web.core import Answer, NotLeadingError, WatchedScheduler
from ringwise.web.guard import Guard
from ringwise.web.hub import Hub
from ringwise.web.tokens import ApiServerTokens


class KubeCore:
    """The scheduler of the present term, on its own thread."""

    def __init__(self, runner: Runner, scheduler: Callable[[], Scheduler]) -> None:
        self._runner = runner
        self._scheduler = scheduler

    @property
    def leader(self) -> str:
        return self._runner.leader

    async def call(self, work: Callable[[WatchedScheduler, int], Answer]) -> Answer:
        """A replica that waits for the lease knows the objects, but not why jobs wait: the leader does."""
        if not self._runner.deciding.is_set():
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


def serving_dashboard(
    runner: Runner,
    scheduler: Callable[[], Scheduler],
    client: Client,
    options: WebOptions,
    journals: Sequence[Path] = (),
    written: WrittenReasons | None = None,
    certificate_interval: float = CERTIFICATE_INTERVAL,
) -> AbstractAsyncContextManager[str]:
    """The dashboard of a runner while the block is open; it yields the URL. Raises AddressError.

    `written` are the reasons that the scheduler of the cluster wrote, where this one decides nothing.
    `certificate_interval` is the number of seconds between two looks at the files of the certificate.
    """
    core = KubeCore(runner, scheduler)

    def source() -> DashboardSource:
        return {
            "kind": "cluster",
            "name": client.access.server,
            "version": __version__,
            "live": True,
            "leader": core.leader,
        }

    guard = Guard(options.hosts, None if options.local else ApiServerTokens(client))
    hub = Hub(core, source, written=written)
    server = DashboardServer(hub, SchedulerAnswers(core, lambda: journals), guard)
    return listening_with_files(server, options, certificate_interval)

"""`ringwise web`: the dashboard beside a cluster, with the rights of a kubeconfig. Nothing is written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ringwise.apps.extensions import installed_registry, new_scheduler
from ringwise.apps.live import CONFIGURATION_MAP, check_readable
from ringwise.apps.web.kube import serving_dashboard
from ringwise.apps.web.options import WebOptions
from ringwise.kube.run import idle_event_loop
from ringwise.kube.run.core_thread import Deliver, MachineAdapter, SchedulerAdapter
from ringwise.kube.run.leader_term import RunnerSettings
from ringwise.kube.run.runner import Runner
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.config import Access
from ringwise.kubeclient.tasks import stop_signal
from ringwise.messages import events as ev
from ringwise.messages.commands import Command
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.defaults import default_configuration
from ringwise.topology.boards import BoardCatalog
from ringwise.views.written_reasons import WrittenReasons


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
        """There is no first decision."""


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

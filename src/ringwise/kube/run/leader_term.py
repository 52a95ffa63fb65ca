"""One life of a component: everything that is thrown away when the lead is lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ringwise.kube.observer import Observer
from ringwise.kube.run.core_thread import Core, Part
from ringwise.kube.run.idle_event_loop import idleness
from ringwise.kube.run.leader_election import Fence, LeaseSettings
from ringwise.kube.watch.kinds import Place, Reader, standard_kinds
from ringwise.kube.watch.malformed import Malformed
from ringwise.kube.watch.readers import GroupNote
from ringwise.kube.watch.reflector import Reflector
from ringwise.kube.write.binder import IN_FLIGHT, Binder
from ringwise.kube.write.executor import Executor
from ringwise.kube.write.job_commands import Wishes
from ringwise.kube.write.ordered_work import Persistence
from ringwise.kube.write.pod_templates import TemplateStore
from ringwise.kube.write.queue_status import QueueNote
from ringwise.kube.write.status import StatusWriter
from ringwise.kubeclient.client import PAGE, Client
from ringwise.kubeclient.clock import Clock
from ringwise.kubeclient.resources import JOB_COMMANDS, PODS
from ringwise.messages.commands import Command


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    #: None: there is one replica only, it leads from the beginning.
    lease: LeaseSettings | None = None
    identity: str = "ringwise"
    #: Namespace and name of the ConfigMap with the configuration; None when it comes from elsewhere.
    configuration: tuple[str, str] | None = None
    #: Obey commands of the bus: the job controller runs here.
    wishes: bool = False
    #: Nobody here needs nodes, queues or chips.
    jobs_only: bool = False
    #: Decide, and carry out nothing.
    read_only: bool = False
    in_flight: int = IN_FLIGHT
    page: int = PAGE
    #: Names that the configuration may use for plugins beside ours.
    plugins: tuple[str, ...] = ()


class Carrier(Protocol):
    def carry_out(self, commands: list[Command]) -> None: ...

    async def stop(self) -> None: ...


class _Nothing:
    """Carries out nothing: for those who only look."""

    def carry_out(self, commands: list[Command]) -> None: ...

    async def stop(self) -> None: ...


class Life:
    def __init__(
        self,
        client: Client,
        parts: Sequence[Part],
        settings: RunnerSettings,
        fence: Fence,
        *,
        clock: Clock,
        observer: Observer,
        chance: random.Random,
        crashed: Callable[[BaseException], None],
    ) -> None:
        self.malformed = Malformed()
        self._client = client
        self._settings = settings
        self._clock = clock
        self._observer = observer
        self._chance = chance
        self._fence = fence
        self._crashed = crashed
        self._templates = TemplateStore()
        self._groups: dict[str, GroupNote] = {}
        self._queues: dict[str, QueueNote] = {}
        self._persistence = Persistence(fence, clock, chance)
        loop = asyncio.get_running_loop()
        self.core = Core(
            parts,
            lambda commands: loop.call_soon_threadsafe(self._carry_out, commands),
            lambda defect: loop.call_soon_threadsafe(crashed, defect),
            clock=clock,
            observer=observer,
            loop_is_idle=idleness(),
        )
        self._status: StatusWriter | None = None
        self._carrier: Carrier = _Nothing() if settings.read_only else self._executor()
        kinds = standard_kinds(
            self._templates,
            self._groups,
            settings.configuration,
            queues=self._queues,
            jobs_only=settings.jobs_only,
            plugins=settings.plugins,
        )
        self._wishes: Wishes | None = None
        if settings.wishes:
            self._wishes = Wishes(client, self._persistence, self.core.put)
            kinds.insert(0, (Place(JOB_COMMANDS, optional=True), self._wishes))
        self._reflectors = [self._reflector(place, reader) for place, reader in kinds]
        self._pods = next(one for one in self._reflectors if one.place.resource is PODS)

    def __len__(self) -> int:
        return sum(len(reflector) for reflector in self._reflectors)

    async def read_everything(self) -> None:
        """Pods last: they find their nodes, and chips are looked at once."""
        self.core.start()
        first = [reflector for reflector in self._reflectors if reflector is not self._pods]
        for reflector in first:
            reflector.start()
        await asyncio.gather(*(reflector.synced.wait() for reflector in first))
        self._pods.start()
        await self._pods.synced.wait()
        await asyncio.to_thread(self.core.prepare)

    async def read_pods_again(self) -> None:
        await self._pods.refresh()

    def lead(self) -> None:
        self.core.decide()
        if self._status is not None:
            self.malformed.listen(self._status.malformed)
        if self._wishes is not None:
            self._wishes.lead()

    async def stop(self) -> None:
        await asyncio.to_thread(self.core.stop)
        await asyncio.gather(*(reflector.stop() for reflector in self._reflectors))
        if self._wishes is not None:
            await self._wishes.stop()
        await self._carrier.stop()

    def _carry_out(self, commands: list[Command]) -> None:
        try:
            self._carrier.carry_out(commands)
        except Exception as defect:
            # Commands that were lost would leave the core with chips that nobody gets.
            self._crashed(defect)

    def _reflector(self, place: Place, reader: Reader) -> Reflector:
        return Reflector(
            self._client,
            place,
            reader,
            self.core.put,
            clock=self._clock,
            chance=self._chance,
            malformed=self.malformed,
            observer=self._observer,
            page=self._settings.page,
            crashed=self._crashed,
        )

    def _executor(self) -> Executor:
        binder = Binder(
            self._client,
            self._fence,
            clock=self._clock,
            failed=lambda failure: self.core.put([failure]),
            bound=lambda bind: status.bound(bind),
            observer=self._observer,
            chance=self._chance,
            in_flight=self._settings.in_flight,
        )
        status = self._status = StatusWriter(
            self._client,
            self._fence,
            self._groups,
            clock=self._clock,
            queues=self._queues,
            binding=binder.idle,
            observer=self._observer,
            chance=self._chance,
        )
        return Executor(
            self._client,
            binder,
            status,
            self._templates,
            self._persistence,
            failed=lambda failure: self.core.put([failure]),
        )

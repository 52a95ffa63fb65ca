"""The device plugin of one node: its state, and the loops that keep it.

    driver ──> health ──┐                      ┌─> ListAndWatch
    pods (watch) ───────┼─> allocator, monitor ┼─> ConfigMap, Node, pods' annotations
    kubelet's listing ──┘                      └─> Allocate

Kubelet is served when the faults of the chips were read once, and always from then on. The API server may be
away: what needs it waits or fails with a reason.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from ringwise import wellknown
from ringwise.device.allocate_calls import AllocateCalls, CallMetrics
from ringwise.device.allocation import AllocationError, check_request
from ringwise.device.allocator import Allocator
from ringwise.device.api.deviceplugin_pb2 import ContainerAllocateResponse
from ringwise.device.cards import (
    ASCEND910A3,
    ASCEND910A5,
    SHARED_CARDS,
    Chip,
    card_type,
    device_type,
    lead,
    name_of,
    resource_of,
)
from ringwise.device.container_response import (
    BY_CDI,
    BY_RUNTIME,
    ContainerResponses,
    HostFiles,
    chip_nodes,
    possible_mounting,
)
from ringwise.device.discovery import Discovery, only_type
from ringwise.device.driver_poll import DriverPoll
from ringwise.device.drivers.port import Driver, DriverError, NoChipsError, Readings
from ringwise.device.fault_events import FaultEvents
from ringwise.device.health.configuration import read_configuration, shipped_configuration
from ringwise.device.health.levels import FaultLevel
from ringwise.device.health.monitor import HealthMonitor, Poll
from ringwise.device.host_containers import ContainerSpecs, ControlGroups
from ringwise.device.ledger import Ledger, Mount
from ringwise.device.ledger_file import LedgerFile
from ringwise.device.pods import NodePodWire, pod_from_wire
from ringwise.device.rank_tables import RankTables, level_lists, read_links, same_devices
from ringwise.device.report import (
    DESCRIPTION,
    EMPTY_SWITCH_INFO,
    ChipReport,
    device_list,
    switch_info_cfg,
    upgrade_fault_reason,
)
from ringwise.device.reporter import (
    Content,
    Reporter,
    chips_text,
    describe_node,
    doubtful_in,
    listing_text,
    map_watch,
    names_in,
    reasons_in,
    shares_text,
)
from ringwise.device.rpc import PodResources, PodResourcesClient
from ringwise.device.settings import PluginSettings
from ringwise.device.share_allocator import ShareAllocator
from ringwise.device.soft_shares import ShareFiles
from ringwise.device.watch import IsolationWatch, ObjectWatch
from ringwise.kubeclient.client import API_ERRORS, Client
from ringwise.kubeclient.clock import Clock, RealClock
from ringwise.kubeclient.resources import PODS
from ringwise.kubeclient.tasks import first_of
from ringwise.log import Logger
from ringwise.manifests.objects.isolations import isolated_chips
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.wire import ConfigMapWire
from ringwise.records import dataclass

_LOG = Logger()

#: Seconds between two looks for chips and their addresses, and while one does not answer.
DISCOVERY_PERIOD = 60.0
RETRY_PERIOD = 10.0
#: Seconds that the first calls wait for what the API server has about chips: separated and isolated ones, and
#: levels of faults.
TIMEOUT = 2.0
#: Seconds between two turns of the report at most, however seldom chips are looked at: the report is written
#: at least every 5 minutes, and what failed is tried again.
MAX_TURN = 5.0


#: Seconds of one part of the mean, and how many of them are kept.
_PART = 300.0
_PARTS = 12


@dataclass(slots=True)
class _Part:
    since: float
    total: float = 0.0
    readings: int = 0


class Utilization:
    """How much the chips of a node are used, while one pod has them: the mean of the last hour at most.

    One reading says little: a job that trains is idle for seconds while it loads or saves. So what is
    reported is a mean, which is reset when the chip gets another pod.
    """

    def __init__(self) -> None:
        #: By name of the chip: the uid of its pod, and the parts.
        self._chips: dict[str, tuple[str, deque[_Part]]] = {}
        self._now = 0.0

    def take(self, percent: Mapping[str, float], pods: Mapping[str, str], now: float) -> None:
        """Readings of chips that the driver gives, and the uids of the pods that have them; seconds."""
        self._now = now
        for chip in [chip for chip, (pod, _) in self._chips.items() if pods.get(chip) != pod]:
            del self._chips[chip]
        for chip, value in percent.items():
            pod = pods.get(chip)
            if pod is None or not 0 <= value <= 100:
                continue
            _, parts = self._chips.setdefault(chip, (pod, deque(maxlen=_PARTS)))
            if not parts or now - parts[-1].since >= _PART:
                parts.append(_Part(now))
            parts[-1].total += value
            parts[-1].readings += 1

    def means(self) -> dict[str, tuple[float, int]]:
        """Mean in percent and the seconds that it is about, of chips that a pod has and that are measured."""
        result = {}
        for chip, (_, parts) in sorted(self._chips.items()):
            readings = sum(part.readings for part in parts)
            mean = sum(part.total for part in parts) / readings
            result[chip] = round(mean, 1), round(self._now - parts[0].since)
        return result


class NodePlugin:
    def __init__(
        self,
        settings: PluginSettings,
        driver: Driver,
        chips: Sequence[Chip],
        client: Client,
        *,
        clock: Clock | None = None,
        observer: CallMetrics | None = None,
        pod_resources: PodResources | None = None,
        discovery: Discovery | None = None,
    ) -> None:
        if not chips:
            raise NoChipsError("the driver lists no NPUs")
        self.settings = settings = replace(
            settings, mount_method=possible_mounting(settings.mount_method, chips)
        )
        self.driver = driver
        self.discovery = discovery if discovery is not None else Discovery(driver)
        self._notices = self.discovery.notices
        self._driver_version = ""
        self.chips = list(chips)
        self.card = only_type(card_type(chip.chip_name, chip.board) for chip in chips)
        self.resource = resource_of(self.card)
        self.names = {chip.physical: name_of(self.card, chip.physical) for chip in chips}
        self._clock: Clock = clock or RealClock()
        self._observer = observer or CallMetrics()
        self._utilization = Utilization()
        self._client = client
        self._file = LedgerFile(settings.state_folder / f"{device_type(self.card)}-mounts.jsonl")
        self._rank_tables = RankTables(self.card)
        self._shares: ShareFiles | None = None
        self.allocator = self._allocator(self._file.load())
        self.monitor = HealthMonitor(self.names, chips, shipped_configuration())
        self.answers = ContainerResponses(
            settings.mount_method,
            self.card,
            chips,
            HostFiles(settings.host_root),
            mount_driver=settings.mount_driver,
        )
        self.reporter = Reporter(client, settings.node, settings.report_interval)
        self._containers: ContainerSpecs | None = None
        if settings.container_spec_dir is not None:
            self._containers = ContainerSpecs(settings.container_spec_dir)
        self._know_chips()
        self._pod_resources: PodResources = pod_resources or PodResourcesClient(
            settings.pod_resources, self.resource
        )
        #: Set when there is something to reconcile or to report.
        self._news = asyncio.Event()
        self._pods = ObjectWatch(
            client,
            "pods of this node",
            PODS.path(),
            {"fieldSelector": f"spec.nodeName={settings.node}"},
            NodePodWire,
            clock=self._clock,
            listed=self._pods_listed,
            changed=self._pod_changed,
        )
        self._calls = AllocateCalls(
            self.allocator,
            self._file,
            client,
            self._pod_resources,
            clock=self._clock,
            observer=self._observer,
            why_not=self.why_not,
            read_pods=self._pods.read,
            containers=self._containers,
            groups=ControlGroups(settings.cgroup_root),
            shares=self._shares,
        )
        self._events = FaultEvents(client, self._clock, settings.node, settings.pod, self.names, chips)
        self._looks = DriverPoll(self.discovery, self.answers.look)
        self._reporting = asyncio.Lock()
        #: How often kubelet began to watch the devices.
        self._watches = 0
        self._described = False
        self._restored = asyncio.Event()
        self._isolations = IsolationWatch(client, self._clock, self._isolate)
        self._maps: list[ObjectWatch[Any]] = [
            map_watch(client, self._clock, self.reporter.name, self._own_map),
            self._isolations,
            map_watch(client, self._clock, wellknown.FAULT_CONFIG_MAP, self._fault_configuration),
        ]
        #: Set when the faults of the chips were read once, as far as the driver tells them.
        self.looked = asyncio.Event()
        #: The names in ManuallySeparateNPU as last seen, and those in a write; None: no write is in flight.
        self._published: set[str] = set()
        self._writing: set[str] | None = None
        self.reports: list[ChipReport] = []
        #: What kubelet is sent: id and whether it is healthy.
        self.devices: tuple[tuple[str, bool], ...] = ()
        self.version = 0
        self._changed = asyncio.Event()
        self._refresh()

    # -- life ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until it is canceled."""
        if self.settings.mount_method == BY_CDI:
            await self._write_cdi()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pods.run())
                for watch in self._maps:
                    group.create_task(watch.run())
                group.create_task(self._look_at_chips())
                group.create_task(self._look_for_chips())
                group.create_task(self._report())
                group.create_task(self._events.run())
        finally:
            self._calls.save()
            self._file.close()
            await self._pod_resources.close()

    @property
    def ready(self) -> bool:
        """Whether the pods of the node are known."""
        return self._pods.synced.is_set()

    async def _write_cdi(self) -> None:
        try:
            await asyncio.to_thread(self.answers.write_cdi_spec, self.settings.cdi_folder)
        except OSError as problem:
            raise DriverError(
                f"{self.settings.cdi_folder}: the CDI specification is not written: {problem}"
            ) from None

    # -- pods ------------------------------------------------------------------------------------------

    def _pods_listed(self, wires: list[NodePodWire], version: int) -> None:
        self.allocator.replace_pods(
            [pod for wire in wires if (pod := pod_from_wire(wire)) is not None], self._clock.now(), version
        )
        self._news.set()

    def _pod_changed(self, kind: str, wire: NodePodWire) -> None:
        pod = pod_from_wire(wire)
        if pod is None:
            return
        previous = self.allocator.pods.get(pod.uid)
        if kind == "DELETED":
            self.allocator.drop_pod(pod.uid, self._clock.now(), pod)
        else:
            self.allocator.put_pod(pod)
        if pod.asks_for(self.resource) and (previous is None or kind == "DELETED" or previous.differs(pod)):
            self._news.set()

    # -- Allocate ------------------------------------------------------------------------------------------

    async def allocate(self, requests: Sequence[Sequence[str]]) -> list[ContainerAllocateResponse]:
        """The answers for the containers of one call (rule D2). Raises AllocationError."""
        try:
            ids = self.allocator.device_ids().values()
            check_request(requests, frozenset(chain.from_iterable(ids)), shares=self._shares is not None)
        except AllocationError:
            self._observer.failures.inc()
            raise
        await self._informed()
        served = await self._calls.allocate(requests)
        # What follows from it is computed after the answer: kubelet waits.
        self._news.set()
        return [self._answer(one.mount) for one in served]

    def _answer(self, mount: Mount) -> ContainerAllocateResponse:
        answer = self.answers.answer(mount.chips)
        if self._shares is not None:
            self._shares.complete(mount, answer)
        return answer

    async def _informed(self) -> None:
        """After a start: until it is known which chips are taken out of use; not for long."""
        events = [self._restored, *(watch.synced for watch in self._maps)]
        if all(event.is_set() for event in events):
            return
        try:
            async with asyncio.timeout(TIMEOUT):
                for event in events:
                    await event.wait()
        except TimeoutError:
            _LOG.warning("isolated chips are not known yet", why="the API server has not reported them")

    def why_not(self, chip: str) -> str | None:
        """Why a chip must not be mounted; None for a healthy one."""
        return self.monitor.why_not(chip, self._clock.now() // 1_000_000)

    def _allocator(self, ledger: Ledger) -> Allocator:
        chips, settings = tuple(self.names.values()), self.settings
        if settings.soft_share_folder is not None:
            if self.card not in SHARED_CARDS:
                raise DriverError(
                    f"-softShareDevConfigDir: chips of type {self.card} cannot be shared; "
                    f"must be one of {', '.join(SHARED_CARDS)}"
                )
            if self.card == ASCEND910A3 and not settings.single_die:
                raise DriverError("-softShareDevConfigDir: on A3 nodes requires -useSingleDieMode=true")
            self._shares = ShareFiles(settings.soft_share_folder, settings.host_root, ledger.mounts)
            return ShareAllocator(self.resource, chips, ledger)
        return Allocator(
            self.resource,
            chips,
            ledger,
            rank_table=self._rank_tables.of,
            same_rank_table=same_devices,
            mounts_by_environment=settings.mount_method == BY_RUNTIME,
            match_pods=settings.match_pods,
        )

    def _know_chips(self) -> None:
        """Take from the chips what device nodes, names of others and shares need."""
        if self._shares is not None and isinstance(self.allocator, ShareAllocator):
            self._shares.watch(self.card, self.chips)
            self.allocator.memory = {self.names[chip.physical]: chip.memory for chip in self.chips}
            unshared = [self.names[chip.physical] for chip in self.chips if chip.sharing is False]
            if unshared:
                self._notices.problem(
                    "sharing", "sharing mode is off", "enable it: npu-smi set -t device-share", chips=unshared
                )
            else:
                self._notices.works("sharing", "sharing mode is on")
        if self._containers is not None:
            nodes = chip_nodes(self.card, self.chips)
            self._containers.nodes = {
                node.container_path: self.names[chip.physical]
                for node, chip in zip(nodes, self.chips, strict=True)
            }
        if self.card == ASCEND910A5:
            self.allocator.doubts.other_names = {
                name_of(self.card, chip.logic): self.names[chip.physical] for chip in self.chips
            }

    # -- health ----------------------------------------------------------------------------------------

    async def _look_at_chips(self) -> None:
        while True:
            await self.look()
            period = self.settings.period
            await self._clock.sleep(min(period, RETRY_PERIOD) if self.monitor.silent else period)

    async def look(self) -> None:
        """Read the faults of the chips, and tell kubelet what changed."""
        seen = await self._looks.at(self.card, {self.names[chip.physical]: chip for chip in self.chips})
        if self.settings.mount_method == BY_CDI:
            # Device nodes and driver files may have come since; a specification that is gone comes back.
            try:
                await self._write_cdi()
                self._notices.works("cdi", "CDI specification renewed")
            except DriverError as problem:
                self._notices.problem("cdi", "CDI specification not renewed", str(problem))
        self.monitor.saw(seen, self._clock.now() // 1_000_000)
        tracker = self.monitor.tracker
        self._events.add(tracker.take_changes(), tracker.configuration)
        self._refresh()
        self.looked.set()

    async def _look_for_chips(self) -> None:
        """Chips may come back after a reset, and addresses may change; a failed look changes nothing."""
        while True:
            await self._clock.sleep(RETRY_PERIOD if self.discovery.problems else DISCOVERY_PERIOD)
            await self.discover()

    async def discover(self) -> None:
        """Look for chips, and take in those that answer."""
        chips, codes = await self.discovery.renewed(self.card, self.chips)
        if chips != self.chips:
            self._take_in(chips, Poll(codes))

    def _take_in(self, chips: list[Chip], seen: Poll) -> None:
        """These are the chips from now on."""
        self.chips = chips
        self.names = {chip.physical: name_of(self.card, chip.physical) for chip in chips}
        for physical in seen.codes:
            _LOG.info("chip found", chip=self.names[physical])
        self.allocator.chips = tuple(self.names.values())
        self._know_chips()
        self.answers.watch(chips)
        self.monitor.watch(self.names, chips)
        self._events.watch(self.names, chips)
        self.monitor.saw(seen, self._clock.now() // 1_000_000)
        self._isolate()
        self._described = False
        self._refresh()
        self._news.set()

    def _refresh(self) -> None:
        """Compute what is sent to kubelet and the cluster, and wake the tasks that send it."""
        now = self._clock.now() // 1_000_000
        reports = self.monitor.reports(self.allocator.used(), now)
        ids = self.allocator.device_ids()
        devices = tuple((identity, chip.healthy) for chip in reports for identity in ids[chip.name])
        if reports != self.reports:
            self.reports = reports
            self._news.set()
        if devices != self.devices:
            self.devices = devices
            self.version += 1
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    def watched(self) -> None:
        """Kubelet begins to watch: it is a new one, and its Node may be new, without what we wrote."""
        self._watches += 1
        self._described = False
        self._news.set()

    async def changed(self, version: int) -> None:
        """Wait until kubelet must be sent something else than at that version."""
        while self.version == version:
            await self._changed.wait()

    # -- reporting -------------------------------------------------------------------------------------

    async def _report(self) -> None:
        # What is said about chips with faults stays as it was before the start until they were looked at.
        await self.looked.wait()
        while True:
            await self._wait(await self.report())

    async def report(self) -> float:
        """Make pods, Node and ConfigMap say what the node has; seconds until the next time."""
        async with self._reporting:
            self._news.clear()
            try:
                if not self._restored.is_set():
                    self._restore(await self.reporter.read())
                if not self._described:
                    await self._describe()
                return await self._report_once()
            except API_ERRORS as error:
                self._observer.api_errors.inc("report")
                _LOG.warning("not reported", why=str(error))
                return min(self.settings.period, MAX_TURN)

    async def _wait(self, seconds: float) -> None:
        """Until there is news, at most so long; reports have their least distance."""
        between = self.settings.report_interval
        await self._clock.sleep(min(seconds, between))
        if seconds > between:
            await first_of(self._news.wait(), self._clock.sleep(seconds - between))

    async def _describe(self) -> None:
        chips, watches = list(self.chips), self._watches
        self._driver_version = await self._looks.version() or self._driver_version
        links = read_links(await asyncio.to_thread(self.answers.links))
        address = await describe_node(
            self._client,
            self.settings.node,
            self.card,
            chips,
            self._driver_version,
            labels=self.settings.set_labels,
            complete=not self.discovery.problems,
            levels=partial(level_lists, self.card, chips, links=links),
        )
        self._rank_tables.know(chips, address, level_lists(self.card, chips, address, links))
        self._described = chips == self.chips and watches == self._watches

    async def _report_once(self) -> float:
        """Compare with kubelet, correct pods, write the ConfigMap; seconds until the next turn."""
        if self._pods.synced.is_set() and await self._calls.read_listing():
            await self._calls.correct()
        self._refresh()
        self._calls.save()
        now = self._clock.monotonic()
        content = self._content()
        if self.reporter.next_write(content, now):
            names = self._writing = set(self.monitor.tracker.manually_separated())
            try:
                done = await self.reporter.write(content, self._clock.now() // 1_000_000_000, now)
            finally:
                self._writing = None
            if done:
                self._published = names
            else:
                # Another client wrote: what it wrote comes first.
                self._own_map(await self.reporter.read())
                return self.settings.report_interval
            self._observer.reports.inc()
        return min(self.settings.period, MAX_TURN)

    def take_figures(self, readings: Mapping[int, Readings]) -> None:
        """What the driver measures, by physical id."""
        percent: dict[str, float] = {}
        pods: dict[str, str] = {}
        for physical, reading in readings.items():
            name = self.names.get(physical)
            pod = self.allocator.pod_of(name) if name is not None else None
            if name is not None and pod is not None and reading.utilization is not None:
                percent[name], pods[name] = reading.utilization, pod.uid
        self._utilization.take(percent, pods, self._clock.monotonic())

    def _content(self) -> Content:
        first, tracker, allocator = lead(self.chips), self.monitor.tracker, self.allocator
        configuration = tracker.configuration
        rest = {
            wellknown.MANUALLY_SEPARATE_KEY: ",".join(sorted(tracker.manually_separated())),
            wellknown.UPGRADE_REASON_KEY: upgrade_fault_reason(tracker.escalations(), configuration.spelling),
            wellknown.DESCRIPTION_KEY: DESCRIPTION,
            wellknown.MOUNTED_CHIPS_KEY: chips_text(allocator.chips_of_pods()),
            wellknown.DOUBTFUL_CHIPS_KEY: chips_text(allocator.doubtful_chips()),
            wellknown.KUBELET_LISTING_KEY: listing_text(self._calls.listing),
            wellknown.ISOLATED_CHIPS_KEY: ",".join(sorted(self.monitor.isolated)),
        }
        if self.card == ASCEND910A3:
            rest[wellknown.SWITCH_INFO_KEY] = switch_info_cfg(
                self._looks.switch_faults, configuration.switch_levels, 0
            )
        elif self.card == ASCEND910A5:
            rest[wellknown.SWITCH_INFO_KEY] = EMPTY_SWITCH_INFO
        if (shares := allocator.shares_of_pods()) is not None:
            rest[wellknown.MOUNTED_SHARES_KEY] = shares_text(shares)
        with_rack = self.card == ASCEND910A5 and first.superpod_type in (1, 2)
        return Content(
            device_list(self.resource, self.reports, allocator.used()),
            (first.superpod, first.server_index, first.rack if with_rack else None),
            rest,
            self._utilization.means(),
        )

    # -- ConfigMaps ------------------------------------------------------------------------------------

    def _restore(self, stored: ConfigMapWire | None) -> None:
        """What the ConfigMap says from before the start."""
        # Also those of chips that the node does not have, or no longer has: the operator named them.
        separated = names_in(stored, wellknown.MANUALLY_SEPARATE_KEY)
        for chip, reasons in sorted(reasons_in(stored).items()):
            for reason in reasons:
                # Without the chip's name in the list an operator has taken this level back.
                if chip in separated or reason.level != FaultLevel.MANUALLY_SEPARATE:
                    self.monitor.tracker.restore(chip, reason)
        for chip in sorted(separated):
            self.monitor.tracker.separated(chip, self._clock.now() // 1_000_000)
        self._published = separated
        self.allocator.doubts.restore(doubtful_in(stored))
        self._isolations.restore(self.settings.node, names_in(stored, wellknown.ISOLATED_CHIPS_KEY))
        self._restored.set()

    def _own_map(self, stored: ConfigMapWire | None) -> None:
        """An operator may have added or removed names; a ConfigMap that is gone is written again."""
        if not self._restored.is_set():
            return
        if stored is None:
            self.reporter.lost()
            self._news.set()
            return
        if not self.reporter.saw(stored.metadata.resource_version or ""):
            return
        seen = names_in(stored, wellknown.MANUALLY_SEPARATE_KEY)
        now = self._clock.now() // 1_000_000
        added, removed = seen - self._published, self._published - seen
        if self._writing is not None:
            # The version before or after our write: an operator did not change what only our write changes.
            added, removed = added - self._writing, removed & self._writing
        for chip in sorted(added):
            here = chip in self.names.values()
            _LOG.warning("chip separated by an operator", chip=chip, on_this_node=here)
            self.monitor.tracker.separated(chip, now)
        for chip in sorted(removed):
            _LOG.warning("chip released by an operator", chip=chip)
            self.monitor.tracker.release(chip)
        if seen != self._published:
            self._published = seen
            self._refresh()
            self._news.set()

    def _isolate(self) -> None:
        entries = self._isolations.isolations.values()
        isolated = isolated_chips(entries, self.settings.node, tuple(self.names.values()))
        if frozenset(isolated) != self.monitor.isolated:
            for chip, one in isolated.items():
                _LOG.warning("chip isolated", chip=chip, isolation=one.name, by=one.by, reason=one.reason)
            self.monitor.isolated = frozenset(isolated)
            self._refresh()
            self._news.set()

    def _fault_configuration(self, stored: ConfigMapWire | None) -> None:
        data = stored.texts if stored is not None else {}
        issues = Findings(f"ConfigMap {wellknown.KUBE_SYSTEM}/{wellknown.FAULT_CONFIG_MAP}")
        self.monitor.configure(read_configuration(data, issues))
        for problem in issues.errors:
            _LOG.error("invalid fault configuration; the default is used for this part", why=str(problem))
        self._refresh()

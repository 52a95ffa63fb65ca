"""The device plugin put together: driver, plugin, kubelet, figures, until a signal asks to stop."""

from __future__ import annotations

import asyncio
import signal
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from ringwise.device.cards import Chip, UnknownCardError
from ringwise.device.discovery import Discovery
from ringwise.device.drivers.dcmi import Dcmi
from ringwise.device.drivers.driver_calls import DriverCalls
from ringwise.device.drivers.npu_smi import NpuSmi
from ringwise.device.drivers.port import Driver, DriverError, NoChipsError
from ringwise.device.drivers.simulated import SimulatedDriver, SimulatedFile, control_socket
from ringwise.device.metrics import DeviceMetrics
from ringwise.device.plugin import NodePlugin
from ringwise.device.service import Registration, SilentKubeletError
from ringwise.device.settings import PluginSettings
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.config import Access, find_access
from ringwise.kubeclient.tasks import stop_signal
from ringwise.log import Logger
from ringwise.metrics.endpoints import serving
from ringwise.records import dataclass

_LOG = Logger()

AUTO = "auto"
#: Seconds between two readings of temperature, power and the like.
READING_PERIOD = 30.0
#: Seconds between two attempts to find chips at the start.
DISCOVERY_PAUSE = 10.0
#: Seconds within which a driver must be open. Less than the liveness probe of the DaemonSet allows: its log
#: says what hangs.
OPEN_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    """What a person chose on the command line."""

    settings: PluginSettings
    driver: str = AUTO
    simulated_chips: Path | None = None
    simulated_socket: Path | None = None
    kubeconfig: str | None = None
    context: str | None = None
    metrics_address: str = ""
    health_address: str = ""
    #: For HTTPS at that address.
    health_tls: ssl.SSLContext | None = None
    #: Seconds that the start waits for chips.
    discovery_timeout: float = 600.0


def open_driver(kind: str, simulated: Path | None) -> Driver:
    """The driver that was asked for, or the first that works. Raises DriverError."""
    if kind == "simulated" or (kind == AUTO and simulated is not None):
        if simulated is None:
            raise NoChipsError("--driver simulated requires --simulated-chips FILE")
        return SimulatedFile(simulated)
    if kind == "npu-smi":
        return NpuSmi()
    if kind == "dcmi":
        return Dcmi()
    try:
        return Dcmi()
    except DriverError as missing:
        try:
            return NpuSmi()
        except NoChipsError as also:
            raise NoChipsError(
                f"no usable NPU found: {missing}; {also}. On a machine without NPUs, describe some "
                "with --simulated-chips FILE"
            ) from None


def run(options: DeviceOptions) -> None:
    """Until a signal asks to stop. Raises DriverError, KubeConfigError, AddressError, SilentKubeletError."""
    access = find_access(options.kubeconfig, options.context)
    try:
        asyncio.run(_run(options, access))
    except* (SilentKubeletError, DriverError) as group:
        raise group.exceptions[0] from None


class _Readiness:
    """What `/readyz` says: not ready, until the component is there to ask."""

    def __init__(self) -> None:
        self.check: Callable[[], bool] = lambda: False


async def _run(options: DeviceOptions, access: Access) -> None:
    # Until it is open there is nothing to end cleanly: a signal ends the process at once.
    driver = await opened(options.driver, options.simulated_chips)
    stop = stop_signal(signal.SIGQUIT)
    async with AsyncExitStack() as stack:
        metrics, readiness = DeviceMetrics(), _Readiness()
        # Before chips are looked for: that may take longer than a liveness probe waits.
        await stack.enter_async_context(
            serving(
                metrics,
                lambda: readiness.check(),
                metrics_address=options.metrics_address,
                health_address=options.health_address,
                health_tls=options.health_tls,
            )
        )
        discovery = Discovery(driver)
        chips = await discovered(discovery, options.discovery_timeout, stop)
        if chips:
            await serve(options, access, discovery, chips, stop, metrics, readiness)


async def opened(kind: str, simulated: Path | None, timeout: float = OPEN_TIMEOUT) -> Driver:
    """The driver that was asked for. Raises DriverError, also when it hangs while it is opened."""
    calls = DriverCalls(timeout)
    try:
        return await calls.one("open", partial(open_driver, kind, simulated))
    except DriverError as problem:
        if not calls.hanging:
            raise
        raise DriverError(
            f"the NPU driver did not respond at startup: {problem}; see what `npu-smi info` and dmesg say on "
            "the node, and reboot the node if npu-smi hangs as well"
        ) from None


async def discovered(discovery: Discovery, timeout: float, stop: asyncio.Event) -> list[Chip]:
    """The chips that answer, when one does; after a boot that may take minutes."""
    waited = 0.0
    while not stop.is_set():
        try:
            return await discovery.look()
        except DriverError as problem:
            if discovery.driver.kind == "simulated" or waited >= timeout:
                raise
            discovery.notices.problem("discovery", "no chips yet", str(problem), again_in=DISCOVERY_PAUSE)
        waited += DISCOVERY_PAUSE
        try:
            async with asyncio.timeout(DISCOVERY_PAUSE):
                await stop.wait()
        except TimeoutError:
            continue
    return []


async def serve(
    options: DeviceOptions,
    access: Access,
    discovery: Discovery,
    chips: list[Chip],
    stop: asyncio.Event,
    metrics: DeviceMetrics,
    readiness: _Readiness,
) -> None:
    """The component itself; ends when `stop` is set."""
    driver = discovery.driver
    if isinstance(driver, Dcmi):
        try:
            await discovery.calls.one("subscription", driver.subscribe)
        except DriverError as problem:
            _LOG.warning("fault events not subscribed; chips are polled", why=str(problem))
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(access, connections=16, component="device-plugin"))
        try:
            plugin = NodePlugin(
                options.settings, driver, chips, client, observer=metrics.calls, discovery=discovery
            )
        except UnknownCardError as problem:
            raise DriverError(str(problem)) from None
        registration = Registration(plugin)
        metrics.follow(plugin)
        if options.simulated_socket is not None and isinstance(driver, SimulatedDriver):
            await stack.enter_async_context(control_socket(driver, options.simulated_socket))
        readiness.check = lambda: plugin.ready and bool(registration.service.streams)
        _LOG.info(
            "starting",
            node=options.settings.node,
            driver=driver.kind,
            card=plugin.card,
            chips=len(chips),
            not_answering=len(discovery.problems),
            mounting=plugin.settings.mount_method,
            server=access.server,
        )
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(plugin.run()), group.create_task(registration.run())]
            if options.metrics_address:
                tasks.append(group.create_task(_read_figures(discovery, plugin, metrics)))
            group.create_task(_ended(stop, tasks))


async def _ended(stop: asyncio.Event, tasks: list[asyncio.Task[None]]) -> None:
    await stop.wait()
    for task in tasks:
        task.cancel()


async def _read_figures(discovery: Discovery, plugin: NodePlugin, metrics: DeviceMetrics) -> None:
    while True:
        figures, problems = await discovery.calls.each(
            {("figures", chip.physical): partial(discovery.driver.readings, [chip]) for chip in plugin.chips}
        )
        metrics.readings = {physical: one for part in figures.values() for physical, one in part.items()}
        plugin.take_figures(metrics.readings)
        if problems:
            discovery.notices.problem("figures", "utilization not read", next(iter(problems.values())))
        else:
            discovery.notices.works("figures", "utilization read again")
        await asyncio.sleep(READING_PERIOD)

"""Drivers that fail, hang and lie: one bad card affects no other one, and comes in when it answers."""

from __future__ import annotations

import asyncio
import ctypes
import io
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ringwise.apps import device_plugin
from ringwise.device.cards import Chip, node_annotations, node_labels
from ringwise.device.discovery import Discovery
from ringwise.device.drivers import dcmi
from ringwise.device.drivers.driver_calls import DriverCalls
from ringwise.device.drivers.port import DriverError, NoChipsError, Place
from ringwise.device.drivers.simulated import SimulatedDriver, SimulatedFile
from ringwise.device.health.configuration import LINK_DOWN, shipped_configuration
from ringwise.device.health.monitor import SILENCE, HealthMonitor, Poll
from tests.builders.values import CHIP
from tests.device.rig import CONFIG_MAPS, NODES, REPORT, rig


def steer(library: ctypes.CDLL, **values: int) -> None:
    for name, value in values.items():
        ctypes.c_int.in_dll(library, f"test_{name}").value = value


async def found(discovery: Discovery) -> tuple[list[int], dict[Place, str]]:
    chips = await discovery.look()
    return [chip.physical for chip in chips], discovery.problems


# -- libdcmi.so


async def test_a_card_that_fails_is_left_out_until_it_answers(library: ctypes.CDLL, log: io.StringIO) -> None:
    discovery = Discovery(dcmi.Dcmi(library))
    steer(library, failing_card=3, failing_code=-8005)
    why = "dcmi_get_device_num_in_card returned -8005 (internal error)"
    for _ in range(3):
        assert await found(discovery) == ([4, 5], {Place(3, 0): why})
    (line,) = log.getvalue().splitlines()
    said = json.loads(line)
    assert (said["event"], said["card"], said["device"], said["why"]) == ("chip skipped", 3, 0, why)
    steer(library, failing_card=-1)
    assert await found(discovery) == ([4, 5, 2], {})


async def test_a_card_that_hangs_is_left_out_until_it_answers(library: ctypes.CDLL) -> None:
    steer(library, hanging_card=3)
    calls = DriverCalls(2.0)
    discovery = Discovery(dcmi.Dcmi(library), calls)
    for _ in range(2):
        assert [chip.physical for chip in await discovery.look()] == [4, 5]
        assert discovery.problems == {Place(3, 0): "the driver does not answer within 2s"}
        assert calls.hanging == 1, "what hangs is not called again"
    steer(library, hanging_card=-1)
    while calls.hanging:
        await asyncio.sleep(0.01)
    assert [chip.physical for chip in await discovery.look()] == [4, 5, 2]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"chip_count": 0}, "dcmi_get_device_num_in_card returned 0: must be 1 to 4"),
        ({"chip_count": 1_000_000}, "dcmi_get_device_num_in_card returned 1000000: must be 1 to 4"),
        ({"logic": -7}, "dcmi_get_device_logic_id returned the invalid ID -7"),
    ],
)
async def test_wrong_numbers_of_one_card(library: ctypes.CDLL, wrong: dict[str, int], why: str) -> None:
    steer(library, **wrong)
    assert await found(Discovery(dcmi.Dcmi(library))) == ([4, 5], {Place(3, 0): why})


@pytest.mark.parametrize("count", [-1, 65, 2**31 - 1])
def test_a_wrong_number_of_cards(library: ctypes.CDLL, count: int) -> None:
    steer(library, card_count=count)
    with pytest.raises(DriverError, match=f"lists {count} cards: must be 0 to 64"):
        dcmi.Dcmi(library).cards()


async def test_no_card_at_all(library: ctypes.CDLL) -> None:
    steer(library, card_count=0)
    with pytest.raises(NoChipsError, match="lists no NPUs"):
        await found(Discovery(dcmi.Dcmi(library)))


@pytest.mark.parametrize("count", [-5, 129])
def test_a_wrong_number_of_codes_is_no_answer(library: ctypes.CDLL, count: int) -> None:
    driver = dcmi.Dcmi(library)
    chip = driver.chip(Place(0, 0))
    steer(library, code_count=count)
    with pytest.raises(DriverError, match=f"returned {count} codes: must be 0 to 128"):
        driver.codes(chip)


async def test_a_name_that_is_no_text_costs_its_card_only(library: ctypes.CDLL) -> None:
    name = ctypes.create_string_buffer(b"\xff\xfe" * 16)
    ctypes.c_void_p.in_dll(library, "test_name").value = ctypes.addressof(name)
    physical, problems = await found(Discovery(dcmi.Dcmi(library)))
    # The board decides for A3; a name is not a matter there.
    assert (physical, problems) == ([4, 5, 2], {})
    driver = dcmi.Dcmi(library)
    assert "\ufffd" in driver.chip(Place(3, 0)).chip_name


def test_a_driver_that_was_reset_is_opened_again(library: ctypes.CDLL) -> None:
    driver = dcmi.Dcmi(library)
    steer(library, list_code=-8017)
    assert driver.cards() == [0, 3]
    assert ctypes.c_int.in_dll(library, "test_inits").value == 2


@pytest.mark.parametrize("code", [-8012, -8008, -8007])
def test_a_card_that_left_is_dropped(library: ctypes.CDLL, code: int) -> None:
    driver = dcmi.Dcmi(library)
    chip = driver.chip(Place(3, 0))
    steer(library, failing_card=3, failing_code=code)
    assert driver.codes(chip) is None


# -- what any driver may say


class Given:
    """A driver with these chips."""

    kind, timeout = "simulated", 5.0

    def __init__(self, *chips: Chip | Exception) -> None:
        self._chips = chips

    def cards(self) -> list[int]:
        return list(range(len(self._chips)))

    def places(self, card: int) -> list[Place]:
        return [Place(card, 0)]

    def chip(self, place: Place) -> Chip:
        one = self._chips[place.card]
        if isinstance(one, Exception):
            raise one
        return one

    def codes(self, chip: Chip) -> list[int] | None:
        raise DriverError(f"the codes of chip {chip.physical} cannot be read")


def chip(physical: int, logic: int = 0, name: str = "910B3") -> Chip:
    return Chip(physical, logic, physical, 0, chip_name=name)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (chip(-1), "physical ID -1 and logic ID 0 do not belong to a chip"),
        (chip(0xFFFFFFFF), "physical ID 4294967295 and logic ID 0 do not belong to a chip"),
        (chip(1, -1), "physical ID 1 and logic ID -1 do not belong to a chip"),
        (chip(0), "physical id 0 is that of card 0, chip 0"),
        (chip(1, name="\ufffd\ufffd"), 'chip "��" on board 0x0 has an unknown type'),
        (DriverError("broken"), "broken"),
        (ValueError("no number"), "ValueError: no number"),
    ],
)
async def test_one_bad_chip_is_left_out(bad: Chip | Exception, why: str) -> None:
    driver: Any = Given(chip(0), bad, chip(2))
    assert await found(Discovery(driver)) == ([0, 2], {Place(1, 0): why})


async def test_all_bad_chips_and_chips_of_several_types_are_an_error() -> None:
    nothing: Any = Given(chip(-1), DriverError("broken"))
    with pytest.raises(DriverError, match=r"no chip responds; card 1, chip 0: broken"):
        await found(Discovery(nothing))
    mixed: Any = Given(chip(0), chip(1, name="310P3"))
    with pytest.raises(DriverError, match="chips of several types on one node: Ascend310P, Ascend910B"):
        await found(Discovery(mixed))
    discovery = Discovery(mixed)
    assert [one.physical for one in await discovery.look("Ascend910B")] == [0]
    assert "of type Ascend310P" in discovery.problems[Place(1, 0)]


async def test_what_a_driver_does_not_say_this_time_stays_as_it_was() -> None:
    before = Chip(
        0, 0, 0, 0, chip_name="910B3", ip="10.0.0.1", superpod=4, server_index=2, memory=65536, numa=1
    )
    said: Any = Given(chip(0), chip(1))
    now, codes = await Discovery(said).renewed("Ascend910B", [before])
    # A new chip whose faults cannot be read does not count yet.
    assert (now, codes) == ([before], {})
    moved: Any = Given(Chip(0, 3, 0, 0, chip_name="910B3", ip="10.0.0.2"))
    ((found,), _) = await Discovery(moved).renewed("Ascend910B", [before])
    assert (found.logic, found.ip, found.superpod, found.numa) == (3, "10.0.0.2", 4, 1)


def test_one_chip_that_does_not_know_its_superpod_moves_no_node() -> None:
    chips = [chip(0), Chip(1, 1, 1, 0, chip_name="910B3", superpod=7, server_index=3)]
    assert node_annotations("Ascend910A3", chips, "{}")["superPodID"] == "7"
    assert node_labels("Ascend910A3", chips, "", {})["huawei.com/topotree.superpodid"] == "7"


# -- the plugin


async def test_chips_that_come_later_are_taken_in(tmp_path: Path) -> None:
    path = tmp_path / "chips.json"
    path.write_text(json.dumps({"count": 8, "board": 0x30, "silent": [3]}))
    async with rig(started=False) as node:
        node.driver = SimulatedFile(path)
        await node.start(await Discovery(node.driver).look())
        await node.plugin.discover()
        assert set(await node.devices(7)) == {f"Ascend910-{at}" for at in (0, 1, 2, 4, 5, 6, 7)}
        await node.until(lambda: "Ascend910-7" in node.device_list()[CHIP])

        def described() -> tuple[int, str | None]:
            meta = node.api.get(NODES, "node-1")["metadata"]
            infos = json.loads(meta["annotations"]["baseDeviceInfos"])
            return len(infos), meta["labels"].get("accelerator-type")

        # The number of chips does not tell the board before all of them are there.
        await node.until(lambda: described() == (7, None))
        path.write_text(json.dumps({"count": 8, "board": 0x30}))
        await node.plugin.discover()
        assert "Ascend910-3" in await node.devices(8)
        await node.until(lambda: "Ascend910-3" in node.device_list()[CHIP].split(","))
        await node.until(lambda: described() == (8, "module-910b-8"))
        node.bind("train", "Ascend910-3")
        assert await node.admit("train") == (3,)


async def test_a_chip_that_comes_with_a_fault_is_never_offered_as_healthy(tmp_path: Path) -> None:
    path = tmp_path / "chips.json"
    path.write_text(json.dumps({"count": 2}))
    async with rig(started=False, period=3600.0) as node:
        node.driver = SimulatedFile(path)
        await node.start()
        await node.devices(2)
        path.write_text(json.dumps({"count": 3, "faults": {"2": ["80E18402"]}}))
        seen: list[dict[str, bool]] = []
        refresh = node.plugin._refresh

        def noted() -> None:
            refresh()
            seen.append(dict(node.plugin.devices))

        node.plugin._refresh = noted  # type: ignore[method-assign]
        await node.plugin.discover()
        assert seen
        assert all(devices.get("Ascend910-2") is not True for devices in seen)
        assert seen[-1]["Ascend910-2"] is False


class Hanging(SimulatedDriver):
    """A driver whose calls about chip 3 do not return while it hangs."""

    timeout = 0.1

    def __init__(self) -> None:
        super().__init__({"count": 8})
        self.free = threading.Event()

    def codes(self, chip: Chip) -> list[int] | None:
        if chip.physical == 3:
            self.free.wait()
        return super().codes(chip)

    def version(self) -> str:
        self.free.wait()
        return super().version()


async def test_a_driver_that_hangs_blocks_neither_health_nor_allocate_nor_the_report() -> None:
    async with rig(started=False) as node:
        driver = node.driver = Hanging()
        try:
            await node.start()
            # Nothing is known of chip 3, so it is not offered.
            await node.devices(7)
            driver.change(5, [0x80E18402])
            await node.devices(6)
            await node.until(lambda: node.device_list()[f"{CHIP}-Unhealthy"] == "Ascend910-3,Ascend910-5")
            node.bind("train", "Ascend910-1")
            assert await node.admit("train") == (1,)
            driver.free.set()
            await node.devices(7)
            driver.change(3, [0x80E18402])
            await node.devices(6)
        finally:
            driver.free.set()


class Slow(SimulatedDriver):
    """A driver that says nothing about faults until it is let go."""

    timeout = 60.0

    def __init__(self, description: dict[str, Any]) -> None:
        super().__init__(description)
        self.asked, self.free = threading.Event(), threading.Event()

    def codes(self, chip: Chip) -> list[int] | None:
        self.asked.set()
        self.free.wait()
        return super().codes(chip)


async def test_before_faults_were_read_neither_kubelet_nor_the_cluster_hears_of_chips() -> None:
    async with rig(started=False) as node:
        report = {
            "metadata": {"namespace": "kube-system", "name": REPORT.split("/")[1]},
            "data": {"x": "y"},
        }
        node.api.put(CONFIG_MAPS, report)
        driver = node.driver = Slow({"count": 8, "faults": {"2": ["80E18402"]}})
        sent: list[tuple[tuple[str, bool], ...]] = []
        try:
            await node.start()
            changed = node.plugin.changed

            async def noted(version: int) -> None:
                sent.append(node.plugin.devices)
                await changed(version)

            node.plugin.changed = noted  # type: ignore[method-assign]
            await node.until(lambda: driver.asked.is_set() and node.plugin.ready)
            assert (node.kubelet.registrations, node.report()) == (0, {"x": "y"})
            driver.free.set()
            await node.devices(7)
            await node.until(lambda: node.device_list()[f"{CHIP}-Unhealthy"] == "Ascend910-2")
        finally:
            driver.free.set()
        assert [dict(devices)["Ascend910-2"] for devices in sent] == [False] * len(sent)


async def test_a_driver_that_hangs_while_it_is_opened_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    free = threading.Event()
    monkeypatch.setattr(device_plugin, "Dcmi", free.wait)
    try:
        with pytest.raises(DriverError, match=r"did not respond at startup: .* within 0\.05s; .*dmesg"):
            await device_plugin.opened("dcmi", None, 0.05)
    finally:
        free.set()


# -- health


def monitor() -> HealthMonitor:
    chips = [chip(number, number) for number in range(2)]
    return HealthMonitor({0: "Ascend910-0", 1: "Ascend910-1"}, chips, shipped_configuration())


def test_a_chip_of_which_nothing_is_known_gets_no_new_pods_and_keeps_those_it_has() -> None:
    health = monitor()
    health.saw(Poll({0: [], 1: []}), 1000)
    # The silence counts from the first look in vain, however often it is looked again.
    for moment in (2000, 2000 + SILENCE // 2, 2000 + SILENCE - 1):
        health.saw(Poll({0: []}, unread=[1]), moment)
    assert all(report.healthy for report in health.reports((), 2000 + SILENCE - 1))
    late = 2000 + SILENCE
    assert [report.healthy for report in health.reports((), late)] == [True, False]
    assert [report.healthy for report in health.reports({"Ascend910-1"}, late)] == [True, True]
    assert health.reports((), late)[1].fault.level == "PreSeparateNPU"
    assert health.why_not("Ascend910-1", late) is None
    assert set(health.silent) == {"Ascend910-1"}
    health.saw(Poll({0: [], 1: []}), late)
    assert all(report.healthy for report in health.reports((), late))


def test_a_chip_that_was_never_read_gets_no_new_pods() -> None:
    health = monitor()
    health.saw(Poll({0: []}, unread=[1]), 1000)
    assert [report.healthy for report in health.reports((), 1000)] == [True, False]
    health.saw(Poll({0: [], 1: []}), 2000)
    health.saw(Poll({0: []}, unread=[1]), 3000)
    assert all(report.healthy for report in health.reports((), 3000))


def states(health: HealthMonitor, now: int) -> list[tuple[bool, bool, tuple[str, ...]]]:
    return [
        (report.healthy, report.network_healthy, report.network_fault.codes)
        for report in health.reports((), now)
    ]


def test_a_network_port_that_does_not_work_is_a_link_that_is_down() -> None:
    health = monitor()
    health.saw(Poll({0: [], 1: []}, network={0: True, 1: False}), 1000)
    assert states(health, 1000) == [(True, True, ()), (True, True, ("81078603",))]
    # As for the code itself: after 20 seconds the network is unhealthy, and a minute after the end healthy.
    health.saw(Poll({0: [], 1: [LINK_DOWN]}, network={0: True}), 22_000)
    assert states(health, 22_000) == [(True, True, ()), (True, False, ("81078603",))]
    health.saw(Poll({0: [], 1: []}, network={1: True}), 30_000)
    assert states(health, 30_000)[1] == (True, False, ())
    assert states(health, 91_000)[1] == (True, True, ())


@pytest.mark.parametrize(
    ("description", "listed"),
    [({"count": 4}, "Ascend910-2"), ({"count": 4, "chip_name": "Ascend950PR"}, "")],
)
async def test_networks_of_boards_with_a_port_are_reported(description: dict[str, Any], listed: str) -> None:
    async with rig({**description, "network_down": [2]}, started=False) as node:
        await node.start()
        clock = Later(node.plugin._clock)
        node.plugin._clock = clock
        await node.plugin.look()
        clock.later = 21 * 10**9
        await node.plugin.look()
        names = [report.name for report in node.plugin.reports if not report.network_healthy]
        assert ",".join(names) == listed


class Later:
    """A clock that is ahead."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self.later = 0
        self.monotonic: Callable[[], float] = clock.monotonic
        self.sleep: Callable[[float], Any] = clock.sleep

    def now(self) -> int:
        return int(self._clock.now()) + self.later

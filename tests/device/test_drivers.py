"""The three drivers: libdcmi.so (a library with its symbols), npu-smi (recorded output), a simulation."""

from __future__ import annotations

import asyncio
import ctypes
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ringwise.device.cards import Chip, card_type
from ringwise.device.drivers import dcmi, lingqu
from ringwise.device.drivers.hccn import LinkStates, ProgramFailedError, run_program
from ringwise.device.drivers.lingqu import Lingqu
from ringwise.device.drivers.npu_smi import NpuSmi, chip_map, info_table
from ringwise.device.drivers.port import Driver, DriverError, FaultEvent, NoChipsError
from ringwise.device.drivers.simulated import SimulatedDriver, SimulatedFile, control_socket


def chips_of(driver: Driver) -> list[Chip]:
    return [driver.chip(place) for card in driver.cards() for place in driver.places(card)]


# -- DCMI


def test_dcmi_finds_the_chips(library: ctypes.CDLL) -> None:
    driver = dcmi.Dcmi(library)
    chips = chips_of(driver)
    assert [(chip.physical, chip.logic, chip.card, chip.device) for chip in chips] == [
        (4, 0, 0, 0),
        (5, 1, 0, 1),
        (2, 2, 3, 0),
    ]
    first = chips[0]
    assert (first.chip_name, first.board, first.product) == ("910B3", 0xB0, "Atlas 900 A3")
    assert card_type(first.chip_name, first.board) == "Ascend910A3"
    assert (first.ip, chips[2].ip) == ("192.168.20.100", "fd00:1::9")
    assert (first.superpod, first.server_index, first.super_device, first.rack) == (1, 6, 100, 2)
    assert chips[2].superpod == -1
    assert (first.memory, first.ai_cores) == (65536, 20)
    assert (first.pcie, chips[2].pcie) == ("0000:C1:00.0", "0000:C1:03.0")
    assert first.vdie == "000000A0-000000A1-000000A2-000000A3-000000A4"
    assert driver.version() == "24.1.rc2"
    assert first.model == "910B3-Ascend-V1"
    assert [chip.sharing for chip in chips] == [True, False, None]


def test_dcmi_finds_the_numa_node_of_a_chip_by_its_pci_device(library: ctypes.CDLL, tmp_path: Path) -> None:
    for device, node in (("0000:c1:00.0", "1"), ("0000:c1:03.0", "-1")):
        (tmp_path / "bus/pci/devices" / device).mkdir(parents=True)
        (tmp_path / "bus/pci/devices" / device / "numa_node").write_text(f"{node}\n")
    chips = chips_of(dcmi.Dcmi(library, tmp_path))
    assert (chips[0].numa, chips[2].numa) == (1, None)


def test_dcmi_reads_codes_and_notices_a_dropped_card(library: ctypes.CDLL) -> None:
    driver = dcmi.Dcmi(library)
    chips = chips_of(driver)
    assert driver.codes(chips[0]) == []
    assert driver.codes(chips[1]) == [0x80E18402, 0x81078603]
    library.test_drop(3)
    assert driver.codes(chips[2]) is None


def test_dcmi_reads_which_chips_are_linked(library: ctypes.CDLL) -> None:
    driver = dcmi.Dcmi(library)
    first, second, alone = chips_of(driver)
    assert (driver.linked(first, second), driver.linked(first, alone)) == (True, False)
    ctypes.c_int.in_dll(library, "test_failing_card").value = 0
    ctypes.c_int.in_dll(library, "test_failing_code").value = dcmi.NOT_SUPPORTED
    assert driver.linked(first, second) is None


def test_dcmi_hears_fault_events(library: ctypes.CDLL) -> None:
    driver = dcmi.Dcmi(library)
    assert driver.subscribe()
    library.test_fire.argtypes = (
        ctypes.c_uint32,
        ctypes.c_uint16,
        ctypes.c_uint8,
        ctypes.c_uint8,
        ctypes.c_uint64,
    )
    library.test_fire(0x80E18402, 2, 3, 1, 1_700_000_000_123)
    assert driver.events() == [FaultEvent(2, 0x80E18402, 3, 1, 1_700_000_000_123)]
    assert driver.events() == []


def test_dcmi_figures_and_a_missing_symbol(library: ctypes.CDLL) -> None:
    driver = dcmi.Dcmi(library)
    readings = driver.readings(chips_of(driver))[4]
    assert (readings.temperature, readings.power, readings.voltage) == (55.0, 310.5, 0.9)
    assert (readings.utilization, readings.memory_used) == (17.0, 1024.0)
    assert readings.frequency is None


def test_dcmi_that_does_not_start_says_why(library: ctypes.CDLL) -> None:
    ctypes.c_int.in_dll(library, "test_init_code").value = -8005
    with pytest.raises(DriverError, match=r"dcmi_init returned -8005 \(internal error\)"):
        dcmi.Dcmi(library)


def test_a_machine_without_the_library_gets_a_clear_message(tmp_path: Path) -> None:
    with pytest.raises(NoChipsError, match="install the NPU driver"):
        dcmi.load_library(tmp_path / "libdcmi.so")


@pytest.mark.parametrize(
    ("structure", "size"),
    [
        (dcmi.ChipInfo, 132),
        (dcmi.BoardInfo, 16),
        (dcmi.DieId, 20),
        (dcmi.HbmInfo, 32),
        (dcmi.Address, 20),
        (dcmi.PcieInfo, 64),
        (dcmi.SuperPodInfo, 48),
        (dcmi.EntityInfo, 24),
        (dcmi.EventFilter, 48),
        (dcmi.FaultEventData, 352),
        (dcmi.DeviceEvent, 360),
    ],
)
def test_dcmi_structures_have_the_documented_size(structure: type[ctypes.Structure], size: int) -> None:
    assert ctypes.sizeof(structure) == size


def test_dcmi_asks_the_driver_about_network_ports(library: ctypes.CDLL) -> None:
    links = LinkStates(lambda command: "link status: DOWN\n" if command[2] == "2" else "link status: UP\n")
    driver = dcmi.Dcmi(library, links=links)
    first, _, third = chips_of(driver)

    def says(code: int, result: int = 0) -> bool | None:
        ctypes.c_int.in_dll(library, "test_network_code").value = code
        ctypes.c_int.in_dll(library, "test_network_result").value = result
        return driver.network(third)

    assert [says(0, result) for result in (0, 6, 1, 3, 255)] == [True, True, False, False, False]
    with pytest.raises(DriverError, match="dcmi_get_device_network_health returned -8006"):
        says(-8006)
    # Where the library does not test ports, the state of the link counts.
    assert says(-8255) is False
    assert driver.network(first) is True


def test_a_link_is_looked_at_seldom_while_it_is_up() -> None:
    now, state = [0.0], ["UP"]
    asked = []

    def run(command: Sequence[str]) -> str:
        asked.append(command)
        if state[0] == "gone":
            raise DriverError("no such chip")
        return f"link status: {state[0]}\n"

    links = LinkStates(run, "hccn_tool", lambda: now[0])
    assert links.works(3) is True
    assert asked == [["hccn_tool", "-i", "3", "-link", "-g"]]
    state[0], now[0] = "DOWN", 299.0
    assert (links.works(3), len(asked)) == (True, 1)
    now[0] = 300.0
    assert (links.works(3), len(asked)) == (False, 2)
    state[0], now[0] = "UP", 310.0
    assert links.works(3) is True
    state[0], now[0] = "gone", 700.0
    assert links.works(3) is None
    assert LinkStates(program="/no/such/hccn_tool").works(3) is None


def test_dcmi_of_the_second_generation(library: ctypes.CDLL) -> None:
    ctypes.c_int.in_dll(library, "test_second_generation").value = 1
    driver = dcmi.Dcmi(library)
    chips = chips_of(driver)
    assert [(chip.physical, chip.logic, chip.card, chip.device) for chip in chips] == [
        (3, 0, 0, 0),
        (1, 1, 1, 0),
    ]
    first = chips[0]
    assert card_type(first.chip_name, first.board) == "Ascend910A5"
    assert (first.board, first.mainboard, first.memory, first.ai_cores) == (0x1A, 0x6C, 131072, 32)
    assert (first.superpod, first.server_index, first.super_device) == (5, 2, 7)
    assert (first.rack, first.superpod_type, first.ip) == (9, 1, "")
    assert (first.pcie, first.vdie) == ("0000:A0:00.0", "000000D0-000000D1-000000D2-000000D3-000000D4")
    assert driver.version() == "26.0"
    assert [driver.codes(chip) for chip in chips] == [[], [0x8C2FA009]]
    library.test_drop(1)
    assert driver.codes(chips[1]) is None
    assert driver.subscribe()
    assert driver.readings(chips)[3].temperature == 44.0
    # A network device that does not answer is left out.
    assert first.network_ids == (
        ("10" + 30 * "0", "10" + 29 * "0" + "1"),
        ("11" + 30 * "0", "11" + 29 * "0" + "1"),
    )


# -- the interconnect


def test_lingqu_lists_alarms_and_hears_of_them(lingqu_library: ctypes.CDLL) -> None:
    now = [0.0]
    switches = Lingqu(lingqu_library, lambda: now[0], lambda: 1_800_000_000_000)
    assert dcmi_switch_faults(switches) == [
        ("[0x00f1fef5,155912,npu,na]", 0, 7, 1_700_000_000_000),
        ("[0x00f103b0,na,na,na]", 1, 0xFFFFFFFF, 1_800_000_000_000),
    ]
    lingqu_library.test_fire(1)
    lingqu_library.test_fire(1)
    assert [port for _, _, port, _ in dcmi_switch_faults(switches)] == [7, 0xFFFFFFFF, 8]
    lingqu_library.test_fire(0)
    assert [port for _, _, port, _ in dcmi_switch_faults(switches)] == [7, 0xFFFFFFFF]
    reads = ctypes.c_int.in_dll(lingqu_library, "test_reads")
    assert reads.value == 1
    # What was told wrongly, or not at all, is right after the next reading.
    lingqu_library.test_fire(1)
    now[0] = 300.0
    assert [port for _, _, port, _ in dcmi_switch_faults(switches)] == [7, 0xFFFFFFFF]
    assert reads.value == 2


def dcmi_switch_faults(switches: Lingqu) -> list[tuple[str, int, int, int]]:
    return [(fault.assembled, fault.chip, fault.port, fault.raised) for fault in switches.faults()]


def test_lingqu_that_answers_wrongly(lingqu_library: ctypes.CDLL) -> None:
    now = [0.0]
    switches = Lingqu(lingqu_library, lambda: now[0])
    inits = ctypes.c_int.in_dll(lingqu_library, "test_inits")
    ctypes.c_int.in_dll(lingqu_library, "test_init_code").value = -3
    for _ in range(3):
        with pytest.raises(DriverError, match="lq_dcmi_init returned -3"):
            switches.faults()
    assert inits.value == 1
    ctypes.c_int.in_dll(lingqu_library, "test_init_code").value = 0
    now[0] = 60.0
    ctypes.c_uint.in_dll(lingqu_library, "test_count").value = 0xFFFFFFFF
    with pytest.raises(DriverError, match="returned 4294967295 alarms: the limit is 128"):
        switches.faults()
    ctypes.c_uint.in_dll(lingqu_library, "test_count").value = 1
    assert len(switches.faults()) == 1
    ctypes.c_int.in_dll(lingqu_library, "test_code").value = -1
    now[0] = 1000.0
    with pytest.raises(DriverError, match="lq_dcmi_get_fault_info returned -1"):
        switches.faults()


def test_without_lingqu_there_are_no_alarms_and_one_line_says_so(tmp_path: Path, log: io.StringIO) -> None:
    switches = Lingqu(tmp_path / "liblingqu-dcmi.so")
    assert [list(switches.faults()) for _ in range(3)] == [[], [], []]
    (line,) = log.getvalue().splitlines()
    assert "liblingqu-dcmi.so cannot be loaded" in line


@pytest.mark.parametrize(("structure", "size"), [(lingqu.Alarm, 112), (lingqu.AlarmFilter, 20)])
def test_lingqu_structures_have_the_documented_size(structure: type[ctypes.Structure], size: int) -> None:
    assert ctypes.sizeof(structure) == size


# -- npu-smi

A2_TABLE = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc2                 Version: 24.1.rc2                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 93.6        36                0    / 0             |
| 0                         | 0000:C1:00.0  | 12          0    / 0          3378 / 65536         |
+===========================+===============+====================================================+
| 1     910B3               | Warning       | 91.2        37                0    / 0             |
| 0                         | 0000:C2:00.0  | 0           0    / 0          3377 / 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       0                 | 4242          | python                   | 3000                    |
+===========================+===============+====================================================+
"""
A3_TABLE = """\
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     Ascend910           | OK            | 160.0       35                0    / 0             |
| 0     6                   | 0000:9D:00.0  | 0           0    / 0          2874 / 65536         |
+------------------------------------------------------------------------------------------------+
| 0     Ascend910           | OK            | -           36                0    / 0             |
| 1     7                   | 0000:9F:00.0  | 0           0    / 0          2873 / 65536         |
+===========================+===============+====================================================+
"""
P310_TABLE = """\
| NPU   Name            | Health          | Power(W)    Temp(C)           Hugepages-Usage(page) |
| Chip  Device          | Bus-Id          | AICore(%)   Memory-Usage(MB)                        |
+=======================+=================+=====================================================+
| 2     310P3           | OK              | NA          42                0     / 0             |
| 0     0               | NA              | 3           1589 / 21527                            |
+=======================+=================+=====================================================+
"""
MAP = """\
        NPU ID          Chip ID         Chip Logic ID   Chip Name
        0               0               0               Ascend 910B3
        0               1               -               Mcu
        1               0               1               Ascend 910B3
"""
BOARD = """\
        NPU ID                         : 0
        Chip Name                      : 910B3
        Chip Type                      : Ascend
        Chip Version                   : V1
        Board ID                       : 0x30
        VDie ID                        : 11 22 33 44 55
        PCIe Bus Info                  : 0000:C1:00.0
"""


def test_npu_smi_table_of_a2() -> None:
    rows = info_table(A2_TABLE)
    assert [(row.card, row.chip, row.physical, row.health) for row in rows] == [
        (0, 0, None, "OK"),
        (1, 0, None, "Warning"),
    ]
    assert (rows[0].power, rows[0].temperature, rows[0].utilization) == (93.6, 36.0, 12.0)
    assert rows[0].memory == (3378.0, 65536.0)


def test_npu_smi_table_of_a3() -> None:
    rows = info_table(A3_TABLE)
    assert [(row.card, row.chip, row.physical, row.power) for row in rows] == [
        (0, 0, 6, 160.0),
        (0, 1, 7, None),
    ]


def test_npu_smi_table_of_310p() -> None:
    (row,) = info_table(P310_TABLE)
    assert (row.name, row.bus, row.power, row.memory) == ("310P3", "NA", None, (1589.0, 21527.0))


def test_npu_smi_lists() -> None:
    assert [row["Chip Logic ID"] for row in chip_map(MAP)] == ["0", "1"]
    newer = MAP.replace("Chip Name", "Chip Phy-ID  Chip Name").replace(
        "Ascend 910B3", "4            Ascend 910B3"
    )
    assert [row["Chip Phy-ID"] for row in chip_map(newer)] == ["4", "4"]


def recorded(health: str) -> Any:
    def run(command: Sequence[str]) -> str:
        match list(command):
            case ["npu-smi", "info"]:
                return A2_TABLE
            case ["npu-smi", "info", "-m"]:
                return MAP
            case ["npu-smi", "info", "-t", "board", *_]:
                return BOARD
            case ["npu-smi", "info", "-t", "device-share", "-i", "0", *_]:
                return "        Device-share Status            : False\n"
            case ["npu-smi", "info", "-t", "health", "-i", "1", *_]:
                raise ProgramFailedError("dropped")
            case ["npu-smi", "info", "-t", "health", *_]:
                return health
            case [_, "-i", "1", "-link", "-g"]:
                return "link status: DOWN\n"
            case [_, "-i", "0", "-ip", "-g"]:
                return "ipaddr:192.168.100.101\nnetmask:255.255.255.0\n"
        raise DriverError("unknown")

    return run


def test_npu_smi_driver() -> None:
    driver = NpuSmi(
        recorded("Health Status : Warning\nError Code : 0x80E18402 81078603\nError Information : ECC\n")
    )
    chips = chips_of(driver)
    assert [(chip.physical, chip.card, chip.chip_name, chip.board, chip.ip) for chip in chips] == [
        (0, 0, "910B3", 0x30, "192.168.100.101"),
        (1, 1, "910B3", 0x30, ""),
    ]
    assert chips[0].model == "910B3-Ascend-V1"
    assert [chip.sharing for chip in chips] == [False, None]
    assert driver.codes(chips[0]) == [0x80E18402, 0x81078603]
    assert driver.codes(chips[1]) is None
    assert driver.version() == "24.1.rc2"
    assert driver.readings(chips)[1].temperature == 37.0
    assert [driver.network(chip) for chip in chips] == [None, False]


def test_npu_smi_that_does_not_run_drops_no_chip() -> None:
    driver = NpuSmi(recorded(""))
    chip = chips_of(driver)[0]

    def slow(command: Sequence[str]) -> str:
        raise DriverError("npu-smi failed: timed out")

    with pytest.raises(DriverError, match="timed out"):
        NpuSmi(slow).codes(chip)
    with pytest.raises(NoChipsError, match="no-such-program not found"):
        run_program(["no-such-program"])
    with pytest.raises(ProgramFailedError, match="sh -c echo broken >&2; exit 3 failed: broken"):
        run_program(["sh", "-c", "echo broken >&2; exit 3"])
    assert run_program(["printf", r"\377"]) == "\ufffd"


def test_npu_smi_without_errors_and_without_chips() -> None:
    driver = NpuSmi(recorded("Health Status : OK\nError Code : NA\n"))
    assert driver.codes(chips_of(driver)[0]) == []
    with pytest.raises(NoChipsError, match="lists no chips"):
        NpuSmi(lambda command: "No device\n").cards()
    with pytest.raises(NoChipsError, match="no-such-program not found on the PATH"):
        NpuSmi(program="no-such-program")


# -- simulated


def test_simulated_chips_change_with_their_file(tmp_path: Path) -> None:
    path = tmp_path / "chips.json"
    path.write_text(json.dumps({"count": 2, "chip_name": "910B3"}))
    driver = SimulatedFile(path)
    chip = driver.chips()[1]
    assert (chip.physical, chip.chip_name, chip.memory, driver.codes(chip)) == (1, "910B3", 65536, [])
    path.write_text(json.dumps({"count": 2, "faults": {"1": ["80E18402"]}, "dropped": [0]}))
    assert driver.codes(chip) == [0x80E18402]
    assert driver.codes(driver.chips()[0]) is None
    path.write_text("{")
    assert driver.codes(chip) == [0x80E18402], "a description that cannot be read changes nothing"
    path.unlink()
    assert driver.codes(chip) == [0x80E18402]


@pytest.mark.parametrize(
    ("description", "says"),
    [
        ({"number": 3}, "number: unknown field"),
        ({"count": 0}, "count: Invalid value: 0: must be a whole number from 1 to 3600"),
        ({"chips": [{"color": "red"}]}, "chips[0].color: unknown field"),
        ({"chips": [{"physical": 1}, {"physical": 1}]}, "no two chips can have the same physical id"),
        ({"count": 1, "faults": {"5": []}}, "chip 5 not found"),
        (
            {"count": 1, "faults": {"0": ["xyz"]}},
            'faults.0[0]: Invalid value: "xyz": must be a hexadecimal code',
        ),
        ({"count": 1, "switch_faults": [{}]}, "switch_faults[0].event: Required value"),
        ({"count": 1, "dropped": ["0"]}, 'dropped[0]: Invalid value: "0": must be a whole number'),
        ({"count": 1, "network_down": [1]}, "chip 1 not found"),
        ({"chips": [{"network_ids": "00"}]}, 'chips[0].network_ids: Invalid value: "00": must be a list'),
        ({"chips": [{"card": 1}, {"card": 1}]}, "no two chips can have the same card and device"),
    ],
)
def test_wrong_descriptions(description: dict[str, Any], says: str) -> None:
    with pytest.raises(DriverError) as caught:
        SimulatedDriver(description)
    assert says in str(caught.value)


def test_a_missing_description_says_so(tmp_path: Path) -> None:
    with pytest.raises(NoChipsError, match="cannot be read: No such file"):
        SimulatedFile(tmp_path / "none.json")


async def test_chips_break_and_heal_over_a_socket(tmp_path: Path) -> None:
    driver = SimulatedDriver({"count": 2})
    chips = driver.chips()
    answers = []
    async with control_socket(driver, tmp_path / "control.sock"):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "control.sock"))
        for line in (
            '{"chip": 1, "codes": ["80E18402"]}',
            '{"chip": 0, "dropped": true}',
            '{"chip": 9}',
            "nonsense",
            '{"chip": 1, "network": "down"}',
            '{"chip": 1, "network": 7}',
            '{"chip": "1", "network": "up"}',
        ):
            writer.write(line.encode() + b"\n")
            answers.append((await reader.readline()).decode().strip())
        writer.close()
        await writer.wait_closed()
    assert answers[:3] == ["ok", "ok", "error: chip 9 not found"]
    assert answers[3].startswith("error: invalid JSON")
    assert answers[4:6] == ["ok", "error: network: Invalid value: 7: must be down or up"]
    assert answers[6].startswith('error: chip: Invalid value: "1"')
    assert [driver.network(chip) for chip in chips] == [True, False]
    assert driver.codes(chips[1]) == [0x80E18402]
    assert driver.codes(chips[0]) is None
    driver.change(1, [])
    assert driver.codes(chips[1]) == []

"""Chips through Huawei's libdcmi.so.

Every function returns 0 or a negative code. A function that the library does not have counts as one that it
does not support. There are two generations: functions `dcmi_*` name a chip by card and number on the card,
functions `dcmiv2_*` (A5 boards) by its logic id. What a library answers is checked before it is used.
"""

from __future__ import annotations

import ctypes
import ipaddress
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from ctypes import POINTER, byref, c_char, c_int, c_int32, c_uint, c_uint8, c_uint16, c_uint32, c_uint64
from pathlib import Path
from typing import Any

from ringwise.device.cards import Chip
from ringwise.device.drivers.hccn import LinkStates
from ringwise.device.drivers.lingqu import Lingqu
from ringwise.device.drivers.port import (
    DriverError,
    FaultEvent,
    NoChipsError,
    Place,
    Readings,
    load,
    place_of,
)
from ringwise.device.report import SwitchFault
from ringwise.log import Logger
from ringwise.records import dataclass

_LOG = Logger()

LIBRARY = "libdcmi.so"
#: Where the driver puts it; the loader's own search comes first.
FOLDERS = (
    Path("/usr/local/dcmi"),
    Path("/usr/local/Ascend/driver/lib64/driver"),
    Path("/usr/local/Ascend/driver/lib64/common"),
)
MAX_CARDS = 64
MAX_ON_A_CARD = 4
MAX_CODES = 128
MAX_EVENTS = 10_000
MAX_NETWORK_DEVICES = 32
MAX_ENTITIES = 32
#: Megabytes and cores that no chip reaches: more is not an answer.
_MAX_MEMORY = 1 << 24
_MAX_CORES = 1 << 12

INVALID_ID = -8007
NO_DEVICE = -8008
NOT_READY = -8012
NOT_SUPPORTED = -8255
#: The card dropped: the driver lists it no more, or not yet again.
_GONE = frozenset({INVALID_ID, NO_DEVICE, NOT_READY})
#: Answers about a network port that works: tested, and not tested yet.
_NETWORK_WORKS = frozenset({0, 6})
_MEANING = {
    -8001: "bad parameter",
    -8002: "permission denied",
    -8003: "out of memory",
    -8004: "secure function failed",
    -8005: "internal error",
    -8006: "time-out",
    INVALID_ID: "invalid device id",
    NO_DEVICE: "no device",
    -8009: "ioctl failed",
    -8010: "send failed",
    -8011: "receive failed",
    NOT_READY: "not ready: the card dropped",
    -8013: "not allowed in a container",
    -8014: "file failed",
    -8015: "reset failed",
    -8016: "reset canceled",
    -8017: "upgrade in progress",
    -8020: "busy",
    -8022: "partition failed",
    -8023: "no configuration",
    NOT_SUPPORTED: "not supported",
}
_ROCE, _IPV6 = 1, 1
_SUPERPOD_MAIN, _SUPERPOD_SUB = 12, 1
_UTILIZATION_AI_CORE = 2
_FREQUENCY_AI_CORE = 7
_NPU = 0
_PATH = "get_topo_info_by_device_id"
#: Kinds of paths between two chips: PCIe (1, 2, 4, 5), HCCS (3), a switch of HCCS (7), UB (8). 6 is SIO, or
#: in older libraries a path that is unknown.
_PATHS, _LINKS = frozenset({1, 2, 3, 4, 5, 7, 8}), frozenset({3, 7, 8})


@dataclass(frozen=True, slots=True)
class _Generation:
    """How the functions of a library are named."""

    prefix: str
    #: Names that are others in this generation.
    names: Mapping[str, str]
    #: Which id of a die is the chip's own.
    die: int
    by_logic_id: bool


_FIRST = _Generation(
    "dcmi_",
    {
        "get_device_chip_info": "get_device_chip_info_v2",
        "get_device_error_codes": "get_device_errorcode_v2",
        "get_device_die": "get_device_die_v2",
        "get_device_pcie_info": "get_device_pcie_info_v2",
        "get_affinity_cpus": "get_affinity_cpu_info_by_device_id",
    },
    die=1,
    by_logic_id=False,
)
_SECOND = _Generation(
    "dcmiv2_",
    {
        "get_device_error_codes": "get_device_error_code_list",
        "get_device_die": "get_device_die_id",
        "get_affinity_cpus": "get_affinity_cpu_info_by_dev_id",
    },
    die=2,
    by_logic_id=True,
)


# -- structures of the library, with the natural alignment of 64-bit machines


class ChipInfo(ctypes.Structure):
    _fields_ = (
        ("type", c_char * 32),
        ("name", c_char * 32),
        ("version", c_char * 32),
        ("ai_cores", c_uint32),
        ("npu_name", c_char * 32),
    )


class BoardInfo(ctypes.Structure):
    _fields_ = (("board", c_uint32), ("pcb", c_uint32), ("bom", c_uint32), ("slot", c_uint32))


class DieId(ctypes.Structure):
    _fields_ = (("words", c_uint32 * 5),)


class HbmInfo(ctypes.Structure):
    _fields_ = (
        ("size", c_uint64),
        ("frequency", c_uint32),
        ("usage", c_uint64),
        ("temperature", c_int32),
        ("bandwidth", c_uint32),
    )


class Address(ctypes.Structure):
    _fields_ = (("bytes", c_uint8 * 16), ("type", c_int32))


class PcieInfo(ctypes.Structure):
    _fields_ = (
        ("vendor", c_uint32),
        ("subvendor", c_uint32),
        ("device", c_uint32),
        ("subdevice", c_uint32),
        ("domain", c_int32),
        ("bus", c_uint32),
        ("slot", c_uint32),
        ("function", c_uint32),
        ("reserve", c_uint8 * 32),
    )


class SuperPodInfo(ctypes.Structure):
    _fields_ = (
        ("sdid", c_uint32),
        ("scale", c_uint32),
        ("superpod", c_uint32),
        ("server", c_uint32),
        ("chassis", c_uint32),
        ("kind", c_uint32),
        ("reserve", c_uint32 * 6),
    )


class EntityInfo(ctypes.Structure):
    """An entity id of a network device, in network order; half of it is aligned to 8 bytes."""

    _fields_ = (("bytes", c_uint8 * 16), ("index", c_uint32), ("padding", c_uint32))


class EventFilter(ctypes.Structure):
    _fields_ = (
        ("flag", c_uint64),
        ("event", c_uint32),
        ("severity", c_uint8),
        ("node_type", c_uint8),
        ("reserve", c_uint8 * 32),
    )


class FaultEventData(ctypes.Structure):
    _fields_ = (
        ("event", c_uint32),
        ("device", c_uint16),
        ("node_type", c_uint8),
        ("node", c_uint8),
        ("sub_type", c_uint8),
        ("sub", c_uint8),
        ("severity", c_uint8),
        ("assertion", c_uint8),
        ("serial", c_int32),
        ("notify_serial", c_int32),
        ("raised", c_uint64),
        ("name", c_char * 256),
        ("extra", c_char * 32),
        ("reserve", c_uint8 * 32),
    )


class DeviceEvent(ctypes.Structure):
    _fields_ = (("type", c_int32), ("fault", FaultEventData))


Callback = ctypes.CFUNCTYPE(None, POINTER(DeviceEvent))


# -- its functions


def load_library(name: str | Path = LIBRARY) -> ctypes.CDLL:
    """The library from the loader's path or from where the driver puts it."""
    try:
        return load(name, FOLDERS)
    except OSError as problem:
        raise NoChipsError(
            f"{name} cannot be loaded ({problem}): install the NPU driver, mount /usr/local/Ascend/driver "
            "and /usr/local/dcmi, or choose --driver npu-smi"
        ) from None


def meaning(code: int) -> str:
    return f"{code} ({_MEANING.get(code, 'unknown')})"


class Dcmi:
    kind = "dcmi"
    timeout = 5.0

    def __init__(
        self,
        library: ctypes.CDLL | None = None,
        sys: Path = Path("/sys"),
        *,
        links: LinkStates | None = None,
    ) -> None:
        self._sys = sys
        self._library = library if library is not None else load_library()
        self._links = links if links is not None else LinkStates()
        self._switches = Lingqu()
        self._generation = _FIRST
        self._init()
        self._events: queue.Queue[FaultEvent] = queue.Queue(MAX_EVENTS)
        self._lost = threading.Event()
        # The library keeps the pointer for ever, so the callback must live as long.
        self._callback = Callback(self._heard)
        self.subscribed = False

    def _init(self) -> None:
        """Open the library: as the first generation, else as the second."""
        code = self._call("dcmi_init")
        self._generation = _FIRST
        if code != 0:
            if self._call("dcmiv2_init") != 0:
                raise DriverError(f"dcmi_init returned {meaning(code)}: is the NPU driver loaded?")
            self._generation = _SECOND

    # -- calls -----------------------------------------------------------------------------------------

    def _call(self, name: str, *arguments: Any) -> int:
        function = self._function(name)
        return NOT_SUPPORTED if function is None else int(function(*arguments))

    def _function(self, name: str) -> Callable[..., int] | None:
        function = getattr(self._library, name, None)
        if function is not None:
            function.restype = c_int
        return function

    def _must(self, name: str, *arguments: Any) -> None:
        code = self._call(name, *arguments)
        if code != 0:
            raise DriverError(f"{name} returned {meaning(code)}")

    def _name(self, what: str) -> str:
        return self._generation.prefix + self._generation.names.get(what, what)

    def _where(self, place: Place) -> tuple[c_int, ...]:
        """A chip, as the functions of this generation name it."""
        return (
            (c_int(place.card),) if self._generation.by_logic_id else (c_int(place.card), c_int(place.device))
        )

    def _ask(self, what: str, place: Place, *arguments: Any) -> int:
        return self._call(self._name(what), *self._where(place), *arguments)

    # -- discovery ---------------------------------------------------------------------------------------

    def version(self) -> str:
        text = ctypes.create_string_buffer(32)
        code = self._call(self._name("get_dcmi_version"), text, c_uint(len(text)))
        return _text(text.value) if code == 0 else ""

    def cards(self) -> list[int]:
        """Opens the library again where it does not list its cards: a driver that was reset forgets us."""
        try:
            return self._cards()
        except DriverError:
            self._init()
            return self._cards()

    def _cards(self) -> list[int]:
        count = c_int()
        cards = (c_int * MAX_CARDS)()
        if self._generation.by_logic_id:
            self._must("dcmiv2_get_device_list", cards, byref(count), c_int(MAX_CARDS))
        else:
            self._must("dcmi_get_card_list", byref(count), cards, c_int(MAX_CARDS))
        if not 0 <= count.value <= MAX_CARDS:
            raise DriverError(f"the driver lists {count.value} cards: must be 0 to {MAX_CARDS}")
        return list(cards[: count.value])

    def places(self, card: int) -> list[Place]:
        if self._generation.by_logic_id:
            return [Place(card, 0)]
        number = c_int()
        self._must("dcmi_get_device_num_in_card", c_int(card), byref(number))
        if not 1 <= number.value <= MAX_ON_A_CARD:
            raise DriverError(
                f"dcmi_get_device_num_in_card returned {number.value}: must be 1 to {MAX_ON_A_CARD}"
            )
        return [Place(card, device) for device in range(number.value)]

    def _numbers(self, place: Place) -> tuple[int, int]:
        """Logic and physical id."""
        physical = c_uint()
        if self._generation.by_logic_id:
            self._must("dcmiv2_get_chip_phy_id_by_dev_id", c_uint(place.card), byref(physical))
            return place.card, physical.value
        logic = c_int()
        self._must("dcmi_get_device_logic_id", byref(logic), *self._where(place))
        if logic.value < 0:
            raise DriverError(f"dcmi_get_device_logic_id returned the invalid ID {logic.value}")
        self._must("dcmi_get_device_phyid_from_logicid", c_uint(logic.value), byref(physical))
        return logic.value, physical.value

    def chip(self, place: Place) -> Chip:
        logic, physical = self._numbers(place)
        info = ChipInfo()
        if self._ask("get_device_chip_info", place, byref(info)) != 0:
            # Older libraries have the function without a version alone.
            self._must(f"{self._generation.prefix}get_device_chip_info", *self._where(place), byref(info))
        board, mainboard = BoardInfo(), c_uint()
        self._ask("get_device_board_info", place, byref(board))
        self._ask("get_mainboard_id", place, byref(mainboard))
        product = ctypes.create_string_buffer(64)
        self._ask("get_product_type", place, product, c_int(64))
        memory = HbmInfo()
        self._ask("get_device_hbm_info", place, byref(memory))
        superpod = self._superpod(place)
        pcie = self._pcie(place)
        return Chip(
            physical=physical,
            logic=logic,
            card=place.card,
            device=place.device,
            chip_name=_text(info.name),
            chip_type=_text(info.type),
            chip_version=_text(info.version),
            board=board.board,
            mainboard=mainboard.value,
            product=_text(product.value),
            ip=self._address(place),
            super_device=0 if superpod is None else superpod.sdid,
            superpod=-2 if superpod is None else _signed(superpod.superpod),
            server_index=-2 if superpod is None else _signed(superpod.server),
            rack=0 if superpod is None else max(_signed(superpod.chassis), 0),
            superpod_type=-1 if superpod is None else _signed(superpod.kind),
            memory=memory.size if memory.size < _MAX_MEMORY else 0,
            ai_cores=info.ai_cores if info.ai_cores < _MAX_CORES else 0,
            pcie=pcie,
            vdie=self._die(place),
            numa=self._numa(place, pcie),
            sharing=_truth(self._figure("get_device_share_enable", place)),
            network_ids=self._network_ids(place) if self._generation.by_logic_id else (),
        )

    def _superpod(self, place: Place) -> SuperPodInfo | None:
        kind = c_int(-1)
        if self._ask("get_device_type", place, byref(kind)) != 0 or kind.value != _NPU:
            return None
        info, size = SuperPodInfo(), c_uint(ctypes.sizeof(SuperPodInfo))
        code = self._ask(
            "get_device_info", place, c_int(_SUPERPOD_MAIN), c_uint(_SUPERPOD_SUB), byref(info), byref(size)
        )
        return info if code == 0 else None

    def _address(self, place: Place) -> str:
        """RoCE address: IPv4, else IPv6 that is not link-local, else empty."""
        address, mask = Address(), Address()
        if self._ask("get_device_ip", place, c_int(_ROCE), c_int(0), byref(address), byref(mask)) == 0:
            four = ipaddress.IPv4Address(bytes(address.bytes[:4]))
            if int(four):
                return str(four)
        address.type = mask.type = _IPV6
        if self._ask("get_device_ip", place, c_int(_ROCE), c_int(0), byref(address), byref(mask)) == 0:
            six = ipaddress.IPv6Address(bytes(address.bytes))
            if int(six) and not six.is_link_local:
                return str(six)
        return ""

    def _pcie(self, place: Place) -> str:
        info = PcieInfo()
        if self._ask("get_device_pcie_info", place, byref(info)) != 0 or info.domain < 0:
            return ""
        return f"{info.domain:04X}:{info.bus:02X}:{info.slot:02X}.{info.function:X}"

    def _die(self, place: Place) -> str:
        die = DieId()
        if self._ask("get_device_die", place, c_int(self._generation.die), byref(die)) != 0:
            return ""
        return "-".join(f"{word:08X}" for word in die.words)

    def _network_ids(self, place: Place) -> tuple[tuple[str, ...], ...]:
        """The entity ids of each network device; one that does not answer is left out."""
        devices = c_uint()
        if self._ask("get_urma_device_cnt", place, byref(devices)) != 0:
            return ()
        numbers = []
        for index in range(min(devices.value, MAX_NETWORK_DEVICES)):
            ids, count = (EntityInfo * MAX_ENTITIES)(), c_uint(MAX_ENTITIES)
            code = self._ask("get_eid_list_by_urma_dev_index", place, c_uint(index), ids, byref(count))
            if code == 0 and count.value <= MAX_ENTITIES:
                numbers.append(tuple(bytes(one.bytes).hex() for one in ids[: count.value]))
        return tuple(numbers)

    def _numa(self, place: Place, pcie: str) -> int | None:
        """The NUMA node with the cpus of the chip, else the one of its PCI device."""
        text, length = ctypes.create_string_buffer(1024), c_int(1024)
        try:
            if self._ask("get_affinity_cpus", place, text, byref(length)) == 0:
                wanted = _text(text.value).strip()
                for path in sorted((self._sys / "devices/system/node").glob("node[0-9]*/cpulist")):
                    if wanted and path.read_text().strip() == wanted:
                        return int(path.parent.name.removeprefix("node"))
            if not pcie:
                return None
            node = int((self._sys / "bus/pci/devices" / pcie.lower() / "numa_node").read_text())
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None

    # -- health ------------------------------------------------------------------------------------------

    def codes(self, chip: Chip) -> list[int] | None:
        place = place_of(chip)
        health = c_uint()
        if self._ask("get_device_health", place, byref(health)) in _GONE:
            return None
        count, codes = c_int(), (c_uint * MAX_CODES)()
        name = self._name("get_device_error_codes")
        self._must(name, *self._where(place), byref(count), codes, c_uint(MAX_CODES))
        if not 0 <= count.value <= MAX_CODES:
            raise DriverError(f"{name} returned {count.value} codes: must be 0 to {MAX_CODES}")
        return [int(code) for code in codes[: count.value]]

    def network(self, chip: Chip) -> bool | None:
        """By the driver's own test of the port, else by the state of the link."""
        result = c_int()
        code = self._ask("get_device_network_health", place_of(chip), byref(result))
        if code == NOT_SUPPORTED:
            return self._links.works(chip.physical)
        if code != 0:
            raise DriverError(f"{self._name('get_device_network_health')} returned {meaning(code)}")
        return result.value in _NETWORK_WORKS

    def linked(self, one: Chip, other: Chip) -> bool | None:
        """By the kind of path between them, which only the first generation has a function for."""
        kind = c_int(-1)
        chips = (*self._where(place_of(one)), *self._where(place_of(other)))
        if self._generation.by_logic_id or self._call(f"{_FIRST.prefix}{_PATH}", *chips, byref(kind)) != 0:
            return None
        return kind.value in _LINKS if kind.value in _PATHS else None

    def subscribe(self) -> bool:
        """Ask for fault events of all chips; whether the library has them."""
        if not self.subscribed:
            function = self._function(self._name("subscribe_fault_event"))
            if function is None:
                return False
            code = int(function(*self._where(Place(-1, -1)), EventFilter(), self._callback))
            if code != 0:
                _LOG.warning("fault events not subscribed; chips are polled", why=meaning(code))
            self.subscribed = code == 0
        return self.subscribed

    def _heard(self, pointer: Any) -> None:
        """Called in a thread of the library: nothing but a queue is touched here."""
        if not pointer:
            return
        fault = pointer.contents.fault
        event = FaultEvent(fault.device, fault.event, fault.severity, fault.assertion, fault.raised)
        try:
            self._events.put_nowait(event)
        except queue.Full:
            self._lost.set()

    def events(self) -> list[FaultEvent]:
        """Events that came since the last call. When there were too many, polling finds what they left."""
        result = []
        while True:
            try:
                result.append(self._events.get_nowait())
            except queue.Empty:
                break
        if self._lost.is_set():
            self._lost.clear()
            _LOG.warning("fault events lost; the next poll reads all codes")
        return result

    def switch_faults(self) -> Sequence[SwitchFault]:
        return self._switches.faults()

    # -- figures -----------------------------------------------------------------------------------------

    def readings(self, chips: Sequence[Chip]) -> dict[int, Readings]:
        return {chip.physical: self._reading(place_of(chip)) for chip in chips}

    def _reading(self, place: Place) -> Readings:
        memory = HbmInfo()
        has_memory = self._ask("get_device_hbm_info", place, byref(memory)) == 0 and memory.size < _MAX_MEMORY
        return Readings(
            temperature=self._figure("get_device_temperature", place),
            power=_scaled(self._figure("get_device_power_info", place), 10),
            voltage=_scaled(self._figure("get_device_voltage", place), 100),
            utilization=self._figure("get_device_utilization_rate", place, c_int(_UTILIZATION_AI_CORE)),
            frequency=self._figure("get_device_frequency", place, c_int(_FREQUENCY_AI_CORE)),
            memory_total=float(memory.size) if has_memory else None,
            memory_used=float(memory.usage) if has_memory else None,
        )

    def _figure(self, what: str, place: Place, *arguments: c_int) -> float | None:
        value = c_int()
        return float(value.value) if self._ask(what, place, *arguments, byref(value)) == 0 else None


def _scaled(value: float | None, divisor: int) -> float | None:
    return None if value is None else value / divisor


def _truth(value: float | None) -> bool | None:
    return None if value is None else value == 1


def _signed(value: int) -> int:
    """0xffffffff is -1: the driver does not know."""
    return value - 2**32 if value >= 2**31 else value


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace")

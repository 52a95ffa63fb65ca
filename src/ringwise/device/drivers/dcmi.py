"""Chips through Huawei's libdcmi.so.

Every function returns 0 or a negative code. A function that the library does not have counts as one that it
does not support.
"""

from __future__ import annotations

import ctypes
import ipaddress
import queue
import threading
from collections.abc import Callable, Sequence
from ctypes import POINTER, byref, c_char, c_int, c_int32, c_uint, c_uint8, c_uint16, c_uint32, c_uint64
from pathlib import Path
from typing import Any

from ringwise.device.cards import Chip
from ringwise.device.drivers.port import DriverError, FaultEvent, NoChipsError, Readings
from ringwise.device.report import SwitchFault
from ringwise.log import Logger

_LOG = Logger()

LIBRARY = "libdcmi.so"
#: Where the driver puts it; the loader's own search comes first.
FOLDERS = (
    Path("/usr/local/dcmi"),
    Path("/usr/local/Ascend/driver/lib64/driver"),
    Path("/usr/local/Ascend/driver/lib64/common"),
)
MOST_CARDS = 64
MOST_CODES = 128
MOST_EVENTS = 10_000

NOT_READY = -8012
NOT_SUPPORTED = -8255
_MEANING = {
    -8001: "bad parameter",
    -8002: "permission denied",
    -8003: "out of memory",
    -8005: "internal error",
    -8006: "time-out",
    -8007: "invalid device id",
    -8008: "no device",
    -8009: "ioctl failed",
    -8010: "send failed",
    -8011: "receive failed",
    NOT_READY: "not ready: the card dropped",
    -8013: "not allowed in a container",
    -8015: "reset failed",
    -8017: "upgrade in progress",
    -8020: "busy",
    NOT_SUPPORTED: "not supported",
}
_ROCE, _IPV6 = 1, 1
_SUPERPOD_MAIN, _SUPERPOD_SUB = 12, 1
_UTILIZATION_AI_CORE, _UTILIZATION_HBM = 2, 6
_FREQUENCY_AI_CORE = 7
_VDIE = 1
_NPU = 0


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


class Event(ctypes.Structure):
    _fields_ = (("type", c_int32), ("fault", FaultEventData))


Callback = ctypes.CFUNCTYPE(None, POINTER(Event))


def load_library(name: str | Path = LIBRARY) -> ctypes.CDLL:
    """The library from the loader's path or from where the driver puts it."""
    tried = [Path(name)] if "/" in str(name) else [Path(name), *(folder / name for folder in FOLDERS)]
    problem = "not found"
    for path in tried:
        try:
            return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            problem = str(error)
    raise NoChipsError(
        f"{name} cannot be loaded ({problem}): install the NPU driver, mount /usr/local/Ascend/driver and "
        "/usr/local/dcmi, or choose --driver npu-smi"
    )


def meaning(code: int) -> str:
    return f"{code} ({_MEANING.get(code, 'unknown')})"


class Dcmi:
    kind = "dcmi"

    def __init__(self, library: ctypes.CDLL | None = None, sys: Path = Path("/sys")) -> None:
        self._sys = sys
        self._library = library if library is not None else load_library()
        code = self._call("dcmi_init")
        if code != 0:
            raise DriverError(f"dcmi_init returned {meaning(code)}: is the NPU driver loaded?")
        self._events: queue.Queue[FaultEvent] = queue.Queue(MOST_EVENTS)
        self._lost = threading.Event()
        # The library keeps the pointer for ever, so the callback must live as long.
        self._callback = Callback(self._heard)
        self.subscribed = False

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

    # -- discovery ---------------------------------------------------------------------------------------

    def version(self) -> str:
        text = ctypes.create_string_buffer(32)
        return _text(text.value) if self._call("dcmi_get_dcmi_version", text, c_uint(32)) == 0 else ""

    def chips(self) -> list[Chip]:
        count = c_int()
        cards = (c_int * MOST_CARDS)()
        self._must("dcmi_get_card_list", byref(count), cards, c_int(MOST_CARDS))
        found = []
        for card in cards[: max(0, min(count.value, MOST_CARDS))]:
            number = c_int()
            self._must("dcmi_get_device_num_in_card", c_int(card), byref(number))
            found += [self._chip(card, device) for device in range(min(number.value, 4))]
        if not found:
            raise NoChipsError("the driver lists no NPU")
        return found

    def _chip(self, card: int, device: int) -> Chip:
        where = (c_int(card), c_int(device))
        logic, physical = c_int(), c_uint()
        self._must("dcmi_get_device_logic_id", byref(logic), *where)
        self._must("dcmi_get_device_phyid_from_logicid", c_uint(logic.value), byref(physical))
        info = ChipInfo()
        if self._call("dcmi_get_device_chip_info_v2", *where, byref(info)) != 0:
            self._must("dcmi_get_device_chip_info", *where, byref(info))
        board = BoardInfo()
        self._call("dcmi_get_device_board_info", *where, byref(board))
        product = ctypes.create_string_buffer(64)
        self._call("dcmi_get_product_type", *where, product, c_int(64))
        memory = HbmInfo()
        self._call("dcmi_get_device_hbm_info", *where, byref(memory))
        superpod = self._superpod(where)
        pcie = self._pcie(where)
        return Chip(
            physical=physical.value,
            logic=logic.value,
            card=card,
            device=device,
            chip_name=_text(info.name),
            chip_type=_text(info.type),
            chip_version=_text(info.version),
            board=board.board,
            product=_text(product.value),
            ip=self._address(where),
            super_device=0 if superpod is None else superpod.sdid,
            superpod=-2 if superpod is None else _signed(superpod.superpod),
            server_index=-2 if superpod is None else _signed(superpod.server),
            rack=0 if superpod is None else max(_signed(superpod.chassis), 0),
            superpod_type=-1 if superpod is None else _signed(superpod.kind),
            memory=memory.size,
            ai_cores=info.ai_cores,
            pcie=pcie,
            vdie=self._vdie(where),
            numa=self._numa(where, pcie),
        )

    def _superpod(self, where: tuple[c_int, c_int]) -> SuperPodInfo | None:
        kind = c_int(-1)
        if self._call("dcmi_get_device_type", *where, byref(kind)) != 0 or kind.value != _NPU:
            return None
        info, size = SuperPodInfo(), c_uint(ctypes.sizeof(SuperPodInfo))
        code = self._call(
            "dcmi_get_device_info",
            *where,
            c_int(_SUPERPOD_MAIN),
            c_uint(_SUPERPOD_SUB),
            byref(info),
            byref(size),
        )
        return info if code == 0 else None

    def _address(self, where: tuple[c_int, c_int]) -> str:
        """RoCE address: IPv4, else IPv6 that is not link-local, else empty."""
        address, mask = Address(), Address()
        if self._call("dcmi_get_device_ip", *where, c_int(_ROCE), c_int(0), byref(address), byref(mask)) == 0:
            four = ipaddress.IPv4Address(bytes(address.bytes[:4]))
            if int(four):
                return str(four)
        address.type = mask.type = _IPV6
        if self._call("dcmi_get_device_ip", *where, c_int(_ROCE), c_int(0), byref(address), byref(mask)) == 0:
            six = ipaddress.IPv6Address(bytes(address.bytes))
            if int(six) and not six.is_link_local:
                return str(six)
        return ""

    def _pcie(self, where: tuple[c_int, c_int]) -> str:
        info = PcieInfo()
        if self._call("dcmi_get_device_pcie_info_v2", *where, byref(info)) != 0:
            return ""
        return f"{info.domain:04X}:{info.bus:02X}:{info.slot:02X}.{info.function:X}"

    def _vdie(self, where: tuple[c_int, c_int]) -> str:
        die = DieId()
        if self._call("dcmi_get_device_die_v2", *where, c_int(_VDIE), byref(die)) != 0:
            return ""
        return "-".join(f"{word:08X}" for word in die.words)

    def _numa(self, where: tuple[c_int, c_int], pcie: str) -> int | None:
        """The NUMA node with the cpus of the chip, else the one of its PCI device."""
        text, length = ctypes.create_string_buffer(1024), c_int(1024)
        if self._call("dcmi_get_affinity_cpu_info_by_device_id", *where, text, byref(length)) == 0:
            wanted = _text(text.value).strip()
            for path in sorted((self._sys / "devices/system/node").glob("node[0-9]*/cpulist")):
                if wanted and path.read_text().strip() == wanted:
                    return int(path.parent.name.removeprefix("node"))
        try:
            node = int((self._sys / "bus/pci/devices" / pcie.lower() / "numa_node").read_text())
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None

    # -- health ------------------------------------------------------------------------------------------

    def codes(self, chip: Chip) -> list[int] | None:
        where = (c_int(chip.card), c_int(chip.device))
        health = c_uint()
        if self._call("dcmi_get_device_health", *where, byref(health)) == NOT_READY:
            return None
        count, codes = c_int(), (c_uint * MOST_CODES)()
        self._must("dcmi_get_device_errorcode_v2", *where, byref(count), codes, c_uint(MOST_CODES))
        return [int(code) for code in codes[: max(0, min(count.value, MOST_CODES))]]

    def subscribe(self) -> bool:
        """Ask for fault events of all chips; whether the library has them."""
        if not self.subscribed:
            function = self._function("dcmi_subscribe_fault_event")
            if function is None:
                return False
            code = int(function(c_int(-1), c_int(-1), EventFilter(), self._callback))
            if code != 0:
                _LOG.warning("fault events not subscribed; chips are polled", why=meaning(code))
            self.subscribed = code == 0
        return self.subscribed

    def _heard(self, pointer: Any) -> None:
        """Called in a thread of the library: nothing but a queue is touched here."""
        fault = pointer.contents.fault
        event = FaultEvent(fault.device, fault.event, fault.severity, fault.assertion, fault.raised)
        try:
            self._events.put_nowait(event)
        except queue.Full:
            self._lost.set()

    def events(self) -> list[FaultEvent]:
        """Events that came since the last call. When there were too many, polling finds what they left."""
        found = []
        while True:
            try:
                found.append(self._events.get_nowait())
            except queue.Empty:
                break
        if self._lost.is_set():
            self._lost.clear()
            _LOG.warning("fault events lost; the next poll reads all codes")
        return found

    def switch_faults(self) -> Sequence[SwitchFault]:
        return ()

    # -- figures -----------------------------------------------------------------------------------------

    def readings(self, chips: Sequence[Chip]) -> dict[int, Readings]:
        return {chip.physical: self._reading(chip) for chip in chips}

    def _reading(self, chip: Chip) -> Readings:
        where = (c_int(chip.card), c_int(chip.device))
        memory = HbmInfo()
        has_memory = self._call("dcmi_get_device_hbm_info", *where, byref(memory)) == 0
        return Readings(
            temperature=self._figure("dcmi_get_device_temperature", where),
            power=_scaled(self._figure("dcmi_get_device_power_info", where), 10),
            voltage=_scaled(self._figure("dcmi_get_device_voltage", where), 100),
            utilization=self._figure(
                "dcmi_get_device_utilization_rate", (*where, c_int(_UTILIZATION_AI_CORE))
            ),
            frequency=self._figure("dcmi_get_device_frequency", (*where, c_int(_FREQUENCY_AI_CORE))),
            memory_total=float(memory.size) if has_memory else None,
            memory_used=float(memory.usage) if has_memory else None,
        )

    def _figure(self, name: str, arguments: tuple[c_int, ...]) -> float | None:
        value = c_int()
        return float(value.value) if self._call(name, *arguments, byref(value)) == 0 else None

    def close(self) -> None: ...


def _scaled(value: float | None, divisor: int) -> float | None:
    return None if value is None else value / divisor


def _signed(value: int) -> int:
    """0xffffffff is -1: the driver does not know."""
    return value - 2**32 if value >= 2**31 else value


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace")

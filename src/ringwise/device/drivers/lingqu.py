"""Alarms of the interconnect of A3 nodes, through Huawei's liblingqu-dcmi.so.

The library lists the alarms that are there and tells new and past ones. Where it is missing, the node has no
alarms: that is said once.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Sequence
from ctypes import POINTER, byref, c_char, c_int, c_uint, c_uint8, c_uint16, c_uint32, c_uint64
from pathlib import Path
from typing import Any

from ringwise.device.drivers.port import DriverError, load
from ringwise.device.health.levels import Assertion
from ringwise.device.report import NO_PORT, SwitchFault
from ringwise.log import Logger

_LOG = Logger()

LIBRARY = "liblingqu-dcmi.so"
#: Where the driver puts it; the loader's own search comes first.
FOLDERS = (
    Path("/usr/local/Ascend/driver/lib64/driver"),
    Path("/usr/local/Ascend/driver/lib64/common"),
    Path("/usr/local/Ascend/driver/lib64"),
    Path("/usr/lib64"),
    Path("/usr/local/lib"),
)
MAX_FAULTS = 128
#: Seconds after which all alarms are read, whatever was reported since.
READ_PERIOD = 300.0
#: Seconds until a library that did not start is tried again.
RETRY_PERIOD = 60.0
_NONE_16, _NONE_32 = 0xFFFF, 0xFFFFFFFF


class Alarm(ctypes.Structure):
    _fields_ = (
        ("event", c_uint32),
        ("sub_type", c_uint32),
        ("peer_device", c_uint16),
        ("peer_port", c_uint16),
        ("chip", c_uint16),
        ("port", c_uint16),
        ("severity", c_uint8),
        ("assertion", c_uint8),
        ("reserve", c_char * 6),
        ("serial", c_uint32),
        ("notify_serial", c_uint32),
        ("raised", c_uint64),
        ("parameters", c_uint8 * 40),
        ("info", c_char * 32),
    )


class AlarmFilter(ctypes.Structure):
    _fields_ = (
        ("flag", c_uint32),
        ("event_type", c_uint32),
        ("event", c_uint32),
        ("severity", c_uint8),
        ("chip", c_uint32),
    )


Callback = ctypes.CFUNCTYPE(None, POINTER(Alarm))


class Lingqu:
    """The alarms of one node. The library is loaded when they are first asked for."""

    def __init__(
        self,
        library: ctypes.CDLL | Path | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        milliseconds: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._source = library
        self._library: ctypes.CDLL | None = None
        self._monotonic = monotonic
        self._milliseconds = milliseconds
        self._missing = False
        self._lock = threading.Lock()
        self._faults: dict[tuple[object, ...], SwitchFault] = {}
        #: When all alarms are read next, and when a failed start is tried again.
        self._read_at = 0.0
        self._start_at = float("-inf")
        self._start_code = 0
        # The library keeps the pointer for ever, so the callback must live as long.
        self._callback = Callback(self._heard)

    def faults(self) -> Sequence[SwitchFault]:
        """The alarms that are there. Raises DriverError when the library does not answer."""
        if self._missing or not self._started():
            return ()
        if self._monotonic() >= self._read_at:
            self._read()
        with self._lock:
            return tuple(self._faults.values())

    def _started(self) -> bool:
        if self._library is not None:
            return True
        library = self._loaded()
        if library is None:
            self._missing = True
            return False
        if self._monotonic() >= self._start_at:
            self._start_at = self._monotonic() + RETRY_PERIOD
            self._start_code = _call(library, "lq_dcmi_init")
        if self._start_code != 0:
            raise DriverError(f"lq_dcmi_init returned {self._start_code}")
        # Without it alarms are seen when they are read.
        code = _call(library, "lq_dcmi_subscribe_fault_event", AlarmFilter(), self._callback)
        if code != 0:
            _LOG.warning("subscribing to interconnect alarms failed; they are polled", why=f"code {code}")
        self._library, self._read_at = library, self._monotonic()
        return True

    def _loaded(self) -> ctypes.CDLL | None:
        if isinstance(self._source, ctypes.CDLL):
            return self._source
        try:
            self._source = load(self._source or LIBRARY, FOLDERS)
        except OSError as problem:
            _LOG.warning(
                "alarms of the interconnect are not read; SwitchInfoCfg stays without faults",
                why=f"{LIBRARY} cannot be loaded: {problem}",
            )
            return None
        return self._source

    def _read(self) -> None:
        assert self._library is not None
        count, alarms = c_uint(), (Alarm * MAX_FAULTS)()
        code = _call(self._library, "lq_dcmi_get_fault_info", c_uint(MAX_FAULTS), byref(count), alarms)
        if code != 0:
            raise DriverError(f"lq_dcmi_get_fault_info returned {code}")
        if count.value > MAX_FAULTS:
            raise DriverError(
                f"lq_dcmi_get_fault_info returned {count.value} alarms: the limit is {MAX_FAULTS}"
            )
        faults = [
            self._fault(alarm) for alarm in alarms[: count.value] if alarm.assertion != Assertion.RECOVERED
        ]
        with self._lock:
            self._faults = {_identity(fault): self._faults.get(_identity(fault), fault) for fault in faults}
        self._read_at = self._monotonic() + READ_PERIOD

    def _heard(self, pointer: Any) -> None:
        """Called in a thread of the library."""
        if not pointer:
            return
        fault = self._fault(pointer.contents)
        with self._lock:
            if fault.assertion == Assertion.RECOVERED:
                self._faults.pop(_identity(fault), None)
            elif len(self._faults) < MAX_FAULTS:
                self._faults.setdefault(_identity(fault), fault)

    def _fault(self, alarm: Alarm) -> SwitchFault:
        return SwitchFault(
            event=alarm.event,
            code=alarm.event,
            sub_type="" if alarm.sub_type == _NONE_32 else str(alarm.sub_type),
            peer_device=alarm.peer_device,
            peer_port=_port(alarm.peer_port),
            chip=alarm.chip,
            port=_port(alarm.port),
            severity=alarm.severity,
            assertion=alarm.assertion,
            raised=alarm.raised or self._milliseconds(),
        )


def _call(library: ctypes.CDLL, name: str, *arguments: Any) -> int:
    function = getattr(library, name, None)
    if function is None:
        raise DriverError(f"{LIBRARY} does not export {name}")
    function.restype = c_int
    return int(function(*arguments))


def _port(number: int) -> int:
    """An alarm of a whole chip has no port."""
    return NO_PORT if number == _NONE_16 else number


def _identity(fault: SwitchFault) -> tuple[object, ...]:
    """What an alarm and its end have in common."""
    return fault.event, fault.sub_type, fault.peer_device, fault.peer_port, fault.chip, fault.port

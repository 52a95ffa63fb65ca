"""The structures of libdcmi.so, with the natural alignment of 64-bit machines."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char, c_int32, c_uint8, c_uint16, c_uint32, c_uint64


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

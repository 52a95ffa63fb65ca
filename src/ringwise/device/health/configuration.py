"""Which level a fault code has, and which rules there are: shipped as data, overridden by a ConfigMap."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cache
from importlib import resources
from typing import Any

from ringwise.device.health.levels import (
    FREE_RESTART_NPU,
    LEVELS,
    MANUALLY_SEPARATE,
    NETWORK_LEVELS,
    NOT_HANDLE,
    PRE_SEPARATE,
    RESTART_BUSINESS,
    RESTART_NPU,
    RESTART_REQUEST,
    SEPARATE,
    SUB_HEALTH,
    SWITCH_LEVELS,
)
from ringwise.manifests.errors import Findings, shown
from ringwise.records import dataclass
from ringwise.topology.numbers import whole_number

#: The link of a chip's network port is down.
LINK_DOWN = 0x81078603
#: Faults of a chip's network port; they count for the network's health only.
NETWORK_CODES = frozenset({LINK_DOWN, 0x81078607, 0x110000002, 0x110001024})
#: The chip does not answer any more.
CARD_DROPPED = 0x40F84E00
#: Severities with which an unknown code is not handled.
_MINOR = frozenset({0, 1})

CODES_KEY = "faultCode.json"
SWITCH_CODES_KEY = "SwitchFaultCode.json"
RULES_KEY = "faultCustomization.json"
POLL_KEY = "PollInterval"

#: Worst first: a code in two lists has the worse level.
_LISTS = {
    SEPARATE: ("SeparateNPUCodes", "SeparateNPUNetworkCodes"),
    PRE_SEPARATE: ("PreSeparateNPUCodes", "PreSeparateNPUNetworkCodes"),
    RESTART_NPU: ("RestartNPUCodes",),
    FREE_RESTART_NPU: ("FreeRestartNPUCodes",),
    RESTART_BUSINESS: ("RestartBusinessCodes",),
    RESTART_REQUEST: ("RestartRequestCodes",),
    SUB_HEALTH: ("SubHealthFaultCodes", "SubHealthFaultNetworkCodes"),
    NOT_HANDLE: ("NotHandleFaultCodes", "NotHandleFaultNetworkCodes"),
}
_SWITCH_LISTS = {
    "Separate": "SeparateFaultCodes",
    "PreSeparate": "PreSeparateFaultCodes",
    "Reset": "ResetFaultCodes",
    "RestartRequest": "RestartRequestFaultCodes",
    "SubHealthFault": "SubHealthFaultCodes",
    "NotHandle": "NotHandleFaultCodes",
}
#: Levels of the shipped data that have another name here.
_SWITCH_NAMES = {"SubHealth": "SubHealthFault"}
_CODE = re.compile(r"[0-9A-Fa-f]{1,16}", re.ASCII)


@dataclass(frozen=True, slots=True)
class FrequencyRule:
    """So often within a window of so many seconds, and the chip has this level."""

    codes: frozenset[int]
    window: int
    times: int
    level: str
    #: Seconds without the fault until the level is taken back; None: an operator takes it back.
    release: int | None


@dataclass(frozen=True, slots=True)
class DurationRule:
    """A fault that lasts longer than `timeout` seconds has this level until it is gone for `recovery`."""

    codes: frozenset[int]
    timeout: int
    recovery: int
    level: str


@dataclass(frozen=True, slots=True)
class FaultConfiguration:
    levels: Mapping[int, str]
    #: How a code is written: leading zeros are part of it.
    spelling: Mapping[int, str]
    switch_levels: Mapping[str, str]
    frequency: tuple[FrequencyRule, ...]
    duration: tuple[DurationRule, ...]
    #: Seconds between two looks at the ConfigMap, where it cannot be watched.
    poll_interval: int = 300

    def level_of(self, code: int, severity: int | None = None) -> str:
        """The level of a code of either kind."""
        level = self.levels.get(code)
        if code in NETWORK_CODES:
            if level is None:
                return PRE_SEPARATE
            return level if level in NETWORK_LEVELS else NOT_HANDLE
        if level is None:
            return NOT_HANDLE if severity in _MINOR else SEPARATE
        return level

    def written(self, code: int) -> str:
        return self.spelling.get(code) or f"{code:X}"


@dataclass(slots=True)
class _Builder:
    levels: dict[int, str] = field(default_factory=dict)
    spelling: dict[int, str] = field(default_factory=dict)

    def add(self, level: str, codes: Sequence[str]) -> None:
        for text in codes:
            code = int(text, 16)
            self.levels.setdefault(code, level)
            self.spelling.setdefault(code, text.upper())


@cache
def shipped_configuration() -> FaultConfiguration:
    text = resources.files(__package__).joinpath("fault_codes.json").read_text(encoding="utf-8")
    document = json.loads(text)
    builder = _Builder()
    for level in _LISTS:
        builder.add(level, document["chip"].get(level, ()))
    switch = {
        code: _SWITCH_NAMES.get(level, level) for level, codes in document["switch"].items() for code in codes
    }
    found = Findings("fault_codes.json")
    frequency = _frequency(document["rules"]["FaultFrequency"], found)
    duration = _duration(document["rules"]["FaultDuration"], found)
    if found.errors:
        raise ValueError("; ".join(map(str, found.errors)))
    return FaultConfiguration(builder.levels, builder.spelling, switch, frequency, duration)


def read_configuration(data: Mapping[str, str], found: Findings) -> FaultConfiguration:
    """The shipped configuration with the parts that the ConfigMap has; a part that is wrong is left out."""
    base = shipped_configuration()
    levels, spelling = base.levels, base.spelling
    codes = _object(data, CODES_KEY, found)
    if codes is not None:
        builder = _Builder()
        for level, lists in _LISTS.items():
            for name in lists:
                builder.add(level, _codes(codes.get(name), f"{CODES_KEY}: {name}", found))
        levels, spelling = builder.levels, {**base.spelling, **builder.spelling}
    switch_levels = base.switch_levels
    switches = _object(data, SWITCH_CODES_KEY, found)
    if switches is not None:
        # The worst level of a code comes first.
        first: dict[str, str] = {}
        for level in SWITCH_LEVELS:
            given = switches.get(_SWITCH_LISTS[level])
            for code in _texts(given, f"{SWITCH_CODES_KEY}: {_SWITCH_LISTS[level]}", found):
                first.setdefault(code, level)
        switch_levels = first
    frequency, duration = base.frequency, base.duration
    rules = _object(data, RULES_KEY, found)
    if rules is not None:
        before = len(found.errors)
        read = (_frequency(rules.get("FaultFrequency"), found), _duration(rules.get("FaultDuration"), found))
        if len(found.errors) == before:
            frequency, duration = read
    poll = data.get(POLL_KEY, "").strip()
    interval = base.poll_interval
    if poll:
        seconds = whole_number(poll, 30, 3600)
        if seconds is not None:
            interval = seconds
        else:
            found.wrong(POLL_KEY, f"must be a whole number of seconds, 30 to 3600, got {shown(poll)}")
    return FaultConfiguration(levels, spelling, switch_levels, frequency, duration, interval)


def _object(data: Mapping[str, str], key: str, found: Findings) -> Mapping[str, Any] | None:
    if not data.get(key, "").strip():
        return None
    try:
        document = json.loads(data[key])
    except (ValueError, RecursionError) as problem:
        found.wrong(key, f"is no JSON: {problem}")
        return None
    if not isinstance(document, dict):
        found.wrong(key, f"must be an object, got {shown(document)}")
        return None
    return document


def _texts(given: Any, path: str, found: Findings) -> list[str]:
    if given is None:
        return []
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        found.wrong(path, f"must be a list of codes, got {shown(given)}")
        return []
    return given


def _codes(given: Any, path: str, found: Findings) -> list[str]:
    codes = []
    for text in _texts(given, path, found):
        if _CODE.fullmatch(text):
            codes.append(text)
        else:
            found.wrong(path, f"must have hexadecimal codes, got {shown(text)}")
    return codes


def _number(rule: Mapping[str, Any], key: str, least: int, most: int, path: str, found: Findings) -> int:
    value = rule.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    found.wrong(f"{path}.{key}", f"must be a whole number of {least} to {most}, got {shown(value)}")
    return least


def _rules(given: Any, key: str, found: Findings) -> list[tuple[str, Mapping[str, Any], frozenset[int], str]]:
    """Path, rule, codes and level of each."""
    if given is None:
        return []
    if not isinstance(given, list):
        found.wrong(key, f"must be a list, got {shown(given)}")
        return []
    read: list[tuple[str, Mapping[str, Any], frozenset[int], str]] = []
    for at, rule in enumerate(given):
        path = f"{key}[{at}]"
        if not isinstance(rule, dict):
            found.wrong(path, f"must be an object, got {shown(rule)}")
            continue
        level = rule.get("FaultHandling")
        if level not in LEVELS[:-1]:
            found.wrong(
                f"{path}.FaultHandling", f"must be one of {', '.join(LEVELS[:-1])}, got {shown(level)}"
            )
            continue
        codes = _codes(rule.get("EventId"), f"{path}.EventId", found)
        read.append((path, rule, frozenset(int(code, 16) for code in codes), str(level)))
    return read


def _frequency(given: Any, found: Findings) -> tuple[FrequencyRule, ...]:
    rules = []
    for path, rule, codes, level in _rules(given, "FaultFrequency", found):
        release = None
        if level != MANUALLY_SEPARATE or rule.get("ReleaseTimeWindow") is not None:
            release = _number(rule, "ReleaseTimeWindow", 60, 2**32, path, found)
        window = _number(rule, "TimeWindow", 60, 864_000, path, found)
        rules.append(
            FrequencyRule(codes, window, _number(rule, "Times", 1, 100, path, found), level, release)
        )
    return tuple(rules)


def _duration(given: Any, found: Findings) -> tuple[DurationRule, ...]:
    rules = []
    for path, rule, codes, level in _rules(given, "FaultDuration", found):
        if level == MANUALLY_SEPARATE:
            found.wrong(f"{path}.FaultHandling", f"{MANUALLY_SEPARATE} is for frequencies only")
            continue
        timeout = _number(rule, "FaultTimeout", 0, 600, path, found)
        recovery = _number(rule, "RecoverTimeout", 0, 86_400, path, found)
        rules.append(DurationRule(codes, timeout, recovery, level))
    return tuple(rules)

"""Which level a fault code has, and which rules there are: shipped as data, overridden by a ConfigMap."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from itertools import chain
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ringwise.device.health.levels import LEVELS, NETWORK_LEVELS, SWITCH_LEVELS, FaultLevel
from ringwise.manifests.text.checking import decoded, one_of
from ringwise.manifests.text.errors import Findings
from ringwise.records import dataclass
from ringwise.topology.numbers import whole_number

#: The link of a chip's network port is down.
LINK_DOWN = 0x81078603
#: Faults of a chip's network port; they count for the network's health only.
NETWORK_CODES = frozenset({LINK_DOWN, 0x81078607, 0x110000002, 0x110001024})
#: The chip no longer answers.
CARD_DROPPED = 0x40F84E00
#: Severities with which an unknown code is not handled.
_MINOR = frozenset({0, 1})

CODES_KEY = "faultCode.json"
SWITCH_CODES_KEY = "SwitchFaultCode.json"
RULES_KEY = "faultCustomization.json"
POLL_KEY = "PollInterval"

#: Worst first: a code in two lists has the worse level.
_LISTS = {
    level: (f"{level}Codes", f"{level}NetworkCodes") if level in NETWORK_LEVELS else (f"{level}Codes",)
    for level in LEVELS[1:-1]
}
_SWITCH_LISTS = {level: (f"{level.removesuffix('Fault')}FaultCodes",) for level in SWITCH_LEVELS}
_CODE = re.compile(r"[0-9A-Fa-f]{1,16}", re.ASCII)


class _Code(int):
    """Written in hexadecimal."""


class _CodeText(str):
    """A code as it is written: leading zeros are part of it."""


class _Level(str):
    """A level that a rule may give."""


class _Rule(msgspec.Struct, frozen=True):
    handling: _Level = msgspec.field(name="FaultHandling")
    codes: tuple[_Code, ...] = msgspec.field(default=(), name="EventId")

    @property
    def level(self) -> str:
        # Reports are encoded, and an encoder takes plain text alone.
        return str(self.handling)


class FrequencyRule(_Rule, frozen=True, kw_only=True):
    """So often within a window of so many seconds, and the chip has this level."""

    window: Annotated[int, Meta(ge=60, le=864_000)] = msgspec.field(name="TimeWindow")
    times: Annotated[int, Meta(ge=1, le=100)] = msgspec.field(name="Times")
    #: Seconds without the fault until the level is taken back; None: an operator takes it back.
    release: Annotated[int, Meta(ge=60, le=2**32)] | None = msgspec.field(
        default=None, name="ReleaseTimeWindow"
    )


class DurationRule(_Rule, frozen=True, kw_only=True):
    """A fault that lasts longer than `timeout` seconds has this level until it is gone for `recovery`."""

    timeout: Annotated[int, Meta(ge=0, le=600)] = msgspec.field(name="FaultTimeout")
    recovery: Annotated[int, Meta(ge=0, le=86_400)] = msgspec.field(name="RecoverTimeout")


class FaultRules(msgspec.Struct, frozen=True):
    frequency: tuple[FrequencyRule, ...] = msgspec.field(default=(), name="FaultFrequency")
    duration: tuple[DurationRule, ...] = msgspec.field(default=(), name="FaultDuration")


_CodeLists = msgspec.defstruct(
    "_CodeLists", [(name, tuple[_CodeText, ...], ()) for names in _LISTS.values() for name in names]
)
_SwitchCodeLists = msgspec.defstruct(
    "_SwitchCodeLists", [(name, tuple[str, ...], ()) for names in _SWITCH_LISTS.values() for name in names]
)


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
                return FaultLevel.PRE_SEPARATE
            return level if level in NETWORK_LEVELS else FaultLevel.NOT_HANDLE
        if level is None:
            return FaultLevel.NOT_HANDLE if severity in _MINOR else FaultLevel.SEPARATE
        return level

    def written(self, code: int) -> str:
        return self.spelling.get(code) or f"{code:X}"


_KINDS: Mapping[str, Any] = {
    CODES_KEY: _CodeLists,
    SWITCH_CODES_KEY: _SwitchCodeLists,
    RULES_KEY: FaultRules,
}


@cache
def shipped_configuration() -> FaultConfiguration:
    text = resources.files(__package__).joinpath("fault_codes.json").read_text(encoding="utf-8")
    document = json.loads(text)
    parts = (msgspec.convert(document[key], kind, dec_hook=_value) for key, kind in _KINDS.items())
    return _changed(FaultConfiguration({}, {}, {}, (), ()), *parts)


def read_configuration(data: Mapping[str, str], issues: Findings) -> FaultConfiguration:
    """The shipped configuration with the parts that the ConfigMap has; a part that is wrong is left out."""
    codes, switches, rules = (
        decoded(data[key], kind, key, issues, _value) if data.get(key, "").strip() else None
        for key, kind in _KINDS.items()
    )
    if rules is not None and not _agree(rules, RULES_KEY, issues):
        rules = None
    configuration = _changed(shipped_configuration(), codes, switches, rules)
    poll = data.get(POLL_KEY, "").strip()
    interval = whole_number(poll, 30, 3600) if poll else configuration.poll_interval
    if interval is None:
        issues.invalid(POLL_KEY, poll, "must be a whole number of seconds, 30 to 3600")
        return configuration
    return replace(configuration, poll_interval=interval)


def _changed(
    base: FaultConfiguration,
    codes: msgspec.Struct | None,
    switches: msgspec.Struct | None,
    rules: FaultRules | None,
) -> FaultConfiguration:
    if codes is not None:
        levels: dict[int, str] = {}
        spelling: dict[int, str] = {}
        for text, level in _levels(codes, _LISTS).items():
            levels.setdefault(int(text, 16), level)
            spelling.setdefault(int(text, 16), text.upper())
        base = replace(base, levels=levels, spelling={**base.spelling, **spelling})
    if switches is not None:
        base = replace(base, switch_levels=_levels(switches, _SWITCH_LISTS))
    if rules is not None:
        base = replace(base, frequency=rules.frequency, duration=rules.duration)
    return base


def _levels(codes: msgspec.Struct, lists: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The level of each code: of several the worst one, which comes first."""
    result: dict[str, str] = {}
    for level, names in lists.items():
        for code in chain.from_iterable(getattr(codes, name) for name in names):
            result.setdefault(str(code), level)
    return result


def _agree(rules: FaultRules, path: str, issues: Findings) -> bool:
    """Whether the fields of each rule go together."""
    before = len(issues.errors)
    for at, frequent in enumerate(rules.frequency):
        if frequent.release is None and frequent.level != FaultLevel.MANUALLY_SEPARATE:
            field = f"{path}.FaultFrequency[{at}].ReleaseTimeWindow"
            issues.add_error(field, f"Required value: must be a whole number from 60 to {2**32}")
    for at, lasting in enumerate(rules.duration):
        if lasting.level == FaultLevel.MANUALLY_SEPARATE:
            field = f"{path}.FaultDuration[{at}].FaultHandling"
            issues.invalid(field, FaultLevel.MANUALLY_SEPARATE, "is allowed in FaultFrequency only")
    return len(issues.errors) == before


def _value(kind: type, value: object) -> object:
    if kind is _Level:
        return _Level(one_of(value, LEVELS[:-1]))
    if not isinstance(value, str) or not _CODE.fullmatch(value):
        raise ValueError("must be a hexadecimal code")
    return _CodeText(value) if kind is _CodeText else _Code(value, 16)

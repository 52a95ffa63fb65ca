"""The faults of each chip over time, and the level that follows from them.

The tracker gets the codes that a chip has at a moment, or that a fault occurred or went away, and computes
levels from the code table, from how often a fault occurred and from how long it lasts. Time comes in as Unix
milliseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import field

from ringwise.device.health.configuration import (
    NETWORK_CODES,
    DurationRule,
    FaultConfiguration,
    FrequencyRule,
)
from ringwise.device.health.levels import NORMAL_NETWORK, Assertion, FaultLevel, worst
from ringwise.records import dataclass

#: A bus error of the cores is a consequence of a memory error within these milliseconds.
_CONSEQUENCES = frozenset({0x80C98009, 0x80CB8009})
_CAUSE = 0x80E01801
_CONSEQUENCE_WINDOW = 5000

BY_FREQUENCY = "FaultFrequency"
#: A name that stood in ManuallySeparateNPU without a reason.
BY_AUTOFILL = "FaultAutofill"
AUTOFILL_CODE = "AutofillFaultCode"


@dataclass(slots=True)
class _Active:
    since: int
    severity: int | None = None
    #: Rules by which it lasted too long before, and that it came back too early to end.
    held: frozenset[DurationRule] = frozenset()


@dataclass(frozen=True, slots=True)
class _Ended:
    """A fault that went away."""

    since: int
    at: int
    held: frozenset[DurationRule] = frozenset()

    def counts(self, rule: DurationRule, now: int) -> bool:
        """Whether it lasted too long, and is not gone for long enough."""
        too_long = rule in self.held or self.at - self.since > rule.timeout * 1000
        return too_long and now - self.at < rule.recovery * 1000


@dataclass(frozen=True, slots=True)
class FaultChange:
    """A fault that occurred, went away, or was there once."""

    chip: str
    code: int
    #: OCCURRED, RECOVERED or ONCE.
    assertion: int
    at: int
    severity: int | None = None


@dataclass(frozen=True, slots=True)
class Escalation:
    """A level that a rule gave to a chip, and that outlives the fault."""

    code: int
    level: str
    kind: str
    at: int


@dataclass(frozen=True, slots=True)
class ChipFault:
    """The faults of one chip of one kind: codes in the order in which they occurred."""

    level: str
    codes: tuple[str, ...] = ()
    #: Code to the Unix time in milliseconds and its level.
    times: Mapping[str, tuple[int, str]] = field(default_factory=dict)


NO_FAULT = ChipFault(FaultLevel.NORMAL)
NO_NETWORK_FAULT = ChipFault(NORMAL_NETWORK)


@dataclass(slots=True)
class ChipFaults:
    """One chip's faults."""

    active: dict[int, _Active] = field(default_factory=dict)
    #: When each code occurred, for each rule about it as far back as the rule looks.
    occurrences: dict[tuple[int, FrequencyRule], list[int]] = field(default_factory=dict)
    #: When a code that lasted too long went away.
    ended: dict[int, _Ended] = field(default_factory=dict)
    escalations: dict[int, Escalation] = field(default_factory=dict)


#: Changes that were not taken yet are kept up to this number.
_MAX_CHANGES = 1000


class FaultTracker:
    def __init__(self, configuration: FaultConfiguration) -> None:
        self.configuration = configuration
        self._changes: deque[FaultChange] = deque(maxlen=_MAX_CHANGES)
        self._chips: dict[str, ChipFaults] = {}

    def _of(self, chip: str) -> ChipFaults:
        return self._chips.setdefault(chip, ChipFaults())

    # -- what happens ---------------------------------------------------------------------------------

    def occurred(self, chip: str, code: int, now: int, severity: int | None = None) -> None:
        faults = self._of(chip)
        active = faults.active.get(code)
        if active is not None:
            # A poll may see a fault before its event tells how severe it is.
            active.severity = severity if active.severity is None else active.severity
            return
        before = faults.ended.pop(code, None)
        rules = () if before is None else self._duration_rules(code)
        held = frozenset(rule for rule in rules if before is not None and before.counts(rule, now))
        faults.active[code] = _Active(now, severity, held)
        self._changes.append(FaultChange(chip, code, Assertion.OCCURRED, now, severity))
        self._count(chip, code, now)

    def once(self, chip: str, code: int, now: int) -> None:
        """A fault without an end: it is counted and leaves nothing behind."""
        self._changes.append(FaultChange(chip, code, Assertion.ONCE, now))
        self._count(chip, code, now)

    def recovered(self, chip: str, code: int, now: int) -> None:
        faults = self._of(chip)
        active = faults.active.pop(code, None)
        if active is not None:
            faults.ended[code] = _Ended(active.since, now, active.held)
            self._changes.append(FaultChange(chip, code, Assertion.RECOVERED, now, active.severity))

    def observe(self, chip: str, codes: Iterable[int], now: int) -> None:
        """All codes that a chip has now."""
        present = list(dict.fromkeys(codes))
        for code in [code for code in self._of(chip).active if code not in present]:
            self.recovered(chip, code, now)
        for code in present:
            self.occurred(chip, code, now)

    def _count(self, chip: str, code: int, now: int) -> None:
        faults = self._of(chip)
        before = faults.occurrences
        # Rules that the configuration no longer has are forgotten with their counts.
        faults.occurrences = {key: times for key, times in before.items() if key[0] != code}
        for rule in self.configuration.frequency:
            if code not in rule.codes:
                continue
            times = [*before.get((code, rule), ()), now]
            recent = [time for time in times if time > now - rule.window * 1000]
            if len(recent) >= rule.times:
                self._escalate(faults, Escalation(code, rule.level, BY_FREQUENCY, now))
                # Counted once: after a release the next fault is the first one again.
                recent = []
            faults.occurrences[code, rule] = recent

    @staticmethod
    def _escalate(faults: ChipFaults, escalation: Escalation) -> None:
        """A milder rule about the same code takes nothing back."""
        current = faults.escalations.get(escalation.code)
        if current is None or worst((current.level, escalation.level)) == escalation.level:
            faults.escalations[escalation.code] = escalation

    def separated(self, chip: str, now: int) -> None:
        """An operator put the chip's name into ManuallySeparateNPU, or it stood there at the start."""
        faults = self._of(chip)
        if not any(one.level == FaultLevel.MANUALLY_SEPARATE for one in faults.escalations.values()):
            faults.escalations[0] = Escalation(0, FaultLevel.MANUALLY_SEPARATE, BY_AUTOFILL, now)

    def restore(self, chip: str, escalation: Escalation) -> None:
        """An escalation from before a restart."""
        self._of(chip).escalations.setdefault(escalation.code, escalation)

    def release(self, chip: str) -> None:
        """An operator took the chip's name out of ManuallySeparateNPU."""
        faults = self._of(chip)
        faults.escalations = {
            code: one for code, one in faults.escalations.items() if one.level != FaultLevel.MANUALLY_SEPARATE
        }

    def forget_expired(self, now: int) -> None:
        """Take levels back whose release window has passed since the fault was last there."""
        for faults in self._chips.values():
            for code, escalation in list(faults.escalations.items()):
                rule = self._frequency_rule(escalation)
                if escalation.kind != BY_FREQUENCY or rule is None or rule.release is None:
                    continue
                ended = faults.ended.get(code)
                last = escalation.at if ended is None else max(ended.at, escalation.at)
                if code not in faults.active and now - last >= rule.release * 1000:
                    del faults.escalations[code]

    def _frequency_rule(self, escalation: Escalation) -> FrequencyRule | None:
        """The rule that gave a level; another one about the code where its level was changed since."""
        rules = [rule for rule in self.configuration.frequency if escalation.code in rule.codes]
        return next((rule for rule in rules if rule.level == escalation.level), rules[0] if rules else None)

    def take_changes(self) -> list[FaultChange]:
        """What occurred and went away since the last call."""
        taken = list(self._changes)
        self._changes.clear()
        return taken

    # -- what follows ------------------------------------------------------------------------------------

    def manually_separated(self) -> tuple[str, ...]:
        return tuple(
            chip
            for chip, faults in self._chips.items()
            if any(one.level == FaultLevel.MANUALLY_SEPARATE for one in faults.escalations.values())
        )

    def escalations(self) -> dict[str, tuple[Escalation, ...]]:
        """The reasons of all levels that outlive their faults, by chip."""
        return {
            chip: tuple(faults.escalations.values())
            for chip, faults in self._chips.items()
            if faults.escalations
        }

    def fault(self, chip: str, now: int, *, network: bool = False) -> ChipFault:
        """The faults of the chip itself, or those of its network port."""
        faults = self._chips.get(chip)
        normal = NORMAL_NETWORK if network else FaultLevel.NORMAL
        if faults is None:
            return NO_NETWORK_FAULT if network else NO_FAULT
        times: dict[str, tuple[int, str]] = {}
        levels: list[str] = []
        for code, active in faults.active.items():
            if (code in NETWORK_CODES) is not network or _is_consequence(code, faults):
                continue
            level = worst(
                (
                    self.configuration.level_of(code, active.severity),
                    self._level_by_duration(code, active, now),
                )
            )
            times[self.configuration.written(code)] = (active.since, level)
            levels.append(level)
        for code, ended in faults.ended.items():
            if (code in NETWORK_CODES) is network:
                # A fault that lasted too long counts until it is gone for long enough.
                rules = self._duration_rules(code)
                levels.append(worst(rule.level for rule in rules if ended.counts(rule, now)))
        levels += [one.level for one in faults.escalations.values() if (one.code in NETWORK_CODES) is network]
        level = worst(levels)
        return ChipFault(normal if level == FaultLevel.NORMAL else level, tuple(times), times)

    def _duration_rules(self, code: int) -> list[DurationRule]:
        return [rule for rule in self.configuration.duration if code in rule.codes]

    def _level_by_duration(self, code: int, active: _Active, now: int) -> str:
        return worst(
            rule.level
            for rule in self._duration_rules(code)
            if rule in active.held or now - active.since > rule.timeout * 1000
        )


def _is_consequence(code: int, faults: ChipFaults) -> bool:
    cause = faults.active.get(_CAUSE)
    if code not in _CONSEQUENCES or cause is None:
        return False
    return abs(faults.active[code].since - cause.since) <= _CONSEQUENCE_WINDOW

"""Fault codes, levels and the rules about frequency and duration."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from ringwise.device.health.configuration import (
    CARD_DROPPED,
    read_configuration,
    shipped_configuration,
)
from ringwise.device.health.levels import LEVELS, chip_is_healthy, network_is_healthy, worst
from ringwise.device.health.tracker import FaultTracker
from ringwise.manifests.text.errors import Findings
from tests.device.cases import section
from tests.examples import examples

SECOND = 1000
HOUR = 3600 * SECOND
LINK_DOWN = 0x81078603


def tracker(**rules: Any) -> FaultTracker:
    if not rules:
        return FaultTracker(shipped_configuration())
    found = Findings("test")
    configuration = read_configuration({"faultCustomization.json": json.dumps(rules)}, found)
    assert found.errors == []
    return FaultTracker(configuration)


@pytest.mark.parametrize("case", section("fault_level_worst"), ids=lambda case: case["result"])
def test_worst_level(case: dict[str, Any]) -> None:
    assert worst(case["levels"]) == case["result"]


@pytest.mark.parametrize("case", section("chip_health"), ids=lambda case: case["level"])
def test_chip_health(case: dict[str, Any]) -> None:
    assert chip_is_healthy(case["level"], case["used_by_pod"]) is (case["health"] == "Healthy")


@pytest.mark.parametrize("case", section("network_health"), ids=lambda case: case["level"])
def test_network_health(case: dict[str, Any]) -> None:
    assert network_is_healthy(case["level"]) is (case["health"] == "Healthy")


@pytest.mark.parametrize("case", section("fault_level_unknown_code"))
def test_unknown_codes(case: dict[str, Any]) -> None:
    if case["kind"] == "chip":
        assert shipped_configuration().level_of(0xDEAD, case.get("severity")) == case["result"]
    else:
        assert tracker().fault("Ascend910-0", 0, network=True).level == case["result"]


@pytest.mark.parametrize(
    ("code", "severity", "level"),
    [
        (0xDEAD, 0, "NotHandleFault"),
        (0xDEAD, 1, "NotHandleFault"),
        (0xDEAD, 3, "SeparateNPU"),
        (0x81078607, None, "NotHandleFault"),
        (LINK_DOWN, None, "NotHandleFault"),
        # In two lists: the worse one counts.
        (0xA2301001, None, "SeparateNPU"),
        (0x80E01801, None, "RestartBusiness"),
        (CARD_DROPPED, None, "RestartNPU"),
        (0x20001002, None, "SeparateNPU"),
    ],
)
def test_levels_of_codes(code: int, severity: int | None, level: str) -> None:
    assert shipped_configuration().level_of(code, severity) == level


def test_codes_are_written_as_in_the_configuration() -> None:
    assert shipped_configuration().written(0x20001002) == "020001002"
    assert shipped_configuration().written(0xABC) == "ABC"


@pytest.mark.parametrize("case", section("fault_frequency"))
def test_a_chip_s_fault_is_no_network_fault(case: dict[str, Any]) -> None:
    watched = tracker()
    for age in case["ages_s"]:
        watched.once("Ascend910-0", int(case["code"], 16), 10_000 - age * SECOND)
    assert watched.fault("Ascend910-0", 10_000, network=True).level in ("NormalNetwork", case["result"])
    assert watched.fault("Ascend910-0", 10_000).level == case["result"]


def test_a_fault_that_occurs_too_often_separates_the_chip_until_somebody_releases_it() -> None:
    watched = tracker()
    for hour in (0, 1, 2):
        watched.observe("Ascend910-4", [0x80E18005], hour * HOUR)
        watched.observe("Ascend910-4", [], hour * HOUR + SECOND)
        separated = watched.manually_separated()
        assert separated == (("Ascend910-4",) if hour == 2 else ())
    assert watched.fault("Ascend910-4", 100 * HOUR).level == "ManuallySeparateNPU"
    watched.forget_expired(10_000 * HOUR)
    assert watched.manually_separated() == ("Ascend910-4",)
    watched.release("Ascend910-4")
    assert watched.fault("Ascend910-4", 100 * HOUR).level == "NormalNPU"


def test_faults_outside_of_the_window_do_not_count() -> None:
    watched = tracker()
    for hour in (0, 13, 25):
        watched.once("Ascend910-4", 0x80E18005, hour * HOUR)
    assert watched.manually_separated() == ()


def test_each_frequency_rule_about_a_code_counts_for_itself() -> None:
    manual = "ManuallySeparateNPU"
    watched = tracker(
        FaultFrequency=[
            {
                "EventId": ["80E18005"],
                "TimeWindow": 60,
                "Times": 2,
                "FaultHandling": "RestartNPU",
                "ReleaseTimeWindow": 60,
            },
            {
                "EventId": ["80E18005"],
                "TimeWindow": 86400,
                "Times": 4,
                "FaultHandling": "ManuallySeparateNPU",
            },
        ]
    )
    levels = []
    for at in (0, 30, 3600, 7200, 7230):
        watched.once("Ascend910-4", 0x80E18005, at * SECOND)
        levels.append(watched.fault("Ascend910-4", at * SECOND).level)
    assert levels == ["NormalNPU", "RestartNPU", "RestartNPU", manual, manual]
    assert {type(level) for level in levels} == {str}, "reports are encoded"
    watched.forget_expired(1000 * HOUR)
    assert watched.manually_separated() == ("Ascend910-4",)


def test_an_event_tells_the_severity_of_a_fault_that_a_poll_saw_first() -> None:
    watched = tracker()
    watched.observe("Ascend910-4", [0xDEAD], 0)
    assert watched.fault("Ascend910-4", 0).level == "SeparateNPU"
    watched.occurred("Ascend910-4", 0xDEAD, SECOND, severity=1)
    assert watched.fault("Ascend910-4", SECOND).level == "NotHandleFault"


@pytest.mark.parametrize("before", [False, True])
def test_a_release_window_takes_the_level_back_by_itself(before: bool) -> None:
    """It begins with the last fault of those that gave the level, also if the code recovered before."""
    watched = tracker()
    if before:
        watched.observe("Ascend910-1", [LINK_DOWN], -90 * HOUR)
        watched.observe("Ascend910-1", [], -80 * HOUR)
    for minute in range(5):
        watched.once("Ascend910-1", LINK_DOWN, minute * 60 * SECOND)
    assert watched.manually_separated() == ("Ascend910-1",)
    assert watched.fault("Ascend910-1", HOUR, network=True).level == "ManuallySeparateNPU"
    watched.forget_expired(47 * HOUR)
    assert watched.manually_separated() == ("Ascend910-1",)
    watched.forget_expired(49 * HOUR)
    assert watched.manually_separated() == ()


#: Two codes of a chip, and one of its network port, that need no handling by themselves.
CODES = (0x80818200, 0x80818201, LINK_DOWN)
MANUAL = "ManuallySeparateNPU"
RULES: dict[str, list[dict[str, Any]]] = {
    "FaultFrequency": [
        {
            "EventId": CODES[:2],
            "TimeWindow": 60,
            "Times": 2,
            "FaultHandling": "RestartNPU",
            "ReleaseTimeWindow": 60,
        },
        {
            "EventId": CODES[1:2],
            "TimeWindow": 120,
            "Times": 3,
            "FaultHandling": MANUAL,
            "ReleaseTimeWindow": 90,
        },
        {"EventId": CODES[:1], "TimeWindow": 200, "Times": 4, "FaultHandling": MANUAL},
        {
            "EventId": CODES[2:],
            "TimeWindow": 60,
            "Times": 2,
            "FaultHandling": "SubHealthFault",
            "ReleaseTimeWindow": 80,
        },
    ],
    "FaultDuration": [
        {"EventId": CODES[:1], "FaultTimeout": 20, "RecoverTimeout": 30, "FaultHandling": "PreSeparateNPU"},
        {"EventId": CODES[1:], "FaultTimeout": 10, "RecoverTimeout": 60, "FaultHandling": "SeparateNPU"},
    ],
}


class Replayed:
    """The levels of a chip, found anew from all that happened to it: in seconds, code and what happened."""

    def __init__(self, history: list[tuple[int, int, str]], now: int) -> None:
        self.active: dict[int, int] = {}
        #: When each code was there: from when to when.
        self.periods: dict[int, list[tuple[int, int]]] = {code: [] for code in CODES}
        self.given: dict[int, tuple[str, int]] = {}
        times: dict[int, list[int]] = {code: [] for code in CODES}
        counted: dict[tuple[int, int], int] = {}
        for at, code, what in history:
            if what == "goes" and code in self.active:
                self.periods[code].append((self.active.pop(code), at))
            elif what == "released":
                self.given = {key: given for key, given in self.given.items() if given[0] != MANUAL}
            elif what == "checked":
                self.given = {key: given for key, given in self.given.items() if not self._is_over(key, at)}
            elif what == "once" or (what == "occurs" and code not in self.active):
                if what == "occurs":
                    self.active[code] = at
                times[code].append(at)
                for number, rule in enumerate(RULES["FaultFrequency"]):
                    new = times[code][counted.get((code, number), 0) :]
                    recent = [one for one in new if one > at - rule["TimeWindow"]]
                    if code in rule["EventId"] and len(recent) >= rule["Times"]:
                        counted[code, number] = len(times[code])
                        level = rule["FaultHandling"]
                        if worst([level, self.given.get(code, ("NormalNPU", 0))[0]]) == level:
                            self.given[code] = (level, at)
        self._now = now

    def _is_over(self, code: int, now: int) -> bool:
        level, at = self.given[code]
        rules = [rule for rule in RULES["FaultFrequency"] if code in rule["EventId"]]
        (after,) = [rule.get("ReleaseTimeWindow") for rule in rules if rule["FaultHandling"] == level]
        last = max(at, self.periods[code][-1][1] if self.periods[code] else 0)
        return after is not None and code not in self.active and now - last >= after

    def level(self, codes: tuple[int, ...]) -> str:
        """Without the levels that the codes have by themselves."""
        levels = [self.given[code][0] for code in codes if code in self.given]
        for rule in RULES["FaultDuration"]:
            timeout, recovery = rule["FaultTimeout"], rule["RecoverTimeout"]
            if any(self._counts(code, timeout, recovery) for code in codes if code in rule["EventId"]):
                levels.append(rule["FaultHandling"])
        return worst(levels)

    def _counts(self, code: int, timeout: int, recovery: int) -> bool:
        """Whether the code lasted too long, and was not gone for long enough since, also in between."""
        counts, last, periods = False, 0, list(self.periods[code])
        if code in self.active:
            periods.append((self.active[code], self._now))
        for since, end in periods:
            counts = (counts and since - last < recovery) or end - since > timeout
            last = end
        return counts and (code in self.active or self._now - last < recovery)


@pytest.mark.parametrize("seed", range(examples(80)))
def test_levels_of_rules_follow_from_all_that_happened(seed: int) -> None:
    rules = {
        kind: [{**rule, "EventId": [f"{code:X}" for code in rule["EventId"]]} for rule in written]
        for kind, written in RULES.items()
    }
    watched, rng, now, chip = tracker(**rules), random.Random(seed), 1000, "Ascend910-0"
    history: list[tuple[int, int, str]] = []
    for _ in range(150):
        now += rng.choice((0, 1, 5, 10, 20, 30, 60, 90))
        code, what = (
            rng.choice(CODES),
            rng.choice(("occurs", "occurs", "goes", "once", "released", "checked")),
        )
        history.append((now, code, what))
        match what:
            case "occurs":
                watched.occurred(chip, code, now * SECOND)
            case "goes":
                watched.recovered(chip, code, now * SECOND)
            case "once":
                watched.once(chip, code, now * SECOND)
            case "released":
                watched.release(chip)
            case "checked":
                watched.forget_expired(now * SECOND)
        replayed = Replayed(history, now)
        for network, codes in ((False, CODES[:2]), (True, CODES[2:])):
            fault = watched.fault(chip, now * SECOND, network=network)
            levels = watched.configuration.levels
            active = [code for code in replayed.active if code in codes]
            level = worst([replayed.level(codes), *(levels[code] for code in active)])
            assert fault.level.removesuffix("NPU").removesuffix("Network") == level.removesuffix("NPU"), (
                history
            )
            assert [int(one, 16) for one in fault.codes] == active
        separated = any(level == MANUAL for level, _ in replayed.given.values())
        assert watched.manually_separated() == ((chip,) if separated else ())


def test_a_link_that_is_down_for_long_and_its_recovery() -> None:
    watched = tracker()
    chip = "Ascend910-6"
    watched.occurred(chip, LINK_DOWN, 0)
    assert watched.fault(chip, 20 * SECOND, network=True).level == "NotHandleFault"
    late = watched.fault(chip, 21 * SECOND, network=True)
    assert (late.level, late.codes) == ("PreSeparateNPU", ("81078603",))
    assert late.times == {"81078603": (0, "PreSeparateNPU")}
    watched.recovered(chip, LINK_DOWN, 30 * SECOND)
    assert watched.fault(chip, 89 * SECOND, network=True).level == "PreSeparateNPU"
    assert watched.fault(chip, 90 * SECOND, network=True).level == "NormalNetwork"
    assert watched.fault(chip, 25 * SECOND).level == "NormalNPU"


def test_a_link_that_comes_up_for_a_moment_counts_as_down_until_it_is_up_for_long_enough() -> None:
    """Otherwise a link that flaps would get new pods each time it goes down again."""
    watched = tracker()
    chip = "Ascend910-6"
    watched.occurred(chip, LINK_DOWN, 0)
    watched.recovered(chip, LINK_DOWN, 30 * SECOND)
    for moment in (35, 80):
        watched.occurred(chip, LINK_DOWN, moment * SECOND)
        assert watched.fault(chip, (moment + 1) * SECOND, network=True).level == "PreSeparateNPU"
        watched.recovered(chip, LINK_DOWN, (moment + 5) * SECOND)
        assert watched.fault(chip, (moment + 6) * SECOND, network=True).level == "PreSeparateNPU"
    assert watched.fault(chip, 144 * SECOND, network=True).level == "PreSeparateNPU"
    assert watched.fault(chip, 145 * SECOND, network=True).level == "NormalNetwork"
    # After it was up for long enough the next time is the first one again.
    watched.occurred(chip, LINK_DOWN, 146 * SECOND)
    assert watched.fault(chip, 166 * SECOND, network=True).level == "NotHandleFault"


@pytest.mark.parametrize("code", [0x80C98009, 0x80CB8009])
@pytest.mark.parametrize(
    ("since", "hidden"),
    [(4_999, False), (5_000, True), (6_000, True), (14_000, True), (15_000, True), (15_001, False)],
)
def test_a_bus_error_within_5_seconds_of_a_memory_error_is_its_consequence(
    code: int, since: int, hidden: bool
) -> None:
    watched = tracker()
    watched.occurred("Ascend910-0", 0x80E01801, 10 * SECOND)
    watched.occurred("Ascend910-0", code, since)
    codes = watched.fault("Ascend910-0", HOUR).codes
    assert codes == (("80E01801",) if hidden else ("80E01801", f"{code:X}"))


def test_codes_stand_in_the_order_in_which_they_occurred() -> None:
    watched = tracker()
    watched.observe("Ascend910-0", [0x80E18402], 5)
    watched.observe("Ascend910-0", [0x80E18401, 0x80E18402], 9)
    fault = watched.fault("Ascend910-0", 10)
    assert fault.codes == ("80E18402", "80E18401")
    assert fault.times["80E18402"][0] == 5


def test_a_name_without_a_reason_gets_one() -> None:
    watched = tracker()
    watched.separated("Ascend910-3", 7)
    assert watched.escalations()["Ascend910-3"][0].kind == "FaultAutofill"
    assert watched.fault("Ascend910-3", 8).level == "ManuallySeparateNPU"


# -- the ConfigMap


def test_the_config_map_replaces_the_code_table() -> None:
    found = Findings("mindx-dl-fault-config")
    data = {"faultCode.json": json.dumps({"SeparateNPUCodes": ["80e18402"], "NotHandleFaultCodes": ["0A1"]})}
    configuration = read_configuration(data, found)
    assert found.errors == []
    assert configuration.level_of(0x80E18402) == "SeparateNPU"
    assert configuration.level_of(0xA1) == "NotHandleFault"
    assert configuration.written(0xA1) == "0A1"
    assert configuration.frequency == shipped_configuration().frequency


def test_a_network_code_without_a_level_separates_the_chip_when_it_is_idle() -> None:
    configuration = read_configuration({"faultCode.json": "{}"}, Findings("t"))
    assert configuration.level_of(0x81078607) == "PreSeparateNPU"
    restart = read_configuration({"faultCode.json": '{"RestartNPUCodes": ["81078607"]}'}, Findings("t"))
    assert restart.level_of(0x81078607) == "NotHandleFault"


def test_switch_codes_of_the_config_map() -> None:
    data = {
        "SwitchFaultCode.json": json.dumps(
            {"SubHealthFaultCodes": ["[x]"], "SeparateFaultCodes": ["[x]", "[y]"]}
        )
    }
    configuration = read_configuration(data, Findings("t"))
    assert configuration.switch_levels == {"[x]": "Separate", "[y]": "Separate"}


def frequency(**rule: Any) -> dict[str, str]:
    known = {"EventId": ["1"], "TimeWindow": 60, "Times": 1, "FaultHandling": "ManuallySeparateNPU"}
    return {"faultCustomization.json": json.dumps({"FaultFrequency": [{**known, **rule}]})}


def duration(**rule: Any) -> dict[str, str]:
    known = {"EventId": [], "FaultTimeout": 1, "RecoverTimeout": 1, "FaultHandling": "SeparateNPU"}
    return {"faultCustomization.json": json.dumps({"FaultDuration": [{**known, **rule}]})}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"faultCode.json": "{"}, "faultCode.json: must be valid JSON"),
        ({"faultCode.json": "[]"}, "faultCode.json: Invalid value: a list: must be an object"),
        (
            {"faultCode.json": '{"SeparateNPUCodes": ["xyz"]}'},
            'SeparateNPUCodes[0]: Invalid value: "xyz": must be a hexadecimal code',
        ),
        (
            {"faultCode.json": '{"SeparateNPUCodes": 3}'},
            "faultCode.json.SeparateNPUCodes: Invalid value: 3: must be a list",
        ),
        (
            {"PollInterval": "5"},
            'PollInterval: Invalid value: "5": must be a whole number of seconds, 30 to 3600',
        ),
        ({"PollInterval": "9" * 5000}, "PollInterval"),
        (
            frequency(FaultHandling="Sometimes"),
            '[0].FaultHandling: Invalid value: "Sometimes": must be one of ManuallySeparateNPU',
        ),
        (frequency(TimeWindow=5), "TimeWindow: Invalid value: 5: must be a whole number from 60 to 864000"),
        (frequency(Times=101), "Times: Invalid value: 101: must be a whole number from 1 to 100"),
        (
            frequency(FaultHandling="SeparateNPU"),
            "ReleaseTimeWindow: Required value: must be a whole number from 60 to 4294967296",
        ),
        (duration(FaultHandling="ManuallySeparateNPU"), "is allowed in FaultFrequency only"),
        (
            duration(FaultTimeout=601),
            "FaultTimeout: Invalid value: 601: must be a whole number from 0 to 600",
        ),
        (
            duration(RecoverTimeout=True),
            "RecoverTimeout: Invalid value: true: must be a whole number from 0 to 86400",
        ),
    ],
)
def test_a_wrong_part_is_reported_and_left_out(data: dict[str, str], says: str) -> None:
    found = Findings("ConfigMap kube-system/mindx-dl-fault-config")
    configuration = read_configuration(data, found)
    assert any(says in str(error) for error in found.errors), [str(error) for error in found.errors]
    assert configuration == shipped_configuration()


def test_the_shipped_data_has_every_level_and_rule() -> None:
    configuration = shipped_configuration()
    assert len(configuration.levels) == 802
    assert set(configuration.levels.values()) == set(LEVELS) - {"ManuallySeparateNPU", "NormalNPU"}
    assert [rule.times for rule in configuration.frequency] == [2, 3, 5]
    assert len(configuration.frequency[0].codes) == 41
    assert [(rule.timeout, rule.recovery) for rule in configuration.duration] == [(20, 60)]
    assert set(configuration.switch_levels.values()) == {
        "NotHandle",
        "SubHealthFault",
        "RestartRequest",
        "Separate",
    }


@pytest.mark.parametrize("text", ["000030" + "0" * 5000, "29", "3601", "-30", "x", "\u0663\u0660"])
def test_a_wrong_poll_interval_is_named(text: str) -> None:
    found = Findings("t")
    configuration = read_configuration({"PollInterval": text}, found)
    assert configuration.poll_interval == 300
    assert [error for error in found.errors if "30 to 3600" in str(error)]


def test_the_worst_level_of_a_switch_code_counts_in_a_long_list_too() -> None:
    # As many as a ConfigMap can hold; quadratic work would stop the plugin for minutes.
    many = [f"[0x{number:08x},na,na,na]" for number in range(30_000)]
    lists = {"NotHandleFaultCodes": many, "SeparateFaultCodes": many[:1]}
    data = {"SwitchFaultCode.json": json.dumps(lists)}
    levels = read_configuration(data, Findings("t")).switch_levels
    assert (len(levels), levels[many[0]], levels[many[1]]) == (30_000, "Separate", "NotHandle")

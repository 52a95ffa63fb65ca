"""What an operator names: a node, or all nodes of a leaf switch or of a SuperPoD."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any

from ringwise.durations import (
    DAY,
    SECOND,
    clock_duration,
    go_duration,
    plain_duration,
    time_text,
    with_zone,
)
from ringwise.grammar import quoted
from ringwise.manifests.objects.chips import chip_of
from ringwise.manifests.text.quantities import NotReadableError, nanoseconds
from ringwise.records import dataclass
from ringwise.scheduler.view import SchedulerView
from ringwise.state.model import Isolation
from ringwise.topology.natural import natural_key
from ringwise.topology.nearest import did_you_mean
from ringwise.topology.numbers import whole_number

NODE, SWITCH, SUPERPOD = "node", "switch", "superpod"
#: How a target is written.
FORMS = "NODE, switch/ADDRESS or superpod/ID"

#: Units as they are spelled out: `2hours` is `2h`.
_UNIT = re.compile(r"(?<=[0-9])(?:sec(?:ond)?|min(?:ute)?|hour|day)s?\b", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
_TIME_OF_DAY = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?", re.ASCII)
_TIMES_OF_DAY = {"midnight": "00:00", "noon": "12:00"}


class UnknownTargetError(LookupError):
    """No node, leaf switch or SuperPoD has that name."""


@dataclass(frozen=True, slots=True)
class Target:
    kind: str
    name: str
    #: In natural order.
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        return {NODE: "node", SWITCH: "leaf switch", SUPERPOD: "SuperPoD"}[self.kind] + f" {self.name}"


def named(text: str) -> tuple[str, str]:
    """Kind and name as they are written, whether they exist or not. A bare name is a node."""
    kind, slash, name = text.partition("/")
    return (kind, name) if slash and kind in (NODE, SWITCH, SUPERPOD) else (NODE, text)


def isolation_of(kind: str, name: str, *chips: str, **facts: Any) -> Isolation:
    """The Isolation of a target, or of chips of a node. Raises ValueError."""
    if chips and kind != NODE:
        raise ValueError(f"chips require a node, and {kind}/{name} is a {kind}")
    for chip in chips:
        if chip_of(chip) is None:
            raise ValueError(f'invalid chip "{chip}": expected a name like Ascend910-3')
    if kind == SWITCH:
        return Isolation(switch=name, **facts)
    if kind == SUPERPOD:
        number = whole_number(name)
        if number is None:
            raise ValueError(f'invalid SuperPoD "{name}": expected a number')
        return Isolation(superpod=number, **facts)
    return Isolation(name, chips, **facts)


def isolation_answer(
    one: Isolation, changed: bool, now: int, existing: Iterable[Isolation] = ()
) -> dict[str, Any]:
    """The result of a request to isolate something or to end an isolation; `existing`: after it."""
    chips = {chip for other in existing if one.node and other.node == one.node for chip in other.chips}
    return {
        "target": one.target,
        "title": one.title,
        "changed": changed,
        "now": now,
        "start": one.start,
        "isolated_chips": sorted(chips, key=natural_key),
    }


def span_of(text: str) -> int | None:
    """A duration that a person writes; None for anything else."""
    text = _UNIT.sub(lambda unit: unit[0][0], text)
    if "d" in text:
        return plain_duration(text)
    return clock_duration(text) if ":" in text else go_duration(text)


def is_time_of_day(text: str) -> bool:
    """Whether it is a time such as 18:00, noon or midnight, of which `moment` returns the next one."""
    return _time_of_day(text) is not None


def _time_of_day(text: str) -> re.Match[str] | None:
    return _TIME_OF_DAY.fullmatch(_TIMES_OF_DAY.get(text, text))


def moment(text: str, now: int) -> int:
    """The time of a drain or a reservation, in nanoseconds: a time, a UTC day, or a duration from now.

    Raises ValueError with one line that says what is allowed.
    """
    if text == "tomorrow":
        return (now // DAY + 1) * DAY
    after = text.removeprefix("now+" if text.startswith("now+") else "+")
    # As in Slurm: a number is seconds from now, and a time of day is the next one.
    ahead = int(after) * SECOND if text == f"now+{after}" and _NUMBER.fullmatch(after) else span_of(after)
    if match := _time_of_day(text):
        hours, minutes, seconds = (int(part or 0) for part in match.groups())
        ahead = ((hours * 3600 + minutes * 60 + seconds) * SECOND - now - 1) % DAY + 1
    try:
        result = now + ahead if ahead is not None else nanoseconds(with_zone(text))
    except NotReadableError:
        raise ValueError(
            f"invalid time {quoted(text)}: expected a time such as 2026-01-31T08:00:00Z, a UTC day or time "
            "such as 2026-01-31, 18:00 or tomorrow, or a duration from now such as 90m, +2h, 7d or now+1hour"
        ) from None
    # Entries have whole seconds.
    result -= result % SECOND
    if result <= now:
        raise ValueError(f"{quoted(text)} is in the past: it is {time_text(now)}")
    return result


def find_target(view: SchedulerView, text: str) -> Target:
    """Raises UnknownTargetError. A bare name is a node, else a leaf switch."""
    kind, slash, name = text.partition("/")
    if slash and kind == SWITCH:
        return _switch(view, name)
    if slash and kind == SUPERPOD:
        return _superpod(view, name)
    state = view.cluster
    if kind == NODE:
        # As kubectl takes it; a bare name has no slash.
        text = name or text
    number = state.node_id.get(text)
    if number is not None and state.nodes[number] is not None:
        return Target(NODE, text, (text,))
    if _switch_names(view).count(text):
        return _switch(view, text)
    if slash:
        raise UnknownTargetError(f"invalid target {quoted(text)}: expected {FORMS}")
    # Nodes of many clusters are named by an address, too: such a name may mean either.
    what = "node or leaf switch" if _is_address(text) else "node"
    names = [state.names[one] for one in state.existing_nodes()]
    names += [f"switch/{one}" for one in _switch_names(view)]
    names += [f"superpod/{one}" for one in view.superpods().nodes_of]
    raise UnknownTargetError(f'{what} "{text}" not found{did_you_mean(text, names)}')


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _switch_names(view: SchedulerView) -> list[str]:
    resolved = view.switches()
    return [] if resolved is None else [switch.ip for switch in resolved.topology.switches]


def _switch(view: SchedulerView, name: str) -> Target:
    resolved = view.switches()
    names = _switch_names(view)
    if resolved is None or name not in names:
        near = did_you_mean(name, names) if names else ": the cluster has no topology"
        raise UnknownTargetError(f'leaf switch "{name}" not found{near}')
    return Target(SWITCH, name, tuple(one.node for one in resolved.nodes[names.index(name)]))


def _superpod(view: SchedulerView, name: str) -> Target:
    superpods = view.superpods().nodes_of
    number = whole_number(name)
    if number is None or number not in superpods:
        listed = ", ".join(map(str, list(superpods)[:8])) + (", ..." if len(superpods) > 8 else "")
        raise UnknownTargetError(f'SuperPoD "{name}" not found; existing SuperPoDs: {listed or "none"}')
    names = view.cluster.names
    members = tuple(names[node] for node in superpods[number] if isinstance(node, int))
    return Target(SUPERPOD, str(number), members)

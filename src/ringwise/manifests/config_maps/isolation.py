"""What an operator took out of use: the ConfigMap `ringwise-isolation`.

A data key is the node's name, node and chip with an underscore between (neither has one), or
`switch__ADDRESS` or `superpod__ID`. The value says who did it, when and why. Its `name` is the address of a
switch, which a key may not hold as it is, and its `from` the time of a drain that lies ahead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ringwise.manifests.objects.chips import chip_of
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.quantities import NotReadableError, nanoseconds, rfc3339
from ringwise.state.model import Isolation, Isolations
from ringwise.versions import RECORD_VERSION, entry_problem

SWITCH, SUPERPOD = "switch", "superpod"
#: What a data key may hold beside an underscore.
_PLAIN = re.compile(r"[^-.a-zA-Z0-9]")


class _Entry(msgspec.Struct, omit_defaults=True):
    version: int = 0
    by: str = ""
    at: str = ""
    reason: str = ""
    name: str = ""
    start: str = msgspec.field(default="", name="from")


def entry_of(one: Isolation) -> tuple[str, str]:
    """Key and value of an entry."""
    key, name = f"{one.node}_{one.chip}" if one.chip else one.node, ""
    if one.switch or one.superpod:
        kind, name = (SWITCH, one.switch) if one.switch else (SUPERPOD, one.superpod)
        # Each other character as its number: different names have different keys.
        key = f"{kind}__" + _PLAIN.sub(lambda found: f"_{ord(found[0]):x}_", name)
    start = "" if one.start is None else rfc3339(one.start)
    return key, msgspec.json.encode(_Entry(RECORD_VERSION, one.by, one.at, one.reason, name, start)).decode()


def read_isolations(data: Mapping[str, str | None]) -> list[Isolation]:
    """All entries. One that cannot be read, or of another version, isolates now: its key says what."""
    found = []
    for key, value in sorted(data.items()):
        try:
            entry = msgspec.json.decode(value or "{}", type=_Entry)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            entry = _Entry(reason=value or "")
        if problem := entry_problem(entry.version):
            entry = _Entry(reason=problem, name=entry.name)
        found.append(_isolation(key, entry))
    return found


def isolations_from_data(data: Mapping[str, str], found: Findings) -> Isolations:
    entries = read_isolations(data)
    for one in entries:
        if one.chip and one.number is None:
            found.add_error(f"data.{one.node}_{one.chip}", f"{one.chip!r} is no chip's name")
    return Isolations(tuple(entries))


def _isolation(key: str, entry: _Entry) -> Isolation:
    node, _, chip = key.partition("_")
    switch = superpod = ""
    if node in (SWITCH, SUPERPOD) and chip.startswith("_"):
        name = entry.name or chip[1:]
        switch, superpod = (name, "") if node == SWITCH else ("", name)
        node = chip = ""
    start: int | None = None
    if entry.start:
        try:
            start = nanoseconds(entry.start)
        except NotReadableError:
            # It keeps jobs off now rather than never.
            start = None
    return Isolation(
        node,
        chip,
        entry.by,
        entry.at,
        entry.reason,
        chip_of(chip),
        switch=switch,
        superpod=superpod,
        start=start,
    )


def isolated_chips(isolations: list[Isolation], node: str, chips: tuple[str, ...]) -> dict[str, Isolation]:
    """The chips of a node that are isolated now, by themselves or with the node."""
    found: dict[str, Isolation] = {}
    for one in isolations:
        if one.node == node and one.start is None:
            found.update({chip: one for chip in chips if one.chip in ("", chip)})
    return found
